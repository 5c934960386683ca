//! Reads the settings files of the user and of a project, and returns values for the library `bowline`, which reads none itself.
//!
//! ```no_run
//! let config = bowline_config::Config::load(Some("/srv/checkout".as_ref()))?;
//! let task = bowline::task("Fix the failing test").provider("auto").settings(config.run_settings().into());
//! # drop(task);
//! # Ok::<(), bowline::settings::ConfigError>(())
//! ```
//!
//! `bowline.toml` has the settings ([`Settings`]), `router.yaml` the list of providers to choose from, in the form of the
//! executable providers' specification ([`Router`]), and a JSON file describes programs in the form of the specification for
//! pi ([`External`]). A project's files lie in `.bowline/` (for the router also `.specular/`) in the working directory or above
//! it, the user's in the XDG configuration directory. Precedence: environment, then project, then user.
//!
//! A project's file may have come with a repository that its user has not looked at. Without trust ([`trust`]) it narrows
//! and orders the user's providers and limits, and everything else in it is left out ([`Config::left_out`]).
//!
//! An error names its place in the file, and no part of a wrong file is used. Errors in the settings and in the router's file
//! stop every run. A wrong description of an external CLI stops only runs that use it.

mod checkup;
mod external;
mod place;
mod policy;
mod project;
mod router;
mod settings;
mod source;
pub mod trust;
mod values;
mod yaml;

use std::path::{Path, PathBuf};

use bowline::attention::Attention;
use bowline::policy::PolicySource;
use bowline::roster::Roster;
use bowline::settings::{ConfigError, EntryKind, External, FileOwner, Router};
use bowline::trust::TrustRecord;
use bowline_protocol::Millis;

pub use checkup::checkup_items;
pub use place::Places;
pub use policy::{policy_files, read_policy};
pub(crate) use project::{ProjectFile, base_of, project_files};
pub use settings::{KEYS, Key, KeyKind, Setting, SettingOrigin, Settings, edit};

use crate::trust::{LeftOut, ProjectTrust, TrustStore};
use external::ExternalFile;
use project::ProjectReader;
use router::{Reading, claims, lower, narrowed};
use source::ConfigSource;

/// Returns a variable of this process, if it is text.
#[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// All that the files say.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where files are looked for.
    pub places: Places,
    /// The settings.
    pub settings: Settings,
    /// The list of providers to choose from, if there is one.
    pub router: Option<Router>,
    /// Programs in the form of the specification for pi, by model.
    pub external: External,
    /// The parts of a project's files that are not used, because the project is not trusted or a file belongs to another user.
    pub left_out: Vec<LeftOut>,
    /// Files that were pinned by `bowline trust` and have changed since.
    pub changed: Vec<PathBuf>,
    /// How to call a person. All runs with this configuration share it.
    pub attention: Attention,
    /// The pins of the project.
    pins: Option<TrustRecord>,
    /// The policies of the user and of the project.
    policy: Option<PolicySource>,
}

impl Config {
    /// Reads the settings for a working directory. A project's files count as far as `bowline trust` has pinned them.
    ///
    /// ```no_run
    /// let config = bowline_config::Config::load(Some("/srv/checkout".as_ref()))?;
    /// for part in &config.left_out {
    ///     eprintln!("{part}"); // /srv/checkout/.bowline/router.yaml:3: ignored `fast`: it runs ./fast.sh
    /// }
    /// # Ok::<(), bowline::settings::ConfigError>(())
    /// ```
    pub fn load(cwd: Option<&Path>) -> Result<Self, ConfigError> {
        Self::read(Places::from_env(cwd), &variable)
    }

    /// Reads the settings for a working directory, with this trust in the project.
    pub fn load_with(cwd: Option<&Path>, trust: ProjectTrust) -> Result<Self, ConfigError> {
        Self::each(Places::from_env(cwd), &variable, trust).map_err(|mut wrong| wrong.swap_remove(0))
    }

    /// Returns the policies of the user and of the project, which hold for every run in this directory.
    pub fn policy(&self) -> Option<&PolicySource> {
        self.policy.as_ref()
    }

    /// Returns the user's own file for the router, if it has an enabled provider. A project's file names programs, so that only a
    /// task that asks for the router uses it.
    pub fn own_router(&self) -> Option<&Router> {
        let own = |router: &&Router| router.owner == FileOwner::User;
        self.router.as_ref().filter(own).filter(|router| router.providers.iter().any(|entry| entry.enabled))
    }

