//! Retries that have not come to anything yet.
//!
//! A program that tries again and again is not silent: when time runs out meanwhile, why it retried is why it failed.

use bowline_protocol::{Category, Code, Exit};

use super::Turns;
use crate::decode::{Cause, End};
use crate::failure::Report;

/// What the program was waiting for, by its last notice.
#[derive(Debug)]
pub(super) struct Waiting {
    category: Category,
    message: String,
}

impl Turns {
    /// Takes note of why a request is retried. What is retried after the last turn explains nothing.
    pub(crate) fn waits_for(&mut self, category: Category, message: &str) {
        if self.awaits_verdict() {
            self.waiting = Some(Waiting { category, message: message.to_owned() });
        }
    }

    /// Something came of the last retry.
    pub(crate) fn overcome(&mut self) {
        self.waiting = None;
    }

    /// Returns why the turn failed, if it was given up during a retry: by our deadline, or by somebody who killed the
    /// program. A kill needs a notice that says why; else it is only a kill.
    pub(crate) fn given_up(&self, end: &End) -> Option<Report> {
        let Waiting { category, message } = self.waiting.as_ref()?;
        let by_us = end.cause == Cause::TimedOut;
        // 124 is what `timeout` exits with, the others are how a shell tells of SIGHUP, SIGKILL and SIGTERM.
        let killed = matches!(end.exit, Some(Exit::Signal(1 | 9 | 15) | Exit::Code(124 | 129 | 137 | 143)));
        let by_others = end.cause == Cause::Exited && killed && *category != Category::Unknown;
        (by_us || by_others).then(|| Report {
            category: Some(*category),
            code: Some(Code::GaveUpWaiting),
            ..Report::of(message.clone())
        })
    }
}
