//! The settings of a person and of a project: which files there are, what they say, and which word counts.
//!
//! `bowline.toml` has the settings ([`Settings`]), `router.yaml` the list of providers to choose from, in the form of the
//! executable providers' specification ([`Router`]), and a JSON file describes programs in the form of the specification for
//! pi ([`External`]). A project's files lie in `.bowline/` (for the router also `.specular/`) in the working directory or above
//! it, a person's in the XDG configuration directory. The nearer word counts: environment, then project, then person.
//!
//! Whatever is wrong in a file is told with its place, and nothing of a file that is wrong is used. Settings and the router's
//! file concern every run, and stop it; a program that is described badly stops those only who ask for it.

mod external;
mod place;
mod router;
mod settings;
mod source;
mod yaml;

use std::path::{Path, PathBuf};

pub use external::External;
pub use place::Places;
pub use router::{Entry, EntryKind, HintTuning, Lacks, Router, Routing};
pub use settings::{KEYS, Key, KeyKind, Origin, Setting, Settings, edit};
pub use source::ConfigError;
#[cfg(test)]
pub(crate) use yaml::paths;

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
}

impl Config {
    /// Reads what concerns a working directory.
    #[expect(clippy::disallowed_methods, reason = "this is an edge at which the environment is read")]
    pub fn load(cwd: Option<&Path>) -> Result<Self, ConfigError> {
        Self::read(Places::from_env(cwd), &|name| std::env::var_os(name)?.into_string().ok())
    }

    /// Returns the user's own file for the router, if it has somebody to choose from. One that came with a project is asked
    /// only by those who say so: it names programs.
    pub fn own_router(&self) -> Option<&Router> {
        let own = |router: &&Router| self.places.are_own(&router.path);
        self.router.as_ref().filter(own).filter(|router| router.providers.iter().any(|entry| entry.enabled))
    }

    /// Reads the files of these places, with variables from `variable`.
    pub fn read(places: Places, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::each(places, variable).map_err(|mut wrong| wrong.swap_remove(0))
    }

    /// The same; what is wrong in one file does not keep the next from being looked at.
    pub(crate) fn each(
        places: Places,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<ConfigError>> {
        let settings = Settings::read(&places, variable);
        let router = places.router().map(|path| Router::read(&path, variable)).transpose();
        match (settings, router) {
            (Ok(settings), Ok(router)) => {
                let external = External::read(&places);
                Ok(Self { places, settings, router, external })
            }
            (settings, router) => Err(settings.err().into_iter().chain(router.err()).collect()),
        }
    }

    /// Returns what is wrong and in nobody's way who does not ask for it, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let line = |error: &ConfigError| match error.at {
            Some((line, column)) => {
                format!(
                    "{}:{line}:{column}: {}; what it describes cannot be asked",
                    error.path.display(),
                    error.what
                )
            }
            None => format!("{}: {}; what it describes cannot be asked", error.path.display(), error.what),
        };
        let mut lines: Vec<String> = self.external.wrong().map(line).collect();
        if let Some(router) = self.router.as_ref().filter(|router| !router.without_effect.is_empty()) {
            let (path, keys) = (router.path.display(), router.without_effect.join(", "));
            lines.push(format!("{path}: without effect, because it only describes: {keys}"));
        }
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

#[cfg(test)]
mod tests;
