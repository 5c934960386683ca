//! One interface for every provider: which of them are installed, and what each answers to a prompt.
//!
//! `cargo run -p bowline --example adapter -- claude codex "Name this branch: fixes login race"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::adapter::{ProviderAdapter, adapter};
use bowline::{Kind, Request};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    bowline::init();
    let mut providers: Vec<String> = std::env::args().skip(1).collect();
    let prompt = providers.pop().ok_or("usage: adapter PROVIDER... PROMPT")?;
    for name in providers {
        ask(&adapter(name)?, &prompt).await?;
    }
    Ok(())
}

/// Knows nothing of a provider but its six calls.
async fn ask(adapter: &dyn ProviderAdapter, prompt: &str) -> Result<(), Box<dyn std::error::Error>> {
    let found = match adapter.detect().await {
        Ok(found) => found,
        Err(missing) => {
            println!("{}: {missing}", adapter.provider());
            return Ok(());
        }
    };
    let steers = adapter.capabilities().await?.steers;
    let version = found.version.as_deref().unwrap_or("unknown");
    println!("{}: version {version}, takes input during a turn: {steers}", adapter.provider());

    let session = adapter.start(Request { prompt: prompt.to_owned(), ..Request::default() }).await?;
    let mut events = adapter.events(&session, 1)?;
    while let Some(event) = events.next().await? {
        if let Some(approval) = session.approval(&event) {
            approval.deny("only an answer is wanted").await?;
        }
        if let Kind::TextDelta(delta) = &event.kind {
            println!("{}", delta.text);
        } else if let Kind::TurnEnded(ended) = &event.kind {
            println!("{:?}", ended.outcome);
            break;
        }
    }
    adapter.stop(session).await?;
    Ok(())
}
