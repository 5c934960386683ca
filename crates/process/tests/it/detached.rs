//! A detached process lives on when its caller exits, is killed, or loses its terminal, and holds nothing of the caller.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use bowline_process::SpawnErrorKind;
use bowline_process::detach::{DetachedCommand, DetachedStreams, detach};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::play::{say, variable};
use crate::support::*;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("detached::it_reads_its_input_and_reports", it_reads_its_input_and_reports),
        trial("detached::one_that_ends_early_reports_nothing", one_that_ends_early_reports_nothing),
        trial("detached::a_missing_program_is_an_error", a_missing_program_is_an_error),
    ];
    for end in ["exits", "killed", "hangup"] {
        trials.push(trial(&format!("detached::the_caller::{end}"), move || it_outlives_its_caller(end)));
    }
    trials
}

/// Ends a detached process when its test ends.
struct EndAtDrop(u32);

impl Drop for EndAtDrop {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.cast_signed()) {
            // It fails when the process has ended by itself.
            let _: Result<(), _> = kill_process(pid, Signal::KILL);
        }
    }
}

fn command(role: &str) -> DetachedCommand {
    DetachedCommand {
        program: own_program(),
        args: Vec::new(),
        env: vec![("PLAY".into(), role.into())],
        spec: Vec::new(),
        log: None,
    }
}

/// The fields of `/proc/self/stat` from the state on (proc(5)): state, parent, group, session, terminal.
fn own_stat() -> Vec<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("reads");
    stat.rsplit(')').next().expect("has fields").split_whitespace().map(str::to_owned).collect()
}

/// Plays the runner: reports about itself, then stays.
pub(crate) fn runner() {
    let streams = DetachedStreams::take().expect("reads its input");
    let fields = own_stat();
    let own = std::process::id().to_string();
    let target = |number: u32| std::fs::read_link(format!("/proc/self/fd/{number}")).expect("is open");
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("is there");
    let ignored = u64::from_str_radix(ignored, 16).expect("is a number");
    let spec = String::from_utf8(streams.spec).expect("is text");
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("reads").count();
    let report = format!(
        "parent={} own-group={} own-session={} terminal={} stdin={} stdout={} ignores-hangup={} descriptors={descriptors} \
         spec={} {}",
        fields[1],
        fields[2] == own,
        fields[3] != variable("CALLER_SESSION").unwrap_or_default(),
        fields[4],
        target(0).display(),
        target(1).display(),
        ignored & 1 == 1,
        spec.len(),
        spec.chars().take(8).collect::<String>(),
    );
    streams.report.send(report.as_bytes()).expect("reports");
    std::thread::sleep(std::time::Duration::from_secs(600));
}

/// Plays the caller: a host with a keeper and an agent, which detaches a runner and then stays or exits.
pub(crate) async fn caller() {
    let child = supervisor().spawn(agent("sleep")).await.expect("starts");
    let mut process = detach(command("detached-runner")).await.expect("starts");
    process.report().await.expect("reads").expect("it reports");
    say(&format!("{} {}", process.pid(), child.pid()));
    if variable("END").as_deref() != Some("exits") {
        std::future::pending::<()>().await;
    }
}

async fn it_reads_its_input_and_reports() {
    let mut command = command("detached-runner");
    // Longer than a pipe.
    command.spec = "0123456789".repeat(50_000).into_bytes();
    // Not `getsid`: it returns 0 for a session outside our PID namespace, which `rustix` declares impossible.
    command.env.push(("CALLER_SESSION".into(), own_stat()[3].clone().into()));
    // A descriptor that a shell left open: its reader would wait for the runner.
    let (leaked, kept) = rustix::pipe::pipe().expect("makes one");
    let mut process = detach(command).await.expect("starts");
    let _end = EndAtDrop(process.pid());
    let report =
        String::from_utf8(process.report().await.expect("reads").expect("reports")).expect("is text");
    let (parent, rest) = report.split_once(' ').expect("has fields");
    assert_ne!(parent, format!("parent={}", std::process::id()));
    // Its standard streams, the report, and the directory that was just read.
    assert_eq!(
        rest,
        "own-group=true own-session=true terminal=0 stdin=/dev/null stdout=/dev/null ignores-hangup=true descriptors=5 \
         spec=500000 01234567"
    );
    drop((leaked, kept));
    // The report is over when it was sent.
    assert_eq!(process.report().await.expect("reads"), None);
}

async fn one_that_ends_early_reports_nothing() {
    let folder = tempfile::tempdir().expect("makes one");
    let log = folder.path().join("log");
    let mut command = command("");
    command.program = "sh".into();
    command.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    command.args = ["-c", "echo went wrong >&2; exit 3"].map(Into::into).to_vec();
    // It does not read this.
    command.spec = vec![b'x'; 1 << 20];
    command.log = Some(log.clone());
    let mut process = detach(command).await.expect("starts");
    assert_eq!(process.report().await.expect("reads"), None);
    assert_eq!(std::fs::read_to_string(&log).expect("is there"), "went wrong\n");
}

async fn a_missing_program_is_an_error() {
    let mut command = command("");
    command.program = "/does/not/exist".into();
    let error = detach(command).await.expect_err("there is none");
    assert!(matches!(error.kind, SpawnErrorKind::NotFound), "{error:?}");
}

#[expect(clippy::disallowed_methods, reason = "the caller is a program of the user")]
async fn it_outlives_its_caller(end: &'static str) {
    use std::io::{BufRead, BufReader};
    let mut caller = Command::new(own_program())
        .env("PLAY", "host")
        .env("HOST", "detaches")
        .env("END", end)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(caller.stdout.take().expect("a pipe")).read_line(&mut line).expect("reads");
    let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect();
    let (runner, agent) = (pids[0], pids[1]);
    let _end = EndAtDrop(runner);
    let pid = |number: u32| Pid::from_raw(number.cast_signed()).expect("is not 0");
    match end {
        "killed" => kill_process(pid(caller.id()), Signal::KILL).expect("is ours"),
        // A terminal that closes sends it to the group in the foreground. The runner gets it as well here.
        "hangup" => {
            kill_process_group(pid(caller.id()), Signal::HUP).expect("is ours");
            kill_process(pid(runner), Signal::HUP).expect("is ours");
        }
        _ => {}
    }
    caller.wait().expect("ends");
    wait_until("the keeper of the caller has ended its agent", || !is_alive(agent));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(is_alive(runner));
}
