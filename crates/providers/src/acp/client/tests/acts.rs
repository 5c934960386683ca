//! What a request for a permission would do, for the judge of policies.

use super::*;

#[test]
fn a_request_describes_what_its_tool_would_do() {
    use RequestedAct::{Shell, Tool, Write};
    let tool = |name: &str, input: Value| Tool { name: name.to_owned(), input };
    let shell = json!({ "command": "touch x", "description": "make it" });
    let table: [(Value, Vec<RequestedAct>); 5] = [
        // As Claude, Qwen and opencode send it, and Gemini, whose title is the command.
        (
            json!({ "kind": "execute", "name": "Bash", "title": "touch x", "rawInput": shell }),
            vec![tool("Bash", shell.clone())],
        ),
        (
            json!({ "kind": "execute", "title": "touch x (make it)", "rawInput": shell, "_meta": { "toolName": "run_shell_command" } }),
            vec![tool("run_shell_command", shell.clone())],
        ),
        (json!({ "kind": "execute", "title": "touch x" }), vec![Shell("touch x".to_owned())]),
        (
            json!({ "kind": "edit", "title": "Write a", "locations": [{ "path": "/a" }], "rawInput": { "content": "x" } }),
            vec![Write("/a".to_owned()), tool("Write a", json!({ "content": "x" }))],
        ),
        // An edit whose files nothing names is not described by its content.
        (json!({ "kind": "edit", "title": "Write", "rawInput": { "content": "x" } }), vec![]),
    ];
    for (mut call, expected) in table {
        call["toolCallId"] = json!("t1");
        let mut scene = Scene::of(&talk());
        scene.opened(&json!({ "sessionId": "s1" }));
        let params = json!({ "sessionId": "s1", "toolCall": call, "options": [] });
        scene.agent(&json!({ "id": 0, "method": "session/request_permission", "params": params }));
        assert_eq!(scene.awaited().acts, expected, "{call}");
    }
}
