//! Where programs are: on `PATH`, in directories of installers, and behind launchers. This module starts nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bowline_protocol::{Remedy, RequestField};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::detect::{Native, PLACES, ProgramDir};
use bowline_providers::probe::Version;

use super::{Found, FoundBy, Missing, MissingKind, Search};

/// How many directories above a launcher to search for its package.
const DEEPEST: usize = 6;

/// Finds a provider's program.
pub(super) fn find(
    manifest: &'static Manifest,
    binary: Option<&Path>,
    search: &Search,
) -> Result<Found, Missing> {
    let mut unfit = None;
    let (path, how) = match binary {
        Some(binary) => given(binary, search, &mut unfit).map(|path| (path, FoundBy::Given)),
        None => usual(manifest, search, &mut unfit),
    }
    .ok_or_else(|| missing(manifest, binary, unfit))?;
    // An executable file has a canonical path, unless it is removed at this moment.
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    let native = manifest.detect.native.as_ref().and_then(|native| behind(&real, native));
    let beyond = match how {
        FoundBy::Place | FoundBy::Manager(_) => path.parent().map(|dir| dir.as_os_str().to_owned()),
        FoundBy::LoginShell => search.shell_path.clone(),
        FoundBy::Given | FoundBy::Own | FoundBy::Path => None,
    };
    Ok(Found { manifest, path, real, how, native, beyond: beyond.unwrap_or_default() })
}

fn missing(manifest: &Manifest, binary: Option<&Path>, unfit: Option<PathBuf>) -> Missing {
    let program = binary.map_or_else(|| manifest.program.clone(), |path| path.display().to_string());
    let other = Remedy::set(RequestField::Binary);
    let check = |path: String| vec![Remedy::CheckFile { path }, other];
    let (kind, remedies) = match unfit {
        Some(path) => {
            let remedies = check(path.display().to_string());
            (MissingKind::NotExecutable { path }, remedies)
        }
        None if binary.is_some() || program.contains('/') => {
            (MissingKind::NoSuchFile, check(program.clone()))
        }
        None => (MissingKind::Absent, install_remedies(manifest)),
    };
    Missing { program, kind, remedies }
}

/// Returns how to get a program that is not installed.
pub(crate) fn install_remedies(manifest: &Manifest) -> Vec<Remedy> {
    let how = manifest.install.hint().unwrap_or_else(|| format!("install `{}`", manifest.program));
    vec![Remedy::Install { how }, Remedy::set(RequestField::Binary)]
}

/// Finds the caller's program: a path, or a name on `PATH`.
pub(super) fn given(binary: &Path, search: &Search, unfit: &mut Option<PathBuf>) -> Option<PathBuf> {
    if !binary.as_os_str().as_encoded_bytes().contains(&b'/') {
        return on_path(&binary.to_string_lossy(), search, unfit);
    }
    fit(std::path::absolute(binary).ok()?, unfit)
}

fn usual(manifest: &Manifest, search: &Search, unfit: &mut Option<PathBuf>) -> Option<(PathBuf, FoundBy)> {
    // A user's manifest may contain the path of the program.
    if manifest.program.contains('/') {
        return fit(PathBuf::from(&manifest.program), unfit).map(|path| (path, FoundBy::Given));
    }
    // This program may be a provider itself. Its own file comes before `PATH`, which may have another version of it.
    let own = std::env::current_exe().ok();
    if let Some(own) = own.filter(|own| own.file_name().is_some_and(|name| name == manifest.program.as_str()))
    {
        return Some((own, FoundBy::Own));
    }
    let names = || std::iter::once(&manifest.program).chain(&manifest.detect.programs);
    if let Some(path) = names().find_map(|name| on_path(name, search, unfit)) {
        return Some((path, FoundBy::Path));
    }
    let home = search.home.as_deref();
    let own_places = home.into_iter().flat_map(|home| manifest.detect.places.iter().map(|it| home.join(it)));
    if let Some(path) = own_places.into_iter().find_map(|file| fit(file, unfit)) {
        return Some((path, FoundBy::Place));
    }
    for place in PLACES {
        let mut dirs = place_of(place, search).into_iter();
        let mut files = dirs.by_ref().flat_map(|dir| names().map(move |name| dir.join(name)));
        if let Some(path) = files.find_map(|file| fit(file, unfit)) {
            return Some((path, place.manager.map_or(FoundBy::Place, FoundBy::Manager)));
        }
    }
    let shell = search.shell_path.as_ref()?;
    names().find_map(|name| in_path(name, shell, unfit)).map(|path| (path, FoundBy::LoginShell))
}

