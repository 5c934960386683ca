//! Many of something: sessions at once, messages in a turn, sessions on file, calls of the command.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline::journal::Home;
use bowline::{Kind, PermissionMode};
use rustix::process::{Pid, WaitOptions};

use crate::host::{self, REPEATS, apart, children_cpu, spent};
use crate::{Bar, bare, clock};

/// Runs so many slow sessions in this process. Prints CPU time, peak memory, for each session its heap and its memory that is
/// no file's, and how late the events came.
pub(crate) fn sessions(
    runtime: &tokio::runtime::Runtime,
    part: &str,
    size: usize,
    home: &Home,
) -> Result<()> {
    // With all its room from the start: what the benchmark keeps is no cost of a session.
    let late = Arc::new(Mutex::new(Vec::with_capacity(size * 400)));
    let (before, anonymous) = (clock::cpu(), clock::anonymous_kilobytes());
    let heap = || clock::heap_kilobytes().unwrap_or(f64::NAN);
    let heap_before = heap();
    let (done, each) = runtime.block_on(async {
        let mut set = tokio::task::JoinSet::new();
        for _ in 0..size {
            let late = late.clone();
            let task = host::task("paced 400 50000")?.on_event(move |event| {
                if let Kind::TextDelta(delta) = &event.kind
                    && let Ok(at) = delta.text.parse::<u64>()
                {
                    let millis = clock::nanos().saturating_sub(at) as f64 / 1e6;
                    late.lock().expect("no thread panics while it holds the lock").push(millis);
                }
            });
            let task = if part == "sessions" { task.home(home.clone()) } else { task.without_journal() };
            set.spawn(task.run());
        }
        // All of them run, and none is near its end.
        tokio::time::sleep(Duration::from_secs(12)).await;
        let each = [heap() - heap_before, clock::anonymous_kilobytes() - anonymous];
        let mut done = 0;
        while let Some(record) = set.join_next().await {
            done += usize::from(record??.is_completed());
        }
        anyhow::Ok((done, each))
    })?;
    ensure!(done == size, "{done} of {size} completed");
    host::tell((clock::cpu() - before).as_secs_f64())?;
    host::tell(clock::peak_megabytes())?;
    each.into_iter().try_for_each(|kilobytes| host::tell(kilobytes / size as f64))?;
    let mut late = std::mem::take(&mut *late.lock().expect("no thread panics while it holds the lock"));
    ensure!(late.len() == size * 400, "events are missing: {}", late.len());
    host::tell(clock::percentile(&mut late, 99))
}

/// Many slow sessions in one process, beside bare readers of as many, with a journal and without.
pub(crate) fn many_sessions() -> Result<Vec<Bar>> {
    let journal = apart(&["host", "sessions", "200"])?;
    let callback = apart(&["host", "watched", "200"])?;
    let plain = apart(&["bare", "200"])?[0];
    let keeping = apart(&["keeping", "200"])?[0];
    let [cpu, peak, heap, anonymous, late] = journal[..] else { anyhow::bail!("five figures: {journal:?}") };
    let beside = |cost: f64| format!("{cost:.2} s; bare {plain:.2} s, each for 80,000 events");
    let kept = format!("{}; {:.2} x a bare reader that keeps two files", beside(cpu), cpu / keeping);
    let without = |place: usize| callback.get(place).copied().unwrap_or(f64::NAN);
    Ok(vec![
        Bar {
            what: "200 sessions at 20 events/s in one process, CPU",
            value: without(0) / plain,
            unit: " x",
            limit: 2.0,
            beside: beside(without(0)),
        },
        Bar { what: "the same with journals, CPU", value: cpu / plain, unit: " x", limit: 3.0, beside: kept },
        Bar {
            what: "the same with journals, heap of a session",
            value: heap,
            unit: " kB",
            limit: 40.0,
            beside: format!("{:.1} kB without; {anonymous:.1} kB of resident memory", without(2)),
        },
        Bar {
            what: "the same with journals, peak memory",
            value: peak,
            unit: " MB",
            limit: 22.0,
            beside: format!("{:.1} MB without", without(1)),
        },
        Bar {
            what: "the same with journals, how late an event comes, p99",
            value: late,
            unit: " ms",
            limit: 10.0,
            beside: format!("{:.1} ms without", without(4)),
        },
    ])
}

/// Many messages in one turn, to a callback, beside a bare reader.
pub(crate) fn items(items: usize) -> Result<Vec<Bar>> {
    let runtime = host::runtime()?;
    let (mut bare, mut ours) = (f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        bare = bare.min(bare::cost_of_items(items)?);
        ours = ours.min(spent(|| read_items(&runtime, items))?);
    }
    let each = |cost: f64| cost / items as f64 * 1e6;
    Ok(vec![Bar {
        what: "messages of one turn to a callback, CPU beside a typed reader",
        value: ours / bare,
        unit: " x",
        limit: 1.5,
        beside: format!("{:.2} us an item; bare {:.2}", each(ours), each(bare)),
    }])
}

/// Reads a turn of so many messages by a callback.
pub(crate) fn read_items(runtime: &tokio::runtime::Runtime, items: usize) -> Result<()> {
    let task = host::task(&format!("items {items}"))?.provider("codex");
    let task = task.permission(PermissionMode::Edit).without_journal().on_event(|_| {});
    let record = runtime.block_on(task.run())?;
    ensure!(record.is_completed(), "it failed: {record:?}");
    Ok(())
}

