//! Plays a run to the renderer, with a clock of its own, and shows what both streams got.

use std::num::NonZeroU16;
use std::sync::OnceLock;

use bowline_protocol::{Event, Kind, Millis, PermissionMode, SessionId, Source, Timestamp};
use bowline_providers::decode::{Decoder, Stamp};
use bowline_providers::moment::Moment;
use bowline_providers::views;
use bowline_testkit::recordings::{self, Recording, WireStep};
use jiff::tz::TimeZone;

use crate::human::{
    AgentHints, DetailLevel, Glyphs, OutputPiece, PieceStream, Remedies, RenderOptions, Renderer, RunSummary,
    Screen, Surface, TICK,
};

/// More than any recording fills, so that nothing scrolls away.
const ROWS: u16 = 1000;

/// How long a line of a recording takes.
const LINE: Millis = Millis(400);

pub(super) use bowline_testkit::recordings::start;

/// Returns all recordings of streams and wires, by name. They are played once.
pub(super) fn all() -> &'static [(String, Vec<Event>)] {
    static ALL: OnceLock<Vec<(String, Vec<Event>)>> = OnceLock::new();
    ALL.get_or_init(|| recordings::all().iter().map(|entry| (entry.name(), play(entry))).collect())
}

/// Plays the recording of that name.
pub(super) fn recording(wanted: &str) -> Vec<Event> {
    let entry = recordings::all().into_iter().find(|entry| entry.name() == wanted);
    play(&entry.unwrap_or_else(|| panic!("there is no recording {wanted}")))
}

/// Plays a recording; each of its lines takes its time.
fn play(recording: &Recording) -> Vec<Event> {
    let (dialect, shape) = recording.reader();
    let mut decoder = Decoder::of_shape(dialect, shape);
    let mut stamp = Stamp::new(SessionId::from("s-7f3a"));
    let (mut events, mut drafts, mut sent) = (Vec::new(), Vec::new(), 0);
    let mut now = Moment::utc(start());
    for step in recording.wire() {
        match step {
            // The output of a one-way recording is one step. Each of its lines takes its time, too.
            WireStep::FromAgent(bytes) => {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    now.at = now.at.after(LINE);
                    decoder.stdout(line, &now, &mut drafts);
                    events.extend(drafts.drain(..).map(|draft| stamp.stamp(draft, now.at)));
                }
            }
            WireStep::ToAgent(line) => {
                now.at = now.at.after(LINE);
                decoder.sent(&line, sent, &now, &mut drafts);
                sent += line.len() as u64 + 1;
                events.extend(drafts.drain(..).map(|draft| stamp.stamp(draft, now.at)));
            }
        }
    }
    decoder.stderr(&recording.file("stderr.raw"), &now, &mut drafts);
    decoder.finish(&recording.end(), &now, &mut drafts);
    events.extend(drafts.drain(..).map(|draft| stamp.stamp(draft, now.at)));
    events
}

/// Makes events of their JSON, a line each, half a second apart.
pub(super) fn made(kinds: &[serde_json::Value]) -> Vec<Event> {
    let mut at = start();
    let event = |(seq, kind): (usize, &serde_json::Value)| {
        at = at.after(Millis(500));
        let kind: Kind =
            serde_json::from_value(kind.clone()).unwrap_or_else(|error| panic!("{error}: {kind}"));
        let session = SessionId::from("s-7f3a");
        Event { v: 1, seq: seq as u64 + 1, at, session, turn: None, source: Source::Agent, raw: None, kind }
    };
    kinds.iter().enumerate().map(event).collect()
}

/// The kind of the streams.
#[derive(Clone, Copy)]
pub(super) enum Streams {
    /// Both are one terminal of that width, with or without colour.
    Terminal(u16),
    Coloured(u16),
    /// Only standard error is a terminal: the answer goes to a file.
    Redirected(u16),
    /// The same, to a pipe whose reader prints to the terminal.
    Piped(u16),
    /// Only standard output is: the rest goes to a file.
    Logged(u16),
    /// Neither is.
    Pipes,
    /// Both are one file.
    Log,
}

/// A run to be shown.
pub(super) struct Show {
    pub(super) events: Vec<Event>,
    pub(super) streams: Streams,
    pub(super) detail: DetailLevel,
    pub(super) glyphs: Glyphs,
    pub(super) permission: PermissionMode,
    /// Whether a terminal gets the answer rendered.
    pub(super) renders: bool,
}

impl Show {
    pub(super) fn of(events: Vec<Event>, streams: Streams) -> Self {
        let (detail, glyphs) = (DetailLevel::Usual, Glyphs::Unicode);
        Self { events, streams, detail, glyphs, permission: PermissionMode::Ask, renders: false }
    }

    pub(super) fn recorded(name: &str, streams: Streams) -> Self {
        Self::of(recording(name), streams)
    }

    pub(super) fn detail(mut self, detail: DetailLevel) -> Self {
        self.detail = detail;
        self
    }

    pub(super) fn ascii(mut self) -> Self {
        self.glyphs = Glyphs::Ascii;
        self
    }

