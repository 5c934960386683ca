//! Providers that the router's file defines under names of its own.

use bowline_providers::manifest::Manifest;

use super::candidates::stands_in;
use crate::agents::profile::Profile;
use crate::agents::roster::{self, Executable, Roster};
use crate::run::error::Error;
use crate::run::settings::{ConfigCause, ConfigError, EntryKind, Router, RouterEntry, RunSettings};

/// A provider from the router's file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedProvider {
    /// The manifest, with the name, the program and the variables of the entry.
    pub manifest: &'static Manifest,
    /// The account.
    pub profile: Option<Profile>,
}

/// Finds a provider by its name in the router's file.
pub fn listed(settings: &RunSettings, name: &str) -> Result<Option<ListedProvider>, Error> {
    let Some((router, entry)) = settings.router.as_ref().and_then(|it| Some((it, it.entry(name)?))) else {
        return Ok(None);
    };
    stands_in(entry, router, &settings.roster)?;
    let wrong = |what: String, cause| {
        let what = ConfigError::of_file(&router.path, format!("`{name}`: {what}"));
        ConfigError { at: Some((entry.line, 1)), cause, ..what }
    };
    let manifest = manifest_of(entry, router, &settings.roster).map_err(|gap| wrong(gap.what, gap.cause))?;
    let profile = match &entry.profile {
        Some(profile) => Some(
            settings
                .profiles
                .get(profile)
                .cloned()
                .ok_or_else(|| wrong(format!("there is no profile `{profile}`"), None))?,
        ),
        None => None,
    };
    Ok(Some(ListedProvider { manifest: own(manifest, entry), profile }))
}

/// Why an entry has no manifest.
#[derive(Debug)]
pub(super) struct ManifestGap {
    /// The message.
    pub(super) what: String,
    cause: Option<ConfigCause>,
}

impl ManifestGap {
    fn new(what: String) -> Self {
        Self { what, cause: None }
    }

    fn caused_by(what: String, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { what, cause: Some(ConfigCause::new(error)) }
    }
}

/// Returns the manifest of an entry, or the reason why it has no manifest.
pub(super) fn manifest_of(
    entry: &RouterEntry,
    router: &Router,
    roster: &Roster,
) -> Result<&'static Manifest, ManifestGap> {
    match &entry.kind {
        EntryKind::Agent { provider, .. } => roster.find(provider).map_err(|error| {
            let what = format!(
                "{error}: `bowline providers` lists what there is, and an executable is named by `config.path`"
            );
            ManifestGap::caused_by(what, error)
        }),
        EntryKind::Executable { path, args } => {
            let executable = Executable {
                args: args.clone(),
                model: entry.model.clone(),
                streams: entry.streaming.unwrap_or(true).into(),
                ..Executable::at(&entry.name, path.to_string_lossy())
            };
            roster::executable(&executable, router.path.parent().unwrap_or(&router.path))
                .map_err(|error| ManifestGap::caused_by(format!("it cannot be used: {error}"), error))
        }
        EntryKind::Foreign(word) => Err(ManifestGap::new(format!("`{word}` providers cannot be driven"))),
    }
}

/// Returns whether an entry changes the program or the variables of the provider that it names.
pub(super) fn is_own(entry: &RouterEntry) -> bool {
    match &entry.kind {
        EntryKind::Agent { binary, .. } => binary.is_some() || !entry.env.is_empty(),
        EntryKind::Executable { .. } | EntryKind::Foreign(_) => false,
    }
}

/// Returns a manifest with the name, the program and the variables of an entry.
pub(super) fn own(base: &'static Manifest, entry: &RouterEntry) -> &'static Manifest {
    let EntryKind::Agent { binary, .. } = &entry.kind else { return base };
    if !is_own(entry) && base.name == entry.name {
        return base;
    }
    let mut manifest = base.clone();
    manifest.aliases.insert(0, std::mem::replace(&mut manifest.name, entry.name.clone()));
    if let Some(binary) = binary {
        manifest.program = binary.to_string_lossy().into_owned();
    }
    manifest.probe.env.extend(entry.env.clone());
    roster::intern(manifest)
}
