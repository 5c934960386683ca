//! GitHub Copilot CLI: the failures that the facts name, and the traps.

use bowline_protocol::kinds::ToolStatus;
use bowline_protocol::{Event, Kind};
use serde_json::{Value, json};

use crate::support::Run;

fn line(type_name: &str, data: &Value) -> String {
    json!({"type": type_name, "data": data, "id": "i", "timestamp": "t", "parentId": "p"}).to_string() + "\n"
}

fn delta(message: &str, text: &str) -> String {
    line("assistant.message_delta", &json!({"messageId": message, "deltaContent": text}))
}

fn result(code: i32) -> String {
    json!({"type": "result", "timestamp": "t", "sessionId": "s1", "exitCode": code, "usage": {"premiumRequests": 0}}).to_string() + "\n"
}

#[test]
fn the_tools_of_an_mcp_server_are_no_unknown_line() {
    // As Copilot 1.0.102 prints it when an MCP server of the request has tools.
    let loaded = json!({"serverName": "bowline", "toolCount": 1});
    let output = line("session.mcp_server_tools_loaded", &loaded) + &delta("m", "Hello.") + &result(0);
    assert_eq!(Run::of("copilot", &output).unrecognized(), Vec::<String>::new());
}

#[test]
fn session_errors_are_failures() {
    let table = [
        (
            "authentication",
            Some(401),
            "Authentication failed with provider at http://x (HTTP 401).",
            "authentication",
            "invalid_credentials",
            None,
        ),
        (
            "rate_limit",
            Some(429),
            "Failed to get response; retried 5 times (total retry wait time: 11.21 seconds) Last error: 429 Rate limit reached. Please try again in 2s.",
            "rate_limit",
            "rate_limited",
            Some(2000),
        ),
        (
            "rate_limit",
            Some(429),
            "Failed to get response; retried 5 times (total retry wait time: 54.03 seconds) Last error: 429 You exceeded your current quota",
            "quota",
            "quota_exhausted",
            None,
        ),
        ("rate_limit", Some(429), "Slow down.", "rate_limit", "rate_limited", Some(1000)),
        ("quota", Some(402), "You have no premium requests left.", "quota", "billing", None),
        (
            "query",
            Some(500),
            "Failed to get response from the AI model; retried 5 times Last error: 500 oops",
            "server",
            "server_error",
            None,
        ),
        (
            "query",
            Some(400),
            "400 This model's maximum context length is 8192 tokens.",
            "validation",
            "context_overflow",
            None,
        ),
        (
            "query",
            None,
            "Could not connect to local model provider at http://x.",
            "network",
            "connection_failed",
            None,
        ),
        (
            "query",
            None,
            "Last error: error reading a body from connection: unexpected EOF",
            "network",
            "connection_lost",
            None,
        ),
        ("authorization", Some(403), "Not for you.", "authentication", "forbidden", None),
    ];
    for (error_type, status, message, category, code, retry_after) in table {
        let error = line(
            "session.error",
            &json!({"errorType": error_type, "message": message, "statusCode": status}),
        );
        // Also when the last line is lost.
        for end in [result(1), String::new()] {
            let summary = Run::of("copilot", &(error.clone() + &end)).exit(1).summary();
            let failure = &summary["failure"];
            assert_eq!(
                (&failure["category"], &failure["code"], &failure["retry_after_ms"]),
                (&json!(category), &json!(code), &json!(retry_after)),
                "{message}"
            );
            assert_eq!((&summary["outcome"], &failure["message"]), (&json!("failed"), &json!(message)));
        }
    }
}

#[test]
fn the_exit_code_of_the_result_is_not_the_last_word() {
    let error = line("session.error", &json!({"errorType": "query", "message": "oops", "statusCode": 500}));
    let said = line("assistant.message", &json!({"messageId": "a", "content": "Hello"}));
    let aborted = line("abort", &json!({"reason": "user"}));
    for (lines, code, outcome, failure) in [
        (vec![&error], 0, "failed", Some("oops")),
        (vec![&said, &error], 0, "failed", Some("oops")),
        (vec![&error, &said], 0, "completed", None),
        (vec![&said], 130, "cancelled", None),
        (vec![], 130, "cancelled", None),
        (vec![&error], 130, "failed", Some("oops")),
        (vec![&error, &aborted], 1, "cancelled", None),
        (vec![&said], 2, "failed", Some("the program reported exit code 2")),
    ] {
        let output: String = lines.into_iter().map(String::as_str).collect::<String>() + &result(code);
        let summary = Run::of("copilot", &output).exit(code).summary();
        assert_eq!(summary["outcome"], outcome, "{output}");
        assert_eq!(summary["failure"]["message"].as_str(), failure, "{output}");
    }
}

