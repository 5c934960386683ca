//! Runs several agents in parallel with the same request and one shared budget. Each answer is printed under its name.

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

use super::choose::NamedProvider;
use super::follow::{AT_ONCE, exit_code};
use super::progress::ParallelProgress;
use super::{ResolvedRequest, closed_output, detail, render_options};
use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::human::{
    DetailLevel, OutputPiece, PieceStream, RenderedAnswer, Renderer, RunSummary, Screen, TICK,
};
use crate::output::sink::OutputFormat;
use crate::output::view::is_record;
use crate::signals::{ProcessSignals, SignalAction, StopSignal};
use crate::time;
use crate::ui::terminal;
use crate::ui::{Stdout, Ui, object};

/// The capacity of the output queue. If it is full, a run waits; its journal still grows.
const WAITING: usize = 64;

/// The only view that is not JSON: each answer has a heading, as for people.
const TEXT: &str = "text";

/// Output of one run.
enum RunOutput {
    /// Lines for standard output.
    Out(String),
    /// Lines for standard error.
    Err(String),
    /// The run ended: its record, its name, and the footer.
    Done(Box<Record>, String, String),
}

/// Runs all of them and shows their output. The exit code is the highest one.
pub(super) fn run(
    args: &RunArgs,
    resolved: &ResolvedRequest,
    format: OutputFormat,
    prompt: &str,
    all: &[NamedProvider],
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let request = &resolved.args;
    if args.dry_run
        || request.resume.is_some()
        || request.continue_latest
        || request.binary.is_some()
        || request.profile.is_some()
    {
        let message = "`--dry-run`, `--resume`, `--continue`, `--binary` and `--profile` cannot be used with several providers";
        return Err(CommandError::new(Fault::Usage, message).hint("name one provider"));
    }
    let view = match format {
        OutputFormat::Human => None,
        OutputFormat::View(view) => Some(view),
    };
    let (pot, beside) = (Pot::default(), Beside::default());
    let mut tasks = Vec::new();
    for named in all {
        let task = resolved.task(prompt, Some(named))?.pot(&pot).beside(&beside);
        // Start no agent if one of the requests is invalid.
        task.preview().map_err(CommandError::from)?;
        tasks.push((named, task));
    }
    async_runtime::start()?.block_on(async {
        let mut signals = ProcessSignals::new()?;
        // With a fallback, a missing program is not an error.
        let alone = !matches!(request.fallback, Some(Fallback::Next | Fallback::Any));
        for (named, _) in tasks.iter().filter(|_| alone) {
            check_installed(named, request, &resolved.config).await?;
        }
        let (say, mut said) = mpsc::channel(WAITING);
        let mut progress = ParallelProgress::new(render_options(request, detail(args), None), view.is_none());
        let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let (mut runs, mut controls, mut sessions) = (JoinSet::new(), Vec::new(), Vec::new());
        for (named, task) in tasks {
            let turn = task.start().await.map_err(CommandError::from)?;
            controls.push(turn.control());
            sessions.push(turn.session().clone());
            let one = ParallelRun::new(resolved, detail(args), named, view.filter(|view| view.name != TEXT));
            progress.add(&one.renderer);
            runs.spawn(one.follow(turn, say.clone()));
        }
        drop(say);
        let (mut worst, mut stopped, mut unwritable) = (0, StopSignal::No, None);
        loop {
            tokio::select! {
                biased;
                sent = signals.next() => if let SignalAction::Stop(how) = sent {
                    let stop = if stopped == StopSignal::No { Control::cancel } else { Control::kill };
                    controls.iter().for_each(stop);
                    stopped = how;
                },
                piece = said.recv() => match progress.making_room(piece) {
                    None => break,
                    // Standard output is closed: drop the output of the agents that are being stopped.
                    Some(RunOutput::Out(_) | RunOutput::Done(..)) if unwritable.is_some() => {}
                    Some(RunOutput::Out(text)) => {
                        if let Err(error) = stdout.print(&text).and_then(|()| stdout.flush()) {
                            unwritable = Some(error);
                            controls.iter().for_each(Control::cancel);
                        }
                    }
                    Some(RunOutput::Err(text)) => Ui::new().lines(&text),
                    Some(RunOutput::Done(record, name, footer)) => {
                        if view.is_none_or(|view| view.name == TEXT) {
                            let page = view.is_none().then(|| progress.page()).flatten();
                            if let Err(error) = answer(&name, &record, page, stdout) {
                                unwritable = Some(error);
                                controls.iter().for_each(Control::cancel);
                            }
                            progress.footer(&footer);
                        }
                        worst = worst.max(exit_code(&record, stopped));
                        if let Some(Err(unfit)) = resolved.schema.as_ref().map(|schema| schema.holds(&name, &record)) {
                            worst = worst.max(1);
                            Ui::new().error(&unfit);
                        }
                    }
                },
                _ = tick.tick(), if progress.draws() => progress.draw(time::now()),
            }
        }
        while let Some(followed) = runs.join_next().await {
            followed
                .map_err(|error| CommandError::new(Fault::Internal, "could not follow a run").caused_by(error))??;
        }
        if let Some(error) = unwritable {
            let kept = if request.ephemeral { &[][..] } else { &sessions[..] };
            return Err(closed_output::stopped(error, kept));
        }
        if worst == 0 { Ok(()) } else { Err(CommandError::told(worst)) }
    })
}

