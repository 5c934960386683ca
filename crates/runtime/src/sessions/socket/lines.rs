//! The lines of the control socket: one JSON object each, in both directions.
//!
//! | client | server |
//! |---|---|
//! | `{"hello":{"version":1,"program":"bowline 0.1.0"}}` | `{"hello":{"version":1,"session":"s-1","head":7,"rights":"full"}}` |
//! | `{"id":1,"order":{"order":"interrupt"}}` | `{"id":1,"receipt":{"receipt":"done"}}` or `{"id":1,"refused":{"refused":"turn_over"}}` |
//! | `{"id":2,"snapshot":{}}` | `{"id":2,"snapshot":{...}}` |
//! | `{"id":3,"hand_over":{}}` | `{"id":3,"receipt":{"receipt":"done"}}`, then `end`, and a runner of the client's program; or `refused` |
//! | `{"watch":{}}` | `{"head":8}` for new events, several together; `{"end":{}}` at the end of the stint |
//! | anything else | `{"error":{"code":"bad_line","message":"..."}}`, with the `id` if it could be read |
//!
//! The version is the first thing that each side reads. It changes only if an old line gets another meaning: a new line is refused
//! by an older runner with `bad_line`, and the connection goes on.

use std::io;

use bowline_protocol::{OrderRefused, Receipt, SessionId, SessionOrder, SessionSnapshot};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::build::ProgramBuild;
use super::rights::ClientRights;

/// The versions of the lines that a side speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineVersions {
    pub(super) oldest: u32,
    pub(super) newest: u32,
}

/// The versions that this program speaks.
pub(crate) const VERSIONS: LineVersions = LineVersions { oldest: 1, newest: 1 };

impl LineVersions {
    /// Returns the newest version that both sides speak.
    pub(super) fn common(self, other: Self) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    /// Returns whether this side speaks a version.
    pub(super) fn has(self, version: u32) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

/// The longest line, in bytes: a prompt may be big.
pub(super) const LINE_LIMIT: usize = 8 << 20;

/// The first line of a client. It may have fields of later versions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HelloLine {
    pub(super) hello: ClientHello,
}

/// A client, as it introduces itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClientHello {
    /// The newest version that it speaks.
    pub(super) version: u32,
    /// The oldest one, if it speaks several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) oldest: Option<u32>,
    /// The program and its version. Untrusted.
    #[serde(default)]
    pub(super) program: String,
    /// Its build; none if it is not a program that can run sessions. Untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) build: Option<ProgramBuild>,
}

impl ClientHello {
    pub(super) fn versions(&self) -> LineVersions {
        LineVersions { oldest: self.oldest.unwrap_or(self.version), newest: self.version }
    }
}

/// A line of a client, after the first one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<SessionOrder>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<EmptyObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hand_over: Option<EmptyObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) watch: Option<EmptyObject>,
}

/// `{}`, with room for fields of later versions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyObject {}

/// The request of a client.
#[derive(Debug)]
pub(super) enum ClientCall {
    Order {
        id: u64,
        order: SessionOrder,
    },
    Snapshot {
        id: u64,
    },
    /// Hand the session over to a runner of the client's program.
    HandOver {
        id: u64,
    },
    Watch,
}

/// A line that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) id: Option<u64>,
    pub(super) message: String,
}

impl ClientCall {
    /// Reads a line of a client.
    pub(super) fn read(line: &[u8]) -> Result<Self, BadLine> {
        /// The id alone, for the answer to a line whose other fields are wrong.
        #[derive(Deserialize)]
        struct LineId {
            id: Option<u64>,
        }
        // Unknown fields are an error: an option of a later version must not be dropped in silence from an order.
        let parsed = serde_json::from_slice::<ClientLine>(line).map_err(|error| BadLine {
            id: serde_json::from_slice::<LineId>(line).ok().and_then(|line| line.id),
            message: error.to_string(),
        })?;
        let id = parsed.id;
        let bad = |message: &str| BadLine { id, message: message.to_owned() };
        let needs_id = || id.ok_or_else(|| bad("the line has no `id`"));
        match (parsed.order, parsed.snapshot, parsed.hand_over, parsed.watch) {
            (Some(order), None, None, None) => Ok(Self::Order { id: needs_id()?, order }),
            (None, Some(EmptyObject {}), None, None) => Ok(Self::Snapshot { id: needs_id()? }),
            (None, None, Some(EmptyObject {}), None) => Ok(Self::HandOver { id: needs_id()? }),
            (None, None, None, Some(EmptyObject {})) => Ok(Self::Watch),
            _ => Err(bad("a line has one of `order`, `snapshot`, `hand_over` and `watch`")),
        }
    }

    /// Returns the line for a server.
    pub(super) fn into_line(self) -> ClientLine {
        let empty = Some(EmptyObject {});
        match self {
            Self::Order { id, order } => {
                ClientLine { id: Some(id), order: Some(order), ..ClientLine::default() }
            }
            Self::Snapshot { id } => ClientLine { id: Some(id), snapshot: empty, ..ClientLine::default() },
            Self::HandOver { id } => ClientLine { id: Some(id), hand_over: empty, ..ClientLine::default() },
            Self::Watch => ClientLine { watch: empty, ..ClientLine::default() },
        }
    }
}

/// A line of the server. A client ignores fields that it does not know.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ServerLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hello: Option<ServerHello>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) receipt: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<OrderRefused>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<Box<SessionSnapshot>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<EmptyObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<LineError>,
}