/// Returns the directories of a place: that of the manager's variable, else the default one.
fn place_of(place: &ProgramDir, search: &Search) -> Vec<PathBuf> {
    let moved = place.moved.and_then(|(variable, below)| {
        let root = search.moved.iter().find(|(name, _)| *name == variable)?;
        Some(directories(&root.1, below))
    });
    moved.unwrap_or_else(|| {
        search.home.as_deref().map(|home| directories(home, place.dir)).unwrap_or_default()
    })
}

fn on_path(name: &str, search: &Search, unfit: &mut Option<PathBuf>) -> Option<PathBuf> {
    in_path(name, &search.path, unfit)
}

/// Searches `PATH` as the spawner does: skips relative directories.
fn in_path(name: &str, path: &OsStr, unfit: &mut Option<PathBuf>) -> Option<PathBuf> {
    let mut dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.find_map(|dir| fit(dir.join(name), unfit))
}

/// Returns the file if it is executable; remembers a file that exists and is not.
fn fit(file: PathBuf, unfit: &mut Option<PathBuf>) -> Option<PathBuf> {
    if !file.exists() {
        return None;
    }
    if is_executable(&file) {
        return Some(file);
    }
    unfit.get_or_insert(file);
    None
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns the directories of a place; a `*` matches any name, the newest version first.
fn directories(home: &Path, place: &str) -> Vec<PathBuf> {
    if place.is_empty() {
        return vec![home.to_owned()];
    }
    let Some((before, after)) = place.split_once("/*/") else { return vec![home.join(place)] };
    let Ok(entries) = std::fs::read_dir(home.join(before)) else { return Vec::new() };
    let mut found: Vec<(Option<Version>, PathBuf)> = entries
        .flatten()
        // Sort by version, not by name: by name, `v9` would come after `v22`.
        .map(|entry| (Version::parse(&entry.file_name().to_string_lossy()), entry.path().join(after)))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, dir)| dir).collect()
}

/// Finds the program behind a launcher as the launcher itself would: from its package upwards, in every `node_modules`.
fn behind(real: &Path, native: &Native) -> Option<PathBuf> {
    if is_machine_code(real) {
        return None;
    }
    let package = real.ancestors().skip(1).take(DEEPEST).find(|dir| dir.join("package.json").is_file())?;
    let files = native.files(std::env::consts::OS, std::env::consts::ARCH);
    package.ancestors().find_map(|dir| {
        let modules = if dir.ends_with("node_modules") { dir.to_owned() } else { dir.join("node_modules") };
        files.iter().map(|file| modules.join(file)).find(|file| is_executable(file))
    })
}

/// Returns whether a file is a binary (ELF, Mach-O or PE) and not a script.
fn is_machine_code(file: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    // 32 bits, 64 bits and universal. Files exist in either byte order.
    let mach_o = [0xfeed_face_u32, 0xfeed_facf, 0xcafe_babe];
    let number = u32::from_be_bytes(start);
    read.is_ok()
        && (start == *b"\x7fELF"
            || start.starts_with(b"MZ")
            || mach_o.contains(&number)
            || mach_o.contains(&number.swap_bytes()))
}
