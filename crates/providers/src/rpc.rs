//! A JSON-RPC peer, pure: lines in, what they mean out; calls in, lines out.
//!
//! Both sides may call. Each side numbers its own calls as it likes, so the same id may be open in both
//! directions at once. Our ids are kept here, and theirs are sent back as they wrote them. Some programs
//! leave out the `jsonrpc` field and some require it: reading ignores it, and writing includes it where the program requires it.
//! Responses may come in any order. A call of an unknown method gets an error response ([`Peer::refuse`]), so that
//! the caller does not wait forever.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// The error code for an unknown method.
pub const UNKNOWN_METHOD: i64 = -32601;

/// Whether messages carry the `jsonrpc` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcVersionField {
    /// They have `"jsonrpc":"2.0"`.
    Written,
    /// They do not.
    LeftOut,
}

/// One side of a conversation.
#[derive(Debug)]
pub struct Peer {
    version: RpcVersionField,
    last: u64,
    open: BTreeMap<u64, String>,
}

/// The kind of a line from the other side.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The answer to a call of ours.
    Reply {
        /// The number of the call.
        id: u64,
        /// The method that was called.
        method: String,
        /// The result.
        result: Result<Value, RpcError>,
    },
    /// A call of theirs, which wants an answer.
    Call {
        /// Their id, as they wrote it.
        id: Value,
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// Something that wants no answer.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Value,
    },
    /// No message of this protocol, or the answer to a call that is not open.
    Strange,
}

/// Why a call failed, in the words of the other side.
#[derive(Clone, Debug, PartialEq, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The code.
    #[serde(default)]
    pub code: i64,
    /// The reason.
    #[serde(default)]
    pub message: String,
}

/// A message, before it is known which sort it is.
#[derive(Deserialize)]
struct RpcMessage {
    /// Absent and `null` differ: `null` is the id of an answer to what could not be read.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<RpcError>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Peer {
    /// Begins a conversation.
    pub fn new(version: RpcVersionField) -> Self {
        Self { version, last: 0, open: BTreeMap::new() }
    }

    /// Calls a method, and returns the number of the call and the line to write.
    pub fn call(&mut self, method: &str, params: &Value) -> (u64, Vec<u8>) {
        self.last += 1;
        self.open.insert(self.last, method.to_owned());
        (self.last, self.line(json!({ "id": self.last, "method": method, "params": params })))
    }

    /// Returns the line of something that wants no answer.
    pub fn notify(&self, method: &str) -> Vec<u8> {
        self.line(json!({ "method": method }))
    }

    /// Returns the line of something that wants no answer, with what goes with it.
    pub fn notify_of(&self, method: &str, params: &Value) -> Vec<u8> {
        self.line(json!({ "method": method, "params": params }))
    }

    /// Returns the line that answers a call of theirs.
    pub fn answer(&self, id: &Value, result: &Value) -> Vec<u8> {
        self.line(json!({ "id": id, "result": result }))
    }

    /// Returns the line that refuses a call of theirs.
    pub fn refuse(&self, id: &Value, code: i64, message: &str) -> Vec<u8> {
        self.line(json!({ "id": id, "error": { "code": code, "message": message } }))
    }

    /// Returns whether a call waits for its answer.
    pub fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Reads a line of the other side.
    pub fn hear(&mut self, line: &str) -> Incoming {
        let Ok(message) = serde_json::from_str::<RpcMessage>(line) else { return Incoming::Strange };
        match (message.method, message.id) {
            (Some(method), Some(id)) => Incoming::Call { id, method, params: message.params },
            (Some(method), None) => Incoming::Notification { method, params: message.params },
            (None, Some(id)) => {
                // Removed from the open calls, so that a second answer with the same id is not taken for another reply.
                let Some((id, method)) = id.as_u64().and_then(|id| Some((id, self.open.remove(&id)?))) else {
                    return Incoming::Strange;
                };
                let result = match (message.error, message.result) {
                    (Some(error), _) => Err(error),
                    (None, result) => Ok(result.unwrap_or(Value::Null)),
                };
                Incoming::Reply { id, method, result }
            }
            (None, None) => Incoming::Strange,
        }
    }

