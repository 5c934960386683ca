//! Retries that have not come to anything yet.
//!
//! A program that tries again and again is not silent: when time runs out meanwhile, why it retried is why it failed.

use bowline_protocol::{Category, Code, Exit, RawFile, RawSpan};

use super::Turns;
use crate::decode::{Cause, End};
use crate::failure::Report;

/// What the program was waiting for, by its last notice.
#[derive(Debug)]
pub(super) struct Waiting {
    category: Category,
    message: String,
    /// Whether the notice may be older than what was said: standard error has no place in the order of the output.
    may_be_over: bool,
}

impl Turns {
    /// Takes note of why a request is retried. What is retried after the last turn explains nothing.
    pub(crate) fn waits_for(&mut self, category: Category, message: &str, raw: Option<RawSpan>) {
        if self.awaits_verdict() {
            let lively = self.open.as_ref().is_some_and(|open| open.lively);
            let may_be_over = lively && raw.is_some_and(|raw| raw.file == RawFile::Stderr);
            self.waiting = Some(Waiting { category, message: message.to_owned(), may_be_over });
        }
    }

    /// Something came of the last retry.
    pub(crate) fn overcome(&mut self) {
        self.waiting = None;
    }

    /// Returns why the turn failed, if it was given up during a retry: by our deadline, or by somebody who killed the
    /// program. A kill needs a notice that says why, beyond doubt; else it is only a kill.
    pub(crate) fn given_up(&self, end: &End) -> Option<Report> {
        let Waiting { category, message, may_be_over } = self.waiting.as_ref()?;
        let by_us = end.cause == Cause::TimedOut;
        // 124 is what `timeout` exits with, the others are how a shell tells of SIGHUP, SIGKILL and SIGTERM.
        let killed = matches!(end.exit, Some(Exit::Signal(1 | 9 | 15) | Exit::Code(124 | 129 | 137 | 143)));
        let by_others =
            end.cause == Cause::Exited && killed && *category != Category::Unknown && !may_be_over;
        (by_us || by_others).then(|| Report {
            category: Some(*category),
            code: Some(Code::GaveUpWaiting),
            ..Report::of(message.clone())
        })
    }
}
