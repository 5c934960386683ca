//! A short turn that fails, in every format, and streams that cannot be written.

use std::io::{self, Write};

use bowline_protocol::{Millis, PermissionMode, SessionId, Source};
use jiff::tz::TimeZone;
use serde_json::json;

use super::*;
use crate::human::{AgentHints, Glyphs, Remedies, Surface};
use crate::ui::tests::Shared;

fn event(kind: serde_json::Value) -> Event {
    let kind: Kind = serde_json::from_value(kind).expect("a kind");
    let session = SessionId::from("s");
    Event { v: 1, seq: 1, at: Timestamp::EPOCH, session, turn: None, source: Source::Agent, raw: None, kind }
}

fn options(stderr: Surface) -> RenderOptions {
    RenderOptions {
        screen: Screen { stderr, ..Screen::PIPES },
        glyphs: Glyphs::Unicode,
        detail: DetailLevel::Usual,
        zone: TimeZone::UTC,
        permission: PermissionMode::Ask,
        remedies: Remedies::USUAL,
        agent: AgentHints::default(),
        cwd: None,
        provider: None,
    }
}

/// Runs a short turn that fails into a format; returns what both streams got.
fn run(name: &str) -> (String, String) {
    let options = options(Surface::terminal(80, Some("xterm"), false));
    let (out, err) = (Shared::default(), Shared::default());
    let stdout = Stdout::over(Box::new(out.clone()), false);
    let format = OutputFormat::named(name).expect("a format");
    let mut sink = Sink::over(format, options, None, stdout, Ui::over(Box::new(err.clone()), false));
    let failure = json!({"category": "network", "code": "connection_lost", "message": "gone", "retry": true,
        "fallback": true});
    let events = [
        event(json!({"type": "turn_started", "origin": "prompt"})),
        event(json!({"type": "text_delta", "message": "m", "block": 0, "text": "Hel"})),
        event(json!({"type": "message_finished", "message": "m", "phase": "final"})),
        event(json!({"type": "turn_ended", "outcome": "failed", "failure": failure})),
    ];
    for event in &events {
        sink.events(std::slice::from_ref(event), Timestamp::EPOCH).expect("written");
    }
    sink.resize(20);
    sink.tick(Timestamp::from_seconds(9)).expect("written");
    let summary = RunSummary { now: Timestamp::EPOCH, took: Millis(1), session: None, journal: None };
    sink.finish(&summary, &json!({"text": "Hel"})).expect("written");
    (out.text(), err.text())
}

#[test]
fn every_format_has_a_writer_and_says_what_failed() {
    for name in OutputFormat::names() {
        let (out, err) = run(name);
        assert!(!out.is_empty(), "{name} wrote nothing");
        // The terminal is narrow at the end, so that lines are wrapped.
        let words = err.split_whitespace().collect::<Vec<_>>().join(" ");
        let failed = "error: the network failed (connection_lost) caused by: gone";
        assert!(words.contains(failed), "{name}: {err}");
    }
    assert!(OutputFormat::named("summary").is_none(), "a view's own name is not a format's");
}

#[test]
fn a_format_for_programs_is_not_mixed_with_text_for_people() {
    assert_eq!(run("human").0, "Hel\n");
    assert_eq!(run("text").0, "Hel\n");
    let (out, _) = run("jsonl");
    assert_eq!(out.lines().count(), 4);
    assert!(out.lines().all(|line| serde_json::from_str::<Event>(line).is_ok()), "{out}");
}

#[test]
fn a_format_for_programs_is_not_drawn_upon() {
    // Standard error is a terminal, but what it shows beside JSON is only what went wrong.
    let (_, err) = run("jsonl");
    assert!(err.starts_with("error: ") && !err.contains('\x1b') && !err.contains("0 s"), "{err:?}");
    assert!(run("human").1.contains("0 s"));
}

#[test]
fn nothing_is_written_before_there_is_something_to_say() {
    let mut sink = Sink::new(OutputFormat::Human, options(Surface::PIPE), None);
    assert_eq!(sink.renderer.tick(Timestamp::from_seconds(1)), []);
    sink.tick(Timestamp::from_seconds(2)).expect("nothing to write");
    sink.events(&[], Timestamp::from_seconds(3)).expect("nothing to write");
}

#[test]
fn a_reader_that_has_enough_is_told_apart_from_a_full_disk() {
    struct Refusing(io::ErrorKind);
    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let said = [
        event(json!({"type": "text_delta", "message": "m", "block": 0, "text": "Hel"})),
        event(json!({"type": "message_finished", "message": "m", "phase": "final"})),
    ];
    let write = |kind| {
        let stdout = Stdout::over(Box::new(Refusing(kind)), false);
        let options = options(Surface::PIPE);
        let mut sink =
            Sink::over(OutputFormat::Human, options, None, stdout, Ui::over(Box::new(io::sink()), false));
        sink.interrupted(Interrupt::First, Timestamp::EPOCH).expect("standard error may fail");
        sink.events(&said, Timestamp::EPOCH).expect_err("it cannot be written").is_closed_pipe()
    };
    assert!(write(io::ErrorKind::BrokenPipe));
    assert!(!write(io::ErrorKind::StorageFull));
}
