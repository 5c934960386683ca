//! One routed request, from its first attempt to its last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::{self, NextStep, RetryRules, RetryVerdict, RetryWait, RouteStop};
use bowline_engine::route::{RouteDecision, RouteMemory};
use bowline_protocol::kinds::{FallbackTaken, Level, Notice, Outcome, RejectedRoute, Retrying, RouteChosen};
use bowline_protocol::{Category, Code, Event, Failure, Kind, Millis, SessionId, Timestamp};
use tokio::sync::mpsc;

use super::candidates::Candidates;
use super::memory::{self, Store};
use super::{NoRoute, RouteProblem, rules, strange_hint, tuned};
use crate::run::callback::SharedCallback;
use crate::run::error::Error;
use crate::run::launch::{self, Prepared, Watcher};
use crate::run::record::{Attempt, EarlierAttempts, Record};
use crate::run::subscribe::EventReceiver;
use crate::run::task::{RetriedAttempt, Task};
use crate::run::watch::RunsSender;
use crate::sessions::control::{self, Control, OrderInbox};
use crate::sessions::journal::{SessionHold, Writer};
use crate::system::causes::in_full;
use crate::system::clock;
use crate::system::host::{self, Cleanup};

/// A routed request in progress.
pub(super) struct RoutedRun {
    task: Task,
    candidates: Candidates,
    rules: RetryRules,
    store: Store,
    /// The attempts in order: indexes of candidates, each with a model if it is not the candidate's own.
    order: Vec<(usize, Option<String>)>,
    /// The same, with their names and their keys in the router's memory.
    turns: Vec<RouteStop>,
    rejected: Vec<RejectedRoute>,
    reasons: Vec<String>,
    orders: OrderInbox,
    /// Where the event receiver of each attempt is sent, and where each is registered for watches.
    subscribers: Option<(mpsc::UnboundedSender<EventReceiver>, RunsSender)>,
    callback: Option<SharedCallback>,
    watcher: Watcher,
    attempts: Vec<Attempt>,
    used: Amounts,
    /// The usage, cost and time of the attempts before the current one.
    earlier: EarlierAttempts,
    /// The limit to wait for before the first attempt: its reset time, and the reason.
    limit: Option<(Timestamp, String)>,
    /// A warning about the hint, reported once.
    strange_hint: Option<String>,
    /// The time spent on querying limits before the first attempt.
    asked: Millis,
    /// An error of the router's memory. The request goes on.
    trouble: Option<Error>,
    /// Why the spending of an attempt could not be written to the ledger.
    unwritten: Option<String>,
    /// The last attempt that was prepared: its index in the order, its journal and its temporary files. A retry continues it.
    last: Option<(usize, Option<SessionHold>, Arc<Cleanup>)>,
}

/// An attempt that is ready to start.
pub(super) struct PreparedAttempt {
    prepared: Prepared,
    control: Control,
    /// Its index in the order, its number of retries, and its number of waits for a limit.
    turn: usize,
    retries: u32,
    waits: u32,
    /// How long it waits before it starts.
    delay: Millis,
    first_word: Arc<Mutex<FirstWord>>,
}

impl PreparedAttempt {
    pub(super) fn session(&self) -> SessionId {
        self.prepared.drive.session.clone()
    }
}

/// When the program started, and how long its first output took.
#[derive(Debug, Default)]
struct FirstWord {
    started: Option<Timestamp>,
    took: Option<Millis>,
}

impl FirstWord {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are no sign of work")]
    fn event(&mut self, event: &Event) {
        match &event.kind {
            Kind::ProcessSpawned(_) => self.started = self.started.or(Some(event.at)),
            Kind::TextDelta(_) | Kind::ThinkingDelta(_) | Kind::ToolStarted(_) if self.took.is_none() => {
                self.took = self.started.map(|started| event.at.since(started));
            }
            _ => {}
        }
    }
}

