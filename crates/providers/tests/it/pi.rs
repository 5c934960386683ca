//! pi: the failures that the facts name, and the traps.

use bowline_protocol::kinds::{Outcome, TurnOrigin};
use bowline_protocol::{Event, Exit, Kind, SessionId};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialects;
use bowline_providers::moment::Moment;
use serde_json::{Value, json};

use crate::support::Run;

/// The lines of a run in which the assistant said `text` and stopped for `reason`.
fn message(text: &str, reason: &str, error: Option<&str>) -> String {
    let start =
        json!({"type": "message_start", "message": {"role": "assistant", "content": [], "model": "m"}});
    let content = if text.is_empty() { json!([]) } else { json!([{"type": "text", "text": text}]) };
    let end = json!({"type": "message_end", "message": {"role": "assistant", "content": content, "model": "m",
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "stopReason": reason, "errorMessage": error}});
    let delta = json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": text}});
    let said = if text.is_empty() { String::new() } else { format!("{delta}\n") };
    format!("{start}\n{said}{end}\n")
}

const START: &str = "{\"type\":\"agent_start\"}\n";
const END: &str =
    "{\"type\":\"agent_end\",\"messages\":[],\"willRetry\":false}\n{\"type\":\"agent_settled\"}\n";
const OLD_END: &str = "{\"type\":\"agent_end\",\"messages\":[]}\n";

fn failure(summary: &Value) -> (String, String, Value) {
    let failure = &summary["failure"];
    let word = |key: &str| failure[key].as_str().unwrap_or_default().to_owned();
    (word("category"), word("code"), failure["retry_after_ms"].clone())
}

#[test]
fn every_error_is_a_failure_although_the_exit_code_is_0() {
    let table = [
        (
            "401: {\"message\":\"Incorrect API key provided\",\"code\":\"invalid_api_key\"}",
            "authentication",
            "invalid_credentials",
            None,
        ),
        ("401 Incorrect API key provided: sk-fake.", "authentication", "invalid_credentials", None),
        ("403: {\"message\":\"no\"}", "authentication", "forbidden", None),
        (
            "429: {\"message\":\"Rate limit reached. Please try again in 2s.\",\"code\":\"rate_limit_exceeded\"}",
            "rate_limit",
            "rate_limited",
            Some(2000),
        ),
        (
            "429: {\"message\":\"You exceeded your current quota\",\"code\":\"insufficient_quota\"}",
            "quota",
            "quota_exhausted",
            None,
        ),
        ("429: {\"message\":\"No.\",\"type\":\"insufficient_quota\"}", "quota", "quota_exhausted", None),
        (
            "400: {\"message\":\"This model's maximum context length is 8192 tokens\",\"code\":\"context_length_exceeded\"}",
            "validation",
            "context_overflow",
            None,
        ),
        ("400: {\"message\":\"bad\"}", "validation", "invalid_request", None),
        (
            "404: {\"message\":\"The model `x` does not exist\",\"code\":\"model_not_found\"}",
            "not_found",
            "model_not_found",
            None,
        ),
        (
            "500: {\"message\":\"The server had an error while processing your request.\"}",
            "server",
            "server_error",
            None,
        ),
        (
            "529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            "server",
            "overloaded",
            None,
        ),
        ("Connection error.", "network", "connection_failed", None),
        ("terminated", "network", "connection_lost", None),
    ];
    for (error, category, code, retry_after) in table {
        // The same for both ends, and for an end that is missing.
        for end in [END, OLD_END, ""] {
            let output = format!("{START}{}{end}", message("", "error", Some(error)));
            let summary = Run::of("pi", &output).summary();
            assert_eq!(summary["outcome"], "failed", "{error}");
            assert_eq!(failure(&summary), (category.into(), code.into(), json!(retry_after)), "{error}");
            assert_eq!(summary["failure"]["message"], error);
            assert_eq!((&summary["text"], &summary["usage"]), (&json!(""), &Value::Null));
        }
    }
}

