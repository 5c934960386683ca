//! Tools at their gates, under policies.

use serde_json::json;

use super::asks;
use super::scene::Scene;
use crate::conversation::{Conversation, ToolGating};
use crate::dialect::{ApprovalAnswer, GateAnswer, RequestedAct, Sent};

use super::ClaudeClient;

#[test]
fn a_tool_waits_at_its_gate_until_the_policies_have_judged_it() {
    let gated = Conversation { gated: ToolGating::On, ..Conversation::default() };
    let mut scene = Scene::ready(&gated);
    let hooks = &scene.sent[0]["request"]["hooks"]["PreToolUse"][0];
    assert_eq!(hooks, &json!({ "matcher": null, "hookCallbackIds": ["policy"] }));
    assert!(ClaudeClient::first_message(&gated).contains("PreToolUse"), "the preview shows it");
    scene.prompt("Go.");
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "t1" });
    let callback = json!({ "subtype": "hook_callback", "callback_id": "policy", "input": input });
    let answers = [
        (GateAnswer::Pass, json!({})),
        (
            GateAnswer::Ask { reason: "why".to_owned() },
            json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": "why" } }),
        ),
    ];
    for (answer, expected) in answers {
        asks(&mut scene, &callback);
        let gate = scene.gates.pop().expect("it is announced");
        assert_eq!(
            gate.acts,
            [RequestedAct::Tool { name: "Bash".to_owned(), input: json!({ "command": "ls" }) }]
        );
        assert!(scene.requests.is_empty(), "a gate is no request");
        let sent = scene.decoder.pass_gate(&gate.asked.id, &answer, &scene.now, &mut scene.drafts);
        scene.listen();
        assert_eq!(sent, Sent::Done);
        assert_eq!(scene.sent.last().unwrap()["response"]["response"], expected);
        let again = scene.decoder.pass_gate(&gate.asked.id, &answer, &scene.now, &mut scene.drafts);
        assert!(!again.is_sent(), "it is answered once");
    }
    asks(&mut scene, &callback);
    let gate = scene.gates.pop().unwrap();
    let no = ApprovalAnswer::Deny { message: Some("policy".to_owned()) };
    let sent = scene.decoder.decide(&gate.asked.id, &no, &scene.now, &mut scene.drafts);
    scene.listen();
    assert_eq!(sent, Sent::Done);
    let output = &scene.sent.last().unwrap()["response"]["response"]["hookSpecificOutput"];
    assert_eq!(
        (&output["permissionDecision"], &output["permissionDecisionReason"]),
        (&json!("deny"), &json!("policy"))
    );
}

#[test]
fn a_gate_is_never_answered_with_an_error_and_an_interrupt_withdraws_it() {
    let mut scene = Scene::ready(&Conversation { gated: ToolGating::On, ..Conversation::default() });
    scene.prompt("Go.");
    let callback =
        json!({ "subtype": "hook_callback", "callback_id": "policy", "input": { "tool_name": "Bash" } });
    asks(&mut scene, &callback);
    let gate = scene.gates.pop().unwrap();
    scene.program(r#"{"type":"control_cancel_request","request_id":"q1"}"#);
    let sent = scene.decoder.pass_gate(&gate.asked.id, &GateAnswer::Pass, &scene.now, &mut scene.drafts);
    assert!(!sent.is_sent());
    // 2.1.325 takes an error for "no objection" and runs the tool.
    for _ in 0..300 {
        asks(&mut scene, &callback);
    }
    let last = &scene.sent.last().unwrap()["response"];
    assert_eq!(last["subtype"], "success");
    assert_eq!(last["response"]["hookSpecificOutput"]["permissionDecision"], "deny");
}
