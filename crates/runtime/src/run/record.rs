//! How a turn ended, as data.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::fallback::StreamRule;
use bowline_engine::footprint::Footprint;
use bowline_engine::{Numbering, RunEnd, Survivor, Watchdog};
use bowline_protocol::kinds::{Outcome, StopReason, TouchedFile};
use bowline_protocol::{Code, Exit, Failure, Millis, NativeSessionId, SessionId, Usage, UsageSource};
use bowline_providers::views::{Digest, FailureObject, ModelSource, Refused, RunFacts};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use crate::sessions::journal::{EVENTS_FILE, digest_of};

/// The record of a turn. A failed turn is data here, not an error.
///
/// It serializes as the object that `bowline run -o json` prints; the command uses this very implementation. `docs/output.md`
/// lists the keys. An answer above 2 MiB is read from the journal while it is serialized.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let task = bowline::task("Say hello").provider("claude");
/// # let task = task.script(bowline::testing::says("hello"));
/// let record = task.run().await?;
/// let object = serde_json::to_value(&record).unwrap();
/// assert_eq!(object["text"], "hello");
/// assert_eq!(object["outcome"], "completed");
/// assert_eq!(object["exit_code"], 0);
/// # Ok::<(), bowline::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The session.
    pub session: SessionId,
    /// Its directory, if there is a journal.
    pub journal: Option<PathBuf>,
    /// The part that the journal lacks, if it could not be ended well: the last events, the session's final state, or the promise
    /// that it survives a loss of power. No event can tell of it, and the turn itself is as it says here.
    pub journal_failure: Option<Failure>,
    /// Why the spending could not be written to the ledger. Budgets of a day or a project then do not count it.
    pub ledger_failure: Option<String>,
    /// How the turn ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// Why the model stopped, if the agent reports it.
    pub stop: Option<StopReason>,
    /// The answer: the text of the last turn's messages without commentary. Nothing when it is too long to be held in
    /// memory; it is in the journal then.
    pub text: Option<String>,
    /// The agent's own session id, for resuming.
    pub native_session: Option<NativeSessionId>,
    /// The model that the agent reported; else the requested one.
    pub model: Option<String>,
    /// Where `model` comes from.
    pub model_source: Option<ModelSource>,
    /// The usage in normal form, over all attempts.
    pub usage: Option<Usage>,
    /// Where that usage comes from: estimated as soon as that of one attempt is.
    pub usage_source: Option<UsageSource>,
    /// The cost in US dollars over all attempts, if the agents report all of it.
    pub cost_usd: Option<f64>,
    /// The cost in US dollars over all attempts, as the agents report it or else by the price list; `None` if no model is
    /// in it.
    pub cost: Option<f64>,
    /// The basis of the cost, or why it is unknown. It names the attempts whose cost is missing in the sum.
    pub cost_basis: Option<String>,
    /// The files that were changed.
    pub files: Vec<TouchedFile>,
    /// The denied actions of the agent.
    pub refused: Vec<Refused>,
    /// How many tool calls there were.
    pub tools: u64,
    /// The number of pieces of output that were not recognized. [`Record::warnings`] returns their place.
    pub unrecognized: u64,
    /// How many lines of output were longer than 64 MiB. They were skipped.
    pub too_long: u64,
    /// How the agent's process ended, if there was one.
    pub exit: Option<Exit>,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// Processes that outlived an agent which had ended by itself. They were ended.
    pub left_behind: Vec<Survivor>,
    /// Processes that the agent had started, and that had to be killed when we ended it: they did not end when they were
    /// asked to.
    pub killed: Vec<Survivor>,
    /// Which rule about streams without a result applied.
    pub rule: StreamRule,
    /// Whether the request was sent a second time, without streaming.
    pub stream_fallback: bool,
    /// Which deadline of ours ended it.
    pub timed_out: Option<Watchdog>,
    /// How long it took from the first attempt to the end of the last, waits between them included.
    pub took: Duration,
    /// Whether a tool ran in the last attempt.
    pub tool_ran: bool,
    /// The work that the last attempt may have done on the prompt, if it did not end well. It decides whether the prompt may be
    /// sent again.
    pub footprint: Footprint,
    /// Every attempt of a request that the router saw to, this one included; none if it did not.
    pub attempts: Vec<Attempt>,
    /// All that the events say, for the object of `-o json`.
    pub(crate) digest: Arc<Digest>,
    /// The number of its first event: a journal may have earlier and later stints of the same session.
    pub(crate) first_seq: u64,
    /// Where a further run of the session begins.
    pub(crate) next: Numbering,
}

