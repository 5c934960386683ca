//! Ids of approvals and questions that are unique in the session.
//!
//! An agent numbers its requests anew in each process: the first request of every ACP agent is `0`. An agent may also withdraw a request and
//! ask for something else under the same id. A decision must never meet another request than the one that the person read, so an id that
//! was used before, or that another process may have used, gets a mark: `0@57` in the process behind event 57, `0@57.3` if the third
//! request of that process uses an id again.

use std::collections::VecDeque;

use bowline_protocol::{ApprovalId, Kind, QuestionId};

/// The beginning of the ids of approvals that Bowline itself asks for. No request of an agent has such an id: an agent must not get a
/// decision that a person makes on another request.
pub(super) const START_PREFIX: &str = "start-";

/// The mark between the agent's id and the numbers.
const MARK: char = '@';

/// How many ids of one sort are remembered. An agent that only asks must not fill the memory.
const KNOWN_AT_MOST: usize = 1024;

/// Translates between the agent's ids and those of the session.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestIds {
    approvals: IdBook,
    questions: IdBook,
}

/// The ids of one sort.
#[derive(Clone, Debug, Default)]
struct IdBook {
    /// The number of the last event before the process; 0 for the first process of a session.
    before: u64,
    /// How many requests the process has made.
    asked: u64,
    /// The agent's id and ours of the requests, each id of the agent once, with the last request that used it.
    known: VecDeque<(String, String)>,
    /// Whether an id was forgotten. From then on, no id is known to be new.
    has_forgotten: bool,
}

impl RequestIds {
    /// Returns the translation for a process that begins behind an event.
    pub(super) fn after(seq: u64) -> Self {
        let book = IdBook { before: seq, ..IdBook::default() };
        Self { approvals: book.clone(), questions: book }
    }

    /// Returns the session's id of the last approval with an id of the agent.
    pub(super) fn approval(&self, id: &ApprovalId) -> ApprovalId {
        self.approvals.ours(id.as_str()).into()
    }

    /// Returns the session's id of the last question with an id of the agent.
    pub(super) fn question(&self, id: &QuestionId) -> QuestionId {
        self.questions.ours(id.as_str()).into()
    }

    /// Returns the agent's id of an approval; `None` if the agent has used it for another request since.
    pub(super) fn native_approval(&self, id: &ApprovalId) -> Option<ApprovalId> {
        self.approvals.native(id.as_str()).map(ApprovalId::from)
    }

    /// Returns the agent's id of a question, as [`Self::native_approval`] does.
    pub(super) fn native_question(&self, id: &QuestionId) -> Option<QuestionId> {
        self.questions.native(id.as_str()).map(QuestionId::from)
    }

    /// Puts the session's id into an event of the agent.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only requests of the agent have such ids")]
    pub(super) fn rename(&mut self, kind: &mut Kind) {
        match kind {
            Kind::ApprovalAsked(it) => it.id = self.approvals.asked(it.id.as_str()).into(),
            Kind::ApprovalDecided(it) => it.id = self.approval(&it.id),
            Kind::QuestionAsked(it) => it.id = self.questions.asked(it.id.as_str()).into(),
            Kind::QuestionAnswered(it) => it.id = self.question(&it.id),
            _ => {}
        }
    }
}

impl IdBook {
    /// Returns the id for a new request.
    fn asked(&mut self, native: &str) -> String {
        self.asked += 1;
        let place = self.known.iter().position(|(known, _)| known == native);
        let is_new = place.is_none() && !self.has_forgotten;
        let ours = if is_new { self.first(native) } else { self.again(native) };
        match place {
            // The earlier request keeps its id in the journal, and an order about it finds no agent's id any more.
            Some(place) => drop(self.known.remove(place)),
            None if self.known.len() == KNOWN_AT_MOST => {
                self.known.pop_front();
                self.has_forgotten = true;
            }
            None => {}
        }
        self.known.push_back((native.to_owned(), ours.clone()));
        ours
    }

    /// Returns the id of the first request that uses an id of the agent. All ids of the first process stay, but those that look marked.
    fn first(&self, native: &str) -> String {
        // `START_PREFIX` never has a mark behind its number.
        if self.before == 0 && !native.contains(MARK) && !native.starts_with(START_PREFIX) {
            return native.to_owned();
        }
        format!("{native}{MARK}{}", self.before)
    }

    /// Returns the id of a request that may not be the first one with its id.
    fn again(&self, native: &str) -> String {
        format!("{native}{MARK}{}.{}", self.before, self.asked)
    }

    fn ours(&self, native: &str) -> String {
        let known = self.known.iter().find(|(known, _)| known == native);
        known.map_or_else(|| self.first(native), |(_, ours)| ours.clone())
    }

    fn native(&self, ours: &str) -> Option<&str> {
        self.known.iter().find(|(_, known)| known == ours).map(|(native, _)| native.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn book(before: u64) -> IdBook {
        IdBook { before, ..IdBook::default() }
    }

    #[test]
    fn ids_of_all_processes_are_told_apart_and_found_again() {
        let mut seen = BTreeSet::new();
        for before in [0, 57, 58] {
            let mut book = book(before);
            // The last ones look like ids of ours.
            for native in ["0", "r@1", "", "0@57", "0@57.2", "0@0.2", "0@58", "start-7", "start-7@0"] {
                for _ in 0..3 {
                    let ours = book.asked(native);
                    assert!(seen.insert(ours.clone()), "{ours} was used before");
                    assert_eq!((book.native(&ours), book.ours(native)), (Some(native), ours));
                }
            }
        }
        assert!(seen.contains("0") && seen.contains("0@57"), "{seen:?}");
        let is_ours = |id: &&String| id.starts_with(START_PREFIX) && !id.contains(MARK);
        assert_eq!(seen.iter().find(is_ours), None, "an id of Bowline's own approvals");
    }

    #[test]
    fn an_order_about_an_earlier_request_does_not_meet_the_later_one() {
        let mut book = book(0);
        let first = book.asked("10");
        let second = book.asked("10");
        assert_ne!(first, second);
        assert_eq!((book.native(&first), book.native(&second)), (None, Some("10")));
    }

    #[test]
    fn an_agent_that_only_asks_uses_no_id_twice() {
        let mut book = book(0);
        let mut seen: BTreeSet<String> = (0..5000).map(|id| book.asked(&id.to_string())).collect();
        assert!(seen.insert(book.asked("0")), "forgotten, and still not used twice");
        assert_eq!((seen.len(), book.known.len()), (5001, KNOWN_AT_MOST));
    }
}
