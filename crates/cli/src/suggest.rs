//! Names that were not found, and what was probably meant.

mod meaning;

use bowline::Profile;
use bowline::roster::Roster;
use bowline_providers::dialect::Shape;
use bowline_providers::manifest::Manifest;
use bowline_providers::{catalogue, dialects, views};

use crate::error::{CommandError, Fault};
use crate::output::sink::Format;
pub(crate) use meaning::command;

/// Finds a dialect, or says what was probably meant.
pub(crate) fn dialect(name: &str) -> Result<&'static dialects::Entry, CommandError> {
    let known = || dialects::ALL.iter().map(|entry| entry.name);
    dialects::by_name(name).ok_or_else(|| {
        let error = missing("dialect", name, known()).hint("`bowline dialects` lists what there is");
        match catalogue::by_name(name) {
            Some(provider) => {
                error.hint(format!("`{0}` is a provider: did you mean `--provider {0}`?", provider.name))
            }
            None => error,
        }
    })
}

/// Finds a provider, or says what was probably meant.
pub(crate) fn provider(name: &str) -> Result<&'static Manifest, CommandError> {
    Ok(Roster::from_env().find(name)?)
}

/// Finds a provider by its name in the router's file, else among all of them.
pub(crate) fn listed(name: &str) -> Result<(&'static Manifest, Option<Profile>), CommandError> {
    // A file that is wrong is in the way of those only who mean something in it.
    let known = Roster::from_env().find(name);
    let config = match crate::commands::trust::load(None) {
        Ok(config) => config,
        Err(error) => return known.map(|manifest| (manifest, None)).map_err(|_| error.into()),
    };
    match bowline::route::listed(&config, name).map_err(CommandError::from)? {
        Some(listed) => Ok((listed.manifest, listed.profile)),
        None => Ok((provider(name)?, None)),
    }
}

/// Finds the dialect and shape of a provider's format, or says which formats it has.
pub(crate) fn format(
    provider: &Manifest,
    format: Option<&str>,
) -> Result<(&'static dialects::Entry, Shape), CommandError> {
    let named = format.is_some();
    let name = format.unwrap_or(&provider.default_format);
    let known = || provider.formats.keys().map(String::as_str);
    let Some(format) = provider.formats.get(name) else {
        let list = known().collect::<Vec<_>>().join(", ");
        let message = format!("`{}` has no output format `{name}`", provider.name);
        let error = CommandError::new(Fault::Usage, message);
        return Err(likely(error, name, known()).hint(format!("it has {list}")));
    };
    // Nobody said which format it is: the default names the dialect, and the shape shows in the output.
    let shape = if named { format.shape } else { Shape::Unknown };
    Ok((dialect(&format.dialect)?, shape))
}

/// Finds a view, or says what was probably meant.
pub(crate) fn view(name: &str) -> Result<&'static views::Entry, CommandError> {
    let known = || views::ALL.iter().map(|entry| entry.name);
    let list = known().collect::<Vec<_>>().join(", ");
    views::by_name(name).ok_or_else(|| missing("view", name, known()).hint(format!("there is {list}")))
}

/// Finds an output format, or says what was probably meant.
pub(crate) fn output(name: &str) -> Result<Format, CommandError> {
    let list = Format::names().collect::<Vec<_>>().join(", ");
    Format::named(name)
        .ok_or_else(|| missing("output format", name, Format::names()).hint(format!("there is {list}")))
}

/// Refuses the name of a case that there is not, and says what was probably meant.
pub(crate) fn case(name: &str) -> Result<(), CommandError> {
    let known = || bowline_certify::cases().map(|case| case.name);
    if known().any(|case| case == name) {
        return Ok(());
    }
    let list = known().collect::<Vec<_>>().join(", ");
    Err(missing("case", name, known()).hint(format!("there is {list}")))
}

/// Refuses the name of a case for executable providers that there is not, and says what was probably meant.
pub(crate) fn executable_case(name: &str) -> Result<(), CommandError> {
    let known = || bowline_certify::executable::cases().map(|case| case.name);
    if known().any(|case| case == name) {
        return Ok(());
    }
    let list = known().collect::<Vec<_>>().join(", ");
    Err(missing("case", name, known()).hint(format!("there is {list}")))
}

fn missing<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> CommandError {
    likely(CommandError::new(Fault::Usage, format!("there is no {what} `{name}`")), name, known)
}

/// Adds what was probably meant.
pub(crate) fn likely<'a>(
    error: CommandError,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> CommandError {
    match bowline::near(name, known) {
        Some(close) => error.hint(format!("did you mean `{close}`?")),
        None => error,
    }
}
