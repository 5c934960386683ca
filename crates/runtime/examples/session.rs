//! A live session: many prompts to one agent, with a watcher and a decider.
//!
//! `cargo run -p bowline --example session -- claude "Plan the parser" "Now write it"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::roster::Roster;
use bowline::{Kind, Risk};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let prompts: Vec<String> = args.collect();

    // Without the user's manifests, only the built-in providers are known.
    let session = bowline::session(provider).with(|task| task.roster(Roster::from_env()));
    let session = session.name("parser").open().await?;
    let mut watch = session.watch_from(1)?;
    for prompt in &prompts {
        // The first one begins a turn. Each further one waits for the end of the turn before it.
        let receipt = session.send(prompt.as_str()).await?;
        println!("{receipt:?}");
    }
    let mut turns = 0;
    while turns < prompts.len() {
        let Some(event) = watch.next().await? else { break };
        if let Some(approval) = session.approval(&event) {
            if approval.risk() == Risk::Low {
                approval.allow().await?;
            } else {
                approval.deny("only reading is allowed here").await?;
            }
        }
        if let Kind::TextDelta(delta) = &event.kind {
            println!("{}", delta.text);
        } else if let Kind::TurnEnded(ended) = &event.kind {
            println!("turn {}: {:?}", event.turn.unwrap_or_default(), ended.outcome);
            turns += 1;
        }
    }
    let record = session.stop().await?;
    println!("resume it: bowline start --resume {}", record.session);
    Ok(())
}
