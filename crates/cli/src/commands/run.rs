//! `bowline run`: runs one turn of an agent, from the prompt to the exit code.

mod choose;
mod closed_output;
mod mcp;
mod parallel;
mod progress;
mod prompt;
mod request;
mod resolved;
mod resume;
mod schema;
mod settings;
pub(crate) use choose::RequestTarget;
pub(crate) use closed_output::beside_the_run;
pub(crate) use prompt::prompt;
pub(crate) use request::permission;
pub(crate) use resolved::ResolvedRequest;
pub(crate) use settings::{load, warn};
mod uncertified;

use std::time::Duration;

use bowline::detect::Surroundings;
use bowline::{Code, Control, Outcome, PermissionMode, Record, Task, Turn, exit, registry};
use bowline_protocol::Millis;
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, Mode, RunFlag};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault};
use crate::human::{AgentHints, DetailLevel, Interrupt, Remedies, RenderOptions, RunSummary, TICK};
use crate::output::sink::{OutputFormat, Sink};
use crate::ui::Stdout;
use crate::ui::{Ui, terminal};
use crate::{resource_limits, suggest, time};
use choose::NamedProvider;

/// The maximum number of events in a batch.
const AT_ONCE: usize = 256;

/// How long a finished run waits for the cleanup after an earlier run: first silently, then with a notice. Docker answers
/// within three seconds or not at all.
const NOTICED: Duration = Duration::from_millis(500);
const IN_ORDER: Duration = Duration::from_millis(3500);

/// After the agent was killed for this long, one more signal ends this process, even if its output is blocked.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// How long a command may go on printing after a signal if its agent has ended.
const PRINTED_BY: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &RunArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    if !args.dry_run {
        // Fork the keeper while this process is small.
        bowline::start_keeper();
    }
    let resolved = ResolvedRequest::of(&args.request)?;
    // If the request names an invalid entry, the error below has the details.
    if resolved.args.model.as_deref().is_none_or(|model| resolved.config.external.get(model).is_ok()) {
        warn(&resolved.config);
    }
    let prompt = prompt(args.request.prompt.as_deref())?;
    let named = match &resolved.target {
        RequestTarget::Several(named) => {
            return parallel::run(args, &resolved, format, &prompt, named, stdout);
        }
        RequestTarget::One(named) => Some(named),
        RequestTarget::Router => None,
    };
    let task = resolved.task(&prompt, named)?;
    if args.dry_run {
        return dry_run(&task, format, stdout);
    }
    let detail = detail(args);
    let request = &resolved.args;
    let options = shown(request, detail, named);
    let mut sink = Sink::new(format, options, named.map(|named| named.name().to_owned()));
    if let (None, Some(cwd)) = (&args.request.cwd, &request.cwd) {
        sink.mention(&format!("resuming the session in {}", cwd.display()))?;
    }
    if matches!(format, OutputFormat::Human)
        && let Some(line) =
            named.and_then(NamedProvider::manifest).and_then(|manifest| reads_only(manifest, request))
    {
        sink.mention(&line)?;
    }
    let retries = request.retries.is_some_and(|retries| retries > 0);
    if named.is_none() || retries || request.wait_for_limit || request.fallback.is_some() {
        sink.hold_answer();
    }
    // Query the version only of the installed program: not of one in a container, not of the caller's own binary, which would
    // start twice, and not in an ephemeral run, which must not write to the cache.
    let plain = request.docker.is_none() && request.binary.is_none() && !request.ephemeral;
    let program =
        named.and_then(NamedProvider::manifest).filter(|_| plain && matches!(format, OutputFormat::Human));
    let runtime = runtime()?;
    let (record, stopped) = runtime.block_on(drive(task, sink, request.ephemeral, program))?;
    if stopped == StopSignal::No {
        runtime.block_on(leave_in_order(matches!(format, OutputFormat::Human)));
    }
    // Do not wait for a cleanup that takes longer.
    runtime.shutdown_background();
    match exit_code(&record, stopped) {
        0 => resolved.schema.map_or(Ok(()), |schema| schema.holds("the agent", &record)),
        code => Err(CommandError::told(code)),
    }
}

/// Returns the level of detail.
fn detail(args: &RunArgs) -> DetailLevel {
    match args.verbose {
        0 if args.quiet => DetailLevel::Quiet,
        0 => DetailLevel::Usual,
        1 => DetailLevel::Verbose,
        _ => DetailLevel::Everything,
    }
}

/// Returns the options of the renderer.
fn shown(args: &RequestArgs, detail: DetailLevel, named: Option<&NamedProvider>) -> RenderOptions {
    let mut options =
        terminal::options(detail, request::permission(args.permission), terminal::cwd(args.cwd.as_deref()));
    options.provider = named.map(|named| named.name().to_owned());
    if let Some(manifest) = named.and_then(NamedProvider::manifest) {
        let has = |flag| manifest.run.flags.get(&flag).is_some_and(Flag::is_done);
        let in_sandbox = manifest.permission.get(&Mode::Edit).is_some_and(|edit| edit.sandboxes_commands);
        let (by_name, by_dir) = (has(RunFlag::AllowTool), has(RunFlag::AddDir));
        let (names, allowed) = (manifest.run.allow_names.clone(), args.allow_tool.clone());
        options.remedies = Remedies { by_name, in_sandbox, by_dir, names, allowed };
        options.agent = AgentHints {
            name: Some(manifest.name.clone()),
            login: manifest.auth.login.clone(),
            model: args.model.clone(),
            nearest_model: args.model.as_deref().and_then(|model| nearest_model(manifest, model)),
        };
    }
    options
}

