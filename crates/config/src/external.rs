//! External CLIs in the form of the specification for pi: a JSON object by model id.
//!
//! A wrong entry only affects requests for its own model. A file that is not JSON only affects requests for models that no
//! provider has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline_providers::invocation::external::ExternalCli;
use serde_json::Value;
use serde_json::value::RawValue;

use super::place::Places;
use super::project::{ProjectReader, base_of, program_within};
use super::source::{ConfigSource, SyntaxProblem};
use super::yaml::MOST_ENTRIES;
use crate::trust::{Claim, ClaimKind, LeftOut};
use bowline::settings::ConfigError;
use bowline::settings::External;

/// A file with programs, as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct ExternalFile {
    pub(super) external: External,
    /// The programs that the file names by a relative path, which is meant from the file.
    beside: Vec<PathBuf>,
}

impl ExternalFile {
    /// A file of which nothing can be used.
    fn broken(path: PathBuf, error: ConfigError) -> Self {
        let external = External { path: Some(path), broken: Some(error), ..External::default() };
        Self { external, beside: Vec::new() }
    }

    /// Reads the project's file if it is trusted, else the user's.
    pub(super) fn read(places: &Places, project: &mut ProjectReader) -> Self {
        let own = || match places.user_external() {
            Some(path) => match ConfigSource::read(&path) {
                Ok(source) => Self::of(&source),
                Err(error) => Self::broken(path, error),
            },
            None => Self::default(),
        };
        let Some(path) = places.project_external() else { return own() };
        let source = match project.source(&path) {
            Ok(Some(source)) => source,
            Ok(None) => return own(),
            Err(error) => return Self::broken(path, error),
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
        let programs = self.external.programs.iter().map(|(model, it)| it.program(model));
        let within = programs.filter_map(|program| program_within(base, base, program));
        let mut all: Vec<PathBuf> = within.chain(self.beside.iter().cloned()).collect();
        all.sort();
        all.dedup();
        all
    }

    pub(super) fn of(source: &ConfigSource) -> Self {
        let mut all = Self::default();
        all.external.path = Some(source.path.clone());
        let entries: BTreeMap<String, &RawValue> = match serde_json::from_str(&source.text) {
            Ok(entries) => entries,
            Err(error) => return Self::broken(source.path.clone(), wrong(source, (1, 1), &error)),
        };
        if entries.len() > MOST_ENTRIES {
            let what = format!("the file describes more than {MOST_ENTRIES} models");
            return Self::broken(source.path.clone(), source.wrong(1, 1, what));
        }
        for (model, entry) in entries {
            match serde_json::from_str::<ExternalCli>(entry.get()) {
                Ok(mut program) => {
                    // The pinned program runs, in whatever directory the command is called.
                    if let Some(path) = beside(source, program.program(&model)) {
                        let Some(text) = path.to_str() else {
                            // Another spelling of the path could be another file, which is not pinned.
                            let (line, column) = source.place(offset(source, entry));
                            let what = "the path of the program is not valid UTF-8";
                            all.external.bad.insert(model, source.wrong(line, column, what));
                            continue;
                        };
                        program.executable = Some(text.to_owned());
                        all.beside.push(path);
                    }
                    all.external.programs.insert(model, program);
                }
                Err(error) => {
                    all.external
                        .bad
                        .insert(model, wrong(source, source.place(offset(source, entry)), &error));
                }
            }
        }
        all
    }
}

/// Returns where an entry begins in the text that it is a part of.
fn offset(source: &ConfigSource, entry: &RawValue) -> usize {
    entry.get().as_ptr() as usize - source.text.as_ptr() as usize
}

/// Returns the path of a program that is named by a relative path: from the directory of the file, not from where the command is
/// called. A name without a `/` is looked for on `PATH`.
fn beside(source: &ConfigSource, program: &str) -> Option<PathBuf> {
    let dir = source.path.parent()?;
    let relative = program.contains('/') && Path::new(program).is_relative();
    relative.then(|| dir.join(program).components().collect())
}

/// Lists the claims of each entry of a file. Every entry runs a program.
pub(super) fn claims(source: &ConfigSource, all: &ExternalFile) -> Vec<(String, Vec<Claim>)> {
    // One pass over the text for the ends of lines, and one for the entries: a search for each model would read a large file
    // once for each of its entries.
    let ends: Vec<usize> = source.text.match_indices('\n').map(|(at, _)| at).collect();
    let entries: BTreeMap<String, &RawValue> = serde_json::from_str(&source.text).unwrap_or_default();
    let line = |model: &str| {
        let at = entries.get(model).map(|entry| offset(source, entry));
        at.map_or(1, |at| ends.partition_point(|end| *end < at) + 1)
    };
    let of = |(model, program): (&String, &ExternalCli)| {
        let line = line(model);
        let args = program.args.iter().flatten().chain(&program.extra_args).cloned().collect();
        let runs = ClaimKind::Runs { program: program.program(model).to_owned(), args };
        let sets = program.env.iter().map(|(name, value)| ClaimKind::set(name, value));
        let keeps = program.env_keep.iter().map(|variable| ClaimKind::Reads { variable: variable.clone() });
        let modes = program.permission_args.iter().map(|(mode, args)| {
            ClaimKind::configure(format!("permissionArgs.{}", mode.as_str()), &args.join(" "))
        });
        let all = std::iter::once(runs).chain(sets).chain(keeps).chain(modes).chain(settings(program));
        (model.clone(), all.map(|kind| Claim { line, kind }).collect())
    };
    all.external.programs.iter().map(of).collect()
}

/// Lists the keys of an entry that [`claims`] does not show in words of their own: a key that the form gets later is among them.
fn settings(program: &ExternalCli) -> Vec<ClaimKind> {
    let in_words = ["executable", "args", "extraArgs", "env", "envKeep", "permissionArgs"];
    let entry =
        serde_json::to_value(program).expect("an entry has texts, numbers, lists and maps by name only");
    let keys = entry.as_object().into_iter().flatten();
    let rest = keys.filter(|(key, value)| !value.is_null() && !in_words.contains(&key.as_str()));
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rest.map(|(key, value)| ClaimKind::configure(key, &shown(value))).collect()
}

/// Makes the error of a part of the file that begins at a place.
fn wrong(source: &ConfigSource, begin: (usize, usize), error: &serde_json::Error) -> ConfigError {
    let what = error.to_string();
    // serde_json appends a place, which counts from the entry and not from the file.
    let what = what.split(" at line ").next().unwrap_or_default().to_owned();
    let column = if error.line() <= 1 { begin.1 + error.column().saturating_sub(1) } else { error.column() };
    let line = begin.0 + error.line().saturating_sub(1);
    let wrong = if error.is_data() {
        source.wrong(line, column, what)
    } else {
        source.wrong(line, column, "this is not JSON").caused_by(SyntaxProblem::new(&what))
    };
    wrong.expected(r#"a map by model: {"my-model": {"executable": "…", "modelArg": "…", "extraArgs": []}}"#)
}
