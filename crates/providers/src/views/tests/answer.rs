//! `text`, `summary` and `generate`: what counts as the answer, and what is said about it.

use bowline_protocol::kinds::{Level, MessageFinished, ModelChanged, Outcome, Phase, StopReason, TurnEnded};
use bowline_protocol::{Category, Code, Event, Failure, Kind, Millis, Usage, UsageSource};
use serde_json::{Value, json};

use super::super::failure_object;
use super::super::script::*;
use super::check;

#[track_caller]
fn answers(kinds: impl IntoIterator<Item = Kind>, expect: &str) {
    assert_eq!(render("text", kinds), expect);
}

#[test]
fn the_answer_is_the_last_turns_final_text() {
    // Pieces of one message join with nothing, separate messages with a newline.
    answers([turn(), text("m1", 0, "Hel"), text("m1", 1, "lo"), finished("m1"), completed()], "Hello\n");
    answers(
        [turn(), text("m1", 0, "a"), text("m2", 0, "b"), finished("m1"), finished("m2"), completed()],
        "a\nb\n",
    );
    // Blocks are put in order, even if they come out of it.
    answers([turn(), text("m1", 1, "lo"), text("m1", 0, "Hel"), finished("m1"), completed()], "Hello\n");
    // Exactly one newline ends it.
    answers([turn(), text("m1", 0, "a\n"), finished("m1"), completed()], "a\n");
    answers([turn(), completed()], "");
    answers([], "");
    // Commentary and sub-agents are not the answer.
    answers([turn(), text("m1", 0, "I look."), commentary("m1"), text("m2", 0, "b"), finished("m2")], "b\n");
    answers([turn(), sub_text("m1", "sub"), finished("m1"), text("m2", 0, "b"), finished("m2")], "b\n");
    // Only the last turn counts, also when it says nothing.
    answers([turn(), text("m1", 0, "a"), finished("m1"), completed(), turn(), completed()], "");
    // The same id in another turn is another message.
    answers([turn(), text("m1", 0, "a"), completed(), turn(), text("m1", 0, "b"), completed()], "b\n");
    // A cancelled turn keeps what was said.
    answers([turn(), text("m1", 0, "half"), finished("m1"), cancelled()], "half\n");
}

#[test]
fn retracted_text_is_gone() {
    let said = [turn(), text("m1", 0, "a"), text("m1", 1, "b"), text("m1", 2, "c")];
    answers(said.iter().cloned().chain([retracted("m1", 1), finished("m1"), completed()]), "a\n");
    answers(said.iter().cloned().chain([retracted("m1", 0), text("m1", 0, "new"), finished("m1")]), "new\n");
    answers(said.iter().cloned().chain([retracted("m1", 0), text("m2", 0, "new"), finished("m2")]), "new\n");
    answers(said.into_iter().chain([retracted("m9", 0), finished("m1")]), "abc\n");
}

#[test]
fn a_cost_that_is_known_in_part_is_not_told_as_the_whole() {
    let cost = |kinds: Vec<Kind>| records("summary", kinds)[0]["cost_usd"].clone();
    let ended = |cost_usd, output| {
        let usage = (output > 0).then(|| Usage { output, ..Usage::default() });
        Kind::TurnEnded(TurnEnded { usage, cost_usd, ..ended(Outcome::Completed) })
    };
    let free = || ended(Some(0.0), 0);
    assert_eq!(cost(vec![turn(), free(), turn(), ended(None, 9)]), Value::Null);
    assert_eq!(cost(vec![turn(), ended(None, 9), turn(), free()]), Value::Null);
    assert_eq!(cost(vec![turn(), ended(Some(0.5), 9), turn(), ended(None, 0)]), 0.5, "nothing was used");
}

