//! A runner that is killed at any moment leaves a journal that can be put in order, and a lock that is free.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline::journal::{Home, JournalError, Repaired, repair};

use super::checker::check;
use super::{child, now};

const KILLS: usize = 500;
const AT_ONCE: usize = 4;

/// Waits for something that must come, on the slowest machine.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..60_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not come in a minute");
}

/// Returns the session that a runner wrote last.
fn last_session(home: &Home) -> Option<PathBuf> {
    let entries = std::fs::read_dir(home.sessions_dir()).ok()?;
    let number = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("s-")?.parse::<u64>().ok();
    entries.filter_map(|entry| Some(entry.ok()?.path())).max_by_key(number)
}

#[derive(Debug, Default)]
struct KillTally {
    killed: AtomicUsize,
    before_the_session: AtomicUsize,
    with_gap: AtomicUsize,
    events: AtomicUsize,
}

/// Kills one runner and checks what it left.
fn kill_one(seed: u64, pause: Duration, tally: &KillTally) {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = Home::at(scratch.path().join("home"));
    let mut runner = child::start(&format!("write {seed}"), home.path());
    wait_for("the first session", || last_session(&home));
    std::thread::sleep(pause);
    runner.kill().expect("kills");
    runner.wait().expect("waits");
    tally.killed.fetch_add(1, Ordering::Relaxed);

    let dir = last_session(&home).expect("was there");
    if !dir.join("session.json").exists() {
        // The runner got as far as the directory: nothing was said yet, so nothing can be lost.
        assert!(matches!(repair(&dir, now()), Err(JournalError::NoSession { .. })));
        tally.before_the_session.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let report = repair(&dir, now()).unwrap_or_else(|error| panic!("kill {seed}: {error:?}"));
    assert_eq!(report.missing, [], "kill {seed}: raw bytes are written before those that speak of them");
    assert_eq!(report.cut_lines, 0, "kill {seed}: whole lines make sense");
    let checked = check(&dir).unwrap_or_else(|error| panic!("kill {seed}: {error}\n{report:?}"));
    assert_eq!(checked.gaps.len(), usize::from(report.has_gap()), "kill {seed}");
    assert_eq!(repair(&dir, now()).expect("repairs"), Repaired::default(), "kill {seed}: once is enough");
    tally.with_gap.fetch_add(usize::from(report.has_gap()), Ordering::Relaxed);
    tally.events.fetch_add(checked.events, Ordering::Relaxed);
}

#[test]
fn five_hundred_runners_are_killed() {
    let tally = KillTally::default();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= KILLS as u64 {
                        break;
                    }
                    // Spread evenly over 25 ms, in no order: the moments differ from run to run anyway.
                    let micros = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 25_000;
                    kill_one(number + 1, Duration::from_micros(micros), &tally);
                }
            });
        }
    });
    assert_eq!(tally.killed.load(Ordering::Relaxed), KILLS, "{tally:?}");
    assert!(tally.events.load(Ordering::Relaxed) > KILLS, "the runners wrote hardly anything: {tally:?}");
    eprint_tally(&tally);
}

/// Seen with `--nocapture`: how often a kill hit what it was meant to hit.
fn eprint_tally(tally: &KillTally) {
    use std::io::Write;
    writeln!(std::io::stderr(), "{tally:?}").expect("says so");
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_lock_is_held_while_the_runner_lives_and_no_longer() {
    let scratch = tempfile::tempdir().expect("a directory");
    let home = Home::at(scratch.path());
    let mut runner = child::start("hold", home.path());
    let mut said = BufReader::new(runner.stdout.take().expect("is piped")).lines();
    let sleeper = loop {
        let line = said.next().expect("the runner says that it is ready").expect("reads");
        if let Some(pid) = line.strip_prefix("ready ") {
            break pid.to_owned();
        }
    };
    let entry = home.sessions().expect("lists").next().expect("there is one").expect("is whole");
    assert!(entry.is_live().expect("looks"));
    assert!(matches!(repair(&entry.dir, now()), Err(JournalError::Locked { .. })));

    runner.kill().expect("kills");
    runner.wait().expect("waits");
    assert!(is_alive(&sleeper), "the runner's child is still there, and must not hold the lock");
    assert!(!entry.is_live().expect("looks"));
    let report = repair(&entry.dir, now()).expect("repairs");
    let ends: Vec<&str> = report.appended.iter().map(|event| event.kind.type_name()).collect();
    assert_eq!(ends, ["turn_ended", "session_ended"]);
    assert_eq!(entry_state(&home), "failed");

    let pid = rustix::process::Pid::from_raw(sleeper.parse().expect("a number")).expect("not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kills");
}

fn entry_state(home: &Home) -> String {
    let meta = home.sessions().expect("lists").next().expect("there is one").expect("is whole").meta;
    serde_json::to_value(meta.state).expect("writes").as_str().expect("a word").to_owned()
}
