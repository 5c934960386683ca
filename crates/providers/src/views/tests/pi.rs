//! `pi` and `pi-partials`: the order of records, and what the message holds.

use bowline_protocol::Kind;
use bowline_protocol::kinds::{StopReason, ToolStatus};
use serde_json::{Value, json};

use super::super::script::*;

/// Prints each record without its message: `text_delta 0 "Hel"`.
fn outline(kinds: Vec<Kind>) -> String {
    let short = |record: &Value| {
        let mut words = vec![record["type"].as_str().unwrap().to_owned()];
        for key in ["contentIndex", "delta", "content", "toolCall", "reason"] {
            words.extend(record.get(key).map(Value::to_string));
        }
        words.extend(record["error"].get("errorMessage").map(Value::to_string));
        words.join(" ")
    };
    records("pi", kinds).iter().map(short).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_message_is_told_from_start_to_done() {
    insta::assert_snapshot!(outline(vec![
        session("n1", None, None),
        turn(),
        thinking("m1", 0, "hm"),
        text("m1", 1, "Hel"),
        text("m1", 1, "lo"),
        finished("m1"),
        cli_tool("t1", "Read", Some("{}")),
        sub_text("m9", "not shown"),
        text("m2", 0, "Done."),
        finished("m2"),
        completed(),
    ]), @r#"
    start
    thinking_start 0
    thinking_delta 0 "hm"
    thinking_end 0 "hm"
    text_start 1
    text_delta 1 "Hel"
    text_delta 1 "lo"
    text_end 1 "Hello"
    text_start 2
    text_delta 2 "Done."
    text_end 2 "Done."
    done "stop"
    "#);
}

#[test]
fn the_message_is_pis_own_type() {
    let kinds = vec![
        session("n1", None, Some("big")),
        turn(),
        thinking("m1", 0, "hm"),
        text("m1", 1, "Hi"),
        finished("m1"),
        completed_with_usage(),
    ];
    let partials = records("pi-partials", kinds.clone());
    let records = records("pi", kinds);
    let last = json!({
        "type": "done",
        "reason": "stop",
        "message": {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}],
            "api": "external-cli",
            "provider": "practice",
            "model": "big",
            "usage": {
                "input": 20, "output": 9, "cacheRead": 10, "cacheWrite": 2, "totalTokens": 41,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25},
            },
            "stopReason": "stop",
            "timestamp": 1_736_245_800_000_i64,
        },
    });
    assert_eq!(records.last(), Some(&last));
    // Between the first and the last record stands only what is new.
    assert_eq!(records[0]["partial"]["content"], json!([]));
    assert_eq!(records[2], json!({"type": "thinking_delta", "contentIndex": 0, "delta": "hm"}));
    // With partials, each record carries the message so far.
    assert_eq!(partials.first(), records.first());
    assert_eq!(partials.last(), records.last());
    assert_eq!(partials[1]["partial"]["content"], json!([{"type": "thinking", "thinking": ""}]));
    assert_eq!(partials[2]["partial"]["content"], json!([{"type": "thinking", "thinking": "hm"}]));
    assert_eq!(partials[5]["partial"]["content"][1], json!({"type": "text", "text": "Hi"}));
    for (plain, mut partial) in records.into_iter().zip(partials).skip(1) {
        partial.as_object_mut().unwrap().remove("partial");
        assert_eq!(plain, partial, "they differ in nothing else");
    }
}

