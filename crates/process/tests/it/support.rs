//! Shared by the tests: a supervisor, a child of this binary, and a record of all its events.

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bowline_process::{
    Child, ChildEvent, Command, ExitStatus, KeeperSource, Stdin, Supervisor, SupervisorOptions, TreeProcess,
};
use libtest_mimic::{Failed, Trial};

/// How long anything may take on a loaded machine before a test gives up.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Makes a test of an async function.
pub(crate) fn trial<F, T>(name: &str, test: F) -> Trial
where
    F: FnOnce() -> T + Send + 'static,
    T: Future<Output = ()>,
{
    Trial::test(name, move || {
        // The runner may use a thread for several tests.
        KEEPER.set(true);
        runtime().block_on(async { tokio::time::timeout(LONG, test()).await.map_err(Failed::from) })
    })
}

/// Makes two tests of an async function: with a keeper, and without.
pub(crate) fn trials_with_and_without_keeper<F, T>(name: &str, test: F) -> [Trial; 2]
where
    F: FnOnce() -> T + Copy + Send + 'static,
    T: Future<Output = ()>,
{
    let without = trial(&format!("{name}::no-keeper"), move || {
        KEEPER.set(false);
        test()
    });
    [trial(name, test), without]
}

thread_local! {
    /// Whether the supervisor of the test in this thread has a keeper.
    static KEEPER: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("builds")
}

pub(crate) fn supervisor() -> Supervisor {
    if KEEPER.get() {
        return Supervisor::start().expect("the keeper starts");
    }
    supervisor_with(SupervisorOptions { keeper: KeeperSource::None, ..SupervisorOptions::default() })
}

pub(crate) fn supervisor_with(options: SupervisorOptions) -> Supervisor {
    Supervisor::start_with(options).expect("the keeper starts")
}

pub(crate) fn own_program() -> PathBuf {
    std::env::current_exe().expect("we have a path")
}

/// A command that plays an agent.
pub(crate) fn agent(role: &str) -> Command {
    let mut command = Command::new(own_program(), "test-session");
    command.env = vec![(OsString::from("PLAY"), OsString::from(role))];
    command
}

pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh", "test-session");
    command.args = vec!["-c".into(), script.into()];
    command.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    command
}

/// All events, with the pieces of a stream joined.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) stdout_closed: bool,
    pub(crate) stderr_closed: bool,
    pub(crate) stdin_closed: Option<bool>,
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) swept: Option<(Vec<TreeProcess>, Vec<TreeProcess>)>,
    pub(crate) keeper_lost: bool,
    pub(crate) longest: usize,
}

impl Record {
    pub(crate) fn take(&mut self, event: ChildEvent) {
        match event {
            ChildEvent::Stdout { bytes, .. } => {
                assert!(!self.stdout_closed, "nothing comes after the end");
                self.longest = self.longest.max(bytes.len());
                self.stdout.extend(bytes);
            }
            ChildEvent::Stderr { bytes, .. } => {
                assert!(!self.stderr_closed, "nothing comes after the end");
                self.longest = self.longest.max(bytes.len());
                self.stderr.extend(bytes);
            }
            ChildEvent::StdoutClosed => assert!(!std::mem::replace(&mut self.stdout_closed, true)),
            ChildEvent::StderrClosed => assert!(!std::mem::replace(&mut self.stderr_closed, true)),
            ChildEvent::StdinWritten(bytes) => self.stdin.extend(bytes),
            ChildEvent::StdinClosed { broken } => assert!(self.stdin_closed.replace(broken).is_none()),
            ChildEvent::Exited(exit) => assert_eq!(self.exit.replace(exit), None, "it exits once"),
            ChildEvent::Swept { ended, survivors } => {
                assert!(self.exit.is_some(), "swept comes after the exit");
                self.swept = Some((ended, survivors));
            }
            ChildEvent::KeeperLost => self.keeper_lost = true,
        }
    }

    /// Goes on until this is true.
    pub(crate) async fn until(&mut self, child: &mut Child, is_true: impl Fn(&Self) -> bool) {
        while !is_true(self) {
            self.take(child.next().await);
        }
    }

    /// Goes on until the program has exited and both outputs are closed.
    pub(crate) async fn until_over(&mut self, child: &mut Child) {
        self.until(child, |record| record.exit.is_some() && record.stdout_closed && record.stderr_closed)
            .await;
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Runs a command to its end.
pub(crate) async fn run(command: Command) -> Record {
    let mut child = supervisor().spawn(command).await.expect("starts");
    let mut record = Record::default();
    record.until_over(&mut child).await;
    record
}

/// Runs a command with this input to its end.
pub(crate) async fn run_with(mut command: Command, stdin: Stdin) -> Record {
    command.stdin = stdin;
    run(command).await
}

/// Waits until this is true, for as long as a loaded machine may need.
pub(crate) fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let begin = now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(20), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test waits by the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the living processes that have this in their environment or arguments. This is not the crate's own search.
pub(crate) fn marked(variable: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("there is a /proc").flatten() {
        let path = entry.path();
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let mut told = environment.split(|byte| *byte == 0).chain(line.split(|byte| *byte == 0));
        if !told.any(|one| one == variable.as_bytes()) {
            continue;
        }
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let is_dead =
            status.lines().any(|line| line.starts_with("State:\tZ") || line.starts_with("State:\tX"));
        if !is_dead && !status.is_empty() {
            found.push(format!("{} {}", entry.file_name().display(), String::from_utf8_lossy(&line)));
        }
    }
    found
}

/// Returns whether the process is alive; a zombie is not.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .is_ok_and(|status| !status.lines().any(|line| line.starts_with("State:\tZ")))
}
