//! What every reader may rely on: turns, messages and usage add up.

use bowline_protocol::kinds::{Outcome, TurnOrigin};
use bowline_protocol::{Exit, Kind};
use bowline_providers::decode::{Cause, End};
use serde_json::{Value, json};

use crate::support::Run;

#[test]
fn a_turn_that_is_never_ended_is_truncated_and_the_next_one_is_its_own() {
    let output = "{\"type\":\"turn.started\"}\n{\"type\":\"content\",\"content\":\"a\"}\n{\"type\":\"turn.started\"}\n{\"type\":\"content\",\"content\":\"b\"}\n{\"type\":\"turn.completed\"}\n";
    let outcomes: Vec<Outcome> = Run::of("stream-json", output)
        .events()
        .iter()
        .filter_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended.outcome) } else { None })
        .collect();
    assert_eq!(outcomes, [Outcome::Truncated, Outcome::Completed]);
    assert_eq!(Run::of("stream-json", output).text(), "b");
}

#[test]
fn text_after_the_end_is_a_turn_that_the_agent_began() {
    let output = "{\"type\":\"content\",\"content\":\"a\"}\n{\"type\":\"turn.completed\"}\n{\"type\":\"content\",\"content\":\"b\"}\n";
    let run = Run::of("stream-json", output);
    let origins: Vec<TurnOrigin> = run
        .events()
        .iter()
        .filter_map(
            |event| if let Kind::TurnStarted(started) = &event.kind { Some(started.origin) } else { None },
        )
        .collect();
    assert_eq!(origins, [TurnOrigin::Prompt, TurnOrigin::Agent]);
    assert_eq!(run.outcome(), "truncated");
}

#[test]
fn cumulative_usage_is_differenced_and_never_summed() {
    let turn = |input: u32| {
        format!(
            "{{\"type\":\"content\",\"content\":\"a\"}}\n{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{input}}}}}\n"
        )
    };
    let run = Run::of("stream-json", &[turn(100), turn(250)].concat()).summary();
    assert_eq!((&run["usage"]["input"], &run["usage"]["total"]), (&250.into(), &500.into()));
}

#[test]
fn exit_code_zero_without_the_end_of_a_turn_is_no_success() {
    let run =
        Run::of("stream-json", "{\"type\":\"turn.started\"}\n{\"type\":\"content\",\"content\":\"a\"}\n");
    assert_eq!((run.outcome().as_str(), run.text().as_str()), ("truncated", "a"));
    assert_eq!(Run::of("stream-json", "").outcome(), "truncated");
    for dialect in ["text", "json", "role-lines", "opencode", "grok-cli"] {
        let summary = Run::of(dialect, "").summary();
        let told = (summary["outcome"].as_str(), summary["failure"]["code"].as_str());
        assert_eq!(told, (Some("truncated"), Some("empty")), "{dialect}: nothing is no answer");
    }
}

#[test]
fn a_failed_exit_after_a_completed_turn_leaves_the_turn_alone() {
    let run =
        Run::of("stream-json", "{\"type\":\"content\",\"content\":\"a\"}\n{\"type\":\"turn.completed\"}\n")
            .exit(1);
    assert_eq!(run.outcome(), "completed");
}

#[test]
fn tools_that_never_end_are_named() {
    let output = "{\"type\":\"item.started\",\"item\":{\"id\":\"i1\",\"type\":\"command_execution\",\"command\":\"sleep 9\"}}\n{\"type\":\"turn.completed\"}\n";
    let running: Vec<String> = Run::of("stream-json", output)
        .events()
        .iter()
        .filter_map(|event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended) } else { None })
        .flat_map(|ended| ended.running_tools.iter().map(ToString::to_string).collect::<Vec<_>>())
        .collect();
    assert_eq!(running, ["i1"]);
}

#[test]
fn long_text_becomes_several_events_and_stays_whole() {
    let long = "é".repeat(100_000);
    let run = Run::of("text", &long);
    assert_eq!(run.text(), long);
    let kinds = run.kinds();
    assert_eq!(kinds.iter().filter(|kind| *kind == "text_delta").count(), 7);
}

