//! `cargo xtask check`: the loop after one change, at most three minutes on two processors with a warm `target/`.
//!
//! Format, lints, tests and the tidy rules, of the packages that the change touches and of those that depend on them. The
//! packages that were touched run their tests, all but the slowest; the others run their unit tests, because the slow ones are
//! integration tests that start processes. `cargo xtask test` runs everything.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::args::Check;
use crate::report;
use crate::sh::{self, Call, Stopwatch};

/// The part of `cargo metadata` that is needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Where it is, if it is one of ours.
    path: Option<String>,
}

/// The packages to check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    touched: BTreeSet<String>,
    dependents: BTreeSet<String>,
}

/// Tests of the command that take half a minute each or longer: they wait that long on purpose, or keep all processors busy.
/// `cargo xtask test` runs them.
const LEFT_TO_THE_GATE: [&str; 5] = [
    "faults::lines::a_message_of_fifty_megabytes_in_one_line",
    "faults::many::two_hundred_runs_at_once",
    "faults::pipes::a_reader_that_stops_for_a_minute_holds_nobody_up",
    "live::random_kills::nothing_is_lost_doubled_or_left_whatever_is_killed",
    "provider_new::a_project_in_rust_is_built_and_keeps_the_contract",
];

/// Runs the loop.
pub fn run(args: &Check) -> Result<()> {
    let whole = Stopwatch::start();
    let metadata = Call::cargo("metadata --no-deps --format-version 1").output()?;
    let metadata: Metadata = serde_json::from_str(&metadata).context("cargo metadata is not as expected")?;
    let changed = changed(args.since.as_deref())?;
    let plan = plan(&changed, &metadata.packages, &sh::root().to_string_lossy());
    report::line(format_args!("{} files changed; packages: {}", changed.len(), listed(&plan.touched)));
    report::line(format_args!("packages that depend on them: {}", listed(&plan.dependents)));
    let mut calls = calls(&plan);
    calls.insert(1, ("format of the provider folders", format_of_provider_folders()?));
    for (name, call) in calls {
        report::line(format_args!("==> {name}"));
        let time = Stopwatch::start();
        call.run().map_err(|error| error.context(format!("the step `{name}` failed")))?;
        report::line(format_args!("    {name}: {:.1} s", time.elapsed().as_secs_f64()));
    }
    report::line(format_args!("==> passed in {:.1} s", whole.elapsed().as_secs_f64()));
    Ok(())
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// Returns the files that differ from a commit, new ones among them. Without one named, that is the last commit, or the one
/// before it where nothing has changed since.
fn changed(since: Option<&str>) -> Result<Vec<String>> {
    let files = |since: &str| -> Result<Vec<String>> {
        let tracked = Call::new("git").words("diff --name-only --no-renames -z").arg(since).output()?;
        let new = Call::new("git").words("ls-files --others --exclude-standard -z").output()?;
        let names = tracked.split('\0').chain(new.split('\0'));
        Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    };
    match since {
        Some(since) => files(since),
        None => match files("HEAD")? {
            none if none.is_empty() => files("HEAD~1"),
            some => Ok(some),
        },
    }
}

/// Decides which packages a change concerns.
fn plan(changed: &[String], packages: &[Package], root: &str) -> Plan {
    let mut plan = Plan::default();
    for file in changed {
        // What all packages are built with.
        if matches!(file.as_str(), "Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml" | "clippy.toml") {
            plan.dependents.extend(packages.iter().map(|package| package.name.clone()));
        }
        // The recordings are the input of the dialects' tests.
        let file = if file.starts_with("fixtures/") { "crates/providers/fixtures" } else { file };
        plan.touched.extend(owner(file, packages, root).map(|package| package.name.clone()));
    }
    let mut known: BTreeSet<String> = plan.touched.clone();
    loop {
        let is_ours = |it: &Dependency| it.path.is_some() && known.contains(&it.name);
        let more = packages.iter().filter(|package| package.dependencies.iter().any(is_ours));
        let more: Vec<String> =
            more.filter(|package| !known.contains(&package.name)).map(|it| it.name.clone()).collect();
        if more.is_empty() {
            break;
        }
        known.extend(more);
    }
    plan.dependents.extend(known);
    plan.dependents.retain(|name| !plan.touched.contains(name));
    plan
}

/// Finds the package in whose folder a file is.
fn owner<'a>(file: &str, packages: &'a [Package], root: &str) -> Option<&'a Package> {
    let folder = |package: &&Package| {
        let folder = package.manifest_path.strip_suffix("Cargo.toml")?;
        folder.strip_prefix(root).map(|folder| folder.trim_start_matches('/').to_owned())
    };
    packages.iter().find(|it| folder(it).is_some_and(|dir| !dir.is_empty() && file.starts_with(&dir)))
}

/// Returns the command that checks the format of the provider folders. `cargo fmt` does not see them, because the macro
/// `folders!` declares their modules; `rustfmt` follows the modules of each `mod.rs`.
pub(crate) fn format_of_provider_folders() -> Result<Call> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(sh::root().join("crates/providers/src"))? {
        let file = Path::new("crates/providers/src").join(entry?.file_name()).join("mod.rs");
        if sh::root().join(&file).is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files.into_iter().fold(Call::new("rustfmt").words("--check"), Call::arg))
}