#[test]
fn what_stderr_and_the_exit_code_say() {
    let session = "{\"type\":\"session\",\"id\":\"s\",\"cwd\":\"/p\"}\n";
    let summary =
        Run::of("pi", session).exit(1).stderr("No API key found for the selected model.\n").summary();
    assert_eq!(failure(&summary), ("authentication".into(), "not_logged_in".into(), Value::Null));
    let summary = Run::of("pi", "").exit(1).stderr("No session found matching 'x'\n").summary();
    assert_eq!(failure(&summary), ("not_found".into(), "session_not_found".into(), Value::Null));
    // A bad thinking level is only a warning.
    let output = format!("{session}{START}{}{END}", message("ok", "stop", None));
    assert_eq!(
        Run::of("pi", &output).stderr("Warning: Invalid thinking level \"ultra\".\n").outcome(),
        "completed"
    );
    let open = format!("{START}{}", message("working", "toolUse", None));
    assert_eq!(failure(&Run::of("pi", &open).exit(143).summary()).1, "killed");
    assert_eq!(Run::of("pi", &open).signal(2).outcome(), "cancelled");
    assert_eq!(Run::of("pi", &open).outcome(), "truncated");
}

#[test]
fn a_message_is_no_end_without_the_agents() {
    let output = format!("{START}{}", message("Hello", "stop", None));
    assert_eq!(Run::of("pi", &output).outcome(), "truncated");
    // It said that it will not go on, and then the last line was lost.
    let output = format!("{output}{}", END.lines().next().expect("a line"));
    assert_eq!(Run::of("pi", &output).outcome(), "completed");
}

#[test]
fn a_retry_says_its_message_anew() {
    let retry = "{\"type\":\"auto_retry_start\",\"attempt\":1,\"maxAttempts\":3,\"delayMs\":2000,\"errorMessage\":\"terminated\"}\n";
    let will = "{\"type\":\"agent_end\",\"messages\":[],\"willRetry\":true}\n";
    for end in [will, OLD_END] {
        let output = format!(
            "{START}{}{end}{retry}{START}{}{END}",
            message("Hel", "error", Some("terminated")),
            message("Hello", "stop", None)
        );
        let run = Run::of("pi", &output);
        let summary = run.summary();
        assert_eq!((&summary["text"], &summary["outcome"]), (&json!("Hello"), &json!("completed")));
        assert_eq!(
            (&summary["events"]["retrying"], &summary["events"]["turn_ended"]),
            (&json!(1), &json!(1))
        );
        let retrying = run
            .events()
            .into_iter()
            .find_map(|event| if let Kind::Retrying(retrying) = event.kind { Some(retrying) } else { None });
        let retrying = serde_json::to_value(retrying).expect("an event");
        assert_eq!(
            retrying,
            json!({"attempt": 1, "max_attempts": 3, "delay_ms": 2000, "category": "network", "message": "terminated"})
        );
    }
    // The last attempt's half of a message stays.
    let output = format!("{START}{}{END}", message("Hel", "error", Some("terminated")));
    assert_eq!(Run::of("pi", &output).text(), "Hel");
}

#[test]
fn a_deadline_while_it_retries_has_the_category_of_the_retry() {
    let output = format!(
        "{START}{}{{\"type\":\"agent_end\",\"willRetry\":true}}\n{{\"type\":\"auto_retry_start\",\"attempt\":1,\"errorMessage\":\"429: {{}}\"}}\n",
        message("", "error", Some("429: {}"))
    );
    let run = Run::of("pi", &output);
    let late = Run { end: End { cause: Cause::TimedOut, ..run.end }, ..run };
    let (category, code, _) = failure(&late.summary());
    assert_eq!((category.as_str(), code.as_str()), ("rate_limit", "gave_up_waiting"));
    // Once it speaks again, silence is silence.
    let output = output.clone() + START + &message("working", "toolUse", None);
    let late = Run { end: late.end, ..Run::of("pi", &output) };
    assert_eq!(failure(&late.summary()).1, "timed_out");
}

#[test]
fn a_wait_that_is_broken_off_is_cancelled() {
    let output = format!(
        "{START}{}{{\"type\":\"agent_end\",\"willRetry\":true}}\n{{\"type\":\"auto_retry_start\",\"attempt\":1,\"errorMessage\":\"500: {{}}\"}}\n{{\"type\":\"auto_retry_end\",\"success\":false,\"attempt\":1,\"finalError\":\"Retry cancelled\"}}\n{{\"type\":\"agent_settled\"}}\n",
        message("", "error", Some("500: {}"))
    );
    assert_eq!(Run::of("pi", &output).outcome(), "cancelled");
}

