//! Versions as programs print them, and their order.

use super::*;

fn answer(stdout: &str, stderr: &str, code: Option<i32>) -> Answer {
    Answer { stdout: stdout.into(), stderr: stderr.into(), code }
}

fn found(stdout: &str, stderr: &str, code: Option<i32>) -> Option<String> {
    Version::find(&answer(stdout, stderr, code)).map(|version| version.to_string())
}

#[test]
fn the_order_is_that_of_releases() {
    let ascending = [
        "0.9",
        "0.10.0-alpha",
        "0.10.0-alpha.2",
        "0.10.0-alpha.10",
        "0.10.0-beta",
        "0.10.0-rc9",
        "0.10.0-rc10",
        "0.10.0",
        "0.10.0.1",
        "1.0.0-nightly.20261115.abcdef0",
        "1.0.0",
        "2025.9.4-fc40cd1",
        "2025.09.04-2",
        "2026.11.14",
        "2026-11-15",
        "2026.11.15.1",
        "20261116",
    ];
    let parse = |text: &str| Version::parse(text).unwrap_or_else(|| panic!("{text} is a version"));
    for pair in ascending.windows(2) {
        assert!(parse(pair[0]) < parse(pair[1]), "{pair:?}");
    }
    for (one, other) in [
        ("1.2", "v1.2.0"),
        ("2026.11.15", "2026-11-15"),
        ("2026.1.5-abc1234", "2026.01.05"),
        ("1.0+a", "1.0+b"),
    ] {
        assert_eq!(Version::parse(one), Version::parse(other), "{one} {other}");
    }
}

#[test]
fn what_is_no_version_is_none() {
    for text in [
        "",
        "v",
        "1.",
        ".1",
        "1..2",
        "1.2-",
        "1.2.3/4",
        "a.b",
        "1.2.3.4.5.6.7",
        "1.2 3",
        "99999999999999999999",
    ] {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

#[test]
fn it_is_found_among_other_words() {
    for (stdout, stderr, code, expected) in [
        ("2.1.325 (Claude Code)\n", "", Some(0), Some("2.1.325")),
        ("codex-cli 0.166.0\n", "", Some(0), Some("0.166.0")),
        (
            "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n",
            "",
            Some(0),
            Some("1.0.102"),
        ),
        ("", "0.74.2\n", Some(0), Some("0.74.2")),
        ("v1.2.3\n", "", Some(0), Some("1.2.3")),
        (
            "\u{1b}[1mtool\u{1b}[0m version 3.1.4-rc.1 (commit 1234567, built 2026-11-01)\n",
            "",
            Some(0),
            Some("3.1.4-rc.1"),
        ),
        ("tool/0.4.1 linux-x64 node-v22.1.0\n", "", Some(0), Some("0.4.1")),
        ("@scope/tool@2.0.0\n", "", Some(0), Some("2.0.0")),
        ("2025.09.04-fc40cd1\n", "", Some(0), Some("2025.09.04-fc40cd1")),
        ("agent 2026-11-15\n", "", Some(0), Some("2026-11-15")),
        ("Tool version: 7\n", "", Some(0), Some("7")),
        // Other programs and newer releases are not meant.
        ("(node:7) Warning: Node v20.20.2 is deprecated\n0.24.4\n", "", Some(0), Some("0.24.4")),
        ("Update available: 1.3.0 (you have 1.2.0)\n1.2.0\n", "", Some(0), Some("1.2.0")),
        (
            "listens on http://127.0.0.1:4096/1.2\nTool 5.6.7, running on Node.js 22.1.0\n",
            "",
            Some(0),
            Some("5.6.7"),
        ),
        ("Tool 5.6.7\n", "npm warn requires node >=22.0.0\n", Some(0), Some("5.6.7")),
        // It failed, and yet told.
        ("tool 1.2.3\n", "", Some(1), Some("1.2.3")),
        ("", "tool version 1.2.3\n", Some(1), Some("1.2.3")),
        ("", "1.2.3\n", None, Some("1.2.3")),
        ("", "error: unknown option --version, see docs 4.5.6\n", Some(2), None),
        ("", "cannot be run with node 18.0.1\n", Some(1), None),
        ("hello\n", "", Some(0), None),
        ("42 files\n", "", Some(0), None),
        ("", "", Some(0), None),
    ] {
        assert_eq!(found(stdout, stderr, code).as_deref(), expected, "{stdout:?} {stderr:?}");
    }
}
