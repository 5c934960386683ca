//! The agent gets every option of a request through the manifest.

use bowline_protocol::{Attachment, Json, McpServer, PermissionMode, Request, Resume};
use bowline_providers::catalogue;
use bowline_providers::invocation::{Invocation, StdinPlan, Wish, build};
use serde_json::{Value, json};

use crate::support::{Agent, PROVIDER};

/// Builds the command for a request and passes its arguments to the agent, as the runtime does.
fn received(request: &Request, folder: Agent) -> Value {
    let manifest = catalogue::by_name(PROVIDER).expect("it is on the list");
    let invocation: Invocation = build(manifest, request, &Wish::default()).expect("nothing is refused");
    assert_eq!(invocation.program, "bowline");
    let mut agent = folder;
    for file in &invocation.files {
        agent = agent.file(&file.name, &file.content);
    }
    let args: Vec<String> = invocation.args.iter().map(|arg| arg.text(|name| name.to_owned())).collect();
    let (command, args) = args.split_first().expect("arguments");
    assert_eq!(command, bowline_practice::COMMAND);
    let StdinPlan::Prompt(prompt) = &invocation.stdin else { panic!("{:?}", invocation.stdin) };
    let ran = agent.only(args).stdin(prompt.clone().into_bytes()).run();
    assert_eq!(ran.exit, bowline_protocol::Exit::Code(0), "{}", ran.stderr);
    serde_json::from_str(&ran.text()).expect("what arrived, as JSON")
}

#[test]
fn every_option_of_a_request_arrives() {
    let folder = Agent::told("").file("x.png", "png");
    let image = folder.path("x.png").display().to_string();
    let server = McpServer::Stdio { command: "files".into(), args: vec![], env: [].into() };
    let request = Request {
        prompt: "practice: show".into(),
        model: Some("m".into()),
        effort: Some("high".into()),
        system_prompt: Some("- s".into()),
        append_system_prompt: Some("a".into()),
        max_turns: Some(3),
        max_cost_usd: Some(0.25),
        add_dirs: vec!["/tmp".into()],
        allow_tools: vec!["Bash".into()],
        deny_tools: vec!["Write".into()],
        mcp_servers: [("files".to_owned(), server)].into(),
        output_schema: Some(Json::parse(r#"{"type":"object"}"#).expect("JSON")),
        attachments: vec![Attachment { path: image.clone(), media_type: None }],
        permission: PermissionMode::Edit,
        ephemeral: true,
        isolate: true,
        ..Request::default()
    };
    let received = received(&request, folder);
    assert_eq!(received["prompt"], "practice: show");
    let expected = json!({"format": ["stream-json"], "permission": ["edit"], "model": ["m"], "effort": ["high"],
        "system-prompt": ["- s"], "append-system-prompt": ["a"], "max-turns": ["3"], "max-cost": ["0.25"],
        "add-dir": ["/tmp"], "allow-tool": ["Bash"], "deny-tool": ["Write"], "mcp-config": ["mcp.json"],
        "schema": ["schema.json"], "image": [image], "ephemeral": [], "isolate": []});
    assert_eq!(received["options"], expected);
    assert_eq!(received["schema"], json!({"type": "object"}));
    assert_eq!(received["mcp_servers"], json!(["files"]));
}

#[test]
fn a_session_is_resumed_through_the_manifest() {
    let request = |resume| Request { prompt: "practice: show".into(), resume, ..Request::default() };
    let folder = Agent::told("");
    let home = folder.path("home").display().to_string();
    let again = || Agent::told("").env("PRACTICE_HOME", &home);
    let first = received(&request(None), folder.again());
    let continued = received(&request(Some(Resume::Latest)), folder.again());
    assert_eq!((&continued["session"], &continued["resumed"]), (&first["session"], &json!(true)));
    let native_session = || first["session"].as_str().expect("an id").into();
    let resumed = received(&request(Some(Resume::Id { native_session: native_session() })), again());
    assert_eq!((&resumed["session"], &resumed["resumed"]), (&first["session"], &json!(true)));
    let forked = received(&request(Some(Resume::Fork { native_session: native_session() })), again());
    assert_ne!(forked["session"], first["session"]);
}