#[test]
fn a_failed_call_names_a_spent_quota_that_the_error_does_not() {
    let output = [
        line("model.call_failure", &json!({"statusCode": 429, "retryAttempt": 5, "errorMessage": "{\"message\":\"No.\",\"code\":\"insufficient_quota\"}"})),
        line("session.error", &json!({"errorType": "rate_limit", "message": "Failed.", "statusCode": 429})),
        result(1),
    ]
    .concat();
    assert_eq!(Run::of("copilot", &output).exit(1).summary()["failure"]["category"], "quota");
}

#[test]
fn a_failed_call_is_a_retry_only_if_it_is_retried() {
    let failure = |attempt: u32| {
        line(
            "model.call_failure",
            &json!({"statusCode": 500, "retryAttempt": attempt, "failureKind": "api", "errorMessage": "oops"}),
        )
    };
    let info = line("session.info", &json!({"infoType": "model_retry", "message": "Retrying..."}));
    let retry = line("assistant.turn_retry", &json!({"turnId": "0", "reason": "server_error"}));
    let call = line("model.call_start", &json!({"model": "m"}));
    let output = [
        call.clone(),
        delta("a", "Hel"),
        failure(0),
        retry,
        info.clone(),
        call.clone(),
        failure(1),
        // An older version says only this.
        info,
        call,
        delta("b", "Hello"),
        line("assistant.message", &json!({"messageId": "b", "content": "Hello", "model": "m"})),
        result(0),
    ]
    .concat();
    let run = Run::of("copilot", &output);
    let summary = run.summary();
    assert_eq!((&summary["text"], &summary["outcome"]), (&json!("Hello"), &json!("completed")));
    let attempts: Vec<_> = run
        .events()
        .into_iter()
        .filter_map(|event| if let Kind::Retrying(retrying) = event.kind { Some(retrying) } else { None })
        .map(|retrying| (retrying.attempt, retrying.category.as_str()))
        .collect();
    assert_eq!(attempts, [(Some(1), "server"), (Some(2), "server")]);
}

#[test]
fn nothing_is_said_twice_and_nothing_is_lost() {
    let whole = json!({"messageId": "a", "content": "Hello", "reasoningText": "hm"});
    let reasoning = line("assistant.reasoning", &json!({"reasoningId": "r", "content": "hm"}));
    let pieces = [
        line("assistant.reasoning_delta", &json!({"reasoningId": "r", "deltaContent": "hm"})),
        delta("a", "Hel"),
        delta("a", "lo"),
    ]
    .concat();
    for said in [pieces, String::new()] {
        let output = [said, line("assistant.message", &whole), reasoning.clone(), result(0)].concat();
        let run = Run::of("copilot", &output);
        assert_eq!(run.summary()["all_text"], "Hello");
        let thought: String = run
            .events()
            .iter()
            .filter_map(|event| {
                if let Kind::ThinkingDelta(delta) = &event.kind { Some(delta.text.as_str()) } else { None }
            })
            .collect();
        assert_eq!(thought, "hm");
    }
}

#[test]
fn without_a_result_it_is_no_success() {
    let output = line("assistant.message", &json!({"messageId": "a", "content": "Hello"}));
    assert_eq!(Run::of("copilot", &output).outcome(), "truncated");
    assert_eq!(Run::of("copilot", &output).signal(2).outcome(), "cancelled");
    assert_eq!(
        Run::of("copilot", &(output.clone() + &line("abort", &json!({"reason": "user"})) + &result(1)))
            .outcome(),
        "cancelled"
    );
    assert_eq!(Run::of("copilot", &(output + &result(1))).exit(1).outcome(), "failed");
}

#[test]
fn tools_are_denied_and_change_files() {
    let start = |id: &str| {
        line(
            "tool.execution_start",
            &json!({"toolCallId": id, "toolName": "bash", "arguments": {"command": "x"}}),
        )
    };
    let output = [
        start("a"),
        start("b"),
        start("c"),
        line("tool.execution_complete", &json!({"toolCallId": "b", "success": false, "error": {"message": "no", "code": "denied"}})),
        line("tool.execution_complete", &json!({"toolCallId": "a", "success": true, "result": {"content": "ok"}, "fileEdits": [{"path": "/p/a", "kind": "create"}]})),
        line("tool.execution_complete", &json!({"toolCallId": "c", "success": false, "error": {"message": "bad", "code": "failure"}})),
        json!({"type": "result", "sessionId": "s", "exitCode": 0, "usage": {"codeChanges": {"linesAdded": 2, "linesRemoved": 0, "filesModified": ["/p/a", "/p/b"]}}}).to_string(),
    ]
    .concat();
    let run = Run::of("copilot", &output);
    let status = |event: &Event| {
        if let Kind::ToolFinished(tool) = &event.kind {
            Some((tool.id.to_string(), tool.status))
        } else {
            None
        }
    };
    let ended: Vec<_> = run.events().iter().filter_map(status).collect();
    let expected = [("b", ToolStatus::Denied), ("a", ToolStatus::Completed), ("c", ToolStatus::Failed)];
    assert_eq!(ended, expected.map(|(id, status)| (id.to_owned(), status)));
    let summary = run.summary();
    assert_eq!(
        (&summary["events"]["files_touched"], &summary["events"]["diff_available"]),
        (&json!(2), &json!(1))
    );
}

