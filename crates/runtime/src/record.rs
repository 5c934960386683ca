//! How a turn ended, as data.

use std::path::PathBuf;
use std::time::Duration;

use bowline_engine::fallback::Rule;
use bowline_engine::{Ended, Survivor, Watchdog};
use bowline_protocol::kinds::{Outcome, StopReason, TouchedFile};
use bowline_protocol::{Exit, Failure, NativeSessionId, SessionId, Usage, UsageSource};
use bowline_providers::views::{Digest, Refused};

use crate::error::Error;
use crate::launch;

/// The record of a turn. A failed turn is data here, not an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The session.
    pub session: SessionId,
    /// Its directory, if there is a journal.
    pub journal: Option<PathBuf>,
    /// What the journal lacks, if it could not be ended well: the last events, the session's final state, or the promise
    /// that it survives a loss of power. No event can tell of it, and the turn itself is as it says here.
    pub journal_failure: Option<Failure>,
    /// Why what was spent could not be written down, so that no budget of a day or a project knows of it.
    pub ledger_failure: Option<String>,
    /// How the turn ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// Why the model stopped, where the agent tells.
    pub stop: Option<StopReason>,
    /// The answer: the text of the last turn's messages without commentary. Nothing when it is too long to be held in
    /// memory; it is in the journal then.
    pub text: Option<String>,
    /// The agent's own name for the session: what resuming needs.
    pub native_session: Option<NativeSessionId>,
    /// The model that answered.
    pub model: Option<String>,
    /// What it used, in normal form.
    pub usage: Option<Usage>,
    /// Where that usage comes from.
    pub usage_source: Option<UsageSource>,
    /// What it cost in US dollars, where the agent tells.
    pub cost_usd: Option<f64>,
    /// What it cost in US dollars, as the agent tells or else by the price list; nothing if the model is not in it.
    pub cost: Option<f64>,
    /// What that cost rests on, or why it is not known.
    pub cost_basis: Option<String>,
    /// The files that were changed.
    pub files: Vec<TouchedFile>,
    /// What the agent was not allowed to do.
    pub refused: Vec<Refused>,
    /// How many tool calls there were.
    pub tools: u64,
    /// How many pieces of output were not understood.
    pub unrecognized: u64,
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
    pub rule: Rule,
    /// Whether the request was sent a second time, without streaming.
    pub stream_fallback: bool,
    /// Which deadline of ours ended it.
    pub timed_out: Option<Watchdog>,
    /// How long it took.
    pub took: Duration,
    /// Whether a tool ran.
    pub tool_ran: bool,
    /// Every attempt of a request that the router saw to, this one included; none if it did not.
    pub attempts: Vec<Attempt>,
}

/// One attempt of a request that the router saw to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Its session.
    pub session: SessionId,
    /// Who was asked, by the name in the configuration.
    pub name: String,
    /// The model, as the agent named it, else as it was asked for.
    pub model: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// What it cost, where that is known.
    pub cost: Option<f64>,
    /// How long it took.
    pub took: Duration,
    /// What followed, and why.
    pub then: String,
}

impl Record {
    pub(crate) fn new(
        session: SessionId,
        journal: Option<PathBuf>,
        digest: &Digest,
        ended: Ended,
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
            usage: digest.usage(),
            usage_source: digest.usage_source(),
            cost_usd: digest.cost_usd(),
            cost: digest.cost_usd(),
            cost_basis: None,
            files: digest.files(),
            refused: digest.refused().to_vec(),
            tools: digest.tools(),
            unrecognized: digest.unrecognized(),
            exit: ended.exit,
            survivors: ended.survivors,
            left_behind: ended.left_behind,
            killed: ended.killed,
            rule: ended.rule,
            stream_fallback: ended.stream_fallback,
            timed_out: ended.timed_out,
            took,
            tool_ran: ended.tool_ran,
            attempts: Vec::new(),
        }
    }

    /// Says whether the agent did what it was asked to.
    pub fn is_completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// Returns the answer, wherever it is: one that is too long to be held is read from the journal.
    pub fn answer(&self) -> Result<String, Error> {
        match (&self.text, &self.journal) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(dir)) => launch::text_from_journal(dir),
            (None, None) => Err(Error::TooLong),
        }
    }

    /// Returns the outcome as a word.
    pub fn outcome_word(&self) -> &'static str {
        match self.outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Truncated => "truncated",
        }
    }
}
