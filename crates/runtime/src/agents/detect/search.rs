//! Where programs are looked for: `PATH`, the directories of installers and managers, and the login shell's `PATH`.

use std::ffi::OsString;
use std::path::PathBuf;

use bowline_providers::manifest::detect::PLACES;

use super::shell;
use crate::system::surroundings::Surroundings;

/// Where a program is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The directories of `PATH`, as the variable has them.
    pub path: OsString,
    /// The home directory, in which installers have their places.
    pub home: Option<PathBuf>,
    /// The directories of managers that a variable has moved, by the variable.
    pub moved: Vec<(&'static str, PathBuf)>,
    /// The directories of the login shell's `PATH`, where that is known.
    pub shell_path: Option<OsString>,
}

impl Search {
    /// Looks where this process would.
    pub fn from_env() -> Self {
        Surroundings::from_env().search()
    }
}

impl Surroundings {
    /// Returns where programs are looked for.
    pub fn search(&self) -> Search {
        let variables = PLACES.iter().filter_map(|place| place.moved).map(|(variable, _)| variable);
        Search {
            path: self.get("PATH").unwrap_or_default().to_owned(),
            home: self.home(),
            moved: variables.filter_map(|name| Some((name, self.path(name)?))).collect(),
            shell_path: shell::remembered(self),
        }
    }
}
