//! Whose account a command is about: providers that are named, and a profile of the settings.

use std::collections::BTreeMap;

use bowline::Profile;
use bowline::config::Config;
use bowline_providers::manifest::Manifest;

use crate::commands::trust;
use crate::error::{CommandError, Fault};
use crate::suggest;

/// Providers, and the accounts of those that do not have the usual one.
type Accounts = (Vec<&'static Manifest>, BTreeMap<String, Profile>);

/// Finds the providers that are named, also by the router's file, each once, and their accounts. Where nobody is named, a
/// profile says whose it is; without one the list is empty.
pub(crate) fn meant(names: &[String], profile: Option<&str>) -> Result<Accounts, CommandError> {
    let named: Vec<_> = names.iter().map(|name| suggest::listed(name)).collect::<Result<_, _>>()?;
    let (mut named, mut accounts) = each_once(named);
    let Some(profile) = profile else { return Ok((named, accounts)) };
    let profile = find(profile, &trust::load(None)?)?;
    if named.is_empty() {
        named.push(suggest::provider(&profile.provider)?);
    }
    for manifest in &named {
        profile.suits(manifest).map_err(CommandError::from)?;
        accounts.insert(manifest.name.clone(), profile.clone());
    }
    Ok((named, accounts))
}

/// Takes each provider once, with the account that it has first.
pub(crate) fn each_once(all: Vec<(&'static Manifest, Option<Profile>)>) -> Accounts {
    let (mut named, mut accounts): Accounts = Accounts::default();
    for (manifest, profile) in all {
        if !named.iter().any(|it| it.name == manifest.name) {
            named.push(manifest);
            accounts.extend(profile.map(|profile| (manifest.name.clone(), profile)));
        }
    }
    (named, accounts)
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
