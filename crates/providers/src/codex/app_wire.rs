//! The messages between `codex app-server` and its client: JSON-RPC without the `jsonrpc` field.
//!
//! The frequent notifications are read in one pass into a small struct, all others in a second one.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::legacy::Msg;
use super::wire::Item;
use crate::dialects::loose_json::{Boxed, Flag, Maybe, Number, Text};

/// A message in either direction.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Rpc<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Text<'a>,
    #[serde(borrow, default)]
    pub(super) params: Maybe<Params<'a>>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Maybe<RpcError<'a>>,
}

/// Why a request failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError<'a> {
    pub(super) code: Number,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

/// The parameters that the frequent notifications have, and that say whose the others are.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    #[serde(borrow, default)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item: Boxed<Item<'a>>,
    #[serde(default)]
    pub(super) summary_index: Number,
    #[serde(default)]
    pub(super) content_index: Number,
}

/// A message that is read a second time, for its other parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Again<'a> {
    #[serde(borrow)]
    params: Maybe<Rest<'a>>,
}

/// The other parameters of a notification or request. Which there are depends on the method.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rest<'a> {
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow)]
    pub(super) turn: Maybe<Turn<'a>>,
    #[serde(borrow)]
    pub(super) thread: Maybe<Thread<'a>>,
    #[serde(borrow)]
    pub(super) token_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) rate_limits: Option<&'a RawValue>,
    /// An object for a thread, a word for an MCP server.
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    pub(super) will_retry: Flag,
    #[serde(borrow)]
    pub(super) diff: Text<'a>,
    #[serde(borrow)]
    pub(super) plan: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
    pub(super) summary: Text<'a>,
    #[serde(borrow)]
    pub(super) details: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
    #[serde(borrow)]
    pub(super) to_model: Text<'a>,
    #[serde(borrow)]
    pub(super) request_id: Option<&'a RawValue>,
    /// A sentence, or in the first version of the protocol a list of words.
    #[serde(borrow)]
    pub(super) command: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cwd: Text<'a>,
    #[serde(borrow)]
    pub(super) available_decisions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) network_approval_context: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) permissions: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(super) meta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) server_name: Text<'a>,
    #[serde(borrow)]
    pub(super) questions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) tool: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    /// An event of the first version of the protocol.
    #[serde(borrow)]
    pub(super) msg: Maybe<Msg<'a>>,
}

impl<'a> Rest<'a> {
    /// Reads the other parameters of a message.
    pub(super) fn of(line: &'a str) -> Self {
        serde_json::from_str::<Again<'a>>(line).ok().and_then(|again| again.params.0).unwrap_or_default()
    }
}

/// A turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) items: Option<&'a RawValue>,
}

/// A thread.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Thread<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) parent_thread_id: Text<'a>,
    #[serde(borrow)]
    pub(super) cwd: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) cli_version: Text<'a>,
}

/// Why a turn failed, or is retried.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TurnError<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    /// A word, or an object with one key.
    #[serde(borrow, alias = "codex_error_info")]
    pub(super) codex_error_info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) additional_details: Text<'a>,
}
