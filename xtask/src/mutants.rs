//! `cargo xtask mutants`: changes the engine one decision at a time and runs the engine's own tests on each change.
//!
//! A change that no test notices is a decision that no test holds. Not part of `cargo xtask test`: every change is built and tested by itself, which takes more than an
//! hour on two cores. The tests of other crates are left out on purpose: the engine is pure, and its rules are tested there.

use anyhow::{Result, ensure};

use crate::args::Mutants;
use crate::report;
use crate::sh::{self, Call};

/// The version of the tool that is installed where none is.
const VERSION: &str = "27.1.0";

/// How many random runs the property test plays for each change. Sixty thousand would take most of the time.
const RANDOM_RUNS: &str = "1500";

/// How many of a hundred changes the tests have to notice.
const CAUGHT: usize = 95;

/// Runs it and fails if too few changes are noticed.
pub fn run(args: &Mutants) -> Result<()> {
    if !Call::cargo("mutants --version").works() {
        report::line("installing cargo-mutants");
        Call::cargo("install cargo-mutants --locked --version").arg(VERSION).run()?;
    }
    let out = sh::root().join("target/mutants");
    std::fs::create_dir_all(&out)?;
    let mut call = Call::cargo("mutants -p bowline-engine --jobs 1 --timeout 60 --no-shuffle --output")
        .arg(&out)
        .env("BOWLINE_RANDOM_RUNS", RANDOM_RUNS)
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    for file in &args.file {
        call = call.arg("--file").arg(file);
    }
    // It exits with 2 where a change was not noticed, and with 3 where a test hung; the lists decide.
    let ended = call.run();
    let count = |list: &str| -> Result<usize> {
        let text = std::fs::read_to_string(out.join("mutants.out").join(list))?;
        Ok(text.lines().filter(|line| !line.trim().is_empty()).count())
    };
    let (Ok(caught), Ok(hung), Ok(missed)) = (count("caught.txt"), count("timeout.txt"), count("missed.txt"))
    else {
        ended?;
        anyhow::bail!("cargo mutants left no lists in {}", out.display());
    };
    let (noticed, all) = (caught + hung, caught + hung + missed);
    ensure!(all > 0, "nothing was changed");
    let part = 100.0 * noticed as f64 / all as f64;
    report::line(format_args!("{noticed} of {all} changes are noticed: {part:.1} %"));
    ensure!(noticed * 100 >= all * CAUGHT, "fewer than {CAUGHT} % are noticed; see mutants.out/missed.txt");
    Ok(())
}
