//! The variables of a process, usually of this one, and the directories that they name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The variables of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    env: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn from_env() -> Self {
        Self { env: std::env::vars_os().collect() }
    }

    /// These and no others.
    pub fn of(env: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>) -> Self {
        Self { env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// Sets a variable.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.env.insert(name.into(), value.into());
    }

    /// Takes a variable away.
    pub(crate) fn remove(&mut self, name: &str) {
        self.env.remove(OsStr::new(name));
    }

    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns a variable that is set, maybe to nothing: an empty `GIT_CONFIG_GLOBAL` means that there is no such file.
    pub(crate) fn get_even_empty(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns a variable that is the absolute path of something.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns the home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// Returns where answers are kept: in `BOWLINE_HOME` if it is set, else in the XDG cache directory.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        self.get("BOWLINE_HOME")
            .map(|home| PathBuf::from(home).join("cache"))
            .or_else(|| self.path("XDG_CACHE_HOME").map(|cache| cache.join("bowline")))
            .or_else(|| self.home().map(|home| home.join(".cache/bowline")))
    }

    /// Returns the directory of the user's settings: `bowline` in the XDG configuration directory.
    pub(crate) fn config_dir(&self) -> Option<PathBuf> {
        let config = self.path("XDG_CONFIG_HOME").or_else(|| self.home().map(|home| home.join(".config")));
        config.map(|config| config.join("bowline"))
    }

    /// Returns where agents of our own remember their sessions: in the XDG state directory.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        let state = self.path("XDG_STATE_HOME").or_else(|| self.home().map(|home| home.join(".local/state")));
        state.map(|state| state.join("bowline"))
    }

    /// Returns all variables.
    pub(crate) fn all(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.env.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Returns the variables that are text. One that is not is none that any program's list names.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (String, String)> {
        self.env
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
    }
}
