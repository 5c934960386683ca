//! Measures decoding. Run by `cargo xtask bench decode`; see there for why.
//!
//! - `time MB`: CPU time over streams of that length, and whether the cost of one long line is linear.
//! - `list`: the pairs of stream and way that can be counted.
//! - `count STREAM WAY LINES`: reads so many lines once, for an instruction counter to watch.

mod streams;
mod ways;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};

use streams::Stream;
use ways::Way;

/// Each measurement is repeated, and the best counts: the others were disturbed.
const REPEATS: usize = 3;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["time", mb] => time(mb.parse()?),
        ["list"] => list(),
        ["count", stream, way, lines] => {
            let stream = Stream::ALL.iter().find(|known| known.name == stream).context("no such stream")?;
            let way = Way::ALL.iter().find(|known| known.name() == way).context("no such way")?;
            way.read(stream, &stream.lines(lines.parse()?));
            Ok(())
        }
        _ => bail!("run this by `cargo xtask bench decode`"),
    }
}

fn list() -> Result<()> {
    for (stream, way) in Stream::ALL.iter().flat_map(|stream| Way::ALL.iter().map(move |way| (stream, way))) {
        writeln!(std::io::stdout(), "{} {}", stream.name, way.name())?;
    }
    Ok(())
}

fn time(mb: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "CPU time over {mb} MB each, best of {REPEATS}; x is the cost beside `typed`\n")?;
    writeln!(out, "{:<18} {:<12} {:>8} {:>6}", "stream", "way", "MB/s", "x")?;
    for stream in Stream::ALL {
        let bytes = stream.bytes(mb * 1_000_000);
        let mut best = [Duration::MAX; Way::ALL.len()];
        // Interleaved, so that a slow minute of the machine falls on all ways alike.
        for _ in 0..REPEATS {
            for (best, way) in best.iter_mut().zip(Way::ALL) {
                *best = cpu_time(|| way.read(stream, &bytes)).min(*best);
            }
        }
        let typed = Way::ALL
            .iter()
            .zip(best)
            .find(|(way, _)| **way == Way::Typed)
            .map_or(0.0, |(_, time)| time.as_secs_f64());
        for (way, time) in Way::ALL.iter().zip(best) {
            let (speed, cost) = (bytes.len() as f64 / 1e6 / time.as_secs_f64(), time.as_secs_f64() / typed);
            writeln!(out, "{:<18} {:<12} {speed:>8.0} {cost:>6.2}", stream.name, way.name())?;
        }
    }
    writeln!(
        out,
        "\none long line, decoded; x is the cost of a byte of the longest beside one of the shortest\n"
    )?;
    writeln!(out, "{:<31} {:>6} {:>6} {:>6} {:>6}", "MB/s for a line of", "5 MB", "16 MB", "50 MB", "x")?;
    for (what, stream, make) in streams::LONG_LINES {
        let stream = Stream::ALL.iter().find(|known| known.name == *stream).context("no such stream")?;
        // Three lengths, because a step (a cache that is too small) is not a slope (a cost that grows with the line).
        let [short, middle, long] = [5, 16, 50].map(|mb| {
            let bytes = make(mb * 1_000_000);
            let times = (0..REPEATS).map(|_| cpu_time(|| Way::Decode.read(stream, &bytes)));
            bytes.len() as f64 / 1e6 / times.min().unwrap_or_default().as_secs_f64()
        });
        writeln!(out, "{what:<31} {short:>6.0} {middle:>6.0} {long:>6.0} {:>6.2}", short / long)?;
    }
    Ok(())
}

/// Measures the CPU time of this process, because the machine has other work.
fn cpu_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let start = now();
    work();
    now().saturating_sub(start)
}
