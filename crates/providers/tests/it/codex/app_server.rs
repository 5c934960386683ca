//! The app-server: requests, answers and notifications in both directions.

use super::*;

/// One step on the wire of `codex app-server`.
enum Step {
    /// The client writes.
    To(Value),
    /// The server writes.
    From(Value),
}
use Step::{From, To};

fn wire(steps: &[Step]) -> Vec<Event> {
    let entry = dialects::by_name("codex-app-server").expect("a dialect");
    let now = Moment::utc("2026-11-15T08:00:00Z".parse().expect("a time"));
    let mut decoder = Decoder::new(entry);
    let mut drafts = Vec::new();
    for step in steps {
        match step {
            From(line) => decoder.stdout(format!("{line}\n").as_bytes(), &now, &mut drafts),
            To(line) => decoder.sent(&line.to_string(), 0, &now, &mut drafts),
        }
    }
    decoder.finish(&End { exit: Some(Exit::Code(0)), cause: Cause::Exited }, &now, &mut drafts);
    let mut stamp = Stamp::new(SessionId::from("s"));
    drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
}

fn note(method: &str, params: impl serde::Serialize) -> Step {
    let params = serde_json::to_value(params).expect("JSON");
    From(json!({"method":method,"params":params}))
}

/// A session in its first turn.
fn opened() -> Vec<Step> {
    vec![
        To(json!({"id":1,"method":"thread/start","params":{}})),
        From(
            json!({"id":1,"result":{"thread":{"id":"t1","cliVersion":"0.166.0"},"model":"gpt-5.5","cwd":"/w","approvalPolicy":"on-request"}}),
        ),
        To(json!({"id":2,"method":"turn/start","params":{}})),
        note("turn/started", json!({"threadId":"t1","turn":{"id":"u1"}})),
    ]
}

fn ended(status: &str, error: &Value) -> Step {
    note(
        "turn/completed",
        json!({"threadId":"t1","turn":{"id":"u1","status":status,"error":error,"items":[]}}),
    )
}

fn delta(item: &str, text: &str) -> Step {
    note("item/agentMessage/delta", json!({"threadId":"t1","itemId":item,"delta":text}))
}

fn message(item: &str, text: &str, phase: &Value) -> Step {
    note(
        "item/completed",
        json!({"threadId":"t1","item":{"type":"agentMessage","id":item,"text":text,"phase":phase}}),
    )
}

fn text(events: &[Event]) -> String {
    let setup = bowline_providers::views::Setup { provider: None, ours: false };
    let mut view = (bowline_providers::views::by_name("summary").expect("a view").make)(&setup);
    let mut out = String::new();
    events.iter().for_each(|event| view.event(event, &mut out));
    view.finish(&mut out);
    let summary: Value = serde_json::from_str(&out).expect("one object");
    summary["text"].as_str().expect("a text").to_owned()
}

fn outcome(events: &[Event]) -> (Outcome, String) {
    let ended = events
        .iter()
        .rev()
        .find_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended) } else { None })
        .expect("an end");
    let failure = ended
        .failure
        .as_ref()
        .map_or(String::new(), |failure| format!("{}/{}", failure.category, failure.code));
    (ended.outcome, failure)
}

#[test]
fn commentary_is_not_the_answer() {
    let mut steps = opened();
    steps.extend([
        delta("m", "Loo"),
        delta("m", "king."),
        message("m", "Looking.", &json!("commentary")),
        message("n", "Found.", &json!("final_answer")),
        ended("completed", &Value::Null),
    ]);
    let events = wire(&steps);
    assert_eq!((text(&events).as_str(), outcome(&events).0), ("Found.", Outcome::Completed));
    let phases: Vec<Phase> = events
        .iter()
        .filter_map(|event| {
            if let Kind::MessageFinished(finished) = &event.kind { Some(finished.phase) } else { None }
        })
        .collect();
    assert_eq!(phases, [Phase::Commentary, Phase::Final]);
}