#[test]
fn sub_agents_speak_under_their_call() {
    let by = |agent: &str, line: String| {
        line.replacen("\"type\"", &format!("\"agentId\":\"{agent}\",\"type\""), 1)
    };
    let output = [
        by("x1", line("subagent.started", &json!({"toolCallId": "t1", "agentName": "explore"}))),
        by("x1", line("assistant.message", &json!({"messageId": "a", "content": "inner"}))),
        line(
            "assistant.message",
            &json!({"messageId": "b", "content": "inner too", "parentToolCallId": "t1"}),
        ),
        line("assistant.message", &json!({"messageId": "c", "content": "outer"})),
        result(0),
    ]
    .concat();
    let run = Run::of("copilot", &output);
    assert_eq!(run.text(), "outer");
    let parent = |event: &Event| {
        if let Kind::TextDelta(delta) = &event.kind {
            Some(delta.parent.as_ref().map(ToString::to_string))
        } else {
            None
        }
    };
    let parents: Vec<_> = run.events().iter().filter_map(parent).collect();
    assert_eq!(parents, [Some("t1".to_owned()), Some("t1".to_owned()), None]);
}

#[test]
fn text_mode_prints_notices_that_are_no_answer() {
    let notice = "● Request failed due to a transient API error. Retrying...\n\n";
    let run = format!("{notice}{notice}Hello.\n\n● a list\n");
    let run = Run::of("copilot", &run).stderr("\n\nChanges    +0 -0\nDuration   0s\nTokens     ↑ 11 (3 cached) • ↓ 7\nResume     copilot --resume=abc\n");
    let summary = run.summary();
    assert_eq!((&summary["text"], &summary["events"]["retrying"]), (&json!("Hello.\n\n● a list"), &json!(2)));
    assert_eq!((&summary["usage"]["input"], &summary["usage"]["source"]), (&json!(8), &json!("reported")));
    assert_eq!((&summary["native_session"], &summary["outcome"]), (&json!("abc"), &json!("completed")));
    let refused = Run::of("copilot", notice)
        .exit(1)
        .stderr("Authentication failed with provider at http://x (HTTP 401).\n")
        .summary();
    assert_eq!((&refused["text"], &refused["failure"]["category"]), (&json!(""), &json!("authentication")));
    let nobody =
        Run::of("copilot", "").exit(1).stderr("Error: No authentication information found.\n").summary();
    assert_eq!(nobody["failure"]["code"], "not_logged_in");
}

#[test]
fn the_schema_knows_more_than_we_have_seen() {
    let output = [
        line("session.start", &json!({"sessionId": "s1", "copilotVersion": "1.2.3", "selectedModel": "m", "context": {"cwd": "/p"}})),
        line("session.mcp_servers_loaded", &json!({"servers": [{"name": "a", "status": "connected"}, {"name": "b", "status": "failed", "error": "x"}]})),
        line("permission.requested", &json!({"requestId": "r", "permissionRequest": {"kind": "shell", "toolCallId": "t", "fullCommandText": "ls"}})),
        line("permission.completed", &json!({"requestId": "r", "result": {"kind": "denied-no-approval-rule-and-could-not-request-from-user"}})),
        line("user.message", &json!({"content": "hi"})),
        line("assistant.usage", &json!({"model": "m", "inputTokens": 11, "outputTokens": 7, "cacheReadTokens": 3, "apiCallId": "c"})),
        line("session.compaction_start", &json!({})),
        line("session.compaction_complete", &json!({"success": true, "preCompactionTokens": 9, "postCompactionTokens": 3})),
        line("session.usage_info", &json!({"tokenLimit": 100, "currentTokens": 5})),
        line("assistant.message", &json!({"messageId": "a", "content": "ok"})),
        line("tool.shell_output", &json!({"toolCallId": "t", "stream": "stdout", "text": "x\n", "sequence": 0})),
        line("agent.interrupted", &json!({"activity": "model_call", "turn": 0, "elapsedMs": 185, "cancelPhase": "mid_stream"})),
        line("something.new", &json!({})),
        result(0),
    ]
    .concat();
    let summary = Run::of("copilot", &output).summary();
    for (kind, count) in [
        ("mcp_server_status", 2),
        ("approval_asked", 1),
        ("approval_decided", 1),
        ("context_compacted", 1),
        ("context_gauge", 1),
        ("session_started", 1),
        ("unrecognized", 1),
    ] {
        assert_eq!(summary["events"][kind], count, "{kind}");
    }
    assert_eq!(summary["usage"]["input"], 8);
}
