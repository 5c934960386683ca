//! One request from its first attempt to its last.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_engine::budget::Amounts;
use bowline_engine::retry::{self, Next, Rules, Turn, Verdict, Wait};
use bowline_engine::route::{Decision, Memory};
use bowline_protocol::kinds::{FallbackTaken, Level, Notice, Outcome, RejectedRoute, Retrying, RouteChosen};
use bowline_protocol::{Category, Code, Event, Failure, Kind, Millis, SessionId, Timestamp};
use tokio::sync::mpsc;

use super::candidates::Field;
use super::memory::{self, Store};
use super::{NoRoute, Problem, config_of, rules, strange_hint, tuned};
use crate::callback::SharedCallback;
use crate::hub::Inlet;
use crate::launch::{self, ORDERS, Prepared, Watcher};
use crate::record::{Attempt, Earlier, Record};
use crate::task::{Leg, Task};
use crate::turn::{Control, Order};
use crate::{Error, clock, host};

/// A request on its way.
pub(super) struct Road {
    task: Task,
    field: Field,
    rules: Rules,
    store: Store,
    /// Who is asked, in order: places in the field, each with its model where it is not the usual one.
    order: Vec<(usize, Option<String>)>,
    /// The same, as they are called and remembered.
    turns: Vec<Turn>,
    rejected: Vec<RejectedRoute>,
    reasons: Vec<String>,
    orders: mpsc::Receiver<Order>,
    /// Where the events of each attempt are told.
    inlets: Option<mpsc::UnboundedSender<Inlet>>,
    callback: Option<SharedCallback>,
    watcher: Watcher,
    attempts: Vec<Attempt>,
    used: Amounts,
    /// What the attempts before the current one used, cost and took.
    earlier: Earlier,
    /// A limit that is waited for before anybody is asked: until when, and what is said of it.
    limit: Option<(Timestamp, String)>,
    /// What is odd about the hint, to be told once.
    strange_hint: Option<String>,
    /// How long others were asked before the first attempt could begin.
    asked: Millis,
    /// What went wrong with our own memory. It ends no request.
    trouble: Option<Error>,
    /// Why what an attempt spent could not be written down.
    unwritten: Option<String>,
}

/// An attempt that is ready to go.
pub(super) struct Leaving {
    prepared: Prepared,
    control: Control,
    /// Which of the order it is, how often it was asked before, and how often waited for.
    turn: usize,
    retries: u32,
    waits: u32,
    /// How long it waits before it starts.
    delay: Millis,
    first_word: Arc<Mutex<FirstWord>>,
}

impl Leaving {
    pub(super) fn session(&self) -> SessionId {
        self.prepared.drive.session.clone()
    }
}

/// When the program was started, and when it first said something.
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

impl Road {
    /// Decides who is asked. So long was spent on finding that out already.
    pub(super) fn plan(
        mut task: Task,
        orders: mpsc::Receiver<Order>,
        inlets: Option<mpsc::UnboundedSender<Inlet>>,
        asked: Millis,
    ) -> Result<Self, Error> {
        let config = config_of(&task)?;
        let store = Store::of(&task);
        let mut field = Field::gather(&task, &config, &store.read()?, clock::wall())?;
        let mut trouble = None;
        let mut decision = field.take_turn(&store).unwrap_or_else(|error| {
            trouble = Some(error);
            field.decide_to_ask()
        });
        let rules = rules(&task, &config);
        let limit = waited_for(&mut decision, &rules);
        let Decision { order, verdicts, problem } = decision;
        if let Some(problem) = problem {
            return Err(Error::NoRoute(Box::new(NoRoute { problem, verdicts })));
        }
        let rejected = verdicts.iter().filter(|verdict| verdict.turn.is_none());
        let rejected =
            rejected.map(|it| RejectedRoute { provider: it.name.clone(), reason: it.reason.clone() });
        task.request.sampling = tuned(&task, &config);
        let order = field.with_fallback_model(&order, &config);
        let turns = field.turns(&order);
        let strange_hint = strange_hint(&field, &config);
        task.config = Some(config);
        let callback = task.callback.take();
        Ok(Self {
            rules,
            store,
            order,
            turns,
            rejected: rejected.collect(),
            reasons: verdicts.into_iter().map(|verdict| verdict.reason).collect(),
            field,
            task,
            orders,
            inlets,
            callback,
            watcher: Watcher::No,
            attempts: Vec::new(),
            used: Amounts { time: Some(asked), ..Amounts::default() },
            earlier: Earlier::default(),
            limit,
            strange_hint,
            asked,
            trouble,
            unwritten: None,
        })
    }

