//! Where the events of `bowline run` go: a person, or a program that reads one of the formats.
//!
//! The only place that writes what the human renderer gives. Whatever the format, standard error tells a person of
//! warnings, refusals and failures; for programs, as quietly as in a pipe.

use std::fmt;
use std::io::{self, Write};

use bowline_protocol::kinds::TextDelta;
use bowline_protocol::{Event, Kind, MessageId, Timestamp};
use bowline_providers::views;
use serde::Serialize;

use super::view::Viewer;
use super::{FULL, Stdout};
use crate::error::CommandError;
use crate::human::{Detail, Interrupt, Options, Piece, Renderer, Screen, Summary, To};
use crate::terminal;

/// The format for people.
const HUMAN: &str = "human";

/// Views that go by another name here: a script asks for `json`, not for a summary.
const RENAMED: [(&str, &str); 2] = [("json", "summary"), ("jsonl", "events")];

/// A format of `--output`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// For programs.
    View(&'static views::Entry),
}

impl Format {
    /// Returns the names of all formats, in the order in which help lists them.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        let renamed = |view: &str| RENAMED.iter().find(|(_, name)| *name == view).map(|(ours, _)| *ours);
        let views = views::ALL.iter().map(move |entry| renamed(entry.name).unwrap_or(entry.name));
        std::iter::once(HUMAN).chain(views)
    }

    /// Returns the format of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if name == HUMAN {
            return Some(Self::Human);
        }
        let view = RENAMED.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, view)| *view);
        let is_hidden = RENAMED.iter().any(|(_, view)| *view == name);
        views::by_name(view).filter(|_| !is_hidden).map(Self::View)
    }
}

/// Takes the events of a run and writes them.
pub(crate) struct Sink {
    renderer: Renderer,
    /// For programs: what goes to standard output instead of the renderer's text.
    viewer: Option<Viewer>,
    /// For programs: whether standard error tells of nothing but trouble, so that text need not be drawn.
    terse: bool,
    /// The message of which the last event was a piece.
    speaking: Option<MessageId>,
    stdout: Stdout,
    stderr: Box<dyn Write>,
    /// Whether the reader of standard output may print to the terminal that standard error is.
    piped: bool,
    /// Whether something was written to standard output since that reader was waited for.
    unread: bool,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("viewer", &self.viewer).finish_non_exhaustive()
    }
}

impl Sink {
    /// Makes a sink for our own streams.
    pub(crate) fn new(format: Format, options: Options, provider: Option<String>) -> Self {
        Self::over(format, options, provider, Stdout::new(), Box::new(io::stderr()))
    }

    fn over(
        format: Format,
        mut options: Options,
        provider: Option<String>,
        stdout: Stdout,
        stderr: Box<dyn Write>,
    ) -> Self {
        let viewer = match format {
            Format::Human => None,
            Format::View(entry) => {
                options.screen = Screen::PIPES;
                Some(Viewer::of_run(entry, &views::Setup { provider, ours: true }))
            }
        };
        let (piped, terse) = (options.screen.piped, viewer.is_some() && options.detail == Detail::Usual);
        let renderer = Renderer::new(options);
        Self { renderer, viewer, terse, speaking: None, stdout, stderr, piped, unread: false }
    }

    /// Writes events that came together.
    pub(crate) fn events(&mut self, events: &[Event], now: Timestamp) -> Result<(), CommandError> {
        let (mut pieces, mut waiting) = (Vec::new(), 0);
        for event in events {
            if !self.goes_on_speaking(event) {
                let shown = self.renderer.event(event, now);
                waiting += shown.iter().map(|piece| piece.bytes.len()).sum::<usize>();
                pieces.extend(shown);
            }
            if let Some(viewer) = &mut self.viewer {
                viewer.event(event);
                if viewer.is_full() {
                    viewer.flush(&mut self.stdout)?;
                }
            }
            if waiting >= FULL {
                self.write(&std::mem::take(&mut pieces))?;
                waiting = 0;
            }
        }
        if let Some(viewer) = &mut self.viewer {
            viewer.flush(&mut self.stdout)?;
        }
        self.write(&pieces)
    }

    /// Says whether an event only adds words to a message that the renderer knows of, while a program reads standard
    /// output: what the renderer would draw of them is thrown away. The first words of a message go to it all the same.
    fn goes_on_speaking(&mut self, event: &Event) -> bool {
        if !self.terse {
            return false;
        }
        let Kind::TextDelta(TextDelta { message, text, parent: None, .. }) = &event.kind else {
            self.speaking = None;
            return false;
        };
        if self.speaking.as_ref() == Some(message) {
            return true;
        }
        // Blank words do not count as an answer, so the next ones go to the renderer too.
        self.speaking = (!text.trim().is_empty()).then(|| message.clone());
        false
    }

