//! Stop a turn from another task, and keep what it has said. All sessions of a key end together, from any process.
//!
//! `cargo run -p bowline --example cancel -- claude`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use bowline::registry::Registry;

#[tokio::main]
async fn main() -> Result<(), bowline::Error> {
    bowline::init();
    let provider = std::env::args().nth(1).unwrap_or_else(|| "claude".to_owned());
    let task = || bowline::task("Count to a million").provider(&provider).key("counting");

    let turn = task().start().await?;
    let control = turn.control();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        control.cancel();
    });
    let record = turn.outcome().await?;
    println!("{}: {}", record.outcome_word(), record.text.unwrap_or_default());
    println!("left behind: {:?}", record.survivors);

    let turn = task().start().await?;
    let killed = Registry::from_env()?.kill_all("counting", "that is enough").await?;
    println!("{killed:?}, {}", turn.outcome().await?.outcome_word());
    Ok(())
}