    fn line(&self, mut message: Value) -> Vec<u8> {
        if let (RpcVersionField::Written, Some(fields)) = (self.version, message.as_object_mut()) {
            fields.insert("jsonrpc".to_owned(), json!("2.0"));
        }
        let mut line = message.to_string().into_bytes();
        // One message is one line: `to_string` escapes line ends inside strings.
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[u8]) -> &str {
        std::str::from_utf8(line).unwrap()
    }

    #[test]
    fn answers_come_in_any_order_and_each_once() {
        let mut peer = Peer::new(RpcVersionField::LeftOut);
        let (first, line) = peer.call("a", &json!({}));
        assert_eq!(text(&line), "{\"id\":1,\"method\":\"a\",\"params\":{}}\n");
        let (second, _) = peer.call("b", &json!({ "x": 1 }));
        let reply = |id, method: &str, result| Incoming::Reply { id, method: method.into(), result };
        let heard = peer.hear(r#"{"id":2,"result":{"y":2}}"#);
        assert_eq!(heard, reply(second, "b", Ok(json!({ "y": 2 }))));
        assert_eq!(peer.hear(r#"{"id":2,"result":{"y":2}}"#), Incoming::Strange, "a second time");
        assert!(peer.is_waiting());
        let failed = RpcError { code: -32600, message: "not now".into() };
        let heard = peer.hear(r#"{"error":{"code":-32600,"message":"not now"},"id":1}"#);
        assert_eq!(heard, reply(first, "a", Err(failed)));
        assert!(!peer.is_waiting());
    }

    #[test]
    fn the_same_id_may_be_open_in_both_directions() {
        let mut peer = Peer::new(RpcVersionField::Written);
        let (own, _) = peer.call("ours", &json!({}));
        let call = peer.hear(r#"{"jsonrpc":"2.0","id":1,"method":"theirs","params":{"p":true}}"#);
        let Incoming::Call { id, method, params } = call else { panic!("{call:?}") };
        assert_eq!((&id, method.as_str(), params), (&json!(1), "theirs", json!({ "p": true })));
        let line = peer.refuse(&id, UNKNOWN_METHOD, "no such method");
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            answer,
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": "no such method" } })
        );
        let heard = peer.hear(r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
        assert_eq!(heard, Incoming::Reply { id: own, method: "ours".into(), result: Ok(Value::Null) });
    }

    #[test]
    fn an_id_of_theirs_goes_back_as_it_came() {
        let mut peer = Peer::new(RpcVersionField::LeftOut);
        for id in [json!("a-1"), json!(0), json!(null)] {
            let line = json!({ "id": id, "method": "m" }).to_string();
            let Incoming::Call { id: heard, .. } = peer.hear(&line) else { panic!("{line}") };
            assert_eq!(heard, id);
            let answer: Value = serde_json::from_slice(&peer.answer(&heard, &json!(1))).unwrap();
            assert_eq!(answer, json!({ "id": id, "result": 1 }));
        }
    }

    #[test]
    fn what_is_no_message_is_strange_and_nothing_more() {
        let mut peer = Peer::new(RpcVersionField::LeftOut);
        peer.call("a", &json!({}));
        for line in ["", "warming up…", "{}", "[]", "{\"id\":7,\"result\":1}", "{\"id\":null,\"error\":{}}"]
        {
            assert_eq!(peer.hear(line), Incoming::Strange, "{line}");
        }
        assert!(peer.is_waiting(), "the call is still open");
        let told = peer.hear(r#"{"method":"warning","params":{"text":"x"}}"#);
        let expected = Incoming::Notification { method: "warning".into(), params: json!({ "text": "x" }) };
        assert_eq!(told, expected);
    }

    #[test]
    fn a_notification_has_no_id() {
        let peer = Peer::new(RpcVersionField::LeftOut);
        assert_eq!(text(&peer.notify("initialized")), "{\"method\":\"initialized\"}\n");
    }
}
