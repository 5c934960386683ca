//! `bowline start`: a live session in a runner that outlives this command. The runner is this program again, with the same arguments.

mod children;
mod inside;
mod successor;

use std::ffi::OsString;
use std::path::PathBuf;

use bowline::attention::Attention;
use bowline::detect::{self, Surroundings};
use bowline::journal::Home;
use bowline::resolve::running_with_name;
use bowline::{LiveSession, SessionId, SessionTask};
use bowline_providers::ansi::harmless;
use bowline_providers::manifest::Manifest;
use clap::Parser as _;
use serde::{Deserialize, Serialize};

use self::children::{ChildRunners, ChildSpec};
use self::successor::{HandOver, TakenOver};
use super::attention::settle;
use super::run::{RequestTarget, ResolvedRequest, piped, prompt};
use super::task_file;
use crate::args::live::StartArgs;
use crate::args::request::{RequestArgs, TimeLimit};
use crate::args::{Args, Command};
use crate::async_runtime;
use crate::error::{CommandError, Fault};
use crate::human::shell_word;
use crate::signals::ProcessSignals;
use crate::ui::{Stdout, Ui};

/// The message from the command to its runner. The prompt is not an argument: every user of the machine can see arguments.
#[derive(Debug, Serialize, Deserialize)]
struct RunnerSpec {
    args: Vec<String>,
    prompt: Option<String>,
    /// The title of the task, which is the name of a session without one.
    title: Option<String>,
    /// Set if an agent asked for the session. The arguments are then those of its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<ChildSpec>,
    /// Set if an older runner handed the session over. The arguments are then those of that runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_over: Option<TakenOver>,
}

/// The report of the runner: the session that listens, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RunnerReport {
    Listening { session: String, pid: u32, socket: String },
    Failed { text: String, code: u8 },
}

/// Starts a session, and returns when its runner listens.
pub(crate) fn run(args: &StartArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    if let Some(reason) = bowline::runner::inside_an_agent() {
        return inside::ask(args, &reason, stdout);
    }
    if let Some(flag) = args.request.run_only().first() {
        let message = format!("a session cannot be started with `{flag}`");
        return Err(CommandError::new(Fault::Usage, message).hint("use `bowline run`, which has this option"));
    }
    if let Some(name) = &args.name {
        check_name(name, args.request.resume.is_some())?;
    }
    // The runner has no terminal: this process warns about the parts of a project's files that the runner leaves out.
    crate::config::load(args.request.cwd.as_deref())?;
    // Read here: the runner has another directory and no terminal.
    let task = args.task.as_deref().map(task_file::read).transpose()?;
    let (prompt, title) = match task {
        Some(task) => (Some(task.prompt), Some(task.title)),
        None => (text(args)?, None),
    };
    let spec = RunnerSpec { args: own_args()?, prompt, title, child: None, taken_over: None };
    let spec = serde_json::to_vec(&spec).map_err(internal("could not describe the session"))?;
    let log = runner_log()?;
    let runtime = async_runtime::start()?;
    let report = runtime.block_on(async {
        let started = bowline::runner::start_runner([OsString::from("session-runner")], spec, log).await;
        let mut runner = started.map_err(internal("could not start the runner of the session"))?;
        runner.report().await.map_err(internal("could not read the runner's report"))
    })?;
    let report = report.and_then(|line| serde_json::from_slice::<RunnerReport>(&line).ok());
    match report {
        Some(RunnerReport::Listening { session, pid, socket }) => {
            if args.json {
                let started = serde_json::json!({ "session": session, "pid": pid, "socket": socket });
                return stdout.print(&format!("{started}\n"));
            }
            stdout.print(&format!("{session}\n"))?;
            // The word that the person typed, but for `@last`, which is this session only until another one is started.
            let resumed = args.request.resume.as_deref().filter(|typed| !typed.starts_with('@'));
            let name = shell_word(args.name.as_deref().or(resumed).unwrap_or(&session));
            Ui::new().status(&format!("started; follow it: `bowline attach {name}`"));
            Ok(())
        }
        Some(RunnerReport::Failed { text, code }) => {
            Ui::new().lines(&text);
            Err(CommandError::told(code))
        }
        None => Err(CommandError::new(Fault::Internal, "the runner of the session ended before it listened")
            .hint("BOWLINE_LOG=debug writes a log to `runner.log` in the data directory")),
    }
}

