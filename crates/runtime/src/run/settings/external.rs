//! External CLIs in the form of the specification for pi, by the model that stands for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_providers::invocation::external::{ByModel, ExternalCli};

use super::ConfigError;

/// Programs by the model that stands for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// The programs.
    pub programs: ByModel,
    /// Entries that cannot be used.
    pub bad: BTreeMap<String, ConfigError>,
    /// Why nothing of the file can be used.
    pub broken: Option<ConfigError>,
}

impl External {
    /// Returns the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the program of a model, or the error of its entry.
    pub fn get(&self, model: &str) -> Result<Option<&ExternalCli>, &ConfigError> {
        match self.bad.get(model) {
            Some(error) => Err(error),
            None => Ok(self.programs.get(model)),
        }
    }

    /// Returns whether the file has an entry of this name, usable or not.
    pub fn has(&self, model: &str) -> bool {
        self.programs.contains_key(model) || self.bad.contains_key(model)
    }

    /// Returns why the file cannot be used: an unknown model may be defined there.
    pub fn broken(&self) -> Option<&ConfigError> {
        self.broken.as_ref()
    }

    /// Returns all that is wrong in the file.
    pub fn wrong(&self) -> impl Iterator<Item = &ConfigError> {
        self.broken.iter().chain(self.bad.values())
    }

    /// Returns all of them.
    pub fn programs(&self) -> &ByModel {
        &self.programs
    }
}
