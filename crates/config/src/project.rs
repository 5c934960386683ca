//! A project's files, read once each: whether they are trusted, and what is left out of those that are not.

use std::path::{Path, PathBuf};

use super::external::{self, ExternalFile};
use super::place::Places;
use super::router::claims;
use super::source::ConfigSource;
use crate::trust::{self, Claim, LeftOut, ObservedFile, ProjectTrust, TrustError, TrustState, TrustStore};
use bowline::settings::ConfigError;
use bowline::trust::{hash_of, hash_of_file, pin_path};

/// A project's file as it was read, for a review.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    pub(crate) path: PathBuf,
    /// The part of the file and what it would do.
    pub(crate) claims: Vec<(String, Claim)>,
    /// The programs of the project that it names.
    pub(crate) programs: Vec<PathBuf>,
    /// Its pins.
    pub(crate) observed: Vec<ObservedFile>,
}

/// Reads every file of a project that Bowline would read, without obeying any.
pub(crate) fn project_files(places: &Places) -> Result<Vec<ProjectFile>, TrustError> {
    let mut all = Vec::new();
    let read = |path: PathBuf| match ConfigSource::read_of_project(&path)? {
        Ok(source) => Ok(source),
        Err(uid) => Err(TrustError::Foreign { path, uid }),
    };
    let mut add = |source: &ConfigSource, claims: Vec<(String, Claim)>, programs: Vec<PathBuf>| {
        let base = base_of(&source.path).unwrap_or(&source.path);
        let observed = observed(base, source, &programs);
        all.push(ProjectFile { path: source.path.clone(), claims, programs, observed });
    };
    if let Some(source) = places.project_settings().map(read).transpose()? {
        add(&source, Vec::new(), Vec::new());
    }
    if let Some(source) = places.project_router().map(read).transpose()? {
        let found = claims::of_file(&source)?;
        let each = |part: claims::ClaimedPart| {
            part.claims.into_iter().map(move |claim| (part.name.clone(), claim)).collect::<Vec<_>>()
        };
        add(&source, found.parts.into_iter().flat_map(each).collect(), found.programs);
    }
    if let Some(source) = places.project_external().map(read).transpose()? {
        let described = ExternalFile::of(&source);
        let each = |(model, claims): (String, Vec<Claim>)| {
            claims.into_iter().map(move |claim| (model.clone(), claim)).collect::<Vec<_>>()
        };
        let claims = external::claims(&source, &described).into_iter().flat_map(each).collect();
        add(&source, claims, described.programs_within(&source.path));
    }
    Ok(all)
}

/// Reads a project's files, and remembers what is left out.
#[derive(Debug)]
pub(super) struct ProjectReader {
    trust: ProjectTrust,
    store: TrustStore,
    pub(super) left_out: Vec<LeftOut>,
    /// Pinned files that have changed since.
    pub(super) changed: Vec<PathBuf>,
}

impl ProjectReader {
    pub(super) fn new(trust: ProjectTrust, store: TrustStore) -> Self {
        Self { trust, store, left_out: Vec::new(), changed: Vec::new() }
    }

    /// Reads a file; nothing if it belongs to another user.
    pub(super) fn source(&mut self, path: &Path) -> Result<Option<ConfigSource>, ConfigError> {
        match ConfigSource::read_of_project(path)? {
            Ok(source) => Ok(Some(source)),
            Err(uid) => {
                let reason = format!("it belongs to another user (uid {uid})");
                self.left_out.push(LeftOut::file(path, reason));
                Ok(None)
            }
        }
    }

    /// Returns whether the source is trusted, with the programs of the project that it names.
    pub(super) fn is_trusted(&mut self, source: &ConfigSource, programs: &[PathBuf]) -> bool {
        match self.trust {
            ProjectTrust::Always => true,
            ProjectTrust::Never => false,
            ProjectTrust::Pinned => {
                let Some(base) = base_of(&source.path) else { return false };
                let Some(record) = self.store.read(base) else { return false };
                match trust::judge(Some(&record), &observed(base, source, programs)) {
                    TrustState::Trusted => true,
                    TrustState::Unpinned => false,
                    TrustState::Changed(files) => {
                        self.changed.extend(files.iter().map(|file| base.join(file)));
                        false
                    }
                }
            }
        }
    }
}

/// Returns the directory that a file in `.bowline` or `.specular` is about.
pub(crate) fn base_of(path: &Path) -> Option<&Path> {
    path.parent()?.parent()
}

/// Returns what is pinned for a file: the bytes that were read, and the programs of the project that it names.
pub(super) fn observed(base: &Path, source: &ConfigSource, programs: &[PathBuf]) -> Vec<ObservedFile> {
    let hash = Some(hash_of(source.text.as_bytes()));
    let mut all = vec![ObservedFile { path: pin_path(base, &source.path), hash }];
    // One that is not there cannot run; if it appears later, it is a file that was not pinned.
    let there = programs.iter().filter(|program| program.exists());
    all.extend(
        there.map(|program| ObservedFile { path: pin_path(base, program), hash: hash_of_file(program).ok() }),
    );
    all
}

/// Returns a program that is part of the project: given by a relative path, or by one that leads into it. Blanks are part of the
/// path, as they are when it is executed.
pub(super) fn program_within(base: &Path, dir: &Path, program: &str) -> Option<PathBuf> {
    let path = Path::new(program);
    // A bare name is looked for on PATH.
    let is_path = path.is_absolute() || path.components().count() > 1;
    // `components` removes `.`, but keeps `..`: with symbolic links only the kernel knows where that leads.
    let full: PathBuf = dir.join(path).components().collect();
    let within = path.is_relative() || !pin_path(base, &full).is_absolute();
    (is_path && within).then_some(full)
}