/// Checks that other commands can find the session by its name, and only this one.
fn check_name(name: &str, is_resumed: bool) -> Result<(), CommandError> {
    let refused = |reason: &str| {
        Err(CommandError::new(Fault::Usage, format!("a session cannot have the name `{}`", harmless(name)))
            .caused_by(reason.to_owned()))
    };
    if name.starts_with(['@', '-']) {
        return refused("a name that begins with `@` or `-` means something else to other commands");
    }
    if name.trim().is_empty() || name.contains(char::is_control) {
        return refused("the name is empty or contains a control character");
    }
    let Ok(home) = Home::from_env() else { return Ok(()) };
    match running_with_name(&home, name) {
        // A resumed session may run already, which its own error reports better.
        Ok(Some(id)) if !is_resumed => {
            Err(CommandError::new(Fault::Usage, format!("the session {id} runs under the name `{name}`"))
                .hint(format!("send it the prompt: `bowline send {} \"…\"`", shell_word(name)))
                .hint("choose another name"))
        }
        // The command that needs the data directory reports why it cannot be read.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the file for the messages of runners. A data directory that cannot be written is an error here: the runner has no terminal to
/// report it on.
fn runner_log() -> Result<Option<PathBuf>, CommandError> {
    let Ok(home) = Home::from_env() else { return Ok(None) };
    if !home.path().is_dir() {
        return Ok(None);
    }
    let log = home.path().join("runner.log");
    match std::fs::File::options().append(true).create(true).open(&log) {
        Ok(_) => Ok(Some(log)),
        Err(error) => {
            let message = format!("could not write in the data directory `{}`", home.path().display());
            Err(CommandError::new(Fault::Configuration, message).caused_by(error))
        }
    }
}

/// Returns the first prompt: the argument, standard input, or none.
fn text(args: &StartArgs) -> Result<Option<String>, CommandError> {
    use std::io::IsTerminal as _;
    if args.request.prompt.is_none() {
        // A session without a prompt waits for one.
        return piped();
    }
    // Without the terminal check, `start "…"` in a script would wait for its standard input to end.
    let typed = args.request.prompt.as_deref().filter(|prompt| *prompt != "-");
    match typed {
        Some(typed) if std::io::stdin().is_terminal() => Ok(Some(typed.to_owned())),
        _ => prompt(args.request.prompt.as_deref()).map(Some),
    }
}

fn own_args() -> Result<Vec<String>, CommandError> {
    std::env::args_os()
        .skip(1)
        .map(|arg| {
            arg.into_string()
                .map_err(|arg| CommandError::new(Fault::Usage, format!("the argument {arg:?} is not UTF-8")))
        })
        .collect()
}

fn internal<E: std::error::Error + Send + Sync + 'static>(
    message: &'static str,
) -> impl Fn(E) -> CommandError {
    move |error| CommandError::new(Fault::Internal, message).caused_by(error)
}

/// The runner: opens the session, listens, and goes on until the session is over.
pub(crate) fn runner() -> Result<(), CommandError> {
    // Before anything prints: the caller reads our standard output.
    let streams = bowline::runner::DetachedStreams::take()
        .map_err(internal("the runner of a session is started by `bowline start`"))?;
    bowline::start_keeper();
    let report = streams.report;
    let opened = prepare(&streams.spec).and_then(|(args, spec)| {
        let runtime = async_runtime::start()?;
        let session = runtime.block_on(open(&args, spec))?;
        Ok((runtime, session))
    });
    let (runtime, OpenedSession { session, socket, attention, hand_over }) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let text = error.text().unwrap_or_default();
            tell(report, &RunnerReport::Failed { text, code: error.exit_code() });
            return Err(CommandError::told(error.exit_code()));
        }
    };
    let listening = RunnerReport::Listening {
        session: session.id().to_string(),
        pid: std::process::id(),
        socket: socket.display().to_string(),
    };
    tell(report, &listening);
    let code = runtime.block_on(until_over(session));
    // Before the hooks of the user's settings, which may take long: a client waits.
    runtime.block_on(hand_over.start());
    runtime.block_on(settle(&attention));
    let code = code?;
    runtime.shutdown_background();
    match code {
        0 => Ok(()),
        code => Err(CommandError::told(code)),
    }
}

/// Sends the report. A caller that is gone does not need it.
fn tell(report: bowline::runner::DetachedReport, text: &RunnerReport) {
    let sent = serde_json::to_vec(text).map_err(std::io::Error::from).and_then(|line| report.send(&line));
    if let Err(error) = sent {
        tracing::warn!(error = &error as &dyn std::error::Error, "the caller did not get the report");
    }
}

