//! Calls a person when an agent needs one: with a command of the user, or a desktop notice.
//!
//! ```text
//! events ──AlertFinder──> alerts ──Attention──> a thread for each command, at most 4 at once, at most 10 s each
//! ```
//!
//! The command acts for the user, so it is no descendant of the keeper and may approve what an agent asks for. Words of an agent are
//! values of variables, and the last argument of `notify-send`; no shell and no option ever sees them. A command that fails is
//! reported once, and changes nothing for the run.

mod alert;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_process::user_command::{self, UserCommand};
use bowline_process::{ExitStatus, SpawnError};
use bowline_protocol::Event;
use bowline_protocol::kinds::{Level, Notice};
use tokio::sync::watch;

use crate::run::record::word_of;
use crate::sessions::control::{Control, RunOrder};
use crate::system::causes::in_full;
use crate::system::surroundings::Surroundings;
pub use alert::{Alert, AlertFinder, AttentionEvent};

/// How many commands run at once. Bowline drops further alerts: four calls have told the person already.
const AT_ONCE: usize = 4;

/// How long a command may run.
const LIMIT: Duration = Duration::from_secs(10);

/// The program that shows desktop notices.
const NOTICE_PROGRAM: &str = "notify-send";

/// Names the variable that a command finds the sort of event in. A process that has it was started by one: its own runs start no command, or
/// a command that runs Bowline would call itself for ever.
const EVENT_VARIABLE: &str = "BOWLINE_EVENT";

/// How to call a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionOptions {
    /// A program and its arguments: an absolute path, or a name that is searched in `PATH`. Empty for none.
    pub command: Vec<String>,
    /// Whether to show a desktop notice with `notify-send`.
    pub notice: bool,
    /// The events that count.
    pub on: BTreeSet<AttentionEvent>,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self { command: Vec::new(), notice: false, on: AttentionEvent::ALL.into() }
    }
}

/// Calls a person. Clones share the count of commands that run. The default starts no command.
///
/// ```
/// use bowline::attention::{Attention, AttentionOptions};
/// use bowline::settings::RunSettings;
///
/// let command = ["/usr/local/bin/page-me".to_owned()].into();
/// let attention = Attention::new(AttentionOptions { command, ..AttentionOptions::default() });
/// let mut settings = RunSettings::default();
/// settings.attention = attention.clone();
/// let task = bowline::task("Fix the parser").provider("claude").settings(settings.into());
/// # drop(task);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention(Option<Arc<AttentionState>>);

#[derive(Debug)]
struct AttentionState {
    options: AttentionOptions,
    /// The number of commands that run.
    running: watch::Sender<usize>,
    has_failed: AtomicBool,
    /// The failure, if no run was there to report it.
    unreported: Mutex<Option<String>>,
}

impl Attention {
    /// Makes one with these options.
    pub fn new(options: AttentionOptions) -> Self {
        let is_used = (!options.command.is_empty() || options.notice) && !options.on.is_empty();
        Self(is_used.then(|| {
            Arc::new(AttentionState {
                options,
                running: watch::Sender::new(0),
                has_failed: AtomicBool::new(false),
                unreported: Mutex::default(),
            })
        }))
    }

    /// Waits until no command runs, at most ten seconds. Call it before the process exits, which ends them. Returns why a command
    /// failed, if no run reported that.
    pub async fn finished(&self) -> Option<String> {
        let state = self.0.as_ref()?;
        // The sender lives in the same state, so the wait cannot fail.
        let _ = state.running.subscribe().wait_for(|running| *running == 0).await;
        state.unreported().take()
    }

    /// Returns whether the caller should show a notice on its terminal: a notice is wanted, and this machine has no `notify-send`
    /// on the `PATH` of these variables.
    pub fn wants_terminal(&self, event: AttentionEvent, variables: &Surroundings) -> bool {
        let Some(state) = &self.0 else { return false };
        let wanted = state.options.notice && state.options.on.contains(&event);
        wanted && !is_inside_a_command(variables) && notice_program(variables).is_none()
    }

    /// Begins to watch a task or a session.
    pub(crate) fn watch(
        &self,
        finder: AlertFinder,
        label: Option<&str>,
        variables: &Arc<Surroundings>,
    ) -> Option<AlertWatch> {
        let state = self.0.clone().filter(|_| !is_inside_a_command(variables))?;
        let (label, variables) = (label.map(alert::line), variables.clone());
        Some(AlertWatch(Arc::new(WatchedTask { state, finder: Mutex::new(finder), label, variables })))
    }
}

fn is_inside_a_command(variables: &Surroundings) -> bool {
    variables.get(EVENT_VARIABLE).is_some()
}

/// Returns the program that shows desktop notices, if this machine has it and a desktop.
fn notice_program(variables: &Surroundings) -> Option<PathBuf> {
    let desktop = ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"];
    desktop.iter().find(|name| variables.get(name).is_some())?;
    let places = std::env::split_paths(variables.get("PATH")?).filter(|place| place.is_absolute());
    places.map(|place| place.join(NOTICE_PROGRAM)).find(|program| program.is_file())
}

/// Watches the events of one task, with all its attempts, or of one session. The task is over when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct AlertWatch(Arc<WatchedTask>);

#[derive(Debug)]
struct WatchedTask {
    state: Arc<AttentionState>,
    finder: Mutex<AlertFinder>,
    label: Option<String>,
    variables: Arc<Surroundings>,
}

