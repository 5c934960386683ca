//! The protocol of Bowline: the [`Event`], and the types of its fields and of requests.
//!
//! Everything here is plain data with a documented JSON form. The crate has no IO, no clock and no environment, and names no
//! agent; it builds for `wasm32`. `bowline-providers` turns an agent's own output into these events.
//!
//! JSON is written in `snake_case`. Absent options are left out rather than written as `null`.

#![warn(missing_docs)]

mod approval;
mod capabilities;
mod event;
mod failure;
mod ids;
mod json;
mod kind;
pub mod kinds;
mod line;
mod order;
mod remedy;
mod request;
mod time;
mod usage;

pub use approval::{
    ApprovalCategory, ApprovalOption, ApprovalRuling, Decider, Decision, EnforcedBy, OptionEffect,
    PolicyVerdict, Risk,
};
pub use capabilities::{Approvals, Capabilities, PrFlow, ResumeSupport, StructuredEdits, UsageReports};
pub use event::{Event, FORMAT_VERSION, RawFile, RawSpan, Source};
pub use failure::{Category, Code, Exit, Failure};
pub use ids::{ApprovalId, MessageId, NativeSessionId, PromptId, QuestionId, SessionId, TaskId, ToolId};
pub use json::{Excerpt, Json};
pub use kind::{Kind, Subject, UnknownKind};
pub use line::{EventWriter, plain_json_prefix};
pub use order::{
    AckGap, ApprovalVerdict, ChildRequest, LastTurn, OrderRefused, QueuedPrompt, Receipt, SessionOrder,
    SessionSnapshot, WhenBusy,
};
pub use remedy::{FieldValue, NotAField, Remedy, RequestField};
pub use request::{
    Attachment, GatedAction, McpServer, Message, NetworkMode, OwnCategory, PermissionMode, PolicySpec,
    Request, Resume, Role, Sampling, TaskSpec, TurnLimits,
};
pub use time::{BadSpan, BadTimestamp, Millis, Timestamp};
pub use usage::{Basis, Usage, UsageSource};

#[cfg(feature = "schema")]
pub mod schema;
