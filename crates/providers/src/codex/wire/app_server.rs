//! The messages between `codex app-server` and its client: JSON-RPC without the `jsonrpc` field.
//!
//! The frequent notifications are read in one pass into a small struct, all others in a second one.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::dialect::legacy::Msg;
use super::Item;
use crate::dialects::loose_json::{Boxed, LooseFlag, LooseText, Maybe, Number};

/// A message in either direction.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AppServerMessage<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) method: LooseText<'a>,
    #[serde(borrow, default)]
    pub(crate) params: Maybe<Params<'a>>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Maybe<AppServerError<'a>>,
}

/// Why a request failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AppServerError<'a> {
    pub(crate) code: Number,
    #[serde(borrow)]
    pub(crate) message: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) data: Option<&'a RawValue>,
}

/// The parameters that the frequent notifications have, and that say whose the others are.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: LooseText<'a>,
    #[serde(borrow, default)]
    pub(crate) item_id: LooseText<'a>,
    #[serde(borrow, default)]
    pub(crate) delta: LooseText<'a>,
    #[serde(borrow, default)]
    pub(crate) item: Boxed<Item<'a>>,
    #[serde(default)]
    pub(crate) summary_index: Number,
    #[serde(default)]
    pub(crate) content_index: Number,
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
pub(crate) struct Rest<'a> {
    #[serde(borrow)]
    pub(crate) item_id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) turn: Maybe<AppServerTurn<'a>>,
    #[serde(borrow)]
    pub(crate) thread: Maybe<Thread<'a>>,
    #[serde(borrow)]
    pub(crate) token_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) rate_limits: Option<&'a RawValue>,
    /// An object for a thread, a word for an MCP server.
    #[serde(borrow)]
    pub(crate) status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
    pub(crate) will_retry: LooseFlag,
    #[serde(borrow)]
    pub(crate) diff: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) plan: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) name: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) message: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) summary: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) details: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) reason: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) to_model: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) request_id: Option<&'a RawValue>,
    /// A sentence, or in the first version of the protocol a list of words.
    #[serde(borrow)]
    pub(crate) command: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cwd: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) available_decisions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) network_approval_context: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) permissions: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) server_name: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) requested_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) thread_settings: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) questions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) call_id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) tool: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) arguments: Option<&'a RawValue>,
    /// An event of the first version of the protocol.
    #[serde(borrow)]
    pub(crate) msg: Maybe<Msg<'a>>,
}

impl<'a> Rest<'a> {
    /// Reads the other parameters of a message.
    pub(crate) fn of(line: &'a str) -> Self {
        serde_json::from_str::<Again<'a>>(line).ok().and_then(|again| again.params.0).unwrap_or_default()
    }
}

/// A turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AppServerTurn<'a> {
    #[serde(borrow)]
    pub(crate) id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) status: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) items: Option<&'a RawValue>,
}

/// A thread.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Thread<'a> {
    #[serde(borrow)]
    pub(crate) id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) parent_thread_id: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) cwd: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) model: LooseText<'a>,
    #[serde(borrow)]
    pub(crate) cli_version: LooseText<'a>,
}

/// Why a turn failed, or is retried.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TurnError<'a> {
    #[serde(borrow)]
    pub(crate) message: LooseText<'a>,
    /// A word, or an object with one key.
    #[serde(borrow, alias = "codex_error_info")]
    pub(crate) codex_error_info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) additional_details: LooseText<'a>,
}