impl AlertWatch {
    /// Handles events that have become public. A failure of a command is reported to `control`.
    pub(crate) fn batch(&self, events: &[Event], control: &Control) {
        let alerts = self.0.finder.lock().unwrap_or_else(PoisonError::into_inner).batch(events);
        for alert in alerts {
            self.0.call(&alert, Some(control));
        }
    }
}

impl Drop for WatchedTask {
    fn drop(&mut self) {
        let last = self.finder.get_mut().unwrap_or_else(PoisonError::into_inner).finish();
        if let Some(alert) = last {
            self.call(&alert, None);
        }
    }
}

impl WatchedTask {
    fn call(&self, alert: &Alert, control: Option<&Control>) {
        let options = &self.state.options;
        if !options.on.contains(&alert.event) {
            return;
        }
        let env = environment(&self.variables, alert, self.label.as_deref());
        if let Some((program, args)) = options.command.split_first() {
            let args = args.iter().map(OsString::from).collect();
            self.state.start(program.into(), args, env.clone(), control);
        }
        if options.notice
            && let Some(program) = notice_program(&self.variables)
        {
            self.state.start(program, notice_args(alert, self.label.as_deref()), env, control);
        }
    }
}

/// Returns the variables of the user, and those that describe the alert. All of these are set, so that none is inherited.
fn environment(variables: &Surroundings, alert: &Alert, label: Option<&str>) -> Vec<(OsString, OsString)> {
    let turn = alert.turn.map(|turn| turn.to_string());
    let outcome = alert.outcome.map(word_of);
    let described = [
        (EVENT_VARIABLE, Some(alert.event.as_str())),
        ("BOWLINE_SESSION", Some(alert.session.as_str())),
        ("BOWLINE_NAME", label),
        // Not `BOWLINE_PROVIDER`: that sets the default provider of a `bowline` that the command runs.
        ("BOWLINE_AGENT", alert.provider.as_deref()),
        ("BOWLINE_TURN", turn.as_deref()),
        ("BOWLINE_REQUEST", alert.request.as_deref()),
        ("BOWLINE_OUTCOME", outcome),
        ("BOWLINE_SUMMARY", Some(alert.summary.as_str())),
    ];
    let mut env: Vec<(OsString, OsString)> = variables.all().collect();
    env.retain(|(name, _)| described.iter().all(|(described, _)| name != described));
    env.extend(described.map(|(name, value)| (name.into(), value.unwrap_or_default().into())));
    env
}

/// Returns the arguments of `notify-send`.
fn notice_args(alert: &Alert, label: Option<&str>) -> Vec<OsString> {
    let title = format!("Bowline: {}", label.unwrap_or(alert.session.as_str()));
    // The text of a notice is markup (the Desktop Notifications Specification), in which an agent could hide a link.
    let text = alert.summary.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Behind `--` nothing is an option.
    ["--app-name=bowline", "--", &title, &text].map(OsString::from).into()
}

impl AttentionState {
    fn unreported(&self) -> MutexGuard<'_, Option<String>> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command on a thread of its own, unless too many run.
    fn start(
        self: &Arc<Self>,
        program: PathBuf,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        control: Option<&Control>,
    ) {
        let has_room = self.running.send_if_modified(|running| {
            let has_room = *running < AT_ONCE;
            *running += usize::from(has_room);
            has_room
        });
        if !has_room {
            return self.failed("too many commands run at once: this one was not started", &program, control);
        }
        // Not the directory of the session: a project must not decide which files the command meets.
        let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let cwd = home.filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"));
        let command = UserCommand { program, args, env, cwd, limit: LIMIT };
        let (state, name, control) = (self.clone(), command.program.clone(), control.cloned());
        // Not a task of tokio: the kernel ends the command with the thread that started it, and threads of a runtime end when idle.
        let spawned = std::thread::Builder::new().name("bowline-attention".to_owned()).spawn(move || {
            if let Some(why) = problem(user_command::run(command)) {
                state.failed(&why, &name, control.as_ref());
            }
            state.running.send_modify(|running| *running -= 1);
        });
        if let Err(error) = spawned {
            tracing::warn!(error = &error as &dyn std::error::Error, "no thread for an attention command");
            self.running.send_modify(|running| *running -= 1);
        }
    }

    /// Reports the first failure, once.
    fn failed(&self, why: &str, program: &Path, control: Option<&Control>) {
        tracing::warn!(program = %program.display(), "an attention command failed");
        if self.has_failed.swap(true, Ordering::AcqRel) {
            return;
        }
        let text = format!(
            "the attention command `{}` failed: {why}; later failures are not reported",
            program.display()
        );
        match control.filter(|control| !control.is_over()) {
            Some(control) => {
                let code = Some("attention_failed".to_owned());
                control.send(RunOrder::Remark(Notice { level: Level::Warn, text, code }));
            }
            None => *self.unreported() = Some(text),
        }
    }
}

/// Returns why a command failed.
fn problem(ended: Result<user_command::UserCommandEnd, SpawnError>) -> Option<String> {
    let end = match ended {
        Ok(end) => end,
        Err(error) => return Some(in_full(&error.kind)),
    };
    let exit = match end.exit {
        Some(ExitStatus::Code(0)) => return None,
        Some(exit @ (ExitStatus::Code(_) | ExitStatus::Signal(_) | ExitStatus::Unknown)) => exit.to_string(),
        None => format!("it ran for more than {} s and was killed", LIMIT.as_secs()),
    };
    let said = String::from_utf8_lossy(&end.stderr);
    let said = said.lines().next().map(alert::line).filter(|line| !line.is_empty());
    Some(match said {
        Some(said) => format!("{exit}: {said}"),
        None => exit,
    })
}

#[cfg(test)]
mod tests;
