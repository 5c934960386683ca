//! Live sessions in runners of their own: an idle one, a decision on its way to the agent, and a hundred that are watched.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bowline::journal::Home;
use bowline::{AttachedSession, EventWatch, Kind, SessionId, SessionOrder, WhenBusy};

use crate::{Bar, clock, host};

/// How many sessions live at once, and how many watchers each has.
const SESSIONS: usize = 100;
const WATCHERS: usize = 2;

/// The pieces of text of each session: 20 a second for 15 seconds.
const PIECES: usize = 300;
const PACED: &str = "paced 300 50000";

/// How many decisions are measured.
const DECISIONS: usize = 200;

/// How long an idle runner is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// How long after a turn the runners are looked at: the agent of the first one is ended, its keeper has swept what it left, and the
/// threads that tokio kept for work with files have ended, which they do after 10 s.
const SETTLED: Duration = Duration::from_secs(15);

/// A runner that `bowline start` started.
#[derive(serde::Deserialize)]
struct Runner {
    session: SessionId,
    pid: u32,
}

/// Measures everything about live sessions.
pub(crate) fn all(bowline: &str) -> Result<()> {
    let (dir, home) = host::home()?;
    let world = World { bowline, dir: &dir, home: &home };
    let measured = measure(&world);
    // Also after an error: runners outlive this program.
    world.stop_all()?;
    let bars = measured?;
    std::fs::remove_dir_all(&dir)?;
    crate::print(bars)
}

fn measure(world: &World<'_>) -> Result<Vec<Bar>> {
    let mut bars = idle(world).context("an idle runner")?;
    bars.extend(decisions(world).context("decisions")?);
    bars.extend(fleet(world).context("many sessions")?);
    Ok(bars)
}

/// Where the runners of the benchmark live.
struct World<'a> {
    bowline: &'a str,
    dir: &'a Path,
    home: &'a Home,
}

impl World<'_> {
    #[expect(clippy::disallowed_methods, reason = "the command is started as a person does")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.bowline);
        command.args(args).env("BOWLINE_HOME", self.dir).current_dir(std::env::temp_dir());
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    fn start(&self, idle: &str) -> Result<Runner> {
        let part = format!("{}=live", crate::PART);
        let agent = crate::agent()?;
        let args = ["start", "-p", "claude", "--json", "--idle", idle, "--env", &part, "--binary", &agent];
        let output = self.command(&args).output()?;
        ensure!(output.status.success(), "a session could not be started");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn stop_all(&self) -> Result<()> {
        let stopped = self.command(&["stop", "--all"]).stdout(Stdio::null()).status()?;
        ensure!(stopped.success(), "the sessions could not be stopped");
        Ok(())
    }

    async fn attach(&self, runner: &Runner) -> Result<AttachedSession> {
        Ok(bowline::attach_in(self.home, runner.session.as_str()).await?)
    }
}

/// Sends a prompt, and waits for the end of its turn.
async fn play(session: &AttachedSession, watch: &mut EventWatch, prompt: &str) -> Result<()> {
    session.send(prompt, WhenBusy::Refuse).await?;
    while let Some(event) = watch.next().await? {
        if matches!(event.kind, Kind::TurnEnded(_)) {
            return Ok(());
        }
    }
    anyhow::bail!("the runner ended")
}

/// Memory and wake-ups of a runner whose agent was ended after a turn, and of one whose agent waits for the next prompt.
fn idle(world: &World<'_>) -> Result<Vec<Bar>> {
    let runtime = host::runtime()?;
    let runners = [world.start("1s")?, world.start("none")?];
    runtime.block_on(async {
        for runner in &runners {
            let session = world.attach(runner).await?;
            let mut watch = session.watch_from(1)?;
            play(&session, &mut watch, "paced 10 1000").await?;
        }
        anyhow::Ok(())
    })?;
    std::thread::sleep(SETTLED);
    let before: Vec<BTreeMap<String, u64>> =
        runners.iter().map(|it| wakeups(it.pid)).collect::<Result<_>>()?;
    std::thread::sleep(IDLE);
    let mut bars = Vec::new();
    let what = [
        ["idle runner without an agent, memory", "the same, wake-ups in 30 s"],
        ["idle runner with an agent, memory", "the same, wake-ups in 30 s"],
    ];
    for ((runner, before), [memory, wakes]) in runners.iter().zip(before).zip(what) {
        let kilobytes = |field: &str| status(runner.pid, field);
        let anonymous = kilobytes("RssAnon:")? / 1024.0;
        let beside = format!("{anonymous:.1} MB of it are no file's");
        let value = kilobytes("VmRSS:")? / 1024.0;
        bars.push(Bar { what: memory, value, unit: " MB", limit: 8.0, beside });
        let value = woken(&before, &wakeups(runner.pid)?) as f64;
        // The timer by which it looks whether its socket is still there, and the one of its agent's deadline.
        bars.push(Bar { what: wakes, value, unit: "", limit: 2.0, beside: String::new() });
    }
    Ok(bars)
}

