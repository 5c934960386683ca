//! Providers that the router's file has under names of its own, for those who want to know about them.

use bowline_providers::manifest::Manifest;

use super::candidates::stands_in;
use crate::Error;
use crate::config::{Config, ConfigError, Entry, EntryKind, Router};
use crate::profile::Profile;
use crate::roster::{self, Executable};

/// A provider as the router's file describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed {
    /// How it is run: under the name of its entry, with its program and its variables.
    pub manifest: &'static Manifest,
    /// The account.
    pub profile: Option<Profile>,
}

/// Finds a provider by its name in the router's file; nothing if there is none of that name.
pub fn listed(config: &Config, name: &str) -> Result<Option<Listed>, Error> {
    let Some((router, entry)) = config.router.as_ref().and_then(|it| Some((it, it.entry(name)?))) else {
        return Ok(None);
    };
    stands_in(entry, router)?;
    let wrong = |what: String| {
        let (path, at) = (router.path.clone(), Some((entry.line, 1)));
        Error::Config(Box::new(ConfigError { path, at, line: None, what, hint: None }))
    };
    let manifest = manifest_of(entry, router).map_err(|why| wrong(format!("`{name}`: {why}")))?;
    let profile = match &entry.profile {
        Some(profile) => Some(
            config
                .settings
                .profile(profile)
                .ok_or_else(|| wrong(format!("`{name}`: there is no profile `{profile}`")))?,
        ),
        None => None,
    };
    Ok(Some(Listed { manifest: own(manifest, entry), profile }))
}

/// Returns the manifest that an entry goes by, or why there is none.
pub(super) fn manifest_of(entry: &Entry, router: &Router) -> Result<&'static Manifest, String> {
    match &entry.kind {
        EntryKind::Agent { provider, .. } => roster::find(provider)
            .map_err(|error| format!("{error}: `bowline providers` lists what there is, and an executable is named by `config.path`")),
        EntryKind::Executable { path, args } => {
            let executable = Executable {
                args: args.clone(),
                model: entry.model.clone(),
                streams: entry.streaming.unwrap_or(true).into(),
                ..Executable::at(&entry.name, path.to_string_lossy())
            };
            roster::executable(&executable, router.path.parent().unwrap_or(&router.path))
                .map_err(|error| format!("it cannot be used: {error}"))
        }
        EntryKind::Foreign(word) => Err(format!("`{word}` providers cannot be driven")),
    }
}

/// Says whether an entry has a program or variables of its own, and is not simply the provider that it names.
pub(super) fn is_own(entry: &Entry) -> bool {
    match &entry.kind {
        EntryKind::Agent { binary, .. } => binary.is_some() || !entry.env.is_empty(),
        EntryKind::Executable { .. } | EntryKind::Foreign(_) => false,
    }
}

/// Returns a manifest under the name of an entry, with what the entry says of its program.
pub(super) fn own(base: &'static Manifest, entry: &Entry) -> &'static Manifest {
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
