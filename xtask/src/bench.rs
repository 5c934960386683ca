//! `cargo xtask bench decode|run|doctor`: what decoding costs, beside bare parsing of the same bytes, what a run costs,
//! beside a bare reader of the same agent, and what a look at all real programs costs, beside what they take to say their versions.
//!
//! The measuring is done by a program of its own, `xtask/benches/decode`, built with optimisation. Two measures: CPU
//! time over long streams, and instructions for each line, which are the same on every run and every machine of a
//! kind. Neither is a test: a slow machine must not make a correct change fail.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bowline_providers::catalogue;
use bowline_providers::manifest::Chosen;
use serde_json::Value;

use crate::args::{Bench, Subject};
use crate::real_clis::{self, Suite};
use crate::report;
use crate::sh::Call;

/// Runs a benchmark.
pub fn run(args: &Bench) -> Result<()> {
    match args.subject {
        Subject::Decode { mb } => decode(mb),
        Subject::Run { deltas } => run_bench(deltas),
        Subject::Doctor { rounds } => doctor(rounds),
    }
}

/// Builds the command as users do, and returns it.
fn command(benchmark: &Path) -> Result<PathBuf> {
    Call::cargo("build --quiet --release --package bowline-cli").run()?;
    let dir = benchmark.ancestors().find(|dir| dir.ends_with("release"));
    Ok(dir.context("the benchmark is not where cargo puts what is optimised")?.join("bowline"))
}

/// Measures the doctor on the pinned programs, one of each provider that is looked for unasked.
fn doctor(rounds: usize) -> Result<()> {
    let installed = real_clis::pinned()?;
    let program = build("doctor")?;
    let node = installed.node.unwrap_or_default();
    let call = Call::new(&*program).arg(command(&program)?).arg(rounds.max(1).to_string()).arg(node);
    let free = |it: &&real_clis::Program| {
        it.pin.suite == Suite::Full
            && catalogue::by_name(&it.pin.provider).is_some_and(|it| it.chosen != Chosen::ByName)
    };
    let programs = installed.programs.iter().filter(free);
    programs.fold(call, |call, it| call.arg(format!("{}={}", it.pin.provider, it.path.display()))).run()
}

/// Measures runs, with the command as users build it.
fn run_bench(deltas: usize) -> Result<()> {
    let program = build("run")?;
    let agent = build("agent")?;
    let command = command(&program)?;
    Call::new(&*program)
        .env("BENCH_AGENT_PROGRAM", agent)
        .arg("all")
        .arg(command)
        .arg(deltas.to_string())
        .run()
}

fn decode(mb: usize) -> Result<()> {
    let program = build("decode")?;
    Call::new(&*program).arg("time").arg(mb.to_string()).run()?;
    count_instructions(&program)
}

fn build(bench: &str) -> Result<PathBuf> {
    report::line("building the benchmark");
    let messages = Call::cargo("bench --quiet --package xtask --no-run")
        .arg("--bench")
        .arg(bench)
        .arg("--message-format=json-render-diagnostics")
        .output()?;
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_bench = message["target"]["kind"] == serde_json::json!(["bench"]);
        is_bench.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    });
    program.context("cargo names no program for the benchmark")
}

fn count_instructions(program: &Path) -> Result<()> {
    if !Call::new("valgrind").arg("--version").works() {
        report::line("skipped: instructions for each line: valgrind is not installed");
        return Ok(());
    }
    let pairs = Call::new(program).arg("list").output()?;
    let mut counted = Vec::new();
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for pair in pairs.lines() {
        let [stream, way, lines] = words(pair)?;
        // What it costs to make the lines is no cost of reading them; for a long line it is as much.
        let made = match made.get(stream) {
            Some(made) => *made,
            None => *made.entry(stream).or_insert(instructions(program, &["make", stream, lines])?),
        };
        let all = instructions(program, &["count", stream, way, lines])?;
        counted.push(Counted { stream, way, each: all.saturating_sub(made) / lines.parse::<u64>()?.max(1) });
    }
    let mut table = "\ninstructions for each line; x is beside `typed`\n\n".to_owned();
    for Counted { stream, way, each } in &counted {
        let ratio = ratio(&counted, stream, way);
        table.push_str(&format!("{stream:<18} {way:<12} {each:>8} {ratio:>6.2}\n"));
    }
    table.push('\n');
    for bar in Call::new(program).arg("bars").output()?.lines() {
        table.push_str(&verdict(&counted, bar)?);
    }
    std::io::stdout().lock().write_all(table.as_bytes())?;
    Ok(())
}

/// What one way of reading one stream costs.
#[derive(Debug)]
struct Counted<'a> {
    stream: &'a str,
    way: &'a str,
    /// Instructions for each line.
    each: u64,
}

fn instructions_of(counted: &[Counted<'_>], stream: &str, way: &str) -> u64 {
    counted.iter().find(|known| known.stream == stream && known.way == way).map_or(0, |known| known.each)
}

fn ratio(counted: &[Counted<'_>], stream: &str, way: &str) -> f64 {
    let typed = instructions_of(counted, stream, "typed").max(1);
    instructions_of(counted, stream, way) as f64 / typed as f64
}

/// Says whether a bar holds.
fn verdict(counted: &[Counted<'_>], bar: &str) -> Result<String> {
    let [stream, measure, limit, about] = words(bar)?;
    let limit: f64 = limit.parse()?;
    let (cost, said) = if measure == "ratio" {
        let cost = ratio(counted, stream, "decode");
        (cost, format!("{cost:.2} of bare typed serde in instructions"))
    } else {
        let cost = instructions_of(counted, stream, "decode");
        (cost as f64, format!("{cost} instructions"))
    };
    let verdict = if cost <= limit { "holds" } else { "does not hold" };
    Ok(format!("{about}: {said} (bar {limit}): {verdict}\n"))
}

/// Splits a line of the benchmark into so many words, the last of which is the rest.
fn words<const COUNT: usize>(line: &str) -> Result<[&str; COUNT]> {
    let words: Vec<&str> = line.splitn(COUNT, ' ').collect();
    words.try_into().ok().with_context(|| format!("the benchmark says `{line}`"))
}

/// Counts the instructions of one run of the benchmark.
fn instructions(program: &Path, args: &[&str]) -> Result<u64> {
    let call = Call::new("valgrind").words("--tool=callgrind --callgrind-out-file=/dev/null").arg(program);
    let said = args.iter().fold(call, |call, arg| call.arg(arg)).quiet_output()?;
    let count = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.context("valgrind tells no count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_holds_up_to_its_limit() {
        let counted = [
            Counted { stream: "a", way: "typed", each: 100 },
            Counted { stream: "a", way: "decode", each: 150 },
        ];
        let check = |bar: &str, expect: &str| {
            assert_eq!(verdict(&counted, bar).expect("a bar"), format!("{expect}\n"));
        };
        check(
            "a ratio 1.5 two words",
            "two words: 1.50 of bare typed serde in instructions (bar 1.5): holds",
        );
        check("a instructions 149 it", "it: 150 instructions (bar 149): does not hold");
        assert!(verdict(&counted, "a ratio").is_err());
    }
}
