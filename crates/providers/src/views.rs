//! Events in the formats of other programs.
//!
//! Every view is a pure fold: events in, text out, one record per line. A view relies on the decoder's guarantees (every
//! turn ends once, every message with text is finished once) but tolerates a stream that was cut. Dialects read these
//! formats back, and the caller chooses where the text goes.

use std::io;

use bowline_protocol::Event;
use serde::Serialize;

mod answer;
mod blocks;
mod calls;
mod chunks;
mod digest;
mod events;
mod generate;
mod notices;
mod opening;
mod pi;
mod provider_events;
mod quick_hash;
#[cfg(test)]
pub(crate) mod script;
mod simple;
mod stream_events;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub use digest::{Digest, Refused};
pub use summary::{FailureObject, RunFacts, SummaryObject, failure_object};
pub use tally::{ModelSource, Tally};

/// Writes events in some format, as they come.
pub trait View: std::fmt::Debug + Send {
    /// Appends what the event means in this format.
    fn event(&mut self, event: &Event, out: &mut String);

    /// Appends what is due at the end.
    fn finish(&mut self, out: &mut String);

    /// Writes what is due at the end. A view that holds a long text writes it from where it is.
    fn write_end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut text = String::new();
        self.finish(&mut text);
        out.write_all(text.as_bytes())
    }
}

/// Context that a view may need besides the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The provider's name, for formats that print one. Without it, the name that the events carry is printed.
    pub provider: Option<String>,
    /// Whether the events are from sessions that Bowline ran: then the session's id is printed with them.
    pub ours: bool,
}

/// One view in the list.
#[derive(Clone, Copy, Debug)]
pub struct ViewEntry {
    /// The name that users pass.
    pub name: &'static str,
    /// A one-line description for the help.
    pub about: &'static str,
    /// Makes a fresh one.
    pub make: fn(&Setup) -> Box<dyn View>,
}

/// Every view, in the order in which help lists them.
pub const ALL: &[ViewEntry] = &[
    ViewEntry { name: "events", about: "every event as a line of JSON", make: events::make },
    ViewEntry { name: "text", about: "the answer of the last turn as plain text", make: text::make },
    ViewEntry { name: "summary", about: "one JSON object about the whole stream", make: summary::make },
    ViewEntry { name: "pi", about: "pi's assistant message events, as JSON lines", make: pi::make },
    ViewEntry {
        name: "pi-partials",
        about: "the same, each with the whole message so far",
        make: pi::make_partials,
    },
    ViewEntry {
        name: "simple",
        about: "pi's simple protocol: text, thinking, tool calls",
        make: simple::make,
    },
    ViewEntry {
        name: "chunks",
        about: "chunks with the text so far, as `stream` prints them",
        make: chunks::make,
    },
    ViewEntry {
        name: "generate",
        about: "one response object, as `generate` prints it",
        make: generate::make,
    },
    ViewEntry {
        name: "stream-events",
        about: "seven normalized stream events, one result per turn",
        make: stream_events::make,
    },
    ViewEntry {
        name: "provider-events",
        about: "messages, approvals and file hints for a session monitor",
        make: provider_events::make,
    },
];

/// Returns the view of that name.
pub fn by_name(name: &str) -> Option<&'static ViewEntry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// Appends a record as one line of JSON.
fn line(out: &mut String, record: &impl Serialize) {
    let json = serde_json::to_string(record).expect("records are plain data with string keys");
    // Tool arguments stay as their author wrote them, and JSON allows line breaks between tokens. Inside strings
    // they are always escaped, so a space in their place changes nothing but the layout.
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        out.extend(json.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }));
    } else {
        out.push_str(&json);
    }
    out.push('\n');
}
