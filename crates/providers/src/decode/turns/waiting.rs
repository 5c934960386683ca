//! Retries that have had no effect yet.
//!
//! A program that keeps retrying is not silent. If time runs out meanwhile, the reason of the retry is the reason of the failure.

use bowline_protocol::{Category, Code, Exit, RawFile, RawSpan};

use super::TurnTracker;
use crate::decode::{Cause, End};
use crate::failure::Report;

/// The reason that the program waits, from its last notice.
#[derive(Debug)]
pub(super) struct PendingRetry {
    category: Category,
    message: String,
    /// Whether the notice may be older than the text: standard error has no order relative to standard output.
    may_be_over: bool,
}

impl TurnTracker {
    /// Records the reason of a retry. Retries after the last turn are ignored.
    pub(crate) fn waits_for(&mut self, category: Category, message: &str, raw: Option<RawSpan>) {
        if self.awaits_verdict() {
            let lively = self.open.as_ref().is_some_and(|open| open.lively);
            let may_be_over = lively && raw.is_some_and(|raw| raw.file == RawFile::Stderr);
            self.waiting = Some(PendingRetry { category, message: message.to_owned(), may_be_over });
        }
    }

    /// Records that the last retry had an effect.
    pub(crate) fn overcome(&mut self) {
        self.waiting = None;
    }

    /// Returns the reason of the last retry, as long as the retry had no effect.
    pub(crate) fn retrying(&self) -> Option<Category> {
        self.waiting.as_ref().map(|waiting| waiting.category)
    }

    /// Returns why the turn failed, if a deadline of ours or a kill from outside ended the program during a retry.
    /// A kill needs a notice with a certain reason. Otherwise it is only a kill.
    pub(crate) fn given_up(&self, end: &End) -> Option<Report> {
        let PendingRetry { category, message, may_be_over } = self.waiting.as_ref()?;
        let by_us = end.cause == Cause::TimedOut;
        // `timeout` exits with 124. The others are a shell's exit codes for SIGHUP, SIGKILL and SIGTERM.
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