/// Rejects a provider whose program is not installed, before any agent starts.
async fn check_installed(
    named: &NamedProvider,
    args: &RequestArgs,
    config: &Config,
) -> Result<(), CommandError> {
    let listed = bowline::route::listed(config, named.name()).map_err(CommandError::from)?;
    let manifest = named.manifest().or(listed.map(|listed| listed.manifest));
    // With another PATH, or in a container, only the start shows it. A provider that is chosen by name only is built into this
    // program.
    let elsewhere = args.docker.is_some() || args.env.iter().any(|(name, _)| name == "PATH");
    let Some(manifest) = manifest.filter(|it| !elsewhere && it.chosen != Chosen::ByName) else {
        return Ok(());
    };
    match find_anywhere(manifest, None, &Surroundings::from_env()).await {
        Ok(_) => Ok(()),
        Err(missing) => {
            let message = format!("{} cannot run: {missing}: {}", named.name(), missing.kind);
            Err(CommandError::new(Fault::Missing, message)
                .hint("leave it out of `--provider`, or install it; no agent was started")
                .hint("`bowline doctor` shows how"))
        }
    }
}

/// One of the parallel runs.
struct ParallelRun {
    name: String,
    /// Renders standard error: denials with their remedies, warnings, failures.
    renderer: Arc<Mutex<Renderer>>,
    view: Option<ParallelView>,
}

/// The output format of one run.
enum ParallelView {
    Events(Box<dyn View>),
    Record,
}

impl ParallelRun {
    fn new(
        resolved: &ResolvedRequest,
        detail: DetailLevel,
        named: &NamedProvider,
        view: Option<&'static Entry>,
    ) -> Self {
        let mut options = render_options(&resolved.args, detail.min(DetailLevel::Verbose), Some(named));
        // Several renderers cannot draw on one terminal.
        options.screen = Screen::PIPES;
        let name = named.name().to_owned();
        let view = view.map(|entry| {
            if is_record(entry) {
                return ParallelView::Record;
            }
            ParallelView::Events((entry.make)(&Setup { provider: Some(name.clone()), ours: true }))
        });
        Self { name, renderer: Arc::new(Mutex::new(Renderer::new(options))), view }
    }