    pub(super) fn renderer(&self) -> Renderer {
        let terminal = |width, colour| Surface::terminal(width, Some("xterm"), colour);
        let (stdout, stderr) = match self.streams {
            Streams::Terminal(width) => (terminal(width, false), terminal(width, false)),
            Streams::Coloured(width) => (terminal(width, true), terminal(width, true)),
            Streams::Redirected(width) | Streams::Piped(width) => (Surface::PIPE, terminal(width, false)),
            Streams::Logged(width) => (terminal(width, false), Surface::PIPE),
            Streams::Pipes | Streams::Log => (Surface::PIPE, Surface::PIPE),
        };
        Renderer::new(RenderOptions {
            screen: Screen {
                stdout: if self.renders { stdout.rendering() } else { stdout },
                stderr,
                one_file: matches!(self.streams, Streams::Log),
                piped: matches!(self.streams, Streams::Piped(_)),
            },
            glyphs: self.glyphs,
            detail: self.detail,
            zone: TimeZone::UTC,
            permission: self.permission,
            remedies: Remedies::USUAL,
            agent: AgentHints::default(),
            cwd: None,
            provider: None,
        })
    }

    /// Plays the run with the clock ticking between the events.
    pub(super) fn pieces(&self) -> Vec<OutputPiece> {
        let mut renderer = self.renderer();
        let mut pieces = Vec::new();
        self.play(&mut renderer, &mut pieces, usize::MAX);
        let now = self.events.last().map_or_else(start, |event| event.at);
        pieces.extend(renderer.finish(&summary(now)));
        pieces
    }

    /// Plays the first events, with a second of silence at the end.
    pub(super) fn until(&self, last: usize) -> Vec<OutputPiece> {
        let (mut renderer, mut pieces) = (self.renderer(), Vec::new());
        self.play(&mut renderer, &mut pieces, last);
        let at = self.events[..last].last().map_or_else(start, |event| event.at);
        for tick in 1..=10 {
            pieces.extend(renderer.tick(at.after(Millis(tick * TICK.0))));
        }
        pieces
    }

    fn play(&self, renderer: &mut Renderer, pieces: &mut Vec<OutputPiece>, last: usize) {
        let mut now = start();
        for event in self.events.iter().take(last) {
            while now < event.at {
                pieces.extend(renderer.tick(now));
                now = now.after(TICK);
            }
            pieces.extend(renderer.event(event, event.at));
        }
    }

    /// Returns what a stream got.
    pub(super) fn stream(&self, to: PieceStream) -> String {
        text_of(&self.pieces(), to)
    }

    /// Shows both streams.
    pub(super) fn both(&self) -> String {
        let pieces = self.pieces();
        format!(
            "--- stdout\n{}--- stderr\n{}",
            text_of(&pieces, PieceStream::Stdout),
            text_of(&pieces, PieceStream::Stderr)
        )
    }

    /// Shows what is on the terminal in the end.
    pub(super) fn screen(&self) -> String {
        self.on_terminal(&self.pieces())
    }

    /// Shows what is on the terminal after so many events and a second of silence.
    pub(super) fn screen_at(&self, last: usize) -> String {
        self.on_terminal(&self.until(last))
    }

    pub(super) fn on_terminal(&self, pieces: &[OutputPiece]) -> String {
        let width = match self.streams {
            Streams::Terminal(width)
            | Streams::Coloured(width)
            | Streams::Redirected(width)
            | Streams::Piped(width)
            | Streams::Logged(width) => width,
            Streams::Pipes | Streams::Log => panic!("a pipe is no terminal"),
        };
        let mut terminal = terminal(width);
        for piece in pieces {
            let elsewhere = match self.streams {
                Streams::Redirected(_) => Some(PieceStream::Stdout),
                Streams::Logged(_) => Some(PieceStream::Stderr),
                Streams::Terminal(_)
                | Streams::Coloured(_)
                | Streams::Piped(_)
                | Streams::Pipes
                | Streams::Log => None,
            };
            if Some(piece.to) == elsewhere {
                continue;
            }
            type_in(&mut terminal, &String::from_utf8(piece.bytes.clone()).expect("text"));
        }
        terminal.screen().rows(0, width).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// Makes a terminal in memory.
pub(super) fn terminal(width: u16) -> vt100::Parser {
    let size = |cells| NonZeroU16::new(cells).expect("a size");
    vt100::Parser::new(size(ROWS), size(width), 0)
}

/// Writes to a terminal as its driver does.
pub(super) fn type_in(terminal: &mut vt100::Parser, text: &str) {
    terminal.process(text.replace('\n', "\r\n").as_bytes());
}

pub(super) fn summary(now: Timestamp) -> RunSummary {
    RunSummary {
        now,
        took: now.since(start()),
        session: Some(SessionId::from("s-7f3a")),
        journal: Some("~/.local/share/bowline/s-7f3a".to_owned()),
    }
}

pub(super) fn text_of(pieces: &[OutputPiece], to: PieceStream) -> String {
    let bytes: Vec<u8> =
        pieces.iter().filter(|piece| piece.to == to).flat_map(|piece| piece.bytes.clone()).collect();
    String::from_utf8(bytes).expect("text")
}

/// Returns what the `text` view makes of the same events.
pub(super) fn answer(events: &[Event]) -> String {
    let mut view = (views::by_name("text").expect("a view").make)(&views::Setup::default());
    let mut text = String::new();
    events.iter().for_each(|event| view.event(event, &mut text));
    view.finish(&mut text);
    text
}

/// Compares with a snapshot of that name.
pub(super) fn check(name: &str, shown: &str) {
    let mut settings = insta::Settings::new();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("snapshots");
    settings.bind(|| insta::assert_snapshot!(name, shown));
}
