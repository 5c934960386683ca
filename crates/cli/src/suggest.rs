//! Lookup of names, with a spelling suggestion if a name is unknown.

mod commands;

use bowline::Profile;
use bowline::roster::{Roster, RosterError};
use bowline_providers::dialect::Shape;
use bowline_providers::manifest::Manifest;
use bowline_providers::{catalogue, dialects, views};

use crate::config;
use crate::error::{CommandError, Fault};
use crate::output::sink::OutputFormat;
pub(crate) use commands::command;

/// Finds a dialect, or suggests one.
pub(crate) fn dialect(name: &str) -> Result<&'static dialects::DialectEntry, CommandError> {
    let known = || dialects::ALL.iter().map(|entry| entry.name);
    dialects::by_name(name).ok_or_else(|| {
        let error = missing("dialect", name, known()).hint("`bowline dialects` lists the dialects");
        match catalogue::by_name(name) {
            Some(provider) => {
                error.hint(format!("`{0}` is a provider: did you mean `--provider {0}`?", provider.name))
            }
            None => error,
        }
    })
}

/// Finds a provider, or suggests one.
pub(crate) fn provider(name: &str) -> Result<&'static Manifest, CommandError> {
    match Roster::from_env().find(name) {
        Err(RosterError::Unknown { .. }) if is_external(name) => {
            let what = format!("`{name}` is an external CLI; Bowline knows only its command");
            Err(CommandError::new(Fault::Usage, what)
                .hint(format!("`bowline run --provider {name}` runs it, `bowline doctor {name}` checks it")))
        }
        found => Ok(found?),
    }
}

/// Returns whether a name is an external CLI of the configuration. A file that cannot be read counts as empty.
pub(crate) fn is_external(name: &str) -> bool {
    config::load(None).is_ok_and(|config| config.external.has(name))
}

/// Finds a provider by its name in the router's file, else among all of them.
pub(crate) fn listed(name: &str) -> Result<(&'static Manifest, Option<Profile>), CommandError> {
    // An invalid file is an error only if the name could be in it.
    let known = Roster::from_env().find(name);
    let config = match config::load(None) {
        Ok(config) => config,
        Err(error) => return known.map(|manifest| (manifest, None)).map_err(|_| error.into()),
    };
    match bowline::route::listed(&config.run_settings(), name).map_err(CommandError::from)? {
        Some(listed) => Ok((listed.manifest, listed.profile)),
        None => Ok((provider(name)?, None)),
    }
}

/// Finds the dialect and shape of a provider's format, or lists its formats.
pub(crate) fn format(
    provider: &Manifest,
    format: Option<&str>,
) -> Result<(&'static dialects::DialectEntry, Shape), CommandError> {
    let named = format.is_some();
    let name = format.unwrap_or(&provider.default_format);
    let known = || provider.formats.keys().map(String::as_str);
    let Some(format) = provider.formats.get(name) else {
        let list = known().collect::<Vec<_>>().join(", ");
        let message = format!("`{}` has no output format `{name}`", provider.name);
        let error = CommandError::new(Fault::Usage, message);
        return Err(likely(error, name, known()).hint(format!("its formats: {list}")));
    };
    // Without `--format`, the default format gives the dialect, and the decoder detects the shape.
    let shape = if named { format.shape } else { Shape::Unknown };
    Ok((dialect(&format.dialect)?, shape))
}

/// Finds a view, or suggests one.
pub(crate) fn view(name: &str) -> Result<&'static views::ViewEntry, CommandError> {
    let known = || views::ALL.iter().map(|entry| entry.name);
    let list = known().collect::<Vec<_>>().join(", ");
    views::by_name(name)
        .ok_or_else(|| missing("view", name, known()).hint(format!("possible values: {list}")))
}

/// Finds an output format, or suggests one.
pub(crate) fn output(name: &str) -> Result<OutputFormat, CommandError> {
    let list = OutputFormat::names().collect::<Vec<_>>().join(", ");
    OutputFormat::named(name).ok_or_else(|| {
        missing("output format", name, OutputFormat::names()).hint(format!("possible values: {list}"))
    })
}

/// Rejects an unknown case, and suggests one.
pub(crate) fn case(name: &str) -> Result<(), CommandError> {
    let known = || bowline_certify::cases().map(|case| case.name);
    if known().any(|case| case == name) {
        return Ok(());
    }
    let list = known().collect::<Vec<_>>().join(", ");
    Err(missing("case", name, known()).hint(format!("possible values: {list}")))
}

/// Rejects an unknown case for executable providers, and suggests one.
pub(crate) fn executable_case(name: &str) -> Result<(), CommandError> {
    let known = || bowline_certify::executable::cases().map(|case| case.name);
    if known().any(|case| case == name) {
        return Ok(());
    }
    let list = known().collect::<Vec<_>>().join(", ");
    Err(missing("case", name, known()).hint(format!("possible values: {list}")))
}

fn missing<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> CommandError {
    likely(CommandError::new(Fault::Usage, format!("there is no {what} `{name}`")), name, known)
}

/// Adds the known name that is closest to an unknown one.
pub(crate) fn likely<'a>(
    error: CommandError,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> CommandError {
    match bowline::closest_name(name, known) {
        Some(close) => error.hint(format!("did you mean `{close}`?")),
        None => error,
    }
}
