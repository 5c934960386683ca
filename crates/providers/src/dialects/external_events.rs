//! `external-events`: either protocol of the external CLI provider, told apart by the first line that is in one of them.
//!
//! The specification has one converter for protocol A (pi-style events) and protocol B (simple events) and no setting
//! that chooses. `session` and `error` decide nothing: a program of either protocol may print them first. Exit code 0
//! ends the turn well, also without a `message_end`.

use serde_json::Value;

use super::pi_events::PiEvents;
use super::simple::SimpleEvents;
use crate::dialect::{Dialect, Input, Output};
use crate::lenient;

/// Reads the events of an external CLI.
#[derive(Debug, Default)]
pub(crate) struct ExternalEvents {
    protocol: Option<Protocol>,
    pi_style: PiEvents,
    simple: SimpleEvents,
}

/// The two protocols of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// A: pi-style events.
    PiStyle,
    /// B: simple events.
    Simple,
}

impl Dialect for ExternalEvents {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        let reader = match (self.protocol, input) {
            (None, Input::Line(line)) => self.undecided(line),
            (protocol, _) => protocol.unwrap_or(Protocol::PiStyle),
        };
        match reader {
            Protocol::PiStyle => self.pi_style.handle(input, out),
            Protocol::Simple => self.simple.handle(input, out),
        }
    }
}

impl ExternalEvents {
    /// Chooses the reader of a line while no line has decided, and decides if this one does.
    fn undecided(&mut self, line: &str) -> Protocol {
        let type_name = first_type(line);
        if type_name.as_deref() == Some("error") {
            // Only protocol B's reader knows this line.
            return Protocol::Simple;
        }
        self.protocol = type_name.as_deref().and_then(protocol_of);
        self.protocol.unwrap_or(Protocol::PiStyle)
    }
}

/// Returns the protocol in which a type of line occurs, if it occurs in one only.
fn protocol_of(type_name: &str) -> Option<Protocol> {
    match type_name {
        "text" | "thinking" | "tool_call" | "tool_result" | "done" => Some(Protocol::Simple),
        "agent_start" | "agent_end" | "turn_start" | "turn_end" | "auto_retry_start" | "auto_retry_end" => {
            Some(Protocol::PiStyle)
        }
        name if name.starts_with("message_") || name.starts_with("tool_execution_") => {
            Some(Protocol::PiStyle)
        }
        _ => None,
    }
}

/// Returns the `type` of the first object of a line.
fn first_type(line: &str) -> Option<String> {
    let repaired = lenient::repair(line);
    let first =
        serde_json::Deserializer::from_str(repaired.trim_start()).into_iter::<Value>().next()?.ok()?;
    first.get("type")?.as_str().map(str::to_owned)
}
