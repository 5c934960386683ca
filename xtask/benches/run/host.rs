//! The host's part: the same agents through the library.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline::journal::Home;
use bowline::{Kind, Task};

use crate::{Bar, bare, clock, many};

/// How often short things are repeated; the best, or the middle, counts.
pub(crate) const REPEATS: usize = 5;

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// A task for an agent of ours.
pub(crate) fn task(part: &str) -> Result<Task> {
    let task = bowline::task("go").provider("claude").binary(crate::agent()?).env(crate::PART, part);
    Ok(task.cwd(std::env::temp_dir()).without_files().timeout_ms(None).idle_timeout_ms(None))
}

pub(crate) fn home() -> Result<(std::path::PathBuf, Home)> {
    let dir = std::path::Path::new(crate::SCRATCH).join(format!("bowline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok((dir.clone(), Home::at(dir)))
}

/// Prints a figure for the process that started this one.
pub(crate) fn tell(value: f64) -> Result<()> {
    writeln!(std::io::stdout(), "{value}")?;
    Ok(())
}

/// Runs a part in a process of its own and returns the figures that it prints.
#[expect(clippy::disallowed_methods, reason = "the benchmark starts itself")]
pub(crate) fn apart(args: &[&str]) -> Result<Vec<f64>> {
    let output = Command::new(std::env::current_exe()?).args(args).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{args:?} failed");
    let text = String::from_utf8(output.stdout)?;
    text.split_whitespace().map(|word| Ok(word.parse()?)).collect()
}

/// The whole command for one short answer: CPU beyond that of the agent alone.
#[expect(clippy::disallowed_methods, reason = "the command is started as a person does")]
pub(crate) fn hello(bowline: &str) -> Result<Vec<Bar>> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (dir, _) = home()?;
    let program = crate::agent()?;
    let (mut alone, mut reader, mut command) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        for (part, least) in [("hello", &mut alone), ("reader", &mut reader)] {
            let before = children_cpu()?;
            for _ in 0..HELLOS {
                ensure!(bare::spawn(part)?.wait_with_output()?.status.success(), "{part} failed");
            }
            *least = least.min(children_cpu()? - before);
        }
        let before = children_cpu()?;
        for _ in 0..HELLOS {
            let status = Command::new(bowline)
                .args(["run", "--provider", "claude", "--env", &format!("{}=hello", crate::PART), "--binary"])
                .arg(&program)
                .arg("Say hello")
                .env("BOWLINE_HOME", &dir)
                .current_dir(std::env::temp_dir())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()?;
            ensure!(status.success(), "the command failed: {status}");
            many::wait_for_keepers()?;
        }
        command = command.min(children_cpu()? - before);
    }
    std::fs::remove_dir_all(&dir)?;
    let each = |total: f64| total / f64::from(HELLOS) * 1e3;
    let beside = format!(
        "command {:.1} ms, bare host {:.1} ms, agent alone {:.1} ms",
        each(command),
        each(reader),
        each(alone)
    );
    Ok(vec![
        Bar {
            what: "hello world: CPU of command and keeper beyond the agent",
            value: each(command - alone),
            unit: " ms",
            limit: 8.0,
            beside: beside.clone(),
        },
        Bar {
            what: "hello world: CPU of all of it, beside a bare host program",
            value: command / reader,
            unit: " x",
            limit: 3.0,
            beside,
        },
    ])
}

/// How often hello is said together: the system counts the CPU time of children in hundredths of a second.
const HELLOS: u32 = 50;

/// Returns the CPU time of all descendants that ended and were waited for.
pub(crate) fn children_cpu() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().context("no name")?.split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(ticks as f64 / 100.0)
}

