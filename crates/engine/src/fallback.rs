//! What follows when a stream ends without a result: the rule of the command line layer specification.
//!
//! Somebody stopped it: the response is empty. There is text and no error: the text is the response. Otherwise the
//! request may be sent once more in the non-streaming form. A request that is sent twice does its work twice, so the
//! default is to send it again only if the first attempt is provably untouched ([`Footprint::is_untouched`]). The
//! specification's own rule, once more unless a tool ran, is [`StreamFallback::BeforeTools`].

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
    /// As long as no tool was reported: the rule of the command line layer specification.
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

/// How a stream ended, as far as the rule cares.
#[derive(Clone, Copy, Debug)]
pub struct StreamEnd<'a> {
    /// How the turn ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
    /// Whether there is any text.
    pub has_text: bool,
    /// What the program may have done with the prompt.
    pub footprint: Footprint,
    /// Whether what would be tried next is another form of the program, which has less. Then that the program does not know the
    /// better one is no result.
    pub steps_down: bool,
}

/// Which part of the rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There was a result: nothing to do.
    Result,
    /// Somebody stopped it: the response is empty.
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

impl Rule {
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

    /// Returns a sentence for people, where something is to be said.
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

/// Decides what follows. `again` says whether there is a non-streaming form that was not tried yet.
pub fn decide(end: &StreamEnd<'_>, wanted: StreamFallback, again: bool) -> Rule {
    let unknown_form = end.steps_down
        && end.failure.is_some_and(|it| matches!(it.code, Code::FormatChanged | Code::FlagRejected));
    let broken = match end.outcome {
        Outcome::Completed => return Rule::Result,
        Outcome::Cancelled => return Rule::Aborted,
        // What the program says about itself is a result, even when it says that it failed. A verdict has a place in the
        // output; one that we had to conclude has none.
        Outcome::Failed if end.failure.is_some_and(|it| it.raw.is_some()) && !unknown_form => {
            return Rule::Result;
        }
        Outcome::Failed => true,
        Outcome::Truncated => false,
    };
    if end.has_text && !broken {
        return Rule::KeepText;
    }
    if !again || wanted == StreamFallback::Never || end.failure.is_some_and(is_hopeless) {
        return Rule::GiveUp;
    }
    let tool_ran = end.footprint == Footprint::ToolRan;
    match wanted {
        StreamFallback::Always => Rule::Retry,
        StreamFallback::BeforeTools | StreamFallback::Untouched if tool_ran => Rule::ToolRan,
        StreamFallback::Untouched if !end.footprint.is_untouched() => Rule::NotSentAgain,
        StreamFallback::BeforeTools | StreamFallback::Untouched | StreamFallback::Never => Rule::Retry,
    }
}

/// Says whether the other form would fail in the same way. Only what may be the fault of streaming itself is tried again: a
/// limit, a login, an overflow, our own deadline or a signal does not get better without it.
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
    !streams_fault || matches!(failure.exit, Some(Exit::Signal(_)))
}

#[cfg(test)]
mod tests;
