//! A provider with a dialect of its own is one folder and one line.
//!
//! The test copies the sources of `crates/providers` into `target/`, adds the folder `parrot` from beside this file and one
//! line to `catalogue.rs`, builds the copy without a network, and runs `check.rs` against it. No other file changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::sh::{self, Call};

/// The line that adds the folder, and the line after which it stands.
const LINE: &str = "    parrot = \"parrot/mod.rs\";\n";
const LINE_BEFORE: &str = "folders! {\n";

#[test]
fn a_provider_with_a_dialect_is_one_folder_and_one_line() -> Result<()> {
    let root = sh::root();
    let beside = root.join("xtask/tests/one_folder");
    // The same place for every run, so that cargo builds only what has changed.
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("one_folder");
    write(&copy.join("Cargo.toml"), &workspace(root)?)?;
    write(&copy.join("Cargo.lock"), &fs::read_to_string(root.join("Cargo.lock"))?)?;

    let package = copy.join("providers");
    let manifest = fs::read_to_string(root.join("crates/providers/Cargo.toml"))?;
    write(&package.join("Cargo.toml"), &without_section(&manifest, "[dev-dependencies]"))?;
    write(&package.join("build.rs"), &fs::read_to_string(root.join("crates/providers/build.rs"))?)?;
    write(&package.join("tests/check.rs"), &fs::read_to_string(beside.join("check.rs"))?)?;

    let sources = package.join("src");
    let mut copied = mirror(&root.join("crates/providers/src"), &sources)?;
    copied.extend(mirror(&beside.join("parrot"), &sources.join("parrot"))?);
    remove_others(&sources, &copied)?;
    let catalogue = fs::read_to_string(root.join("crates/providers/src/catalogue.rs"))?;
    write(&sources.join("catalogue.rs"), &with_line(&catalogue)?)?;

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("the target directory")?;
    Call::cargo("test --quiet --offline --test check --manifest-path")
        .arg(copy.join("providers/Cargo.toml"))
        // The dependencies are built there already.
        .arg("--target-dir")
        .arg(target)
        .quiet_output()?;
    Ok(())
}

/// Returns the workspace's own manifest with the copy as its only member, so that profiles, lints and versions are equal.
fn workspace(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join("Cargo.toml"))?;
    let members = replaced(&text, "members = [\"crates/*\", \"xtask\"]", "members = [\"providers\"]")?;
    let members = replaced(&members, "default-members = [\"crates/cli\"]\n", "")?;
    replaced(&members, "path = \"crates/", &format!("path = \"{}/crates/", root.display()))
}

fn with_line(catalogue: &str) -> Result<String> {
    replaced(catalogue, LINE_BEFORE, &format!("{LINE_BEFORE}{LINE}"))
}

fn replaced(text: &str, from: &str, to: &str) -> Result<String> {
    anyhow::ensure!(text.contains(from), "there is no `{from}`");
    Ok(text.replace(from, to))
}

fn without_section(manifest: &str, section: &str) -> String {
    let Some((before, rest)) = manifest.split_once(section) else { return manifest.to_owned() };
    let after = rest.find("\n[").map_or("", |end| &rest[end + 1..]);
    format!("{before}{after}")
}

/// Copies a folder except its catalogue, and returns the copies.
fn mirror(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let mut copied = vec![to.join("catalogue.rs")];
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copied.extend(mirror(&entry.path(), &place)?);
        } else if entry.file_name() != "catalogue.rs" {
            write(&place, &fs::read_to_string(entry.path())?)?;
            copied.push(place);
        }
    }
    Ok(copied)
}

/// Removes files of an earlier run that are no longer among the sources.
fn remove_others(folder: &Path, copied: &[PathBuf]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), copied)?;
        } else if !copied.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file if its text differs. Cargo compares times: an equal file must keep its own.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file in a folder")?)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}
