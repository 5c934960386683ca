//! Functions of the embedder as tools, called by scripts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bowline::testing::{self, World, script};
use bowline::{Error, Event, HostTool, Json, Kind, ResumeGap, kinds::ToolStatus};
use serde_json::json;

fn schema() -> Json {
    Json::parse(r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#).expect("JSON")
}

/// Returns a tool that answers with its number of calls.
fn weather() -> (HostTool, Arc<Mutex<Vec<String>>>) {
    let inputs: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = inputs.clone();
    let tool = HostTool::new("weather", "Returns the weather of a city", schema(), move |input: Json| {
        let mut inputs = seen.lock().expect("no test panics with it");
        inputs.push(input.as_str().to_owned());
        let text = format!("weather number {}", inputs.len());
        async move { if text.ends_with('3') { Err("the station is down".into()) } else { Ok(text) } }
    });
    (tool, inputs)
}

fn call(city: &str) -> serde_json::Value {
    json!({"tool": {"name": "weather", "input": {"city": city}, "host": true}})
}

/// Returns the results of tools.
fn results(events: &[Event]) -> Vec<(ToolStatus, String)> {
    let result = |event: &Event| {
        let Kind::ToolFinished(tool) = &event.kind else { return None };
        Some((tool.status, tool.output.as_ref().map_or(String::new(), |it| it.text.clone())))
    };
    events.iter().filter_map(result).collect()
}

#[tokio::test]
async fn a_script_calls_a_function_and_a_retry_has_it_too() {
    let world = testing::world();
    let fails = json!({"steps": [{"fail": "529 overloaded_error"}]}).to_string();
    let calls =
        json!({"steps": [call("Bern"), call("Basel"), call("Chur"), {"say": "Done."}, {"result": {}}]});
    world.provider("claude", script(&fails).then(script(&calls.to_string())));
    let (tool, inputs) = weather();
    let task = world.task("What is the weather?").provider("claude").retries(1).tool(tool);
    let mut turn = task.start().await.expect("a turn");
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    let record = turn.outcome().await.expect("a record");
    assert!(record.is_completed() && record.attempts.len() == 2, "{record:#?}");
    let cities = [r#"{"city":"Bern"}"#, r#"{"city":"Basel"}"#, r#"{"city":"Chur"}"#];
    assert_eq!(*inputs.lock().expect("no test panics with it"), cities);
    let expected = [
        (ToolStatus::Completed, "weather number 1".to_owned()),
        (ToolStatus::Completed, "weather number 2".to_owned()),
        (ToolStatus::Failed, "the station is down".to_owned()),
    ];
    assert_eq!(results(&events), expected);
}

/// Opens a session, sends a prompt and stops it.
async fn session_with(
    world: &World,
    change: impl FnOnce(bowline::Task) -> bowline::Task,
) -> Result<bowline::Record, Error> {
    let session = bowline::session("claude").with(|task| change(world.prepare(task))).open().await?;
    session.send("What is the weather?").await.expect("a receipt");
    session.turn_over().await.expect("a turn");
    session.stop().await
}

#[tokio::test]
async fn a_session_needs_its_tools_again_when_it_is_resumed() {
    let world = testing::world();
    let prompts = json!({"session": "n-1", "prompts": [[call("Bern"), {"say": "Sunny."}, {"result": {}}]]});
    world.provider("claude", script(&prompts.to_string()));
    let (tool, inputs) = weather();
    let record = session_with(&world, |task| task.tool(tool.clone())).await.expect("a record");
    let (id, dir) = (record.session.clone(), record.journal.clone().expect("a journal"));
    let count = || inputs.lock().expect("no test panics with it").len();
    assert_eq!(count(), 1);
    let meta = std::fs::read_to_string(dir.join("session.json")).expect("the description");
    assert!(!meta.contains("127.0.0.1") && !meta.contains("Bearer"), "{meta}");
    let kept = bowline::journal::SessionMeta::read(&dir).expect("the description").resume.expect("options");
    assert_eq!((kept.host_tools.as_slice(), kept.mcp_servers.len()), (&["weather".to_owned()][..], 0));
    let error = session_with(&world, |task| task.resume(id.as_str())).await.expect_err("no tool");
    let Error::NotResumable { gap: ResumeGap::HostTools { names }, .. } = &error else { panic!("{error:?}") };
    assert_eq!(names, &["weather"]);
    assert!(error.to_string().contains("its tool `weather` has to be given again"), "{error}");
    let other = HostTool::new("other", "", schema(), |_| async { Ok(String::new()) });
    let error = session_with(&world, |task| task.resume(id.as_str()).tool(other)).await;
    assert!(matches!(error, Err(Error::NotResumable { gap: ResumeGap::HostTools { .. }, .. })), "{error:?}");
    assert_eq!(count(), 1, "nothing was started");
    session_with(&world, |task| task.resume(id.as_str()).tool(tool.clone())).await.expect("it goes on");
    assert_eq!(count(), 2);
    let without = |task: bowline::Task| task.resume(id.as_str()).only_named_mcp_servers();
    session_with(&world, without).await.expect("it goes on without the tool");
    let kept = bowline::journal::SessionMeta::read(&dir).expect("the description").resume.expect("options");
    assert_eq!((kept.host_tools.len(), count()), (0, 2));
}

#[tokio::test]
async fn a_running_call_ends_with_the_run() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let world = testing::world();
    world.provider("claude", script(&json!({"steps": [call("Bern"), {"result": {}}]}).to_string()));
    let dropped = Arc::new(AtomicUsize::new(0));
    let drops = dropped.clone();
    let hangs = HostTool::new("weather", "Never returns", schema(), move |_| {
        let dropped = Dropped(drops.clone());
        async move {
            let _dropped = dropped;
            std::future::pending().await
        }
    });
    let mut turn = world.task("Wait").provider("claude").tool(hangs).start().await.expect("a turn");
    let control = turn.control();
    while let Some(event) = turn.next().await {
        if matches!(event.kind, Kind::ToolStarted(_)) {
            control.cancel();
        }
    }
    let record = turn.outcome().await.expect("a record");
    assert_eq!(record.outcome, bowline::Outcome::Cancelled);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_provider_without_servers_over_http_refuses_before_the_start() {
    let (tool, _) = weather();
    let task = |provider: &str| bowline::task("Hi").provider(provider).tool(tool.clone());
    for (provider, hint) in [("pi", None), ("glm", None), ("gemini", Some("set `format = acp`"))] {
        let Err(Error::Refused(refusal)) = task(provider).preview() else { panic!("{provider} takes it") };
        assert_eq!(refusal.setting().to_string(), "tools", "{provider}");
        assert_eq!(refusal.advice().as_deref(), hint, "{provider}");
    }
    let Err(Error::Refused(refusal)) = task("claude").docker("box").preview() else { panic!("a container") };
    assert_eq!(
        (refusal.setting().to_string().as_str(), refusal.advice().as_deref()),
        ("tools", Some("leave out `docker`"))
    );
    let Err(Error::Refused(refusal)) = task("claude").no_tools().preview() else { panic!("a contradiction") };
    assert_eq!(refusal.setting().to_string(), "no_tools");
    // With a server of the caller's own, that one may be what cannot be honoured.
    let server =
        bowline::McpServer::Http { url: "http://localhost/mcp".to_owned(), headers: Default::default() };
    let Err(Error::Refused(refusal)) = task("pi").mcp_server("own", server).preview() else {
        panic!("pi takes it")
    };
    assert_eq!(refusal.setting().to_string(), "mcp_servers");
    let shown = task("claude").preview().expect("a command");
    assert!(shown.files["mcp.json"].contains(r#""url":"http://127.0.0.1/mcp""#), "{:?}", shown.files);
    assert!(shown.files["mcp.json"].contains(r#""Authorization":"***""#), "{:?}", shown.files);
    let error = task("claude").tool(tool.clone()).preview().expect_err("two tools of one name");
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("two tools have the name `weather`", 2));
}