impl RoutedRun {
    /// Decides the order of the providers. `asked` is the time already spent on querying limits.
    pub(super) fn plan(
        mut task: Task,
        orders: OrderInbox,
        subscribers: Option<(mpsc::UnboundedSender<EventReceiver>, RunsSender)>,
        asked: Millis,
    ) -> Result<Self, Error> {
        let settings = task.settings.clone();
        let store = Store::of(&task);
        let mut candidates = Candidates::gather(&task, &settings, &store.read()?, clock::wall())?;
        let mut trouble = None;
        // An error of the memory must not stop the request. The order is then made by the facts alone.
        let mut decision = candidates.take_turn(&store).unwrap_or_else(|error| {
            trouble = Some(error);
            candidates.decide_to_ask()
        });
        let rules = rules(&task, &settings);
        let limit = waited_for(&mut decision, &rules);
        let RouteDecision { order, verdicts, problem } = decision;
        if let Some(problem) = problem {
            return Err(Error::NoRoute(Box::new(NoRoute { problem, verdicts })));
        }
        let rejected = verdicts.iter().filter(|verdict| verdict.turn.is_none());
        let rejected =
            rejected.map(|it| RejectedRoute { provider: it.name.clone(), reason: it.reason.clone() });
        task.request.sampling = tuned(&task, &settings);
        let order = candidates.with_fallback_model(&order, &settings);
        let turns = candidates.turns(&order);
        let strange_hint = strange_hint(&candidates, &settings);
        let callback = task.callback.take();
        Ok(Self {
            rules,
            store,
            order,
            turns,
            rejected: rejected.collect(),
            reasons: verdicts.into_iter().map(|verdict| verdict.reason).collect(),
            candidates,
            task,
            orders,
            subscribers,
            callback,
            watcher: Watcher::No,
            attempts: Vec::new(),
            used: Amounts { time: Some(asked), ..Amounts::default() },
            earlier: EarlierAttempts::default(),
            limit,
            strange_hint,
            asked,
            trouble,
            unwritten: None,
            last: None,
        })
    }

    /// Prepares the first attempt.
    pub(super) async fn first(&mut self, watcher: Watcher) -> Result<PreparedAttempt, Error> {
        self.watcher = watcher;
        let Some((until, why)) = self.limit.take() else {
            return self.prepare(0, (0, 0), Millis(0), None, None).await;
        };
        let wait = until.since(clock::wall());
        let failure = Failure::new(Category::Quota, Code::UsageLimit, why);
        self.prepare(0, (0, 1), wait, None, Some(retrying(&failure, 1, None, wait))).await
    }

