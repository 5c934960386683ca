//! Several agents side by side: the same request to each, each answer under its name. They share one budget.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline::Fallback;
use bowline::budget::Pot;
use bowline::config::Config;
use bowline::detect::{Surroundings, find_anywhere};
use bowline::journal::Reader;
use bowline::route::Beside;
use bowline::{Control, Record, Turn};
use bowline_protocol::{Event, Millis};
use bowline_providers::ansi;
use bowline_providers::manifest::Chosen;
use bowline_providers::views::{self, Entry, Setup, View};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::choose::Asked;
use super::progress::Progress;
use super::{AT_ONCE, Meant, Sent, Signals, Stopped, exit_code, runtime, unread};
use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault};
use crate::human::{Detail, Piece, Renderer, Screen, Summary, TICK, To};
use crate::output::Stdout;
use crate::output::sink::Format;
use crate::output::view::{is_record, object};
use crate::time;

/// How many pieces of output may wait for whoever reads them. Then the one that says more waits, and its journal keeps it.
const WAITING: usize = 64;

/// The view that is no JSON: each answer has a heading, as for people.
const TEXT: &str = "text";

/// What one of them has to say.
enum Said {
    /// Lines for programs.
    Out(String),
    /// A word for people.
    Err(String),
    /// It is over: its record, its name, and the line with its cost and session.
    Done(Box<Record>, String, String),
}

/// Runs them all, and shows each as it goes on. The exit code is the worst of them.
pub(super) fn run(
    args: &RunArgs,
    meant: &Meant,
    format: Format,
    prompt: &str,
    all: &[Asked],
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let request = &meant.args;
    if args.dry_run
        || request.resume.is_some()
        || request.continue_latest
        || request.binary.is_some()
        || request.profile.is_some()
    {
        let message = "`--dry-run`, `--resume`, `--continue`, `--binary` and `--profile` are for one agent";
        return Err(CommandError::new(Fault::Usage, message).hint("name one provider"));
    }
    let view = match format {
        Format::Human => None,
        Format::View(view) => Some(view),
    };
    let (pot, beside) = (Pot::default(), Beside::default());
    let mut tasks = Vec::new();
    for asked in all {
        let task = meant.task(prompt, Some(asked))?.pot(&pot).beside(&beside);
        // Nobody is asked if one of them cannot be.
        task.preview().map_err(CommandError::from)?;
        tasks.push((asked, task));
    }
    runtime()?.block_on(async {
        let mut signals = Signals::new().map_err(|error| {
            CommandError::new(Fault::Internal, "could not listen to signals").caused_by(error)
        })?;
        // Whoever wants a fallback gets one also for a program that is missing.
        let alone = !matches!(request.fallback, Some(Fallback::Next | Fallback::Any));
        for (asked, _) in tasks.iter().filter(|_| alone) {
            is_there(asked, request, &meant.config).await?;
        }
        let (say, mut said) = mpsc::channel(WAITING);
        let mut progress = Progress::new(super::shown(request, super::detail(args), None), view.is_none());
        let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let (mut runs, mut controls, mut sessions) = (JoinSet::new(), Vec::new(), Vec::new());
        for (asked, task) in tasks {
            let turn = task.start().await.map_err(CommandError::from)?;
            controls.push(turn.control());
            sessions.push(turn.session().clone());
            let one = One::new(meant, super::detail(args), asked, view.filter(|view| view.name != TEXT));
            progress.add(&one.renderer);
            runs.spawn(one.follow(turn, say.clone()));
        }
        drop(say);
        let (mut worst, mut stopped, mut unwritable) = (0, Stopped::No, None);
        loop {
            tokio::select! {
                biased;
                sent = signals.next() => if let Sent::Stop(how) = sent {
                    let stop = if stopped == Stopped::No { Control::cancel } else { Control::kill };
                    controls.iter().for_each(stop);
                    stopped = how;
                },
                piece = said.recv() => match progress.making_room(piece) {
                    None => break,
                    // What the agents print while they are stopped cannot be written either.
                    Some(Said::Out(_) | Said::Done(..)) if unwritable.is_some() => {}
                    Some(Said::Out(text)) => {
                        if let Err(error) = stdout.print(&text).and_then(|()| stdout.flush()) {
                            unwritable = Some(error);
                            controls.iter().for_each(Control::cancel);
                        }
                    }
                    // Nothing can be done about a standard error that does not take it.
                    Some(Said::Err(text)) => drop(std::io::stderr().write_all(text.as_bytes())),
                    Some(Said::Done(record, name, footer)) => {
                        if view.is_none_or(|view| view.name == TEXT) {
                            if let Err(error) = answer(&name, &record, stdout) {
                                unwritable = Some(error);
                                controls.iter().for_each(Control::cancel);
                            }
                            progress.footer(&footer);
                        }
                        worst = worst.max(exit_code(&record, stopped));
                        if let Some(Err(unfit)) = meant.schema.as_ref().map(|schema| schema.holds(&name, &record)) {
                            worst = worst.max(1);
                            let _ = unfit.report();
                        }
                    }
                },
                _ = tick.tick(), if progress.draws() => progress.draw(time::now()),
            }
        }
        while let Some(followed) = runs.join_next().await {
            followed
                .map_err(|error| CommandError::new(Fault::Internal, "a run was lost").caused_by(error))??;
        }
        if let Some(error) = unwritable {
            let kept = if request.ephemeral { &[][..] } else { &sessions[..] };
            return Err(unread::stopped(error, kept));
        }
        if worst == 0 { Ok(()) } else { Err(CommandError::told(worst)) }
    })
}

