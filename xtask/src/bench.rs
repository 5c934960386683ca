//! `cargo xtask bench decode`: what decoding costs, beside bare parsing of the same bytes.
//!
//! The measuring is done by a program of its own, `xtask/benches/decode`, built with optimisation. Two measures: CPU
//! time over long streams, and instructions for each line, which are the same on every run and every machine of a
//! kind. Neither is a test: a slow machine must not make a correct change fail.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::args::{Bench, Subject};
use crate::report;
use crate::sh::Call;

/// How many lines are counted: enough for a mean, few enough for a simulated processor.
const LINES: u64 = 2000;

/// Runs a benchmark.
pub fn run(args: &Bench) -> Result<()> {
    match args.subject {
        Subject::Decode { mb } => decode(mb),
    }
}

fn decode(mb: usize) -> Result<()> {
    let program = build()?;
    Call::new(&*program).arg("time").arg(mb.to_string()).run()?;
    count_instructions(&program)
}

fn build() -> Result<PathBuf> {
    report::line("building the benchmark");
    let messages = Call::cargo("bench --quiet --package xtask --bench decode --no-run")
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
    let mut counted: Vec<(&str, &str, u64)> = Vec::new();
    for pair in pairs.lines() {
        let (stream, way) = pair.split_once(' ').context("the benchmark lists pairs")?;
        let count = |lines: u64| instructions(program, stream, way, lines);
        counted.push((stream, way, count(LINES)?.saturating_sub(count(0)?) / LINES));
    }
    let mut table = format!("\ninstructions for each line, over {LINES} lines; x is beside `typed`\n\n");
    for (stream, way, each) in &counted {
        let typed =
            counted.iter().find(|known| known.0 == *stream && known.1 == "typed").map_or(1, |typed| typed.2);
        table.push_str(&format!(
            "{stream:<18} {way:<12} {each:>8} {:>6.2}\n",
            *each as f64 / typed.max(1) as f64
        ));
    }
    std::io::stdout().lock().write_all(table.as_bytes())?;
    Ok(())
}

/// Counts the instructions of one run over so many lines.
fn instructions(program: &Path, stream: &str, way: &str, lines: u64) -> Result<u64> {
    let call = Call::new("valgrind").words("--tool=callgrind --callgrind-out-file=/dev/null");
    let said = call.arg(program).arg("count").arg(stream).arg(way).arg(lines.to_string()).quiet_output()?;
    let count = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.context("valgrind tells no count")
}
