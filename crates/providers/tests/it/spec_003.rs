//! The stream events of the CLI layer, by their own names.

use serde_json::json;

use crate::support::Run;

#[test]
fn a_run_in_its_words() {
    let output = r#"{"type":"thread.started","thread_id":"t1"}
{"type":"item.completed","item":{"id":"0","type":"reasoning","text":"hm"}}
{"type":"item.started","item":{"id":"1","type":"command_execution","command":"ls"}}
{"type":"item.completed","item":{"id":"1","type":"command_execution","aggregated_output":"x"}}
{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"done"}}
{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":8}}
"#;
    let lines = Run::of("stream-json", output).lines("stream-events");
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(
        types,
        ["SystemInitEvent", "ThinkingEvent", "ToolUseEvent", "AssistantTextDelta", "ResultEvent"]
    );
    assert_eq!(lines[0]["session_id"], "t1");
    assert_eq!(
        (&lines[2]["tool_name"], &lines[2]["parameters"]),
        (&json!("Bash"), &json!({"command": "ls"}))
    );
    assert_eq!(lines[3]["text"], "done");
    let result = &lines[4];
    assert_eq!(
        (&result["session_id"], &result["result"], &result["is_error"]),
        (&json!("t1"), &json!("done"), &json!(false))
    );
    assert_eq!(result["usage"]["output_tokens"], 8);
}

#[test]
fn a_cancelled_run_has_an_empty_result_and_keeps_its_text() {
    let run = Run::of("text", "half an ans").signal(2);
    let lines = run.lines("stream-events");
    assert_eq!(lines.last().expect("a result")["result"], "");
    assert_eq!(run.text(), "half an ans");
}