fn status(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// How often each thread of a process has slept and gone on, by its id.
fn wakeups(pid: u32) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // The thread may have ended since it was listed.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else { continue };
        let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let slept = slept.context("no such field")?.trim().parse()?;
        all.insert(thread.file_name().to_string_lossy().into_owned(), slept);
    }
    Ok(all)
}

/// Returns how often the threads woke up between two looks. A thread that has ended woke up once at least, to end.
fn woken(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    let since = |(thread, slept): (&String, &u64)| slept - before.get(thread).unwrap_or(&0);
    let ended = before.keys().filter(|thread| !after.contains_key(*thread)).count() as u64;
    after.iter().map(since).sum::<u64>() + ended
}

/// From the order of a client in another process to the agent that reads the decision. The decision is on disk before.
fn decisions(world: &World<'_>) -> Result<Vec<Bar>> {
    let runner = world.start("none")?;
    let mut late = host::runtime()?.block_on(async {
        let session = world.attach(&runner).await?;
        let mut watch = session.watch_from(1)?;
        session.send(format!("asks {DECISIONS}"), WhenBusy::Refuse).await?;
        let (mut late, mut sent) = (Vec::new(), 0);
        while let Some(event) = watch.next().await? {
            if let Kind::ApprovalAsked(_) = &event.kind {
                let verdict = bowline::ApprovalVerdict::Allow { input: None };
                sent = clock::nanos();
                session.order(SessionOrder::Decide { approval: None, verdict }).await?;
            } else if let Kind::TextDelta(delta) = &event.kind {
                let read: u64 = delta.text.parse()?;
                late.push(read.saturating_sub(sent) as f64 / 1e6);
            } else if let Kind::TurnEnded(_) = &event.kind {
                break;
            }
        }
        anyhow::Ok(late)
    })?;
    ensure!(late.len() == DECISIONS, "{} of {DECISIONS} decisions arrived", late.len());
    let beside = format!("{:.2} ms in the middle", clock::percentile(&mut late, 50));
    let value = clock::percentile(&mut late, 99);
    let what = "a decision of another process reaches the agent, p99";
    Ok(vec![Bar { what, value, unit: " ms", limit: 5.0, beside }])
}

/// Many sessions with watchers, all at work at once.
fn fleet(world: &World<'_>) -> Result<Vec<Bar>> {
    let runners: Vec<Runner> = (0..SESSIONS).map(|_| world.start("none")).collect::<Result<_>>()?;
    let late = Arc::new(Mutex::new(Vec::with_capacity(SESSIONS * WATCHERS * PIECES)));
    host::runtime()?.block_on(async {
        let mut set = tokio::task::JoinSet::new();
        for runner in &runners {
            let mut watched = Vec::new();
            for _ in 0..WATCHERS {
                let session = world.attach(runner).await?;
                let watch = session.watch_from(1)?;
                watched.push((session, watch));
            }
            // The processes start before anything is measured.
            if let Some((session, watch)) = watched.first_mut() {
                play(session, watch, "paced 1 1000").await?;
            }
            for (place, (session, watch)) in watched.into_iter().enumerate() {
                set.spawn(watch_one(session, watch, place == 0, late.clone()));
            }
        }
        while let Some(done) = set.join_next().await {
            done??;
        }
        anyhow::Ok(())
    })?;
    let mut late = std::mem::take(&mut *late.lock().expect("no thread panics while it holds the lock"));
    ensure!(late.len() == SESSIONS * WATCHERS * PIECES, "events are missing: {}", late.len());
    let resident: f64 = runners.iter().filter_map(|it| status(it.pid, "RssAnon:").ok()).sum::<f64>() / 1024.0;
    let middle = clock::percentile(&mut late, 50);
    Ok(vec![Bar {
        what: "100 sessions with two watchers each, how late an event comes, p99",
        value: clock::percentile(&mut late, 99),
        unit: " ms",
        limit: 20.0,
        beside: format!(
            "{middle:.2} ms in the middle; a runner has {:.1} MB of its own",
            resident / SESSIONS as f64
        ),
    }])
}

/// Watches one session until its paced turn ends. One of its watchers sends the prompt.
async fn watch_one(
    session: AttachedSession,
    mut watch: EventWatch,
    sends: bool,
    late: Arc<Mutex<Vec<f64>>>,
) -> Result<()> {
    if sends {
        session.send(PACED, WhenBusy::Refuse).await?;
    }
    let mut own = Vec::with_capacity(PIECES);
    while let Some(event) = watch.next().await? {
        // The first turn, of one piece, only started the process.
        if event.turn != Some(2) {
            continue;
        }
        if let Kind::TextDelta(delta) = &event.kind {
            let made: u64 = delta.text.parse()?;
            own.push(clock::nanos().saturating_sub(made) as f64 / 1e6);
        } else if let Kind::TurnEnded(_) = &event.kind {
            break;
        }
    }
    late.lock().expect("no thread panics while it holds the lock").extend(own);
    Ok(())
}
