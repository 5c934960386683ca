//! Tools, files, terminals and questions of ACP agents.

use super::*;

#[test]
fn tools_tell_their_arguments_and_output_as_they_grow() {
    let update = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
        let fields = fields.as_object().expect("fields").clone();
        update.as_object_mut().expect("an object").extend(fields);
        update
    };
    let output = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let talk = Talk::prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "name": "sh", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": {}}))
        .update(update(json!({"rawInput": {"z": 1}})))
        .update(update(json!({"rawInput": {"z": 1, "a": 12345678901234567890123u128.to_string()}})))
        // Again from the beginning: no news.
        .update(update(json!({"rawInput": {"z": 1}})))
        .update(update(json!({"content": output("about to run")})))
        .update(update(json!({"status": "in_progress"})))
        .update(update(json!({"content": output("one\n")})))
        .update(update(json!({"content": output("one\ntwo\n")})))
        .update(update(json!({"status": "completed", "rawOutput": {"exit_code": 7}})))
        .stops(3, "end_turn");
    let news: Vec<Value> = talk.told("tool_updated");
    let inputs: Vec<&Value> =
        news.iter().map(|told| &told["input"]).filter(|input| !input.is_null()).collect();
    assert_eq!(inputs.len(), 2);
    let printed: Vec<&str> = news.iter().filter_map(|told| told["output_delta"]["text"].as_str()).collect();
    assert_eq!(printed, ["one\n", "two\n"]);
    let finished = &talk.told("tool_finished")[0];
    assert_eq!((&finished["output"]["text"], &finished["exit_code"]), (&json!("one\ntwo\n"), &json!(7)));
}

#[test]
fn arguments_stay_as_they_were_written() {
    let line = r#"{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"sh","rawInput":{"z":123456789012345678901234567890,"a":1}}}}"#;
    let events = Talk::prompted().line(Side::Agent, line).events();
    let input = events
        .iter()
        .find_map(|event| if let Kind::ToolStarted(tool) = &event.kind { tool.input.clone() } else { None });
    assert_eq!(input.expect("arguments").as_str(), r#"{"z":123456789012345678901234567890,"a":1}"#);
}

#[test]
fn files_and_terminals_of_the_client() {
    let talk = Talk::prompted()
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "w", "title": "write", "kind": "edit", "status": "in_progress", "locations": [{"path": "/w/a"}]}))
        .agent(json!({"id": 0, "method": "fs/read_text_file", "params": {"path": "/w/b"}}))
        .client(json!({"id": 0, "result": {"content": "x"}}))
        .agent(json!({"id": 1, "method": "fs/read_text_file", "params": {"path": "/w/none"}}))
        .client(json!({"id": 1, "error": {"code": -32002, "message": "Resource not found"}}))
        .agent(json!({"id": 2, "method": "fs/write_text_file", "params": {"path": "/w/a", "content": "x"}}))
        .client(json!({"id": 2, "result": null}))
        .update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "w", "status": "completed"}))
        .update(json!({"sessionUpdate": "tool_call", "toolCallId": "x", "title": "run", "kind": "execute", "status": "in_progress", "content": [{"type": "terminal", "terminalId": "t1"}]}))
        .agent(json!({"id": 3, "method": "terminal/create", "params": {"command": "ls"}}))
        .client(json!({"id": 3, "result": {"terminalId": "t1"}}))
        .agent(json!({"id": 4, "method": "terminal/wait_for_exit", "params": {"terminalId": "t1"}}))
        .client(json!({"id": 4, "result": {"exitCode": 2, "signal": null}}))
        .agent(json!({"id": 5, "method": "terminal/output", "params": {"terminalId": "t1"}}))
        .client(json!({"id": 5, "result": {"output": "a\nb\n", "truncated": false}}))
        .agent(json!({"id": 6, "method": "terminal/release", "params": {"terminalId": "t1"}}))
        .client(json!({"id": 6, "result": {}}))
        .update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed"}))
        .stops(3, "end_turn");
    let touched: Vec<String> =
        talk.told("files_touched").iter().map(|told| told["files"][0].to_string()).collect();
    assert_eq!(touched, [r#"{"operation":"read","path":"/w/b"}"#, r#"{"operation":"write","path":"/w/a"}"#]);
    let finished = &talk.told("tool_finished")[1];
    assert_eq!((&finished["output"]["text"], &finished["exit_code"]), (&json!("a\nb\n"), &json!(2)));
    assert_eq!(talk.summary()["unrecognized"], 0);
}

#[test]
fn questions() {
    let ask = json!({"id": 9, "method": "elicitation/create", "params": {"sessionId": SESSION, "mode": "form", "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {"which": {"type": "string", "enum": ["a", "b"]}}}}});
    let answer = json!({"id": 9, "result": {"action": "accept", "content": {"which": "b"}}});
    let talk = Talk::prompted().agent(ask.clone()).client(answer).stops(3, "end_turn");
    assert_eq!(
        talk.told("question_asked"),
        [json!({"type": "question_asked", "id": "9", "text": "Which?", "choices": ["a", "b"]})]
    );
    assert_eq!(talk.told("question_answered")[0]["answers"], json!(["b"]));
    let talk = Talk::prompted().agent(ask).stops(3, "end_turn");
    assert_eq!(talk.told("question_answered")[0]["answers"], json!([]));
}
