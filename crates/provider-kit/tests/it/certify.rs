//! The templates of `bowline provider new` pass the suite, and a program that breaks one promise fails in one cell.

use std::path::Path;

use bowline_provider::templates;
use bowline_testkit::skip;

use crate::support::{Program, block_on, red, report};

fn passes(program: &Path) {
    let report = block_on(report(program, &[], &[]));
    assert!(report.holds(), "{:#?}", red(&report));
}

#[test]
fn the_beginning_in_rust_passes() {
    let own = std::env::current_exe().expect("this test");
    let built = own.parent().and_then(|deps| deps.parent()).expect("a target directory");
    let example = built.join("examples/minimal-provider");
    assert!(example.exists(), "`{}` is built with the tests", example.display());
    passes(&example);
}

#[test]
fn the_beginning_in_python_passes() {
    if !std::env::split_paths(&path()).any(|dir| dir.join("python3").exists()) {
        return skip("the_beginning_in_python_passes", "there is no python3 here");
    }
    passes(&Program::new(templates::PYTHON).path);
}

#[expect(clippy::disallowed_methods, reason = "a test process is an edge")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

#[test]
fn the_beginning_in_shell_passes() {
    passes(&Program::new(templates::SH).path);
}

/// Changes the shell template so that it breaks a promise, and compares the red cells.
#[track_caller]
fn breaks(from: &str, to: &str, expected: &[&str], evidence: &str) {
    assert!(templates::SH.contains(from), "the beginning in shell has no {from:?}");
    let program = Program::new(&templates::SH.replacen(from, to, 1));
    let red = red(&block_on(report(&program.path, &[], &[])));
    assert_eq!(red.keys().map(String::as_str).collect::<Vec<_>>(), expected, "{red:#?}");
    let told = red.values().flatten().any(|line| line.contains(evidence));
    assert!(told, "the evidence says {evidence:?}: {red:#?}");
}

#[test]
fn an_answer_without_a_field() {
    breaks(r#""model":"%s""#, r#""modle":"%s""#, &["generate"], "`model` is missing");
}

#[test]
fn an_unknown_finish_reason() {
    breaks(r#""finish_reason":"stop""#, r#""finish_reason":"tired""#, &["generate"], "\"tired\"");
}

#[test]
fn a_chunk_without_a_field() {
    breaks(r#""timestamp":"#, r#""time":"#, &["stream"], "`timestamp` is missing");
}

#[test]
fn a_stream_in_one_piece() {
    let once = "piece \"You said: $prompt\"";
    breaks("piece 'You said: '\n    piece \"$prompt\"", once, &["streams"], "in 1 chunk with text");
}

#[test]
fn a_stream_that_waits_for_its_end() {
    breaks(
        "piece 'You said: '\n",
        "sleep 1.5\n    piece 'You said: '\n",
        &["streams"],
        "all text arrived at the end",
    );
}

#[test]
fn content_that_does_not_grow() {
    breaks(
        "\"$content\" \"$1\" \"$2\"",
        "\"$1\" \"$1\" \"$2\"",
        &["content-delta"],
        "the `delta`s so far are",
    );
}

#[test]
fn two_last_chunks() {
    let twice = "chunk '' true\n        chunk '' true";
    breaks("chunk '' true", twice, &["done-once"], "these are `done`: [3, 4]");
}

#[test]
fn no_last_chunk() {
    breaks("chunk '' true", "chunk '' false", &["done-once"], "is `done`");
}

#[test]
fn health_that_takes_too_long() {
    breaks("    echo OK\n", "    sleep 9\n    echo OK\n", &["health"], "did not finish within 5 s");
}

#[test]
fn health_that_is_none() {
    breaks("    echo OK\n", "    echo no >&2\n    return 3\n", &["health"], "exit code 3");
}

#[test]
fn an_unknown_command_that_succeeds() {
    breaks(
        "known\" >&2\n    exit 2",
        "known\" >&2\n    exit 0",
        &["unknown-command"],
        "reported success with exit code 0",
    );
}

#[test]
fn bad_json_that_succeeds() {
    breaks(
        "request=$(read_request) || exit 2",
        "request=$(read_request) || exit 0",
        &["bad-json"],
        "reported success with exit code 0",
    );
}

#[test]
fn bad_json_without_a_reason() {
    let silent = "request=$(read_request 2>/dev/null) || exit 2";
    breaks("request=$(read_request) || exit 2", silent, &["bad-json"], "standard error has no reason");
}

#[test]
fn an_empty_prompt_that_fails_in_silence() {
    breaks(
        "    content=\n",
        "    content=\n    [ -n \"$prompt\" ] || exit 1\n",
        &["empty-prompt"],
        "no reason",
    );
}

#[test]
fn letters_that_are_cut_in_two() {
    let cut = "    content=\n    prompt=$(printf %s \"$prompt\" | tr -d '\\200-\\277')\n";
    breaks("    content=\n", cut, &["unicode"], "not UTF-8");
}

#[test]
fn a_large_prompt_that_kills() {
    let kill = "    content=\n    [ ${#prompt} -lt 100000 ] || kill -9 $$\n";
    breaks("    content=\n", kill, &["large-prompt"], "signal 9");
}

#[test]
fn metadata_that_is_refused() {
    let refuse =
        "if (\"metadata.task_id\" in found) refuse(\"no metadata, please\")\n        print found[\"prompt\"]";
    breaks("print found[\"prompt\"]", refuse, &["context"], "no metadata, please");
}

#[test]
fn an_unknown_field_that_is_refused() {
    let refuse = "if (\"x_later\" in found) refuse(\"unknown field\")\n        print found[\"prompt\"]";
    breaks("print found[\"prompt\"]", refuse, &["unknown-fields"], "unknown field");
}

#[test]
fn a_program_that_does_not_want_to_end() {
    let stays = "trap '' TERM\n    piece 'You said: '\n    if [ \"$command\" = stream ]; then sleep 4; fi\n";
    breaks("piece 'You said: '\n", stays, &["ends-when-asked"], "2 s after SIGTERM");
}

#[test]
fn a_process_that_stays_behind() {
    let leaves = "piece 'You said: '\n    sleep 60 >/dev/null 2>&1 </dev/null &\n";
    breaks("piece 'You said: '\n", leaves, &["leaves-nothing"], "sleep 60");
}
