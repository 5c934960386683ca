//! The licences of everything that is linked into the program. They ask for their text beside a copy in binary form.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::TARGET;
use crate::sh::Call;

/// The beginnings of the names of files with licences.
const FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The C library and the standard library of Rust, which `cargo` does not list.
const OUTSIDE_CARGO: &str = "\
musl (the C library): MIT

Copyright © 2005-2020 Rich Felker, et al.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the \"Software\"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software
is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES
OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

The Rust standard library: MIT OR Apache-2.0; Copyright (c) The Rust Project Contributors. LICENSE-APACHE and the text above have
the terms.
";

/// The part of `cargo metadata` that is needed.
#[derive(Debug, Deserialize)]
struct PackageList {
    packages: Vec<PackageEntry>,
}

/// A package and its folder.
#[derive(Debug, Deserialize)]
struct PackageEntry {
    name: String,
    version: String,
    license: Option<String>,
    /// The registry; absent for our own packages.
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Returns the licences of all dependencies, each text once.
pub(super) fn third_party() -> Result<String> {
    let metadata =
        Call::cargo("metadata --locked --format-version 1 --filter-platform").arg(TARGET).output()?;
    let metadata: PackageList = serde_json::from_str(&metadata).context("could not read `cargo metadata`")?;
    let tree =
        Call::cargo("tree --locked --package bowline-cli --edges normal --prefix none --format {p} --target");
    let linked = tree.arg(TARGET).output()?;
    let is_linked = |package: &PackageEntry| {
        let line = format!("{} v{}", package.name, package.version);
        linked.lines().any(|linked| linked == line || linked.starts_with(&format!("{line} ")))
    };
    let mut packages: Vec<(String, Vec<String>)> = Vec::new();
    for package in metadata.packages.iter().filter(|it| it.source.is_some() && is_linked(it)) {
        let licence = package.license.as_deref().unwrap_or("see its files");
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        packages.push((format!("{} {}: {licence}", package.name, package.version), texts(folder)?));
    }
    Ok(format!("{}\n{OUTSIDE_CARGO}", written(&packages)))
}

/// Reads the licences in the folder of a package.
fn texts(folder: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && FILES.iter().any(|beginning| name.starts_with(beginning)) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).trim().to_owned())).collect()
}

/// Writes a list of packages, then each text once below the packages that carry it.
fn written(packages: &[(String, Vec<String>)]) -> String {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (package, texts) in packages {
        let name = package.split(':').next().unwrap_or_default();
        texts.iter().for_each(|text| owners.entry(text).or_default().push(name));
    }
    let mut all = "Bowline contains these packages:\n\n".to_owned();
    packages.iter().for_each(|(package, _)| all += &format!("{package}\n"));
    for (text, names) in owners {
        all += &format!("\n---- {} ----\n\n{text}\n", names.join(", "));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_two_packages_is_written_once() {
        let packages = [
            ("a 1.0.0: MIT".to_owned(), vec!["the MIT text".to_owned()]),
            ("b 2.0.0: MIT OR X".to_owned(), vec!["the MIT text".to_owned(), "the X text".to_owned()]),
        ];
        let expected = "Bowline contains these packages:\n\na 1.0.0: MIT\nb 2.0.0: MIT OR X\n\n\
                        ---- a 1.0.0, b 2.0.0 ----\n\nthe MIT text\n\n---- b 2.0.0 ----\n\nthe X text\n";
        assert_eq!(written(&packages), expected);
    }

    #[test]
    fn every_dependency_is_listed_with_its_licence() {
        let all = third_party().expect("a list");
        for package in ["\nclap 4", "\nserde 1", "\ntokio 1", "musl (the C library)"] {
            assert!(all.contains(package), "{package}");
        }
        assert!(all.contains("Permission is hereby granted"));
        assert!(!all.contains("\nproptest"), "a dependency of tests is not linked");
    }
}