#[test]
fn a_summary_has_every_key() {
    check(
        "summary",
        [],
        [concat!(
            r#"{"text":"","all_text":"","outcome":null,"native_session":null,"model":null,"usage":null,"#,
            r#""cost_usd":null,"failure":null,"events":{},"tools":0,"unrecognized":0,"novel":0}"#
        )],
    );
    let kinds = [
        session("n1", Some("1.0"), Some("big")),
        turn(),
        text("m1", 0, "I look."),
        commentary("m1"),
        cli_tool("t1", "Read", None),
        cli_tool("t1", "Read", Some("{}")),
        sub_text("m2", "sub"),
        finished("m2"),
        completed_with_usage(),
        turn(),
        text("m3", 0, "Done."),
        finished("m3"),
        completed_with_usage(),
    ];
    check(
        "summary",
        kinds,
        [concat!(
            r#"{"text":"Done.","all_text":"I look.\nsub\nDone.","outcome":"completed","native_session":"n1","#,
            r#""model":"big","usage":{"input":40,"output":18,"cache_read":20,"cache_write":4,"total":82,"#,
            r#""source":"reported"},"cost_usd":0.5,"failure":null,"events":{"message_finished":3,"#,
            r#""session_started":1,"text_delta":3,"tool_started":2,"turn_ended":2,"turn_started":2},"#,
            r#""tools":1,"unrecognized":0,"novel":0}"#
        )],
    );
}

