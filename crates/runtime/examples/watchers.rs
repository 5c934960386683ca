//! Several watchers of one run: the turn has one reader, and the journal has as many as you like.
//!
//! `cargo run -p bowline --example watchers -- claude "Audit this repository"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;
use std::time::Duration;

use bowline::journal::{Home, JournalError, Reader};
use bowline::roster::Roster;
use bowline::{Event, Kind};

/// Reads all events of a session, also while the run goes on, and returns when the run is over.
fn follow(session: &Path, from: u64, mut each: impl FnMut(&Event)) -> Result<(), JournalError> {
    let mut reader = Reader::open(session)?;
    reader.seek(from)?;
    loop {
        // Before the events are read: a runner that exits after this line has left nothing that the loop misses.
        let live = reader.is_live()?;
        while let Some(event) = reader.next_event()? {
            // `seek` stops at the end of the file, so lower numbers follow if `from` is not written yet.
            if event.seq >= from {
                each(&event);
            }
        }
        if !live {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let prompt = args.next().unwrap_or_else(|| "Audit this repository".to_owned());
    let home = Home::from_env()?;

    let mut turn = bowline::task(prompt)
        .provider(provider)
        // Also the providers of the user's manifests.
        .roster(Roster::from_env())
        .home(home.clone())
        .start()
        .await?;
    let session = home.session_dir(turn.session())?;

    // A log, from the first event on.
    let dir = session.clone();
    let log = tokio::task::spawn_blocking(move || {
        let mut lines = 0_u64;
        follow(&dir, 1, |_| lines += 1).map(|()| lines)
    });
    // A counter that comes later, and is interested in the events from number 3 on.
    let tools = tokio::task::spawn_blocking(move || {
        let (mut first, mut tools) = (None, 0_u64);
        let count = |event: &Event| {
            first.get_or_insert(event.seq);
            tools += u64::from(matches!(event.kind, Kind::ToolStarted(_)));
        };
        follow(&session, 3, count).map(|()| (first, tools))
    });

    // The turn itself: the screen. It gets events as they come, without polling.
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
