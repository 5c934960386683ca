//! Names of messages that a program uses again, and messages that it never finishes.

use bowline_protocol::kinds::TextDelta;

use super::*;

/// Feeds one event about a message, and returns the names under which messages were said or finished by it.
#[expect(clippy::wildcard_enum_match_arm, reason = "only messages have these names")]
fn names_of(turns: &mut TurnTracker, kind: Kind) -> Vec<String> {
    let mut out = Vec::new();
    turns.agent(kind, None, &mut out);
    let name = |draft: UnnumberedEvent| match draft.kind {
        Kind::TextDelta(delta) => Some(delta.message.to_string()),
        Kind::MessageFinished(finished) => Some(finished.message.to_string()),
        _ => None,
    };
    out.into_iter().filter_map(name).collect()
}

fn said(turns: &mut TurnTracker, name: &str) -> Vec<String> {
    let delta = TextDelta { message: name.into(), block: 0, text: "a".to_owned(), parent: None };
    names_of(turns, Kind::TextDelta(delta))
}

fn finished(turns: &mut TurnTracker, name: &str) -> Vec<String> {
    let message = MessageFinished { message: name.into(), phase: Phase::Final, model: None };
    names_of(turns, Kind::MessageFinished(message))
}

#[test]
fn names_that_are_used_again_are_remembered_up_to_a_limit() {
    let mut turns = TurnTracker::new(Commentary::Told);
    for number in 0..1000 {
        let name = format!("m{number}");
        said(&mut turns, &name);
        finished(&mut turns, &name);
        // The program goes on under the name of a message that is finished, and never finishes that one.
        assert_eq!(said(&mut turns, &name), [format!("{name}~{}", number + 2)]);
    }
    let open = turns.open.as_ref().expect("a turn");
    assert_eq!(open.renamed.len(), 64);
    // The last names still lead to the messages that are open, the first ones do not.
    assert_eq!(finished(&mut turns, "m999"), ["m999~1001"]);
    assert!(finished(&mut turns, "m0").is_empty());
}

#[test]
fn a_message_that_is_finished_stays_so_however_many_came_before() {
    let mut turns = TurnTracker::new(Commentary::Told);
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..100 {
        let name = format!("m{number}");
        for _ in 0..3 {
            let names = said(&mut turns, &name);
            assert_eq!(finished(&mut turns, &name), names);
            assert!(seen.insert(names.clone()), "{names:?} was finished before");
        }
    }
}

/// Few messages are in a list, many are found by their names: both are the same to who uses them.
#[test]
fn messages_that_are_never_finished_are_all_finished_at_the_end_in_their_order() {
    for count in [3, 16, 17, 500] {
        let mut turns = TurnTracker::new(Commentary::BeforeTools);
        for round in 0..2 {
            for number in 0..count {
                assert_eq!(said(&mut turns, &format!("m{number}")), [format!("m{number}")], "{round}");
            }
        }
        // Of those that are heard again behind a call of a tool, the call is not the end.
        let tool = crate::views::script::tool("t", "sh", None);
        assert!(names_of(&mut turns, Kind::ToolStarted(tool)).is_empty());
        said(&mut turns, "m1");
        assert_eq!(finished(&mut turns, "m0"), ["m0"]);
        let mut out = Vec::new();
        turns.close(Outcome::Completed, None, None, None, &mut out);
        let rest: Vec<_> = out
            .into_iter()
            .filter_map(|draft| {
                let Kind::MessageFinished(finished) = draft.kind else { return None };
                Some((finished.message.to_string(), finished.phase))
            })
            .collect();
        let wanted = (1..count)
            .map(|number| (format!("m{number}"), if number == 1 { Phase::Final } else { Phase::Commentary }));
        assert_eq!(rest, wanted.collect::<Vec<_>>(), "{count}");
    }
}
