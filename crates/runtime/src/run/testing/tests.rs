//! The test double, through the calls that embedders use.

mod kept;
mod stints;

use std::time::Duration;

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Category, Code, Exit, Kind};
use serde::Deserialize;

use super::*;
use crate::StreamRule;
use crate::run::error::Error;
use crate::run::task::Task;

fn task(script: Script) -> Task {
    crate::run::task::task("Do it").provider("claude").script(script)
}

#[tokio::test(start_paused = true)]
async fn a_script_gives_the_answer() {
    let text = r#"{"session": "abc", "model": "m-1", "steps": [
        {"think": "hm"}, {"wait_ms": 60000}, {"say": ["Hel", "lo"]},
        {"result": {"usage": {"input": 3, "output": 5, "cache_read": 7}, "cost_usd": 0.25}}]}"#;
    let record = task(script(text)).run().await.unwrap();
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Completed, Some("Hello")));
    assert_eq!(record.native_session.unwrap().as_str(), "abc");
    assert_eq!(record.model.as_deref(), Some("m-1"));
    let usage = record.usage.unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (3, 5, 7));
    assert_eq!(record.cost_usd, Some(0.25));
    assert_eq!(record.exit, Some(Exit::Code(0)));
    assert!(record.took >= Duration::from_secs(60), "the clock was turned, not waited for");
    assert_eq!(task(says("Hi")).answer().await.unwrap(), "Hi");
}

#[derive(Debug, PartialEq, Deserialize, schemars::JsonSchema)]
struct Report {
    file: String,
    line: u32,
}

#[tokio::test]
async fn an_answer_of_a_type_is_read_or_refused() {
    let good = says("```json\n{\"file\": \"a.rs\", \"line\": 7}\n```");
    let report: Report = task(good).answer_as().await.unwrap();
    assert_eq!(report, Report { file: "a.rs".into(), line: 7 });
    let Err(Error::BadAnswer { text, .. }) = task(says("line 7")).answer_as::<Report>().await else {
        panic!("it is no JSON")
    };
    assert_eq!(text, "line 7");
}

