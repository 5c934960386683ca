//! Executable providers through the library: everything that a request has reaches them, and what changes counts at once.

use std::time::Duration;

use bowline::roster::{self, Executable};
use bowline::{Category, Json, Message, Role, Sampling};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::support::{Stage, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("every_field_of_a_request_reaches_an_executable", every_field),
        trial("a_changed_executable_is_used_from_the_next_request_on", changed),
        trial("an_executable_is_asked_whether_it_is_well", health),
    ]
}

/// Writes down the request, and answers with its command word.
const RECORDER: &str = r#"cat >$HERE/request
printf '{"content":"%s","delta":"%s","done":true,"tokens_used":9,"finish_reason":"stop"}\n' $1 $1"#;

async fn every_field() {
    let stage = Stage::new(RECORDER);
    let provider = roster::executable(&Executable::at("mine", "./agent"), stage.world.path()).unwrap();
    let json = |text: &str| Json::parse(text).unwrap();
    let said = |role, content: &str| Message {
        role,
        content: content.to_owned(),
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    let task = stage
        .world
        .task("What is 2+2?")
        .of_provider(provider)
        .model("m-1")
        .system_prompt("Be brief.")
        .context([said(Role::User, "before"), said(Role::Assistant, "yes")])
        .sampling(Sampling { max_tokens: Some(10), temperature: Some(0.5), top_p: Some(0.25) })
        .declare_tool(json(r#"{"name":"add"}"#))
        .set("seed", json("7"))
        .metadata("task_id", json("\"abc\""));
    let record = task.start().await.unwrap().outcome().await.unwrap();
    assert!(record.is_completed(), "{record:#?}");
    assert_eq!(record.text.as_deref(), Some("stream"));
    assert!(record.took > Duration::ZERO, "the latency is ours");
    let request: Value = serde_json::from_slice(&std::fs::read(stage.path("request")).unwrap()).unwrap();
    assert_eq!(
        request,
        json!({
            "prompt": "What is 2+2?",
            "system_prompt": "Be brief.",
            "max_tokens": 10,
            "temperature": 0.5,
            "top_p": 0.25,
            "tools": [{"name": "add"}],
            "context": [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}],
            "config": {"model": "m-1", "seed": 7},
            "metadata": {"task_id": "abc"},
        })
    );
    let record = stage.world.task("again").of_provider(provider).no_stream().run().await.unwrap();
    assert_eq!(record.text.as_deref(), Some("generate"));
}

async fn changed() {
    let stage = Stage::new(RECORDER);
    let provider = roster::executable(&Executable::at("mine", "./agent"), stage.world.path()).unwrap();
    let ask = || stage.world.task("hi").of_provider(provider).run();
    assert_eq!(ask().await.unwrap().text.as_deref(), Some("stream"));
    let text = "#!/bin/sh\ncat >/dev/null; echo 'no credit left: 429 Too Many Requests' >&2; exit 9\n";
    bowline_testkit::write_program(stage.agent(), text);
    let record = ask().await.unwrap();
    let failure = record.failure.expect("it failed");
    assert_eq!(failure.category, Category::RateLimit, "standard error is the reason: {failure:?}");
}

async fn health() {
    let stage = Stage::new("echo \"$1: fine\"");
    let provider = roster::executable(&Executable::at("mine", "./agent"), stage.world.path()).unwrap();
    let health = roster::health(provider).await.unwrap().expect("it can be asked");
    assert_eq!((health.well, health.said.as_str()), (true, "health: fine"));
    let agent = roster::find("practice").unwrap();
    assert_eq!(roster::health(agent).await.unwrap(), None, "an agent has no such command");
}
