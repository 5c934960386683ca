//! `bowline providers`, `bowline dialects`, help and the version.

use crate::support::{object, show};

#[test]
fn tables_for_people() {
    insta::assert_snapshot!(show(&["providers"], ""), @r#"
exit 0
--- stdout
NAME        PROGRAM           FORMATS                                                     PROMPT    FROM      ALSO CALLED
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
NAME                 A TURN ENDS BY  WHAT IT IS
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
external-events      eof             either of the two: the first line tells which; exit code 0 ends the turn
executable-generate  event           the answer of an executable provider's `generate`
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
fn help_and_version() {
    insta::assert_snapshot!(show(&["--help"], ""), @r#"
exit 0
--- stdout
One contract for every coding-agent command line

Usage: bowline [COMMAND]

Commands:
  run          Let an agent do something, and watch it
  route        Say which agent would be asked, why, and what would follow a failure
  sessions     List the sessions that run, whoever started them
  stop         End sessions that run: by name, by key, or all
  demo         See a run from beginning to end, without any agent or network
  config       Show and change settings
  init         Write a file of settings to begin with
  trust        Show what this project's files would run, and trust them as they are
  prices       Show what models cost, as far as Bowline knows
  decode       Turn what an agent printed into events, or into another format
  classify     Say what kind of failure an error text is, and what may be done about it
  simulate     Serve fake model APIs on loopback, for trying agents without an account
  certify      Try on an agent program, offline, everything that is promised about it
  doctor       Say which agents are here, what each can do, and what helps where something is wrong
  models       List the models that an agent offers
  limits       Say how much of an account's limits is used, and until when
  providers    List the providers
  provide      Be an executable provider: let an agent answer `generate`, `stream` and `health`
  provider     Ask an executable provider whether it is well, or begin a new one
  dialects     List the dialects
  completions  Print a script that completes commands in a shell
  man          Print the manual page
  version      Print the version
  help         Print this message or the help of the given subcommand(s)

Options:
  -h, --help     Print help
  -V, --version  Print version

Exit codes: 0 done, 1 the agent failed, 2 usage, 3 configuration, 4 provider missing or not logged
in, 5 budget or policy, 70 our own fault, 124 timed out, 130 cancelled, 141 the reader of a run
closed stdout, 143 terminated.
--- stderr
"#);
    insta::assert_snapshot!(show(&["decode", "--help"], ""), @r#"
exit 0
--- stdout
Turn what an agent printed into events, or into another format

Usage: bowline decode [OPTIONS] [FILE]

Arguments:
  [FILE]  What the agent wrote to standard output; `-` or nothing means our own standard input

Options:
      --dialect <NAME>   How the output is to be read (`bowline dialects` lists them)
      --provider <NAME>  Whose output it is (`bowline providers` lists them)
      --format <NAME>    Which of the provider's formats it is in; without it, the output shows it
      --view <NAME>      What to print: events, text, summary, pi, pi-partials, simple, chunks,
                         generate, stream-events, provider-events [default: events]
      --exit-code <N>    The agent's exit code; a negative one is a signal
      --signal <SIGNAL>  The signal that ended the agent, such as TERM or 15
      --stderr <FILE>    A file with what the agent wrote to standard error
      --now <TIME>       The time to take for the present, such as 2026-11-15T08:00:00Z
  -h, --help             Print help

Examples:
  bowline decode --dialect stream-json --view text answer.jsonl
  my-agent --json | bowline decode --dialect simple --view summary
  bowline decode --provider NAME --format json --exit-code 1 out.json
--- stderr
"#);
    insta::assert_snapshot!(show(&["classify", "--help"], ""), @r#"
exit 0
--- stdout
Say what kind of failure an error text is, and what may be done about it

Usage: bowline classify [OPTIONS] [FILE]

Arguments:
  [FILE]  The error text; `-` or nothing means our own standard input

Options:
      --provider <NAME>  Whose error it is (`bowline providers` lists them)
      --exit-code <N>    The agent's exit code; a negative one is a signal
      --signal <SIGNAL>  The signal that ended the agent, such as TERM or 15
      --timed-out        Our own deadline ended the run
      --now <TIME>       The time to take for the present, such as 2026-11-15T08:00:00Z
  -h, --help             Print help

Examples:
  echo 'Too many requests. Retry after 30 seconds.' | bowline classify
  bowline classify --exit-code 1 stderr.txt
--- stderr
"#);
    assert_eq!(
        show(&["--version"], ""),
        format!("exit 0\n--- stdout\nbowline {}\n--- stderr\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn help_is_there_however_it_is_asked_for() {
    let page = show(&["--help"], "");
    // As `cargo` and `gh` do: no command is no mistake.
    assert_eq!(show(&[], ""), page);
    assert_eq!(show(&["help"], ""), page);
    assert_eq!(show(&["help", "run"], ""), show(&["run", "--help"], ""));
    assert_eq!(show(&["version"], ""), show(&["--version"], ""));
}