#[test]
fn cumulative_updates_say_nothing_twice() {
    let partial = json!({"role": "assistant", "content": [{"type": "text", "text": "Hello there"}]});
    let update = |event: Value| {
        let mut event = event;
        event["partial"] = partial.clone();
        json!({"type": "message_update", "assistantMessageEvent": event, "message": partial}).to_string()
            + "\n"
    };
    let output = [
        START.to_owned(),
        json!({"type": "message_start", "message": partial}).to_string() + "\n",
        update(json!({"type": "text_start", "contentIndex": 0})),
        update(json!({"type": "text_delta", "contentIndex": 0, "delta": "Hello "})),
        update(json!({"type": "text_delta", "contentIndex": 0, "delta": "there"})),
        update(json!({"type": "text_end", "contentIndex": 0, "content": "Hello there"})),
        json!({"type": "message_end", "message": {"role": "assistant", "content": partial["content"], "stopReason": "stop"}}).to_string() + "\n",
        OLD_END.to_owned(),
    ]
    .concat();
    let summary = Run::of("pi", &output).summary();
    assert_eq!((&summary["all_text"], &summary["events"]["text_delta"]), (&json!("Hello there"), &json!(2)));
}

#[test]
fn compaction_and_settings_have_their_own_events() {
    let output = format!(
        "{START}{{\"type\":\"compaction_start\",\"reason\":\"threshold\"}}\n{{\"type\":\"compaction_end\",\"reason\":\"threshold\",\"result\":{{\"summary\":\"s\",\"tokensBefore\":150000}},\"aborted\":false,\"willRetry\":false}}\n{{\"type\":\"queue_update\",\"steering\":[],\"followUp\":[\"x\"]}}\n{{\"type\":\"entry_appended\",\"entry\":{{}}}}\n{{\"type\":\"thinking_level_changed\",\"level\":\"low\"}}\n{}{END}",
        message("ok", "stop", None)
    );
    let run = Run::of("pi", &output);
    let compacted = run.events().into_iter().find_map(|event| {
        if let Kind::ContextCompacted(compacted) = event.kind { Some(compacted) } else { None }
    });
    assert_eq!(compacted.expect("a compaction").tokens_before, Some(150_000));
    let summary = run.summary();
    assert_eq!((&summary["events"]["status"], &summary["events"]["options_changed"]), (&json!(2), &json!(1)));
    assert_eq!((&summary["unrecognized"], &summary["outcome"]), (&json!(0), &json!("completed")));
}

#[test]
fn a_request_that_did_not_fit_is_sent_again_after_a_compaction() {
    let output = format!(
        "{START}{}{{\"type\":\"agent_end\",\"willRetry\":false}}\n{{\"type\":\"compaction_start\",\"reason\":\"overflow\"}}\n{{\"type\":\"compaction_end\",\"reason\":\"overflow\",\"result\":{{\"tokensBefore\":9}},\"willRetry\":true}}\n{START}{}{END}",
        message("", "error", Some("400: {\"code\":\"context_length_exceeded\"}")),
        message("ok", "stop", None)
    );
    let summary = Run::of("pi", &output).summary();
    assert_eq!((&summary["outcome"], &summary["text"]), (&json!("completed"), &json!("ok")));
    assert_eq!(summary["events"]["turn_ended"], 1);
}

#[test]
fn odd_lines_are_kept_and_lose_nothing_else() {
    // A key twice, a field of another kind, colour around it, and something new.
    let lines = [
        r#"{"type":"message_update","type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"a"}}"#,
        r#"{"type":"message_update","usage":"none","id":{},"assistantMessageEvent":{"type":"text_delta","contentIndex":"0","delta":"b"}}"#,
        "\u{1b}[2m{\"type\":\"message_update\",\"assistantMessageEvent\":{\"type\":\"text_delta\",\"delta\":\"c\"}}\u{1b}[0m",
        r#"{"type":"message_end","message":{"role":"assistant","role":"assistant","content":[{"type":"text","text":"abcd"}],"stopReason":"stop"}}"#,
        r#"{"type":"brand_new","x":1}"#,
    ];
    let output = format!("{START}{}\n{END}", lines.join("\n"));
    let run = Run::of("pi", &output);
    assert_eq!((run.text().as_str(), run.outcome().as_str()), ("abcd", "completed"));
    assert_eq!(run.unrecognized(), [lines[4]]);
}