    fn renderer(&self) -> MutexGuard<'_, Renderer> {
        self.renderer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards the output of the run until it ends.
    async fn follow(mut self, mut turn: Turn, say: mpsc::Sender<RunOutput>) -> Result<(), CommandError> {
        loop {
            let events = turn.next_batch(AT_ONCE).await.map_err(CommandError::from)?;
            if events.is_empty() {
                break;
            }
            let (out, err) = self.events(&events);
            pass(&self.name, &say, &out, &err).await;
        }
        let record = turn.outcome().await.map_err(CommandError::from)?;
        let summary = RunSummary {
            now: time::now(),
            took: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
            session: Some(record.session.clone()),
            journal: None,
        };
        let mut out = String::new();
        match &mut self.view {
            Some(ParallelView::Events(view)) => view.finish(&mut out),
            Some(ParallelView::Record) => out = object(&record)?,
            None => {}
        }
        let mut pieces = self.renderer().finish(&summary);
        let footer = self.renderer().footer(&summary, usize::from(terminal::width()));
        for warning in record.warnings() {
            pieces.extend(self.renderer().warn(&warning.to_string()));
        }
        if let Some(failure) = &record.journal_failure {
            let text = format!("the journal of this run is incomplete: {}", failure.message);
            pieces.extend(self.renderer().warn(&text));
        }
        if let Some(why) = &record.ledger_failure {
            pieces.extend(self.renderer().warn(&format!("could not record the cost of this run ({why}): budgets of a day or a project do not include it")));
        }
        pass(&self.name, &say, &out, &remarks(&pieces)).await;
        let done = RunOutput::Done(Box::new(record), self.name, footer);
        // The receiver is gone if standard output was closed.
        let _ = say.send(done).await;
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        for event in events {
            err.push_str(&remarks(&self.renderer().event(event, time::now())));
            if let Some(ParallelView::Events(view)) = &mut self.view {
                view.event(event, &mut out);
            }
        }
        (out, err)
    }
}

/// Sends output with the name of the run. The receiver is gone if standard output was closed; the main loop then stops the run.
async fn pass(name: &str, say: &mpsc::Sender<RunOutput>, out: &str, err: &str) {
    if !out.is_empty() {
        let _ = say.send(RunOutput::Out(named(name, out))).await;
    }
    if !err.is_empty() {
        let name = ansi::harmless(name);
        let lines: String = err.lines().map(|line| format!("{name}: {line}\n")).collect();
        let _ = say.send(RunOutput::Err(lines)).await;
    }
}

/// Returns the text for standard error. The answer is printed as a whole at the end.
fn remarks(pieces: &[OutputPiece]) -> String {
    let pieces = pieces.iter().filter(|piece| piece.to == PieceStream::Stderr);
    pieces.map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect()
}

/// Adds the provider's name to every object.
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

/// Splits the output of a view into objects: one in each line, or one in all lines.
fn objects(text: &str) -> Vec<&str> {
    let in_lines = text.lines().all(|line| line.starts_with('{') && line.ends_with('}'));
    if in_lines { text.split_inclusive('\n').collect() } else { vec![text] }
}

/// Prints an answer under its name, rendered on a terminal. Streams an answer that is too long for the record from the journal.
fn answer(
    name: &str,
    record: &Record,
    mut page: Option<RenderedAnswer>,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    stdout.print(&format!("== {} ==\n", ansi::harmless(name)))?;
    match (&record.text, &record.journal) {
        (Some(text), _) => show(&format!("{}\n", text.trim_end()), page.as_mut(), stdout)?,
        (None, Some(journal)) => from_journal(journal, page.as_mut(), stdout)?,
        (None, None) => {}
    }
    if let Some(page) = &mut page {
        stdout.print_laid_out(&page.end())?;
    }
    stdout.print("\n")?;
    stdout.flush()
}

/// Prints a part of an answer.
fn show(text: &str, page: Option<&mut RenderedAnswer>, stdout: &mut Stdout) -> Result<(), CommandError> {
    match page {
        Some(page) => stdout.print_laid_out(&page.push(text)),
        None => stdout.print(&ansi::harmless(text)),
    }
}

fn from_journal(
    journal: &Path,
    mut page: Option<&mut RenderedAnswer>,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::from(bowline::Error::from(error));
    let Some(entry) = views::by_name(TEXT) else {
        return Err(CommandError::new(Fault::Internal, "there is no view for text"));
    };
    let (mut view, mut text) = ((entry.make)(&Setup::default()), String::new());
    let mut reader = Reader::open(journal).map_err(failed)?;
    while let Some(event) = reader.next_event().map_err(failed)? {
        view.event(&event, &mut text);
        show(&text, page.as_deref_mut(), stdout)?;
        text.clear();
    }
    view.finish(&mut text);
    show(&text, page, stdout)
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