/// Refuses one of them whose program is not there, before any of them is asked.
async fn is_there(asked: &Asked, args: &RequestArgs, config: &Config) -> Result<(), CommandError> {
    let listed = bowline::route::listed(config, asked.name()).map_err(CommandError::from)?;
    let manifest = asked.provider().or(listed.map(|listed| listed.manifest));
    // Where it runs with another PATH, or inside a container, only starting it tells. What is chosen by name alone is inside
    // this program.
    let elsewhere = args.docker.is_some() || args.env.iter().any(|(name, _)| name == "PATH");
    let Some(manifest) = manifest.filter(|it| !elsewhere && it.chosen != Chosen::ByName) else {
        return Ok(());
    };
    match find_anywhere(manifest, None, &Surroundings::from_env()).await {
        Ok(_) => Ok(()),
        Err(missing) => {
            let message = format!("{} cannot be asked: {missing}: {}", asked.name(), missing.kind);
            Err(CommandError::new(Fault::Missing, message)
                .hint("nobody was asked; leave it out of `--provider`, or install it")
                .hint("`bowline doctor` says how"))
        }
    }
}

/// One of them, as it is followed.
struct One {
    name: String,
    /// What a person is told beside the answer: refusals with what would allow them, warnings, why it failed.
    renderer: Arc<Mutex<Renderer>>,
    view: Option<OneView>,
}

/// What one of them prints for a program.
enum OneView {
    Events(Box<dyn View>),
    Record,
}

impl One {
    fn new(meant: &Meant, detail: Detail, asked: &Asked, view: Option<&'static Entry>) -> Self {
        let mut options = super::shown(&meant.args, detail.min(Detail::Verbose), Some(asked));
        // Several cannot draw on one terminal.
        options.screen = Screen::PIPES;
        let name = asked.name().to_owned();
        let view = view.map(|entry| {
            if is_record(entry) {
                return OneView::Record;
            }
            OneView::Events((entry.make)(&Setup { provider: Some(name.clone()), ours: true }))
        });
        Self { name, renderer: Arc::new(Mutex::new(Renderer::new(options))), view }
    }

    fn renderer(&self) -> MutexGuard<'_, Renderer> {
        self.renderer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows it to its end.
    async fn follow(mut self, mut turn: Turn, say: mpsc::Sender<Said>) -> Result<(), CommandError> {
        loop {
            let events = turn.next_batch(AT_ONCE).await.map_err(CommandError::from)?;
            if events.is_empty() {
                break;
            }
            let (out, err) = self.events(&events);
            pass(&self.name, &say, &out, &err).await;
        }
        let record = turn.outcome().await.map_err(CommandError::from)?;
        let summary = Summary {
            now: time::now(),
            took: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
            session: Some(record.session.clone()),
            journal: None,
        };
        let mut out = String::new();
        match &mut self.view {
            Some(OneView::Events(view)) => view.finish(&mut out),
            Some(OneView::Record) => out = object(&record)?,
            None => {}
        }
        let mut pieces = self.renderer().finish(&summary);
        let footer = self.renderer().footer(&summary, usize::MAX);
        for warning in record.warnings() {
            pieces.extend(self.renderer().warn(&warning.to_string()));
        }
        if let Some(failure) = &record.journal_failure {
            let text = format!("the journal of this run is not complete: {}", failure.message);
            pieces.extend(self.renderer().warn(&text));
        }
        if let Some(why) = &record.ledger_failure {
            pieces.extend(self.renderer().warn(&super::unwritten(why)));
        }
        pass(&self.name, &say, &out, &remarks(&pieces)).await;
        let done = Said::Done(Box::new(record), self.name, footer);
        // Whoever reads may have enough.
        let _ = say.send(done).await;
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        for event in events {
            err.push_str(&remarks(&self.renderer().event(event, time::now())));
            if let Some(OneView::Events(view)) = &mut self.view {
                view.event(event, &mut out);
            }
        }
        (out, err)
    }
}

