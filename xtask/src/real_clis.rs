//! `cargo xtask real-clis`: the real programs, from npm, in a cache outside the checkout.
//!
//! `conformance/package.json` and its lock say which versions, `conformance/pins.toml` what each package is. An
//! installation is a folder named after what it was made from, so a changed pin makes a new one and an unchanged one is
//! found in no time; a folder without its stamp was interrupted and is made anew. Install scripts are never run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bowline_providers::manifest::detect::npm_names;
use serde::Deserialize;
use serde_json::Value;

use crate::report;
use crate::sh::{self, Call, Stopwatch};

/// Written last, so that an interrupted installation is not taken for a whole one.
const STAMP: &str = ".installed";

/// A program that was installed.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is and how much of the suite it gets.
    pub pin: Pin,
    /// The version in its package.
    pub version: String,
    /// The file to run.
    pub path: PathBuf,
}

/// An entry of `conformance/pins.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The provider that drives it.
    pub provider: String,
    /// The name of its package among the dependencies.
    pub package: String,
    /// The file to run, inside `node_modules`.
    pub program: String,
    /// How much of the contract suite it is put through.
    pub suite: Suite,
}

/// How much of the contract suite a program is put through.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// Every case.
    Full,
    /// A few, for a program of an older version.
    Smoke,
}

/// All that was installed.
#[derive(Debug)]
pub struct Installed {
    /// The programs, in the order of the pins.
    pub programs: Vec<Program>,
    /// The folder with a Node.js that is new enough for all of them, to be first on the PATH; none where no package has
    /// one for this system.
    pub node: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Pins {
    pin: Vec<Pin>,
}

/// Installs the pinned programs, or the newest of today, and says where they are.
pub fn run(latest: bool) -> Result<()> {
    let installed = if latest { newest()? } else { pinned()? };
    for Program { pin, version, path } in &installed.programs {
        report::line(format_args!("{:<9} {version:<9} {}", pin.provider, path.display()));
    }
    match &installed.node {
        Some(node) => report::line(format_args!("{:<9} {:<9} {}", "node", "", node.display())),
        None => report::line("node: that of this system, which has to be 22 or newer"),
    }
    Ok(())
}

/// Returns the pinned programs, installed now unless they are there.
pub fn pinned() -> Result<Installed> {
    let conformance = sh::root().join("conformance");
    install(
        &fs::read_to_string(conformance.join("package.json"))?,
        &fs::read_to_string(conformance.join("package-lock.json"))?,
    )
}

/// Returns the newest of every program that is not pinned to an older version on purpose. A program whose newest
/// version cannot be resolved stays at its pin, and that is said.
pub fn newest() -> Result<Installed> {
    let conformance = sh::root().join("conformance");
    let scratch = cache()?.join("resolving");
    fs::create_dir_all(&scratch)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(conformance.join(file), scratch.join(file))?;
    }
    for (package, pinned) in dependencies(&fs::read_to_string(scratch.join("package.json"))?)? {
        if pinned.starts_with("npm:") {
            continue;
        }
        let before = ["package.json", "package-lock.json"].map(|file| fs::read(scratch.join(file)));
        let resolve =
            npm("install --package-lock-only --save-exact", &scratch).arg(format!("{package}@latest"));
        if let Err(error) = resolve.quiet_output() {
            report::line(format_args!(
                "    {package} stays at {pinned}: its newest version cannot be resolved ({error:#})"
            ));
            for (file, bytes) in ["package.json", "package-lock.json"].iter().zip(before) {
                fs::write(scratch.join(file), bytes?)?;
            }
        }
    }
    let now = dependencies(&fs::read_to_string(scratch.join("package.json"))?)?;
    let pins = dependencies(&fs::read_to_string(conformance.join("package.json"))?)?;
    let newer = newer(&pins, &now);
    if newer.is_empty() {
        // Resolving may write the same lock otherwise, and that would be gigabytes of the same.
        report::line("    nothing is newer than what is pinned");
        return pinned();
    }
    newer.iter().for_each(|it| report::line(format_args!("    {it}")));
    install(
        &fs::read_to_string(scratch.join("package.json"))?,
        &fs::read_to_string(scratch.join("package-lock.json"))?,
    )
}

/// Returns the packages whose version is not the pinned one.
fn newer(pins: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let changed = pins.iter().filter_map(|(package, pin)| Some((package, pin, now.get(package)?)));
    changed
        .filter(|(_, pin, now)| pin != now)
        .map(|(package, pin, now)| format!("{package}: {pin} -> {now}"))
        .collect()
}

fn install(package: &str, lock: &str) -> Result<Installed> {
    let folder = cache()?.join(name(lock));
    if !folder.join(STAMP).exists() {
        if !Call::new("npm").arg("--version").works() {
            bail!(
                "the real programs come from npm, and there is no `npm` on the PATH: install Node.js 20 or newer"
            );
        }
        // What an interrupted installation left, if any.
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("package.json"), package)?;
        fs::write(folder.join("package-lock.json"), lock)?;
        report::line("    installing the real programs, 2.8 GB in about a minute, once");
        let time = Stopwatch::start();
        // Not `npm ci`: it refuses a lock without the packages for other systems, and not every registry has those.
        with_progress(&folder, &time, || npm("install --no-save", &folder).run())?;
        fs::write(folder.join(STAMP), "")?;
        report::line(format_args!("    installed in {:.0} s", time.elapsed().as_secs_f64()));
    }
    found(&folder)
}

