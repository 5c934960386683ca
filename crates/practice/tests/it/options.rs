//! Options arrive, and the agent honours them.

use bowline_protocol::Exit;
use serde_json::{Value, json};

use crate::support::{Agent, FORMATS};

fn shown(agent: &Agent) -> Value {
    let ran = agent.run();
    assert_eq!(ran.exit, Exit::Code(0), "{}", ran.stderr);
    serde_json::from_str(&ran.text()).expect("what arrived, as JSON")
}

#[test]
fn every_option_arrives() {
    let agent = Agent::plays("show").file("a.png", "png").file("s.txt", "be kind");
    let schema = json!({"type": "object"}).to_string();
    let servers = json!({"mcpServers": {"files": {"command": "x"}}}).to_string();
    let agent = agent
        .args(["--model", "m", "--effort", "high", "--system-prompt", "s", "--append-system-prompt", "a"])
        .args(["--schema", &schema, "--mcp-config", &servers, "--image", "a.png", "--add-dir", "/tmp"])
        .args(["--permission", "edit", "--allow-tool", "Bash", "--deny-tool", "Write", "--deny-tool", "Read"])
        .args(["--max-turns", "9", "--max-cost", "1.5", "--session-id", "mine", "--ephemeral", "--isolate"])
        .args(["--system-prompt-file", "s.txt", "--append-system-prompt-file", "s.txt"])
        .env("PRACTICE_SETTING", "1")
        .env("OTHER", "secret");
    let shown = shown(&agent);
    let options = &shown["options"];
    assert_eq!(
        *options,
        json!({"format": ["stream-json"], "pace": ["0"], "model": ["m"], "effort": ["high"],
            "system-prompt": ["s"], "append-system-prompt": ["a"], "schema": [schema], "mcp-config": [servers],
            "image": ["a.png"], "add-dir": ["/tmp"], "permission": ["edit"], "allow-tool": ["Bash"],
            "deny-tool": ["Write", "Read"], "max-turns": ["9"], "max-cost": ["1.5"], "session-id": ["mine"],
            "ephemeral": [], "isolate": [], "system-prompt-file": ["s.txt"],
            "append-system-prompt-file": ["s.txt"]})
    );
    assert_eq!((&shown["session"], &shown["permission"]), (&json!("mine"), &json!("edit")));
    assert_eq!(shown["mcp_servers"], json!(["files"]));
    assert_eq!(shown["prompt"], "practice: show");
    assert_eq!(shown["env"]["PRACTICE_SETTING"], "1");
    assert_eq!(shown["env"].get("OTHER"), None, "values that may be secret are not told");
    assert!(shown["env_names"].as_array().expect("names").contains(&json!("OTHER")));
    assert!(!agent.path("home").exists(), "an ephemeral session is not remembered");
}

#[test]
fn in_every_format_what_arrived_is_shown() {
    for format in FORMATS {
        assert_eq!(shown(&Agent::plays("show").format(format))["format"], *format);
    }
}

#[test]
fn a_session_goes_on_where_it_was() {
    let first = Agent::plays("show");
    let home = first.path("home").display().to_string();
    let id = shown(&first)["session"].as_str().expect("an id").to_owned();
    let again = |args: &[&str]| {
        let mut agent = Agent::plays("show").env("PRACTICE_HOME", &home);
        for arg in args {
            agent = agent.args([arg]);
        }
        agent
    };
    let resumed = shown(&again(&["--resume", &id]));
    assert_eq!((&resumed["session"], &resumed["resumed"]), (&json!(id), &json!(true)));
    assert_eq!(resumed["earlier_turns"], 1);
    let forked = shown(&again(&["--resume", &id, "--fork"]));
    assert_ne!(forked["session"], json!(id));
    assert_eq!(forked["earlier_turns"], 2);
    let missing = again(&["--resume", "unknown"]).run();
    assert_eq!(missing.exit, Exit::Code(1));
    assert_eq!(missing.stderr, "No conversation found with session ID: unknown\n");
    let elsewhere = again(&["--continue"]).run();
    assert_eq!((elsewhere.exit, elsewhere.outcome().as_str()), (Exit::Code(1), "failed"));

    let here = Agent::plays("show").args(["--session-id", "here"]);
    shown(&here);
    let continued = shown(&here.args(["--continue"]));
    assert_eq!((&continued["session"], &continued["earlier_turns"]), (&json!("here"), &json!(1)));
}

#[test]
fn limits_end_the_turn() {
    for (args, code) in [(["--max-turns", "2"], "max_turns"), (["--max-cost", "0.012"], "budget")] {
        let ran = Agent::told("Go.").args(args).run();
        let summary = ran.summary();
        assert_eq!((ran.exit, &summary["outcome"]), (Exit::Code(1), &json!("failed")), "{args:?}");
        let failure = summary["failure"].to_string();
        assert!(failure.contains("Reached maximum"), "{code}: {failure}");
        assert_eq!(ran.unrecognized(), [""; 0]);
    }
    assert_eq!(Agent::told("Go.").args(["--max-turns", "9", "--max-cost", "9"]).run().outcome(), "completed");
}

#[test]
fn with_a_schema_the_answer_is_json_of_it() {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    for format in FORMATS {
        let agent = Agent::told("Go.").format(format).args(["--schema", "s.json"]);
        let ran = agent.file("s.json", &schema.to_string()).run();
        let text = ran.text();
        let last = text.lines().next_back().expect("a line");
        assert_eq!(last, r#"{"name":"practice"}"#, "{format}");
    }
}

#[test]
fn mistakes_are_told_and_are_of_usage() {
    for (args, message) in [
        (["--schema", "{"], "--schema \"{\" is not JSON"),
        (["--schema", "nowhere.json"], "could not read --schema `nowhere.json`"),
        (["--mcp-config", "{}"], "has no object `mcpServers`"),
        (["--script", "nowhere"], "could not read `nowhere`"),
        (["--format", "xml"], "it is one of stream-json, json, text, codex, gemini, pi"),
    ] {
        let agent = if args[0] == "--format" {
            Agent::told("Go.").format(args[1])
        } else {
            Agent::told("Go.").args(args)
        };
        let ran = agent.run();
        assert_eq!(ran.exit, Exit::Code(2), "{args:?}");
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
    let ran = Agent::told("  \n").run();
    assert_eq!(ran.exit, Exit::Code(2));
    assert!(ran.stderr.contains("the prompt is empty"), "{}", ran.stderr);
}

#[test]
fn the_prompt_may_be_an_argument() {
    let ran = Agent::told("").args(["practice: say Hello"]).run();
    assert_eq!(ran.text(), "Hello");
}