/// Returns the commands, the cheapest first.
fn calls(plan: &Plan) -> Vec<(&'static str, Call)> {
    let named = |call: Call, names: &BTreeSet<String>| {
        names.iter().fold(call, |call, name| call.arg("--package").arg(name.as_str()))
    };
    let mut calls = vec![("format", Call::cargo("fmt --all --check"))];
    let all: BTreeSet<String> = plan.touched.union(&plan.dependents).cloned().collect();
    if !all.is_empty() {
        let lints = named(Call::cargo("clippy --quiet --all-targets --all-features"), &all);
        calls.push(("lints", lints.words("-- -D warnings")));
    }
    calls.push(("tidy", Call::cargo("test --quiet --package xtask --test tidy")));
    let nextest = || {
        let call = Call::cargo("nextest run --all-features --no-tests pass --no-fail-fast --cargo-quiet");
        call.arg("--test-threads").arg(test_threads().to_string())
    };
    if !plan.touched.is_empty() {
        let tests = nextest().arg("--filterset").arg(all_but(&LEFT_TO_THE_GATE));
        calls.push(("tests of what changed", named(tests, &plan.touched)));
    }
    if !plan.dependents.is_empty() {
        let tests = named(nextest().words("--lib --bins"), &plan.dependents);
        calls.push(("unit tests of what depends on it", tests));
    }
    calls
}

/// Returns how many tests run at once. The slow ones wait for processes, pipes and deadlines, and hardly use a processor: with one
/// test for each of two processors, those of the command take five minutes.
fn test_threads() -> usize {
    4 * std::thread::available_parallelism().map_or(2, NonZero::get)
}

/// Returns the filter of nextest for all tests but these.
fn all_but(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("test(={name})")).collect();
    format!("not ({})", names.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: (*name).to_owned(), path: Some("x".to_owned()) };
        Package {
            name: name.to_owned(),
            manifest_path: format!("/w/{folder}/Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn check(changed: &[&str], touched: &[&str], dependents: &[&str]) {
        let packages = [
            package("protocol", "crates/protocol", &[]),
            package("providers", "crates/providers", &["protocol"]),
            package("provider", "crates/provider", &[]),
            package("runtime", "crates/runtime", &["providers"]),
            package("cli", "crates/cli", &["runtime", "provider"]),
        ];
        let changed: Vec<String> = changed.iter().map(|file| (*file).to_owned()).collect();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = Plan { touched: set(touched), dependents: set(dependents) };
        assert_eq!(plan(&changed, &packages, "/w"), expected, "{changed:?}");
    }

    #[test]
    fn a_change_concerns_its_package_and_all_that_depend_on_it() {
        check(&["crates/cli/src/main.rs"], &["cli"], &[]);
        check(&["crates/providers/src/a.rs"], &["providers"], &["runtime", "cli"]);
        check(&["crates/provider/src/a.rs"], &["provider"], &["cli"]);
        check(
            &["crates/protocol/a", "crates/cli/tests/b.rs"],
            &["protocol", "cli"],
            &["providers", "runtime"],
        );
        check(&["fixtures/agent/x"], &["providers"], &["runtime", "cli"]);
        check(&["docs/run.md", "README.md"], &[], &[]);
        check(&["Cargo.lock"], &[], &["protocol", "providers", "provider", "runtime", "cli"]);
    }

    #[test]
    fn the_format_of_every_folder_of_the_catalogue_is_checked() {
        let call = format_of_provider_folders().expect("the folders can be read").to_string();
        for manifest in bowline_providers::catalogue::built_in() {
            assert!(call.contains(&format!(" crates/providers/src/{}/mod.rs", manifest.name)), "{call}");
        }
    }

    #[test]
    fn the_tests_that_are_left_to_the_gate_exist() {
        let filter = all_but(&LEFT_TO_THE_GATE);
        assert!(filter.starts_with("not (test(=faults::lines::") && filter.contains(" | test(="), "{filter}");
        for name in LEFT_TO_THE_GATE {
            let (module, test) = name.rsplit_once("::").expect("a path");
            let file = format!("crates/cli/tests/it/{}.rs", module.replace("::", "/"));
            let text = std::fs::read_to_string(sh::root().join(&file)).expect(&file);
            assert!(text.contains(&format!("fn {test}(")), "{name} is not in {file}");
        }
    }

    #[test]
    fn a_change_of_documents_runs_the_tidy_rules_alone() {
        let names = |plan: &Plan| calls(plan).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(&Plan::default()), ["format", "tidy"]);
        let plan = Plan { touched: ["cli".to_owned()].into(), dependents: BTreeSet::new() };
        assert_eq!(names(&plan), ["format", "lints", "tidy", "tests of what changed"]);
        let (_, tests) = calls(&plan).pop().expect("the tests");
        let tests = tests.to_string();
        assert!(tests.contains("--test-threads") && tests.contains("--filterset"), "{tests}");
    }
}
