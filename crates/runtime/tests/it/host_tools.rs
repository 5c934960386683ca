//! Functions of the embedder as tools of a process, which calls them over HTTP.

use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bowline::{HostTool, Json, Kind};
use libtest_mimic::Trial;

use crate::support::{CALL_TOOL, Stage, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("an_agent_calls_a_function_of_its_embedder", called),
        trial("the_agent_skips_its_proxy_for_the_tools", past_a_proxy),
    ]
}

/// Calls the tool, and reports what it was told. It prints its token, too.
fn caller() -> Stage {
    Stage::new(&format!(
        r#"
        printf '%s\n' "$*" >$HERE/argv
        {CALL_TOOL}
        printf '%s' "$SERVER" >$HERE/server
        printf '%s' "$TOKEN" >$HERE/token
        printf '%s %s' "$NO_PROXY" "$no_proxy" >$HERE/no_proxy
        ANSWER=$(call_tool weather '{{"city":"Bern"}}')
        init
        say a-1 "my token is $TOKEN"
        say a-2 "$ANSWER"
        result "$ANSWER"
        "#
    ))
}

fn weather() -> (HostTool, Arc<Mutex<Vec<Json>>>) {
    let inputs: Arc<Mutex<Vec<Json>>> = Arc::default();
    let seen = inputs.clone();
    let schema = Json::parse(r#"{"type": "object"}"#).unwrap();
    let tool = HostTool::new("weather", "Returns the weather of a city", schema, move |input| {
        seen.lock().unwrap().push(input);
        async { Ok("sunny".to_owned()) }
    });
    (tool, inputs)
}

/// Returns whether a file below a directory contains a text.
fn contains(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return contains(&path, text);
        }
        String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text)
    })
}

async fn called() {
    let stage = caller();
    let (tool, inputs) = weather();
    let record = stage.task("What is the weather?").tool(tool).run().await.unwrap();
    assert!(record.is_completed(), "{record:#?}");
    assert!(record.text.as_deref().is_some_and(|text| text.ends_with("\nsunny")), "{:?}", record.text);
    assert_eq!(inputs.lock().unwrap().iter().map(Json::as_str).collect::<Vec<_>>(), [r#"{"city":"Bern"}"#]);
    let read = |name: &str| std::fs::read_to_string(stage.path(name)).unwrap();
    let token = read("token");
    assert_eq!(token.len(), 64);
    assert!(!read("argv").contains(&token), "every user of the machine can read arguments");
    assert!(read("argv").contains("--allowedTools mcp__bowline"), "{}", read("argv"));
    // The agent has printed it.
    let journal = record.journal.unwrap();
    assert!(contains(&journal, "my token is ***") && !contains(&journal, &token));
    // The server is gone with the run.
    assert!(TcpStream::connect(read("server")).is_err());
}

async fn past_a_proxy() {
    let stage = caller();
    let (tool, _) = weather();
    let task = stage
        .task("Hi")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("no_proxy", "example.org")
        .env("NO_PROXY", "");
    let mut turn = task.tool(tool).start().await.unwrap();
    while let Some(event) = turn.next().await {
        assert!(
            !matches!(event.kind, Kind::ToolStarted(_)),
            "the agent reports its calls, and this one reports none"
        );
    }
    assert!(turn.outcome().await.unwrap().is_completed());
    let both = "example.org,127.0.0.1 example.org,127.0.0.1";
    assert_eq!(std::fs::read_to_string(stage.path("no_proxy")).unwrap(), both);
}
