//! The lines of `run --format json`: only what is read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialects::loose_json::{Field, Object};

/// A line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OpencodeLine<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) type_name: Field<'a>,
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) part: Object<OpencodePart<'a>>,
    #[serde(borrow)]
    pub(super) error: Object<Error<'a>>,
}

/// A part of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OpencodePart<'a> {
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message_id: Field<'a>,
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    pub(super) tool: Field<'a>,
    #[serde(borrow, rename = "callID")]
    pub(super) call_id: Field<'a>,
    #[serde(borrow)]
    pub(super) state: Object<OpencodeToolState<'a>>,
    #[serde(borrow)]
    pub(super) reason: Field<'a>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cost: Field<'a>,
}

/// How a tool call went.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OpencodeToolState<'a> {
    #[serde(borrow)]
    pub(super) status: Field<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Field<'a>,
    #[serde(borrow)]
    pub(super) error: Field<'a>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

/// An error.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Error<'a> {
    #[serde(borrow)]
    pub(super) name: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    pub(super) data: Object<ErrorData<'a>>,
}

/// The fields of an error.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ErrorData<'a> {
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    pub(super) status_code: Field<'a>,
    #[serde(borrow)]
    pub(super) response_headers: Object<Headers<'a>>,
    #[serde(borrow)]
    pub(super) response_body: Field<'a>,
}

/// The headers that matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Headers<'a> {
    #[serde(borrow)]
    pub(super) retry_after: Field<'a>,
    #[serde(borrow)]
    pub(super) retry_after_ms: Field<'a>,
}
