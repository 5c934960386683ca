//! What must hold for every recording, whatever it says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bowline_protocol::{Kind, SessionId};
use bowline_providers::catalogue;
use bowline_providers::decode::{Decoder, Stamp};
use bowline_providers::dialect::{Shape, StepOutput};
use bowline_providers::moment::Moment;
use serde::Deserialize;

use crate::fixtures::{self, Recording, WireStep};
use crate::properties::check_account;

/// Programs of which every one-way recording is one turn.
const ONE_TURN: [&str; 4] = ["pi", "opencode", "copilot", "grok"];

fn recordings() -> impl Iterator<Item = Recording> {
    fixtures::all().into_iter()
}

#[test]
fn every_line_is_understood() {
    // "cli/version/case" = { count = N, why = "…" }.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect/unrecognized.toml");
    let text = fs::read_to_string(path).expect("the list of lines that are truly noise");
    let known: BTreeMap<String, Noise> = toml::from_str(&text).expect("a list");
    for capture in recordings() {
        let count = known.get(&capture.name()).map_or(0, |noise| noise.count);
        assert_eq!(capture.summary()["unrecognized"], count, "{}", capture.name());
    }
    assert!(known.values().all(|noise| !noise.why.is_empty()));
}

/// Lines of a recording in no format of the program.
#[derive(Deserialize)]
struct Noise {
    count: u64,
    why: String,
}

#[test]
fn nothing_in_a_recording_is_novel() {
    for capture in recordings() {
        let (entry, shape) = capture.reader();
        let Some(vocabulary) = catalogue::vocabulary(entry.name) else { continue };
        let now = Moment::utc(bowline_protocol::Timestamp::EPOCH);
        let mut drafts = Vec::new();
        let mut decoder = Decoder::of_shape(entry, shape).watching(vocabulary);
        for step in capture.wire() {
            if let WireStep::FromAgent(bytes) = step {
                decoder.stdout(&bytes, &now, &mut drafts);
            }
        }
        decoder.finish(&capture.end(), &now, &mut drafts);
        let novel: Vec<String> = drafts
            .iter()
            .filter_map(|draft| if let Kind::Notice(notice) = &draft.kind { Some(notice) } else { None })
            .filter(|notice| notice.code.as_deref() == Some("novel"))
            .map(|notice| notice.text.clone())
            .collect();
        assert!(novel.is_empty(), "{}: run `cargo xtask vocabulary`: {novel:?}", capture.name());
    }
}

#[test]
fn one_prompt_is_one_turn() {
    // A wire may carry several prompts.
    let ours = |capture: &Recording| ONE_TURN.contains(&capture.cli.as_str()) && capture.class == "stream";
    for capture in recordings().filter(ours) {
        let events = &capture.summary()["events"];
        assert_eq!(
            (&events["turn_started"], &events["turn_ended"]),
            (&1.into(), &1.into()),
            "{}",
            capture.name()
        );
    }
}

/// Checks recordings of runs whose model never answered: the program printed all of their output before the first model
/// call was over.
#[test]
fn programs_that_announce_themselves_print_before_the_model_answers() {
    let mut checked = Vec::new();
    for capture in
        recordings().filter(|it| ["hang-sigint", "hang-sigterm", "hang0-sigterm"].contains(&&*it.case))
    {
        let (entry, shape) = capture.reader();
        // In these runs of Codex the model hangs after it has begun; `hang0` has those in which it never answers.
        if shape != Shape::Lines || (capture.cli == "codex" && capture.case != "hang0-sigterm") {
            continue;
        }
        let Some(WireStep::FromAgent(stdout)) = capture.wire().into_iter().next() else { continue };
        match entry.steps_of(Shape::Lines) {
            StepOutput::Announced => assert!(stdout.starts_with(b"{"), "{}", capture.name()),
            StepOutput::Late => assert!(!stdout.starts_with(b"{"), "{}", capture.name()),
            StepOutput::Immediate => {}
        }
        assert_eq!(entry.steps_of(Shape::Text), StepOutput::Late, "{}", capture.name());
        checked.push(entry.name);
    }
    checked.dedup();
    assert_eq!(checked, ["claude", "codex-exec", "copilot", "gemini", "grok-cli", "opencode", "pi", "qwen"]);
    // opencode's first line may be the error of its first model call.
    let failed = recordings().find(|it| it.name() == "opencode/1.18.33/err429").expect("it is recorded");
    let Some(WireStep::FromAgent(stdout)) = failed.wire().into_iter().next() else {
        panic!("it printed nothing")
    };
    assert!(stdout.starts_with(br#"{"type":"error""#));
    assert_eq!(failed.reader().0.steps, StepOutput::Immediate);
}

#[test]
fn the_events_do_not_depend_on_the_chunks() {
    for capture in recordings() {
        let whole = capture.drafts(usize::MAX);
        for chunk in [1, 2, 3, 7, 64, 4096] {
            assert_eq!(whole, capture.drafts(chunk), "{} in chunks of {chunk}", capture.name());
        }
    }
}

#[test]
fn the_account_adds_up_whatever_is_lost() {
    for capture in recordings().filter(|capture| capture.class == "stream") {
        let (entry, shape) = capture.reader();
        let Some(WireStep::FromAgent(bytes)) = capture.wire().into_iter().next() else { continue };
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let every = |step: usize, at: usize| lines.iter().skip(at).step_by(step).copied();
        let damaged = [
            every(2, 0).collect::<Vec<_>>().concat(),
            every(3, 1).collect::<Vec<_>>().concat(),
            lines.iter().rev().copied().collect::<Vec<_>>().concat(),
            lines.iter().flat_map(|line| [*line, *line]).collect::<Vec<_>>().concat(),
            lines.iter().flat_map(|line| [&line[..line.len() / 2], *line]).collect::<Vec<_>>().concat(),
        ];
        for bytes in damaged {
            let now = Moment::utc(bowline_protocol::Timestamp::EPOCH);
            let mut drafts = Vec::new();
            let mut decoder = Decoder::of_shape(entry, shape);
            decoder.stdout(&bytes, &now, &mut drafts);
            decoder.finish(&capture.end(), &now, &mut drafts);
            let mut stamp = Stamp::new(SessionId::from("s"));
            let events: Vec<_> = drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect();
            check_account(entry.name, &events).unwrap_or_else(|error| panic!("{}: {error}", capture.name()));
        }
    }
}

#[test]
fn a_prefix_of_the_bytes_gives_a_prefix_of_the_events() {
    let now = Moment::utc(bowline_protocol::Timestamp::EPOCH);
    for capture in recordings().filter(|capture| capture.class == "stream") {
        let (entry, shape) = capture.reader();
        let Some(WireStep::FromAgent(bytes)) = capture.wire().into_iter().next() else { continue };
        let before_the_end = |bytes: &[u8]| {
            let mut drafts = Vec::new();
            Decoder::of_shape(entry, shape).stdout(bytes, &now, &mut drafts);
            drafts
        };
        let whole = before_the_end(&bytes);
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 12) {
            let part = before_the_end(&bytes[..cut]);
            assert_eq!(part[..], whole[..part.len()], "{} cut at {cut}", capture.name());
        }
    }
}