/// Finds the program of every pin in an installation.
fn found(folder: &Path) -> Result<Installed> {
    let modules = folder.join("node_modules");
    let text = fs::read_to_string(sh::root().join("conformance/pins.toml"))?;
    let pins: Pins = toml::from_str(&text).context("conformance/pins.toml")?;
    let platform = platform();
    let mut programs = Vec::new();
    for pin in pins.pin {
        let path = modules.join(pin.program.replace("{platform}", &platform));
        if !path.is_file() {
            bail!("{} has no {}: remove {} and try again", pin.package, path.display(), folder.display());
        }
        let package = fs::read_to_string(modules.join(&pin.package).join("package.json"))?;
        let package: Value = serde_json::from_str(&package)?;
        let version = package["version"].as_str().context("a package without a version")?.to_owned();
        programs.push(Program { pin, version, path });
    }
    let node = modules.join(format!("node-{platform}")).join("bin");
    let node = node.join("node").is_file().then_some(node);
    Ok(Installed { programs, node })
}

/// Runs `work` and says every few seconds how much is there.
fn with_progress(folder: &Path, time: &Stopwatch, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_secs(5));
                if !done.load(Ordering::Relaxed) {
                    let packages = fs::read_dir(folder.join("node_modules")).map_or(0, Iterator::count);
                    let mb = size(folder) / 1_000_000;
                    report::line(format_args!(
                        "    {packages} folders, {mb} MB, {:.0} s",
                        time.elapsed().as_secs_f64()
                    ));
                }
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        ticker.thread().unpark();
        result
    })
}

/// Adds up a tree. What vanishes while it is looked at counts nothing.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let entries = entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    entries.map(|(path, meta)| if meta.is_dir() { size(&path) } else { meta.len() }).sum()
}

/// Makes a call of npm that runs no install scripts.
fn npm(command: &str, folder: &Path) -> Call {
    let call =
        Call::new("npm").words(command).words("--ignore-scripts --no-audit --no-fund --loglevel=error");
    call.words("--omit-lockfile-registry-resolved --prefix").arg(folder)
}

fn dependencies(package: &str) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Package {
        dependencies: BTreeMap<String, String>,
    }
    Ok(serde_json::from_str::<Package>(package).context("package.json")?.dependencies)
}

/// Names an installation after its lock file: FNV-1a, which is enough to tell a handful of locks apart.
fn name(lock: &str) -> String {
    let hash = lock.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn cache() -> Result<PathBuf> {
    let tools = sh::tools()
        .context("neither HOME nor XDG_CACHE_HOME is set: there is no place for the real programs")?;
    Ok(tools.with_file_name("real-clis"))
}

/// Returns the name that packages with native programs use for this machine.
fn platform() -> String {
    let (os, arch) = npm_names(std::env::consts::OS, std::env::consts::ARCH);
    format!("{os}-{arch}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn conformance(file: &str) -> String {
        fs::read_to_string(sh::root().join("conformance").join(file)).expect("it is in the checkout")
    }

    /// A pin without an installed package, or a provider that is not in the catalogue, would be found too late.
    #[test]
    fn every_pin_is_a_package_and_a_provider() {
        let packages = dependencies(&conformance("package.json")).expect("it is valid");
        let pins: Pins = toml::from_str(&conformance("pins.toml")).expect("it is valid");
        for pin in &pins.pin {
            assert!(packages.contains_key(&pin.package), "{} is not among the dependencies", pin.package);
            assert!(bowline_providers::catalogue::by_name(&pin.provider).is_some(), "{}", pin.provider);
        }
        let full = pins.pin.iter().filter(|pin| pin.suite == Suite::Full).map(|pin| &pin.provider);
        assert_eq!(
            full.clone().collect::<BTreeSet<_>>().len(),
            full.count(),
            "one full suite for each provider"
        );
    }

    #[test]
    fn what_is_newer_is_told() {
        let of = |two: &str| {
            BTreeMap::from([("one".to_owned(), "1".to_owned()), ("two".to_owned(), two.to_owned())])
        };
        assert_eq!(newer(&of("2"), &of("2")), Vec::<String>::new());
        assert_eq!(newer(&of("2"), &of("3")), ["two: 2 -> 3"]);
    }

    /// The lock must not say where packages were downloaded: that is the business of the machine that installs.
    #[test]
    fn the_lock_names_no_host() {
        assert!(!conformance("package-lock.json").contains("\"resolved\": \"http"));
    }

    #[test]
    fn a_changed_lock_is_another_installation() {
        assert_ne!(name("{}"), name("{ }"));
    }
}
