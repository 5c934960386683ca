//! An agent in a container. `docker exec` does not end it, so this module does.
//!
//! The `docker exec` process on the host only relays input and output. A second `docker exec` sends signals: it finds the agent
//! by the pid that it wrote down and by the session's mark. The run reports processes that survive the kill, and an agent in a
//! container that does not answer, as left behind.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_engine::{Survivor, SweepResult};
use bowline_process as process;
use bowline_protocol::{Category, Code, Exit, Failure, SessionId};
use bowline_providers::invocation::docker::{self, Container, ContainerSignal};
use bowline_providers::invocation::environment;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::system::surroundings::Surroundings;

/// The timeout of one `docker exec`.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long `docker` may be silent before it counts as hanging: an abort has two seconds.
const SILENCE: Duration = Duration::from_millis(1800);

/// The limit on the error output kept from `docker exec`.
const COMPLAINT: usize = 4096;

/// How often to check whether killed processes are gone, and the time between two checks.
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

/// Calls of `docker` without a result yet.
#[derive(Debug, Default)]
struct Questions {
    open: usize,
    /// The start of the first call, or the time of the last result.
    since: Option<Instant>,
}

impl Questions {
    /// Returns how much longer `docker` may be silent, if a call is pending.
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

    /// Records that a call returned, or was given up.
    fn done(&mut self, answered: bool) {
        self.open -= 1;
        if answered {
            self.since = Some(Instant::now());
        }
    }
}

/// The `docker exec` process on the host, and its output so far.
#[derive(Debug)]
pub(crate) struct Messenger {
    inside: Inside,
    /// Whether the agent printed something, which shows that it was started.
    heard: bool,
    complaint: Vec<u8>,
    sweeping: Option<JoinHandle<SweepResult>>,
    /// Whether we have signalled it. Then its error output is not a failed start.
    stopped: AtomicBool,
    /// The exit of `docker` itself.
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

    pub(crate) fn signal(&self, signal: ContainerSignal) {
        self.stopped.store(true, Ordering::Relaxed);
        self.inside.signal(signal);
    }

    pub(crate) fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
    }

    /// Returns why `docker` started nothing in the container, if so. Then nothing is left there. `docker` prints the reason and
    /// exits; an agent may print the same words, and goes on.
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

    /// Begins to end the processes in the container.
    pub(crate) fn sweep(&mut self, mut swept: SweepResult) {
        let inside = self.inside.clone();
        // A task of its own: the driver polls `swept` in a `select!` and drops it again, and the sweep has to go on.
        self.sweeping = Some(tokio::spawn(async move {
            swept.survivors.extend(inside.sweep().await);
            swept
        }));
    }

    /// Waits for the end of the sweep, if there is one.
    pub(crate) async fn swept(&mut self) -> Option<SweepResult> {
        // The task fails only if our own runtime shuts down.
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
        variables: &Surroundings,
    ) -> Self {
        Self {
            supervisor,
            provider: provider.to_owned(),
            container: container.to_owned(),
            session: session.to_string(),
            env: variables
                .texts()
                .filter(|(name, _)| environment::listed(docker::dockers_own(), name))
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            questions: Arc::default(),
        }
    }

    /// Signals the agent and its processes, without waiting.
    pub(crate) fn signal(&self, signal: ContainerSignal) {
        let inside = self.clone();
        tokio::spawn(async move {
            if let Err(why) = inside.ask(signal).await {
                // The sweep at the end tries again and reports.
                tracing::warn!(
                    container = inside.container,
                    why,
                    "the agent in the container was not signalled"
                );
            }
        });
    }

    /// Ends the processes in the container and returns those that could not be ended.
    async fn sweep(self) -> Vec<Survivor> {
        self.try_sweep().await.unwrap_or_else(|why| vec![self.unanswered(&why)])
    }

    /// Returns the survivor to report if the container does not answer.
    pub(crate) fn unanswered(&self, why: &str) -> Survivor {
        Survivor { pid: 0, command: format!("the agent in container {} ({why})", self.container) }
    }

    /// Like a sweep, but returns an error if `docker` did not answer.
    pub(crate) async fn try_sweep(&self) -> Result<Vec<Survivor>, String> {
        let (looks, pause) = LOOKS;
        let mut left = Vec::new();
        for _ in 0..looks {
            // If earlier calls are pending, one more will hardly return. But give a slow docker its time, so that an agent that
            // is gone is not reported as left behind.
            let owes = self.questions().open > 0;
            left = tokio::select! {
                biased;
                () = self.hangs(), if owes => return Err("docker does not answer".to_owned()),
                left = self.ask(ContainerSignal::Kill) => left?,
            };
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        Ok(left)
    }

    /// Waits until `docker` has been silent for too long. Each result restarts the time.
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
        // No panic can leave it half-changed.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal into the container and returns the processes that it found.
    async fn ask(&self, signal: ContainerSignal) -> Result<Vec<Survivor>, String> {
        let container = Container { name: &self.container, cwd: None, session: &self.session, key: None };
        let words =
            docker::stop(&self.provider, &container, signal).map_err(|refusal| refusal.to_string())?;
        let (program, args) = words.split_first().ok_or("there is no command")?;
        // Not the session's marker: the sweep of that session must not end this command.
        let mut command = process::Command::new(program, "bowline-docker");
        command.args = args.iter().map(OsString::from).collect();
        command.env.clone_from(&self.env);
        let asked = Instant::now();
        self.questions().ask();
        let output = crate::system::output::of(&self.supervisor, command, PATIENCE).await;
        // A call that reached its timeout is not a sign of life.
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
