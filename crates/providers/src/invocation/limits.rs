//! The time limits of a run.

use bowline_protocol::{Millis, Request};
use serde::Serialize;

use crate::dialect::Shape;
use crate::manifest::Manifest;
use crate::manifest::run::Total;

/// How long each phase of a run may take; absent means that there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseLimits {
    /// Until the process is there.
    pub spawn: Option<Millis>,
    /// From the spawn to the first event.
    pub first_event: Option<Millis>,
    /// Silence while no tool runs.
    pub idle: Option<Millis>,
    /// Silence while a tool runs.
    pub in_tool: Option<Millis>,
    /// From the end of the answer to the end of the process.
    pub shutdown: Option<Millis>,
    /// The whole run.
    pub total: Option<Millis>,
}

impl PhaseLimits {
    /// Returns the limits of a request, from the manifest and the request itself.
    pub(super) fn of(manifest: &Manifest, request: &Request, shape: Shape) -> Self {
        let watchdog = &manifest.watchdog;
        // A program that prints only at its end is silent all the time, and a tool may be running.
        let (first_event, idle) = match shape {
            Shape::Document | Shape::Text => (None, watchdog.in_tool),
            Shape::Lines | Shape::Unknown => (watchdog.first_event, watchdog.idle),
        };
        let total = match watchdog.total {
            Total::Timeout => manifest.timeout,
            Total::None => None,
            Total::Of(span) => Some(span),
        };
        // The caller's limit on silence covers the start too. A tool may take as long as the program allows, or longer.
        let asked = request.idle_timeout_ms;
        Self {
            spawn: watchdog.spawn,
            first_event: asked.or(first_event),
            idle: asked.or(idle),
            in_tool: watchdog.in_tool.map(|limit| asked.map_or(limit, |asked| asked.max(limit))),
            shutdown: watchdog.shutdown,
            total: request.timeout_ms.or(total),
        }
    }

    /// Shortens the limits on silence to this. The limit of a running tool stays.
    pub(crate) fn with_shorter_idle(mut self, most: Option<Millis>) -> Self {
        let shorter = |limit: Option<Millis>| limit.into_iter().chain(most).min();
        (self.first_event, self.idle) = (shorter(self.first_event), shorter(self.idle));
        self
    }
}
