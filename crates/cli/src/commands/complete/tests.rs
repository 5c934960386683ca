//! Completions against the built-in manifests.

use super::*;

/// Returns the candidates for a line whose last word is being typed.
fn of(line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    candidates(&words).into_iter().map(|(word, _)| word).collect()
}

#[test]
fn commands_options_and_their_values_are_known() {
    assert_eq!(of("se"), ["send", "set", "sessions"]);
    assert!(of("").contains(&"run".to_owned()) && !of("").contains(&"__complete".to_owned()));
    assert_eq!(of("config s"), ["show", "set"]);
    assert_eq!(of("run --max-t"), ["--max-turns", "--max-tokens", "--max-time"]);
    assert_eq!(of("run --permission e"), ["edit"]);
    assert_eq!(of("run hello --permission=y"), ["--permission=yolo"]);
    assert_eq!(of("run --permission = y"), ["yolo"]);
    assert_eq!(of("config set route.fallback n"), ["none", "next"]);
    assert_eq!(of("config get run.pro"), ["run.provider"]);
    assert_eq!(of("completions fi"), ["fish"]);
    assert!(of("run --nonsense x").is_empty());
}

#[test]
fn providers_are_completed_wherever_one_is_meant() {
    for line in
        ["run -p cl", "run --provider cl", "doctor codex cl", "models cl", "certify cl", "run -v -p cl"]
    {
        assert_eq!(of(line), ["claude", "claude-acp"], "{line}");
    }
    assert_eq!(of("run -p codex,ge"), ["codex,gemini"]);
    assert_eq!(of("run -p au"), ["auto"]);
    assert!(of("doctor au").is_empty());
    assert_eq!(of("run -p claude -m op"), ["opus"]);
    assert_eq!(of("models claude --pro"), ["--profile"]);
    assert_eq!(of("provide claude st"), ["stream"]);
    assert_eq!(of("config set run.provider cop"), ["copilot"]);
}