/// One attempt of a request that the router saw to. It serializes as an item of `attempts` in `-o json`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Its session: that of the attempt before it, if it is a retry of the same provider.
    pub session: SessionId,
    /// The number of its first event in that session.
    pub first_seq: u64,
    /// The provider, by its name in the configuration.
    pub name: String,
    /// The model that the agent reported; else the requested one.
    pub model: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// Its usage.
    pub usage: Option<Usage>,
    /// Its cost, if known.
    pub cost: Option<f64>,
    /// How long the router waited before it, for a retry or for a limit.
    pub waited: Duration,
    /// How long it took, without that wait.
    pub took: Duration,
    /// The next step, and why.
    pub then: String,
}

impl Record {
    /// Makes the record of one run.
    ///
    /// The engine's end is copied into fields. A field of type `RunEnd` would spread what embedders read over two types, and `Deref` to it
    /// would hide these fields: rustdoc lists the methods of a target, not its fields. This is the only place that copies them.
    pub(crate) fn new(
        session: SessionId,
        journal: Option<PathBuf>,
        digest: Digest,
        (first_seq, next): (u64, Numbering),
        ended: RunEnd,
        took: Duration,
    ) -> Self {
        Self {
            session,
            journal,
            journal_failure: None,
            ledger_failure: None,
            outcome: ended.outcome,
            failure: ended.failure,
            stop: digest.stop(),
            text: digest.text(),
            native_session: digest.native_session().cloned(),
            model: digest.model().map(str::to_owned),
            model_source: digest.model_source(),
            usage: digest.usage(),
            usage_source: digest.usage_source(),
            cost_usd: digest.cost_usd(),
            cost: digest.cost_usd(),
            cost_basis: None,
            files: digest.files(),
            refused: digest.refused(),
            tools: digest.tools(),
            unrecognized: digest.unrecognized(),
            too_long: digest.too_long(),
            exit: ended.exit,
            survivors: ended.survivors,
            left_behind: ended.left_behind,
            killed: ended.killed,
            rule: ended.rule,
            stream_fallback: ended.stream_fallback,
            timed_out: ended.timed_out,
            took,
            tool_ran: ended.tool_ran,
            footprint: ended.footprint,
            attempts: Vec::new(),
            digest: Arc::new(digest),
            first_seq,
            next,
        }
    }

    /// Adds the usage, cost and time of earlier attempts of the same request.
    pub(crate) fn add_earlier(&mut self, earlier: &EarlierAttempts) {
        let EarlierAttempts { usage, estimated, cost_usd, untold, cost, unpriced, took } = earlier;
        let last = self.usage;
        let before = self.usage.is_some().then_some(self.usage_source).flatten();
        self.usage = match (self.usage, *usage) {
            (Some(last), Some(before)) => Some(last.plus(&before)),
            (last, before) => last.or(before),
        };
        if self.usage.is_some() {
            let estimated = *estimated || before == Some(UsageSource::Estimated);
            self.usage_source = Some(if estimated { UsageSource::Estimated } else { UsageSource::Reported });
        }
        // The reported total is known only if every agent has reported its cost.
        let silent = self.cost_usd.is_none() && last.is_some_and(|usage| usage.total() > 0);
        self.cost_usd = sum(self.cost_usd, *cost_usd).filter(|_| !untold && !silent);
        self.cost = sum(self.cost, *cost);
        if !unpriced.is_empty() {
            let missing = format!("without the cost of {}, which is not known", unpriced.join(", "));
            self.cost_basis =
                Some(self.cost_basis.take().map_or(missing.clone(), |basis| format!("{basis}; {missing}")));
        }
        self.took = self.took.saturating_add(*took);
    }

    /// Returns whether the turn completed.
    pub fn is_completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// Returns warnings about output that was not recognized or was skipped.
    ///
    /// The command prints these on standard error.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let odd = r#"{"steps": [{"stdout": {"type": "zeta"}}, {"say": "hello"}, {"result": {}}]}"#;
    /// # let task = bowline::task("Say hello").provider("claude").script(bowline::testing::script(odd));
    /// let record = task.run().await?;
    /// for warning in record.warnings() {
    ///     eprintln!("warning: {warning}");
    /// }
    /// # assert_eq!(record.warnings().len(), 1);
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn warnings(&self) -> Vec<RecordWarning> {
        let failed_by_it = self.failure.as_ref().is_some_and(|failure| failure.code == Code::FormatChanged);
        let strange = self.unrecognized.saturating_sub(self.too_long);
        let lines = (strange > 0 && !failed_by_it)
            .then(|| RecordWarning::NotUnderstood { count: strange, journal: self.journal.clone() });
        let long = (self.too_long > 0)
            .then(|| RecordWarning::TooLong { count: self.too_long, journal: self.journal.clone() });
        lines.into_iter().chain(long).collect()
    }