#[tokio::test]
async fn a_failure_is_an_error_at_one_door_and_data_at_the_other() {
    let fails = || script(r#"{"steps": [{"say": "I"}, {"fail": "429 Too many requests"}, {"exit": 1}]}"#);
    let Err(Error::Turn(record)) = task(fails()).answer().await else { panic!("it failed") };
    assert_eq!(record.failure.unwrap().category, Category::RateLimit);
    let record = task(fails()).run().await.unwrap();
    assert_eq!((record.outcome, record.rule), (Outcome::Failed, StreamRule::Result));
    assert_eq!(record.exit, Some(Exit::Code(1)));
}

#[tokio::test]
async fn tools_and_raw_lines_become_events() {
    let text = r#"{"steps": [
        {"tool": {"name": "Bash", "input": {"command": "ls"}, "output": "a.rs"}},
        {"tool": {"name": "Bash", "output": "no", "error": true}},
        {"stdout": {"type": "never_heard_of"}}, {"stdout_text": "{not json\n"}, {"stderr": "hm\n"},
        {"say": "done"}, {"result": {"stop": "max_tokens"}}]}"#;
    let mut turn = task(script(text)).start().await.unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = turn.next().await {
        kinds.push(event.kind);
    }
    let finished = kinds.iter().filter(|kind| matches!(kind, Kind::ToolFinished(_))).count();
    let strange = kinds.iter().filter(|kind| matches!(kind, Kind::Unrecognized(_))).count();
    assert_eq!((finished, strange), (2, 2));
    let record = turn.outcome().await.unwrap();
    assert_eq!((record.tools, record.unrecognized), (2, 2));
    assert_eq!(record.stop, Some(bowline_protocol::kinds::StopReason::MaxTokens));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_script_ends_and_keeps_what_it_said() {
    for (on_stop, exit, text) in [
        (r#""obey""#, Exit::Signal(2), "Half"),
        (r#""ignore""#, Exit::Signal(9), "Half"),
        (r#"[{"say": " done"}, {"exit": 7}]"#, Exit::Code(7), "Half\n\n done"),
    ] {
        let text_of = format!(r#"{{"on_stop": {on_stop}, "steps": [{{"say": "Half"}}, {{"hang": true}}]}}"#);
        let mut turn = task(script(&text_of)).start().await.unwrap();
        while let Some(event) = turn.next().await {
            if matches!(event.kind, Kind::MessageFinished(_)) {
                turn.control().cancel();
            }
        }
        let record = turn.outcome().await.unwrap();
        assert_eq!((record.outcome, record.exit), (Outcome::Cancelled, Some(exit)), "{on_stop}");
        let words: Vec<&str> = record.text.as_deref().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words, text.split_whitespace().collect::<Vec<_>>(), "{on_stop}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_watchdogs_are_the_real_ones() {
    let hangs = script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let record = task(hangs).timeout(Duration::from_secs(30)).run().await.unwrap();
    assert_eq!(record.timed_out, Some(crate::Watchdog::Total));
    assert_eq!(record.failure.unwrap().code, Code::TimedOut);
}

#[tokio::test]
async fn a_stream_without_a_result_is_tried_again() {
    let text = r#"{"steps": [{"exit": 1}], "retry": [{"say": "Second"}, {"result": {}}]}"#;
    let again = task(script(text)).stream_fallback(crate::StreamFallback::BeforeTools);
    let record = again.run().await.unwrap();
    assert_eq!((record.text.as_deref(), record.stream_fallback), (Some("Second"), true));
    let record = task(script(text)).run().await.unwrap();
    assert_eq!(
        (record.rule, record.stream_fallback),
        (crate::StreamRule::NotSentAgain, false),
        "the default"
    );
}

#[tokio::test]
async fn another_dialect_can_be_spoken() {
    let text = r#"{"dialect": "text", "steps": [{"stdout_text": "plain\n"}]}"#;
    assert_eq!(task(script(text)).answer().await.unwrap().trim(), "plain");
}

#[tokio::test]
async fn a_refused_request_is_refused() {
    let with = |provider: &str| crate::run::task::task("Do it").provider(provider).script(says("Hi"));
    assert!(matches!(with("nobody").answer().await, Err(Error::UnknownProvider { .. })));
    assert!(matches!(with("glm").resume("abc").answer().await, Err(Error::Refused(_))));
    assert!(matches!(
        crate::run::task::task("Do it").script(says("Hi")).answer().await,
        Err(Error::NoProvider)
    ));
}

#[tokio::test(start_paused = true)]
async fn waits_can_be_left_out() {
    let waits = script(r#"{"steps": [{"wait_ms": 5000}, {"say": "Hi"}, {"result": {}}]}"#).without_waits();
    assert!(task(waits).run().await.unwrap().took < Duration::from_secs(4));
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let check = |text: &str, expected: &str| {
        let error = Script::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check("{", "line 1, column 1: expected JSON");
    check("[]", "the script: expected an object, found `[]`");
    check("{}", "the script: expected a list `steps`, or a list `prompts`, found neither");
    check(r#"{"steps": [], "speed": 2}"#, "the script: expected only the fields steps,");
    check(r#"{"steps": {}}"#, "steps: expected a list of steps, found `{}`");
    check(
        r#"{"steps": [{"say": "a"}, {"sai": "b"}]}"#,
        "step 2 of steps: expected a step: an object with one of say,",
    );
    check(
        r#"{"steps": [{"say": 1}]}"#,
        "`say` in step 1 of steps: expected a text or a list of texts, found `1`",
    );
    check(
        r#"{"steps": [{"wait_ms": -1}]}"#,
        "`wait_ms` in step 1 of steps: expected a whole number from 0 on",
    );
    check(
        r#"{"steps": [{"tool": {"name": "a", "in": 1}}]}"#,
        "`tool` in step 1 of steps: expected only the fields name,",
    );
    check(r#"{"steps": [], "retry": [{"exit": "x"}]}"#, "`exit` in step 1 of retry: expected a whole number");
    check(
        r#"{"steps": [], "on_stop": "maybe"}"#,
        "on_stop: expected \"obey\", \"ignore\" or a list of steps",
    );
    check(r#"{"dialect": "klingon", "steps": []}"#, "dialect: expected one of text, json,");
    check(
        r#"{"dialect": "text", "steps": [{"say": "a"}]}"#,
        "`say` in step 1 of steps: expected the dialect `pi-events`, or a line as `stdout`, found a script in the dialect `text`",
    );
}

#[tokio::test]
async fn a_session_that_fills_its_disk_ends_and_its_watcher_sees_all_of_it() {
    let world = world();
    // Many events in one write, so that many are lost at once.
    let piece = serde_json::json!({"type": "text_delta", "contentIndex": 0, "delta": "x".repeat(200)});
    let line = serde_json::json!({"type": "message_update", "assistantMessageEvent": piece});
    let ten = serde_json::json!({"stdout_text": format!("{line}\n").repeat(10)});
    let mut steps = vec![ten; 60];
    steps.push(serde_json::json!({"hang": true}));
    let long = script(&serde_json::json!({"steps": steps}).to_string());
    let mut gaps = 0;
    // The limit is met by raw bytes or by events, whichever comes first.
    for quota in (200_000..204_500).step_by(500) {
        let task = world.task("Do it").provider("claude").script(long.clone()).disk_quota(quota);
        let mut turn = task.start().await.unwrap();
        let (mut seen, mut last) = (0, None);
        while let Some(event) = turn.next().await {
            seen += 1;
            assert_eq!(event.seq, seen, "{quota}");
            last = Some(event.kind);
        }
        assert!(matches!(last, Some(Kind::SessionEnded(_))), "{quota}: {last:?}");
        let record = turn.outcome().await.unwrap();
        assert_eq!(record.failure.unwrap().code, Code::DiskQuota, "{quota}");
        // The journal has numbers of its own, and says what it lacks.
        let mut reader = crate::sessions::journal::Reader::open(&record.journal.unwrap()).unwrap();
        let mut on_file = 0;
        while let Some(event) = reader.next_event().unwrap() {
            on_file += 1;
            assert_eq!(event.seq, on_file, "{quota}");
            gaps += u32::from(matches!(event.kind, Kind::Gap(_)));
            last = Some(event.kind);
        }
        assert!(matches!(last, Some(Kind::SessionEnded(_))), "{quota}: {last:?}");
    }
    assert!(gaps > 0, "no limit was met by events");
}

#[tokio::test]
async fn a_typed_answer_comes_with_its_record_also_when_it_is_wrong() {
    let good = script(
        r#"{"steps": [{"say": "{\"file\": \"a.rs\", \"line\": 7}"}, {"result": {"usage": {"input": 1, "output": 1}, "cost_usd": 0.25}}]}"#,
    );
    let (report, record) = task(good).run_as::<Report>().await.unwrap();
    assert_eq!((report.line, record.cost_usd), (7, Some(0.25)));
    let wrong = script(
        r#"{"steps": [{"say": "line 7"}, {"result": {"usage": {"input": 1, "output": 1}, "cost_usd": 0.5}}]}"#,
    );
    let Err(Error::BadAnswer { record: Some(record), .. }) = task(wrong).run_as::<Report>().await else {
        panic!("it is no JSON")
    };
    assert_eq!(record.cost_usd, Some(0.5));
    let failed = script(r#"{"steps": [{"fail": "500"}]}"#);
    assert!(matches!(task(failed).run_as::<Report>().await, Err(Error::Turn(_))));
}

/// Returns the exit code of a turn, or of the error.
fn exit_code(task: Task) -> u8 {
    match crate::blocking::run(task) {
        Ok(record) => record.exit_code(),
        Err(error) => error.exit_code(),
    }
}

#[test]
fn exit_codes_are_those_of_the_command() {
    let plays = |steps: &str| task(script(&format!(r#"{{"steps": [{steps}]}}"#)));
    assert_eq!(exit_code(plays(r#"{"say": "a"}, {"result": {}}"#)), 0);
    assert_eq!(exit_code(plays(r#"{"say": "a"}, {"fail": "500 internal server error"}"#)), 1);
    assert_eq!(exit_code(plays(r#"{"fail": "401 unauthorized: invalid_api_key"}"#)), 4);
    let spends = r#"{"say": "a"}, {"result": {"usage": {"input": 9, "output": 9}}}, {"hang": true}"#;
    assert_eq!(exit_code(plays(spends).max_tokens(5)), 5);
    assert_eq!(exit_code(plays(r#"{"say": "a"}"#).max_tokens(0)), 5);
    assert_eq!(exit_code(plays(r#"{"hang": true}"#).timeout(Duration::from_millis(20))), 124);
    let turn = crate::blocking::start(plays(r#"{"hang": true}"#)).unwrap();
    assert_eq!(turn.stop().unwrap().exit_code(), 130);
    let error = crate::blocking::run(plays("").provider("cladue")).unwrap_err();
    assert_eq!(error.to_string(), "there is no provider `cladue`; did you mean `claude`?");
    assert_eq!(error.exit_code(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_and_each_provider_has_its_own_script() {
    let overloaded = || script(r#"{"steps": [{"fail": "529 overloaded_error"}]}"#);
    let world = world();
    world.provider("claude", overloaded().then(overloaded()).then(says("at last")));
    let record = world.task("Do it").provider("claude").retries(2).run().await.unwrap();
    assert_eq!((record.attempts.len(), record.text.as_deref()), (3, Some("at last")));

    // The router sees only providers with a script; an alias is the same provider.
    let world = super::world();
    world.provider("claude-code", script(r#"{"steps": [{"fail": "insufficient_quota"}]}"#));
    world.provider("codex", says("mine"));
    let record = world.task("Do it").provider("auto").run().await.unwrap();
    let asked: Vec<&str> = record.attempts.iter().map(|attempt| attempt.name.as_str()).collect();
    assert_eq!((asked, record.text.as_deref()), (vec!["claude", "codex"], Some("mine")));

    // A provider without a script is not started for real.
    let record = world.task("Do it").provider("gemini").run().await.unwrap();
    assert_eq!(record.failure.unwrap().code, Code::NotInstalled);
}

#[tokio::test]
async fn a_clone_of_a_task_runs_on_its_own() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    let told = seen.clone();
    let pot = crate::sessions::budget::Pot::default();
    let spends = script(r#"{"steps": [{"say": "a"}, {"result": {"usage": {"input": 3, "output": 4}}}]}"#);
    let one = task(spends).pot(&pot).on_event(move |event| {
        told.lock().unwrap().insert(event.session.to_string());
    });
    let other = one.clone();
    one.run().await.unwrap();
    other.run().await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert_eq!(pot.spent().tokens, Some(14));
}

#[tokio::test]
async fn a_pot_that_is_used_up_starts_nothing() {
    let pot = crate::sessions::budget::Pot::default().max_tokens(10);
    let spends = || script(r#"{"steps": [{"say": "a"}, {"result": {"usage": {"input": 3, "output": 4}}}]}"#);
    let world = world();
    let ask = || world.task("Do it").provider("claude").script(spends()).pot(&pot);
    assert!(ask().run().await.unwrap().is_completed());
    // Seven and seven are more than ten: the second is told so, although the first was over before it began.
    assert_eq!(ask().run().await.unwrap().failure.unwrap().code, Code::Budget);
    let error = ask().run().await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("the budget for these tasks is used up: ") && said.ends_with(" of 10 tokens"),
        "{said}"
    );
    let sessions = std::fs::read_dir(world.path().join("sessions")).unwrap().count();
    assert_eq!(sessions, 2, "the third one left nothing behind");
    // The limit of a task counts in the same way.
    assert!(matches!(ask().max_tokens(5).run().await, Err(Error::OverBudget { .. })));
}

/// Returns the events of a turn, and its record.
async fn watched(task: Task) -> (Vec<crate::Event>, crate::run::record::Record) {
    let (mut turn, mut events) = (task.start().await.unwrap(), Vec::new());
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    (events, turn.outcome().await.unwrap())
}

/// Plays a tool call with this output in the words of Claude Code or Codex.
fn long_output(dialect: &str, output: &str) -> Script {
    use serde_json::json;
    let lines = match dialect {
        "claude" => vec![
            json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": []}),
            json!({"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat big"}}]}}),
            json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": output}]}}),
            json!({"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"}),
        ],
        _ => vec![
            json!({"type": "thread.started", "thread_id": "s"}),
            json!({"type": "turn.started"}),
            json!({"type": "item.completed", "item": {"id": "item_0", "type": "command_execution",
                "command": "cat big", "aggregated_output": output, "exit_code": 0, "status": "completed"}}),
            json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "done"}}),
            json!({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}),
        ],
    };
    let steps: Vec<_> = lines.into_iter().map(|line| json!({"stdout": line})).collect();
    script(&json!({"dialect": dialect, "steps": steps}).to_string())
}

#[tokio::test]
async fn the_whole_output_of_a_tool_is_one_call_away() {
    let mut output: String = (0..).map(|n| format!("line {n} é\n")).take(100_000).collect();
    output.push_str("the last line");
    assert!(output.len() > 1_000_000);
    let world = world();
    for (provider, dialect) in [("claude", "claude"), ("codex", "codex-exec")] {
        let ask = || world.task("Do it").provider(provider).script(long_output(dialect, &output));
        let finished = |events: Vec<crate::Event>| {
            events.into_iter().find(|event| matches!(event.kind, Kind::ToolFinished(_))).unwrap()
        };
        let text_of = |event: &crate::Event| {
            let Kind::ToolFinished(tool) = &event.kind else { unreachable!("it was looked for") };
            tool.output.clone().unwrap()
        };
        // Events carry the beginning; the journal has all of it.
        let (events, record) = watched(ask()).await;
        let event = finished(events);
        let head = text_of(&event);
        assert_eq!((head.text.len() <= 32 * 1024, head.bytes), (true, output.len() as u64), "{dialect}");
        let reader = crate::sessions::journal::Reader::open(record.journal.as_ref().unwrap()).unwrap();
        assert!(reader.tool_output(&event).unwrap().as_ref() == Some(&output), "{dialect}");
        // Who wants more in the events says so.
        let (events, _) = watched(ask().without_journal().excerpt_limit(2 << 20)).await;
        assert!(text_of(&finished(events)).text == output, "{dialect}");
        let (events, _) = watched(ask().excerpt_limit(10)).await;
        assert_eq!(text_of(&finished(events)).text, "line 0 é\n", "{dialect}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_as_the_object_of_the_command() {
    let world = world();
    world.provider("claude", script(r#"{"steps": [{"fail": "insufficient_quota"}]}"#));
    world.provider(
        "codex",
        script(
            r#"{"session": "n", "model": "m", "steps": [{"stdout": {"type": "zeta"}},
        {"say": "hello"}, {"result": {"usage": {"input": 1, "output": 2}, "cost_usd": 0.5}}]}"#,
        ),
    );
    let record = world.task("Do it").providers(["claude", "codex"]).run().await.unwrap();
    let object = serde_json::to_value(&record).unwrap();
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "text",
        "all_text",
        "outcome",
        "session",
        "provider",
        "native_session",
        "model",
        "usage",
        "cost_usd",
        "failure",
        "events",
        "tools",
        "unrecognized",
        "novel",
        "too_long",
        "cost",
        "took_ms",
        "exit_code",
        "attempts",
    ] {
        assert!(keys.contains(&key), "{key} is not in {keys:?}");
    }
    assert_eq!((&object["text"], &object["provider"]), (&"hello".into(), &"codex".into()));
    assert_eq!((&object["unrecognized"], &object["exit_code"]), (&1.into(), &0.into()));
    assert_eq!(object["attempts"][0]["name"], "claude");
    assert_eq!(object["attempts"][0]["failure"]["category"], "quota");
    assert_eq!(serde_json::to_value(&record.attempts[1]).unwrap(), object["attempts"][1]);
    let said: Vec<String> = record.warnings().iter().map(ToString::to_string).collect();
    let at = record.journal.unwrap().join("events.jsonl");
    let wanted = format!(
        "1 line of output was not understood; see the events of type `unrecognized` in {}",
        at.display()
    );
    assert_eq!(said, [wanted]);
}

#[tokio::test]
async fn a_record_has_all_that_was_said_however_long_it_is() {
    let (piece, world) = ("x".repeat(30_000), world());
    let says = vec![serde_json::json!({"say": piece}); 100];
    let steps = [says, vec![serde_json::json!({"result": {}})]].concat();
    let long = script(&serde_json::json!({"steps": steps}).to_string());
    for task in [world.task("Do it").provider("claude").script(long.clone()), task(long.clone())] {
        let record = task.run().await.unwrap();
        let object = serde_json::to_value(&record).unwrap();
        let lengths = ["text", "all_text"].map(|key| object[key].as_str().map(str::len));
        assert_eq!(lengths, [Some(3_000_099); 2]);
    }
    // Without a journal nothing is made up.
    let record = task(long).without_journal().run().await.unwrap();
    assert!(serde_json::to_value(&record).unwrap()["text"].is_null());
}

#[tokio::test]
async fn our_own_id_is_as_good_as_the_agents_where_the_session_can_be_resumed() {
    use crate::ResumeGap;
    let world = world();
    let says = |id: &str| {
        script(&format!(r#"{{"session": "{id}", "steps": [{{"say": "a"}}, {{"result": {{}}}}]}}"#))
    };
    world.provider("claude", says("n-1"));
    world.provider("codex", says("n-2"));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let again = world.task("Do it").provider("claude").resume(first.session.as_str());
    assert!(again.run().await.unwrap().is_completed());
    let gap = |provider: &str, id: &str| {
        let task = world.task("Do it").provider(provider).resume(id);
        let error = crate::blocking::run(task).unwrap_err();
        let Error::NotResumable { gap, .. } = error else { panic!("{error}") };
        gap
    };
    assert_eq!(
        gap("codex", first.session.as_str()),
        ResumeGap::OtherProvider { provider: "claude".to_owned() }
    );
    assert_eq!(gap("claude", "s-20261115-083000123-000g40zz"), ResumeGap::NotFound);
    // An id of another form is the agent's business.
    assert!(!world.task("Do it").provider("claude").resume("n-9").run().await.unwrap().is_completed());
}
