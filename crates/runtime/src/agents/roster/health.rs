//! The health of a provider by its own command, which reports it with the exit code.

use std::time::Duration;

use bowline_providers::ansi;
use bowline_providers::executable::HEALTH;
use bowline_providers::manifest::Manifest;

use crate::agents::command;
use crate::agents::detect::{self, ProbeError, ProbeErrorKind};
use crate::system::clock;
use crate::system::surroundings::Surroundings;

/// How much of what a program says about itself is told.
const TOLD: usize = 2_000;

/// A provider's report on itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// It is well.
    pub well: bool,
    /// Its output, made harmless: its standard error if the check failed and printed anything there, else its standard output.
    pub said: String,
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// How long it took.
    pub took: Duration,
}

/// Runs the health command of a provider, for at most five seconds. Returns nothing for a provider without one.
///
/// Needs a tokio runtime.
pub async fn health(manifest: &'static Manifest) -> Result<Option<HealthReport>, ProbeError> {
    let Some(command) = command::health(manifest, &Surroundings::from_env()).await else { return Ok(None) };
    let program = command.program.clone();
    let began = clock::instant();
    let answer = detect::asked(command, Duration::from_millis(HEALTH.0), None).await;
    let took = clock::instant().saturating_duration_since(began);
    let wrong = |kind: ProbeErrorKind| ProbeError { program, args: manifest.probe.health.clone(), kind };
    let answer = match answer {
        // That is not well, whatever it would have said.
        Err(kind @ ProbeErrorKind::Killed { .. }) => {
            return Ok(Some(HealthReport { well: false, said: kind.to_string(), code: None, took }));
        }
        answer => answer.map_err(wrong)?,
    };
    let well = answer.code == Some(0);
    let said = match answer.stderr.trim() {
        complaint if !well && !complaint.is_empty() => complaint,
        _ => answer.stdout.trim(),
    };
    let said = ansi::harmless(said).chars().take(TOLD).collect();
    Ok(Some(HealthReport { well, said, code: answer.code, took }))
}
