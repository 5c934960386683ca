//! Several agents side by side: the same request to each, each answer under its name.

use std::sync::Arc;

use bowline::config::Config;
use bowline::{Control, Record};
use bowline_providers::views::{Entry, Setup};
use tokio::task::JoinSet;

use super::choose::Asked;
use super::{AT_ONCE, Sent, Signals, Stopped, exit_code, request, runtime};
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault, form};
use crate::output::Stdout;
use crate::output::sink::Format;

/// What came of one of them.
struct Done {
    name: String,
    record: Record,
    /// What a format for programs prints of it.
    printed: String,
}

/// Runs them all, and shows each as it ends. The exit code is the worst of them.
pub(super) fn run(
    args: &RunArgs,
    config: &Arc<Config>,
    format: Format,
    prompt: &str,
    all: &[Asked],
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    if args.dry_run
        || args.resume.is_some()
        || args.continue_latest
        || args.binary.is_some()
        || args.profile.is_some()
    {
        let message = "`--dry-run`, `--resume`, `--continue`, `--binary` and `--profile` are for one agent";
        return Err(CommandError::new(Fault::Usage, message).hint("name one provider"));
    }
    let view = match format {
        Format::Human => None,
        Format::View(view) => Some(view),
    };
    runtime()?.block_on(async {
        let mut signals = Signals::new().map_err(|error| {
            CommandError::new(Fault::Internal, "could not listen to signals").caused_by(error)
        })?;
        let (mut runs, mut controls) = (JoinSet::new(), Vec::new());
        for asked in all {
            let task = request::task(args, prompt, Some(asked), None)?.config(config.clone());
            let turn = task.start().await.map_err(CommandError::from)?;
            controls.push(turn.control());
            runs.spawn(follow(asked.name().to_owned(), turn, view));
        }
        let (mut worst, mut stopped) = (0, Stopped::No);
        loop {
            tokio::select! {
                biased;
                sent = signals.next() => if let Sent::Stop(how) = sent {
                    let stop = if stopped == Stopped::No { Control::cancel } else { Control::kill };
                    controls.iter().for_each(stop);
                    stopped = how;
                },
                done = runs.join_next() => match done {
                    None => break,
                    Some(Ok(done)) => {
                        let done = done?;
                        show(&done, view, stdout)?;
                        worst = worst.max(exit_code(&done.record, stopped));
                    }
                    Some(Err(error)) => {
                        return Err(CommandError::new(Fault::Internal, "a run was lost").caused_by(error));
                    }
                },
            }
        }
        if worst == 0 { Ok(()) } else { Err(CommandError::told(worst)) }
    })
}

/// Follows one of them to its end.
async fn follow(
    name: String,
    mut turn: bowline::Turn,
    view: Option<&'static Entry>,
) -> Result<Done, CommandError> {
    let mut view = view.map(|entry| (entry.make)(&Setup { provider: Some(name.clone()), ours: true }));
    let mut printed = String::new();
    loop {
        let events = turn.next_batch(AT_ONCE).await.map_err(CommandError::from)?;
        if events.is_empty() {
            break;
        }
        if let Some(view) = &mut view {
            events.iter().for_each(|event| view.event(event, &mut printed));
        }
    }
    if let Some(view) = &mut view {
        view.finish(&mut printed);
    }
    let record = turn.outcome().await.map_err(CommandError::from)?;
    Ok(Done { name, record, printed })
}

fn show(done: &Done, view: Option<&Entry>, stdout: &mut Stdout) -> Result<(), CommandError> {
    use std::io::Write as _;
    let Done { name, record, printed } = done;
    if view.is_some() {
        stdout.print(printed)?;
    } else {
        let text = record.text.as_deref().unwrap_or_default();
        let text = bowline_providers::ansi::harmless(text);
        stdout.print(&format!("== {name} ==\n{}\n\n", text.trim_end()))?;
    }
    stdout.flush()?;
    if !record.is_completed() {
        let why = record.failure.as_ref().map(|failure| failure.message.clone());
        let text =
            form(&format!("{name}: the turn was {}", record.outcome_word()), &Vec::from_iter(why), &[]);
        // Nothing can be done about a standard error that does not take the message.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}
