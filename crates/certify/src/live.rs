//! A live session under watch: the orders of a case, and every event that followed.

use std::future::Future;
use std::time::Duration;

use bowline::{Event, EventWatch, Failure, Kind, LastTurn, LiveSession, Outcome, SessionId, SessionTask};
use bowline_protocol::kinds::ApprovalDecided;

use crate::case_failure::{CaseFailure, CaseVerdict, short};
use crate::clock::Stopwatch;
use crate::place::{CaseContext, CasePlace};

/// A live session that is watched from its first event.
#[derive(Debug)]
pub(crate) struct WatchedSession {
    context: CaseContext,
    session: LiveSession,
    watch: EventWatch,
    pub(crate) events: Vec<Event>,
    /// Whether the case killed the agent, whose children then outlive it.
    killed: bool,
}

impl CasePlace {
    /// Opens a session, and watches it.
    pub(crate) async fn open(&self, session: SessionTask) -> Result<WatchedSession, CaseFailure> {
        self.watched(session.open().await?)
    }

    /// Watches a session that is open.
    pub(crate) fn watched(&self, session: LiveSession) -> Result<WatchedSession, CaseFailure> {
        let watch = session.watch_from(1)?;
        let (context, events) = (self.context().clone(), Vec::new());
        Ok(WatchedSession { context, session, watch, events, killed: false })
    }
}

impl WatchedSession {
    /// The session, for orders.
    pub(crate) fn orders(&self) -> &LiveSession {
        &self.session
    }

    /// Sends a prompt, which begins a turn or waits for the running one.
    pub(crate) async fn send(&self, prompt: &str) -> CaseVerdict {
        match self.session.send(prompt).await {
            Ok(_) => Ok(()),
            Err(refused) => Err(self.trouble(format_args!("the prompt was refused: {refused}"))),
        }
    }

    /// Sends a prompt, and waits for the end of its turn, which has to complete. Returns its text.
    pub(crate) async fn ask(&mut self, prompt: &str) -> Result<String, CaseFailure> {
        self.send(prompt).await?;
        let last = self.rest().await?;
        self.hold(last.outcome == Outcome::Completed, || {
            format!("turn {} did not complete: {:?}", last.turn, last.outcome)
        })?;
        Ok(self.text_of(last.turn))
    }

