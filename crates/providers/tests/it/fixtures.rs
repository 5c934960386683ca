//! Recordings of real programs: the list of them, and how they are played.

use std::fs;
use std::path::{Path, PathBuf};

use bowline_protocol::{Event, Exit, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::dialect::{Shape, UnnumberedEvent};
use bowline_providers::moment::Moment;
use bowline_providers::{catalogue, dialects, views};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One recording.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Capture {
    pub(crate) cli: String,
    pub(crate) provider: String,
    pub(crate) version: String,
    pub(crate) case: String,
    pub(crate) class: String,
    pub(crate) format: Option<String>,
    pub(crate) dialect: Option<String>,
}

/// What went over the wire, in order.
pub(crate) enum Wire {
    FromAgent(Vec<u8>),
    ToAgent(String),
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Every recording.
pub(crate) fn index() -> Vec<Capture> {
    let index = fs::read_to_string(root().join("index.jsonl")).expect("the list of recordings");
    index.lines().map(|line| serde_json::from_str(line).expect("a line of the list")).collect()
}

/// Every recording that is decoded: streams and wires.
pub(crate) fn all() -> Vec<Capture> {
    let decoded = |capture: &Capture| ["stream", "wire"].contains(&capture.class.as_str());
    index().into_iter().filter(decoded).collect()
}

impl Capture {
    /// Its name: `cli/version/case`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}/{}", self.cli, self.version, self.case)
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(root().join(self.name()).join(name)).unwrap_or_default()
    }

    /// The dialect and shape of its output.
    pub(crate) fn reader(&self) -> (&'static dialects::DialectEntry, Shape) {
        let find = |name: &str| {
            dialects::by_name(name).unwrap_or_else(|| panic!("{}: no dialect {name}", self.name()))
        };
        if let Some(dialect) = &self.dialect {
            return (find(dialect), Shape::Unknown);
        }
        let manifest = catalogue::by_name(&self.provider).expect("a provider");
        let format = self.format.as_deref().expect("a format");
        let format =
            manifest.formats.get(format).unwrap_or_else(|| panic!("{}: no format {format}", self.name()));
        (find(&format.dialect), format.shape)
    }

    /// How the program ended. Recorders write a signal as a negative number or by its name, and their own deadline
    /// as `timeout-killed`.
    pub(crate) fn end(&self) -> End {
        let text = String::from_utf8(self.file("exit_code")).expect("text");
        let (exit, cause) = match text.trim() {
            "timeout-killed" => (Exit::Signal(9), Cause::TimedOut),
            "signal:SIGINT" => (Exit::Signal(2), Cause::Exited),
            "signal:SIGKILL" => (Exit::Signal(9), Cause::Exited),
            "signal:SIGTERM" => (Exit::Signal(15), Cause::Exited),
            // `-15`, or `sigterm:-15` where the recorder had to end the program itself.
            number => match number.rsplit(':').next().unwrap_or_default().parse() {
                Ok(code @ 0..) => (Exit::Code(code), Cause::Exited),
                Ok(signal) => (Exit::Signal(-signal), Cause::Exited),
                Err(_) => panic!("{}: exit code {text:?}", self.name()),
            },
        };
        End { exit: Some(exit), cause }
    }

    /// What went over the wire.
    pub(crate) fn wire(&self) -> Vec<Wire> {
        if self.class != "wire" {
            return vec![Wire::FromAgent(self.file("stdout.raw"))];
        }
        let text = [self.file("wire.jsonl"), self.file("transcript.jsonl")].concat();
        let lines = String::from_utf8(text).expect("text");
        lines.lines().filter_map(step).collect()
    }

    /// Plays it, cutting what the agent wrote into chunks.
    pub(crate) fn drafts(&self, chunk: usize) -> Vec<UnnumberedEvent> {
        let (entry, shape) = self.reader();
        let now = now();
        let mut decoder = Decoder::of_shape(entry, shape);
        let mut drafts = Vec::new();
        let mut sent = 0;
        for step in self.wire() {
            match step {
                Wire::FromAgent(bytes) => {
                    for chunk in bytes.chunks(chunk.min(bytes.len().max(1))) {
                        decoder.stdout(chunk, &now, &mut drafts);
                    }
                }
                Wire::ToAgent(line) => {
                    decoder.sent(&line, sent, &now, &mut drafts);
                    sent += line.len() as u64 + 1;
                }
            }
        }
        decoder.stderr(&self.file("stderr.raw"), &now, &mut drafts);
        decoder.finish(&self.end(), &now, &mut drafts);
        drafts
    }

    /// Plays it and numbers the events.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut stamp = Stamp::new(SessionId::from("s"));
        self.drafts(usize::MAX).into_iter().map(|draft| stamp.stamp(draft, now().at)).collect()
    }

    /// Plays it into a view.
    pub(crate) fn view(&self, name: &str) -> String {
        let setup = views::Setup { provider: Some(self.provider.clone()), ours: false };
        let mut view = (views::by_name(name).expect("a view").make)(&setup);
        let mut text = String::new();
        self.events().iter().for_each(|event| view.event(event, &mut text));
        view.finish(&mut text);
        text
    }

    /// Plays it into a summary.
    pub(crate) fn summary(&self) -> Value {
        serde_json::from_str(&self.view("summary")).expect("one object")
    }
}

/// The moment at which recordings are looked at: the day on which they were made.
fn now() -> Moment {
    Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"))
}

/// A step of a recorded wire, whichever recorder wrote it.
#[derive(Deserialize)]
struct Step<'a> {
    dir: String,
    line: Option<String>,
    /// As it was written: a tree would not keep it to the byte.
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
}

/// Reads a step of a recorded wire. Notes of the recorder are no steps.
fn step(line: &str) -> Option<Wire> {
    let step: Step<'_> = serde_json::from_str(line).expect("a step");
    let text = step.line.or_else(|| step.msg.map(|msg| msg.get().to_owned()))?;
    match step.dir.as_str() {
        "cli->host" | "agent->client" | "recv" => Some(Wire::FromAgent((text + "\n").into_bytes())),
        "host->cli" | "client->agent" | "send" => Some(Wire::ToAgent(text)),
        _ => None,
    }
}