    /// Runs attempts until one completes, or the rules allow no further one.
    pub(super) async fn go(mut self, first: PreparedAttempt) -> Result<Record, Error> {
        let mut attempt = first;
        loop {
            let (turn, retries, waits) = (attempt.turn, attempt.retries, attempt.waits);
            let delay = Duration::from_millis(attempt.delay.0);
            let first_word = attempt.first_word.clone();
            let (mut record, stopped) = self.drive(attempt).await?;
            let now = clock::wall();
            // Before the next provider is chosen: this failure may open a circuit breaker.
            self.remember(turn, &record, &first_word, now);
            let (next, verdict) = loop {
                let next = self.next_turn(turn, now);
                if stopped {
                    break (next, None);
                }
                let verdict = self.verdict(&record, (retries, waits), next, now);
                let falls_back = verdict.as_ref().is_some_and(|verdict| verdict.next == NextStep::FallBack);
                // A task that runs at the same time may have taken this provider: then try the next one.
                if next.filter(|_| falls_back).is_none_or(|next| self.takes(next)) {
                    break (next, verdict);
                }
            };
            let then = match &verdict {
                Some(verdict) => verdict.reason.clone(),
                None if record.is_completed() => "answered".to_owned(),
                None => "stopped".to_owned(),
            };
            self.note(turn, &record, delay, then);
            self.unwritten = self.unwritten.take().or(record.ledger_failure.take());
            record.ledger_failure.clone_from(&self.unwritten);
            let Some(verdict) = verdict.filter(|verdict| verdict.next != NextStep::Stop) else {
                return Ok(self.arrive(record));
            };
            let (failure, turn_before) = (failure_of(&record), turn);
            let (turn, counts, delay, opening) = match (verdict.next, next) {
                (NextStep::Retry { after }, _) => {
                    let opening = retrying(&failure, retries + 1, Some(self.rules.retries), after);
                    (turn, (retries + 1, waits), after, opening)
                }
                (NextStep::Wait { until }, _) => {
                    let wait = until.since(now);
                    (turn, (retries, waits + 1), wait, retrying(&failure, waits + 1, None, wait))
                }
                (NextStep::FallBack, Some(next)) => {
                    let taken = FallbackTaken {
                        from: self.name(turn).to_owned(),
                        to: self.name(next).to_owned(),
                        rule: self.rules.fallback.as_str().to_owned(),
                        reason: Some(verdict.reason.clone()),
                        failure: Box::new(failure),
                    };
                    (next, (0, 0), Millis(0), Kind::FallbackTaken(taken))
                }
                (NextStep::FallBack | NextStep::Stop, _) => return Ok(self.arrive(record)),
            };
            attempt = match self.prepare(turn, counts, delay, Some(&record), Some(opening)).await {
                Ok(attempt) => attempt,
                // Another task has used up the budget meanwhile.
                Err(error @ Error::OverBudget { .. }) => return Err(error),
                Err(error) => {
                    // Keep the result of the last attempt, and add why there is no further one.
                    if let Some(last) = self.attempts.last_mut() {
                        last.then = format!("{}; this failed: {}", last.then, in_full(&error));
                    }
                    return Ok(self.arrive(record));
                }
            };
            // Only now: without a further attempt, `arrive` gets this record as the last one, and would count it twice.
            self.earlier.add(&self.turns[turn_before].name, &record);
        }
    }

    /// Turns the record of the last attempt into the record of the whole request.
    fn arrive(self, mut record: Record) -> Record {
        record.add_earlier(&self.earlier);
        record.attempts = self.attempts;
        record
    }

    /// Prepares an attempt and hands its event receiver to the subscriber.
    async fn prepare(
        &mut self,
        turn: usize,
        (retries, waits): (u32, u32),
        delay: Millis,
        before: Option<&Record>,
        opening: Option<Kind>,
    ) -> Result<PreparedAttempt, Error> {
        let (place, model) = self.order[turn].clone();
        let candidate = self.candidates.all[place].candidate.clone();
        let mut task = self.task.attempt();
        let mut context = self.candidates.configure(place, model, &mut task, self.task.binary.as_ref());
        #[cfg(feature = "testing")]
        if !self.task.cast.is_empty() {
            task.script = Some(self.task.cast.take(&candidate.name, &candidate.provider));
        }
        if let Some(text) = self.strange_hint.take() {
            let code = Some("unknown_hint".to_owned());
            task.notices.push(Notice { level: Level::Warn, text, code });
        }
        // The caller's timeout covers the whole request; an entry's timeout covers its agent only.
        if before.is_none() && self.task.request.timeout_ms.is_some() {
            let left = |time: Millis| Millis(time.0.saturating_sub(self.asked.0).max(1));
            task.request.timeout_ms = task.request.timeout_ms.map(left);
        }
        let model = task.request.model.clone();
        context.share = self.task.share.as_ref().map(|share| share.after(self.used));
        (context.delay, context.used) = (delay, self.used);
        context.opening.push(Kind::RouteChosen(RouteChosen {
            provider: candidate.name.clone(),
            model: model.clone(),
            reason: self.reasons[place].clone(),
            rejected: self.rejected.clone(),
        }));
        context.continues = before.and_then(|record| self.continued(turn, record));
        // A fallback is a session of its own, linked to the one before.
        if context.continues.is_none() {
            context.parent = before.map(|record| record.session.clone());
        }
        context.opening.extend(opening);
        let first_word = Arc::new(Mutex::new(FirstWord::default()));
        task.callback = Some(SharedCallback::new(listener(first_word.clone(), self.callback.clone())));
        let (control, inbox) = control::orders();
        let mut prepared = launch::prepare(task, context, control.clone(), inbox, self.watcher).await?;
        if let (Some((receivers, runs)), Some(receiver)) = (&self.subscribers, prepared.receiver.take()) {
            runs.add(prepared.watched());
            // If the subscriber is gone, the send fails and drops the receiver, which then delays nothing.
            let _ = receivers.send(receiver);
        }
        let drive = &prepared.drive;
        // Kept until the next attempt is ready or the record is returned. In between no other process finds the session at its end,
        // resumes it or removes it.
        self.last = Some((turn, drive.journal.as_ref().map(Writer::hold), drive.cleanup.clone()));
        let now = clock::wall();
        let key = &self.turns[turn].key;
        let sent = self.store.change(|memory| memory.sent(key, &memory::me(), now));
        self.keep(sent);
        Ok(PreparedAttempt { prepared, control, turn, retries, waits, delay, first_word })
    }

