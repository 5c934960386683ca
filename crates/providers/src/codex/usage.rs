//! Codex's token counts. They include cached input, and count from the beginning of the thread.

use bowline_protocol::kinds::{ContextGauge, UsageReported};
use bowline_protocol::{Basis, Kind, Usage, UsageSource};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::part;
use crate::dialects::loose_json::Number;
use crate::usage::Tokens;

/// Makes the event.
pub(super) fn reported(usage: Usage, basis: Basis) -> Kind {
    let source = UsageSource::Reported;
    Kind::UsageReported(UsageReported { usage, basis, source, cost_usd: None, model: None, message: None })
}

/// The counts of a thread so far and of its last request, in both spellings.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenCounts<'a> {
    #[serde(borrow, alias = "total_token_usage")]
    pub(super) total: Tokens<'a>,
    #[serde(borrow, alias = "last_token_usage")]
    pub(super) last: Tokens<'a>,
    #[serde(alias = "modelContextWindow")]
    pub(super) model_context_window: Number,
}

impl<'a> TokenCounts<'a> {
    pub(super) fn of(raw: Option<&'a RawValue>) -> Self {
        part(raw)
    }

    /// How full the context is: all that the last request held and gave.
    pub(super) fn gauge(&self) -> Option<Kind> {
        let used = self.last.usage()?.total();
        let window = self.model_context_window.0.and_then(|window| u64::try_from(window).ok());
        Some(Kind::ContextGauge(ContextGauge { used, window }))
    }
}
