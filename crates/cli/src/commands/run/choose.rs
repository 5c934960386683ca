//! Which provider is meant when a run begins.

use bowline::Profile;
use bowline::config::Config;
use bowline_providers::catalogue;
use bowline_providers::manifest::Manifest;

use crate::args::request::RequestArgs;
use crate::commands::executable;
use crate::error::{CommandError, Fault};
use crate::suggest;

/// One who is asked.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// A provider.
    Provider(&'static Manifest),
    /// One that the router's file has under this name.
    Listed(String),
}

impl Asked {
    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Provider(manifest) => &manifest.name,
            Self::Listed(name) => name,
        }
    }

    /// Returns the provider, if it is known without the router.
    pub(crate) fn provider(&self) -> Option<&'static Manifest> {
        match self {
            Self::Provider(manifest) => Some(manifest),
            Self::Listed(_) => None,
        }
    }
}

/// Who is asked.
#[derive(Debug)]
pub(crate) enum Whom {
    /// This one.
    One(Asked),
    /// These, side by side.
    Several(Vec<Asked>),
    /// Whom the router chooses.
    Router,
}

/// Returns who is asked: the executable or the ones that were asked for, else that of the environment, else as the settings
/// say, else whom the router chooses if its file is the user's own, else the only one that is installed and logged in.
pub(crate) fn whom(
    args: &RequestArgs,
    config: &Config,
    profile: Option<&Profile>,
) -> Result<Whom, CommandError> {
    if let Some(path) = &args.executable {
        return executable::provider(path).map(|manifest| Whom::One(Asked::Provider(manifest)));
    }
    // A profile is an account of one provider.
    let Some(asked) = args.provider.as_deref().or(profile.map(|profile| profile.provider.as_str())) else {
        // A hint or a model says what is wanted, and the router finds who has it.
        if args.hint.is_some() || args.model.is_some() {
            return Ok(Whom::Router);
        }
        // Whoever has written down among whom to choose has chosen.
        if config.own_router().is_some() {
            return Ok(Whom::Router);
        }
        return only(config).map(|manifest| Whom::One(Asked::Provider(manifest)));
    };
    if asked.eq_ignore_ascii_case(bowline::route::AUTO) {
        return Ok(Whom::Router);
    }
    // A command may have commas in it.
    let names: Vec<&str> =
        if asked.starts_with("acp:") { vec![asked] } else { asked.split(',').map(str::trim).collect() };
    let mut all: Vec<Asked> = Vec::new();
    for name in names {
        let one = named(name, config)?;
        if all.iter().any(|known| known.name() == one.name()) {
            let error = CommandError::new(Fault::Usage, format!("`{}` is asked twice", one.name()));
            return Err(error.hint("name each provider once"));
        }
        all.push(one);
    }
    match all.len() {
        1 => Ok(Whom::One(all.remove(0))),
        _ => Ok(Whom::Several(all)),
    }
}

/// Finds one by name: in the router's file, else among the providers.
fn named(name: &str, config: &Config) -> Result<Asked, CommandError> {
    let listed = config.router.as_ref().is_some_and(|router| router.entry(name).is_some());
    if listed { Ok(Asked::Listed(name.to_owned())) } else { suggest::provider(name).map(Asked::Provider) }
}

/// Returns the only provider that is installed and logged in.
fn only(config: &Config) -> Result<&'static Manifest, CommandError> {
    let usable = bowline::detect::usable();
    if let [only] = usable[..] {
        return Ok(only);
    }
    let usable: Vec<&str> = usable.iter().map(|manifest| manifest.name.as_str()).collect();
    let names: Vec<&str> = catalogue::built_in().map(|manifest| manifest.name.as_str()).collect();
    let error = CommandError::new(Fault::Usage, "no provider is chosen");
    let error = if usable.is_empty() {
        let installed: Vec<&str> =
            bowline::detect::installed().iter().map(|manifest| manifest.name.as_str()).collect();
        let found = if installed.is_empty() {
            "none of them is installed".to_owned()
        } else {
            format!("installed, but without a login: {}", installed.join(", "))
        };
        error.hint(format!("Bowline knows {}: {found}", names.join(", ")))
    } else {
        error.hint(format!("installed and logged in: {}", usable.join(", ")))
    };
    let error = match &config.router {
        Some(router) => {
            let path = router.path.display();
            error.hint(format!("`--provider auto` chooses by {path}, which came with the project"))
        }
        None => error,
    };
    Err(error
        .hint("choose one with `--provider NAME`, or set BOWLINE_PROVIDER; `--provider auto` lets the router choose")
        .hint("to see how it works without any of them: `bowline demo`"))
}
