//! The steers that the agent has not read.
//!
//! The server acknowledges a steer at once and shows later, by an item with its id, that the agent reads it. If the turn ends
//! first, the server forgets the steer (0.166.0).

use serde_json::Value;

use crate::dialect::{AckToken, HostPrompt, Output};
use crate::rpc::RpcError;

/// How many steers may wait to be read.
const AT_MOST: usize = 64;

/// The steers that the agent has not read.
#[derive(Debug, Default)]
pub(super) struct UnreadSteers(Vec<UnreadSteer>);

#[derive(Debug)]
struct UnreadSteer {
    prompt: HostPrompt,
    /// The number of the request.
    token: AckToken,
    acknowledged: bool,
}

impl UnreadSteers {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= AT_MOST
    }

    /// Adds a steer that was sent.
    pub(super) fn add(&mut self, prompt: &HostPrompt, token: AckToken) {
        self.0.push(UnreadSteer { prompt: prompt.clone(), token, acknowledged: false });
    }

    /// Handles the response to a steer.
    pub(super) fn answered(
        &mut self,
        token: AckToken,
        result: Result<Value, RpcError>,
        out: &mut Output<'_>,
    ) {
        let place = self.0.iter().position(|steer| steer.token == token);
        match (result, place) {
            // Acknowledged, not read: in a tool the model sees it only when the tool has ended.
            (Ok(_), Some(place)) => self.0[place].acknowledged = true,
            (Err(error), place) => {
                // -32600 `no active turn to steer`: the turn ended on the way. The order gets the words of the server.
                place.map(|place| self.0.remove(place));
                return out.acknowledged(token, Err(error.message));
            }
            (Ok(_), None) => {}
        }
        out.acknowledged(token, Ok(()));
    }

    /// Reports a steer that the agent reads with this line. The reader then drops the server's echo of it.
    pub(super) fn read(&mut self, line: &str, out: &mut Output<'_>) {
        // `item/started` has the same id a moment before. Only one of the two may count.
        if self.0.is_empty() || !line.contains("\"clientId\"") || !line.contains("\"item/completed\"") {
            return;
        }
        let message = serde_json::from_str::<Value>(line).unwrap_or_default();
        let id = message.pointer("/params/item/clientId").and_then(Value::as_str);
        if let Some(place) = self.0.iter().position(|steer| Some(steer.prompt.id.as_str()) == id) {
            let steer = self.0.remove(place);
            out.prompt_read(&steer.prompt);
        }
    }

    /// The turn is over: what was acknowledged will not be read. Others still get their response.
    pub(super) fn turn_over(&mut self, out: &mut Output<'_>) {
        for steer in self.0.extract_if(.., |steer| steer.acknowledged) {
            out.prompt_lost(&steer.prompt.id);
        }
    }

    /// The process has ended.
    pub(super) fn process_over(&mut self, out: &mut Output<'_>) {
        for steer in self.0.drain(..) {
            out.prompt_lost(&steer.prompt.id);
        }
    }
}
