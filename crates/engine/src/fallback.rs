//! What follows when a stream ends without a result: the rule of the command line layer specification.
//!
//! Somebody stopped it: the response is empty. There is text and no error: the text is the response. Otherwise the
//! request may be sent once more in the non-streaming form; but a request that is sent twice does its work twice, so not
//! after a tool ran, unless the caller asked for that.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Code, Exit, Failure};
use serde::{Deserialize, Serialize};

/// When a request may be sent again without streaming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFallback {
    /// Never.
    Never,
    /// As long as no tool ran.
    #[default]
    BeforeTools,
    /// Also after a tool ran: side effects may happen twice.
    Always,
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
    /// Whether a tool ran.
    pub tool_ran: bool,
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
    // Only what may be the fault of streaming itself. A limit, a login, an overflow, a wrong argument, our own deadline or a
    // signal does not get better without it, and a request that is sent twice is paid for twice.
    let hopeless = end.failure.is_some_and(|failure| {
        let streams_fault =
            matches!(failure.code, Code::Truncated | Code::Crashed | Code::FormatChanged | Code::Unknown);
        !(streams_fault || unknown_form) || matches!(failure.exit, Some(Exit::Signal(_)))
    });
    if hopeless || !again || wanted == StreamFallback::Never {
        Rule::GiveUp
    } else if end.tool_ran && wanted == StreamFallback::BeforeTools {
        Rule::ToolRan
    } else {
        Rule::Retry
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::{Category, RawFile, RawSpan};

    use super::*;

    fn check(outcome: Outcome, failure: Option<&Failure>, has_text: bool, tool_ran: bool, expect: Rule) {
        let end = StreamEnd { outcome, failure, has_text, tool_ran, steps_down: false };
        assert_eq!(decide(&end, StreamFallback::BeforeTools, true), expect, "{end:?}");
    }

    #[test]
    fn the_rule_of_the_specification() {
        let crash = Failure::new(Category::Unknown, Code::Crashed, "died");
        let told = Failure {
            raw: Some(RawSpan { file: RawFile::Stdout, start: 0, end: 1 }),
            ..Failure::new(Category::Server, Code::ServerError, "500")
        };
        let late = Failure::new(Category::Timeout, Code::TimedOut, "late");
        check(Outcome::Completed, None, false, false, Rule::Result);
        check(Outcome::Cancelled, None, true, false, Rule::Aborted);
        check(Outcome::Failed, Some(&told), false, false, Rule::Result);
        check(Outcome::Truncated, None, true, true, Rule::KeepText);
        check(Outcome::Truncated, None, false, false, Rule::Retry);
        check(Outcome::Truncated, None, false, true, Rule::ToolRan);
        check(Outcome::Failed, Some(&crash), true, false, Rule::Retry);
        check(Outcome::Failed, Some(&crash), true, true, Rule::ToolRan);
        check(Outcome::Failed, Some(&late), true, false, Rule::GiveUp);
        for (category, code) in [
            (Category::RateLimit, Code::RateLimited),
            (Category::Quota, Code::Billing),
            (Category::Validation, Code::ContextOverflow),
            (Category::Authentication, Code::InvalidCredentials),
        ] {
            let hopeless = Failure::new(category, code, "no");
            check(Outcome::Failed, Some(&hopeless), false, false, Rule::GiveUp);
        }
        let killed = Failure { exit: Some(Exit::Signal(9)), ..crash.clone() };
        check(Outcome::Failed, Some(&killed), false, false, Rule::GiveUp);
    }

    #[test]
    fn it_is_done_once_and_only_if_wanted() {
        let end = StreamEnd {
            outcome: Outcome::Truncated,
            failure: None,
            has_text: false,
            tool_ran: true,
            steps_down: false,
        };
        assert_eq!(decide(&end, StreamFallback::Always, true), Rule::Retry);
        assert_eq!(decide(&end, StreamFallback::Always, false), Rule::GiveUp);
        assert_eq!(decide(&end, StreamFallback::Never, true), Rule::GiveUp);
    }
}
