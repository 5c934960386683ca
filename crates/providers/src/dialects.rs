//! The list of dialects, and those that the specifications define.
//!
//! What only one program speaks lives in that program's folder; here are the formats that any program may speak.

mod content;
mod document;
mod executable;
mod json;
mod pi_events;
mod reports;
mod roles;
mod said;
mod simple;
mod stream_json;
mod text;
mod tools;

use crate::dialect::{Dialect, Framing, Terminal};

/// A dialect of the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// How its output is cut.
    pub framing: Framing,
    /// How its turns end.
    pub terminal: Terminal,
    /// Makes a reader for one process.
    pub make: fn() -> Box<dyn Dialect>,
}

/// Every dialect, in the order in which they are shown.
pub const ALL: &[Entry] = &[
    Entry {
        name: "text",
        about: "plain text: all of the output is the answer",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        make: || Box::new(text::Text::default()),
    },
    Entry {
        name: "json",
        about: "one JSON object with the answer in a common field",
        framing: Framing::Document,
        terminal: Terminal::Eof,
        make: || Box::new(json::Json),
    },
    Entry {
        name: "stream-json",
        about: "JSON lines in any of the forms of the adapter protocol",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        make: || Box::new(stream_json::StreamJson::default()),
    },
    Entry {
        name: "role-lines",
        about: "JSON lines with role and content, one message each",
        framing: Framing::Lines,
        terminal: Terminal::Eof,
        make: || Box::new(roles::RoleLines::default()),
    },
    Entry {
        name: "pi-events",
        about: "pi-style events (protocol A), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Event,
        make: || Box::new(pi_events::PiEvents::default()),
    },
    Entry {
        name: "simple",
        about: "simple events (protocol B), as JSON lines or server-sent events",
        framing: Framing::LinesOrEvents,
        terminal: Terminal::Eof,
        make: || Box::new(simple::Simple::default()),
    },
    Entry {
        name: "executable-generate",
        about: "the answer of an executable provider's `generate`",
        framing: Framing::Document,
        terminal: Terminal::Event,
        make: || Box::new(executable::Generate),
    },
    Entry {
        name: "executable-stream",
        about: "the chunks of an executable provider's `stream`",
        framing: Framing::Lines,
        terminal: Terminal::Event,
        make: || Box::new(executable::Stream::default()),
    },
];

/// Finds a dialect by its name.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}