fn prepare(spec: &[u8]) -> Result<(StartArgs, RunnerSpec), CommandError> {
    let spec: RunnerSpec = serde_json::from_slice(spec)
        .map_err(internal("the runner of a session is started by `bowline start`"))?;
    let args = std::iter::once("bowline".to_owned()).chain(spec.args.iter().cloned());
    match Args::try_parse_from(args) {
        Ok(Args { command: Some(Command::Start(mut args)) }) => {
            if let Some(child) = &spec.child {
                child.apply(&mut args);
            }
            if let Some(taken_over) = &spec.taken_over {
                taken_over.apply(&mut args);
            }
            Ok((*args, spec))
        }
        Ok(_) | Err(_) => {
            Err(CommandError::new(Fault::Internal, "the runner got other arguments than `start`"))
        }
    }
}

/// A session that listens.
struct OpenedSession {
    session: LiveSession,
    socket: PathBuf,
    attention: Attention,
    hand_over: HandOver,
}

/// Opens the session and its socket.
async fn open(args: &StartArgs, spec: RunnerSpec) -> Result<OpenedSession, CommandError> {
    let RunnerSpec { args: own_args, prompt, title, child, taken_over } = spec;
    let takes_over = taken_over.is_some();
    let mut request = args.request.clone();
    // A title may be longer than a name.
    let title = title.map(|title| title[..title.floor_char_boundary(bowline::NAME_LIMIT)].to_owned());
    request.label = args.name.clone().or(request.label).or(title);
    let resolved = ResolvedRequest::of(&request)?;
    let named = match &resolved.target {
        RequestTarget::One(named) if named.manifest().is_some() => named,
        RequestTarget::One(named) => {
            let message = format!(
                "`{}` is an entry of the router's file, which a live session cannot use",
                named.name()
            );
            return Err(
                CommandError::new(Fault::Usage, message).hint("name the provider itself with `--provider`")
            );
        }
        RequestTarget::Several(_) => {
            return Err(CommandError::new(Fault::Usage, "a session has one provider")
                .hint("start one session for each provider"));
        }
        RequestTarget::Router => {
            return Err(CommandError::new(Fault::Usage, "a live session needs a provider")
                .hint("name it with `--provider`; `bowline route` shows which one the router would choose"));
        }
    };
    // A session that is handed over runs already, and goes on with what its agent still has.
    if let (Some(manifest), false) = (named.manifest(), takes_over) {
        check_installed(&resolved.args, manifest).await?;
    }
    let task = resolved.task(prompt.as_deref().unwrap_or_default(), Some(named))?.sole_process();
    let task = match args.approval_deadline {
        Some(TimeLimit::Of(deadline)) => task.approval_deadline(deadline),
        Some(TimeLimit::None) | None => task,
    };
    let task = match &child {
        Some(child) => task.parent(SessionId::from(child.parent.as_str())),
        None => task,
    };
    let session = SessionTask::of(task);
    let session = match args.idle {
        Some(TimeLimit::Of(idle)) => session.idle(Some(idle)),
        Some(TimeLimit::None) => session.idle(None),
        None => session,
    };
    let session = session.open().await.map_err(CommandError::from)?;
    let cwd = resolved.args.cwd.clone().map_or_else(std::env::current_dir, std::path::absolute);
    let cwd = cwd.map_err(internal("could not find the directory of the session"))?;
    let hand_over = HandOver {
        slot: session.successor(),
        session: session.id().to_string(),
        cwd: cwd.clone(),
        args: own_args.clone(),
        child: child.clone(),
    };
    let starter = ChildRunners {
        session: session.id().clone(),
        args: own_args,
        provider: named.name().to_owned(),
        cwd,
        depth: child.map_or(0, |child| child.depth),
        contained: resolved.args.docker.is_some(),
    };
    let socket = session.serve_with(starter).map_err(CommandError::from)?;
    Ok(OpenedSession { session, socket, attention: resolved.config.attention.clone(), hand_over })
}

/// Refuses a session whose agent is not installed: the command would exit with 0, and the first turn would fail.
async fn check_installed(args: &RequestArgs, manifest: &'static Manifest) -> Result<(), CommandError> {
    // A container has its own programs.
    if args.docker.is_some() {
        return Ok(());
    }
    let of_request = args.env.iter().map(|(name, value)| (name.into(), value.into()));
    let surroundings = Surroundings::of(std::env::vars_os().chain(of_request));
    detect::find_anywhere(manifest, args.binary.as_deref(), &surroundings).await?;
    Ok(())
}

/// Waits for the end of the session. A signal stops it, a second one kills the agent.
async fn until_over(session: LiveSession) -> Result<u8, CommandError> {
    let (control, mut signals) = (session.control(), ProcessSignals::new()?);
    let stopping = tokio::spawn(async move {
        signals.stop().await;
        control.cancel();
        signals.stop().await;
        control.kill();
    });
    let record = session.over().await.map_err(CommandError::from);
    stopping.abort();
    Ok(record?.exit_code())
}
