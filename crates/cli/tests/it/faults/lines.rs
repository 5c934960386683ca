//! Lines that are too long, cut, or not what they should be.

use serde_json::Value;

use crate::journal::Journal;
use crate::world::World;

/// A message of Claude Code in one line.
fn message(text: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"msg_whole","role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Runs directives that end well, with the text `done` at the end.
fn done(directives: &[&str]) -> (World, Journal, Value) {
    let world = World::new();
    let script: Vec<&str> = directives.iter().chain(&["say done"]).copied().collect();
    let ended = world.practice(&script).with(&["--output", "json"]).end().exits(0);
    let summary = ended.json();
    assert_eq!(summary["outcome"], "completed");
    assert!(summary["text"].as_str().is_some_and(|text| text.ends_with("done")), "{summary}");
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!(summary["unrecognized"].as_u64(), Some(journal.count("unrecognized") as u64));
    (world, journal, summary)
}

#[test]
fn bad_lines_are_reported_and_not_fatal() {
    let cases = [
        ("garbage", "line this is no JSON", "this is no JSON"),
        ("not json", "line {not json", "{not json"),
        ("an array", "line [1, 2]", "[1, 2]"),
        ("a number", "line 17", "17"),
        ("half an object", r#"line {"type":"assistant","#, r#"{"type":"assistant","#),
    ];
    let script: Vec<&str> = cases.iter().map(|(_, directive, _)| *directive).collect();
    let (_world, journal, _) = done(&script);
    let heads: Vec<&str> = journal
        .of("unrecognized")
        .iter()
        .map(|event| event["kind"]["head"]["text"].as_str().expect("a head"))
        .collect();
    assert_eq!(heads, cases.map(|(_, _, head)| head), "each of them, in order");
    assert_eq!(journal.text(), "done");
}

/// A program that prints rubbish as fast as it can must not fill the disk many times as fast.
#[test]
fn a_flood_of_short_lines_takes_little_room() {
    let world = World::new();
    let script = format!("cat >/dev/null\nyes x | head -n 300000\necho '{}'", message("done"));
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#;
    let ended =
        world.claude(&format!("{script}\necho '{result}'")).with(&["--output", "json"]).end().exits(0);
    let summary = ended.json();
    assert_eq!((&summary["text"], &summary["unrecognized"]), (&"done".into(), &300_000.into()));
    let journal = world.journal();
    journal.check().ended("completed");
    let events = std::fs::metadata(journal.dir.join("events.jsonl")).expect("the events").len();
    assert!(events < journal.raw("stdout").len() as u64, "{events} bytes of events");
    let count = |event: &&Value| event["kind"]["count"].as_u64().unwrap_or(1);
    assert_eq!(journal.of("unrecognized").iter().map(count).sum::<u64>(), 300_000);
}

#[test]
fn an_unknown_type_is_reported() {
    let (_world, journal, _) = done(&["unknown-type"]);
    assert_eq!(journal.count("unrecognized"), 1);
}

#[test]
fn bytes_that_are_not_utf8_and_nul() {
    let (_world, journal, _) = done(&["bytes ff fe 41 0a", "bytes 00 00 42 0a"]);
    let unrecognized = journal.of("unrecognized");
    assert_eq!(unrecognized.len(), 2, "{unrecognized:#?}");
    let raw = journal.raw("stdout");
    for (event, bytes) in unrecognized.iter().zip([&b"\xff\xfeA"[..], b"\0\0B"]) {
        let place = |name: &str| usize::try_from(event["raw"][name].as_u64().unwrap()).unwrap();
        assert_eq!(&raw[place("start")..place("end")], bytes, "the true bytes are on file");
    }
}

#[test]
fn invalid_utf8_inside_a_message() {
    let line = message("a@b");
    let mut bytes = line.into_bytes();
    let place = bytes.iter().position(|byte| *byte == b'@').unwrap();
    bytes[place] = 0xff;
    bytes.push(b'\n');
    let (_world, journal, _) = done(&[&format!("bytes {}", hex(&bytes))]);
    assert!(journal.text().contains("a\u{fffd}b"), "{}", journal.text());
}

#[test]
fn a_character_that_is_cut() {
    let line = format!("{}\n", message("grüße 🪢"));
    let bytes = line.as_bytes();
    // Cut inside `ü`, inside `ß` and inside the knot; the pauses make reads of their own.
    let at = |c: char, after: usize| line.find(c).unwrap() + after;
    let cuts = [0, at('ü', 1), at('ß', 1), at('🪢', 1), at('🪢', 3), bytes.len()];
    let pieces: Vec<String> =
        cuts.windows(2).map(|pair| format!("bytes {}", hex(&bytes[pair[0]..pair[1]]))).collect();
    let mut script = Vec::new();
    for piece in &pieces {
        script.extend([piece.as_str(), "sleep 100ms"]);
    }
    let (_world, journal, _) = done(&script);
    assert_eq!(journal.count("unrecognized"), 0);
    assert!(journal.text().contains("grüße 🪢"), "{}", journal.text());
}

#[test]
fn a_whole_message_between_pieces_of_another() {
    let (_world, _, summary) = done(&["message-between-deltas"]);
    let text = summary["all_text"].as_str().unwrap();
    for part in ["a whole message", "before", "after", "done"] {
        assert_eq!(text.matches(part).count(), 1, "`{part}` in {text}");
    }
}

#[test]
fn a_line_of_two_megabytes() {
    let world = World::new();
    let call = world.practice(&["long-line 2MB", "long-line 2MB garbage"]);
    let ended =
        call.with(&["--output", "text", "--idle-timeout", "none", "--timeout", "none"]).end().exits(0);
    assert_eq!(ended.stdout.len(), 2_000_001);
    assert!(ended.stdout.trim_end().bytes().all(|byte| byte == b'x'));
    let journal = world.journal();
    journal.check().ended("completed");
    let noise = &journal.of("unrecognized")[0]["raw"];
    assert_eq!(noise["end"].as_u64().unwrap() - noise["start"].as_u64().unwrap(), 2_000_000);
}

#[test]
fn a_message_of_fifty_megabytes_in_one_line() {
    let world = World::new();
    let limits = ["--output", "text", "--idle-timeout", "none", "--timeout", "none"];
    let ended = world.practice(&["long-line 50MB"]).with(&limits).end().exits(0);
    assert_eq!(ended.stdout.len(), 50_000_001, "all of it, and the end of the line");
    world.journal().check().ended("completed");
}

#[test]
fn a_line_of_fifty_megabytes() {
    let world = World::new();
    let call = world.practice(&["long-line 50MB garbage", "say done"]);
    let ended = call.with(&["--idle-timeout", "none", "--timeout", "none"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    let journal = world.journal();
    journal.check().ended("completed");
    let noise = journal.of("unrecognized")[0];
    assert_eq!(noise["raw"]["end"].as_u64().unwrap() - noise["raw"]["start"].as_u64().unwrap(), 50_000_000);
    let head = noise["kind"]["head"]["text"].as_str().unwrap();
    assert!(head.len() <= 32 * 1024, "an event carries the head, the file has the rest");
}

#[test]
fn the_session_begins_once_more() {
    let (_world, journal, _) = done(&["say one", "init again"]);
    assert!(journal.text().contains("one"));
}
