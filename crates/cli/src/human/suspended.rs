//! Errors that the end of the turn may explain better, and that are shown if it goes on.

use bowline_protocol::{Failure, Kind};

use super::busy::is_background;
use super::remarks::Remark;
use super::words;

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
        let message = words::one_line(&failure.message);
        match &self.words {
            Some(words) => message.contains(words) || (!message.is_empty() && words.contains(&message)),
            None => failure.resets_at.is_some(),
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
        )
}
