//! Measures decoding. Run by `cargo xtask bench decode`; see there for why.
//!
//! - `time MB`: CPU time over streams of that length, and whether the cost of one long line is linear.
//! - `list`: the pairs of stream and way that can be counted, and how many lines to count.
//! - `bars`: what must hold: the stream, the measure, the limit, and what it is about.
//! - `kinds STREAM`: how many events of each kind come of it, to see that what is measured is what one thinks.
//! - `make STREAM LINES`: makes so many lines and reads none, for the counter to know what is not reading.
//! - `count STREAM WAY LINES`: reads so many lines once, for an instruction counter to watch.
//! - `growth`: the pairs of dialect and view whose cost must not grow with the messages of a turn.
//! - `make-long DIALECT MESSAGES`, `long DIALECT VIEW MESSAGES`: the same for a long turn of a dialect.

mod bare;
mod growth;
mod streams;
mod ways;

use std::hint::black_box;
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
    let streams = Stream::all()?;
    match args[..] {
        ["time", mb] => time(&streams, mb.parse()?),
        ["list"] => list(&streams),
        ["bars"] => bars(&streams),
        ["kinds", stream] => kinds(find(&streams, stream)?),
        ["make", stream, lines] => {
            black_box(find(&streams, stream)?.lines(lines.parse()?));
            Ok(())
        }
        ["count", stream, way, lines] => {
            let stream = find(&streams, stream)?;
            let way = Way::ALL.iter().find(|known| known.name() == way).context("no such way")?;
            way.read(stream, &stream.lines(lines.parse()?));
            Ok(())
        }
        ["growth"] => growth::list(),
        ["make-long", dialect, messages] => growth::make(dialect, messages.parse()?),
        ["long", dialect, view, messages] => growth::read(dialect, view, messages.parse()?),
        _ => bail!("run this by `cargo xtask bench decode`"),
    }
}

fn find<'a>(streams: &'a [Stream], name: &str) -> Result<&'a Stream> {
    streams.iter().find(|known| known.name == name).context("no such stream")
}

fn list(streams: &[Stream]) -> Result<()> {
    for (stream, way) in streams.iter().flat_map(|stream| Way::ALL.iter().map(move |way| (stream, way))) {
        writeln!(std::io::stdout(), "{} {} {}", stream.name, way.name(), stream.counted_lines())?;
    }
    Ok(())
}

fn bars(streams: &[Stream]) -> Result<()> {
    for (stream, bar) in streams.iter().filter_map(|stream| Some((stream, stream.bar.as_ref()?))) {
        if let Some(limit) = bar.instructions {
            writeln!(std::io::stdout(), "{} instructions {limit} {}", stream.name, bar.about)?;
        }
        if let Some(limit) = bar.ratio {
            writeln!(std::io::stdout(), "{} ratio {limit} {}", stream.name, bar.about)?;
        }
    }
    Ok(())
}

fn kinds(stream: &Stream) -> Result<()> {
    for (kind, count) in ways::kinds(stream, &stream.lines(stream.counted_lines())) {
        writeln!(std::io::stdout(), "{count:>8} {kind}")?;
    }
    Ok(())
}

fn time(streams: &[Stream], mb: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "CPU time over {mb} MB each, best of {REPEATS}; x is the cost beside `typed`\n")?;
    writeln!(out, "{:<18} {:<12} {:>8} {:>6}", "stream", "way", "MB/s", "x")?;
    let mut held = Vec::new();
    for stream in streams {
        let bytes = stream.bytes(mb * 1_000_000);
        let mut best = [Duration::MAX; Way::ALL.len()];
        // Interleaved, so that a slow minute of the machine falls on all ways alike.
        for _ in 0..REPEATS {
            for (best, way) in best.iter_mut().zip(Way::ALL) {
                *best = cpu_time(|| way.read(stream, &bytes)).min(*best);
            }
        }
        let of = |wanted: Way| {
            let found = Way::ALL.iter().zip(best).find(|(way, _)| **way == wanted);
            found.map_or(0.0, |(_, time)| time.as_secs_f64())
        };
        for (way, time) in Way::ALL.iter().zip(best) {
            let time = time.as_secs_f64();
            let (speed, cost) = (bytes.len() as f64 / 1e6 / time, time / of(Way::Typed));
            writeln!(out, "{:<18} {:<12} {speed:>8.0} {cost:>6.2}", stream.name, way.name())?;
        }
        if let Some((bar, limit)) = stream.bar.as_ref().and_then(|bar| Some((bar, bar.ratio?))) {
            let cost = of(Way::Decode) / of(Way::Typed);
            let verdict = if cost <= limit { "holds" } else { "does not hold" };
            held.push(format!(
                "{}: {cost:.2} of bare typed serde in CPU time (bar {limit}): {verdict}",
                bar.about
            ));
        }
    }
    writeln!(
        out,
        "\none long line, decoded; x is the cost of a byte of the longest beside one of the shortest\n"
    )?;
    writeln!(out, "{:<31} {:>6} {:>6} {:>6} {:>6}", "MB/s for a line of", "5 MB", "16 MB", "50 MB", "x")?;
    for (what, stream, make) in streams::LONG_LINES {
        let stream = find(streams, stream)?;
        // Three lengths, because a step (a cache that is too small) is not a slope (a cost that grows with the line).
        let [short, middle, long] = [5, 16, 50].map(|mb| {
            let bytes = make(mb * 1_000_000);
            let times = (0..REPEATS).map(|_| cpu_time(|| Way::Decode.read(stream, &bytes)));
            bytes.len() as f64 / 1e6 / times.min().unwrap_or_default().as_secs_f64()
        });
        writeln!(out, "{what:<31} {short:>6.0} {middle:>6.0} {long:>6.0} {:>6.2}", short / long)?;
    }
    writeln!(out)?;
    for line in held {
        writeln!(out, "{line}")?;
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