    /// Makes the first attempt ready.
    pub(super) async fn first(&mut self, watcher: Watcher) -> Result<Leaving, Error> {
        self.watcher = watcher;
        let Some((until, why)) = self.limit.take() else {
            return self.leave(0, (0, 0), Millis(0), None, None).await;
        };
        let wait = until.since(clock::wall());
        let failure = Failure::new(Category::Quota, Code::UsageLimit, why);
        self.leave(0, (0, 1), wait, None, Some(retrying(&failure, 1, None, wait))).await
    }

    /// Goes on until somebody has answered, or nobody is left.
    pub(super) async fn go(mut self, first: Leaving) -> Result<Record, Error> {
        let mut leaving = first;
        loop {
            let (turn, retries, waits) = (leaving.turn, leaving.retries, leaving.waits);
            let delay = Duration::from_millis(leaving.delay.0);
            let first_word = leaving.first_word.clone();
            let (mut record, stopped) = self.drive(leaving).await?;
            let now = clock::wall();
            self.remember(turn, &record, &first_word, now);
            let (next, verdict) = loop {
                let next = self.next_turn(turn, now);
                if stopped {
                    break (next, None);
                }
                let verdict = self.verdict(&record, (retries, waits), next, now);
                let falls_back = verdict.as_ref().is_some_and(|verdict| verdict.next == Next::FallBack);
                // Whoever runs beside us may have been faster, and then it is somebody else's turn.
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
            let Some(verdict) = verdict.filter(|verdict| verdict.next != Next::Stop) else {
                return Ok(self.arrive(record));
            };
            let (failure, turn_before) = (failure_of(&record), turn);
            let (turn, counts, delay, opening) = match (verdict.next, next) {
                (Next::Retry { after }, _) => {
                    let opening = retrying(&failure, retries + 1, Some(self.rules.retries), after);
                    (turn, (retries + 1, waits), after, opening)
                }
                (Next::Wait { until }, _) => {
                    let wait = until.since(now);
                    (turn, (retries, waits + 1), wait, retrying(&failure, waits + 1, None, wait))
                }
                (Next::FallBack, Some(next)) => {
                    let taken = FallbackTaken {
                        from: self.name(turn).to_owned(),
                        to: self.name(next).to_owned(),
                        rule: self.rules.fallback.as_str().to_owned(),
                        reason: Some(verdict.reason.clone()),
                        failure: Box::new(failure),
                    };
                    (next, (0, 0), Millis(0), Kind::FallbackTaken(taken))
                }
                (Next::FallBack | Next::Stop, _) => return Ok(self.arrive(record)),
            };
            leaving = match self.leave(turn, counts, delay, Some(&record), Some(opening)).await {
                Ok(leaving) => leaving,
                // Somebody else has used it up meanwhile.
                Err(error @ Error::OverBudget { .. }) => return Err(error),
                Err(error) => {
                    // What there is stays: how the last attempt ended, and why there is no other.
                    if let Some(last) = self.attempts.last_mut() {
                        last.then = format!("{}; it could not be: {error}", last.then);
                    }
                    return Ok(self.arrive(record));
                }
            };
            self.earlier.add(&self.turns[turn_before].name, &record);
        }
    }

    /// Makes the record of the last attempt that of the whole request.
    fn arrive(self, mut record: Record) -> Record {
        record.add_earlier(&self.earlier);
        record.attempts = self.attempts;
        record
    }

    /// Makes an attempt ready and tells those who watch of it.
    async fn leave(
        &mut self,
        turn: usize,
        (retries, waits): (u32, u32),
        delay: Millis,
        before: Option<&Record>,
        opening: Option<Kind>,
    ) -> Result<Leaving, Error> {
        let (place, model) = self.order[turn].clone();
        let candidate = self.field.candidates[place].0.clone();
        let mut task = self.task.attempt();
        self.field.dress(place, model, &mut task, self.task.binary.as_ref());
        #[cfg(feature = "testing")]
        if !self.task.cast.is_empty() {
            task.script = Some(self.task.cast.take(&candidate.name, &candidate.provider));
        }
        if let Some(text) = self.strange_hint.take() {
            let code = Some("unknown_hint".to_owned());
            task.notices.push(Notice { level: Level::Warn, text, code });
        }
        // What the caller gave is for everything; an entry's own time is for its agent alone.
        if before.is_none() && self.task.request.timeout_ms.is_some() {
            let left = |time: Millis| Millis(time.0.saturating_sub(self.asked.0).max(1));
            task.request.timeout_ms = task.request.timeout_ms.map(left);
        }
        let model = task.request.model.clone();
        let (external, prices) = (task.leg.external.take(), std::mem::take(&mut task.leg.prices));
        let share = self.task.leg.share.as_ref().map(|share| share.after(self.used));
        let mut leg = Leg { delay, used: self.used, share, external, prices, ..Leg::default() };
        leg.entry = self.field.entry_name(place);
        leg.opening.push(Kind::RouteChosen(RouteChosen {
            provider: candidate.name.clone(),
            model: model.clone(),
            reason: self.reasons[place].clone(),
            rejected: self.rejected.clone(),
        }));
        leg.parent = before.map(|record| record.session.clone());
        leg.opening.extend(opening);
        task.leg = leg;
        let first_word = Arc::new(Mutex::new(FirstWord::default()));
        task.callback = Some(SharedCallback::new(listener(first_word.clone(), self.callback.clone())));
        let (orders, inbox) = mpsc::channel(ORDERS);
        let control = Control::new(orders);
        let mut prepared = launch::prepare(task, control.clone(), inbox, self.watcher).await?;
        if let (Some(inlets), Some(inlet)) = (&self.inlets, prepared.inlet.take()) {
            // Nobody reads any more: then the inlet is dropped, and holds nobody up.
            let _ = inlets.send(inlet);
        }
        let now = clock::wall();
        let key = &self.turns[turn].key;
        let sent = self.store.change(|memory| memory.sent(key, &memory::me(), now));
        self.keep(sent);
        Ok(Leaving { prepared, control, turn, retries, waits, delay, first_word })
    }

    /// Drives one attempt and passes on what it is told. Also returns whether somebody stopped it.
    async fn drive(&mut self, leaving: Leaving) -> Result<(Record, bool), Error> {
        let (mut stopped, mut open) = (false, true);
        let end = leaving.prepared.drive_to_the_end();
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv(), if open => match order {
                    Some(order) => {
                        stopped |= matches!(order, Order::Command(_));
                        leaving.control.send(order);
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
    ) -> Option<Verdict> {
        if matches!(record.outcome, Outcome::Completed | Outcome::Cancelled) {
            return None;
        }
        let failure = failure_of(record);
        let attempt = retry::Attempt {
            failure: &failure,
            retries,
            waits,
            footprint: record.footprint,
            next: next.map(|turn| self.name(turn)),
        };
        Some(retry::decide(&self.rules, &attempt, now, Wait::Drawn(dice())))
    }

    /// Returns who comes after a turn and is not left alone by now.
    fn next_turn(&mut self, turn: usize, now: Timestamp) -> Option<usize> {
        let memory = match self.store.read() {
            Ok(memory) => memory,
            Err(error) => {
                self.keep(Err(error));
                Memory::default()
            }
        };
        let free = |turn: &Turn| self.task.beside.as_ref().is_none_or(|beside| beside.is_free(&turn.name));
        retry::next_turn(&self.turns, &memory, turn, now, free)
    }

    /// Takes somebody for this request alone, among those that run side by side.
    fn takes(&self, turn: usize) -> bool {
        self.task.beside.as_ref().is_none_or(|beside| beside.take(self.name(turn)))
    }

    fn remember(&mut self, turn: usize, record: &Record, first_word: &Mutex<FirstWord>, now: Timestamp) {
        let key = &self.turns[turn].key;
        let took = first_word.lock().unwrap_or_else(PoisonError::into_inner).took;
        let changed = self.store.change(|memory| match (record.outcome, &record.failure) {
            (Outcome::Completed, _) => memory.answered(key, took, now),
            // Neither says anything about the service.
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
            then = format!("{then}; {error}");
        }
        let meant = self.turns[turn].model.clone();
        // A run cancelled during the wait has waited less.
        let waited = delay.min(record.took);
        self.attempts.push(Attempt {
            session: record.session.clone(),
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

/// Makes a limit that keeps everybody from being asked one that is waited for, where that is wanted. Returns until when, and what
/// is said of it.
pub(super) fn waited_for(decision: &mut Decision, rules: &Rules) -> Option<(Timestamp, String)> {
    let Some(Problem::Limited { place, resets_at: Some(until), .. }) = decision.problem else { return None };
    if !rules.wait_for_limit {
        return None;
    }
    (decision.order, decision.problem) = (vec![place], None);
    decision.verdicts[place].turn = Some(1);
    Some((until, decision.verdicts[place].reason.clone()))
}

/// Tells of events: when the first word came, and to whom it concerns.
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
        Failure::new(Category::Unknown, Code::Truncated, "the output ended before the turn did")
    })
}

/// Says whether a failure is our own doing.
fn is_ours(failure: &Failure) -> bool {
    matches!(failure.code, Code::Budget | Code::Policy | Code::DiskFull | Code::DiskQuota | Code::Cancelled)
}

/// Any number.
fn dice() -> u64 {
    host::random().iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}
