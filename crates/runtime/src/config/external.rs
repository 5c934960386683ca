//! Programs in the form of the specification for pi: a JSON object by model id, read as it stands.

use std::path::{Path, PathBuf};

use bowline_providers::invocation::external::{self, ByModel, ExternalCli};

use super::place::Places;
use super::source::{ConfigError, Source};

/// Programs by the model that stands for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    path: Option<PathBuf>,
    programs: ByModel,
}

impl External {
    pub(super) fn read(places: &Places) -> Result<Self, ConfigError> {
        let Some(path) = places.external() else { return Ok(Self::default()) };
        let source = Source::read(&path)?;
        let programs = external::read(&source.text).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            source.wrong(error.line(), error.column(), what).expected(
                r#"a map by model: {"my-model": {"executable": "…", "modelArg": "…", "extraArgs": []}}"#,
            )
        })?;
        Ok(Self { path: Some(path), programs })
    }

    /// Returns the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the program that stands for a model.
    pub fn get(&self, model: &str) -> Option<&ExternalCli> {
        self.programs.get(model)
    }

    /// Returns all of them.
    pub fn programs(&self) -> &ByModel {
        &self.programs
    }
}
