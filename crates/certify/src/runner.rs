//! A live session whose runner is a process of its own, as `bowline start` makes it, and watchers in processes of their own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bowline::journal::Home;
use bowline::{AttachedSession, Event, EventWatch, Kind, PermissionMode, Receipt, SessionId};
use bowline_process::detach::{DetachedCommand, detach};
use bowline_protocol::{LastTurn, SessionSnapshot, WhenBusy};
use rustix::process::{Pid, Signal};
use serde::Deserialize;

use crate::case_failure::{CaseFailure, CaseVerdict};
use crate::clock::Stopwatch;
use crate::place::{CaseContext, CasePlace};
use crate::processes;

/// How long processes may take to end after the death of their runner.
const GRACE: Duration = Duration::from_secs(10);

/// The line that `bowline start` prints.
#[derive(Debug, Deserialize)]
struct StartedRunner {
    session: SessionId,
    pid: u32,
}

/// A session in a runner of its own, which the case directs over the runner's socket.
#[derive(Debug)]
pub(crate) struct RunnerSession {
    context: CaseContext,
    attached: AttachedSession,
    watch: EventWatch,
    runner: u32,
    pub(crate) events: Vec<Event>,
}

impl CasePlace {
    /// Starts a runner: of a new session, or of one that goes on.
    pub(crate) async fn start_runner(
        &self,
        resume: Option<&SessionId>,
    ) -> Result<RunnerSession, CaseFailure> {
        let context = self.context();
        let mut start = self.runner_start(PermissionMode::Ask);
        start.resume = resume.cloned();
        let args = (context.command.start)(&start);
        let log = context.dir.join("start.log");
        let mut call = detach(DetachedCommand {
            program: context.command.program.clone(),
            args,
            env: context.command_variables(),
            spec: Vec::new(),
            log: Some(log.clone()),
        })
        .await
        .map_err(CaseFailure::new)?;
        // The command prints one line on its standard output, and ends. Its runner has another one.
        let line = tokio::time::timeout(context.patience, call.report()).await;
        let Ok(Ok(Some(line))) = line else {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(CaseFailure::new("no runner was started").and(said.trim()));
        };
        let started: StartedRunner = serde_json::from_slice(&line)
            .map_err(|error| CaseFailure::new(format_args!("the line of the started runner: {error}")))?;
        let attached = bowline::attach_in(&context.journal_home(), started.session.as_str())
            .await
            .map_err(CaseFailure::new)?;
        let watch = attached.watch_from(1)?;
        Ok(RunnerSession {
            context: context.clone(),
            attached,
            watch,
            runner: started.pid,
            events: Vec::new(),
        })
    }
}

impl RunnerSession {
    /// Returns the session's id.
    pub(crate) fn id(&self) -> &SessionId {
        self.attached.id()
    }

    /// Sends a prompt.
    pub(crate) async fn send(&self, prompt: &str) -> Result<Receipt, CaseFailure> {
        let sent = self.attached.send(prompt, WhenBusy::Queue).await;
        sent.map_err(|error| self.trouble(format_args!("the prompt was refused: {error}")))
    }

    /// Returns the state of the session.
    pub(crate) async fn snapshot(&self) -> Result<SessionSnapshot, CaseFailure> {
        self.attached.snapshot().await.map_err(|error| self.trouble(format_args!("no snapshot: {error}")))
    }