#[test]
fn a_retry_that_came_to_nothing_explains_the_end_in_every_dialect() {
    let retry = |reason: &str| {
        format!("{{\"type\":\"auto_retry_start\",\"attempt\":1,\"errorMessage\":\"{reason}\"}}\n")
    };
    let answer =
        "{\"type\":\"message_update\",\"assistantMessageEvent\":{\"type\":\"text_delta\",\"delta\":\"a\"}}\n";
    let verdict = |stdout: &str, exit: Exit, cause: Cause| {
        let run = Run { end: End { exit: Some(exit), cause }, ..Run::of("pi", stdout) };
        let failure = &run.summary()["failure"];
        format!("{}/{}", failure["category"].as_str().unwrap_or(""), failure["code"].as_str().unwrap_or(""))
    };
    let killed = Exit::Signal(9);
    let start = "{\"type\":\"agent_start\"}\n";
    let waiting = start.to_owned() + &retry("500: no");
    assert_eq!(verdict(&waiting, killed, Cause::TimedOut), "server/gave_up_waiting");
    assert_eq!(verdict(&waiting, killed, Cause::Exited), "server/gave_up_waiting");
    assert_eq!(verdict(&waiting, Exit::Code(1), Cause::Exited), "unknown/unknown", "it gave up by itself");
    assert_eq!(
        verdict(&(waiting.clone() + answer), killed, Cause::TimedOut),
        "timeout/timed_out",
        "overcome"
    );
    assert_eq!(
        verdict(&(waiting + &retry("401: no")), killed, Cause::TimedOut),
        "authentication/gave_up_waiting"
    );
    let vague = start.to_owned() + &retry("hm");
    assert_eq!(verdict(&vague, killed, Cause::TimedOut), "unknown/gave_up_waiting");
    assert_eq!(verdict(&vague, killed, Cause::Exited), "timeout/killed", "nobody knows what it retried");
}

#[test]
fn what_was_said_on_the_way_to_tools_is_no_answer_where_the_wire_tells() {
    let lines = |lines: &[Value]| lines.iter().map(|line| line.to_string() + "\n").collect::<String>();
    let pi = |text: &str, stop: &str| json!({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": stop}});
    let begin = json!({"type": "message_start", "message": {"role": "assistant", "content": []}});
    let settled = [json!({"type": "agent_end", "willRetry": false}), json!({"type": "agent_settled"})];
    let opencode = |text: &str, stop: &str| {
        let part = |kind: &str, more: Value| {
            let mut part = json!({"messageID": text, "id": format!("{text}{kind}")});
            part.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            json!({"type": kind, "sessionID": "s", "part": part})
        };
        [
            part("step_start", json!({})),
            part("text", json!({"text": text})),
            part("step_finish", json!({"reason": stop})),
        ]
    };
    let copilot = |id: &str, text: &str, tools: Value| json!({"type": "assistant.message", "data": {"messageId": id, "content": text, "toolRequests": tools}});
    let result = json!({"type": "result", "sessionId": "s", "exitCode": 0});
    let call = json!([{"id": "t", "function": {"name": "bash", "arguments": "{}"}}]);
    let grok = |text: &str, calls: &Value| json!({"role": "assistant", "content": text, "tool_calls": calls});
    let gemini = |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
    let tool = json!({"type": "tool_use", "tool_name": "x", "tool_id": "t", "parameters": {}});
    let success = json!({"type": "result", "status": "success"});
    let start = json!({"type": "agent_start"});
    let first = [
        (
            "pi",
            vec![start.clone(), begin.clone(), pi("I look.", "toolUse")],
            vec![begin, pi("Done.", "stop")],
            settled.to_vec(),
            "Done.",
        ),
        (
            "opencode",
            opencode("I look.", "tool-calls").to_vec(),
            opencode("Done.", "stop").to_vec(),
            vec![],
            "Done.",
        ),
        (
            "copilot",
            vec![copilot("a", "I look.", json!([{"toolCallId": "t"}]))],
            vec![copilot("b", "Done.", json!([]))],
            vec![result],
            "Done.",
        ),
        ("grok-cli", vec![grok("I look.", &call)], vec![grok("Done.", &json!([]))], vec![], "Done."),
        ("gemini", vec![gemini("I look."), tool], vec![gemini("Done.")], vec![success], "I look.\nDone."),
    ];
    for (dialect, before, after, end, expect) in first {
        let all = Run::of(dialect, &lines(&[&before[..], &after, &end].concat())).summary();
        assert_eq!((&all["text"], &all["outcome"]), (&json!(expect), &json!("completed")), "{dialect}");
        assert_eq!(
            (&all["all_text"], &all["events"]["message_finished"]),
            (&json!("I look.\nDone."), &json!(2)),
            "{dialect}"
        );
        // A program may stop after its tools: then this is what it has to say.
        let stopped = Run::of(dialect, &lines(&[&before[..], &end].concat())).summary();
        assert_eq!(
            (&stopped["text"], &stopped["outcome"]),
            (&json!("I look."), &json!("completed")),
            "{dialect}"
        );
    }
}