/// Returns the model of a provider that is closest to an unknown name. Uses the cached list; does not start the program.
fn nearest_model(manifest: &Manifest, model: &str) -> Option<String> {
    let known = bowline::models::known(manifest, None, &Surroundings::from_env());
    if known.iter().any(|it| it.id == model) {
        return None;
    }
    let ids = known.iter().filter(|it| !it.hidden).map(|it| it.id.as_str());
    bowline::closest_name(model, ids).map(str::to_owned)
}

/// Returns the notice that an agent without approvals only reads, with the flag that allows more.
fn reads_only(manifest: &Manifest, args: &RequestArgs) -> Option<String> {
    let asks = request::permission(args.permission) == PermissionMode::Ask;
    let plain = args.allow_tool.is_empty() && !args.no_tools;
    (asks && plain && manifest.only_reads_under_ask()).then(|| {
        let name = &manifest.name;
        format!("{name} cannot ask for permission, so it only reads; --permission edit lets it change files")
    })
}

/// Waits until the library has cleaned up after killed runs: a short run may end before docker answers. A signal ends the wait.
async fn leave_in_order(for_a_person: bool) {
    let settled = |patience| tokio::task::spawn_blocking(move || registry::settled(patience));
    let wait = async {
        if settled(NOTICED).await.unwrap_or(true) {
            return;
        }
        if for_a_person {
            Ui::new().status("Cleaning up after an earlier run that was killed (Ctrl-C to skip)");
        }
        if !settled(IN_ORDER).await.unwrap_or(true) {
            tracing::info!("the cleanup after a killed run is incomplete; the next run continues it");
        }
    };
    let Ok(mut signals) = RunSignals::new() else { return };
    tokio::select! {
        () = wait => {}
        () = async { while matches!(signals.next().await, SignalAction::Window) {} } => {}
    }
}

/// Runs a task with a sink for its events, and returns how it ended.
pub(crate) async fn to_the_end(task: Task, sink: Sink) -> Result<(Record, u8), CommandError> {
    let (record, stopped) = drive(task, sink, false, None).await?;
    let code = exit_code(&record, stopped);
    Ok((record, code))
}

/// Makes the runtime that drives a command.
///
/// The command writes its output on its own thread, which blocks if the reader is slow. The run has a worker thread, so that a
/// slow reader delays neither the agent nor a signal.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    resource_limits::check()?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|error| {
        CommandError::new(Fault::Internal, "could not start the async runtime").caused_by(error)
    })
}

/// The signal that stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopSignal {
    No,
    Interrupted,
    Terminated,
}

impl StopSignal {
    /// Returns the exit code of a command that was stopped.
    fn code(self) -> u8 {
        match self {
            Self::Terminated => exit::TERMINATED,
            Self::Interrupted | Self::No => exit::CANCELLED,
        }
    }
}

/// The signals that stop a run.
struct RunSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if the caller ignores hangups, as `nohup` does.
    hangup: Option<Signal>,
    window: Signal,
}

/// The meaning of a signal.
#[derive(Clone, Copy, Debug)]
enum SignalAction {
    Stop(StopSignal),
    Window,
}

/// Waits for a hangup; forever if hangups are ignored.
async fn hangup(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

impl RunSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if terminal::ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
            window: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.interrupt.recv() => SignalAction::Stop(StopSignal::Interrupted),
            _ = self.terminate.recv() => SignalAction::Stop(StopSignal::Terminated),
            () = hangup(&mut self.hangup) => SignalAction::Stop(StopSignal::Terminated),
            _ = self.window.recv() => SignalAction::Window,
        }
    }

    /// Acts on signals at once, and passes them on to the display.
    async fn obey(mut self, control: Control, shown: mpsc::UnboundedSender<SignalAction>) {
        let (mut cancelled, mut killed) = (false, None);
        loop {
            let sent = self.next().await;
            if let SignalAction::Stop(how) = sent
                && control.is_over()
            {
                // The agent has ended; only the output is left to stop.
                tokio::spawn(leave_soon(how));
                continue;
            }
            // Pass it on before acting, so that the display knows the cause of the end. The receiver may be gone.
            let _ = shown.send(sent);
            match sent {
                SignalAction::Window => {}
                SignalAction::Stop(_) if !cancelled => {
                    cancelled = true;
                    control.cancel();
                }
                SignalAction::Stop(how) => {
                    control.kill();
                    let since = killed.get_or_insert_with(tokio::time::Instant::now);
                    if since.elapsed() > LEAVE_AFTER {
                        leave(how);
                    }
                }
            }
        }
    }
}

