//! `bowline run`: one turn of an agent, from the prompt to the exit code.

mod choose;
mod mcp;
mod meant;
mod progress;
mod prompt;
mod request;
mod resume;
mod schema;
mod settings;
mod several;
mod unread;
pub(crate) use choose::Whom;
pub(crate) use meant::Meant;
pub(crate) use prompt::prompt;
pub(crate) use request::permission;
pub(crate) use settings::{load, warn};
mod uncertified;

use std::io::Write as _;
use std::time::Duration;

use bowline::{Code, Control, Outcome, PermissionMode, Record, Task, Turn, exit, registry};
use bowline_protocol::Millis;
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, Mode, RunFlag};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::request::RequestArgs;
use crate::args::run::RunArgs;
use crate::error::{CommandError, Fault};
use crate::human::{AgentHints, Detail, Interrupt, Options, Remedies, Summary, TICK};
use crate::output::Stdout;
use crate::output::sink::{Format, Sink};
use crate::{means, suggest, terminal, time};
use choose::Asked;

/// How many events are written together when they come faster than a terminal shows them.
const AT_ONCE: usize = 256;

/// How long a run that is over waits for what an earlier one left without a word, and then: docker answers within three
/// seconds or does not.
const NOTICED: Duration = Duration::from_millis(500);
const IN_ORDER: Duration = Duration::from_millis(3500);

/// How long after the agent was killed one more signal ends this process too, whoever has not read what it says.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// How long after a signal a command whose agent is gone may go on printing.
const PRINTED_BY: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &RunArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let format = suggest::output(&args.output)?;
    if !args.dry_run {
        // Before there is much to copy.
        bowline::start_keeper();
    }
    let meant = Meant::of(&args.request)?;
    // Whoever asks for what is wrong gets an error, which says more.
    if meant.args.model.as_deref().is_none_or(|model| meant.config.external.get(model).is_ok()) {
        warn(&meant.config);
    }
    let prompt = prompt(args.request.prompt.as_deref())?;
    let asked = match &meant.whom {
        Whom::Several(asked) => return several::run(args, &meant, format, &prompt, asked, stdout),
        Whom::One(asked) => Some(asked),
        Whom::Router => None,
    };
    let task = meant.task(&prompt, asked)?;
    if args.dry_run {
        return dry_run(&task, format, stdout);
    }
    let detail = detail(args);
    let request = &meant.args;
    let options = shown(request, detail, asked);
    let mut sink = Sink::new(format, options, asked.map(|asked| asked.name().to_owned()));
    if let (None, Some(cwd)) = (&args.request.cwd, &request.cwd) {
        sink.mention(&format!("the session goes on in {}", cwd.display()))?;
    }
    if matches!(format, Format::Human)
        && let Some(line) = asked.and_then(Asked::provider).and_then(|manifest| reads_only(manifest, request))
    {
        sink.mention(&line)?;
    }
    let retries = request.retries.is_some_and(|retries| retries > 0);
    if asked.is_none() || retries || request.wait_for_limit || request.fallback.is_some() {
        sink.hold_answer();
    }
    // What runs in a container is not what is installed here, nobody asked to start the caller's own program twice, and a
    // run that leaves no trace leaves no answers behind either.
    let plain = request.docker.is_none() && request.binary.is_none() && !request.ephemeral;
    let program = asked.and_then(Asked::provider).filter(|_| plain && matches!(format, Format::Human));
    let runtime = runtime()?;
    let (record, stopped) = runtime.block_on(drive(task, sink, request.ephemeral, program))?;
    if stopped == Stopped::No {
        runtime.block_on(leave_in_order(matches!(format, Format::Human)));
    }
    // What was not in order in time is not waited for any longer.
    runtime.shutdown_background();
    match exit_code(&record, stopped) {
        0 => meant.schema.map_or(Ok(()), |schema| schema.holds("the agent", &record)),
        code => Err(CommandError::told(code)),
    }
}

/// Returns how much is shown.
fn detail(args: &RunArgs) -> Detail {
    match args.verbose {
        0 if args.quiet => Detail::Quiet,
        0 => Detail::Usual,
        1 => Detail::Verbose,
        _ => Detail::Everything,
    }
}

