//! Watch a turn: events as they come, then the record, in which a failure is data.
//!
//! `cargo run -p bowline --example watch -- codex "Audit this repository"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::Kind;

#[tokio::main]
async fn main() -> Result<(), bowline::Error> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "codex".to_owned());
    let prompt = args.next().unwrap_or_else(|| "Audit this repository".to_owned());

    let mut turn = bowline::task(prompt).provider(provider).start().await?;
    while let Some(event) = turn.next().await {
        if let Kind::TextDelta(delta) = &event.kind {
            print!("{}", delta.text);
        } else if let Kind::ToolStarted(tool) = &event.kind {
            println!("[{}]", tool.name);
        }
    }
    let record = turn.outcome().await?;
    println!("\n{} in {:?}, {:?}", record.outcome_word(), record.took, record.usage);
    if let Some(failure) = &record.failure {
        println!("{}: {}", failure.category, failure.message);
    }
    for file in &record.files {
        println!("changed: {}", file.path);
    }
    Ok(())
}
