//! INV-CLI-PARSE-003: error classification coverage. The tables are beside the classifier; here, whole runs.

use crate::support::Run;

fn failure(run: &Run<'_>) -> (String, String) {
    let summary = run.summary();
    let field = |name: &str| summary["failure"][name].as_str().unwrap_or_default().to_owned();
    (field("category"), field("code"))
}

#[test]
fn the_fixtures_of_the_protocol() {
    for (stderr, category) in [
        ("rate_limit_exceeded - Too many requests. Please retry after 30 seconds.", "rate_limit"),
        ("Error: RESOURCE_EXHAUSTED: Quota exceeded for requests", "quota"),
        ("Request timed out after 120000ms", "timeout"),
    ] {
        assert_eq!(failure(&Run::of("text", "").exit(1).stderr(stderr)).0, category, "{stderr}");
    }
}

#[test]
fn the_verdict_of_the_program_comes_before_its_stderr() {
    let output = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"quota_exceeded\"}}\n";
    let run = Run::of("stream-json", output).exit(1).stderr("connect ECONNREFUSED");
    assert_eq!(failure(&run).0, "quota");
}

#[test]
fn errors_on_stdout_are_joined_and_come_before_stderr() {
    let output = "{\"type\":\"error\",\"message\":\"invalid_api_key\"}\n{\"type\":\"error\",\"message\":\"invalid_api_key\"}\n{\"type\":\"error\",\"error\":{\"message\":\"gone\"}}\n";
    let run = Run::of("stream-json", output).exit(1).stderr("warning: 503 somewhere");
    assert_eq!(failure(&run).0, "authentication");
    assert_eq!(run.summary()["failure"]["message"], "invalid_api_key; gone");
}

#[test]
fn an_error_that_was_overcome_is_no_failure() {
    let output = "{\"type\":\"error\",\"message\":\"Reconnecting... 1/5\"}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"ok\"}}\n{\"type\":\"turn.completed\"}\n";
    let run = Run::of("stream-json", output);
    assert_eq!((run.outcome().as_str(), run.text().as_str()), ("completed", "ok"));
    assert!(run.summary()["failure"].is_null());
}

#[test]
fn the_exit_code_and_the_signal_come_last() {
    assert_eq!(failure(&Run::of("text", "").exit(127)), ("not_found".into(), "not_installed".into()));
    assert_eq!(failure(&Run::of("text", "").signal(15)), ("timeout".into(), "killed".into()));
    assert_eq!(failure(&Run::of("text", "").signal(11)), ("unknown".into(), "crashed".into()));
    assert_eq!(Run::of("text", "half").signal(2).outcome(), "cancelled");
    assert_eq!(failure(&Run::of("text", "").exit(9)), ("unknown".into(), "unknown".into()));
}

#[test]
fn a_changed_program_is_named_as_such() {
    let refused = Run::of("text", "").exit(2).stderr("error: unexpected argument '--full-auto' found");
    assert_eq!(failure(&refused), ("configuration".into(), "flag_rejected".into()));
    let changed = Run::of("stream-json", "Welcome to v9!\nYour answer: 42\n");
    assert_eq!(failure(&changed), ("unknown".into(), "format_changed".into()));
    for run in [refused, changed] {
        assert!(run.summary()["failure"]["hint"].as_str().expect("a next step").contains("bowline certify"));
    }
}
