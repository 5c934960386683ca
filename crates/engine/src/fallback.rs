//! The rule for a stream that ends without a result, from the command line layer specification.
//!
//! - The caller cancelled: the response is empty.
//! - Text and no error: the text is the response.
//! - Otherwise the request may be sent once more in the non-streaming form.
//!
//! A request that is sent twice does its work twice. So the default sends it again only if the first attempt is provably
//! untouched ([`Footprint::is_untouched`]). The specification's own rule, once more unless a tool ran, is
//! [`StreamFallback::BeforeTools`].

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Code, Exit, Failure};
use serde::{Deserialize, Serialize};

use crate::footprint::Footprint;

/// When a request may be sent again without streaming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamFallback {
    /// Never.
    Never,
    /// Only if the program provably did nothing with the prompt: it rejected its arguments, or never got the prompt.
    #[default]
    Untouched,
    /// Unless a tool was reported: the rule of the command line layer specification.
    BeforeTools,
    /// Also after a tool ran: side effects may happen twice.
    Always,
}

impl StreamFallback {
    /// Every rule.
    pub const ALL: [Self; 4] = [Self::Never, Self::Untouched, Self::BeforeTools, Self::Always];

    /// Returns the word used in files and options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Untouched => "untouched",
            Self::BeforeTools => "before-tools",
            Self::Always => "always",
        }
    }
}

/// The end of a stream, as input of the rule.
#[derive(Clone, Copy, Debug)]
pub struct StreamEnd<'a> {
    /// How the turn ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
    /// Whether the turn has any text.
    pub has_text: bool,
    /// The work that the program may have done with the prompt.
    pub footprint: Footprint,
    /// Whether the next attempt is a lesser form of the program. Then an error that the program does not know the better form
    /// is not a result.
    pub steps_down: bool,
}

/// The part of the rule that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRule {
    /// The turn has a result: nothing to do.
    Result,
    /// The caller cancelled: the response is empty.
    Aborted,
    /// No result, no error, but text: the text is the response.
    KeepText,
    /// Sent once more without streaming.
    Retry,
    /// It would be sent once more, but a tool ran.
    ToolRan,
    /// It would be sent once more, but a tool may have run.
    NotSentAgain,
    /// It would be sent once more, but that is not possible or not wanted.
    GiveUp,
}

impl StreamRule {
    /// Returns the word used in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Aborted => "aborted",
            Self::KeepText => "accumulated_text",
            Self::Retry => "stream_fallback",
            Self::ToolRan => "tool_ran",
            Self::NotSentAgain => "not_sent_again",
            Self::GiveUp => "give_up",
        }
    }

    /// Returns a sentence for people; `None` if the rule needs no remark.
    pub fn about(self) -> Option<&'static str> {
        match self {
            Self::Result | Self::Aborted | Self::GiveUp => None,
            Self::KeepText => Some("the stream ended without a result; the text so far is kept"),
            Self::Retry => {
                Some("the stream ended without a result; the request is sent once more without streaming")
            }
            Self::ToolRan => Some(
                "the stream ended without a result; it is not sent again, because a tool ran and would run twice",
            ),
            Self::NotSentAgain => Some("the stream ended without a result; the request is not sent again"),
        }
    }
}

/// Decides by the rule. `again` is true if there is a non-streaming form that was not tried yet.
pub fn decide(end: &StreamEnd<'_>, wanted: StreamFallback, again: bool) -> StreamRule {
    let unknown_form = end.steps_down
        && end.failure.is_some_and(|it| matches!(it.code, Code::FormatChanged | Code::FlagRejected));
    let broken = match end.outcome {
        Outcome::Completed => return StreamRule::Result,
        Outcome::Cancelled => return StreamRule::Aborted,
        // The program's own verdict is a result, even if it is a failure. Such a verdict has a span in the output; a failure
        // that we concluded has none.
        Outcome::Failed if end.failure.is_some_and(|it| it.raw.is_some()) && !unknown_form => {
            return StreamRule::Result;
        }
        Outcome::Failed => true,
        // No error was reported, so the text may be the whole answer.
        Outcome::Truncated => false,
    };
    if end.has_text && !broken {
        return StreamRule::KeepText;
    }
    if !again || wanted == StreamFallback::Never || end.failure.is_some_and(is_hopeless) {
        return StreamRule::GiveUp;
    }
    let tool_ran = end.footprint == Footprint::ToolRan;
    match wanted {
        StreamFallback::Always => StreamRule::Retry,
        StreamFallback::BeforeTools | StreamFallback::Untouched if tool_ran => StreamRule::ToolRan,
        StreamFallback::Untouched if !end.footprint.is_untouched() => StreamRule::NotSentAgain,
        StreamFallback::BeforeTools | StreamFallback::Untouched | StreamFallback::Never => StreamRule::Retry,
    }
}

/// Returns whether the other form would fail in the same way. Only failures that streaming itself may cause are tried again: a
/// limit, a login, an overflow, our own deadline or a signal would be the same without streaming.
fn is_hopeless(failure: &Failure) -> bool {
    let streams_fault = matches!(
        failure.code,
        Code::Truncated
            | Code::Empty
            | Code::Crashed
            | Code::FormatChanged
            | Code::FlagRejected
            | Code::Unknown
    );
    // A signal came from outside the program: the OOM killer, an operator, or our own ladder.
    !streams_fault || matches!(failure.exit, Some(Exit::Signal(_)))
}

#[cfg(test)]
mod tests;
