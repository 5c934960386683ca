//! The list of dialects, and those that the specifications define.
//!
//! A format of only one program is in that program's folder, and [`catalogue`] lists it. The formats here are for any
//! program.

pub(crate) mod api_error;
pub(crate) mod content;
pub(crate) mod document;
pub(crate) mod elicitation;
pub(crate) mod executable;
pub(crate) mod external_events;
pub(crate) mod json;
pub(crate) mod loose_json;
pub(crate) mod pi_events;
pub(crate) mod roles;
pub(crate) mod shaped;
pub(crate) mod simple;
pub(crate) mod speech;
pub(crate) mod stream_json;
pub(crate) mod text;
pub(crate) mod text_dedup;
pub(crate) mod tools;

use crate::catalogue;
use crate::conversation::ProtocolClient;
use crate::dialect::{Commentary, Dialect, Framing, Shape, StepOutput, Terminal};

/// A dialect of the list.
#[derive(Clone, Copy, Debug)]
pub struct DialectEntry {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// How its output is cut.
    pub framing: Framing,
    /// How its turns end.
    pub terminal: Terminal,
    /// How an answer is separated from the text that accompanies the work.
    pub commentary: Commentary,
    /// When its lines show that the program works.
    pub steps: StepOutput,
    /// Makes a reader for one process whose output has this shape.
    pub make: fn(Shape) -> Box<dyn Dialect>,
    /// The client of a dialect with a two-way protocol.
    pub client: Option<ProtocolClient>,
}

impl DialectEntry {
    /// Returns whether a program that speaks it only generates text: the contract of executable providers has no tools.
    pub fn generates_only(&self) -> bool {
        matches!(self.name, "executable-generate" | "executable-stream")
    }

    /// Returns when output of this shape shows that the program works. Only lines can show it before the end.
    pub fn steps_of(&self, shape: Shape) -> StepOutput {
        if shape == Shape::Lines { self.steps } else { StepOutput::Late }
    }
}

/// Every dialect, in the order in which they are shown. The dialect of a provider is in the entry of its folder.
pub const ALL: &[DialectEntry] = &catalogue::concat::<_, { catalogue::count(LISTS) }>(LISTS);

const LISTS: &[&[DialectEntry]] = &[ANY_PROGRAM, catalogue::DIALECTS, SPECIFIED];

/// Formats that any program may print.
const ANY_PROGRAM: &[DialectEntry] = &[
    DialectEntry {
        name: "text",
        about: "plain text: all of the output is the answer",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(text::TextDialect::default()),
        client: None,
    },
    DialectEntry {
        name: "json",
        about: "one JSON object with the answer in a common field",
        framing: Framing::Document,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(json::Json),
        client: None,
    },
    DialectEntry {
        name: "stream-json",
        about: "JSON lines in any of the forms of the adapter protocol",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(stream_json::StreamJson::default()),
        client: None,
    },
    DialectEntry {
        name: "role-lines",
        about: "JSON lines with role and content, one message each, or plain text",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |shape| Box::new(shaped::Shaped::new(roles::RoleLines::default(), shape)),
        client: None,
    },
];

/// Formats that the specifications define for programs and executable providers.
const SPECIFIED: &[DialectEntry] = &[
    DialectEntry {
        name: "pi-events",
        about: "pi-style events (protocol A), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(pi_events::PiEvents::default()),
        client: None,
    },
    DialectEntry {
        name: "simple",
        about: "simple events (protocol B), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(simple::SimpleEvents::default()),
        client: None,
    },
    DialectEntry {
        name: "external-events",
        about: "protocol A or B, by the first line; exit code 0 ends the turn",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Eof,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(external_events::ExternalEvents::default()),
        client: None,
    },
    DialectEntry {
        name: "executable-generate",
        about: "the response of an executable provider's `generate`",
        framing: Framing::Document,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(executable::ExecutableGenerate),
        client: None,
    },
    DialectEntry {
        name: "executable-stream",
        about: "the chunks of an executable provider's `stream`",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        commentary: Commentary::Told,
        steps: StepOutput::Late,
        make: |_| Box::new(executable::ExecutableStream::default()),
        client: None,
    },
];

/// Finds a dialect by its name.
pub fn by_name(name: &str) -> Option<&'static DialectEntry> {
    ALL.iter().find(|entry| entry.name == name)
}