    /// Returns the attempt that an attempt continues: the one before it, if that had the same place in the order. A fallback always
    /// has another place, also if it is another model of the same provider.
    fn continued(&self, turn: usize, before: &Record) -> Option<RetriedAttempt> {
        let (last, hold, cleanup) = self.last.as_ref()?;
        let (session, numbering) = (before.session.clone(), before.next);
        (*last == turn).then(|| RetriedAttempt {
            session,
            numbering,
            hold: hold.clone(),
            cleanup: cleanup.clone(),
        })
    }

    /// Drives one attempt and forwards orders to it. Also returns whether the caller stopped it.
    async fn drive(&mut self, attempt: PreparedAttempt) -> Result<(Record, bool), Error> {
        let (mut stopped, mut open) = (false, true);
        let end = attempt.prepared.drive_to_the_end();
        tokio::pin!(end);
        loop {
            tokio::select! {
                // Orders first: a stop that arrives together with the end of an attempt prevents the next one.
                biased;
                order = self.orders.recv(), if open => match order {
                    Some(order) => {
                        // `Overdue` comes from the session monitor, not from the caller.
                        stopped |= order.is_stop();
                        attempt.control.send(order);
                    }
                    None => open = false,
                },
                record = &mut end => return Ok((record?, stopped)),
            }
        }
    }

    fn verdict(
        &self,
        record: &Record,
        (retries, waits): (u32, u32),
        next: Option<usize>,
        now: Timestamp,
    ) -> Option<RetryVerdict> {
        if matches!(record.outcome, Outcome::Completed | Outcome::Cancelled) {
            return None;
        }
        let failure = failure_of(record);
        let attempt = retry::FailedAttempt {
            failure: &failure,
            retries,
            waits,
            footprint: record.footprint,
            next: next.map(|turn| self.name(turn)),
        };
        Some(retry::decide(&self.rules, &attempt, now, RetryWait::Drawn(dice())))
    }

    /// Returns the next attempt in order whose circuit breaker is not open.
    fn next_turn(&mut self, turn: usize, now: Timestamp) -> Option<usize> {
        let memory = match self.store.read() {
            Ok(memory) => memory,
            Err(error) => {
                self.keep(Err(error));
                // An empty memory has no open circuit breaker, so every provider may be tried.
                RouteMemory::default()
            }
        };
        let free =
            |turn: &RouteStop| self.task.beside.as_ref().is_none_or(|beside| beside.is_free(&turn.name));
        retry::next_turn(&self.turns, &memory, turn, now, free)
    }

    /// Reserves a provider for this request, among tasks that run at the same time.
    fn takes(&self, turn: usize) -> bool {
        self.task.beside.as_ref().is_none_or(|beside| beside.take(self.name(turn)))
    }

