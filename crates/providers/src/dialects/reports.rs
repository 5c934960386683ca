//! Usage reports as several dialects make them.

use bowline_protocol::kinds::UsageReported;
use bowline_protocol::{Basis, Kind, Usage, UsageSource};

/// A report of the program's own numbers, of which nothing more is known.
pub(crate) fn reported(usage: Usage, basis: Basis) -> UsageReported {
    UsageReported { usage, basis, source: UsageSource::Reported, cost_usd: None, model: None, message: None }
}

/// The same as an event.
pub(crate) fn event(usage: Usage, basis: Basis) -> Kind {
    Kind::UsageReported(reported(usage, basis))
}
