//! Many of something: sessions at once, messages in a turn, sessions on file, calls of the command.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline::journal::Home;
use bowline::{Kind, PermissionMode};

use crate::host::{self, REPEATS, apart, children_cpu, spent};
use crate::{Bar, bare, clock};

/// Runs so many slow sessions in this process. Prints CPU time, peak memory, memory for each session, and how late the
/// events came.
pub(crate) fn sessions(
    runtime: &tokio::runtime::Runtime,
    part: &str,
    size: usize,
    home: &Home,
) -> Result<()> {
    let late = Arc::new(Mutex::new(Vec::new()));
    let (before, anonymous) = (clock::cpu(), clock::anonymous_kilobytes());
    let (done, each) = runtime.block_on(async {
        let mut set = tokio::task::JoinSet::new();
        for _ in 0..size {
            let late = late.clone();
            let task = host::task("paced 400 50000")?.on_event(move |event| {
                if let Kind::TextDelta(delta) = &event.kind
                    && let Ok(at) = delta.text.parse::<u64>()
                {
                    let millis = clock::nanos().saturating_sub(at) as f64 / 1e6;
                    late.lock().expect("nobody panics with it").push(millis);
                }
            });
            let task = if part == "sessions" { task.home(home.clone()) } else { task.without_journal() };
            set.spawn(task.run());
        }
        // All of them run, and none is near its end.
        tokio::time::sleep(Duration::from_secs(12)).await;
        let each = (clock::anonymous_kilobytes() - anonymous) / size as f64;
        let mut done = 0;
        while let Some(record) = set.join_next().await {
            done += usize::from(record??.is_completed());
        }
        anyhow::Ok((done, each))
    })?;
    ensure!(done == size, "{done} of {size} completed");
    host::tell((clock::cpu() - before).as_secs_f64())?;
    host::tell(clock::peak_megabytes())?;
    host::tell(each)?;
    let mut late = std::mem::take(&mut *late.lock().expect("nobody panics with it"));
    ensure!(late.len() == size * 400, "events are missing: {}", late.len());
    host::tell(clock::percentile(&mut late, 99))
}

/// Many slow sessions in one process, beside bare readers of as many, with a journal and without.
pub(crate) fn many_sessions() -> Result<Vec<Bar>> {
    let journal = apart(&["host", "sessions", "200"])?;
    let callback = apart(&["host", "watched", "200"])?;
    let plain = apart(&["bare", "200"])?[0];
    let keeping = apart(&["keeping", "200"])?[0];
    let [cpu, peak, each, late] = journal[..] else { anyhow::bail!("four figures: {journal:?}") };
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
            what: "the same with journals, memory of a session that is no file's",
            value: each,
            unit: " kB",
            limit: 40.0,
            beside: format!("{:.1} kB without", without(2)),
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
            beside: format!("{:.1} ms without", without(3)),
        },
    ])
}

/// Many messages in one turn, to a callback, beside a bare reader.
pub(crate) fn items(items: usize) -> Result<Vec<Bar>> {
    let runtime = host::runtime()?;
    let (mut bare, mut ours) = (f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        bare = bare.min(bare::cost_of_items(items)?);
        ours = ours.min(spent(|| {
            let task = host::task(&format!("items {items}"))?.provider("codex");
            let task = task.permission(PermissionMode::Edit).without_journal().on_event(|_| {});
            let record = runtime.block_on(task.run())?;
            ensure!(record.is_completed(), "it failed: {record:?}");
            Ok(())
        })?);
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
        wait_for_keepers();
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

/// Keepers outlive their command by a moment and are ours then.
fn wait_for_keepers() {
    while rustix::process::wait(rustix::process::WaitOptions::empty()).is_ok_and(|waited| waited.is_some()) {}
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
