//! The rule, case by case, and that no event is lost or out of order.

use bowline_protocol::UsageSource;
use bowline_protocol::kinds::{ContextGauge, Level, ToolStatus};
use proptest::prelude::*;

use super::*;
use crate::views::script::*;

/// Writes an event in a word or two: `"text"`, `end m1`, or the kind.
fn short(passed: &Passed) -> String {
    let what = match message_words(&passed.event.kind) {
        Some(words) => words,
        None => passed.event.kind.type_name().to_owned(),
    };
    if passed.commentary { format!("({what})") } else { what }
}

fn message_words(kind: &Kind) -> Option<String> {
    if let Kind::TextDelta(delta) = kind {
        return Some(delta.text.clone());
    }
    if let Kind::MessageFinished(finished) = kind { Some(format!("end {}", finished.message)) } else { None }
}

/// Pushes the events one after the other and compares what each sets free; the last entry is the flush.
#[track_caller]
fn check<const N: usize>(kinds: Vec<Kind>, expect: [&str; N]) {
    let mut filter = CommentaryFilter::new(None);
    let join = |passed: Vec<Passed>| passed.iter().map(short).collect::<Vec<_>>().join(" ");
    let mut given: Vec<String> = events(kinds).into_iter().map(|event| join(filter.push(event))).collect();
    given.push(join(filter.flush()));
    assert_eq!(given, expect);
}

fn a() -> Kind {
    text("m1", 0, "a")
}

#[test]
fn a_tool_of_the_agent_makes_commentary_of_what_is_held() {
    let read = || cli_tool("t1", "Read", None);
    check(
        vec![a(), finished("m1"), read(), text("m2", 0, "b")],
        ["", "", "(a) (end m1) tool_started", "", "b"],
    );
    // The host's tools and the sub-agents' do not.
    check(vec![a(), host_tool("t1", "f", None)], ["", "a tool_started", ""]);
    check(vec![a(), sub_tool("t1", "f", None)], ["", "tool_started", "a"]);
    check(vec![a(), completed()], ["", "a turn_ended", ""]);
    check(vec![a(), notice(Level::Info, "n")], ["", "a notice", ""]);
    check(vec![a(), retracted("m1", 0), completed()], ["", "", "a text_retracted turn_ended", ""]);
}

#[test]
fn what_says_nothing_about_the_words_passes_them() {
    let gauge = Kind::ContextGauge(ContextGauge { used: 1, window: None });
    let done = tool_done("t1", ToolStatus::Completed, None);
    for kind in
        [thinking("m1", 1, "hm"), usage(UsageSource::Reported, None), gauge, tool_piece("t1", "{"), done]
    {
        let name = kind.type_name().to_owned();
        check(vec![a(), kind], ["", &name, "a"]);
    }
    // All of a sub-agent's message passes, also what does not name its parent.
    check(
        vec![a(), sub_text("m2", "s"), retracted("m2", 0), finished("m2")],
        ["", "s", "text_retracted", "end m2", "a"],
    );
}

#[test]
fn an_agent_that_marks_commentary_is_believed() {
    check(vec![a(), commentary("m1"), text("m2", 0, "b")], ["", "(a) (end m1)", "", "b"]);
    // Words before it that are undecided stay in front of it.
    let held = vec![a(), text("m2", 0, "b"), commentary("m2"), completed()];
    check(held, ["", "", "", "a (b) (end m2) turn_ended", ""]);
    let held = vec![a(), text("m2", 0, "b"), commentary("m2"), cli_tool("t1", "Read", None)];
    check(held, ["", "", "", "(a) (b) (end m2) tool_started", ""]);
}

#[test]
fn words_are_held_no_longer_than_allowed() {
    let mut filter = CommentaryFilter::new(Some(Millis(500)));
    assert_eq!(filter.deadline(), None);
    let held = events([a(), text("m1", 0, "b")]);
    let due = held[0].at.after(Millis(500));
    for event in held.clone() {
        assert_eq!(filter.push(event), []);
    }
    assert_eq!(filter.deadline(), Some(due), "counted from the first");
    assert_eq!(filter.tick(held[0].at), []);
    let shown: Vec<_> = held.into_iter().map(|event| Passed { event, commentary: false }).collect();
    assert_eq!(filter.tick(due), shown);
    assert_eq!(filter.deadline(), None);
    // Without a limit, only events decide.
    let mut filter = CommentaryFilter::default();
    filter.push(events([a()]).remove(0));
    assert_eq!((filter.deadline(), filter.tick(due.after(Millis(1_000_000)))), (None, vec![]));
}

/// Returns whether an event of a random stream is one of the agent's own words.
fn waits(event: &Event) -> bool {
    let message = if let Kind::TextDelta(delta) = &event.kind {
        &delta.message
    } else if let Kind::MessageFinished(finished) = &event.kind {
        &finished.message
    } else if let Kind::TextRetracted(retracted) = &event.kind {
        &retracted.message
    } else {
        return false;
    };
    !is_sub_agents(message.as_str())
}

proptest! {
    #[test]
    fn nothing_is_lost_or_doubled_and_the_order_is_kept(kinds in any_stream()) {
        let mut filter = CommentaryFilter::default();
        let sent = events(kinds);
        let mut given: Vec<Event> = Vec::new();
        for event in sent.clone() {
            given.extend(filter.push(event).into_iter().map(|passed| passed.event));
        }
        given.extend(filter.flush().into_iter().map(|passed| passed.event));

        prop_assert_eq!(given.len(), sent.len());
        let (own, others): (Vec<Event>, Vec<Event>) = given.into_iter().partition(waits);
        let (own_sent, others_sent): (Vec<Event>, Vec<Event>) = sent.into_iter().partition(waits);
        prop_assert_eq!(own, own_sent);
        prop_assert_eq!(others, others_sent);
        prop_assert!(filter.held.is_empty());
    }
}
