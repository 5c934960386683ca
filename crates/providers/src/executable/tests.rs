//! What a few words about an executable become: a manifest, commands, and the request that it reads.

use bowline_protocol::{Json, Message, Request, Role, Sampling};
use serde_json::json;

use super::*;
use crate::invocation::{Invocation, Refusal, StdinPlan, Streaming, Wish, build, health};

const TEXT: &str = r#"
kind = "executable"
name = "llama"
path = "/opt/ollama-provider"
args = ["--quiet"]
timeout = "90s"
model = "llama3.2:latest"
env = { OLLAMA_HOST = "127.0.0.1:1" }
config = { keep_alive = "5m", custom = [1, 2] }
"#;

fn manifest() -> Manifest {
    Executable::parse(TEXT).expect("TOML").manifest().expect("it is good")
}

fn built(request: &Request, streaming: Streaming) -> Result<Invocation, Refusal> {
    build(&manifest(), request, &Wish { streaming, ..Wish::default() })
}

fn sent(request: &Request) -> Value {
    let StdinPlan::Prompt(text) = built(request, Streaming::On).expect("it is good").stdin else {
        panic!("a request goes over standard input");
    };
    serde_json::from_str(&text).expect("JSON")
}

fn plain(prompt: &str) -> Request {
    Request { prompt: prompt.into(), ..Request::default() }
}

#[test]
fn arguments_stand_before_the_command_word() {
    let args = |invocation: Invocation| -> Vec<String> {
        invocation.args.iter().map(|arg| arg.text(str::to_owned)).collect()
    };
    let request = plain("hi");
    let stream = built(&request, Streaming::On).expect("it is good");
    assert_eq!((stream.dialect.as_str(), stream.limits.total), ("executable-stream", Some(Millis(90_000))));
    assert_eq!(stream.env["OLLAMA_HOST"], "127.0.0.1:1");
    assert_eq!(args(stream), ["--quiet", "stream"]);
    let generate = built(&request, Streaming::Off).expect("it is good");
    assert_eq!(generate.dialect, "executable-generate");
    assert_eq!(args(generate), ["--quiet", "generate"]);
    let health = health(&manifest()).expect("it can be asked");
    assert_eq!((&health.stdin, health.env["OLLAMA_HOST"].as_str()), (&StdinPlan::Null, "127.0.0.1:1"));
    assert_eq!(args(health), ["--quiet", "health"]);
}

#[test]
fn what_is_not_set_is_left_out() {
    let bare = Executable::at("x", "x").manifest().expect("it is good");
    let StdinPlan::Prompt(text) = build(&bare, &plain("hi"), &Wish::default()).expect("good").stdin else {
        panic!("a request goes over standard input");
    };
    assert_eq!(text, r#"{"prompt":"hi"}"#);
}

#[test]
fn every_field_is_passed_on() {
    let said = |role, content: &str| Message {
        role,
        content: content.into(),
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    let json = |text: &str| Json::parse(text).expect("JSON");
    let call = Message { tool_calls: vec![json(r#"{"id":"c1"}"#)], ..said(Role::Assistant, "") };
    let answer = Message { tool_call_id: Some("c1".into()), ..said(Role::Tool, "4") };
    let request = Request {
        system_prompt: Some("Be brief.".into()),
        append_system_prompt: Some("Be kind.".into()),
        sampling: Sampling { max_tokens: Some(1000), temperature: Some(0.7), top_p: Some(0.9) },
        tools: vec![json(r#"{"name":"add"}"#)],
        context: vec![said(Role::User, "before"), call, answer],
        config: [("custom".to_owned(), json("{\"b\":1,\"a\":2}"))].into(),
        metadata: [("task_id".to_owned(), json("\"abc\""))].into(),
        ..plain("What is 2+2?")
    };
    assert_eq!(
        sent(&request),
        json!({
            "prompt": "What is 2+2?",
            "system_prompt": "Be brief.\n\nBe kind.",
            "max_tokens": 1000,
            "temperature": 0.7,
            "top_p": 0.9,
            "tools": [{"name": "add"}],
            "context": [
                {"role": "user", "content": "before"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
                {"role": "tool", "content": "4", "tool_call_id": "c1"},
            ],
            "config": {"custom": {"b": 1, "a": 2}, "keep_alive": "5m", "model": "llama3.2:latest"},
            "metadata": {"task_id": "abc"},
        })
    );
    let notices = built(&request, Streaming::On).expect("it is good").notices;
    assert_eq!(notices, [], "nothing is dropped");
}

#[test]
fn the_model_is_the_one_that_was_chosen_last() {
    let model = |request: &Request| sent(request)["config"]["model"].as_str().map(str::to_owned);
    let config: BTreeMap<String, Json> =
        [("model".to_owned(), Json::parse("\"of-config\"").expect("JSON"))].into();
    assert_eq!(model(&plain("hi")).as_deref(), Some("llama3.2:latest"));
    assert_eq!(model(&Request { config: config.clone(), ..plain("hi") }).as_deref(), Some("of-config"));
    let both = Request { config, model: Some("of-option".into()), ..plain("hi") };
    assert_eq!(model(&both).as_deref(), Some("of-option"));
}

#[test]
fn what_the_protocol_has_no_word_for_is_refused() {
    let refused = |request: Request| built(&request, Streaming::On).expect_err("refused").to_string();
    let effort = refused(Request { effort: Some("high".into()), ..plain("hi") });
    assert_eq!(
        effort,
        "llama cannot be run with `effort`: the protocol of executable providers has no field for it"
    );
    let nan = Sampling { temperature: Some(f64::NAN), ..Sampling::default() };
    assert!(refused(Request { sampling: nan, ..plain("hi") }).contains("NaN is not a number"));
}

#[test]
fn an_executable_may_have_generate_alone() {
    let only = Executable::parse(&format!("{TEXT}streams = false\n")).expect("TOML");
    let manifest = only.manifest().expect("it is good");
    assert_eq!(manifest.formats.keys().collect::<Vec<_>>(), ["generate"]);
    let invocation = build(&manifest, &plain("hi"), &Wish::default()).expect("it is good");
    assert_eq!(invocation.dialect, "executable-generate");
}

#[test]
fn mistakes_are_named() {
    for (from, to, expect) in [
        ("path = \"/opt/ollama-provider\"", "path = \"\"", "`path`: is empty: it must name a program"),
        (
            "name = \"llama\"",
            "name = \"a b\"",
            "`name`: `a b` is not a valid name: use letters, digits, `-`, `_` and `.`",
        ),
        ("kind = \"executable\"", "kind = \"exe\"", "the manifest is not valid"),
        ("timeout = \"90s\"", "timeout = \"soon\"", "the manifest is not valid"),
        ("model =", "modle =", "the manifest is not valid"),
    ] {
        let made = Executable::parse(&TEXT.replace(from, to)).and_then(|it| it.manifest());
        assert_eq!(made.expect_err(to).to_string(), expect);
    }
    assert!(Executable::is_meant(TEXT));
    assert!(!Executable::is_meant("name = \"agent\"\nprogram = \"agent\"\n"));
    assert!(!Executable::is_meant("not toml at all = = ="));
}
