//! `bowline providers`, `bowline dialects` and the version.

use crate::support::{object, show};

#[test]
fn tables_for_people() {
    insta::assert_snapshot!(show(&["providers"], ""), @r#"
exit 0
--- stdout
NAME        PROGRAM           FORMATS                                                     PROMPT    FROM      ALIASES
claude      claude            stream-json, json, json-verbose, stream-json-partial, text  stdin     built in  claude-code, claude-cli, anthropic-cli
codex       codex             stream-json, app-server, text                               stdin     built in  codex-cli, openai-codex
gemini      gemini            stream-json, json, text                                     stdin     built in  gemini-cli
qwen        qwen              text, json, stream-json, stream-json-partial                stdin     built in  qwen-code, qwen-cli
glm         ax-glm            stream-json, text                                           arg       built in  ax-glm
grok        ax-grok           stream-json, text                                           arg       built in  ax-grok
pi          pi                json, rpc, text                                             stdin     built in  pi-coding-agent, pi-cli
opencode    opencode          json, json-thinking, text                                   stdin     built in  opencode-ai, opencode-cli
copilot     copilot           json, json-whole, text                                      stdin     built in  copilot-cli, github-copilot, gh-copilot
grok-cli    grok              stream-json                                                 arg       built in  vibe-kit-grok
claude-acp  claude-agent-acp  acp                                                         protocol  built in  claude-agent-acp, claude-code-acp
codex-acp   codex-acp         acp                                                         protocol  built in
practice    bowline           stream-json, codex, gemini, json, pi, text                  stdin     built in
--- stderr
"#);
    insta::assert_snapshot!(show(&["dialects"], ""), @r#"
exit 0
--- stdout
NAME                 A TURN ENDS BY  DESCRIPTION
text                 eof             plain text: all of the output is the answer
json                 eof             one JSON object with the answer in a common field
stream-json          event           JSON lines in any of the forms of the adapter protocol
role-lines           eof             JSON lines with role and content, one message each, or plain text
claude               event           Claude Code: JSON lines, one JSON document or plain text, and its control lines
codex-exec           event           `codex exec`: JSON lines, those of older versions, or plain text
codex-app-server     event           `codex app-server`: JSON-RPC in both directions
gemini               event           Gemini CLI: JSON lines, one JSON object, or text
qwen                 event           Qwen Code: JSON lines in both shapes, one JSON array, or text; two-way
pi                   event           pi: JSON lines or text
pi-rpc               event           pi's two-way mode: commands, answers and events as JSON lines
opencode             eof             opencode: JSON lines or text
copilot              event           GitHub Copilot CLI: JSON lines or text
grok-cli             eof             grok-cli: JSON lines with role and content
acp                  event           the Agent Client Protocol, version 1, as JSON lines in both directions
pi-events            event           pi-style events (protocol A), as JSON lines or server-sent events
simple               eof             simple events (protocol B), as JSON lines or server-sent events
external-events      eof             protocol A or B, by the first line; exit code 0 ends the turn
executable-generate  event           the response of an executable provider's `generate`
executable-stream    event           the chunks of an executable provider's `stream`
--- stderr
"#);
}

#[test]
fn json_for_programs() {
    let providers = object(&["providers", "--json"], "");
    let first = &providers[0];
    assert_eq!(first["name"], "claude");
    for key in [
        "adapter_id",
        "adapter_version",
        "vendor",
        "signature",
        "models",
        "default_model",
        "max_tokens",
        "capabilities",
        "program",
        "prompt",
        "formats",
        "default_format",
        "aliases",
        "auth",
    ] {
        assert!(!first[key].is_null(), "{key}");
    }
    assert_eq!(first.get("timeout"), None, "an agent has no total limit by default");
    let dialects = object(&["dialects", "--json"], "");
    assert_eq!(dialects.as_array().map(Vec::len), Some(bowline_providers::dialects::ALL.len()));
    assert!(
        dialects
            .as_array()
            .into_iter()
            .flatten()
            .all(|entry| entry["terminal"] == "eof" || entry["terminal"] == "event")
    );
}

#[test]
fn the_version() {
    assert_eq!(
        show(&["--version"], ""),
        format!("exit 0\n--- stdout\nbowline {}\n--- stderr\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(show(&["version"], ""), show(&["--version"], ""));
}