/// Returns what the renderer has to know of a run.
fn shown(args: &RequestArgs, detail: Detail, asked: Option<&Asked>) -> Options {
    let mut options =
        terminal::options(detail, request::permission(args.permission), terminal::cwd(args.cwd.as_deref()));
    options.provider = asked.map(|asked| asked.name().to_owned());
    if let Some(manifest) = asked.and_then(Asked::provider) {
        let has = |flag| manifest.run.flags.get(&flag).is_some_and(Flag::is_done);
        let in_sandbox = manifest.permission.get(&Mode::Edit).is_some_and(|edit| edit.sandboxes_commands);
        let (by_name, by_dir) = (has(RunFlag::AllowTool), has(RunFlag::AddDir));
        let (names, allowed) = (manifest.run.allow_names.clone(), args.allow_tool.clone());
        options.remedies = Remedies { by_name, in_sandbox, by_dir, names, allowed };
        options.agent = AgentHints { name: Some(manifest.name.clone()), login: manifest.auth.login.clone() };
    }
    options
}

/// Says that an agent which cannot ask gets no more than it may read, and which flag lets it do more.
fn reads_only(manifest: &Manifest, args: &RequestArgs) -> Option<String> {
    let asks = request::permission(args.permission) == PermissionMode::Ask;
    let plain = args.allow_tool.is_empty() && !args.no_tools;
    (asks && plain && manifest.only_reads_under_ask()).then(|| {
        let name = &manifest.name;
        format!("{name} cannot ask for permission, so it only reads; --permission edit lets it change files")
    })
}

/// Lets the library finish with what killed runs left, for which a short run may be too short: docker has to be asked. Whoever
/// does not want to wait interrupts.
async fn leave_in_order(for_a_person: bool) {
    let settled = |patience| tokio::task::spawn_blocking(move || registry::settled(patience));
    let wait = async {
        if settled(NOTICED).await.unwrap_or(true) {
            return;
        }
        if for_a_person {
            let note = "an earlier run was killed: putting in order what it left; Ctrl-C leaves that to the next one";
            // Whether anybody reads it does not matter.
            let _ = writeln!(std::io::stderr(), "{note}");
        }
        if !settled(IN_ORDER).await.unwrap_or(true) {
            tracing::info!("what a killed run left is not in order yet; the next one goes on with it");
        }
    };
    let Ok(mut signals) = Signals::new() else { return };
    tokio::select! {
        () = wait => {}
        () = async { while matches!(signals.next().await, Sent::Window) {} } => {}
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
/// What is shown is written on the thread of the command, and waits for whoever reads it. The run has a thread of its own:
/// a reader that stops for a while holds up neither the agent nor a signal.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    means::check()?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CommandError::new(Fault::Internal, "could not start").caused_by(error))
}

/// What a person or another program did to stop the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    No,
    Interrupted,
    Terminated,
}

impl Stopped {
    /// Returns the exit code of a command that was stopped.
    fn code(self) -> u8 {
        match self {
            Self::Terminated => exit::TERMINATED,
            Self::Interrupted | Self::No => exit::CANCELLED,
        }
    }
}

/// The signals that stop a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent where somebody wants us to go on after a hangup, as `nohup` does.
    hangup: Option<Signal>,
    window: Signal,
}

/// What a signal means.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Stop(Stopped),
    Window,
}

