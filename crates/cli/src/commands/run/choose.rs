//! Chooses the provider of a run.

use bowline::Profile;
use bowline_config::Config;
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;

use crate::args::request::RequestArgs;
use crate::commands::executable;
use crate::error::{CommandError, Fault};
use crate::suggest;

/// A provider that a request names.
#[derive(Clone, Debug)]
pub(crate) enum NamedProvider {
    /// A provider.
    Provider(&'static Manifest),
    /// An entry of the router's file, or an external CLI, by its name.
    Listed(String),
}

impl NamedProvider {
    /// Returns the name of the provider or entry.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Provider(manifest) => &manifest.name,
            Self::Listed(name) => name,
        }
    }

    /// Returns the manifest, if it is known without the router.
    pub(crate) fn manifest(&self) -> Option<&'static Manifest> {
        match self {
            Self::Provider(manifest) => Some(manifest),
            Self::Listed(_) => None,
        }
    }
}

/// The target of a request.
#[derive(Debug)]
pub(crate) enum RequestTarget {
    /// One provider.
    One(NamedProvider),
    /// Several providers in parallel.
    Several(Vec<NamedProvider>),
    /// The provider that the router chooses.
    Router,
}

/// Chooses the target, in this order: the executable or the providers of the request; the environment; the settings; the
/// router, if its file is the user's own; the only provider that is installed and logged in.
pub(crate) fn target(
    args: &RequestArgs,
    config: &Config,
    profile: Option<&Profile>,
) -> Result<RequestTarget, CommandError> {
    if let Some(path) = &args.executable {
        return executable::provider(path)
            .map(|manifest| RequestTarget::One(NamedProvider::Provider(manifest)));
    }
    // A profile names one provider.
    let Some(provider) = args.provider.as_deref().or(profile.map(|profile| profile.provider.as_str())) else {
        // The router finds a provider for a hint or a model.
        if args.hint.is_some() || args.model.is_some() {
            return Ok(RequestTarget::Router);
        }
        // The user's own router file is a choice.
        if config.own_router().is_some() {
            return Ok(RequestTarget::Router);
        }
        return only(config).map(|manifest| RequestTarget::One(NamedProvider::Provider(manifest)));
    };
    if provider.eq_ignore_ascii_case(bowline::route::AUTO) {
        return Ok(RequestTarget::Router);
    }
    // An `acp:` command may contain commas.
    let names: Vec<&str> = if provider.starts_with("acp:") {
        vec![provider]
    } else {
        provider.split(',').map(str::trim).collect()
    };
    let mut all: Vec<NamedProvider> = Vec::new();
    for name in names {
        let one = named(name, config)?;
        if all.iter().any(|known| known.name() == one.name()) {
            let error = CommandError::new(Fault::Usage, format!("`{}` is named twice", one.name()));
            return Err(error.hint("name each provider once"));
        }
        all.push(one);
    }
    match all.len() {
        1 => Ok(RequestTarget::One(all.remove(0))),
        _ => Ok(RequestTarget::Several(all)),
    }
}

/// Finds a name in the router's file, else among the providers, else among the external CLIs.
fn named(name: &str, config: &Config) -> Result<NamedProvider, CommandError> {
    if config.router.as_ref().is_some_and(|router| router.entry(name).is_some()) {
        return Ok(NamedProvider::Listed(name.to_owned()));
    }
    match suggest::provider(name) {
        Err(_) if config.external.has(name) => Ok(NamedProvider::Listed(name.to_owned())),
        found => found.map(NamedProvider::Provider),
    }
}

/// Returns the only provider that is installed and logged in, if there is exactly one.
fn only(config: &Config) -> Result<&'static Manifest, CommandError> {
    let usable = bowline::detect::usable();
    if let [only] = usable[..] {
        return Ok(only);
    }
    let usable: Vec<&str> = usable.iter().map(|manifest| manifest.name.as_str()).collect();
    let names: Vec<&str> = catalogue::built_in().map(|manifest| manifest.name.as_str()).collect();
    let error = CommandError::new(Fault::Usage, "no provider is selected");
    let error = if usable.is_empty() {
        let installed: Vec<&str> =
            bowline::detect::installed().iter().map(|manifest| manifest.name.as_str()).collect();
        let found = if installed.is_empty() {
            "none of them is installed".to_owned()
        } else {
            format!("installed, but not logged in: {}", installed.join(", "))
        };
        error.hint(format!("Bowline knows {}: {found}", names.join(", ")))
    } else {
        error.hint(format!("installed and logged in: {}", usable.join(", ")))
    };
    let error = match &config.router {
        Some(router) => {
            let path = router.path.display();
            error.hint(format!("`--provider auto` uses {path}, which came with the project"))
        }
        None => error,
    };
    Err(error
        .hint("choose one with `--provider NAME`, or set BOWLINE_PROVIDER; `--provider auto` lets the router choose")
        .hint("`bowline demo` plays a run without any of them"))
}
