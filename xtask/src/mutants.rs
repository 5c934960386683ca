//! `cargo xtask mutants`: changes the engine one decision at a time and runs the engine's own tests on each change.
//!
//! A change that no test notices is a decision that no test holds. Not part of `cargo xtask test`: every change is built and tested by itself, which takes 5 to
//! 10 s on two cores, and several hours for the whole engine. The tests of other crates are left out on purpose: the engine is pure, and its rules are tested there.
//! The list `crates/engine/mutants.txt` names each change that the tests do not notice, with the reason.

use anyhow::{Context, Result, ensure};
use serde::de::IgnoredAny;

use crate::args::Mutants;
use crate::report;
use crate::sh::{self, Call};

/// The version of the tool that is installed where none is.
const VERSION: &str = "27.1.0";

/// How many random runs the property test plays for each change. Sixty thousand would take most of the time.
const RANDOM_RUNS: &str = "1500";

/// How many of a hundred changes the tests have to notice.
const CAUGHT: usize = 95;

/// The changes that no test notices, each with the reason.
const LIST: &str = "crates/engine/mutants.txt";

/// Runs it. Fails if too few changes are noticed, or if the list does not name exactly the others.
pub fn run(args: &Mutants) -> Result<()> {
    if !Call::cargo("mutants --version").works() {
        report::line("installing cargo-mutants");
        Call::cargo("install cargo-mutants --locked --version").arg(VERSION).run()?;
    }
    let list = std::fs::read_to_string(sh::root().join(LIST)).context(LIST)?;
    let listed = listed(&list)?;
    let out = sh::root().join("target/mutants");
    // The lists of an earlier run are not taken for those of a run that could not begin.
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    std::fs::create_dir_all(&out)?;
    // The engine has unit tests only. Without `--lib`, cargo also builds and runs an empty suite of documentation tests each time.
    let words = "mutants -p bowline-engine --jobs 1 --timeout 60 --no-shuffle --cargo-arg=--lib --output";
    let mut call = Call::cargo(words)
        .arg(&out)
        .env("BOWLINE_RANDOM_RUNS", RANDOM_RUNS)
        .env("RUST_BACKTRACE", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    for file in &args.file {
        call = call.arg("--file").arg(file);
    }
    // It exits with 2 where a change was not noticed, and with 3 where a test hung; the lists decide. A test that hangs has
    // noticed the change: CI would not pass.
    let ended = call.run();
    let read = |list: &str| std::fs::read_to_string(out.join("mutants.out").join(list));
    let (Ok(planned), Ok(caught), Ok(hung), Ok(missed), Ok(unbuilt)) = (
        read("mutants.json"),
        read("caught.txt"),
        read("timeout.txt"),
        read("missed.txt"),
        read("unviable.txt"),
    ) else {
        ended?;
        anyhow::bail!("cargo mutants left no lists in {}", out.display());
    };
    let [caught, hung, unbuilt] = [caught, hung, unbuilt].map(|list| changes(&list).count());
    let missed: Vec<&str> = changes(&missed).collect();
    let (noticed, all) = (caught + hung, caught + hung + missed.len());
    let planned = serde_json::from_str::<Vec<IgnoredAny>>(&planned)?.len();
    if planned == 0 || all + unbuilt < planned {
        ended?;
        anyhow::bail!("cargo mutants ended after {} of {planned} changes", all + unbuilt);
    }
    let part = 100.0 * noticed as f64 / all as f64;
    report::line(format_args!(
        "{noticed} of {all} changes are noticed: {part:.1} % ({caught} by a test that fails, {hung} by a test that does not end)"
    ));
    let (unlisted, stale) = compare(&missed, &listed);
    for change in &missed {
        let known = if unlisted.contains(change) { "not in the list" } else { "in the list" };
        report::line(format_args!("missed ({known}): {change}"));
    }
    ensure!(noticed * 100 >= all * CAUGHT, "fewer than {CAUGHT} % are noticed");
    ensure!(unlisted.is_empty(), "{LIST} has no reason for {} missed changes", unlisted.len());
    // A run over some files says nothing about the others.
    ensure!(
        !args.file.is_empty() || stale.is_empty(),
        "{LIST} lists what the tests notice, or what is gone: {}",
        stale.join(", ")
    );
    Ok(())
}

/// Splits a list of cargo-mutants into its changes.
fn changes(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.trim().is_empty())
}

/// Reads our list: a change on a line, its reason on the indented lines below it.
fn listed(list: &str) -> Result<Vec<&str>> {
    let mut lines = changes(list).filter(|line| !line.starts_with('#')).peekable();
    let mut listed = Vec::new();
    while let Some(change) = lines.next() {
        ensure!(!change.starts_with(' '), "{LIST}: a reason without a change: {}", change.trim());
        ensure!(lines.next_if(|line| line.starts_with(' ')).is_some(), "{LIST}: no reason for: {change}");
        while lines.next_if(|line| line.starts_with(' ')).is_some() {}
        listed.push(change);
    }
    Ok(listed)
}

/// Compares what was missed with our list, and returns what is only in the first and what is only in the second. An entry stands
/// for one change: two changes of one name need two entries.
fn compare<'a>(missed: &[&'a str], listed: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut stale = listed.to_vec();
    let is_unlisted = |change: &&str| {
        let entry = stale.iter().position(|listed| *listed == without_place(change));
        entry.map(|entry| stale.remove(entry)).is_none()
    };
    let unlisted = missed.iter().copied().filter(is_unlisted).collect();
    (unlisted, stale)
}

/// Takes the line and the column out of the name of a change, because they move with every edit above it.
fn without_place(change: &str) -> String {
    match change.splitn(4, ':').collect::<Vec<_>>()[..] {
        [path, _line, _column, what] => format!("{path}:{what}"),
        _ => change.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "# About the list.\n\na.rs: replace + with - in one\n    It is the same,\n    because.\n\nb.rs: replace > with >= in Two::three\n    As well.\n";

    #[test]
    fn every_change_of_the_list_has_a_reason() {
        let changes = ["a.rs: replace + with - in one", "b.rs: replace > with >= in Two::three"];
        assert_eq!(listed(LISTED).expect("a list"), changes);
        for (list, error) in [
            ("a.rs: one\nb.rs: two\n    Why.\n", "no reason for: a.rs: one"),
            ("a.rs: one\n", "no reason for: a.rs: one"),
            ("    Why.\na.rs: one\n", "a reason without a change: Why."),
        ] {
            let found = listed(list).expect_err(list).to_string();
            assert_eq!(found, format!("{LIST}: {error}"));
        }
    }

    #[test]
    fn the_list_has_each_missed_change_and_no_other() {
        let list = listed(LISTED).expect("a list");
        let (one, three) =
            ("a.rs:7:12: replace + with - in one", "b.rs:40:3: replace > with >= in Two::three");
        let nothing: (Vec<&str>, Vec<&str>) = Default::default();
        assert_eq!(compare(&[one, three], &list), nothing);
        assert_eq!(compare(&[three], &list), (vec![], vec![list[0]]));
        let again = "a.rs:8:12: replace + with - in one";
        assert_eq!(compare(&[one, again, three], &list), (vec![again], vec![]));
    }
}