    /// Returns the outcome as a word.
    pub fn outcome_word(&self) -> &'static str {
        word_of(self.outcome)
    }
}

/// Returns an outcome as a word.
pub(crate) fn word_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Truncated => "truncated",
    }
}

/// The usage, cost and time of the earlier attempts of a request, in total.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierAttempts {
    usage: Option<Usage>,
    /// Whether the usage of one of them is an estimate.
    estimated: bool,
    cost_usd: Option<f64>,
    /// Whether one of them used tokens and reported no cost.
    untold: bool,
    cost: Option<f64>,
    /// The attempts with usage of unknown cost.
    unpriced: Vec<String>,
    took: Duration,
}

impl EarlierAttempts {
    /// Adds an attempt.
    pub(crate) fn add(&mut self, name: &str, record: &Record) {
        if let Some(usage) = record.usage {
            self.usage = Some(self.usage.map_or(usage, |before| before.plus(&usage)));
            self.estimated |= record.usage_source == Some(UsageSource::Estimated);
            self.untold |= record.cost_usd.is_none() && usage.total() > 0;
            if record.cost.is_none() && usage.total() > 0 && !self.unpriced.iter().any(|it| it == name) {
                self.unpriced.push(name.to_owned());
            }
        }
        self.cost_usd = sum(self.cost_usd, record.cost_usd);
        self.cost = sum(self.cost, record.cost);
        self.took = self.took.saturating_add(record.took);
    }
}

/// Adds two amounts of which each may be unknown.
fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// A warning about the output of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordWarning {
    /// Lines that the dialect does not recognize. Their content may be missing in the answer.
    NotUnderstood {
        /// How many.
        count: u64,
        /// The session's directory: its events of type `unrecognized` have them.
        journal: Option<PathBuf>,
    },
    /// Lines longer than 64 MiB. They were skipped.
    TooLong {
        /// How many.
        count: u64,
        /// The session's directory: its raw files have them.
        journal: Option<PathBuf>,
    },
}

impl fmt::Display for RecordWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotUnderstood { count, journal } | Self::TooLong { count, journal }) = self;
        let lines = if *count == 1 { "line" } else { "lines" };
        let was = if *count == 1 { "was" } else { "were" };
        match self {
            Self::NotUnderstood { .. } => write!(f, "{count} {lines} of output {was} not understood")?,
            Self::TooLong { .. } => write!(
                f,
                "{count} {lines} of output above 64 MiB {was} skipped: a part of the answer may be missing"
            )?,
        }
        match (self, journal) {
            (Self::NotUnderstood { .. }, Some(dir)) => {
                write!(f, "; see the events of type `unrecognized` in {}", dir.join(EVENTS_FILE).display())
            }
            (Self::TooLong { .. }, Some(dir)) => write!(f, "; see the raw output in {}", dir.display()),
            (_, None) => f.write_str("; run it with a journal to see them"),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole;
        let digest = match &self.journal {
            // An answer that was too long for memory is complete only in the journal.
            Some(dir) if !self.digest.is_whole() => {
                whole = digest_of(dir, self.first_seq).map_err(S::Error::custom)?;
                &whole
            }
            Some(_) | None => &*self.digest,
        };
        let run = RunFacts {
            usage: self.usage,
            usage_source: self.usage_source,
            cost_usd: self.cost_usd,
            cost: self.cost,
            took: millis(self.took),
            too_long: self.too_long,
            exit_code: self.exit_code(),
            attempts: &self.attempts,
        };
        digest.object(&run).serialize(serializer)
    }
}

/// An attempt in `-o json`.
#[derive(Serialize)]
struct AttemptObject<'a> {
    session: &'a SessionId,
    first_seq: u64,
    name: &'a str,
    model: Option<&'a str>,
    outcome: Outcome,
    failure: Option<FailureObject<'a>>,
    usage: Option<Usage>,
    cost: Option<f64>,
    waited_ms: Millis,
    took_ms: Millis,
    then: &'a str,
}

impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = AttemptObject {
            session: &self.session,
            first_seq: self.first_seq,
            name: &self.name,
            model: self.model.as_deref(),
            outcome: self.outcome,
            failure: self.failure.as_ref().map(FailureObject::of),
            usage: self.usage,
            cost: self.cost,
            waited_ms: millis(self.waited),
            took_ms: millis(self.took),
            then: &self.then,
        };
        object.serialize(serializer)
    }
}

fn millis(duration: Duration) -> Millis {
    Millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