/// Waits for a hangup, if anybody listens to it.
async fn hangup(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if terminal::ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
            window: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Sent {
        tokio::select! {
            _ = self.interrupt.recv() => Sent::Stop(Stopped::Interrupted),
            _ = self.terminate.recv() => Sent::Stop(Stopped::Terminated),
            () = hangup(&mut self.hangup) => Sent::Stop(Stopped::Terminated),
            _ = self.window.recv() => Sent::Window,
        }
    }

    /// Does at once what signals ask for, and passes them on to be shown.
    async fn obey(mut self, control: Control, shown: mpsc::UnboundedSender<Sent>) {
        let (mut asked, mut killed) = (false, None);
        loop {
            let sent = self.next().await;
            if let Sent::Stop(how) = sent
                && control.is_over()
            {
                // There is no agent to be stopped, only what is printed of it.
                tokio::spawn(leave_soon(how));
                continue;
            }
            // It is passed on first: whoever sees the end of the run then knows what asked for it. Nobody may listen.
            let _ = shown.send(sent);
            match sent {
                Sent::Window => {}
                Sent::Stop(_) if !asked => {
                    asked = true;
                    control.cancel();
                }
                Sent::Stop(how) => {
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

/// Ends this process unless it has printed all that there is in a moment.
async fn leave_soon(how: Stopped) {
    tokio::time::sleep(PRINTED_BY).await;
    leave(how)
}

/// Ends this process although what it has to say was not read. The agent is gone, or the keeper sees to it.
#[expect(clippy::exit, reason = "the thread that would return waits for a reader that may never read")]
fn leave(how: Stopped) -> ! {
    std::process::exit(i32::from(how.code()))
}

async fn drive(
    task: Task,
    mut sink: Sink,
    ephemeral: bool,
    provider: Option<&'static Manifest>,
) -> Result<(Record, Stopped), CommandError> {
    let signals = Signals::new().map_err(|error| {
        CommandError::new(Fault::Internal, "could not listen to signals").caused_by(error)
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
                // It may have ended by itself before it could be stopped.
                Ok(record) if record.outcome != Outcome::Cancelled => {
                    unread::unfinished(error, &record, !ephemeral)
                }
                _ => unread::stopped(error, &sessions),
            });
        }
    };
    let record = turn.outcome().await.map_err(CommandError::from)?;
    let summary = Summary {
        now: time::now(),
        took: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
        session: Some(record.session.clone()),
        journal: record.journal.as_ref().filter(|_| !ephemeral).map(|dir| dir.display().to_string()),
    };
    sink.finish(&summary, &record).map_err(|error| unread::unfinished(error, &record, !ephemeral))?;
    for warning in record.warnings() {
        sink.warn(&warning.to_string())?;
    }
    if let Some(failure) = &record.journal_failure {
        sink.warn(&format!("the journal of this run is not complete: {}", failure.message))?;
    }
    if let Some(why) = &record.ledger_failure {
        sink.warn(&unwritten(why))?;
    }
    // A budget says itself that it counts for every attempt.
    let over_budget = record.failure.as_ref().is_some_and(|failure| failure.code == Code::Budget);
    if !record.is_completed() && stopped == Stopped::No && !(over_budget && record.attempts.len() == 1) {
        // Whose failure it is, and why nobody else was asked.
        for attempt in &record.attempts {
            sink.tell(&format!("{}: {}", attempt.name, attempt.then))?;
        }
        if record.footprint.may_have_worked() && !record.attempts.is_empty() {
            sink.tell(
                "hint: look at what was done before you send it again; `--repeat-tools` does so by itself",
            )?;
        }
    }
    if let Some(line) = uncertified::answer(version).await {
        sink.mention(&line)?;
    }
    Ok((record, stopped))
}

/// Says that the ledger lacks a run.
fn unwritten(why: &str) -> String {
    format!(
        "what this run spent could not be written down ({why}): budgets of a day or a project do not know of it"
    )
}

/// Shows events as they come, until there are no more.
async fn show(
    turn: &mut Turn,
    sink: &mut Sink,
    sent: &mut mpsc::UnboundedReceiver<Sent>,
) -> Result<Stopped, CommandError> {
    let mut stopped = Stopped::No;
    let mut tick = tokio::time::interval(Duration::from_millis(TICK.0));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            Some(sent) = sent.recv() => match sent {
                Sent::Window => sink.resize(terminal::width()),
                Sent::Stop(how) if stopped == Stopped::No => {
                    stopped = how;
                    sink.interrupted(Interrupt::First, time::now())?;
                }
                Sent::Stop(_) => sink.interrupted(Interrupt::Second, time::now())?,
            },
            events = turn.next_batch(AT_ONCE) => match events.map_err(CommandError::from)? {
                events if events.is_empty() => return Ok(stopped),
                events => sink.events(&events, time::now())?,
            },
            _ = tick.tick() => sink.tick(time::now())?,
        }
    }
}

/// Returns the exit code that says how the run ended. Only this process knows which signal cancelled it.
fn exit_code(record: &Record, stopped: Stopped) -> u8 {
    match record.exit_code() {
        exit::CANCELLED => stopped.code(),
        code => code,
    }
}

/// Shows what would be started.
fn dry_run(task: &Task, format: Format, stdout: &mut Stdout) -> Result<(), CommandError> {
    let preview = task.preview().map_err(CommandError::from)?;
    let text = match format {
        Format::View(_) => {
            let json = serde_json::to_string_pretty(&preview).map_err(|error| {
                CommandError::new(Fault::Internal, "could not be written").caused_by(error)
            })?;
            format!("{json}\n")
        }
        Format::Human => request::in_words(&preview),
    };
    stdout.print(&text)
}