/// From the call to the first line of the agent's `main`, with a journal.
pub(crate) fn latency_of_a_start() -> Result<Vec<Bar>> {
    let runtime = runtime()?;
    let (dir, home) = home()?;
    let mut ours = Vec::new();
    let mut plain = Vec::new();
    for _ in 0..10 * REPEATS {
        let before = clock::nanos();
        let child = bare::spawn("hello")?;
        let output = child.wait_with_output()?;
        plain.push((started(&String::from_utf8_lossy(&output.stdout))? - before) as f64 / 1e6);
        let before = clock::nanos();
        let record = runtime.block_on(async {
            let mut turn = task("hello")?.home(home.clone()).start().await?;
            let mut at = 0;
            while let Some(event) = turn.next().await {
                if let Kind::SessionStarted(session) = &event.kind
                    && session.native_session.is_some()
                {
                    at = session.cwd.as_deref().unwrap_or_default().parse().unwrap_or(0);
                }
            }
            turn.outcome().await?;
            anyhow::Ok(at)
        })?;
        ensure!(record > before, "the agent did not say when it began");
        ours.push((record - before) as f64 / 1e6);
    }
    std::fs::remove_dir_all(dir)?;
    let (value, plain) = (clock::percentile(&mut ours, 50), clock::percentile(&mut plain, 50));
    // 1.5 ms where a plain spawn takes 0.6: machines differ by more than that.
    let beside = format!("{value:.2} ms, a plain spawn {plain:.2} ms");
    let what = "library call to the agent's main, beside a plain spawn, medians";
    Ok(vec![Bar { what, value: value / plain, unit: " x", limit: 2.5, beside }])
}

fn started(line: &str) -> Result<u64> {
    let at = line.split("\"cwd\":\"").nth(1).and_then(|rest| rest.split('"').next()).context("no time")?;
    Ok(at.parse()?)
}

