//! Programs as embedders write them: `#[tokio::main]` with worker threads before `init`, no `init`, a late one, no runtime.
//!
//! The `main` of this binary is such a program. It is executed again as host, and by that host as keeper.

use std::process::{Command, ExitCode, Output, Stdio};
use std::task::{Context, Poll, Waker};

use bowline::registry::Registry;
use bowline::{Error, RuntimeGap, journal};
use libtest_mimic::Trial;

use crate::support::{Stage, plain};

/// Set in a process that is to be an embedder: `mode home agent runs`.
const ROLE: &str = "BOWLINE_IT_EMBEDDER";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        plain("under_tokio_main_no_run_is_lost", || nothing_is_lost("init", 1)),
        plain("under_tokio_main_none_of_eight_runs_is_lost", || nothing_is_lost("init", 8)),
        plain("under_tokio_main_no_run_is_lost_where_panics_abort", || nothing_is_lost("abort", 8)),
        plain("the_keeper_of_a_program_with_threads_has_one", one_thread),
        plain("a_program_without_init_has_the_weaker_guarantee", without_init),
        plain("a_late_init_is_told_and_breaks_nothing", late_init),
        plain("without_a_runtime_a_call_is_an_error", without_runtime),
        plain("without_timers_or_io_a_call_is_an_error", half_a_runtime),
    ]
}

fn role() -> Option<Vec<String>> {
    #[expect(clippy::disallowed_methods, reason = "a test of two processes")]
    let words = std::env::var(ROLE).ok()?;
    Some(words.split('\n').map(str::to_owned).collect())
}

/// Does what the `main` of an embedder does first.
pub(crate) fn begin() {
    let role = role();
    match role.as_ref().map(|words| words[0].as_str()) {
        Some("without" | "late") => {}
        Some("abort") => {
            // As in a program that is built with `panic = "abort"`: a panic anywhere, also in a worker thread, ends it.
            std::panic::set_hook(Box::new(|_| std::process::abort()));
            bowline::init();
        }
        _ => bowline::init(),
    }
}

/// Is the embedder, if this process was started for that.
pub(crate) async fn run_if_asked() -> Option<ExitCode> {
    let words = role()?;
    let [mode, home, agent, runs] = &words[..] else { return Some(ExitCode::from(64)) };
    let task = || {
        let task = bowline::task("x").provider("claude").binary(agent).cwd(home);
        task.home(journal::Home::at(home)).without_files()
    };
    let runs: usize = runs.parse().unwrap();
    let runs: Vec<_> = (0..runs).map(|_| tokio::spawn(task().run())).collect();
    for run in runs {
        let said = match run.await.unwrap() {
            Ok(record) => format!("{} {}", record.outcome_word(), record.text.unwrap_or_default()),
            Err(error) => format!("error {error}"),
        };
        say(&said);
    }
    if mode == "late" {
        bowline::init();
        say(&task().answer().await.unwrap());
    }
    let (guarantee, about) = bowline::guarantee().unwrap();
    say(&format!("guarantee {guarantee}: {about}"));
    say(&format!("keepers {:?}", keepers()));
    Some(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "a program prints")]
fn say(line: &str) {
    println!("{line}");
}

/// Returns the number of threads of each keeper of this process.
fn keepers() -> Vec<usize> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_keeper = |status: &str| status.starts_with("Name:\tbowline-keeper\n") && status.contains(&own);
    let threads = entries.filter_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        is_keeper(&status).then(|| std::fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count))
    });
    threads.collect()
}

fn embedder(mode: &str, runs: usize) -> Vec<String> {
    let stage = Stage::new("init; say m1 Hello; result Hello");
    let home = stage.world.path().display().to_string();
    let words = [mode, &home, &stage.agent().display().to_string(), &runs.to_string()].join("\n");
    #[expect(clippy::disallowed_methods, reason = "a test of two processes")]
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, words).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.lines().map(str::to_owned).collect()
}

/// It was lost in 6 to 19 of 20 programs when a keeper began after the runtime of its `main`.
fn nothing_is_lost(mode: &str, runs: usize) {
    for round in 0..20 {
        let lines = embedder(mode, runs);
        assert_eq!(lines[..runs], vec!["completed Hello"; runs], "round {round}: {lines:?}");
        let guarantee = &lines[runs];
        assert!(guarantee.starts_with("guarantee cgroup") || guarantee.starts_with("guarantee subreaper"));
        assert!(!guarantee.contains("no keeper"), "{guarantee}");
    }
}

fn one_thread() {
    let lines = embedder("init", 1);
    assert_eq!(lines[2], "keepers [1]", "{lines:?}");
}

fn without_init() {
    let lines = embedder("without", 8);
    assert_eq!(lines[..8], ["completed Hello"; 8]);
    assert!(lines[8].starts_with("guarantee group: process group"), "{lines:?}");
    assert_eq!(lines[9], "keepers []");
}

fn late_init() {
    let lines = embedder("late", 1);
    assert_eq!(lines[..2], ["completed Hello", "Hello"]);
    assert!(lines[2].starts_with("guarantee group: "), "{lines:?}");
    assert!(lines[2].ends_with("`bowline::init` was called after the first run"), "{lines:?}");
    assert_eq!(lines[3], "keepers []");
}

/// Polls once, as any executor that is not tokio does first.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something"),
    }
}

/// Calls each door, and returns what it says.
async fn each_door(stage: &Stage) -> Vec<Result<(), Error>> {
    let registry = Registry::at(stage.world.home());
    let routed = stage.task("x").retries(1);
    vec![
        stage.task("x").start().await.map(drop),
        stage.task("x").run().await.map(drop),
        routed.run().await.map(drop),
        stage.task("x").answer().await.map(drop),
        stage.task("x").answer_as::<String>().await.map(drop),
        registry.kill_all("key", "why").await.map(drop).map_err(Error::from),
        registry.settle_lost().await.map(drop).map_err(Error::from),
    ]
}

fn check_doors(answers: Vec<Result<(), Error>>, gap: RuntimeGap) {
    for answer in answers {
        let Err(Error::NoRuntime(found)) = answer else { panic!("{answer:?}") };
        assert_eq!(found, gap);
    }
}

fn without_runtime() {
    let stage = Stage::new("touch $HERE/started");
    check_doors(at_once(each_door(&stage)), RuntimeGap::NoRuntime);
    assert!(!stage.path("started").exists());
}

fn half_a_runtime() {
    let stage = Stage::new("touch $HERE/started");
    let plain = tokio::runtime::Builder::new_current_thread;
    let no_time = plain().enable_io().build().unwrap();
    check_doors(no_time.block_on(each_door(&stage)), RuntimeGap::NoTime);
    let no_io = plain().enable_time().build().unwrap();
    check_doors(no_io.block_on(each_door(&stage)), RuntimeGap::NoIo);
    assert!(!stage.path("started").exists());
}