#[test]
fn every_stream_starts_once_and_ends_once() {
    let ends = |kinds: Vec<Kind>, expect: &str| assert_eq!(outline(kinds), format!("start\n{expect}"));
    ends(vec![], r#"error "error" "the agent did not start a turn""#);
    ends(vec![turn()], r#"error "error" "the output ended before the turn ended""#);
    ends(vec![turn(), failed("slow down")], r#"error "error" "slow down""#);
    ends(vec![turn(), cancelled()], r#"error "aborted" "the turn was cancelled""#);
    ends(vec![turn(), completed()], r#"done "stop""#);
    ends(vec![turn(), stopped(StopReason::MaxTokens)], r#"done "length""#);
    ends(vec![turn(), stopped(StopReason::EndTurn), turn(), completed()], r#"done "stop""#);
    // What the agent runs itself is none of pi's business, even if it never ended.
    ends(vec![turn(), cli_tool("t1", "Read", Some("{}")), completed()], r#"done "stop""#);
    ends(vec![turn(), cli_tool("t1", "Read", None), stopped(StopReason::ToolUse)], r#"done "stop""#);
}

#[test]
fn interleaved_blocks_stay_apart_and_all_end() {
    insta::assert_snapshot!(outline(vec![
        turn(),
        text("m1", 0, "a"),
        text("m2", 0, "b"),
        text("m1", 0, "c"),
        thinking("m1", 0, "d"),
        finished("m2"),
        failed("slow down"),
    ]), @r#"
    start
    text_start 0
    text_delta 0 "a"
    text_start 1
    text_delta 1 "b"
    text_delta 0 "c"
    text_end 0 "ac"
    thinking_start 2
    thinking_delta 2 "d"
    text_end 1 "b"
    thinking_end 2 "d"
    error "error" "slow down"
    "#);
}

#[test]
fn retracted_text_is_emptied_in_its_place() {
    let kinds = vec![
        turn(),
        text("m1", 0, "a"),
        text("m1", 1, "b"),
        retracted("m1", 1),
        text("m1", 1, "c"),
        finished("m1"),
        completed(),
    ];
    insta::assert_snapshot!(outline(kinds.clone()), @r#"
    start
    text_start 0
    text_delta 0 "a"
    text_end 0 "a"
    text_start 1
    text_delta 1 "b"
    text_end 1 ""
    text_start 2
    text_delta 2 "c"
    text_end 2 "c"
    done "stop"
    "#);
    let content = |kinds| records("pi", kinds).pop().unwrap()["message"]["content"].clone();
    let texts =
        |texts: &[&str]| Value::from_iter(texts.iter().map(|text| json!({"type": "text", "text": text})));
    assert_eq!(content(kinds.clone()), texts(&["a", "c"]), "the last record has no empty blocks");
    let partial = records("pi-partials", kinds.clone())
        .into_iter()
        .find(|it| it["type"] == "text_start" && it["contentIndex"] == 2);
    assert_eq!(
        partial.unwrap()["partial"]["content"],
        texts(&["a", "", ""]),
        "until then each keeps its place"
    );
    // Also when the block has ended.
    let mut late = kinds;
    late.insert(6, retracted("m1", 0));
    assert_eq!(content(late), texts(&[]));
}

#[test]
fn the_host_gets_the_calls_that_it_has_to_run() {
    insta::assert_snapshot!(outline(vec![
        turn(),
        host_tool("t1", "search", Some(r#"{"q": "x"}"#)),
        host_tool("t2", "fetch", None),
        tool_piece("t2", r#"{"u""#),
        tool_piece("t2", ":1}"),
        tool_input("t2", r#"{"u":1}"#),
        host_tool("t3", "late", None),
        tool_input("t3", "{}"),
        host_tool("t4", "never", None),
        stopped(StopReason::ToolUse),
    ]), @r#"
    start
    toolcall_start 0
    toolcall_delta 0 "{\"q\": \"x\"}"
    toolcall_end 0 {"arguments":{"q":"x"},"id":"t1","name":"search","type":"toolCall"}
    toolcall_start 1
    toolcall_delta 1 "{\"u\""
    toolcall_delta 1 ":1}"
    toolcall_end 1 {"arguments":{"u":1},"id":"t2","name":"fetch","type":"toolCall"}
    toolcall_start 2
    toolcall_delta 2 "{}"
    toolcall_end 2 {"arguments":{},"id":"t3","name":"late","type":"toolCall"}
    toolcall_start 3
    toolcall_end 3 {"arguments":{},"id":"t4","name":"never","type":"toolCall"}
    done "toolUse"
    "#);
    // Once they are answered, the message is simply done.
    let answered = vec![
        turn(),
        host_tool("t1", "search", Some("{}")),
        tool_done("t1", ToolStatus::Completed, Some("ok")),
        completed(),
    ];
    assert!(outline(answered).ends_with("done \"stop\""));
    // An answer that was cut off may have cut its calls off, too.
    let cut = vec![turn(), host_tool("t1", "search", None), stopped(StopReason::MaxTokens)];
    assert!(outline(cut).ends_with("done \"length\""));
}

#[test]
fn what_an_attempt_said_that_was_given_up_is_emptied() {
    let kinds = vec![
        session("n1", None, None),
        turn(),
        thinking("m1", 0, "hm"),
        text("m1", 1, "Half an ans"),
        finished("m1"),
        failed("gone"),
        fallback(),
        session("n2", None, None),
        turn(),
        text("m1", 0, "An answer."),
        finished("m1"),
        completed(),
    ];
    let all = records("pi-partials", kinds.clone());
    let content = &all.last().unwrap()["message"]["content"];
    let texts: Vec<&str> = content.as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(texts, ["An answer."]);
    assert_eq!(content.as_array().unwrap().len(), 1, "nothing empty is left of the first attempt");
    let shown = all.iter().find(|it| it["type"] == "text_start" && it["contentIndex"] == 2).unwrap();
    assert_eq!(shown["partial"]["content"][1]["text"], "", "who shows the message so far sees it go");
    assert!(outline(kinds).ends_with("done \"stop\""));
}
