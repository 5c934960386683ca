//! `cargo xtask fuzz`: builds the targets in `fuzz/` and runs them.
//!
//! On the stable compiler, and without cargo-fuzz, which wants a nightly one. The coverage counters are a pass of LLVM
//! that stable can be told to run; sanitizers are not to be had that way, and in code without `unsafe` they would find
//! little. `--target` is given so that the flags reach our code and not build scripts and procedural macros.
//!
//! `fuzz/seeds/<target>` holds small inputs that are checked in. Those of `decode` are plain output, one folder for
//! each dialect; the bytes that say which dialect it is are put before them here, so that a seed stays true when the
//! list of dialects grows. `decode` also begins with lines of the recordings in `fixtures/`. What the fuzzer learns is in `fuzz/corpus`, what it breaks in `fuzz/artifacts`; neither is
//! checked in. An input that showed a bug belongs in the seeds, which an ordinary test runs as well.

mod recorded;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bowline_testkit::Case;

use crate::args::Fuzz;
use crate::report;
use crate::sh::{self, Call, Stopwatch};

/// A fuzz target and its part of the time.
#[derive(Debug)]
struct Target {
    name: &'static str,
    share: u64,
}

/// Every target. Most of the code, and so most of the time, is behind `decode`.
const TARGETS: &[Target] = &[
    Target { name: "framing", share: 1 },
    Target { name: "decode", share: 4 },
    Target { name: "classify", share: 1 },
];

/// Counters for every edge, and the operands of comparisons, from which the fuzzer learns the words that we look for.
/// The last flag keeps comparisons of strings as calls, which libFuzzer sees; inlined by the back end, after the
/// coverage pass, they would be invisible to it.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-max-loads-per-memcmp=0";

/// An input is at most this long: several lines of every dialect fit, and short inputs run fast.
const LONGEST_INPUT: usize = 1024;

/// An input that takes longer than this many seconds is a finding.
const TIMEOUT: u64 = 10;

/// Runs one target, or all of them.
pub fn run(args: &Fuzz) -> Result<()> {
    run_for(args.seconds, args.target.as_deref(), Search::Anew)
}

/// Where the search begins.
#[derive(Clone, Copy, Debug)]
pub enum Search {
    /// A new seed each time, to find new faults.
    Anew,
    /// At the same place each time: for a gate, which must not fail by luck.
    Again,
}

/// Runs one target, or all of them, for so many seconds in all.
pub fn run_for(seconds: u64, name: Option<&str>, search: Search) -> Result<()> {
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| name.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no such fuzz target; there are {}", known.join(", "));
    }
    let built = build()?;
    let words = words::of_source()?;
    fs::write(sh::root().join("fuzz/target/words.dict"), words::dictionary(&words)?)?;
    let shares: u64 = chosen.iter().map(|target| target.share).sum();
    let mut total = 0;
    for target in chosen {
        plant(target, &words)?;
        // Zero would mean without end.
        total += target.run(&built, (seconds * target.share / shares).max(1), search)?;
    }
    report::line(format_args!("fuzz: {total} executions in all"));
    Ok(())
}

/// Builds every target and returns the folder with the programs.
fn build() -> Result<PathBuf> {
    let about = Call::new("rustc").arg("-vV").output()?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Call::cargo(
        "build --quiet --release --bins --manifest-path fuzz/Cargo.toml --target-dir fuzz/target --target",
    )
    .arg(host)
    .env("RUSTFLAGS", FLAGS)
    .run()?;
    Ok(Path::new("fuzz/target").join(host).join("release"))
}

/// What the short seeds say, for other words to be put in its place.
const PLACEHOLDER: &str = "Hi there";

/// Puts the seeds of a target into its corpus, and beside it the short seeds with every word of the source said in
/// them: at random, a word would reach the right string of the right dialect once in a million executions.
fn plant(target: &Target, words: &[String]) -> Result<()> {
    let corpus = sh::root().join("fuzz/corpus").join(target.name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(sh::root().join("fuzz/artifacts").join(target.name))?;
    let said = sh::root().join("fuzz/target/said").join(target.name);
    fs::create_dir_all(&said)?;
    for (name, bytes) in seeds(target.name)? {
        if let Some(at) = bytes.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER.as_bytes())
        {
            for (number, word) in words.iter().enumerate() {
                let other = [&bytes[..at], word.as_bytes(), &bytes[at + PLACEHOLDER.len()..]].concat();
                fs::write(said.join(format!("{name}-{number}")), other)?;
            }
        }
        fs::write(corpus.join(format!("seed-{name}")), bytes)?;
    }
    if target.name == "decode" {
        for (name, bytes) in recorded::seeds()? {
            fs::write(corpus.join(format!("recorded-{name}")), bytes)?;
        }
    }
    Ok(())
}

