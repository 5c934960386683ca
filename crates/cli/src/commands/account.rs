//! Finds the providers and accounts of a command: by name, and by a profile of the settings.

use std::collections::BTreeMap;

use bowline::Profile;
use bowline::roster::{Roster, RosterError};
use bowline_config::Config;
use bowline_providers::invocation::external::ByModel;
use bowline_providers::manifest::Manifest;

use crate::config;
use crate::error::{CommandError, Fault};
use crate::suggest;

/// Providers, and the accounts of those that do not use their default account.
type Accounts = (Vec<&'static Manifest>, BTreeMap<String, Profile>);

/// Finds the named providers, also those of the router's file, each once, and their accounts. Without names, the profile gives
/// the provider; without a profile, the list is empty.
pub(crate) fn providers(names: &[String], profile: Option<&str>) -> Result<Accounts, CommandError> {
    let named: Vec<_> = names.iter().map(|name| suggest::listed(name)).collect::<Result<_, _>>()?;
    let (mut named, mut accounts) = each_once(named);
    let Some(profile) = profile else { return Ok((named, accounts)) };
    let profile = find(profile, &config::load(None)?)?;
    if named.is_empty() {
        named.push(suggest::provider(&profile.provider)?);
    }
    for manifest in &named {
        profile.suits(manifest).map_err(CommandError::from)?;
        accounts.insert(manifest.name.clone(), profile.clone());
    }
    Ok((named, accounts))
}

/// The providers and external CLIs that the arguments of a command name.
#[derive(Debug, Default)]
pub(crate) struct NamedAccounts {
    /// Providers, each once.
    pub(crate) named: Vec<&'static Manifest>,
    /// The accounts of those that do not use their default account.
    pub(crate) accounts: BTreeMap<String, Profile>,
    /// External CLIs, by model.
    pub(crate) external: ByModel,
}

/// Finds the named providers and external CLIs. A provider takes precedence over an external CLI of the same name.
pub(crate) fn providers_and_external(
    names: &[String],
    profile: Option<&str>,
) -> Result<NamedAccounts, CommandError> {
    let roster = Roster::from_env();
    let unknown = |name: &String| matches!(roster.find(name), Err(RosterError::Unknown { .. }));
    let mut external = ByModel::new();
    let mut others = names.to_vec();
    // Read the files only if a name is not a provider.
    if names.iter().any(unknown)
        && let Ok(config) = config::load(None)
    {
        let listed =
            |name: &String| config.router.as_ref().is_some_and(|router| router.entry(name).is_some());
        for name in names.iter().filter(|name| unknown(name) && !listed(name)) {
            if let Some(program) = config.external.get(name).map_err(|error| error.clone())? {
                external.insert(name.clone(), program.clone());
                others.retain(|other| other != name);
            }
        }
    }
    let (named, accounts) = providers(&others, profile)?;
    Ok(NamedAccounts { named, accounts, external })
}

/// Takes each provider once, with its first account.
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

/// Finds a profile, or reports the missing part.
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
        (_, true) => half("names no provider", format!("`bowline config set profiles.{name}.provider NAME`")),
        (false, false) => {
            let known = settings.profiles();
            let error = CommandError::new(Fault::Usage, format!("there is no profile `{name}`"));
            Err(if known.is_empty() {
                error.hint(format!(
                    "create it with `bowline config set profiles.{name}.provider NAME` and `bowline config set profiles.{name}.home DIR`"
                ))
            } else {
                error.hint(format!("existing profiles: {}", known.join(", ")))
            })
        }
    }
}

/// Formats an account: the provider, and the profile if there is one.
pub(crate) fn whose(provider: &str, profile: Option<&str>) -> String {
    match profile {
        Some(profile) => format!("{provider} ({profile})"),
        None => provider.to_owned(),
    }
}
