//! Ids of approvals and questions that are unique in the session.
//!
//! An agent numbers its requests anew in each process: the first request of every ACP agent is `0`. A decision that names a request of an
//! earlier process must not meet another one, so the ids of all processes but the first get the number of an event behind them.

use bowline_protocol::{ApprovalId, Kind, QuestionId};

/// The mark between the agent's id and the number.
const MARK: char = '@';

/// Translates between the agent's ids and those of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestIds {
    /// The number of the last event before the process; 0 for the first process of a session, whose ids stay.
    before: u64,
}

impl RequestIds {
    /// Returns the translation for a process that begins behind an event.
    pub(super) fn after(seq: u64) -> Self {
        Self { before: seq }
    }

    /// Returns the session's id of an approval.
    pub(super) fn approval(self, id: &ApprovalId) -> ApprovalId {
        self.marked(id.as_str()).map_or_else(|| id.clone(), ApprovalId::from)
    }

    /// Returns the session's id of a question.
    pub(super) fn question(self, id: &QuestionId) -> QuestionId {
        self.marked(id.as_str()).map_or_else(|| id.clone(), QuestionId::from)
    }

    /// Returns the agent's id of an approval.
    pub(super) fn native_approval(self, id: &ApprovalId) -> ApprovalId {
        self.bare(id.as_str()).map_or_else(|| id.clone(), ApprovalId::from)
    }

    /// Returns the agent's id of a question.
    pub(super) fn native_question(self, id: &QuestionId) -> QuestionId {
        self.bare(id.as_str()).map_or_else(|| id.clone(), QuestionId::from)
    }

    /// Puts the session's id into an event of the agent.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only requests of the agent have such ids")]
    pub(super) fn rename(self, kind: &mut Kind) {
        if self.before == 0 {
            return;
        }
        match kind {
            Kind::ApprovalAsked(it) => it.id = self.approval(&it.id),
            Kind::ApprovalDecided(it) => it.id = self.approval(&it.id),
            Kind::QuestionAsked(it) => it.id = self.question(&it.id),
            Kind::QuestionAnswered(it) => it.id = self.question(&it.id),
            _ => {}
        }
    }

    fn marked(self, id: &str) -> Option<String> {
        (self.before > 0).then(|| format!("{id}{MARK}{}", self.before))
    }

    fn bare(self, id: &str) -> Option<&str> {
        id.strip_suffix(&format!("{MARK}{}", self.before)).filter(|_| self.before > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_later_processes_are_told_apart_and_found_again() {
        let (first, later) = (RequestIds::after(0), RequestIds::after(57));
        let native = ApprovalId::from("0@57");
        assert_eq!(first.approval(&native), native);
        for id in ["0", "0@57", "r@1", ""] {
            let native = ApprovalId::from(id);
            let ours = later.approval(&native);
            assert_ne!(ours, RequestIds::after(58).approval(&native), "of another process");
            assert_eq!(later.native_approval(&ours), native);
            let native = QuestionId::from(id);
            assert_eq!(later.native_question(&later.question(&native)), native);
        }
    }
}
