//! `cargo xtask bench decode|run|live|doctor`: what decoding costs, beside bare parsing of the same bytes, what a run costs,
//! beside a bare reader of the same agent, what live sessions cost and how late their events come, and what a look at all real programs costs, beside what they take to say their versions.
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
        Subject::Live => live_bench(),
    }
}

/// Builds the command as it is shipped, and returns it.
fn command(benchmark: &Path) -> Result<PathBuf> {
    Call::cargo("build --quiet --profile dist --package bowline-cli").run()?;
    let dir = benchmark.ancestors().find(|dir| dir.ends_with("release")).and_then(Path::parent);
    Ok(dir.context("the benchmark is not where cargo puts what is optimised")?.join("dist/bowline"))
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
        .env("BENCH_AGENT_PROGRAM", &agent)
        .arg("all")
        .arg(&command)
        .arg(deltas.to_string())
        .run()?;
    if has_counter() {
        count_deltas(&program, &command, &agent)?;
    }
    Ok(())
}

/// Measures live sessions in runners of the command as users build it.
fn live_bench() -> Result<()> {
    let program = build("run")?;
    let agent = build("agent")?;
    let command = command(&program)?;
    Call::new(&*program).env("BENCH_AGENT_PROGRAM", &agent).arg("live").arg(&command).run()
}

/// How many deltas are counted; what a run costs besides them is taken off by a run with twice as many.
const COUNTED_DELTAS: u64 = 10_000;

/// Counts the instructions of a delta on its way through the library and through the command.
fn count_deltas(program: &Path, command: &Path, agent: &Path) -> Result<()> {
    let home = std::env::temp_dir().join(format!("bowline-bench-count-{}", std::process::id()));
    let counted = |call: &dyn Fn(u64) -> Call| -> Result<u64> {
        let [once, twice] = [COUNTED_DELTAS, 2 * COUNTED_DELTAS].map(|deltas| collected(&call(deltas)));
        Ok(twice?.saturating_sub(once?) / COUNTED_DELTAS)
    };
    let under = |program: &Path| {
        let call = Call::new("valgrind")
            .words("--tool=callgrind --callgrind-out-file=/dev/null --child-silent-after-fork=yes");
        call.arg(program).env("BENCH_AGENT_PROGRAM", agent).env("BOWLINE_HOME", &home)
    };
    let host = |part: &'static str| {
        counted(&move |deltas| under(program).arg("host").arg(part).arg(deltas.to_string()))
    };
    let through = counted(&|deltas| {
        let call =
            under(command).words("run --output jsonl --provider claude --timeout 10m --binary").arg(agent);
        call.arg("--env").arg(format!("BENCH_AGENT=deltas {deltas}")).arg("Go")
    })?;
    let bare = counted(&|items| under(program).arg("bare-items").arg(items.to_string()))?;
    let mut table = String::from("\n");
    for (what, figure, limit) in [
        ("a message of a long turn to a callback, instructions", host("items")?, bare * 3 / 2),
        ("a delta to a callback, instructions", host("callback")?, 7500),
        ("a delta to a journal, instructions", host("journal")?, 12_000),
        ("a delta through the command with a journal, instructions", through, 12_000),
    ] {
        let verdict = if figure <= limit { "holds" } else { "DOES NOT HOLD" };
        table.push_str(&format!("{what:<62} {figure:>7} {limit:>8}    {verdict}\n"));
    }
    std::fs::remove_dir_all(&home).context("the journals of the count")?;
    std::io::stdout().lock().write_all(table.as_bytes())?;
    Ok(())
}

fn decode(mb: usize) -> Result<()> {
    let program = build("decode")?;
    Call::new(&*program).arg("time").arg(mb.to_string()).run()?;
    if !has_counter() {
        return Ok(());
    }
    count_instructions(&program)?;
    count_growth(&program)
}

/// Returns whether instructions can be counted.
fn has_counter() -> bool {
    let there = Call::new("valgrind").arg("--version").works();
    if !there {
        report::line("skipped: instructions: valgrind is not installed");
    }
    there
}

/// How many messages a long turn has, and ten times as many.
const MESSAGES: [u64; 2] = [300, 3000];

/// How much more a line may cost when the turn has ten times the messages.
const GROWTH: f64 = 1.2;

/// Compares what a line costs in a long turn with what it costs in one that is ten times as long.
fn count_growth(program: &Path) -> Result<()> {
    let mut table = format!(
        "\na turn of {} messages, and of {}; instructions for each line, x is the growth (bar {GROWTH})\n\n",
        MESSAGES[0], MESSAGES[1]
    );
    let mut made: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for pair in Call::new(program).arg("growth").output()?.lines() {
        let [dialect, view, lines] = words(pair)?;
        let lines: u64 = lines.parse()?;
        let mut each = [0.0; 2];
        for (each, messages) in each.iter_mut().zip(MESSAGES) {
            let count = messages.to_string();
            let key = (dialect.to_owned(), messages);
            if !made.contains_key(&key) {
                made.insert(key.clone(), instructions(program, &["make-long", dialect, &count])?);
            }
            let all = instructions(program, &["long", dialect, view, &count])?;
            *each = all.saturating_sub(made[&key]) as f64 / (messages * lines) as f64;
        }
        let growth = each[1] / each[0];
        let verdict = if growth <= GROWTH { "holds" } else { "does not hold" };
        table.push_str(&format!(
            "{dialect:<18} {view:<16} {:>8.0} {:>8.0} {growth:>6.2} {verdict}\n",
            each[0], each[1]
        ));
    }
    std::io::stdout().lock().write_all(table.as_bytes())?;
    Ok(())
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

/// Returns whether a bar holds.
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
    collected(&args.iter().fold(call, |call, arg| call.arg(arg)))
}

/// Runs a program under the counter and returns the count.
fn collected(call: &Call) -> Result<u64> {
    let said = call.quiet_output()?;
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
