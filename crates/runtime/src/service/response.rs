//! The results of a request.

use bowline_engine::fallback::StreamRule;
use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Exit, Failure, Millis, NativeSessionId, Usage};
use serde::{Deserialize, Serialize};

use crate::run::error::Error;
use crate::run::record::Record;

/// The most that is told of an error, in characters.
const DETAIL: usize = 500;

/// The result of one call of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CliResponse {
    /// The answer, or, if it is an error, what is known of it.
    pub result: String,
    /// The agent's name for the session.
    pub session_id: Option<NativeSessionId>,
    /// Whether the turn failed.
    pub is_error: bool,
    /// The exit code; 128 more than the number of the signal that ended it, as shells say it.
    pub returncode: Option<i32>,
    /// The end of its standard error, where it matters.
    pub stderr: String,
    /// Whether a deadline of ours ended it.
    pub timed_out: bool,
    /// How long it took.
    pub duration_ms: Millis,
    /// The cost in US dollars, if the agent reports it.
    pub total_cost_usd: Option<f64>,
    /// The usage, in normal form.
    pub usage: Option<Usage>,
    /// The model that answered.
    pub model: Option<String>,
}

impl CliResponse {
    /// Puts a record into the words of the specification. An answer that is too long for memory is read from the
    /// journal.
    pub fn of(record: &Record) -> Result<Self, Error> {
        let timed_out = record.timed_out.is_some();
        let aborted = record.rule == StreamRule::Aborted;
        let is_error = match record.outcome {
            Outcome::Completed | Outcome::Cancelled => false,
            Outcome::Failed => true,
            Outcome::Truncated => record.rule != StreamRule::KeepText,
        };
        let failure = record.failure.as_ref();
        // A deadline that ended a program which had answered took nothing away.
        let stopped = timed_out && record.outcome != Outcome::Completed;
        let result = if aborted || stopped {
            String::new()
        } else if is_error {
            failure.map_or_else(|| "(no output)".to_owned(), |failure| shortened(&failure.message))
        } else {
            record.answer()?
        };
        Ok(Self {
            result,
            session_id: record.native_session.clone(),
            is_error,
            returncode: record.exit.map(|exit| match exit {
                Exit::Code(code) => code,
                Exit::Signal(signal) => 128 + signal,
            }),
            stderr: failure.and_then(|failure| failure.stderr_tail.clone()).unwrap_or_default(),
            timed_out,
            duration_ms: Millis(u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX)),
            total_cost_usd: record.cost_usd,
            usage: record.usage,
            model: record.model.clone(),
        })
    }
}

/// The response to a host's request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentResponse {
    /// The answer; empty if the caller stopped it; the error if the request failed.
    pub result: String,
    /// The agent's name for the session, to go on with.
    pub session_id: Option<NativeSessionId>,
    /// Whether the turn failed.
    pub is_error: bool,
    /// Whether the caller stopped it.
    pub aborted: bool,
    /// Whether a deadline of ours ended it.
    pub timed_out: bool,
    /// Whether the request was sent a second time, without streaming.
    pub stream_fallback: bool,
    /// The cost in US dollars; 0 if the agent does not report it.
    pub cost_usd: f64,
    /// Tokens of all sorts together.
    pub total_tokens: u64,
    /// Tokens of the prompt, from a cache or not.
    pub input_tokens: u64,
    /// How many tools were called.
    pub tool_calls: u64,
    /// How long it took.
    pub duration_ms: Millis,
    /// Why it failed, in words that a router can act on.
    pub failure: Option<Box<Failure>>,
}

impl AgentResponse {
    /// Makes the response of a record.
    pub fn of(record: &Record) -> Result<Self, Error> {
        let response = CliResponse::of(record)?;
        let usage = response.usage.unwrap_or_default();
        let input = [usage.input, usage.cache_read, usage.cache_write];
        Ok(Self {
            result: response.result,
            session_id: response.session_id,
            is_error: response.is_error,
            aborted: record.rule == StreamRule::Aborted,
            timed_out: response.timed_out,
            stream_fallback: record.stream_fallback,
            cost_usd: response.total_cost_usd.unwrap_or(0.0),
            total_tokens: usage.total(),
            input_tokens: input.into_iter().fold(0, u64::saturating_add),
            tool_calls: record.tools,
            duration_ms: response.duration_ms,
            failure: record.failure.clone().filter(|_| response.is_error).map(Box::new),
        })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(DETAIL).collect()
}
