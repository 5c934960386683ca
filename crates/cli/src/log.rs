//! `BOWLINE_LOG`: what goes on inside, one line on standard error for each thing that the library says.
//!
//! For people who look for a fault in Bowline or in how they use it. The library's spans and events carry ids and counts
//! and never content, so a log can be sent to somebody else.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::error::{CommandError, Fault};

/// The variable that asks for it.
const VARIABLE: &str = "BOWLINE_LOG";

/// Begins to log if the user asks for it.
pub(crate) fn begin() -> Result<(), CommandError> {
    let Some(wanted) = asked() else { return Ok(()) };
    let level: LevelFilter = wanted.parse().map_err(|_| {
        CommandError::new(Fault::Usage, format!("{VARIABLE}={wanted} is no level"))
            .hint("it is off, error, warn, info, debug or trace")
    })?;
    let log = Log { level, spans: AtomicU64::new(1) };
    tracing::subscriber::set_global_default(log)
        .map_err(|error| CommandError::new(Fault::Internal, "could not begin to log").caused_by(error))
}

#[expect(clippy::disallowed_methods, reason = "the command line is an edge at which the environment is read")]
fn asked() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|value| !value.is_empty())
}

/// Writes lines.
struct Log {
    level: LevelFilter,
    spans: AtomicU64,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::new(span.metadata());
        let _ = write!(line.0, " begins");
        span.record(&mut line);
        line.write();
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::new(event.metadata());
        event.record(&mut line);
        line.write();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One line in the making.
struct Line(String);

impl Line {
    fn new(metadata: &Metadata<'_>) -> Self {
        let name = if metadata.is_span() { metadata.name() } else { "" };
        Self(format!(
            "{} {}{}{name}",
            metadata.level(),
            metadata.target(),
            if name.is_empty() { "" } else { ": " }
        ))
    }

    fn write(self) {
        let line = bowline_providers::ansi::harmless(&self.0).replace('\n', " ");
        // Nothing can be done about a standard error that takes no more.
        let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, ": {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = match field.name() {
            "message" => write!(self.0, ": {value}"),
            name => write!(self.0, " {name}={value}"),
        };
    }
}
