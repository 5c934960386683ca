//! `bowline providers`, `bowline dialects` and the version.

use bowline_providers::catalogue;

use crate::support::{object, show};

/// Returns the output of a command with the rows of these names only, and the names of all rows.
fn table(command: &str, kept: &[&str]) -> (String, Vec<String>) {
    let shown = show(&[command], "");
    let (head, rest) = shown.split_once("NAME ").expect("a table");
    let (rows, end) = rest.split_once("--- stderr").expect("the end of the table");
    let first = |row: &str| row.split_whitespace().next().unwrap_or_default().to_owned();
    let names = rows.lines().skip(1).map(first).collect();
    let titles = rows.lines().take(1);
    let rows = rows.lines().skip(1).filter(|row| kept.contains(&&*first(row)));
    let rows: Vec<&str> = titles.chain(rows).collect();
    (format!("{head}NAME {}\n--- stderr{end}", rows.join("\n")), names)
}

#[test]
fn tables_for_people() {
    let (providers, names) = table("providers", &["claude", "glm", "grok-cli", "codex-acp", "practice"]);
    insta::assert_snapshot!(providers, @r#"
exit 0
--- stdout
NAME        PROGRAM           FORMATS                                                           PROMPT    FROM      ALIASES
claude      claude            stream-json, json, json-verbose, live, stream-json-partial, text  stdin     built in  claude-code, claude-cli, anthropic-cli
glm         ax-glm            stream-json, text                                                 arg       built in  ax-glm
grok-cli    grok              stream-json                                                       arg       built in  vibe-kit-grok
codex-acp   codex-acp         acp                                                               protocol  built in
practice    bowline           stream-json, acp, codex, gemini, json, pi, text                   stdin     built in
--- stderr
"#);
    let listed: Vec<&str> = catalogue::built_in().map(|manifest| &*manifest.name).collect();
    assert_eq!(names, listed);

    let (dialects, names) = table("dialects", &["text", "codex-exec", "opencode", "executable-stream"]);
    insta::assert_snapshot!(dialects, @r#"
exit 0
--- stdout
NAME                 A TURN ENDS BY  DESCRIPTION
text                 eof             plain text: all of the output is the answer
codex-exec           event           `codex exec`: JSON lines, those of older versions, or plain text
opencode             eof             opencode: JSON lines or text
executable-stream    event           the chunks of an executable provider's `stream`
--- stderr
"#);
    let listed: Vec<&str> = bowline_providers::dialects::ALL.iter().map(|entry| entry.name).collect();
    assert_eq!(names, listed);
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