/// Many deltas through the command with a journal, beside a bare reader. The agent's own time is taken off.
#[expect(clippy::disallowed_methods, reason = "the command is started as a person does")]
pub(crate) fn through_the_command(bowline: &str, deltas: usize) -> Result<Vec<Bar>> {
    let (dir, _) = host::home()?;
    let (mut bare, mut alone, mut command) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        let before = children_cpu()?;
        bare = bare.min(bare::cost(deltas)?);
        alone = alone.min(children_cpu()? - before);
        let before = children_cpu()?;
        let mut child = Command::new(bowline)
            .args(["run", "--output", "jsonl", "--provider", "claude", "--timeout", "10m", "--binary"])
            .arg(crate::agent()?)
            .args(["--env", &format!("{}=deltas {deltas}", crate::PART), "Go"])
            .env("BOWLINE_HOME", &dir)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = child.stdout.take().context("no pipe")?;
        let printed = std::io::copy(&mut out, &mut std::io::sink())?;
        ensure!(child.wait()?.success() && printed > deltas as u64 * 100, "the command failed");
        wait_for_keepers()?;
        command = command.min(children_cpu()? - before);
        std::fs::remove_dir_all(dir.join("sessions"))?;
    }
    std::fs::remove_dir_all(&dir)?;
    let cost = command - alone;
    let each = |cost: f64| cost / deltas as f64 * 1e6;
    Ok(vec![Bar {
        what: "deltas through the command as jsonl, CPU beside the same",
        value: cost / bare,
        unit: " x",
        limit: 3.0,
        beside: format!("{:.2} us a delta; bare {:.2}", each(cost), each(bare)),
    }])
}

/// Waits for the keepers of commands: they outlive their command by a moment, and this process inherits them.
///
/// This process has a keeper of its own, which lives as long as it does, so a wait for any child would not end.
pub(crate) fn wait_for_keepers() -> Result<()> {
    let own = OWN_KEEPER.get().copied().flatten();
    for child in children()? {
        if Some(child) != own {
            rustix::process::waitpid(Some(child), WaitOptions::empty())?;
        }
    }
    Ok(())
}

/// The keeper of this process.
static OWN_KEEPER: OnceLock<Option<Pid>> = OnceLock::new();

/// Notes the keeper of this process. Called before anything else is started.
pub(crate) fn note_own_keeper() -> Result<()> {
    let children = children()?;
    ensure!(children.len() <= 1, "only the keeper may run yet: {children:?}");
    OWN_KEEPER.get_or_init(|| children.first().copied());
    Ok(())
}

fn children() -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let listed = std::fs::read_to_string(thread?.path().join("children"))?;
        found.extend(listed.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    Ok(found)
}

/// How many sessions are on file.
const ON_FILE: usize = 10_000;

/// How often a short command is called together: the system counts the CPU time of children in hundredths of a second.
const CALLS: u32 = 10;

/// The commands about sessions with many on file, and the shortest of all, as CPU time of a call.
#[expect(clippy::disallowed_methods, reason = "the command is started as a person does")]
pub(crate) fn commands(bowline: &str) -> Result<Vec<Bar>> {
    let (dir, home) = host::home()?;
    for number in 0..ON_FILE {
        let at = bowline::Timestamp::from_seconds(1_700_000_000 + i64::try_from(number)?);
        let id = bowline::journal::new_session_id(at, [0, 0, 0, 0, u8::try_from(number % 256)?]);
        let place = home.session_dir(&id)?;
        std::fs::create_dir_all(&place)?;
        let mut meta = bowline::journal::SessionMeta::new(id, "claude", at);
        meta.state = bowline::kinds::SessionState::Completed;
        std::fs::write(place.join("session.json"), serde_json::to_vec_pretty(&meta)?)?;
        std::fs::write(place.join("events.jsonl"), "")?;
    }
    std::fs::create_dir_all(dir.join("open"))?;
    let call = |args: &[&str]| -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..REPEATS {
            let before = children_cpu()?;
            for _ in 0..CALLS {
                let mut command = Command::new(bowline);
                command.args(args).env("BOWLINE_HOME", &dir).stdin(Stdio::null());
                command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            }
            best = best.min((children_cpu()? - before) / f64::from(CALLS) * 1e3);
        }
        Ok(best)
    };
    let bar = |what, args: &[&str], limit| -> Result<Bar> {
        let beside = format!("{ON_FILE} sessions on file");
        Ok(Bar { what, value: call(args)?, unit: " ms", limit, beside })
    };
    let size = std::fs::metadata(bowline)?.len() as f64 / 1e6;
    let shipped = "the command's file as it is shipped";
    let bars = vec![
        bar("`bowline sessions`, CPU", &["sessions"], 50.0)?,
        bar("`bowline sessions --all`, CPU", &["sessions", "--all"], 50.0)?,
        bar("`bowline stop` of an unknown session, CPU", &["stop", "s-unknown"], 50.0)?,
        bar("`bowline --version`, CPU", &["--version"], 3.0)?,
        Bar { what: shipped, value: size, unit: " MB", limit: 20.0, beside: String::new() },
    ];
    std::fs::remove_dir_all(&dir)?;
    Ok(bars)
}