    /// Waits until no turn runs and no prompt waits.
    pub(crate) async fn rest(&self) -> Result<LastTurn, CaseFailure> {
        let time = Stopwatch::start();
        loop {
            let snapshot = self.snapshot().await?;
            if snapshot.is_at_rest() {
                return snapshot.last_turn.ok_or_else(|| self.trouble("no turn ran"));
            }
            if time.elapsed() > self.context.patience {
                return Err(self.trouble("the turn does not end"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a condition outside of the session holds.
    pub(crate) async fn wait_for(&self, what: &str, holds: impl Fn() -> bool) -> CaseVerdict {
        let time = Stopwatch::start();
        while !holds() {
            if time.elapsed() > self.context.patience {
                return Err(
                    self.trouble(format_args!("{} s without {what}", self.context.patience.as_secs()))
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Kills the runner with SIGKILL, and waits until it and every process of its agents are gone.
    pub(crate) async fn kill(mut self) -> Result<Vec<Event>, CaseFailure> {
        signal(self.runner, Signal::KILL).map_err(|why| self.trouble(why))?;
        // The watch ends when the socket does.
        while let Some(event) = self.watch.next().await.map_err(CaseFailure::new)? {
            self.events.push(event);
        }
        let mut pids = vec![self.runner];
        for event in &self.events {
            if let Kind::ProcessSpawned(spawned) = &event.kind {
                pids.push(spawned.pid);
            }
        }
        let time = Stopwatch::start();
        while pids.iter().any(|pid| processes::is_alive(*pid)) {
            if time.elapsed() > GRACE {
                pids.retain(|pid| processes::is_alive(*pid));
                return Err(self.trouble(format_args!("alive after the death of their runner: {pids:?}")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(self.events)
    }

    /// Ends the session, and returns all its events.
    pub(crate) async fn stop(mut self) -> Result<Vec<Event>, CaseFailure> {
        let stopped = self.attached.order(bowline::SessionOrder::Stop).await;
        stopped.map_err(|error| self.trouble(format_args!("the session does not stop: {error}")))?;
        while let Some(event) = self.watch.next().await.map_err(CaseFailure::new)? {
            self.events.push(event);
        }
        Ok(self.events)
    }

    /// Succeeds if a claim holds; otherwise describes the problem.
    pub(crate) fn hold(&self, claim: bool, otherwise: impl FnOnce() -> String) -> CaseVerdict {
        if claim { Ok(()) } else { Err(self.trouble(otherwise())) }
    }

    /// Describes the problem.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) -> CaseFailure {
        let journal = self.context.journal_home();
        CaseFailure::new(what).and(format_args!("session {} in {}", self.id(), journal.path().display()))
    }
}

/// A watcher of a session in a process of its own, which writes the events that it sees into a file.
#[derive(Debug)]
pub(crate) struct WatcherProcess {
    pid: u32,
    file: PathBuf,
}

impl WatcherProcess {
    /// Starts a watcher.
    pub(crate) async fn start(
        context: &CaseContext,
        session: &SessionId,
        name: &str,
    ) -> Result<Self, CaseFailure> {
        let file = context.dir.join(format!("{name}.jsonl"));
        // The report of a detached process is one line, so a shell gives the watcher a file. `exec` keeps the process id.
        let script = "exec \"$0\" \"$@\" >\"$WATCHED\"";
        let mut args = vec![OsString::from("-c"), script.into(), context.command.program.clone().into()];
        args.extend((context.command.watch)(session));
        let mut env = context.command_variables();
        env.push(("WATCHED".into(), file.clone().into()));
        let log = Some(context.dir.join(format!("{name}.log")));
        let command = DetachedCommand { program: "/bin/sh".into(), args, env, spec: Vec::new(), log };
        let process = detach(command).await.map_err(CaseFailure::new)?;
        Ok(Self { pid: process.pid(), file })
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, with: Signal) -> CaseVerdict {
        signal(self.pid, with).map_err(CaseFailure::new)
    }

    pub(crate) fn is_alive(&self) -> bool {
        processes::is_alive(self.pid)
    }

    /// Returns the events that it has written. The last line of a watcher that was killed may have no end.
    pub(crate) fn seen(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn signal(pid: u32, with: Signal) -> Result<(), String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no process id")?;
    rustix::process::kill_process(pid, with)
        .map_err(|error| format!("process {} got no signal: {error}", pid.as_raw_nonzero()))
}

impl CaseContext {
    /// Returns the data home of the case.
    pub(crate) fn journal_home(&self) -> Home {
        Home::at(self.dir.join("journal"))
    }

    /// Returns the variables of a call of the command: ours, and the data home of the case.
    fn command_variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        variables.push(("BOWLINE_HOME".into(), self.dir.join("journal").into()));
        variables
    }
}
