//! `bowline provider`: creates an executable provider, or checks its health.

mod new;

use bowline::detect::{ProbeError, ProbeErrorKind};
use bowline::roster::{self, HealthReport};
use bowline_providers::manifest::Manifest;

use super::executable;
use crate::args::provider::{HealthArgs, ProviderArgs, ProviderCommand};
use crate::error::{CommandError, Fault};
use crate::suggest;
use crate::ui::Stdout;

/// Runs the command.
pub(crate) fn run(args: &ProviderArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    match &args.command {
        ProviderCommand::New(args) => new::run(args, stdout),
        ProviderCommand::Health(args) => health(args, stdout),
    }
}

fn health(args: &HealthArgs, stdout: &mut Stdout) -> Result<(), CommandError> {
    let manifest = match (&args.executable, &args.name) {
        (Some(path), _) => executable::provider(path)?,
        (None, Some(name)) => suggest::listed(name)?.0,
        (None, None) => return Err(CommandError::new(Fault::Usage, "no provider is named")),
    };
    say_health(manifest, args.json, stdout)
}

/// Runs the health check of a provider and prints the result.
pub(crate) fn say_health(
    manifest: &'static Manifest,
    json: bool,
    stdout: &mut Stdout,
) -> Result<(), CommandError> {
    let asked = crate::async_runtime::start()?.block_on(roster::health(manifest));
    let Some(health) = asked.map_err(unanswered)? else {
        let message = format!("`{}` has no health check", manifest.name);
        return Err(CommandError::new(Fault::Usage, message)
            .caused_by("it is not an executable provider, and its manifest has no `probe.health`")
            .hint(format!("run `bowline doctor {}` instead", manifest.name)));
    };
    stdout.print(&told(manifest, &health, json))?;
    if health.well { Ok(()) } else { Err(CommandError::told(1)) }
}

fn told(manifest: &Manifest, health: &HealthReport, json: bool) -> String {
    if json {
        let object = serde_json::json!({
            "provider": manifest.name,
            "well": health.well,
            "message": health.said,
            "exit_code": health.code,
            "took_ms": u64::try_from(health.took.as_millis()).unwrap_or(u64::MAX),
        });
        return format!("{object:#}\n");
    }
    let word = if health.well { "is healthy" } else { "is not healthy" };
    let said = if health.said.is_empty() { String::new() } else { format!(": {}", health.said) };
    let code = match (health.well, health.code) {
        (true, _) => String::new(),
        (false, Some(code)) => format!(" (exit code {code})"),
        (false, None) => " (ended by a signal)".to_owned(),
    };
    format!("{} {word}{code}{said}\n", manifest.name)
}

fn unanswered(error: ProbeError) -> CommandError {
    let kind = match error.kind {
        ProbeErrorKind::Spawn(_) => Fault::Missing,
        ProbeErrorKind::TooSlow { .. } => Fault::TooSlow,
        ProbeErrorKind::Keeper(_)
        | ProbeErrorKind::NoVersion { .. }
        | ProbeErrorKind::Killed { .. }
        | ProbeErrorKind::Ended { .. }
        | ProbeErrorKind::NotTold(_)
        | ProbeErrorKind::Home { .. } => Fault::Internal,
    };
    CommandError::new(kind, error.to_string()).caused_by(error.kind)
}