    /// Reads the files of these places, with variables from `variable`.
    pub fn read(places: Places, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::each(places, variable, ProjectTrust::Pinned).map_err(|mut wrong| wrong.swap_remove(0))
    }

    /// Reads the files of these places with this trust in the project. A mistake in one file does not hide those of the next.
    pub fn each(
        places: Places,
        variable: &dyn Fn(&str) -> Option<String>,
        trust: ProjectTrust,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut project = ProjectReader::new(trust, TrustStore::of(&places));
        let settings = Settings::read(&places, variable, &mut project);
        // Settings with a mistake have no limit. The router's file is read nevertheless, so that its mistakes are reported too.
        let longest = settings.as_ref().ok().and_then(|settings| settings.span("run.timeout"));
        let router = router_of(&places, variable, longest, &mut project);
        let policy = policy::found_policies(&places);
        match (settings, router, policy) {
            (Ok(settings), Ok(router), Ok(policy)) => {
                let external = ExternalFile::read(&places, &mut project).external;
                let pins = places.project().and_then(|project| TrustStore::of(&places).read(&project));
                let (left_out, changed) = (project.left_out, project.changed);
                for part in &left_out {
                    tracing::warn!(file = %part.path.display(), line = part.line, "a part of a project's file is not used");
                }
                let attention = settings.attention();
                Ok(Self { places, settings, router, external, left_out, changed, attention, pins, policy })
            }
            (settings, router, policy) => {
                Err(settings.err().into_iter().chain(router.err()).chain(policy.err()).collect())
            }
        }
    }

    /// Returns mistakes that only affect requests for what they describe, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let line = |error: &ConfigError| {
            let place = match error.at {
                Some((line, column)) => format!("{}:{line}:{column}", error.path.display()),
                None => error.path.display().to_string(),
            };
            let cause =
                std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("{place}: {}{cause}; what it describes cannot be asked", error.what)
        };
        let mut lines: Vec<String> = self.external.wrong().map(line).collect();
        if let Some(router) = self.router.as_ref().filter(|router| !router.without_effect.is_empty()) {
            let (path, keys) = (router.path.display(), router.without_effect.join(", "));
            lines.push(format!("{path}: without effect, because it only describes: {keys}"));
        }
        let roster = self.places.roster();
        lines.extend(self.router.iter().flat_map(|router| ignored_keys(router, &roster)));
        lines
    }

    /// Returns the files that were read.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.settings.files().to_vec();
        files.extend(self.router.as_ref().map(|router| router.path.clone()));
        files.extend(self.external.path().map(Path::to_owned));
        files
    }
}

/// Returns a line for each key of a router's file that no agent understands. Unknown providers are reported elsewhere.
fn ignored_keys(router: &Router, roster: &Roster) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in router.providers.iter().filter(|entry| !entry.unknown.is_empty()) {
        let EntryKind::Agent { provider, .. } = &entry.kind else { continue };
        let Ok(manifest) = roster.find(provider) else { continue };
        for (name, key) in entry.unknown.iter().filter(|(name, _)| !manifest.has_setting(name)) {
            lines.push(format!(
                "{}:{}: ignored `{name}` in `config` of `{}`: {} has no such setting{}",
                router.path.display(),
                key.line,
                entry.name,
                manifest.title,
                key.nearest.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
            ));
        }
    }
    lines
}

/// Reads the list of providers to choose from: the project's if it is trusted, else the user's as the project's narrows it.
fn router_of(
    places: &Places,
    variable: &dyn Fn(&str) -> Option<String>,
    longest: Option<Millis>,
    project: &mut ProjectReader,
) -> Result<Option<Router>, ConfigError> {
    let own = || {
        let own = |path: PathBuf| {
            router::read(&ConfigSource::read(&path)?, Reading::Whole(FileOwner::User, variable))
        };
        places.user_router().map(own).transpose()
    };
    let Some(path) = places.project_router() else { return own() };
    let Some(source) = project.source(&path)? else { return own() };
    // From the same bytes that are parsed below: a second read could return another content than the one that was checked.
    let claimed = claims::of_file(&source)?;
    if project.is_trusted(&source, &claimed.programs) {
        let mut theirs = router::read(&source, Reading::Whole(FileOwner::TrustedProject, variable))?;
        // Trust allows a project to run programs. It does not raise the user's budgets.
        lower(&mut theirs.budgets, &own()?.unwrap_or_default().budgets);
        return Ok(Some(theirs));
    }
    let theirs = router::read(&source, Reading::Untrusted(&mut project.left_out))?;
    Ok(narrowed(theirs, own()?, longest, &mut project.left_out))
}

#[cfg(test)]
mod tests;
