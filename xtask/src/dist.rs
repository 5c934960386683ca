//! `cargo xtask dist`: the archive of a release, in `target/dist`.
//!
//! It has one statically linked program, its manual page, completion scripts, licences and checksums. The program is linked with
//! musl: a static glibc still loads libraries of the host to look up users and hosts. Two builds of a commit with the same
//! compiler give the same archive, so the archive carries no time and no owner of its own.

mod empty_root;
mod licences;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::report;
use crate::sh::{self, Call};

/// The target of the static program.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

/// The completion scripts: the shell, and the name under which it looks for the script.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "bowline.bash"),
    ("elvish", "bowline.elv"),
    ("fish", "bowline.fish"),
    ("powershell", "_bowline.ps1"),
    ("zsh", "_bowline"),
];

/// Builds the archive, and tries its program in an empty root.
pub fn run() -> Result<()> {
    if !sh::has_target(TARGET)? {
        bail!("the target {TARGET} is missing and rustup could not add it");
    }
    let program = build("dist")?;
    let output = Call::new(&program).arg("--version").output()?;
    let version = version(&output)?;
    let name = format!("bowline-{version}-{TARGET}");
    let dist = sh::root().join("target/dist");
    let dir = dist.join(&name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fill(&dir, &program)?;
    match empty_root::check(&dir.join("bowline"))? {
        empty_root::Checked::Works => {}
        empty_root::Checked::NoNamespaces(reason) => report::line(format_args!(
            "warning: the program was not tried in an empty root, because {reason}"
        )),
    }
    let archive = format!("{name}.tar.gz");
    pack(&dist, &name, &archive)?;
    let bytes = fs::read(dist.join(&archive))?;
    fs::write(dist.join("SHA256SUMS"), checksum(&archive, &bytes))?;
    let megabytes = bytes.len() as f64 / 1e6;
    report::line(format_args!("target/dist/{archive}: {megabytes:.1} MB"));
    report::line("target/dist/SHA256SUMS");
    Ok(())
}

/// Builds a static program without link-time optimisation, and tries it in an empty root: a step of `cargo xtask test`. Returns
/// the reason if this machine cannot do it.
pub(crate) fn check_static_program() -> Result<Option<String>> {
    if !sh::has_target(TARGET)? {
        return Ok(Some(format!("the target {TARGET} is missing and rustup could not add it")));
    }
    Ok(match empty_root::check(&build("dev")?)? {
        empty_root::Checked::Works => None,
        empty_root::Checked::NoNamespaces(reason) => Some(reason),
    })
}

/// Builds the program in a profile, and returns its path.
fn build(profile: &str) -> Result<PathBuf> {
    let build = Call::cargo("build --locked --package bowline-cli --bin bowline --target").arg(TARGET);
    build.words("--profile").arg(profile).run()?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(sh::root().join("target").join(TARGET).join(folder).join("bowline"))
}

/// Reads the output of `bowline --version`.
fn version(output: &str) -> Result<&str> {
    let version = output.trim().strip_prefix("bowline ").filter(|version| !version.contains(' '));
    version.with_context(|| format!("`bowline --version` printed {output:?}"))
}

/// Writes the files of the archive into a folder.
fn fill(dir: &Path, program: &Path) -> Result<()> {
    let call = |words: &str| Call::new(program).words(words).output();
    fs::create_dir_all(dir.join("man/man1"))?;
    fs::create_dir_all(dir.join("completions"))?;
    // A copy keeps the permission bits, so the program stays executable.
    fs::copy(program, dir.join("bowline"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(sh::root().join(file), dir.join(file))?;
    }
    fs::write(dir.join("LICENSES-THIRD-PARTY.txt"), licences::third_party()?)?;
    fs::write(dir.join("man/man1/bowline.1"), call("man")?)?;
    for (shell, file) in COMPLETIONS {
        fs::write(dir.join("completions").join(file), call(&format!("completions {shell}"))?)?;
    }
    let mut sums = String::new();
    for file in files(dir)? {
        sums += &checksum(&file, &fs::read(dir.join(&file))?);
    }
    fs::write(dir.join("SHA256SUMS"), sums)?;
    Ok(())
}

/// Lists the files below a folder, sorted, as paths relative to it.
fn files(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(dir)?.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns a line as `sha256sum --check` reads it.
fn checksum(file: &str, bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}  {file}\n")
}

/// Packs a folder of `dist`.
fn pack(dist: &Path, name: &str, archive: &str) -> Result<()> {
    // The time of the commit, so that a later build of it gives the same archive.
    let time = Call::new("git").words("log -1 --format=%ct").output()?;
    Call::new("tar")
        .words("--create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w --format=ustar")
        .arg(format!("--mtime=@{}", time.trim()))
        // Without `-n`, gzip writes the time of the packing into its header.
        .arg("--use-compress-program=gzip -9 -n")
        .arg("--file")
        .arg(dist.join(archive))
        .arg("--directory")
        .arg(dist)
        .arg(name)
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_a_line_of_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(checksum("man/man1/bowline.1", b""), format!("{empty}  man/man1/bowline.1\n"));
    }

    #[test]
    fn the_version_is_the_second_word() {
        assert_eq!(version("bowline 0.1.0\n").expect("a version"), "0.1.0");
        assert!(version("error: no\n").is_err());
        assert!(version("bowline 0.1.0 (dirty)\n").is_err());
    }
}
