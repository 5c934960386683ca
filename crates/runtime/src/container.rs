//! An agent in a container: what has to be ended there, because `docker exec` does not.
//!
//! The command that runs on our side is only a messenger. Signals go into the container by a second `docker exec`, which
//! finds the agent by the pid that it wrote down and by the session's mark. What is still alive there after it was
//! killed, or what nobody can ask about any more, is told as left behind.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_engine::{Survivor, Swept};
use bowline_process as process;
use bowline_protocol::{Category, Code, Exit, Failure, SessionId};
use bowline_providers::invocation::docker::{self, Container, Signal};
use bowline_providers::invocation::environment;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::host;

/// The longest that one question to the container may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long `docker` may leave all that it was asked unanswered before we think that it hangs: an abort has
/// two seconds.
const SILENCE: Duration = Duration::from_millis(1800);

/// The most that is kept of what the messenger complains of.
const COMPLAINT: usize = 4096;

/// How often it is looked whether the killed are gone, and the time between.
const LOOKS: (usize, Duration) = (10, Duration::from_millis(50));

/// A container in which an agent runs.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    pub(crate) supervisor: process::Supervisor,
    pub(crate) provider: String,
    pub(crate) container: String,
    pub(crate) session: String,
    /// The environment that `docker` itself needs.
    pub(crate) env: Vec<(OsString, OsString)>,
    questions: Arc<Mutex<Questions>>,
}

/// What `docker` was asked and has not answered.
#[derive(Debug, Default)]
struct Questions {
    open: usize,
    /// Since when: from the first of them, or from the last answer.
    since: Option<Instant>,
}

impl Questions {
    /// Returns how much longer `docker` may be silent, if it owes an answer.
    fn patience(&self) -> Option<Duration> {
        let since = self.since.filter(|_| self.open > 0)?;
        Some(SILENCE.saturating_sub(since.elapsed()))
    }

    fn ask(&mut self) {
        if self.open == 0 {
            self.since = Some(Instant::now());
        }
        self.open += 1;
    }

    /// One of them was answered, or given up.
    fn done(&mut self, answered: bool) {
        self.open -= 1;
        if answered {
            self.since = Some(Instant::now());
        }
    }
}

/// The messenger on our side: `docker exec`, and what it let us know.
#[derive(Debug)]
pub(crate) struct Messenger {
    inside: Inside,
    /// Whether the agent was heard: then it was started.
    heard: bool,
    complaint: Vec<u8>,
    sweeping: Option<JoinHandle<Swept>>,
    /// Whether we have asked it to end: then what it says is no refusal.
    stopped: AtomicBool,
    /// How `docker` itself ended.
    exit: Option<Exit>,
}

impl Messenger {
    pub(crate) fn new(inside: Inside) -> Self {
        let stopped = AtomicBool::new(false);
        Self { inside, heard: false, complaint: Vec::new(), sweeping: None, stopped, exit: None }
    }

    pub(crate) fn stdout(&mut self) {
        self.heard = true;
    }

    pub(crate) fn stderr(&mut self, bytes: &[u8]) {
        let room = COMPLAINT.saturating_sub(self.complaint.len());
        self.complaint.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.stopped.store(true, Ordering::Relaxed);
        self.inside.signal(signal);
    }

    pub(crate) fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
    }

    /// Returns why nothing was started in the container, if that is so: then nothing can be left there. `docker` says so
    /// and ends by itself; an agent may use the same words, and go on.
    pub(crate) fn refusal(&self) -> Option<Failure> {
        let by_itself = !self.stopped.load(Ordering::Relaxed);
        if !by_itself || !matches!(self.exit, Some(Exit::Code(code)) if code != 0) {
            return None;
        }
        let complaint = String::from_utf8_lossy(&self.complaint);
        let hint = docker::refusal(&complaint).filter(|_| !self.heard)?;
        let (container, complaint) = (&self.inside.container, complaint.trim());
        let message = format!("docker started nothing in container `{container}`: {complaint}");
        let mut failure = Failure::new(Category::Configuration, Code::BadConfig, message);
        failure.hint = Some(hint.to_owned());
        Some(failure)
    }

    /// Begins to end what is left in the container.
    pub(crate) fn sweep(&mut self, mut swept: Swept) {
        let inside = self.inside.clone();
        self.sweeping = Some(tokio::spawn(async move {
            swept.survivors.extend(inside.sweep().await);
            swept
        }));
    }

    /// Waits for the end of the sweep, if there is one.
    pub(crate) async fn swept(&mut self) -> Option<Swept> {
        // Only our own runtime going down can take the task away.
        let swept = self.sweeping.as_mut()?.await.unwrap_or_default();
        self.sweeping = None;
        Some(swept)
    }
}