    /// Waits for an event that is not read yet.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        is: impl Fn(&Kind) -> bool,
    ) -> Result<Event, CaseFailure> {
        let time = Stopwatch::start();
        loop {
            let left = self.patience().saturating_sub(time.elapsed());
            match tokio::time::timeout(left, self.watch.next()).await {
                Ok(Ok(Some(event))) => {
                    self.events.push(event.clone());
                    if is(&event.kind) {
                        return Ok(event);
                    }
                }
                Ok(Ok(None)) => return Err(self.trouble(format_args!("the session ended before {what}"))),
                Ok(Err(error)) => return Err(self.trouble(format_args!("the journal: {error}"))),
                Err(_) => return Err(self.without(what)),
            }
        }
    }

    /// Waits until a condition outside of the session holds.
    pub(crate) async fn wait(&self, what: &str, holds: impl Fn() -> bool) -> CaseVerdict {
        let time = Stopwatch::start();
        while !holds() {
            if time.elapsed() > self.patience() {
                return Err(self.without(what));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Waits until no turn runs and no prompt waits, and reads the events up to there.
    pub(crate) async fn rest(&mut self) -> Result<LastTurn, CaseFailure> {
        // From the snapshot and not from an event: a queued prompt begins its turn right behind the end of the last one.
        let last = self.within("the end of the turn", self.session.turn_over()).await?;
        let last = last.map_err(|refused| self.trouble(format_args!("no turn ended: {refused}")))?;
        self.catch_up().await?;
        Ok(last)
    }

    /// Waits until no turn runs and no prompt waits, or until a condition outside of the session holds.
    pub(crate) async fn rest_or(&self, holds: impl Fn() -> bool) -> CaseVerdict {
        // A program that finds no address ends its turn without any request.
        let rest = self.within("the end of the turn", self.session.turn_over());
        tokio::select! {
            rested = rest => rested.map(drop),
            held = self.wait("a sign outside of the session", holds) => held,
        }
    }

    /// Waits until the session has no process.
    pub(crate) async fn without_process(&mut self) -> CaseVerdict {
        let time = Stopwatch::start();
        while self.session.snapshot().await.is_some_and(|it| it.has_process || !it.is_at_rest()) {
            if time.elapsed() > self.patience() {
                return Err(self.trouble("the session did not notice that its process is gone"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.catch_up().await
    }

    /// Kills the process of the agent, as a machine that is out of memory does.
    pub(crate) fn kill_agent(&mut self) -> CaseVerdict {
        // The last one: after an idle end or a crash, the session has had several.
        let pid = self.pids().last().copied().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { return Err(self.trouble("no process was started")) };
        self.killed = true;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)
            .map_err(|error| self.trouble(format_args!("the agent could not be killed: {error}")))
    }

    /// Stops the session, and adds its events to the totals of the suite.
    pub(crate) async fn stop(self, place: &CasePlace) -> CaseVerdict {
        self.stop_with_events(place).await.map(drop)
    }

    /// Stops the session as [`Self::stop`] does, and returns its events.
    pub(crate) async fn stop_with_events(self, place: &CasePlace) -> Result<Vec<Event>, CaseFailure> {
        let Self { context, session, mut watch, mut events, killed } = self;
        let stopped = tokio::time::timeout(context.patience, session.stop()).await;
        let Ok(record) = stopped else { return Err(CaseFailure::new("the session did not stop")) };
        let mut record = record?;
        // The watch ends with the stint: its last events are the ends of processes, which the totals need.
        while let Some(event) = watch.next().await.map_err(CaseFailure::new)? {
            events.push(event);
        }
        if killed {
            record.left_behind.clear();
        }
        context.enter(&record, &events, place.all_requests().len());
        Ok(events)
    }

    /// Returns the session's id.
    pub(crate) fn id(&self) -> &SessionId {
        self.session.id()
    }

    /// Returns the processes that were started so far.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let pid =
            |event: &Event| if let Kind::ProcessSpawned(it) = &event.kind { Some(it.pid) } else { None };
        self.events.iter().filter_map(pid).collect()
    }

    /// Joins the text of a turn.
    pub(crate) fn text_of(&self, turn: u32) -> String {
        let text = |event: &Event| {
            let Kind::TextDelta(it) = &event.kind else { return None };
            (event.turn == Some(turn)).then(|| it.text.clone())
        };
        self.events.iter().filter_map(text).collect()
    }

    /// Returns the decisions so far.
    pub(crate) fn decisions(&self) -> Vec<&ApprovalDecided> {
        let mut made = Vec::new();
        for event in &self.events {
            if let Kind::ApprovalDecided(decided) = &event.kind {
                made.push(decided);
            }
        }
        made
    }

    /// Returns the failure of the last turn that ended.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        for event in self.events.iter().rev() {
            if let Kind::TurnEnded(ended) = &event.kind {
                return ended.failure.as_deref();
            }
        }
        None
    }

    /// Describes the problem, and what the session did last.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) -> CaseFailure {
        let mut trouble = CaseFailure::new(what);
        if let Some(failure) = self.failure() {
            trouble = trouble.and(format_args!(
                "failure {}/{}: {}",
                failure.category.as_str(),
                failure.code.as_str(),
                short(&failure.message)
            ));
        }
        let last: Vec<&str> = self.events.iter().rev().take(6).map(|event| event.kind.type_name()).collect();
        trouble = trouble.and(format_args!("last events, newest first: {}", last.join(", ")));
        match self.session.dir() {
            Some(dir) => trouble.and(format_args!("journal: {}", dir.display())),
            None => trouble,
        }
    }

    /// Succeeds if a claim holds; otherwise describes the problem, and what the session did last.
    pub(crate) fn hold(&self, claim: bool, otherwise: impl FnOnce() -> String) -> CaseVerdict {
        if claim { Ok(()) } else { Err(self.trouble(otherwise())) }
    }

    async fn within<T>(&self, what: &str, work: impl Future<Output = T>) -> Result<T, CaseFailure> {
        let done = tokio::time::timeout(self.patience(), work).await;
        done.map_err(|_| self.without(what))
    }

    /// How long a case waits for one thing: less than its own limit, so that the evidence names what it waited for.
    fn patience(&self) -> Duration {
        self.context.patience
    }

    fn without(&self, what: &str) -> CaseFailure {
        self.trouble(format_args!("{} s without {what}", self.patience().as_secs()))
    }

    /// Reads the events that are on file.
    async fn catch_up(&mut self) -> CaseVerdict {
        // The snapshot may be newer than the events that were read. All up to its head are on file.
        let head = *self.session.head().borrow();
        while self.events.last().is_none_or(|event| event.seq < head) {
            match self.watch.next().await {
                Ok(Some(event)) => self.events.push(event),
                Ok(None) => break,
                Err(error) => return Err(self.trouble(format_args!("the journal: {error}"))),
            }
        }
        Ok(())
    }
}
