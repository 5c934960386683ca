//! The checks, run by property tests and over the seeds of the fuzz targets.
//!
//! A fuzz run finds inputs; this suite keeps them: an input that once broke a promise goes into `fuzz/seeds` and is checked here
//! on every run, without the fuzzer.

mod growth;
mod programs;
mod work;

use std::path::{Path, PathBuf};

use bowline_protocol::Exit;
use bowline_providers::dialect::Framing;
use bowline_providers::dialects;
use bowline_testkit::{
    Case, Chunking, check_classify, check_decode, check_framing, check_terminal_text, check_usage, check_wire,
};
use proptest::prelude::*;

/// How many ways of chunking each seed is tried with.
const WAYS: u64 = 8;

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in std::fs::read_dir(folder).expect("the seeds are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                let bytes = std::fs::read(&path).expect("a seed can be read");
                found.push((path, bytes));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target), &mut found);
    found
}

/// Decodes an output whole, and cut off after each of its lines.
fn check_output(dialect: &str, stdout: &[u8]) {
    let entry = dialects::by_name(dialect).expect("a dialect of the list");
    let cuts = (0..=stdout.len()).filter(|at| *at == stdout.len() || stdout[*at] == b'\n');
    for (stdout, seed) in cuts.flat_map(|cut| (0..WAYS).map(move |seed| (&stdout[..cut], seed))) {
        let (chunking, end) = (Chunking::new(seed), Default::default());
        let case = Case { entry, chunking, end, stdout, stderr: b"warning: be careful\n" };
        check_decode(&case);
        check_wire(&case);
    }
}

#[test]
fn every_seed_decodes_in_its_dialect_and_in_every_other() {
    for (_, bytes) in seeds("decode") {
        dialects::ALL.iter().for_each(|entry| check_output(entry.name, &bytes));
    }
}

#[test]
fn every_dialect_has_a_seed() {
    for entry in dialects::ALL {
        let folder = Path::new("seeds/decode").join(entry.name);
        let has =
            seeds("decode").iter().any(|(path, _)| path.parent().is_some_and(|path| path.ends_with(&folder)));
        assert!(has, "add an example of `{}` to fuzz/{}", entry.name, folder.display());
    }
}

#[test]
fn every_seed_is_framed_and_shown() {
    for (_, bytes) in ["decode", "framing", "classify"].into_iter().flat_map(seeds) {
        for (framing, seed) in
            FRAMINGS.into_iter().flat_map(|framing| (0..WAYS).map(move |seed| (framing, seed)))
        {
            check_framing(framing, 16, &bytes, Chunking::new(seed));
            check_framing(framing, 1 << 20, &bytes, Chunking::new(seed));
        }
        let text = String::from_utf8_lossy(&bytes);
        check_terminal_text(&text);
        check_classify(&text, Some(Exit::Code(1)), false);
    }
}

const FRAMINGS: [Framing; 3] = [Framing::Lines, Framing::LinesOrEvents, Framing::Document];

/// Output that is almost right: lines of JSON from the words that dialects look for, with some noise.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "content",
        "text",
        "assistant",
        "user",
        "message",
        "message_start",
        "message_update",
        "message_end",
        "agent_end",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "item.completed",
        "result",
        "error",
        "done",
        "tool_call",
        "",
    ]);
    let key = prop::sample::select(vec![
        "type", "role", "content", "text", "delta", "message", "item", "usage", "error", "done", "result",
        "id", "model",
    ]);
    let leaf = prop_oneof![
        word.prop_map(serde_json::Value::from),
        any::<u32>().prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        "[a-z\u{1b}\n\u{9b}é]{0,6}".prop_map(serde_json::Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(serde_json::Value::from_iter),
        ]
    });
    let line = prop_oneof![
        4 => value.prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join(&b'\n'))
}

proptest! {
    // Nothing is written beside the tests: to keep a failure, add it to the seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_output_keeps_the_promises(stdout in output(), stderr in ".{0,30}", header in any::<[u8; 3]>()) {
        let input = [&header[..], &stdout, bowline_testkit::SEPARATOR, stderr.as_bytes()].concat();
        let case = Case::read(&input).expect("it has a header");
        check_decode(&case);
        check_wire(&case);
    }

    #[test]
    fn any_bytes_are_framed(bytes in prop::collection::vec(prop_oneof![
        Just(b'\n'), Just(b'\r'), Just(b':'), any::<u8>()
    ], 0..200), cap in 1_usize..64, seed in any::<u64>()) {
        FRAMINGS.into_iter().for_each(|framing| check_framing(framing, cap, &bytes, Chunking::new(seed)));
    }

    #[test]
    fn any_text_is_judged_and_shown(text in "\\PC{0,40}|[\u{1b}\u{9b}\\[0-9;m\n\t\u{7}a]{0,40}", code in any::<u8>()) {
        check_classify(&text, Some(Exit::Code(code.into())), code == 0);
        check_terminal_text(&text);
    }

    #[test]
    fn any_counts_are_a_usage(input in any::<u64>(), output in any::<u64>(), cached in any::<u64>(), total in any::<u64>()) {
        check_usage(&serde_json::json!({
            "input_tokens": input, "output_tokens": output, "cached_input_tokens": cached, "total_tokens": total,
        }));
    }
}
