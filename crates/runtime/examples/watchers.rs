//! Several watchers of one run, each with its own cursor.
//!
//! `cargo run -p bowline --example watchers -- claude "Audit this repository"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::Kind;
use bowline::roster::Roster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let prompt = args.next().unwrap_or_else(|| "Audit this repository".to_owned());

    // With the providers of the user's manifests, too.
    let task = bowline::task(prompt).provider(provider).roster(Roster::from_env());
    let mut turn = task.start().await?;

    // A log, from the first event on.
    let mut all = turn.watch_from(1)?;
    let log = tokio::spawn(async move {
        let mut lines = 0_u64;
        while all.next().await?.is_some() {
            lines += 1;
        }
        Ok::<_, bowline::journal::JournalError>(lines)
    });
    // A counter that is interested in the events from number 3 on.
    let mut some = turn.watch_from(3)?;
    let tools = tokio::spawn(async move {
        let (mut first, mut tools) = (None, 0_u64);
        while let Some(event) = some.next().await? {
            first.get_or_insert(event.seq);
            tools += u64::from(matches!(event.kind, Kind::ToolStarted(_)));
        }
        Ok::<_, bowline::journal::JournalError>((first, tools))
    });

    // The turn itself: the screen.
    let mut last = 0;
    while let Some(event) = turn.next().await {
        last = event.seq;
        if let Kind::TextDelta(delta) = &event.kind {
            print!("{}", delta.text);
        }
    }
    let record = turn.outcome().await?;
    println!("\n{}, {last} events", record.outcome_word());
    println!("the log has {} events", log.await??);
    let (first, tools) = tools.await??;
    println!("from event {} on there were {tools} tool calls", first.unwrap_or_default());
    Ok(())
}
