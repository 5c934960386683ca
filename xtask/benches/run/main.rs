//! Measures runs. Run by `cargo xtask bench run`; see there for why.
//!
//! This program plays the host, the host's keeper (started by the library), and the bare reader beside which everything is
//! measured; `xtask/benches/agent` plays the agent, at the path that [`AGENT`] names. Ratios come from one run, so that a slow machine makes both sides slow.

mod bare;
mod clock;
mod host;
mod live;
mod many;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// The variable with the path of the agent.
pub(crate) const AGENT: &str = "BENCH_AGENT_PROGRAM";

/// Where data homes are: in the build's own folder. The system's folder for temporary files may be in memory, or lie in a
/// part of the disk whose inodes are used up, where making a file takes 130 us instead of 5. Agents
/// run outside of it: it is in a repository, and a run there calls git.
pub(crate) const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// The variable that tells the agent what to play.
pub(crate) const PART: &str = "BENCH_AGENT";

/// Returns the path of the agent.
pub(crate) fn agent() -> Result<String> {
    std::env::vars().find(|(name, _)| name == AGENT).map(|(_, path)| path).context("no agent is named")
}

/// A figure, and what it has to be below.
pub(crate) struct Bar {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) limit: f64,
    pub(crate) beside: String,
}

fn main() -> ExitCode {
    // Here the keeper of the host goes its own way.
    bowline::init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        // Parts that need a process of their own, because they measure a whole process.
        ["host", part, size] => host::part(part, size.parse()?),
        ["bare-items", size] => bare::cost_of_items(size.parse()?).and_then(host::tell),
        ["bare", size] => bare::alone(size.parse()?),
        ["keeping", size] => bare::keeping(size.parse()?),
        ["all", bowline, deltas] => all(bowline, deltas.parse()?),
        ["live", bowline] => live::all(bowline),
        _ => bail!("run this by `cargo xtask bench run`"),
    }
}

fn all(bowline: &str, deltas: usize) -> Result<()> {
    many::note_own_keeper()?;
    let mut bars = host::hello(bowline).context("hello world")?;
    bars.extend(host::latency_of_a_start().context("the start")?);
    bars.extend(host::throughput(deltas).context("throughput")?);
    bars.extend(many::through_the_command(bowline, deltas).context("the command")?);
    bars.extend(many::items(deltas).context("messages")?);
    bars.extend(host::memory().context("memory")?);
    bars.extend(host::added_latency().context("latency")?);
    bars.extend(many::many_sessions().context("200 sessions")?);
    // Last: for minutes after so many files are deleted, ext4 looks long for a free inode.
    bars.extend(many::commands(bowline).context("short commands")?);
    print(bars)
}

/// Prints figures beside their limits.
pub(crate) fn print(bars: Vec<Bar>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{:<62} {:>9} {:>8}", "what", "figure", "at most")?;
    for Bar { what, value, unit, limit, beside } in bars {
        let verdict = if value <= limit { "holds" } else { "DOES NOT HOLD" };
        writeln!(out, "{what:<62} {value:>7.2}{unit:<3}{limit:>6.1}{unit:<3} {verdict}  {beside}")?;
    }
    Ok(())
}
