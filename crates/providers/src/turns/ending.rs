//! How the end of the output is judged, for the turn that it finds open and for the session.

use bowline_protocol::kinds::{EndReason, Outcome, SessionEnded, StopReason};
use bowline_protocol::{Category, Code, Exit, Failure, Kind, Source};

use super::Turns;
use crate::decode::{Cause, End};
use crate::dialect::{Draft, Terminal};
use crate::failure::{self, Evidence, Report};
use crate::moment::Moment;

/// How a turn ends when the output does.
struct Verdict {
    outcome: Outcome,
    stop: Option<StopReason>,
    failure: Option<Failure>,
}

impl Turns {
    /// Takes the end of the output: closes the open turn, makes one if there never was any, ends the session.
    pub(crate) fn finish(
        &mut self,
        terminal: Terminal,
        end: &End,
        stderr: &str,
        now: &Moment,
        out: &mut Vec<Draft>,
    ) {
        if self.open.is_some() || self.number == 0 {
            self.ensure_open(None, out);
            let Verdict { outcome, stop, failure } = self.judge(terminal, end, stderr, now);
            self.close(outcome, stop, failure, None, out);
        }
        let reason = match end.cause {
            Cause::Exited => EndReason::Exited,
            Cause::Cancelled => EndReason::Stopped,
            Cause::TimedOut => EndReason::TimedOut,
        };
        self.append(Source::Bowline, None, Kind::SessionEnded(SessionEnded { exit: end.exit, reason }), out);
    }

    /// Returns what was printed last on standard output, where it may be the reason of a failure: what nobody
    /// understood, else, of plain text, the end of it. Of a program that was killed, and of one that marks its answer as
    /// such, the answer says nothing about its end.
    fn last_words(&self, exit: Option<Exit>) -> &str {
        if !matches!(exit, Some(Exit::Code(1..=127))) {
            return "";
        }
        if !self.noise.0.is_empty() {
            return &self.noise.0;
        }
        self.open.as_ref().filter(|_| self.plain).map_or("", |open| open.last_words.0.as_str())
    }

    fn judge(&self, terminal: Terminal, end: &End, stderr: &str, now: &Moment) -> Verdict {
        let errors =
            self.open.as_ref().map(|open| open.errors.join("; ")).filter(|errors| !errors.is_empty());
        let said_something = self.open.as_ref().is_some_and(|open| open.said_chars > 0);
        let failed = |timed_out: bool| {
            let report = errors.clone().map(Report::of);
            let text = if stderr.trim().is_empty() { self.last_words(end.exit) } else { stderr };
            let evidence = Evidence { report: report.as_ref(), text, exit: end.exit, timed_out };
            Verdict { outcome: Outcome::Failed, stop: None, failure: Some(failure::classify(&evidence, now)) }
        };
        let given_up = self.given_up(end).map(|report| {
            let evidence = Evidence { report: Some(&report), text: stderr, exit: end.exit, timed_out: false };
            Verdict { outcome: Outcome::Failed, stop: None, failure: Some(failure::classify(&evidence, now)) }
        });
        match (end.cause, given_up) {
            (Cause::Cancelled, _) => return cancelled(),
            (Cause::TimedOut | Cause::Exited, Some(given_up)) => return given_up,
            (Cause::TimedOut, None) => return failed(true),
            (Cause::Exited, None) => {}
        }
        match end.exit {
            // Somebody pressed Ctrl-C; 130 is how a shell, or a program that caught it, says so.
            Some(Exit::Signal(2) | Exit::Code(130)) if errors.is_none() => return cancelled(),
            Some(exit) if !exit.is_success() => return failed(false),
            Some(_) | None => {}
        }
        if errors.is_some() {
            return failed(false);
        }
        if !self.understood && !said_something && self.unrecognized > 0 {
            let message = "the program ended well, but nothing that it printed was recognised";
            let failure =
                Failure { exit: end.exit, ..Failure::new(Category::Unknown, Code::FormatChanged, message) };
            return Verdict { outcome: Outcome::Failed, stop: None, failure: Some(failure) };
        }
        if terminal == Terminal::Eof && !self.understood && !said_something {
            // Its turns end with its output; but nothing is no answer.
            let message = "the program exited without printing anything";
            let failure = Failure { exit: end.exit, ..Failure::new(Category::Unknown, Code::Empty, message) };
            return Verdict { outcome: Outcome::Truncated, stop: None, failure: Some(failure) };
        }
        let complete = self.open.as_ref().and_then(|open| open.complete_at_eof);
        match (terminal, complete) {
            (_, Some(stop)) => Verdict { outcome: Outcome::Completed, stop, failure: None },
            (Terminal::Eof, None) => Verdict { outcome: Outcome::Completed, stop: None, failure: None },
            (Terminal::Event, None) => Verdict {
                outcome: Outcome::Truncated,
                stop: None,
                failure: Some(Failure { exit: end.exit, ..truncated("the output ended") }),
            },
        }
    }
}

fn cancelled() -> Verdict {
    Verdict { outcome: Outcome::Cancelled, stop: Some(StopReason::Cancelled), failure: None }
}

/// The failure of a turn whose end was never told.
pub(super) fn truncated(what: &str) -> Failure {
    Failure::new(
        Category::Unknown,
        Code::Truncated,
        format!("{what} before the program said how the turn ended"),
    )
}
