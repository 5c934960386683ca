//! The command that explains error texts: `bowline classify`.

use serde_json::{Value, json};

use crate::support::{object, show};

#[test]
fn the_object_has_every_key_in_order() {
    insta::assert_snapshot!(show(&["classify"], "rate_limit_exceeded - Too many requests. Please retry after 30 seconds.\n"), @r#"
exit 0
--- stdout
{"category":"rate_limit","code":"rate_limited","message":"rate_limit_exceeded - Too many requests. Please retry after 30 seconds.","retry":true,"fallback":false,"retry_after_ms":30000,"resets_at":null}
--- stderr
"#);
}

#[test]
fn times_are_read_with_the_given_present() {
    let classify = |now: &str, text: &str| object(&["classify", "--now", now], text);
    for (text, resets) in [
        ("You've hit your 5-hour limit · resets 9:45am (UTC)", "2026-11-15T09:45:00Z"),
        ("Claude AI usage limit reached|1766502000", "2025-12-23T15:00:00Z"),
        (
            "You’ve hit your usage limit. Upgrade or try again at May 18th, 2033 3:33 AM.",
            "2033-05-18T03:33:00Z",
        ),
        ("usage limit, {\"resetsAt\":1794735906}", "2026-11-15T09:45:06Z"),
    ] {
        let failure = classify("2026-11-15T08:00:00Z", text);
        assert_eq!(
            (&failure["category"], &failure["resets_at"]),
            (&json!("quota"), &json!(resets)),
            "{text}"
        );
    }
    let elsewhere = classify("2026-11-15T10:00:00+02:00", "usage limit: try again at May 18th, 2033 3:33 AM");
    assert_eq!(
        elsewhere["resets_at"], "2033-05-18T01:33:00Z",
        "a time without a zone is in the zone of --now"
    );
}

#[test]
fn the_end_of_the_process_is_the_last_resort() {
    for (args, text, category, code) in [
        (&["--exit-code", "127"][..], "", "not_found", "not_installed"),
        (&["--signal", "KILL"], "", "timeout", "killed"),
        (&["--timed-out"], "Error: 401", "timeout", "timed_out"),
        (&["--exit-code", "1"], "Error: 401", "authentication", "invalid_credentials"),
        (&[], "", "unknown", "unknown"),
    ] {
        let failure = object(&[&["classify"], args].concat(), text);
        assert_eq!(
            (&failure["category"], &failure["code"]),
            (&json!(category), &json!(code)),
            "{args:?} {text}"
        );
    }
}

#[test]
fn a_refused_flag_names_the_command_that_shows_what_changed() {
    let text = "error: unexpected argument '--instructions' found";
    let failure = object(&["classify", "--provider", "codex", "--exit-code", "2"], text);
    assert_eq!(failure["code"], "flag_rejected");
    assert!(failure["hint"].as_str().is_some_and(|hint| hint.contains("`bowline certify codex`")));
}

#[test]
fn a_very_long_error_text_is_judged_by_its_end() {
    let mut text = "noise\n".repeat(1_000_000);
    text.push_str("Error: 503 Service Unavailable");
    assert_eq!(object(&["classify"], text)["category"], Value::from("server"));
}