/// Reads the seeds of a target: their names, and the inputs as the target wants them.
fn seeds(target: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = sh::root().join("fuzz/seeds").join(target);
    let mut seeds = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))? {
        let (path, name) = (entry.as_ref().map(fs::DirEntry::path), entry.as_ref().map(name_of));
        let (Ok(path), Ok(name)) = (path, name) else { continue };
        if !path.is_dir() {
            seeds.push((name, fs::read(path)?));
            continue;
        }
        let header =
            Case::header(&name).with_context(|| format!("no dialect has the name of {}", path.display()))?;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            seeds.push((
                format!("{name}-{}", name_of(&entry)),
                [&header[..], &fs::read(entry.path())?].concat(),
            ));
        }
    }
    Ok(seeds)
}

fn name_of(entry: &fs::DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

impl Target {
    /// Runs the target and returns how often it was executed.
    fn run(&self, built: &Path, seconds: u64, search: Search) -> Result<u64> {
        let program = built.join(self.name);
        let call = Call::new(sh::root().join(&program))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={LONGEST_INPUT}"))
            .arg(format!("-timeout={TIMEOUT}"))
            // Zero means a seed of its own choice.
            .arg(match search {
                Search::Anew => "-seed=0",
                Search::Again => "-seed=1",
            })
            .words("-print_final_stats=1 -rss_limit_mb=2048 -dict=fuzz/target/words.dict")
            .arg(format!("-artifact_prefix=fuzz/artifacts/{}/", self.name))
            .arg(format!("fuzz/corpus/{}", self.name))
            .arg(format!("fuzz/target/said/{}", self.name));
        let mut log = Log::default();
        let time = Stopwatch::start();
        let done = call.run_filtering_errors(|line| log.line(line));
        let (time, count) = (time.elapsed().as_secs_f64(), log.executions);
        report::line(format_args!("fuzz: {}: {count} executions in {time:.1} s", self.name));
        if let Err(error) = done {
            log.kept.iter().for_each(report::line);
            let Some(input) = log.input else { return Err(error) };
            bail!(
                "fuzz target `{}` broke on {input}; to repeat it: {} {input}",
                self.name,
                program.display()
            );
        }
        Ok(log.executions)
    }
}

/// What libFuzzer says, as far as it matters.
#[derive(Debug, Default)]
struct Log {
    executions: u64,
    /// The input that broke the target.
    input: Option<String>,
    /// What to show if it broke.
    kept: Vec<String>,
}

impl Log {
    fn line(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number.trim().parse().unwrap_or(0);
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.input = Some(path.to_owned());
        } else if !["#", "INFO:", "stat::", "\"", "\t", "Dictionary:"]
            .iter()
            .any(|noise| line.starts_with(noise))
        {
            self.kept.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_and_the_input_are_read_from_the_log() {
        let mut log = Log::default();
        for line in [
            "#2048\tpulse  cov: 10 ft: 12",
            "thread '<unnamed>' panicked at src/lib.rs:1:1:",
            "artifact_prefix='fuzz/artifacts/decode/'; Test unit written to fuzz/artifacts/decode/crash-63d2",
            "stat::number_of_executed_units: 1914",
        ] {
            log.line(line);
        }
        assert_eq!(log.executions, 1914);
        assert_eq!(log.input.as_deref(), Some("fuzz/artifacts/decode/crash-63d2"));
        assert_eq!(log.kept, ["thread '<unnamed>' panicked at src/lib.rs:1:1:"]);
    }

    #[test]
    fn every_target_has_seeds() {
        for target in TARGETS {
            assert!(!seeds(target.name).expect("reads").is_empty(), "{}", target.name);
        }
    }
}
