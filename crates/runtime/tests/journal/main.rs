//! The journal survives what can happen to it: cuts, kills, full disks, strange umasks, foreign homes.
//!
//! `checker` reads a session's directory with no code of the journal, so that a mistake in the format is not made twice.

mod checker;
mod child;
mod cuts;
mod kills;
mod limits;
mod reopened;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline::journal::{Home, Options, SessionMeta, Writer};
use bowline_protocol::kinds::{
    EndReason, Level, Notice, Outcome, SessionEnded, TextDelta, TurnEnded, TurnOrigin, TurnStarted,
};
use bowline_protocol::{
    Event, FORMAT_VERSION, Kind, MessageId, RawFile, RawSpan, SessionId, Source, Timestamp,
};

/// The provider of all sessions here.
const PROVIDER: &str = "some-provider";

fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

/// Writes a session as a driver does: a chunk, then the events that its lines give.
///
/// Every line of stdout becomes an event with the same text and the line's span, so that a checker can compare them.
struct Script {
    writer: Writer,
    session: SessionId,
    seq: u64,
    micros: u64,
}

impl Script {
    fn new(home: &Home, id: &str, options: Options) -> Self {
        let session = SessionId::from(id);
        let meta = SessionMeta::new(session.clone(), PROVIDER, now());
        Self { writer: Writer::create(home, meta, options).expect("creates"), session, seq: 0, micros: 0 }
    }

    fn at(&mut self) -> SystemTime {
        self.micros += 1;
        UNIX_EPOCH + Duration::from_micros(self.micros)
    }

    fn event(&mut self, raw: Option<RawSpan>, kind: Kind) -> Event {
        self.seq += 1;
        let (session, source) = (self.session.clone(), Source::Agent);
        Event { v: FORMAT_VERSION, seq: self.seq, at: now(), session, turn: Some(1), source, raw, kind }
    }

    fn start_turn(&mut self) {
        let kind = TurnStarted { origin: TurnOrigin::Prompt, native_turn: None };
        let started = self.event(None, Kind::TurnStarted(kind));
        self.writer.events(&[started]).expect("writes");
    }

    fn other(&mut self, file: RawFile, bytes: &[u8]) {
        let at = self.at();
        self.writer.raw(file, at, bytes).expect("writes");
    }

    /// One chunk of stdout with these lines, and their events.
    fn lines(&mut self, texts: &[String]) {
        let chunk: String = texts.iter().flat_map(|text| [text, "\n"]).collect();
        let at = self.at();
        let mut start = self.writer.raw(RawFile::Stdout, at, chunk.as_bytes()).expect("writes");
        let mut events = Vec::with_capacity(texts.len());
        for text in texts {
            let span = RawSpan { file: RawFile::Stdout, start, end: start + text.len() as u64 };
            start = span.end + 1;
            let delta =
                TextDelta { message: MessageId::from("m1"), block: 0, text: text.clone(), parent: None };
            events.push(self.event(Some(span), Kind::TextDelta(delta)));
        }
        self.writer.events(&events).expect("writes");
    }

    fn notice(&mut self, text: &str) -> Event {
        self.event(None, Kind::Notice(Notice { level: Level::Info, text: text.to_owned(), code: None }))
    }

    fn notice_at(&mut self, text: &str, (start, end): (u64, u64)) -> Event {
        let mut notice = self.notice(text);
        notice.raw = Some(RawSpan { file: RawFile::Stdout, start, end });
        notice
    }

    /// The events with which a session ends.
    fn endings(&mut self) -> (Event, Event) {
        let turn = TurnEnded {
            outcome: Outcome::Completed,
            stop: None,
            failure: None,
            usage: None,
            cost_usd: None,
            num_turns: None,
            running_tools: Vec::new(),
            running_tasks: Vec::new(),
        };
        let turn = self.event(None, Kind::TurnEnded(turn));
        let session = SessionEnded { exit: None, reason: EndReason::Exited };
        (turn, self.event(None, Kind::SessionEnded(session)))
    }

    fn finish(&mut self) {
        let (turn, session) = self.endings();
        self.writer.events(&[turn, session]).expect("writes");
    }
}
