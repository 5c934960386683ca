//! Whose account a command is about: providers that are named, and a profile of the settings.

use bowline::Profile;
use bowline::config::Config;
use bowline_providers::manifest::Manifest;

use crate::error::{CommandError, Fault};
use crate::suggest;

/// Finds the providers that are named, each once, and the profile. Where nobody is named, a profile says whose it is; without
/// one the list is empty.
pub(crate) fn meant(
    names: &[String],
    profile: Option<&str>,
) -> Result<(Vec<&'static Manifest>, Option<Profile>), CommandError> {
    let mut named: Vec<&'static Manifest> = Vec::new();
    for name in names {
        let manifest = suggest::provider(name)?;
        if !named.iter().any(|it| it.name == manifest.name) {
            named.push(manifest);
        }
    }
    let Some(profile) = profile else { return Ok((named, None)) };
    let profile = find(profile, &Config::load(None)?)?;
    if named.is_empty() {
        named.push(suggest::provider(&profile.provider)?);
    }
    named.iter().try_for_each(|manifest| profile.suits(manifest)).map_err(CommandError::from)?;
    Ok((named, Some(profile)))
}

/// Finds a profile, or says what is missing.
pub(crate) fn find(name: &str, config: &Config) -> Result<Profile, CommandError> {
    let settings = &config.settings;
    if let Some(profile) = settings.profile(name) {
        return Ok(profile);
    }
    let is_set = |part: &str| settings.text(&format!("profiles.{name}.{part}")).is_some();
    let half = |what: &str, hint: String| {
        Err(CommandError::new(Fault::Configuration, format!("the profile `{name}` {what}")).hint(hint))
    };
    match (is_set("provider"), is_set("home")) {
        (true, _) => half("has no directory", format!("`bowline config set profiles.{name}.home DIR`")),
        (_, true) => half("is nobody's", format!("`bowline config set profiles.{name}.provider NAME`")),
        (false, false) => {
            let known = settings.profiles();
            let error = CommandError::new(Fault::Usage, format!("there is no profile `{name}`"));
            Err(if known.is_empty() {
                error.hint(format!(
                    "make one with `bowline config set profiles.{name}.provider NAME` and `bowline config set profiles.{name}.home DIR`"
                ))
            } else {
                error.hint(format!("there is {}", known.join(", ")))
            })
        }
    }
}

/// Writes whose account it is.
pub(crate) fn whose(provider: &str, profile: Option<&str>) -> String {
    match profile {
        Some(profile) => format!("{provider} ({profile})"),
        None => provider.to_owned(),
    }
}
