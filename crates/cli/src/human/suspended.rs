//! Errors that wait for the end of the turn: the failure may explain them better. If the turn continues, they are printed.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Failure, Kind, Timestamp};

use super::activity::is_background;
use super::remarks::Remark;
use super::{remarks, words};

/// A remark that is dropped if the failure of the turn has the same text.
#[derive(Debug)]
pub(super) struct SuspendedError {
    pub(super) remark: Remark,
    /// The text of the agent; `None` for a usage limit, which a failure repeats as its reset time.
    pub(super) words: Option<String>,
}

impl SuspendedError {
    /// Returns whether a failure covers the remark.
    pub(super) fn is_told_by(&self, failure: &Failure) -> bool {
        match &self.words {
            Some(_) => self.is_told_in(&failure.message),
            None => failure.resets_at.is_some(),
        }
    }

    /// Returns whether a text covers the remark.
    pub(super) fn is_told_in(&self, text: &str) -> bool {
        let message = words::one_line(text);
        let same =
            |words: &String| message.contains(words) || (!message.is_empty() && words.contains(&message));
        self.words.as_ref().is_some_and(same)
    }
}

impl super::Renderer {
    /// Starts another attempt. `why` is printed with it.
    pub(super) fn begin_again(&mut self, why: &str) {
        self.suspended.retain(|suspended| !suspended.is_told_in(why));
        self.resume();
        (self.told_of_fallback, self.busy.ended) = (true, false);
        self.speech.begin_again();
    }

    /// Shows that Bowline retries with the same provider.
    pub(super) fn ask_again(&mut self, retrying: &Retrying, now: Timestamp) {
        self.begin_again(&retrying.message);
        // Retries have a maximum; the wait for a usage limit has none.
        self.busy.waits = retrying.max_attempts.is_none();
        self.show(&remarks::sent_again(retrying, now, &self.options.zone));
    }

    /// Shows that the wait for a usage limit has ended.
    pub(super) fn go_on(&mut self, kind: &Kind) {
        if matches!(kind, Kind::ProcessSpawned(_)) && std::mem::take(&mut self.busy.waits) {
            self.show(&remarks::goes_on());
        }
    }
}

/// Returns whether an event may come between an error and the end of the turn.
pub(super) fn is_beside_the_end(kind: &Kind) -> bool {
    is_background(kind)
        || matches!(
            kind,
            Kind::MessageFinished(_)
                | Kind::SessionStarted(_)
                | Kind::TextRetracted(_)
                | Kind::Notice(_)
                | Kind::LimitReported(_)
                | Kind::TurnEnded(_)
                | Kind::SessionEnded(_)
                | Kind::SessionStateChanged(_)
                // These repeat the error as the reason for the next attempt.
                | Kind::RouteChosen(_)
                | Kind::FallbackTaken(_)
        )
}