#[test]
fn an_answer_that_is_begun_anew_is_said_once() {
    let retry = || {
        note(
            "error",
            json!({"threadId":"t1","willRetry":true,"error":{"message":"Reconnecting... 1/5","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":null}},"additionalDetails":"stream disconnected"}}),
        )
    };
    // In the middle of a message, and after a whole one.
    for first in [vec![delta("m", "Hel")], vec![delta("m", "Hello"), message("m", "Hello", &Value::Null)]] {
        let mut steps = opened();
        steps.extend(first);
        steps.extend([
            retry(),
            delta("m", "Hello"),
            message("m", "Hello", &Value::Null),
            ended("completed", &Value::Null),
        ]);
        let events = wire(&steps);
        assert_eq!(text(&events), "Hello");
        let retrying = events
            .iter()
            .find_map(|event| if let Kind::Retrying(retrying) = &event.kind { Some(retrying) } else { None })
            .expect("a retry");
        assert_eq!(
            (retrying.attempt, retrying.max_attempts, retrying.category.as_str()),
            (Some(1), Some(5), "network")
        );
    }
    // Told only by the end of the turn.
    let mut steps = opened();
    steps.push(note("turn/completed", json!({"threadId":"t1","turn":{"id":"u1","status":"completed","items":[{"type":"agentMessage","id":"m","text":"Late."}]}})));
    assert_eq!(text(&wire(&steps)), "Late.");
}

