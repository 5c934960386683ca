//! Runs several agents in parallel with the same request and one shared budget. Each answer is printed under its name.

use std::path::Path;
use std::time::Duration;

use bowline::Fallback;
use bowline::budget::Pot;
use bowline::detect::{Surroundings, find_anywhere};
use bowline::journal::Reader;
use bowline::route::Beside;
use bowline::{Record, Task, Turn};
use bowline_config::Config;
use bowline_protocol::Event;
use bowline_providers::ansi;
use bowline_providers::manifest::Chosen;
use bowline_providers::views::{self, Setup};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::choose::NamedProvider;
use super::follow::{AT_ONCE, exit_code, summary, warn_of};
use super::progress::ParallelProgress;
use super::{ResolvedRequest, closed_output, detail, render_options};
use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::commands::attention::settle;
use crate::error::{CommandError, Fault};
use crate::human::{DetailLevel, RenderedAnswer, Screen, TICK};
use crate::output::notices::TerminalNotices;
use crate::output::sink::{OutputFormat, Sink};
use crate::signals::{ProcessSignals, SignalAction, StopSignal, StopTargets};
use crate::ui::Stdout;
use crate::{async_runtime, time};

/// The capacity of the output queue. If it is full, a run waits; its journal still grows.
const WAITING: usize = 64;

/// The only view that is not JSON: each answer has a heading, as for people.
const TEXT: &str = "text";

/// Output of one run, by its place in the list of providers.
enum RunOutput {
    Events(usize, Vec<Event>),
    Done(usize, Box<Record>),
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
    reject_options_of_one(args, &resolved.args)?;
    let (pot, beside) = (Pot::default(), Beside::default());
    let mut tasks = Vec::new();
    for named in all {
        let task = resolved.task(prompt, Some(named))?.pot(&pot).beside(&beside);
        // Start no agent if one of the requests is invalid.
        task.preview().map_err(CommandError::from)?;
        tasks.push((named, task));
    }
    async_runtime::start()?.block_on(async {
        // First, so that from here on a signal stops the agents, and not this process alone.
        let signals = ProcessSignals::new()?;
        // With a fallback, a missing program is not an error.
        let alone = !matches!(resolved.args.fallback, Some(Fallback::Next | Fallback::Any));
        for (named, _) in tasks.iter().filter(|_| alone) {
            check_installed(named, &resolved.args, &resolved.config).await?;
        }
        let display = ParallelDisplay::new(args, resolved, format, stdout);
        let ended = follow_all(tasks, display, signals).await;
        settle(&resolved.config.attention).await;
        ended
    })
}

/// Rejects options that make sense for one provider only.
fn reject_options_of_one(args: &RunArgs, request: &RequestArgs) -> Result<(), CommandError> {
    if args.dry_run
        || request.resume.is_some()
        || request.continue_latest
        || request.binary.is_some()
        || request.profile.is_some()
    {
        let message = "`--dry-run`, `--resume`, `--continue`, `--binary` and `--profile` cannot be used with several providers";
        return Err(CommandError::new(Fault::Usage, message).hint("name one provider"));
    }
    Ok(())
}

/// Starts all tasks, and shows their output until the last one ends.
async fn follow_all(
    tasks: Vec<(&NamedProvider, Task)>,
    mut display: ParallelDisplay<'_>,
    signals: ProcessSignals,
) -> Result<(), CommandError> {
    let (send, mut output) = mpsc::channel(WAITING);
    let (mut runs, mut controls, mut sessions) = (JoinSet::new(), Vec::new(), Vec::new());
    for (place, (named, task)) in tasks.into_iter().enumerate() {
        let turn = task.start().await.map_err(CommandError::from)?;
        controls.push(turn.control());
        sessions.push(turn.session().clone());
        display.add(named);
        runs.spawn(forward(place, turn, send.clone()));
    }
    // The loop below ends when the last run drops its sender.
    drop(send);
    let (passed_on, mut sent) = mpsc::unbounded_channel();
    let targets = StopTargets::of(controls);
    tokio::spawn(signals.obey(targets.clone(), passed_on));
    let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut unwritable = None;
    loop {
        tokio::select! {
            // Signals come first, as in `follow::show`.
            biased;
            Some(sent) = sent.recv() => if let SignalAction::Stop(how) = sent {
                display.stopped = how;
            },
            piece = output.recv() => match piece {
                None => break,
                // Keep receiving: a full queue would block the runs that are being stopped.
                Some(piece) if unwritable.is_some() => display.remark(piece),
                Some(piece) => if let Err(error) = display.show(piece) {
                    unwritable = Some(error);
                    targets.cancel();
                },
            },
            _ = tick.tick(), if display.progress.draws() => display.draw(),
        }
    }
    while let Some(followed) = runs.join_next().await {
        followed.map_err(|error| {
            CommandError::new(Fault::Internal, "could not follow a run").caused_by(error)
        })??;
    }
    if let Some(error) = unwritable {
        let kept = if display.resolved.args.ephemeral { &[][..] } else { &sessions[..] };
        return Err(closed_output::stopped(error, kept));
    }
    if display.worst == 0 { Ok(()) } else { Err(CommandError::told(display.worst)) }
}