/// Passes on what one of them said, with its name. Whoever reads may have enough; the run is ended by others then.
async fn pass(name: &str, say: &mpsc::Sender<Said>, out: &str, err: &str) {
    if !out.is_empty() {
        let _ = say.send(Said::Out(named(name, out))).await;
    }
    if !err.is_empty() {
        let name = ansi::harmless(name);
        let lines: String = err.lines().map(|line| format!("{name}: {line}\n")).collect();
        let _ = say.send(Said::Err(lines)).await;
    }
}

/// Returns what of the pieces is for standard error. The answer is shown as a whole.
fn remarks(pieces: &[Piece]) -> String {
    let pieces = pieces.iter().filter(|piece| piece.to == To::Stderr);
    pieces.map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect()
}

/// Puts the provider's name into every object: a reader has to know whose it is.
fn named(name: &str, text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let name = serde_json::Value::from(name);
    for object in objects(text) {
        let has = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(object)
            .is_ok_and(|map| map.contains_key("provider"));
        match object.strip_prefix('{').filter(|_| !has) {
            Some(rest) if rest.trim_start().starts_with('}') => {
                all.push_str(&format!("{{\"provider\":{name}{rest}"));
            }
            Some(rest) => all.push_str(&format!("{{\"provider\":{name},{rest}")),
            None => all.push_str(object),
        }
    }
    all
}

/// Cuts what a view printed into its objects: one in each line, or one in all of them.
fn objects(text: &str) -> Vec<&str> {
    let in_lines = text.lines().all(|line| line.starts_with('{') && line.ends_with('}'));
    if in_lines { text.split_inclusive('\n').collect() } else { vec![text] }
}

/// Shows an answer under its name. One that is too long to be held comes from the journal, piece by piece.
fn answer(name: &str, record: &Record, stdout: &mut Stdout) -> Result<(), CommandError> {
    stdout.print(&format!("== {} ==\n", ansi::harmless(name)))?;
    match (&record.text, &record.journal) {
        (Some(text), _) => stdout.print(&format!("{}\n", ansi::harmless(text).trim_end()))?,
        (None, Some(journal)) => from_journal(journal, stdout)?,
        (None, None) => {}
    }
    stdout.print("\n")?;
    stdout.flush()
}

fn from_journal(journal: &Path, stdout: &mut Stdout) -> Result<(), CommandError> {
    let failed = |error| CommandError::from(bowline::Error::from(error));
    let Some(entry) = views::by_name(TEXT) else {
        return Err(CommandError::new(Fault::Internal, "there is no view for text"));
    };
    let (mut view, mut text) = ((entry.make)(&Setup::default()), String::new());
    let mut reader = Reader::open(journal).map_err(failed)?;
    while let Some(event) = reader.next_event().map_err(failed)? {
        view.event(&event, &mut text);
        stdout.print(&ansi::harmless(&text))?;
        text.clear();
    }
    view.finish(&mut text);
    stdout.print(&ansi::harmless(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_says_whose_it_is() {
        assert_eq!(named("a", "{\"x\":1}\n{}\n"), "{\"provider\":\"a\",\"x\":1}\n{\"provider\":\"a\"}\n");
        assert_eq!(named("a", "{\n  \"x\": 1\n}\n"), "{\"provider\":\"a\",\n  \"x\": 1\n}\n");
        assert_eq!(named("a", "{\"provider\":\"b\"}\n"), "{\"provider\":\"b\"}\n", "it says so itself");
    }
}
