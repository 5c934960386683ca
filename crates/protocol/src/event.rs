//! The envelope: one line of `events.jsonl`.

use serde::{Deserialize, Serialize};

use crate::{Kind, SessionId, Timestamp};

/// The version of the event format that this crate writes.
pub const FORMAT_VERSION: u32 = 1;

/// Something that happened in a session.
///
/// ```
/// let line = r#"{"v":1,"seq":12,"at":"2026-11-15T08:00:00.123Z","session":"s1","turn":1,"source":"agent",
///     "raw":{"file":"stdout","start":1024,"end":1340},
///     "kind":{"type":"text_delta","message":"m1","block":0,"text":"Hel"}}"#;
/// let event: bowline_protocol::Event = serde_json::from_str(line)?;
/// let bowline_protocol::Kind::TextDelta(delta) = &event.kind else { panic!("not text") };
/// assert_eq!(delta.text, "Hel");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// The version of the format: [`FORMAT_VERSION`].
    pub v: u32,
    /// The place in the session: 1, 2, 3 and so on, without a gap.
    pub seq: u64,
    /// When the bytes behind it were read.
    pub at: Timestamp,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The turn that it belongs to, counted from 1; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The origin of the event.
    pub source: Source,
    /// The bytes that it was read from; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawSpan>,
    /// The kind of event, with its fields.
    pub kind: Kind,
}

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The agent printed it.
    Agent,
    /// Bowline concluded or did it.
    Bowline,
}

/// A stretch of a session's raw files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RawSpan {
    /// The file.
    pub file: RawFile,
    /// The offset of the first byte.
    pub start: u64,
    /// The offset behind the last byte. A line's end-of-line bytes are not part of its span.
    pub end: u64,
}

/// The raw files of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RawFile {
    /// The agent's standard output.
    Stdout,
    /// The agent's standard error.
    Stderr,
    /// The bytes that Bowline wrote to the agent.
    Stdin,
    /// The bytes of the agent's terminal.
    Pty,
}
