//! Programs in the form of the specification for pi: a JSON object by model id, read as it stands.
//!
//! What is wrong in it is in the way of those only who ask for it: an entry by its own model, a file that is no JSON by every
//! model that nobody else has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_providers::invocation::external::{ByModel, ExternalCli};
use serde_json::value::RawValue;

use super::place::Places;
use super::project::{ProjectReader, base_of, program_within};
use super::source::{ConfigError, Source};
use super::yaml::MOST_ENTRIES;
use crate::trust::{Claim, ClaimKind, LeftOut};

/// Programs by the model that stands for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    path: Option<PathBuf>,
    programs: ByModel,
    /// Entries that cannot be used.
    bad: BTreeMap<String, ConfigError>,
    /// Why nothing of the file can be used.
    broken: Option<ConfigError>,
}

impl External {
    /// Reads the project's file if it is trusted, else the user's.
    pub(super) fn read(places: &Places, project: &mut ProjectReader) -> Self {
        let own = || match places.user_external() {
            Some(path) => match Source::read(&path) {
                Ok(source) => Self::of(&source),
                Err(error) => Self { path: Some(path), broken: Some(error), ..Self::default() },
            },
            None => Self::default(),
        };
        let Some(path) = places.project_external() else { return own() };
        let source = match project.source(&path) {
            Ok(Some(source)) => source,
            Ok(None) => return own(),
            Err(error) => return Self { path: Some(path), broken: Some(error), ..Self::default() },
        };
        let all = Self::of(&source);
        if project.is_trusted(&source, &all.programs_within(&source.path)) {
            return all;
        }
        project.left_out.extend(claims(&source, &all).into_iter().map(|(model, claims)| {
            let line = claims.first().map_or(1, |claim| claim.line);
            LeftOut::part(&source.path, line, &model, &claims)
        }));
        own()
    }

    /// Lists the programs of the project among those that its file describes.
    pub(super) fn programs_within(&self, path: &Path) -> Vec<PathBuf> {
        let Some(base) = base_of(path) else { return Vec::new() };
        let programs = self.programs.iter().map(|(model, it)| it.executable.as_deref().unwrap_or(model));
        programs.filter_map(|program| program_within(base, base, program)).collect()
    }

    pub(super) fn of(source: &Source) -> Self {
        let mut all = Self { path: Some(source.path.clone()), ..Self::default() };
        let entries: BTreeMap<String, &RawValue> = match serde_json::from_str(&source.text) {
            Ok(entries) => entries,
            Err(error) => return Self { broken: Some(wrong(source, (1, 1), &error)), ..all },
        };
        if entries.len() > MOST_ENTRIES {
            let what = format!("the file describes more than {MOST_ENTRIES} models");
            return Self { broken: Some(source.wrong(1, 1, what)), ..all };
        }
        for (model, entry) in entries {
            match serde_json::from_str::<ExternalCli>(entry.get()) {
                Ok(program) => drop(all.programs.insert(model, program)),
                Err(error) => {
                    // The entry is a part of the text.
                    let at = entry.get().as_ptr() as usize - source.text.as_ptr() as usize;
                    all.bad.insert(model, wrong(source, source.place(at), &error));
                }
            }
        }
        all
    }

    /// Returns the file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the program that stands for a model, or what is wrong with its entry.
    pub fn get(&self, model: &str) -> Result<Option<&ExternalCli>, &ConfigError> {
        match self.bad.get(model) {
            Some(error) => Err(error),
            None => Ok(self.programs.get(model)),
        }
    }

    /// Returns why nothing of the file can be used: a model that nobody has may be one of it.
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

/// Lists what each entry of a file would do. Every one of them runs a program.
pub(super) fn claims(source: &Source, all: &External) -> Vec<(String, Vec<Claim>)> {
    // One pass over the text for the ends of lines, and one for the entries: a search for each model would read a large file
    // once for each of its entries.
    let ends: Vec<usize> = source.text.match_indices('\n').map(|(at, _)| at).collect();
    let entries: BTreeMap<String, &RawValue> = serde_json::from_str(&source.text).unwrap_or_default();
    let line = |model: &str| {
        let at =
            entries.get(model).map(|entry| entry.get().as_ptr() as usize - source.text.as_ptr() as usize);
        at.map_or(1, |at| ends.partition_point(|end| *end < at) + 1)
    };
    let of = |(model, program): (&String, &ExternalCli)| {
        let line = line(model);
        let runs = ClaimKind::Runs { program: program.executable.clone().unwrap_or_else(|| model.clone()) };
        let sets = program.env.keys().map(|name| ClaimKind::Sets { variable: name.clone() });
        (model.clone(), std::iter::once(runs).chain(sets).map(|kind| Claim { line, kind }).collect())
    };
    all.programs.iter().map(of).collect()
}

/// Says what is wrong in a part of the file that begins at a place.
fn wrong(source: &Source, begin: (usize, usize), error: &serde_json::Error) -> ConfigError {
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default().to_owned();
    let column = if error.line() <= 1 { begin.1 + error.column().saturating_sub(1) } else { error.column() };
    source
        .wrong(begin.0 + error.line().saturating_sub(1), column, what)
        .expected(r#"a map by model: {"my-model": {"executable": "…", "modelArg": "…", "extraArgs": []}}"#)
}
