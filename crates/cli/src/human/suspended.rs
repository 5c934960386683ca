//! Errors that the end of the turn may explain better, and that are shown if it goes on.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Failure, Kind, Timestamp};

use super::busy::is_background;
use super::remarks::Remark;
use super::{remarks, words};

/// A remark that is not shown if the failure of the turn says the same.
#[derive(Debug)]
pub(super) struct Suspended {
    pub(super) remark: Remark,
    /// The agent's words; nothing for a limit, which a failure repeats by its end.
    pub(super) words: Option<String>,
}

impl Suspended {
    /// Says whether a failure says the same.
    pub(super) fn is_told_by(&self, failure: &Failure) -> bool {
        match &self.words {
            Some(_) => self.is_told_in(&failure.message),
            None => failure.resets_at.is_some(),
        }
    }

    /// Says whether a text says the same.
    pub(super) fn is_told_in(&self, text: &str) -> bool {
        let message = words::one_line(text);
        let same =
            |words: &String| message.contains(words) || (!message.is_empty() && words.contains(&message));
        self.words.as_ref().is_some_and(same)
    }
}

impl super::Renderer {
    /// The request is sent again, and why is told with that.
    pub(super) fn begin_again(&mut self, why: &str) {
        self.suspended.retain(|suspended| !suspended.is_told_in(why));
        self.resume();
        (self.told_of_fallback, self.busy.ended) = (true, false);
        self.speech.begin_again();
    }

    /// The same agent is asked again, by us, after a while.
    pub(super) fn ask_again(&mut self, retrying: &Retrying, now: Timestamp) {
        self.begin_again(&retrying.message);
        // Retries are counted; a limit is waited for as often as it takes.
        self.busy.waits = retrying.max_attempts.is_none();
        self.show(&remarks::sent_again(retrying, now, &self.options.zone));
    }

    /// What was waited for is over.
    pub(super) fn go_on(&mut self, kind: &Kind) {
        if matches!(kind, Kind::ProcessSpawned(_)) && std::mem::take(&mut self.busy.waits) {
            self.show(&remarks::goes_on());
        }
    }
}

/// Says whether an event may stand between an error and the end of the turn that it explains.
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
                // Why the request is sent again says what the error was.
                | Kind::RouteChosen(_)
                | Kind::FallbackTaken(_)
        )
}
