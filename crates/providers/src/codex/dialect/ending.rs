//! The end of the output, when Codex has not reported how the turn ended.
//!
//! Codex reports every failure: by `turn.failed`, or on standard error when it could not start. The one exit without a
//! report is that of an interrupt, which it answers with exit code 1 and no last line (0.166.0).

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Category, Code, Exit};

use super::super::failures;
use crate::decode::{Cause, End};
use crate::dialect::Output;
use crate::failure::Report;

/// How far the turns are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TurnProgress {
    /// None has begun.
    #[default]
    None,
    Open,
    Ended,
}

/// The state at the end of the output.
#[derive(Debug)]
pub(crate) struct CodexEnding<'a> {
    pub(crate) turn: TurnProgress,
    /// Why the program could not go on.
    pub(crate) reason: Option<&'a str>,
    /// The retry that was under way.
    pub(crate) retrying: Option<&'a Retrying>,
}

impl CodexEnding<'_> {
    /// Gives a verdict, unless one was given or the account knows as much.
    pub(crate) fn judge(&self, end: &End, out: &mut Output<'_>) {
        if self.turn == TurnProgress::Ended {
            return;
        }
        match (end.cause, end.exit) {
            (Cause::Cancelled | Cause::TimedOut, _) => {}
            // 0.166.0 retries a refused connection for ever. If it was stopped meanwhile, the reason of the retry is the failure.
            _ if out.gave_up(end) => {}
            // Ctrl-C, as the account knows it.
            (Cause::Exited, Some(Exit::Signal(2) | Exit::Code(130))) => {}
            (Cause::Exited, Some(Exit::Signal(signal))) => self.signal(signal, out),
            // A shell in front of the program reports a signal like this.
            (Cause::Exited, Some(Exit::Code(code @ (129 | 137 | 143)))) => self.signal(code - 128, out),
            // The exit code of a Rust panic. A closed stdout causes one too (0.166.0).
            (Cause::Exited, Some(Exit::Code(101))) => {
                let report = Report::of(self.reason.unwrap_or("the program panicked"));
                out.failed(&Report {
                    category: Some(Category::Unknown),
                    code: Some(Code::Crashed),
                    ..report
                });
            }
            (Cause::Exited, Some(Exit::Code(0)) | None) => {}
            (Cause::Exited, Some(Exit::Code(code))) => match self.reason {
                Some(reason) => out.failed(&failures::report(reason)),
                // An interrupted program says as little as one that failed without an error message, and what it logged says
                // nothing about its end: no guess.
                None if self.turn == TurnProgress::Open => out.failed(&Report {
                    category: Some(Category::Unknown),
                    code: Some(Code::Unknown),
                    ..Report::of(format!("exited with code {code} before the turn ended"))
                }),
                None => {}
            },
        }
    }

    /// A signal ended the program. Standard error always holds a line or two that are not about that.
    fn signal(&self, signal: i32, out: &mut Output<'_>) {
        let ended = format!("ended by signal {signal}");
        let message = match (self.reason, self.retrying) {
            (Some(reason), _) => return out.failed(&failures::report(reason)),
            (None, Some(retrying)) => format!("{ended} while it retried: {}", retrying.message),
            (None, None) => ended,
        };
        // The message quotes the cause of a retry, which must not decide what a signal means.
        let killed = [1, 9, 15].contains(&signal);
        let (category, code) =
            if killed { (Category::Timeout, Code::Killed) } else { (Category::Unknown, Code::Crashed) };
        out.failed(&Report { category: Some(category), code: Some(code), ..Report::of(message) });
    }
}
