//! The recordings of real programs in `fixtures/`: their list, their files, and how they are played to a decoder.

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

/// A line of `fixtures/index.jsonl`: one recording.
#[derive(Clone, Debug, Deserialize)]
pub struct Recording {
    /// The folder of the program.
    pub cli: String,
    /// The provider whose manifest describes the program.
    pub provider: String,
    /// The version of the program.
    pub version: String,
    /// The folder of the recording.
    pub case: String,
    /// `stream` for one-way output, `wire` for a two-way protocol; others are not decoded.
    pub class: String,
    /// The output format, by the manifest.
    pub format: Option<String>,
    /// The dialect, where no format of the manifest has it.
    pub dialect: Option<String>,
}

/// One step of a recording.
#[derive(Debug)]
pub enum WireStep {
    /// Bytes that the agent wrote to standard output.
    FromAgent(Vec<u8>),
    /// A line that was sent to the agent.
    ToAgent(String),
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns every recording.
pub fn index() -> Vec<Recording> {
    let index = fs::read_to_string(root().join("index.jsonl")).expect("the list of recordings");
    index.lines().map(|line| serde_json::from_str(line).expect("a line of the list")).collect()
}

/// Returns every recording that is decoded: streams and wires.
pub fn all() -> Vec<Recording> {
    let decoded = |recording: &Recording| ["stream", "wire"].contains(&recording.class.as_str());
    index().into_iter().filter(decoded).collect()
}

impl Recording {
    /// Returns its name: `cli/version/case`.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.cli, self.version, self.case)
    }

    /// Returns the content of one of its files; empty if there is no such file.
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(root().join(self.name()).join(name)).unwrap_or_default()
    }

    /// Returns the dialect and shape of its output.
    pub fn reader(&self) -> (&'static dialects::DialectEntry, Shape) {
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

    /// Returns how the program ended. Recorders write a signal as a negative number or by its name, and their own deadline
    /// as `timeout-killed`.
    pub fn end(&self) -> End {
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

    /// Returns the bytes of both directions, in their order.
    pub fn wire(&self) -> Vec<WireStep> {
        if self.class != "wire" {
            return vec![WireStep::FromAgent(self.file("stdout.raw"))];
        }
        let text = [self.file("wire.jsonl"), self.file("transcript.jsonl")].concat();
        let lines = String::from_utf8(text).expect("text");
        lines.lines().filter_map(step).collect()
    }

    /// Plays it, cutting what the agent wrote into chunks.
    pub fn drafts(&self, chunk: usize) -> Vec<UnnumberedEvent> {
        let (entry, shape) = self.reader();
        let now = Moment::utc(start());
        let mut decoder = Decoder::of_shape(entry, shape);
        let mut drafts = Vec::new();
        let mut sent = 0;
        for step in self.wire() {
            match step {
                WireStep::FromAgent(bytes) => {
                    for chunk in bytes.chunks(chunk.min(bytes.len().max(1))) {
                        decoder.stdout(chunk, &now, &mut drafts);
                    }
                }
                WireStep::ToAgent(line) => {
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
    pub fn events(&self) -> Vec<Event> {
        let mut stamp = Stamp::new(SessionId::from("s"));
        self.drafts(usize::MAX).into_iter().map(|draft| stamp.stamp(draft, start())).collect()
    }

    /// Plays it into a view.
    pub fn view(&self, name: &str) -> String {
        let setup = views::Setup { provider: Some(self.provider.clone()), ours: false };
        let mut view = (views::by_name(name).expect("a view").make)(&setup);
        let mut text = String::new();
        self.events().iter().for_each(|event| view.event(event, &mut text));
        view.finish(&mut text);
        text
    }

    /// Plays it into a summary.
    pub fn summary(&self) -> Value {
        serde_json::from_str(&self.view("summary")).expect("one object")
    }
}

/// Returns the time at which recordings are played: the day on which they were made.
pub fn start() -> Timestamp {
    "2026-11-15T08:00:00Z".parse().expect("a time")
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
fn step(line: &str) -> Option<WireStep> {
    let step: Step<'_> = serde_json::from_str(line).expect("a step");
    let text = step.line.or_else(|| step.msg.map(|msg| msg.get().to_owned()))?;
    match step.dir.as_str() {
        "cli->host" | "agent->client" | "recv" => Some(WireStep::FromAgent((text + "\n").into_bytes())),
        "host->cli" | "client->agent" | "send" => Some(WireStep::ToAgent(text)),
        _ => None,
    }
}
