//! `BOWLINE_LOG`: writes the spans and events of the library to standard error, a line each.
//!
//! It helps to find a bug in Bowline or in its use. The spans and events carry ids and counts, never content, so a log can be
//! attached to a bug report.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::error::{CommandError, Fault};
use crate::ui::Ui;

/// The environment variable that sets the level.
const VARIABLE: &str = "BOWLINE_LOG";

/// Starts the log if the variable is set.
pub(crate) fn begin() -> Result<(), CommandError> {
    let Some(wanted) = asked() else { return Ok(()) };
    let level: LevelFilter = wanted.parse().map_err(|_| {
        CommandError::new(Fault::Usage, format!("{VARIABLE}={wanted} is not a log level"))
            .hint("use off, error, warn, info, debug or trace")
    })?;
    // The ids of spans begin at 1: `Id::from_u64` panics on 0.
    let log = LineLogger { level, spans: AtomicU64::new(1) };
    tracing::subscriber::set_global_default(log)
        .map_err(|error| CommandError::new(Fault::Internal, "could not start the log").caused_by(error))
}

#[expect(clippy::disallowed_methods, reason = "the command line is an edge at which the environment is read")]
fn asked() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|value| !value.is_empty())
}

/// A `tracing` subscriber that writes lines.
struct LineLogger {
    level: LevelFilter,
    spans: AtomicU64,
}

impl Subscriber for LineLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = LogLine::new(span.metadata());
        let _ = write!(line.0, " begins");
        span.record(&mut line);
        line.write();
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::new(event.metadata());
        event.record(&mut line);
        line.write();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A log line under construction.
struct LogLine(String);

impl LogLine {
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
        Ui::new().log(&self.0);
    }
}

impl Visit for LogLine {
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
