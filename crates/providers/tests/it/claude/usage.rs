//! What the calls of Claude Code add up to before the result of the turn.

use bowline_protocol::{Kind, Usage};
use serde_json::{Value, json};

use crate::claude::{INIT, lines, result};
use crate::support::Run;

fn used(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output, "cache_read_input_tokens": 100})
}

/// A block of a message; of the agent itself, or of a sub-agent.
fn block(id: &str, parent: Option<&str>, usage: &Value) -> String {
    json!({"type": "assistant", "parent_tool_use_id": parent,
        "message": {"id": id, "model": "opus", "content": [{"type": "text", "text": "so"}], "usage": usage}})
    .to_string()
}

fn begins(id: &str, usage: &Value) -> String {
    json!({"type": "stream_event", "parent_tool_use_id": null,
        "event": {"type": "message_start", "message": {"id": id, "model": "opus", "usage": usage}}})
    .to_string()
}

/// The end of a message, which older versions do not name.
fn ends(id: Option<&str>, usage: &Value) -> String {
    json!({"type": "stream_event", "parent_tool_use_id": null, "api_message_id": id,
        "event": {"type": "message_delta", "delta": {}, "usage": usage}})
    .to_string()
}

/// Returns what the reports say, and what the turn used when it ended.
fn spent(output: &[&str]) -> (Vec<u64>, Option<Usage>) {
    let (mut told, mut turn) = (Vec::new(), None);
    for event in Run::of("claude", &lines(output)).events() {
        if let Kind::UsageReported(report) = &event.kind {
            told.push(report.usage.total());
        }
        if let Kind::TurnEnded(ended) = &event.kind {
            turn = ended.usage;
        }
    }
    (told, turn)
}

#[test]
fn a_call_that_is_stopped_has_used_its_prompt() {
    let (told, turn) = spent(&[INIT, &begins("m1", &used(160_000, 3))]);
    assert_eq!((told, turn.map(|usage| usage.total())), (vec![160_103], Some(160_103)));
}

#[test]
fn the_end_of_a_call_replaces_its_beginning() {
    for end in [Some("m1"), None] {
        let output = [INIT, &begins("m1", &used(50, 1)), &block("m1", None, &used(50, 1))];
        let (told, turn) = spent(&[&output[..], &[&ends(end, &used(50, 9))]].concat());
        assert_eq!((told, turn.map(|usage| usage.total())), (vec![151, 159], Some(159)), "{end:?}");
    }
}

#[test]
fn sub_agents_that_work_side_by_side_are_counted_once_each() {
    let output = [
        INIT,
        &begins("m1", &used(50, 1)),
        &block("a", Some("t1"), &used(1000, 1)),
        &block("b", Some("t2"), &used(2000, 1)),
        &block("a", Some("t1"), &used(1000, 5)),
        &block("b", Some("t2"), &used(2000, 1)),
        &ends(Some("m1"), &used(50, 9)),
    ];
    let (told, turn) = spent(&output);
    assert_eq!(told, [151, 1101, 2101, 1105, 159], "what is repeated is not told again");
    assert_eq!(turn.map(|usage| usage.total()), Some(159 + 1105 + 2101));
}

#[test]
fn the_result_has_the_last_word() {
    let end = result(json!({"result": "so", "usage": used(60, 10)}));
    let (told, turn) =
        spent(&[INIT, &begins("m1", &used(50, 1)), &block("a", Some("t1"), &used(1000, 1)), &end]);
    assert_eq!((told.last(), turn.map(|usage| usage.total())), (Some(&170), Some(170)));
}
