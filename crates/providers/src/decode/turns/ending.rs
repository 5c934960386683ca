//! Judges the end of the output, for the turn that is open and for the session.

use bowline_protocol::kinds::{EndReason, Outcome, SessionEnded, StopReason};
use bowline_protocol::{Category, Code, Exit, Failure, Kind, Source};

use super::TurnTracker;
use crate::decode::dialect::{Terminal, UnnumberedEvent};
use crate::decode::{Cause, End};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// How a turn ends when the output ends.
struct EofVerdict {
    outcome: Outcome,
    stop: Option<StopReason>,
    failure: Option<Failure>,
}

impl TurnTracker {
    /// Handles the end of the output: closes the open turn, creates one if there never was any, ends the session.
    pub(crate) fn finish(
        &mut self,
        terminal: Terminal,
        end: &End,
        stderr: &str,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        if self.open.is_some() || self.number == 0 {
            self.ensure_open(None, out);
            let EofVerdict { outcome, stop, failure } = self.judge(terminal, end, stderr, now);
            self.close(outcome, stop, failure, None, out);
        }
        let reason = match end.cause {
            Cause::Exited => EndReason::Exited,
            Cause::Cancelled => EndReason::Stopped,
            Cause::TimedOut => EndReason::TimedOut,
        };
        self.append(Source::Bowline, None, Kind::SessionEnded(SessionEnded { exit: end.exit, reason }), out);
    }

    /// Returns the last output on standard output that may be the reason of a failure: pieces that were not
    /// understood, else the end of plain text. If the program was killed, or marks its answer as an answer, the
    /// answer does not explain the end.
    fn last_words(&self, exit: Option<Exit>) -> &str {
        // Codes above 127 stand for signals: a killed program did not print why.
        if !matches!(exit, Some(Exit::Code(1..=127))) {
            return "";
        }
        if !self.noise.as_str().is_empty() {
            return self.noise.as_str();
        }
        self.open.as_ref().filter(|_| self.plain).map_or("", |open| open.last_words.as_str())
    }

    fn judge(&self, terminal: Terminal, end: &End, stderr: &str, now: &Moment) -> EofVerdict {
        let errors =
            self.open.as_ref().map(|open| open.errors.join("; ")).filter(|errors| !errors.is_empty());
        let said_something = self.open.as_ref().is_some_and(|open| open.said_chars > 0);
        let failed = |timed_out: bool| {
            let report = errors.clone().map(Report::of);
            // Standard error first. Text mode of several programs prints the error on stdout instead, in place of the answer.
            let text = if stderr.trim().is_empty() { self.last_words(end.exit) } else { stderr };
            let evidence = Evidence { report: report.as_ref(), text, exit: end.exit, timed_out };
            EofVerdict {
                outcome: Outcome::Failed,
                stop: None,
                failure: Some(failure::classify(&evidence, now)),
            }
        };
        let given_up = self.given_up(end).map(|report| {
            let evidence = Evidence { report: Some(&report), text: stderr, exit: end.exit, timed_out: false };
            EofVerdict {
                outcome: Outcome::Failed,
                stop: None,
                failure: Some(failure::classify(&evidence, now)),
            }
        });
        match (end.cause, given_up) {
            // Our own reason comes first: a program that is stopped may exit with 0 (SIGINT: Claude 2.1.325, Gemini 0.61.0).
            (Cause::Cancelled, _) => return cancelled(),
            (Cause::TimedOut | Cause::Exited, Some(given_up)) => return given_up,
            (Cause::TimedOut, None) => return failed(true),
            (Cause::Exited, None) => {}
        }
        match end.exit {
            // The user pressed Ctrl-C. A shell, or a program that caught SIGINT, reports it as 130.
            Some(Exit::Signal(2) | Exit::Code(130)) if errors.is_none() => return cancelled(),
            Some(exit) if !exit.is_success() => return failed(false),
            Some(_) | None => {}
        }
        // Exit code 0 proves nothing: pi 0.87.1 and grok-cli 0.0.34 exit with 0 after errors of the API.
        if errors.is_some() {
            return failed(false);
        }
        // A new release may change its whole format. A success without an answer would hide that.
        if !self.understood && !said_something && self.unrecognized > 0 {
            let message = "the program exited normally, but Bowline recognized none of its output";
            let failure =
                Failure { exit: end.exit, ..Failure::new(Category::Unknown, Code::FormatChanged, message) };
            return EofVerdict { outcome: Outcome::Failed, stop: None, failure: Some(failure) };
        }
        if terminal == Terminal::Eof && !self.understood && !said_something {
            // Turns of this dialect end with the output, but no output at all is not an answer.
            let message = "the program exited without printing anything";
            let failure = Failure { exit: end.exit, ..Failure::new(Category::Unknown, Code::Empty, message) };
            return EofVerdict { outcome: Outcome::Truncated, stop: None, failure: Some(failure) };
        }
        let complete = self.open.as_ref().and_then(|open| open.complete_at_eof);
        match (terminal, complete) {
            (_, Some(stop)) => EofVerdict { outcome: Outcome::Completed, stop, failure: None },
            (Terminal::Eof, None) => EofVerdict { outcome: Outcome::Completed, stop: None, failure: None },
            (Terminal::Event, None) => EofVerdict {
                outcome: Outcome::Truncated,
                stop: None,
                failure: Some(Failure { exit: end.exit, ..truncated("the output ended") }),
            },
        }
    }
}

fn cancelled() -> EofVerdict {
    EofVerdict { outcome: Outcome::Cancelled, stop: Some(StopReason::Cancelled), failure: None }
}

/// The failure of a turn whose end the program did not report.
pub(super) fn truncated(what: &str) -> Failure {
    Failure::new(
        Category::Unknown,
        Code::Truncated,
        format!("{what} before the program reported the end of the turn"),
    )
}