#[test]
fn a_failure_shows_what_a_program_acts_on() {
    let mut failure = Failure::new(Category::RateLimit, Code::RateLimited, "slow down");
    failure.retry_after_ms = Some(Millis(30_000));
    let known = r#"{"category":"rate_limit","code":"rate_limited","message":"slow down","retry":true,"fallback":false,"retry_after_ms":30000,"resets_at":null}"#;
    assert_eq!(failure_object(&failure), known);
    failure.hint = Some("wait".into());
    assert!(failure_object(&failure).ends_with(r#""resets_at":null,"hint":"wait"}"#));

    let summary = &records("summary", [turn(), failed("slow down")])[0];
    assert_eq!(summary["outcome"], "failed");
    assert_eq!(summary["failure"]["message"], "slow down");
    // The next turn begins with a clean slate.
    let summary = &records("summary", [turn(), failed("slow down"), turn()])[0];
    assert_eq!((&summary["outcome"], &summary["failure"]), (&Value::Null, &Value::Null));
}

#[test]
fn usage_is_estimated_as_soon_as_one_turn_was() {
    let spent = || completed_with_usage();
    let source = |kinds: Vec<Kind>| records("summary", kinds)[0]["usage"]["source"].clone();
    let (told, guessed) = (UsageSource::Reported, UsageSource::Estimated);
    assert_eq!(source(vec![turn(), usage(told, None), spent()]), "reported");
    assert_eq!(source(vec![turn(), usage(guessed, None), usage(told, None), spent()]), "reported");
    assert_eq!(source(vec![turn(), usage(guessed, None), spent()]), "estimated");
    assert_eq!(
        source(vec![turn(), usage(guessed, None), spent(), turn(), usage(told, None), spent()]),
        "estimated"
    );
    assert_eq!(source(vec![turn(), usage(guessed, None), completed(), turn(), spent()]), "reported");
}

#[test]
fn the_model_is_the_one_that_answered_last() {
    let model = |kinds: Vec<Kind>| records("summary", kinds)[0]["model"].clone();
    let by = |message: &str, model: &str| {
        let (message, model) = (message.into(), Some(model.into()));
        Kind::MessageFinished(MessageFinished { message, phase: Phase::Final, model })
    };
    let changed = Kind::ModelChanged(ModelChanged { model: "b".into(), reason: None });
    assert_eq!(model(vec![session("n", None, Some("a")), changed]), "b");
    assert_eq!(model(vec![session("n", None, Some("a")), session("n", None, None)]), "a");
    assert_eq!(model(vec![turn(), text("m1", 0, "x"), by("m1", "c")]), "c");
    assert_eq!(model(vec![usage(UsageSource::Reported, Some("d"))]), "d");
    // A sub-agent may run on another model.
    assert_eq!(
        model(vec![session("n", None, Some("a")), turn(), sub_text("m1", "x"), by("m1", "small")]),
        "a"
    );
}

#[test]
fn generate_prints_the_response_object() {
    // The protocol's own example, but for the latency: five events, one second apart.
    let kinds = [
        session("n1", None, Some("llama3.2:latest")),
        turn(),
        text("m1", 0, "2 + 2 = 4."),
        finished("m1"),
        completed_with_usage(),
    ];
    check(
        "generate",
        kinds,
        [concat!(
            r#"{"content":"2 + 2 = 4.","tokens_used":41,"input_tokens":32,"output_tokens":9,"#,
            r#""model":"llama3.2:latest","latency":4000000000,"finish_reason":"stop","error":"","#,
            r#""provider":"practice"}"#
        )],
    );
}

#[test]
fn generate_says_why_it_ended() {
    let reason = |kinds: Vec<Kind>| {
        let response = records("generate", kinds).remove(0);
        (
            response["finish_reason"].as_str().unwrap().to_owned(),
            response["error"].as_str().unwrap().to_owned(),
        )
    };
    let ends = |reason: &str, error: &str| (reason.to_owned(), error.to_owned());
    assert_eq!(reason(vec![turn(), completed()]), ends("stop", ""));
    assert_eq!(reason(vec![turn(), stopped(StopReason::MaxTokens)]), ends("length", ""));
    assert_eq!(reason(vec![turn(), host_tool("t1", "f", None), completed()]), ends("tool_use", ""));
    assert_eq!(reason(vec![turn(), cli_tool("t1", "f", None), completed()]), ends("stop", ""));
    assert_eq!(reason(vec![turn(), failed("slow down")]), ends("error", "slow down"));
    assert_eq!(reason(vec![turn(), cancelled()]), ends("error", "the turn was cancelled"));
    assert_eq!(reason(vec![turn()]), ends("error", "the output ended before the turn ended"));
    assert_eq!(reason(vec![]), ends("error", "the agent did not start a turn"));
    // An empty message would read as success.
    assert_eq!(
        reason(vec![turn(), failed("")]),
        ends("error", "the agent reported a failed turn without a reason")
    );
}

#[test]
fn generate_hands_over_calls_only_when_the_host_should_run_them() {
    let input = r#"{"q": "x"}"#;
    let response = |kinds: Vec<Kind>| records("generate", kinds).remove(0);
    let calls = json!([{"id": "t1", "type": "function", "function": {"name": "f", "arguments": input}}]);
    assert_eq!(response(vec![turn(), host_tool("t1", "f", Some(input)), completed()])["tool_calls"], calls);
    let pieces = vec![turn(), host_tool("t1", "f", None), tool_piece("t1", input), completed()];
    assert_eq!(response(pieces)["tool_calls"], calls);
    let done = tool_done("t1", bowline_protocol::kinds::ToolStatus::Completed, None);
    for kinds in [
        vec![turn(), host_tool("t1", "f", Some(input)), failed("no")],
        vec![turn(), host_tool("t1", "f", Some(input)), done, completed()],
        vec![turn(), cli_tool("t1", "f", Some(input)), completed()],
    ] {
        assert_eq!(response(kinds).get("tool_calls"), None);
    }
}

#[test]
fn generate_says_when_tokens_were_guessed() {
    let usage_of = Usage { output: 3, ..Usage::default() };
    let end = Kind::TurnEnded(TurnEnded { usage: Some(usage_of), ..ended(Outcome::Completed) });
    let response = &records("generate", [turn(), usage(UsageSource::Estimated, None), end.clone()])[0];
    assert_eq!(response["metadata"], json!({"usage_source": "estimated"}));
    let response = &records("generate", [turn(), usage(UsageSource::Reported, None), end])[0];
    assert_eq!(response.get("metadata"), None);
}

#[test]
fn events_are_our_own_lines() {
    let kinds = [
        turn(),
        notice(Level::Info, "two\nlines"),
        cli_tool("t1", "Read", Some("{\"a\":\r\n1}")),
        completed(),
    ];
    let printed = render("events", kinds.clone());
    let back: Vec<Event> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut sent = events(kinds);
    // Line breaks between tokens of the agent's own JSON become blanks, or an event would be two lines.
    sent[2].kind = cli_tool("t1", "Read", Some("{\"a\":  1}"));
    assert_eq!(back, sent);
}