/// The first line of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServerHello {
    /// The version of the lines from here on.
    pub(super) version: u32,
    pub(super) session: SessionId,
    /// The number of the last event.
    pub(super) head: u64,
    /// The client's rights now. The server checks it again for each order.
    pub(super) rights: RightsName,
    /// The reason for fewer rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// The runner's build; none in a runner that hands nothing over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) build: Option<ProgramBuild>,
}

/// [`ClientRights`] as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RightsName {
    Full,
    /// Also rights of a later version.
    #[serde(other)]
    Watch,
}

impl ServerHello {
    pub(super) fn new(version: u32, session: SessionId, head: u64, rights: ClientRights) -> Self {
        let (rights, why) = match rights {
            ClientRights::Full => (RightsName::Full, None),
            ClientRights::Watch { why } => (RightsName::Watch, Some(why)),
        };
        Self { version, session, head, rights, why, build: Some(ProgramBuild::own().clone()) }
    }

    pub(super) fn rights(&self) -> ClientRights {
        match self.rights {
            RightsName::Full => ClientRights::Full,
            RightsName::Watch => ClientRights::Watch { why: self.why.clone().unwrap_or_default() },
        }
    }
}

/// Why the server did not answer a line, or does not serve a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineError {
    pub(super) code: LineErrorCode,
    pub(super) message: String,
    /// The server's version of the lines.
    pub(super) version: u32,
}

/// The sort of a [`LineError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineErrorCode {
    /// The line is not understood. The connection goes on.
    BadLine,
    /// The line is too long. The connection ends.
    TooLong,
    /// The client speaks another version. The connection ends.
    Version,
    /// Too many clients are connected. The connection ends.
    TooManyClients,
    /// A code of a later version.
    #[serde(other)]
    Unknown,
}

impl ServerLine {
    /// Returns the answer to an order.
    pub(super) fn answer(id: u64, answer: Result<Receipt, OrderRefused>) -> Self {
        match answer {
            Ok(receipt) => Self { id: Some(id), receipt: Some(receipt), ..Self::default() },
            Err(refused) => Self { id: Some(id), refused: Some(refused), ..Self::default() },
        }
    }

    /// Returns the line for a client that speaks none of our versions.
    pub(super) fn other_version(own: u32, message: String) -> Self {
        let error = LineError { code: LineErrorCode::Version, message, version: own };
        Self { error: Some(error), ..Self::default() }
    }

    /// Returns a line with an error.
    pub(super) fn error(id: Option<u64>, code: LineErrorCode, message: impl Into<String>) -> Self {
        Self {
            id,
            error: Some(LineError { code, message: message.into(), version: VERSIONS.newest }),
            ..Self::default()
        }
    }
}

/// Returns a line as bytes, with its end.
pub(super) fn encode(line: &impl Serialize) -> Vec<u8> {
    // JSON escapes line breaks inside of texts, so the first line break of the bytes is the one behind the object.
    let mut bytes = serde_json::to_vec(line).expect("our own lines have no map with keys that are not text");
    bytes.push(b'\n');
    bytes
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    Line(Vec<u8>),
    /// It is longer than the limit. The reader is in the middle of it.
    TooLong,
    /// The other side has closed the connection, maybe in the middle of a line.
    End,
}

/// Reads one line, without its end.
pub(super) async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<ReadLine> {
    let mut line = Vec::new();
    // One byte more than the limit, for the end of the line.
    // Not cancel safe: a dropped call loses the part that it has read. Callers end the connection in that case.
    let read = from.take(LINE_LIMIT as u64 + 1).read_until(b'\n', &mut line).await?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(ReadLine::Line(line));
    }
    Ok(if read > LINE_LIMIT { ReadLine::TooLong } else { ReadLine::End })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_asks_for_one_thing() {
        let bad = |line: &str| ClientCall::read(line.as_bytes()).unwrap_err();
        assert_eq!(bad(r#"{"id":3}"#).id, Some(3));
        assert_eq!(bad(r#"{"id":3,"watch":{},"snapshot":{}}"#).id, Some(3));
        assert_eq!(bad(r#"{"snapshot":{}}"#).message, "the line has no `id`");
        assert_eq!(bad(r#"{"id":4,"order":{"order":"interrupt","x":1}}"#).id, Some(4));
        assert_eq!(bad(r#"{"id":5,"dance":{}}"#).id, Some(5));
        assert_eq!(bad("no json").id, None);
        assert!(matches!(ClientCall::read(br#"{"watch":{}}"#), Ok(ClientCall::Watch)));
        let order = br#"{"id":6,"order":{"order":"interrupt"}}"#;
        assert!(matches!(ClientCall::read(order), Ok(ClientCall::Order { id: 6, .. })));
    }

    #[test]
    fn a_code_of_a_later_version_is_read() {
        let line = br#"{"error":{"code":"too_late","message":"m","version":9},"new":1}"#;
        let error = serde_json::from_slice::<ServerLine>(line).unwrap().error.unwrap();
        assert_eq!((error.code, error.version), (LineErrorCode::Unknown, 9));
    }

    #[tokio::test]
    async fn lines_have_a_limit() {
        let mut text = vec![b'a'; LINE_LIMIT];
        text.extend(b"\nshort\n");
        text.extend(vec![b'b'; LINE_LIMIT + 1]);
        let mut from = text.as_slice();
        assert_eq!(read_line(&mut from).await.unwrap(), ReadLine::Line(vec![b'a'; LINE_LIMIT]));
        assert_eq!(read_line(&mut from).await.unwrap(), ReadLine::Line(b"short".to_vec()));
        assert_eq!(read_line(&mut from).await.unwrap(), ReadLine::TooLong);
        assert_eq!(read_line(&mut &b"half"[..]).await.unwrap(), ReadLine::End);
    }
}