    /// Shows that time passes.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Result<(), CommandError> {
        let pieces = self.renderer.tick(now);
        self.write(&pieces)
    }

    /// Shows that the user wants to stop.
    pub(crate) fn interrupted(&mut self, interrupt: Interrupt, now: Timestamp) -> Result<(), CommandError> {
        let pieces = self.renderer.interrupted(interrupt, now);
        self.write(&pieces)
    }

    /// Takes the new width of the terminal.
    pub(crate) fn resize(&mut self, width: u16) {
        self.renderer.resize(width);
    }

    /// Says that the request may be sent again.
    pub(crate) fn hold_answer(&mut self) {
        self.renderer.hold_answer();
    }

    /// Writes what is due at the end.
    pub(crate) fn finish(&mut self, summary: &Summary, record: &impl Serialize) -> Result<(), CommandError> {
        if let Some(viewer) = &mut self.viewer {
            viewer.finish_run(record, &mut self.stdout)?;
        }
        let pieces = self.renderer.finish(summary);
        self.write(&pieces)
    }

    /// Tells of something that no event tells of.
    pub(crate) fn warn(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.warn(text);
        self.write(&pieces)
    }

    /// Tells something that belongs to a failure.
    pub(crate) fn tell(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.tell(text);
        self.write(&pieces)
    }

    /// Mentions something that is no trouble.
    pub(crate) fn mention(&mut self, text: &str) -> Result<(), CommandError> {
        let pieces = self.renderer.mention(text);
        self.write(&pieces)
    }

    /// Writes pieces in their order: on a terminal, the streams see each other.
    fn write(&mut self, pieces: &[Piece]) -> Result<(), CommandError> {
        for piece in pieces {
            match piece.to {
                To::Stdout if self.viewer.is_some() => {}
                To::Stdout => {
                    self.stdout.print_ready(&piece.bytes)?;
                    self.stdout.flush()?;
                    self.unread = self.piped;
                }
                To::Stderr => {
                    if std::mem::take(&mut self.unread) {
                        terminal::wait_for_reader(io::stdout());
                    }
                    // Nothing can be done about a standard error that does not take what we say.
                    let _ = self.stderr.write_all(&piece.bytes).and_then(|()| self.stderr.flush());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bowline_protocol::{Millis, PermissionMode, SessionId, Source};
    use jiff::tz::TimeZone;
    use serde_json::json;

    use super::*;
    use crate::human::{AgentHints, Glyphs, Remedies, Surface};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("a lock").clone()).expect("text")
        }
    }

    fn event(kind: serde_json::Value) -> Event {
        let kind: Kind = serde_json::from_value(kind).expect("a kind");
        let session = SessionId::from("s");
        Event {
            v: 1,
            seq: 1,
            at: Timestamp::EPOCH,
            session,
            turn: None,
            source: Source::Agent,
            raw: None,
            kind,
        }
    }

    fn options(stderr: Surface) -> Options {
        Options {
            screen: Screen { stderr, ..Screen::PIPES },
            glyphs: Glyphs::Unicode,
            detail: Detail::Usual,
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
        let format = Format::named(name).expect("a format");
        let mut sink = Sink::over(format, options, None, stdout, Box::new(err.clone()));
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
        let summary = Summary { now: Timestamp::EPOCH, took: Millis(1), session: None, journal: None };
        sink.finish(&summary, &json!({"text": "Hel"})).expect("written");
        (out.text(), err.text())
    }

    #[test]
    fn every_format_has_a_writer_and_says_what_failed() {
        for name in Format::names() {
            let (out, err) = run(name);
            assert!(!out.is_empty(), "{name} wrote nothing");
            assert!(
                err.contains("error: the network failed (connection_lost)\ncaused by: gone\n"),
                "{name}: {err}"
            );
        }
        assert!(Format::named("summary").is_none(), "a view's own name is not a format's");
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
        let mut sink = Sink::new(Format::Human, options(Surface::PIPE), None);
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
            let mut sink = Sink::over(Format::Human, options, None, stdout, Box::new(io::sink()));
            sink.interrupted(Interrupt::First, Timestamp::EPOCH).expect("standard error may fail");
            sink.events(&said, Timestamp::EPOCH).expect_err("it cannot be written").is_closed_pipe()
        };
        assert!(write(io::ErrorKind::BrokenPipe));
        assert!(!write(io::ErrorKind::StorageFull));
    }
}