/// CPU for many deltas, with and without a journal, beside the bare reader.
pub(crate) fn throughput(deltas: usize) -> Result<Vec<Bar>> {
    let runtime = runtime()?;
    let (dir, home) = home()?;
    let part = format!("deltas {deltas}");
    let (mut bare, mut journal, mut callback) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        bare = bare.min(bare::cost(deltas)?);
        callback = callback.min(spent(|| {
            let count = Arc::new(AtomicUsize::new(0));
            let counter = count.clone();
            let task = task(&part)?.without_journal().on_event(move |event| {
                if matches!(event.kind, Kind::TextDelta(_)) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
            runtime.block_on(task.run())?;
            ensure!(count.load(Ordering::Relaxed) == deltas, "deltas are missing");
            Ok(())
        })?);
        journal = journal.min(spent(|| {
            let record = runtime.block_on(task(&part)?.home(home.clone()).run())?;
            ensure!(record.is_completed(), "it failed: {record:?}");
            Ok(())
        })?);
        std::fs::remove_dir_all(dir.join("sessions"))?;
    }
    let beside = |cost: f64| {
        format!("{:.2} us a delta; bare {:.2}", cost / deltas as f64 * 1e6, bare / deltas as f64 * 1e6)
    };
    Ok(vec![
        Bar {
            what: "deltas to a journal, CPU beside a bare typed reader",
            value: journal / bare,
            unit: " x",
            limit: 2.5,
            beside: beside(journal),
        },
        Bar {
            what: "deltas to a callback without journal, CPU beside the same",
            value: callback / bare,
            unit: " x",
            limit: 1.2,
            beside: beside(callback),
        },
    ])
}

pub(crate) fn spent(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = clock::cpu();
    work()?;
    Ok((clock::cpu() - before).as_secs_f64())
}

/// Peak memory of a long stream, of one ten times shorter, and with a reader that is slow.
pub(crate) fn memory() -> Result<Vec<Bar>> {
    let long = apart(&["host", "stream", "500000000"])?[0];
    let short = apart(&["host", "stream", "50000000"])?[0];
    let slow = apart(&["host", "slow", "60000"])?[0];
    let quick = apart(&["host", "quick", "60000"])?[0];
    Ok(vec![
        Bar {
            what: "peak memory of a 500 MB stream",
            value: long,
            unit: " MB",
            limit: 15.0,
            beside: format!("50 MB stream: {short:.1} MB"),
        },
        Bar {
            what: "peak memory with a reader of 5 ms an event, beside a quick one",
            value: slow - quick,
            unit: " MB",
            limit: 2.0,
            beside: format!("{slow:.1} MB and {quick:.1} MB"),
        },
    ])
}

/// A part that is measured as a whole process.
pub(crate) fn part(part: &str, size: usize) -> Result<()> {
    let runtime = runtime()?;
    let (dir, home) = home()?;
    match part {
        "stream" => {
            let record = runtime.block_on(task(&format!("bytes {size}"))?.home(home).run())?;
            ensure!(record.is_completed(), "it failed: {record:?}");
            tell(clock::peak_megabytes())?;
        }
        "slow" | "quick" => {
            let pause = if part == "slow" { Duration::from_millis(5) } else { Duration::ZERO };
            let part = format!("deltas {size}");
            let read = runtime.block_on(async {
                let mut turn = task(&part)?.home(home).start().await?;
                let mut read = 0;
                while let Some(event) = turn.next().await {
                    read += usize::from(matches!(event.kind, Kind::TextDelta(_)));
                    // Slow for two seconds: by then the agent has long said everything.
                    if !pause.is_zero() && read < 400 {
                        tokio::time::sleep(pause).await;
                    }
                }
                turn.outcome().await?;
                anyhow::Ok(read)
            })?;
            ensure!(read == size, "{read} of {size} deltas were read");
            tell(clock::peak_megabytes())?;
        }
        "callback" | "journal" => {
            let task = task(&format!("deltas {size}"))?;
            let task = if part == "journal" { task.home(home) } else { task.without_journal() };
            let record = runtime.block_on(task.on_event(|_| {}).run())?;
            ensure!(record.is_completed(), "it failed: {record:?}");
        }
        "items" => many::read_items(&runtime, size)?,
        "sessions" | "watched" => many::sessions(&runtime, part, size, &home)?,
        _ => anyhow::bail!("no such part: {part}"),
    }
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

/// From the agent's write to the reader, beside the bare reader.
pub(crate) fn added_latency() -> Result<Vec<Bar>> {
    const PACED: &str = "paced 1000 2000";
    let since = |text: &str| text.parse::<u64>().ok().map(|at| (clock::nanos() - at) as f64 / 1e6);
    let mut plain = Vec::new();
    let mut child = bare::spawn(PACED)?;
    bare::read(child.stdout.take().context("no pipe")?, |text| plain.extend(since(&text)))?;
    child.wait()?;
    let (dir, home) = home()?;
    let ours = Arc::new(Mutex::new(Vec::new()));
    let seen = ours.clone();
    runtime()?.block_on(async {
        let mut turn = task(PACED)?.home(home).start().await?;
        while let Some(event) = turn.next().await {
            if let Kind::TextDelta(delta) = &event.kind {
                seen.lock().expect("no thread panics while it holds the lock").extend(since(&delta.text));
            }
        }
        turn.outcome().await?;
        anyhow::Ok(())
    })?;
    std::fs::remove_dir_all(dir)?;
    let mut ours = std::mem::take(&mut *ours.lock().expect("no thread panics while it holds the lock"));
    ensure!(ours.len() == 1000 && plain.len() == 1000, "deltas are missing");
    let mut bar = |what, percent, limit| {
        let (ours, plain) = (clock::percentile(&mut ours, percent), clock::percentile(&mut plain, percent));
        let beside = format!("{ours:.3} ms; bare {plain:.3} ms");
        Bar { what, value: ours - plain, unit: " ms", limit, beside }
    };
    Ok(vec![
        bar("added latency with a journal, p50", 50, 0.1),
        bar("added latency with a journal, p99", 99, 0.3),
    ])
}