#[test]
fn typed_failures() {
    let rows = [
        (
            json!({"message":"{\"error\":{\"message\":\"Bad.\",\"type\":\"invalid_request_error\"}}","codexErrorInfo":"other"}),
            "validation/invalid_request",
        ),
        (
            json!({"message":"No.","codexErrorInfo":{"httpConnectionFailed":{"httpStatusCode":401}}}),
            "authentication/invalid_credentials",
        ),
        (json!({"message":"No.","codexErrorInfo":"modelNotFound"}), "not_found/model_not_found"),
        (
            json!({"message":"No.","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}}}),
            "rate_limit/rate_limited",
        ),
        (
            json!({"message":"Quota exceeded. Check your plan and billing details.","codexErrorInfo":"usageLimitExceeded"}),
            "quota/quota_exhausted",
        ),
        (
            json!({"message":"You’ve hit your usage limit.","codexErrorInfo":"usageLimitExceeded"}),
            "quota/usage_limit",
        ),
        (json!({"message":"No.","codexErrorInfo":"internalServerError"}), "server/server_error"),
        (json!({"message":"No.","codexErrorInfo":"serverOverloaded"}), "server/overloaded"),
        (json!({"message":"No.","codexErrorInfo":"contextWindowExceeded"}), "validation/context_overflow"),
        (
            json!({"message":"try again in 0.5s","codexErrorInfo":"rateLimitExceeded"}),
            "rate_limit/rate_limited",
        ),
        (
            json!({"message":"stream disconnected before completion: x","codexErrorInfo":"other"}),
            "network/connection_lost",
        ),
        (json!({"message":"Hm.","codexErrorInfo":{"somethingNew":{}}}), "unknown/unknown"),
        (json!({"message":"Hm.","codexErrorInfo":[1]}), "unknown/unknown"),
    ];
    for (error, expected) in rows {
        let mut steps = opened();
        steps.push(note("error", json!({"threadId":"t1","willRetry":false,"error":error})));
        steps.push(ended("failed", &error));
        assert_eq!(outcome(&wire(&steps)), (Outcome::Failed, expected.to_owned()), "{error}");
    }
    assert_eq!(
        outcome(&wire(&{
            let mut steps = opened();
            steps.push(ended("interrupted", &Value::Null));
            steps
        }))
        .0,
        Outcome::Cancelled
    );
    // The request itself is refused.
    let refused = [
        To(json!({"id":1,"method":"thread/resume","params":{"threadId":"x"}})),
        From(json!({"id":1,"error":{"code":-32600,"message":"no rollout found for thread id x"}})),
    ];
    assert_eq!(outcome(&wire(&refused)).1, "not_found/session_not_found");
    let mut large = opened();
    large.truncate(3);
    large.push(From(json!({"id":2,"error":{"code":-32602,"message":"Too much.","data":{"input_error_code":"input_too_large"}}})));
    assert_eq!(outcome(&wire(&large)).1, "validation/request_too_large");
}

#[test]
fn every_approval_is_decided_once() {
    let ask = |id: u32, item: &str| {
        From(
            json!({"id":id,"method":"item/commandExecution/requestApproval","params":{"threadId":"t1","itemId":item,"command":"ls","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{}},"cancel"]}}),
        )
    };
    let mut steps = opened();
    steps.extend([
        note("item/started", json!({"threadId":"t1","item":{"type":"commandExecution","id":"c","command":"ls","status":"inProgress"}})),
        ask(0, "c"),
        // The client's own request has the same id as the server's.
        To(json!({"id":0,"method":"thread/list","params":{}})),
        To(json!({"id":0,"result":{"decision":"accept"}})),
        note("serverRequest/resolved", json!({"threadId":"t1","requestId":0})),
        From(json!({"id":0,"result":{"data":[]}})),
        ask(1, "d"),
        To(json!({"id":1,"result":{"decision":{"acceptWithExecpolicyAmendment":{}}}})),
        ask(2, "e"),
        note("serverRequest/resolved", json!({"threadId":"t1","requestId":2})),
        ask(3, "f"),
        To(json!({"id":3,"error":{"code":-1,"message":"no"}})),
        ask(4, "g"),
        ended("interrupted", &Value::Null),
        ask(5, "h"),
    ]);
    let events = wire(&steps);
    let decided: Vec<(&str, Decision, Decider)> = events
        .iter()
        .filter_map(|event| {
            if let Kind::ApprovalDecided(decided) = &event.kind {
                Some((decided.id.as_str(), decided.decision, decided.by))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        decided,
        [
            ("0", Decision::Allow, Decider::Host),
            ("1", Decision::AllowAlways, Decider::Host),
            ("2", Decision::Deny, Decider::Withdrawn),
            ("3", Decision::Deny, Decider::Host),
            ("4", Decision::Deny, Decider::Withdrawn),
            ("5", Decision::Deny, Decider::ClientLost),
        ]
    );
    let tool = events.iter().find_map(|event| {
        if let Kind::ApprovalAsked(asked) = &event.kind { asked.tool.clone() } else { None }
    });
    assert_eq!(tool.expect("a tool").as_str(), "c");
}

#[test]
fn without_the_clients_side_a_decision_shows_in_the_item() {
    let steps = [
        note("turn/started", json!({"threadId":"t1","turn":{"id":"u1"}})),
        From(
            json!({"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"t1","itemId":"c"}}),
        ),
        note("serverRequest/resolved", json!({"threadId":"t1","requestId":0})),
        note(
            "item/completed",
            json!({"threadId":"t1","item":{"type":"fileChange","id":"c","changes":[],"status":"declined"}}),
        ),
        ended("completed", &Value::Null),
    ];
    let events = wire(&steps);
    let decided: Vec<Decision> = events
        .iter()
        .filter_map(|event| {
            if let Kind::ApprovalDecided(decided) = &event.kind { Some(decided.decision) } else { None }
        })
        .collect();
    assert_eq!(decided, [Decision::Deny]);
}

#[test]
fn questions_tools_of_the_host_limits_and_states() {
    let mut steps = opened();
    steps.extend([
        From(json!({"id":0,"method":"item/tool/requestUserInput","params":{"threadId":"t1","itemId":"q","questions":[{"id":"color","question":"Color?","options":[{"label":"Red"},{"label":"Blue"}]}]}})),
        To(json!({"id":0,"result":{"answers":{"color":{"answers":["Red"]}}}})),
        From(json!({"id":1,"method":"item/tool/call","params":{"threadId":"t1","callId":"h","tool":"lookup","arguments":{"a":1}}})),
        To(json!({"id":1,"result":{"contentItems":[{"type":"inputText","text":"found"}],"success":true}})),
        note("item/completed", json!({"threadId":"t1","item":{"type":"dynamicToolCall","id":"h","tool":"lookup","arguments":{"a":1},"status":"completed","contentItems":[{"type":"inputText","text":"found"}]}})),
        note("account/rateLimits/updated", json!({"rateLimits":{"limitId":"codex","primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":1794729229},"secondary":null}})),
        note("thread/status/changed", json!({"threadId":"t1","status":{"type":"active","activeFlags":["waitingOnUserInput"]}})),
        note("turn/plan/updated", json!({"threadId":"t1","plan":[{"step":"a","status":"inProgress"}]})),
        note("item/completed", json!({"threadId":"t1","item":{"type":"contextCompaction","id":"k"}})),
        note("model/rerouted", json!({"threadId":"t1","fromModel":"a","toModel":"b","reason":"r"})),
        note("item/newThing/happened", json!({})),
        ended("completed", &Value::Null),
    ]);
    let events = wire(&steps);
    let owner = events
        .iter()
        .find_map(|event| if let Kind::ToolStarted(tool) = &event.kind { Some(tool.owner) } else { None });
    assert_eq!(owner, Some(ToolOwner::Host));
    let answers = events.iter().find_map(|event| {
        if let Kind::QuestionAnswered(answered) = &event.kind { Some(answered.answers.clone()) } else { None }
    });
    assert_eq!(answers, Some(vec!["Red".to_owned()]));
    for kind in [
        "question_asked",
        "tool_finished",
        "limit_reported",
        "session_state_changed",
        "plan_updated",
        "context_compacted",
        "model_changed",
        "unrecognized",
    ] {
        assert_eq!(events.iter().filter(|event| event.kind.type_name() == kind).count(), 1, "{kind}");
    }
}

#[test]
fn a_sub_agents_thread_is_not_the_session() {
    let mut steps = opened();
    steps.extend([
        note("item/started", json!({"threadId":"t1","item":{"type":"collabAgentToolCall","id":"c","tool":"spawnAgent","status":"inProgress","senderThreadId":"t1","receiverThreadIds":["child"]}})),
        note("thread/started", json!({"thread":{"id":"child","parentThreadId":"t1"}})),
        note("turn/started", json!({"threadId":"child","turn":{"id":"v1"}})),
        note("item/agentMessage/delta", json!({"threadId":"child","itemId":"m","delta":"Inside."})),
        note("item/completed", json!({"threadId":"child","item":{"type":"agentMessage","id":"m","text":"Inside.","phase":null}})),
        note("thread/tokenUsage/updated", json!({"threadId":"child","tokenUsage":{"total":{"inputTokens":900,"outputTokens":9},"last":{"inputTokens":100,"outputTokens":1}}})),
        note("turn/completed", json!({"threadId":"child","turn":{"id":"v1","status":"failed","error":{"message":"x"}}})),
        note("item/completed", json!({"threadId":"t1","item":{"type":"collabAgentToolCall","id":"c","tool":"spawnAgent","status":"completed","receiverThreadIds":["child"]}})),
        message("m", "Outside.", &Value::Null),
        note("thread/tokenUsage/updated", json!({"threadId":"t1","tokenUsage":{"total":{"inputTokens":50,"outputTokens":5},"last":{"inputTokens":50,"outputTokens":5}}})),
        ended("completed", &Value::Null),
    ]);
    let events = wire(&steps);
    assert_eq!((text(&events).as_str(), outcome(&events).0), ("Outside.", Outcome::Completed));
    let parents: Vec<Option<&str>> = events
        .iter()
        .filter_map(|event| {
            if let Kind::TextDelta(delta) = &event.kind {
                Some(delta.parent.as_ref().map(|id| id.as_str()))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(parents, [Some("c"), None]);
    let turn = events
        .iter()
        .find_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended) } else { None })
        .expect("an end");
    assert_eq!(turn.usage.map(|usage| (usage.input, usage.output)), Some((150, 6)));
    assert_eq!(events.iter().filter(|event| matches!(event.kind, Kind::TurnStarted(_))).count(), 1);
}

#[test]
fn an_answer_to_a_request_that_we_did_not_see_may_be_the_end() {
    let refused =
        || From(json!({"id":2,"error":{"code":-32600,"message":"no rollout found for thread id t9"}}));
    let hello = || From(json!({"id":1,"result":{"userAgent":"codex"}}));
    let verdict = |steps: &[Step]| {
        let ended = wire(steps)
            .into_iter()
            .find_map(|event| if let Kind::TurnEnded(ended) = event.kind { Some(ended) } else { None });
        let ended = ended.expect("an end");
        ended.failure.map_or_else(
            || "completed".to_owned(),
            |failure| format!("{}/{}", failure.category.as_str(), failure.code.as_str()),
        )
    };
    assert_eq!(
        verdict(&[hello(), refused()]),
        "not_found/session_not_found",
        "only standard output was seen"
    );
    assert_eq!(verdict(&[hello()]), "completed");
    let seen = To(json!({"id":2,"method":"model/list","params":{}}));
    assert_eq!(verdict(&[hello(), seen, refused()]), "completed", "it only looked around");
    let mut turn = vec![hello(), refused()];
    turn.extend(opened());
    turn.push(ended("completed", &Value::Null));
    assert_eq!(verdict(&turn), "completed", "it went on");
}
