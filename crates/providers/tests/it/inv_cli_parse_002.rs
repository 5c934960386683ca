//! INV-CLI-PARSE-002: content extraction accuracy.

use crate::support::{Run, text};

#[test]
fn json_content_by_priority() {
    // Each object has what the row before it lacks the better place for.
    for (object, expect) in [
        (r#"{"content":"a","text":"b"}"#, "a"),
        (r#"{"text":"b","response":"c"}"#, "b"),
        (r#"{"response":"c","message":"d"}"#, "c"),
        (r#"{"message":"d","output":"e"}"#, "d"),
        (r#"{"output":"e","result":"f"}"#, "e"),
        (r#"{"result":"f","content":[{"type":"text","text":"g"}]}"#, "f"),
        (
            r#"{"content":[{"type":"text","text":"g"},{"type":"image"},{"type":"text","text":"h"}],"choices":[{"message":{"content":"i"}}]}"#,
            "gh",
        ),
        (r#"{"choices":[{"message":{"content":"i"}}],"message":{"content":"j"}}"#, "i"),
        (r#"{"message":{"content":"j","text":"k"}}"#, "j"),
        (r#"{"message":{"text":"k"}}"#, "k"),
        (r#"{"message":{"content":"j"},"output":"e"}"#, "e"),
        (r#"{"content":""}"#, ""),
        ("{}", ""),
        ("[]", ""),
    ] {
        assert_eq!(text("json", object), expect, "{object}");
    }
}

#[test]
fn json_may_be_pretty_printed_and_surrounded() {
    let pretty = "{\n  \"content\": \"Hello!\",\n  \"usage\": {\"input_tokens\": 3, \"output_tokens\": 4}\n}";
    assert_eq!(text("json", pretty), "Hello!");
    let run = Run::of("json", "Loading model...\n{\n \"content\": \"Hi\"\n}\nGoodbye\n");
    assert_eq!(run.text(), "Hi");
    assert_eq!(run.unrecognized(), ["Loading model...", "Goodbye"]);
}

#[test]
fn what_is_no_json_is_trimmed_text() {
    assert_eq!(text("json", "  just text \n"), "just text");
    assert_eq!(text("json", "42\n"), "42");
    assert_eq!(text("json", "{\"content\": \"torn"), "{\"content\": \"torn");
}

#[test]
fn text_is_trimmed_and_keeps_its_middle() {
    assert_eq!(text("text", "\n\n  Hello\n\n  World  \n\n"), "Hello\n\n  World");
    assert_eq!(text("text", "one\r\ntwo\r\n"), "one\ntwo");
    assert_eq!(text("text", ""), "");
}

#[test]
fn a_blank_line_inside_streamed_code_is_kept() {
    let lines = [
        r#"{"type":"content","content":"```\na\n"}"#,
        r#"{"type":"content","content":"\n"}"#,
        r#"{"type":"content","content":"b\n```"}"#,
        r#"{"type":"turn.completed"}"#,
    ];
    assert_eq!(text("stream-json", &lines.join("\n")), "```\na\n\nb\n```");
}

#[test]
fn metadata_alone_says_nothing() {
    let lines = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n{\"type\":\"turn.completed\"}\n";
    let run = Run::of("stream-json", lines);
    assert_eq!((run.text().as_str(), run.outcome().as_str()), ("", "completed"));
}

#[test]
fn a_mixture_gives_the_good_lines_only() {
    let lines = "...\nLoading\n{\"type\":\"content\",\"content\":\"good\"}\n{bad\n{\"level\":\"info\",\"message\":\"log\"}\n";
    let run = Run::of("stream-json", lines);
    assert_eq!(run.text(), "good");
    assert_eq!(run.unrecognized().len(), 4);
}

#[test]
fn reasoning_and_tools_are_not_the_answer() {
    let lines = [
        r#"{"type":"item.completed","item":{"id":"0","type":"reasoning","text":"hmm"}}"#,
        r#"{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls","status":"in_progress"}}"#,
        r#"{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"ls","aggregated_output":"x","status":"completed"}}"#,
        r#"{"type":"item.updated","item":{"id":"2","type":"agent_message","text":"par"}}"#,
        r#"{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"partial no more"}}"#,
        r#"{"type":"turn.completed"}"#,
    ];
    let summary = Run::of("stream-json", &lines.join("\n")).summary();
    assert_eq!(summary["text"], "partial no more");
    assert_eq!(summary["tools"], 1);
    assert_eq!(summary["events"]["thinking_delta"], 1);
}

#[test]
fn a_result_that_repeats_the_message_does_not_double_it() {
    let said = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hello"}]}}"#;
    let result =
        r#"{"type":"result","subtype":"success","is_error":false,"result":"Hello","session_id":"s9"}"#;
    let run = Run::of("stream-json", &format!("{said}\n{result}\n")).summary();
    assert_eq!(
        (&run["text"], &run["outcome"], &run["native_session"]),
        (&"Hello".into(), &"completed".into(), &"s9".into())
    );
    assert_eq!(text("stream-json", result), "Hello", "a result alone is not lost");
}

#[test]
fn an_error_printed_as_a_result_is_no_answer() {
    let result = r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 500 boom"}"#;
    for dialect in ["stream-json", "json"] {
        let summary = Run::of(dialect, result).summary();
        assert_eq!((&summary["text"], &summary["outcome"]), (&"".into(), &"failed".into()), "{dialect}");
        assert_eq!(summary["failure"]["category"], "server", "{dialect}");
    }
}

#[test]
fn separate_messages_join_with_a_line_end_and_pieces_with_nothing() {
    let roles =
        "{\"role\":\"assistant\",\"content\":\"one\"}\n{\"role\":\"assistant\",\"content\":\"two\"}\n";
    assert_eq!(text("role-lines", roles), "one\ntwo");
    assert_eq!(text("stream-json", roles), "one\ntwo");
    let pieces = "{\"type\":\"content\",\"content\":\"one\"}\n{\"type\":\"content\",\"content\":\"two\"}\n{\"type\":\"turn.completed\"}";
    assert_eq!(text("stream-json", pieces), "onetwo");
}