/// Plays a two-way conversation: lines that begin with `>` were sent.
fn wire(lines: &[&str]) -> Vec<Event> {
    let now = Moment::utc("2026-11-15T08:00:00Z".parse().expect("a time"));
    let mut decoder = Decoder::new(dialects::by_name("pi-rpc").expect("a dialect"));
    let mut drafts = Vec::new();
    for line in lines {
        match line.strip_prefix('>') {
            Some(sent) => decoder.sent(sent, 0, &now, &mut drafts),
            None => decoder.stdout(format!("{line}\n").as_bytes(), &now, &mut drafts),
        }
    }
    let end = End { exit: Some(Exit::Code(0)), cause: Cause::Exited };
    decoder.finish(&end, &now, &mut drafts);
    let mut stamp = Stamp::new(SessionId::from("s"));
    drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
}

fn outcomes(events: &[Event]) -> Vec<Outcome> {
    let ended =
        |event: &Event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended.outcome) } else { None };
    events.iter().filter_map(ended).collect()
}

#[test]
fn an_abort_cancels_the_turn_and_the_next_one_is_its_own() {
    let aborted = message("Hel", "aborted", Some("Request was aborted"));
    let answered = message("Hello", "stop", None);
    let mut lines = vec![
        r#">{"id":"1","type":"prompt","message":"a"}"#,
        r#"{"id":"1","type":"response","command":"prompt","success":true}"#,
    ];
    lines.extend(START.lines().chain(aborted.lines()));
    lines.insert(4, r#">{"type":"abort"}"#);
    lines.extend(END.lines());
    lines.push(r#"{"type":"response","command":"abort","success":true}"#);
    lines.push(r#">{"id":"2","type":"prompt","message":"b"}"#);
    lines.extend(START.lines().chain(answered.lines()).chain(END.lines()));
    lines.extend(START.lines().chain(answered.lines()).chain(END.lines()));
    let events = wire(&lines);
    assert_eq!(outcomes(&events), [Outcome::Cancelled, Outcome::Completed, Outcome::Completed]);
    let origin = |event: &Event| {
        if let Kind::TurnStarted(started) = &event.kind { Some(started.origin) } else { None }
    };
    let origins: Vec<_> = events.iter().filter_map(origin).collect();
    assert_eq!(origins, [TurnOrigin::Prompt, TurnOrigin::Prompt, TurnOrigin::Agent]);
}

#[test]
fn a_refused_prompt_is_a_failed_turn_only_between_turns() {
    let refused = r#"{"id":"1","type":"response","command":"prompt","success":false,"error":"No API key found for anthropic."}"#;
    let events = wire(&[r#">{"id":"1","type":"prompt","message":"a"}"#, refused]);
    assert_eq!(outcomes(&events), [Outcome::Failed]);
    let busy = r#"{"id":"2","type":"response","command":"prompt","success":false,"error":"Agent is already processing."}"#;
    let answered = message("Hello", "stop", None);
    let mut lines = vec![r#"{"type":"agent_start"}"#, busy];
    lines.extend(answered.lines().chain(END.lines()));
    assert_eq!(outcomes(&wire(&lines)), [Outcome::Completed]);
}

#[test]
fn commands_of_the_host_run_beside_the_conversation() {
    let events = wire(&[
        r#">{"id":"b1","type":"bash","command":"false"}"#,
        r#"{"type":"bash_execution_update","id":"b1","delta":"out\n"}"#,
        r#"{"id":"b1","type":"response","command":"bash","success":true,"data":{"output":"out\n","exitCode":1,"cancelled":false}}"#,
        r#"{"type":"extension_ui_request","id":"q1","method":"select","title":"Which?","options":["a","b"]}"#,
        r#">{"type":"extension_ui_response","id":"q1","value":"a"}"#,
    ]);
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.type_name()).collect();
    assert_eq!(
        kinds[..5],
        [
            "background_task_started",
            "tool_updated",
            "background_task_ended",
            "question_asked",
            "question_answered"
        ]
    );
}