/// Ends this process unless it finishes printing first.
async fn leave_soon(how: StopSignal) {
    tokio::time::sleep(PRINTED_BY).await;
    leave(how)
}

/// Ends this process with unread output. The agent has ended, or the keeper kills it.
#[expect(clippy::exit, reason = "the thread that would return waits for a reader that may never read")]
fn leave(how: StopSignal) -> ! {
    std::process::exit(i32::from(how.code()))
}

async fn drive(
    task: Task,
    mut sink: Sink,
    ephemeral: bool,
    provider: Option<&'static Manifest>,
) -> Result<(Record, StopSignal), CommandError> {
    let signals = RunSignals::new().map_err(|error| {
        CommandError::new(Fault::Internal, "could not install the signal handlers").caused_by(error)
    })?;
    let mut turn = task.sole_process().start().await.map_err(CommandError::from)?;
    let version = provider.and_then(uncertified::ask);
    let (passed_on, mut sent) = mpsc::unbounded_channel();
    tokio::spawn(signals.obey(turn.control(), passed_on));
    let shown = show(&mut turn, &mut sink, &mut sent).await;
    let stopped = match shown {
        Ok(stopped) => stopped,
        Err(error) => {
            let session = turn.session().clone();
            let sessions = if ephemeral { Vec::new() } else { vec![session] };
            return Err(match turn.stop().await {
                // The agent may have ended before the cancellation.
                Ok(record) if record.outcome != Outcome::Cancelled => {
                    closed_output::unfinished(error, &record, !ephemeral)
                }
                _ => closed_output::stopped(error, &sessions),
            });
        }
    };
    let record = turn.outcome().await.map_err(CommandError::from)?;
    let summary = RunSummary {
        now: time::now(),
        took: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
        session: Some(record.session.clone()),
        journal: record.journal.as_ref().filter(|_| !ephemeral).map(|dir| dir.display().to_string()),
    };
    sink.finish(&summary, &record).map_err(|error| closed_output::unfinished(error, &record, !ephemeral))?;
    for warning in record.warnings() {
        sink.warn(&warning.to_string())?;
    }
    if let Some(failure) = &record.journal_failure {
        sink.warn(&format!("the journal of this run is incomplete: {}", failure.message))?;
    }
    if let Some(why) = &record.ledger_failure {
        sink.warn(&unwritten(why))?;
    }
    // The message of a budget covers all attempts.
    let over_budget = record.failure.as_ref().is_some_and(|failure| failure.code == Code::Budget);
    if !record.is_completed() && stopped == StopSignal::No && !(over_budget && record.attempts.len() == 1) {
        // The failure of each attempt, and why no other provider followed.
        for attempt in &record.attempts {
            sink.tell(&format!("{}: {}", attempt.name, attempt.then))?;
        }
        if record.footprint.may_have_worked() && !record.attempts.is_empty() {
            sink.tell(
                "hint: check what the agent did before you run the task again; `--repeat-tools` retries without a check",
            )?;
        }
    }
    if let Some(line) = uncertified::answer(version).await {
        sink.mention(&line)?;
    }
    Ok((record, stopped))
}

/// Returns the warning that the ledger lacks this run.
fn unwritten(why: &str) -> String {
    format!("could not record the cost of this run ({why}): budgets of a day or a project do not include it")
}

/// Shows events until the run ends.
async fn show(
    turn: &mut Turn,
    sink: &mut Sink,
    sent: &mut mpsc::UnboundedReceiver<SignalAction>,
) -> Result<StopSignal, CommandError> {
    let mut stopped = StopSignal::No;
    let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            Some(sent) = sent.recv() => match sent {
                SignalAction::Window => sink.resize(terminal::width()),
                SignalAction::Stop(how) if stopped == StopSignal::No => {
                    stopped = how;
                    sink.interrupted(Interrupt::First, time::now())?;
                }
                SignalAction::Stop(_) => sink.interrupted(Interrupt::Second, time::now())?,
            },
            events = turn.next_batch(AT_ONCE) => match events.map_err(CommandError::from)? {
                events if events.is_empty() => return Ok(stopped),
                events => sink.events(&events, time::now())?,
            },
            _ = tick.tick() => sink.tick(time::now())?,
        }
    }
}

/// Returns the exit code of the run. Only this process knows which signal cancelled it.
fn exit_code(record: &Record, stopped: StopSignal) -> u8 {
    match record.exit_code() {
        exit::CANCELLED => stopped.code(),
        code => code,
    }
}

/// Prints the command that would be started.
fn dry_run(task: &Task, format: OutputFormat, stdout: &mut Stdout) -> Result<(), CommandError> {
    let preview = task.preview().map_err(CommandError::from)?;
    let text = match format {
        OutputFormat::View(_) => {
            let json = serde_json::to_string_pretty(&preview).map_err(|error| {
                CommandError::new(Fault::Internal, "could not write the preview").caused_by(error)
            })?;
            format!("{json}\n")
        }
        OutputFormat::Human => request::in_words(&preview),
    };
    stdout.print(&text)
}