    fn remember(&mut self, turn: usize, record: &Record, first_word: &Mutex<FirstWord>, now: Timestamp) {
        let key = &self.turns[turn].key;
        let took = first_word.lock().unwrap_or_else(PoisonError::into_inner).took;
        let changed = self.store.change(|memory| match (record.outcome, &record.failure) {
            (Outcome::Completed, _) => memory.answered(key, took, now),
            // Neither is evidence about the service.
            (Outcome::Cancelled, _) => memory.abandoned(key, now),
            (_, Some(failure)) if is_ours(failure) => memory.abandoned(key, now),
            (Outcome::Failed | Outcome::Truncated, _) => memory.failed(key, &failure_of(record), now),
        });
        self.keep(changed);
    }

    /// Keeps an error of our own memory, to be told with the attempt.
    fn keep(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            tracing::warn!(error = &error as &dyn std::error::Error, "the router's memory failed");
            self.trouble.get_or_insert(error);
        }
    }

    fn note(&mut self, turn: usize, record: &Record, delay: Duration, mut then: String) {
        if let Some(error) = self.trouble.take() {
            then = format!("{then}; {}", in_full(&error));
        }
        let meant = self.turns[turn].model.clone();
        // A run cancelled during the wait has waited less.
        let waited = delay.min(record.took);
        self.attempts.push(Attempt {
            session: record.session.clone(),
            first_seq: record.first_seq,
            name: self.name(turn).to_owned(),
            model: record.model.clone().or(meant),
            outcome: record.outcome,
            failure: record.failure.clone(),
            usage: record.usage,
            cost: record.cost,
            waited,
            took: record.took.saturating_sub(waited),
            then,
        });
        let took = Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX));
        let tokens = record.usage.map_or(0, |usage| usage.total());
        self.used = Amounts {
            cost: Some(self.used.cost.unwrap_or(0.0) + record.cost.unwrap_or(0.0)),
            tokens: Some(self.used.tokens.unwrap_or(0).saturating_add(tokens)),
            time: Some(self.used.time.unwrap_or(Millis(0)).plus(took)),
        };
    }

    fn name(&self, turn: usize) -> &str {
        &self.turns[turn].name
    }
}

/// If a limit blocks every candidate and the rules allow to wait, changes the decision to wait for it. Returns the reset time
/// and the reason.
pub(super) fn waited_for(decision: &mut RouteDecision, rules: &RetryRules) -> Option<(Timestamp, String)> {
    let Some(RouteProblem::Limited { place, resets_at: Some(until), .. }) = decision.problem else {
        return None;
    };
    if !rules.wait_for_limit {
        return None;
    }
    (decision.order, decision.problem) = (vec![place], None);
    decision.verdicts[place].turn = Some(1);
    Some((until, decision.verdicts[place].reason.clone()))
}

/// Returns a callback that records the time of the first output and calls the caller's callback.
fn listener(
    first_word: Arc<Mutex<FirstWord>>,
    callback: Option<SharedCallback>,
) -> impl FnMut(&Event) + Send + 'static {
    move |event: &Event| {
        first_word.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        if let Some(callback) = &callback {
            callback.call(event);
        }
    }
}

fn retrying(failure: &Failure, attempt: u32, max_attempts: Option<u32>, delay: Millis) -> Kind {
    Kind::Retrying(Retrying {
        attempt: Some(attempt),
        max_attempts,
        delay_ms: Some(delay),
        category: failure.category,
        message: failure.message.clone(),
    })
}

fn failure_of(record: &Record) -> Failure {
    record.failure.clone().unwrap_or_else(|| {
        Failure::new(Category::Unknown, Code::Truncated, "the output ended before the turn ended")
    })
}

/// Returns whether Bowline itself caused a failure.
fn is_ours(failure: &Failure) -> bool {
    matches!(failure.code, Code::Budget | Code::Policy | Code::DiskFull | Code::DiskQuota | Code::Cancelled)
}

/// Returns a random number.
fn dice() -> u64 {
    host::random().iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}