/// Forwards the events of a run until it ends. The receiver is gone if the display failed; the run then ends by itself.
async fn forward(place: usize, mut turn: Turn, send: mpsc::Sender<RunOutput>) -> Result<(), CommandError> {
    loop {
        let events = turn.next_batch(AT_ONCE).await.map_err(CommandError::from)?;
        if events.is_empty() {
            break;
        }
        let _ = send.send(RunOutput::Events(place, events)).await;
    }
    let record = turn.outcome().await.map_err(CommandError::from)?;
    let _ = send.send(RunOutput::Done(place, Box::new(record))).await;
    Ok(())
}

/// Shows several runs on the same streams: a sink for each, and one status line.
struct ParallelDisplay<'a> {
    args: &'a RunArgs,
    resolved: &'a ResolvedRequest,
    format: OutputFormat,
    stdout: &'a mut Stdout,
    progress: ParallelProgress,
    /// The runs in the order of the request, with their names.
    sinks: Vec<(String, Sink)>,
    /// The highest exit code so far.
    worst: u8,
    stopped: StopSignal,
}

impl<'a> ParallelDisplay<'a> {
    fn new(
        args: &'a RunArgs,
        resolved: &'a ResolvedRequest,
        format: OutputFormat,
        stdout: &'a mut Stdout,
    ) -> Self {
        let options = render_options(&resolved.args, detail(args), None);
        let progress = ParallelProgress::new(options, matches!(format, OutputFormat::Human));
        Self {
            args,
            resolved,
            format,
            stdout,
            progress,
            sinks: Vec::new(),
            worst: 0,
            stopped: StopSignal::No,
        }
    }

    fn add(&mut self, named: &NamedProvider) {
        let detail = detail(self.args).min(DetailLevel::Verbose);
        let mut options = render_options(&self.resolved.args, detail, Some(named));
        // Several renderers cannot draw on one terminal.
        options.screen = Screen::PIPES;
        let format = if self.prints_answers() { OutputFormat::Human } else { self.format };
        let name = named.name().to_owned();
        let mut sink = Sink::of_several(format, options, &name, self.progress.ui());
        sink.notify(TerminalNotices::of_task(&self.resolved.config.attention));
        self.sinks.push((name, sink));
    }

    /// Returns whether each answer is printed as a whole under its name. Otherwise each object names its provider.
    fn prints_answers(&self) -> bool {
        match self.format {
            OutputFormat::Human => true,
            OutputFormat::View(view) => view.name == TEXT,
        }
    }

    fn draw(&mut self) {
        let now = time::now();
        let doing: Vec<String> = self.sinks.iter().filter_map(|(_, sink)| sink.activity(now)).collect();
        self.progress.draw(&doing, now);
    }

    fn show(&mut self, output: RunOutput) -> Result<(), CommandError> {
        match output {
            RunOutput::Events(place, events) => self.sinks[place].1.events(&events, time::now()),
            RunOutput::Done(place, record) => self.finish(place, &record),
        }
    }

    /// Shows the part for standard error. Standard output is closed, and the agents are being stopped.
    fn remark(&mut self, output: RunOutput) {
        // The first error of standard output is reported at the end; the same error again says nothing new.
        let _ = match output {
            RunOutput::Events(place, events) => self.sinks[place].1.events(&events, time::now()),
            RunOutput::Done(place, record) => warn_of(&record, &mut self.sinks[place].1),
        };
    }

    fn finish(&mut self, place: usize, record: &Record) -> Result<(), CommandError> {
        self.worst = self.worst.max(exit_code(record, self.stopped));
        let prints_answers = self.prints_answers();
        let (name, sink) = &mut self.sinks[place];
        let summary = summary(record);
        let finished = sink.finish(&summary, record);
        // Warnings go to standard error, also if standard output is closed.
        warn_of(record, sink)?;
        finished?;
        if prints_answers {
            let footer = sink.footer(&summary);
            let page = matches!(self.format, OutputFormat::Human).then(|| self.progress.page()).flatten();
            // The status line may be on the terminal that shows the answer.
            self.progress.ui().borrow_mut().erase();
            answer(name, record, page, self.stdout)?;
            self.progress.footer(&footer);
        }
        if let Some(Err(unfit)) = self.resolved.schema.as_ref().map(|schema| schema.holds(name, record)) {
            self.worst = self.worst.max(unfit.exit_code());
            self.progress.ui().borrow_mut().error(&unfit);
        }
        Ok(())
    }
}

/// Rejects a provider whose program is not installed, before any agent starts.
pub(super) async fn check_installed(
    named: &NamedProvider,
    args: &RequestArgs,
    config: &Config,
) -> Result<(), CommandError> {
    let listed = bowline::route::listed(&config.run_settings(), named.name()).map_err(CommandError::from)?;
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

/// Prints an answer under its name, rendered on a terminal. Streams an answer that is too long for the record from the journal.
pub(super) fn answer(
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
