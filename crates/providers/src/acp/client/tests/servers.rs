//! MCP servers and directories of a session.

use bowline_protocol::McpServer;

use super::*;

#[test]
fn servers_and_directories_are_told_when_the_session_opens() {
    let stdio = McpServer::Stdio {
        command: "knots".into(),
        args: vec!["--all".into()],
        env: [("K".to_owned(), "v".to_owned())].into(),
    };
    let mcp_servers = [("knots".to_owned(), stdio)].into();
    let mut scene = Scene::of(&Conversation { mcp_servers, add_dirs: vec!["/lib".into()], ..talk() });
    let hello = scene.said();
    let able = json!({ "sessionCapabilities": { "additionalDirectories": {} } });
    scene.answers(&hello, &json!({ "agentCapabilities": able }));
    let expected = json!({
        "cwd": "/src/boat",
        "mcpServers": [{ "name": "knots", "command": "knots", "args": ["--all"], "env": [{ "name": "K", "value": "v" }] }],
        "additionalDirectories": ["/lib"],
    });
    assert_eq!(scene.said()["params"], expected);
}

#[test]
fn an_agent_without_servers_over_http_is_not_sent_a_prompt() {
    let http = McpServer::Http {
        url: "http://127.0.0.1:1/mcp".into(),
        headers: [("Authorization".to_owned(), "Bearer t".to_owned())].into(),
    };
    let talk = Conversation { mcp_servers: [("bowline".to_owned(), http)].into(), ..talk() };
    for able in [json!({}), json!({ "mcpCapabilities": { "http": false, "sse": true } })] {
        let mut scene = Scene::of(&talk);
        let hello = scene.said();
        scene.answers(&hello, &json!({ "agentCapabilities": able }));
        assert_eq!(scene.outcome(), (Outcome::Failed, Some(Code::Unsupported)), "{able}");
    }
    let mut scene = Scene::of(&talk);
    let hello = scene.said();
    scene.answers(&hello, &json!({ "agentCapabilities": { "mcpCapabilities": { "http": true } } }));
    let expected = json!([{
        "type": "http", "name": "bowline", "url": "http://127.0.0.1:1/mcp",
        "headers": [{ "name": "Authorization", "value": "Bearer t" }],
    }]);
    assert_eq!(scene.said()["params"]["mcpServers"], expected);
}