impl Inside {
    pub(crate) fn new(
        supervisor: process::Supervisor,
        provider: &str,
        container: &str,
        session: &SessionId,
    ) -> Self {
        Self {
            supervisor,
            provider: provider.to_owned(),
            container: container.to_owned(),
            session: session.to_string(),
            env: host::environment()
                .into_iter()
                .filter(|(name, _)| environment::listed(docker::dockers_own(), name))
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            questions: Arc::default(),
        }
    }

    /// Signals the agent and all that it started, without waiting for it.
    pub(crate) fn signal(&self, signal: Signal) {
        let inside = self.clone();
        tokio::spawn(async move {
            if let Err(why) = inside.ask(signal).await {
                // The sweep at the end asks again and tells.
                tracing::warn!(
                    container = inside.container,
                    why,
                    "the agent in the container was not signalled"
                );
            }
        });
    }

    /// Ends what is left in the container and returns what could not be ended.
    async fn sweep(self) -> Vec<Survivor> {
        self.try_sweep().await.unwrap_or_else(|why| vec![self.unanswered(&why)])
    }

    /// Returns what is told of an agent about whom nobody can be asked.
    pub(crate) fn unanswered(&self, why: &str) -> Survivor {
        Survivor { pid: 0, command: format!("the agent in container {} ({why})", self.container) }
    }

    /// The same as a sweep, but says when `docker` did not answer.
    pub(crate) async fn try_sweep(&self) -> Result<Vec<Survivor>, String> {
        let (looks, pause) = LOOKS;
        let mut left = Vec::new();
        for _ in 0..looks {
            // Where earlier questions are not answered, there is little hope for one more; but a docker that is only slow
            // gets its time, and is not said to have left somebody who is gone.
            let owes = self.questions().open > 0;
            left = tokio::select! {
                biased;
                () = self.hangs(), if owes => return Err("docker does not answer".to_owned()),
                left = self.ask(Signal::Kill) => left?,
            };
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        Ok(left)
    }

    /// Waits until `docker` has been silent for too long. Each answer gives it new time.
    async fn hangs(&self) {
        loop {
            let left = self.questions().patience().unwrap_or(SILENCE);
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, Questions> {
        // It is never half-changed.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal into the container and returns who was there to get it.
    async fn ask(&self, signal: Signal) -> Result<Vec<Survivor>, String> {
        let container = Container { name: &self.container, cwd: None, session: &self.session, key: None };
        let words =
            docker::stop(&self.provider, &container, signal).map_err(|refusal| refusal.to_string())?;
        let (program, args) = words.split_first().ok_or("there is no command")?;
        let mut command = process::Command::new(program, "bowline-docker");
        command.args = args.iter().map(OsString::from).collect();
        command.env.clone_from(&self.env);
        let asked = Instant::now();
        self.questions().ask();
        let output = crate::output::of(&self.supervisor, command, PATIENCE).await;
        self.questions().done(asked.elapsed() < PATIENCE);
        let output = output?;
        let survivor = |line: &str| {
            let (pid, name) = line.split_once(' ').unwrap_or((line, ""));
            Some(Survivor {
                pid: pid.parse().ok()?,
                command: format!("{name} in container {}", self.container),
            })
        };
        Ok(String::from_utf8_lossy(&output).lines().filter_map(survivor).collect())
    }
}
