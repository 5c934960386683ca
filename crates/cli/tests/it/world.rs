//! A world of its own for each run: its home, its directory, and marks by which processes that are left behind are found.
//!
//! Survivors are counted by a mark in the environment of processes, never by what the command says about itself. The
//! agent and all that it starts carry one mark, the command and its keeper another.

mod ended;
mod providers;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::clock::LONG;
pub(crate) use crate::clock::{now, wait_until};
use crate::journal::Journal;

pub(crate) use ended::Ended;

/// The user that owns nothing.
pub(crate) const NOBODY: u32 = 65534;

/// Returns whether this test can do what only root can.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The surroundings of one test.
pub(crate) struct World {
    dir: TempDir,
    /// What the agent and its descendants carry.
    agents: String,
    /// What the command and its keeper carry.
    hosts: String,
}

impl World {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::Builder::new().prefix("bowline-it-").tempdir().expect("a directory");
        for name in ["home", "practice", "work", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let (own, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let unique = format!("{own}-{number}-{}", dir.path().file_name().unwrap_or_default().display());
        Self { dir, agents: format!("agent-of-{unique}"), hosts: format!("host-of-{unique}") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a program that the tests play an agent with.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        bowline_testkit::write_program(&path, format!("#!/bin/sh\n{text}\n"));
        path
    }

    pub(crate) fn mode(&self, path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// A run of the command with any arguments.
    pub(crate) fn bowline<A: AsRef<OsStr>>(&self, args: &[A]) -> Call<'_> {
        let args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        let (env, input) = (Vec::new(), Input::Nothing);
        Call { world: self, args, prompt: None, env, input, user: None, before: None, program: None }
    }

    /// A run of an agent that carries the mark.
    pub(crate) fn run(&self, provider: &str, prompt: &str) -> Call<'_> {
        let mark = format!("MARK={}", self.agents);
        let mut call = self.bowline(&["run", "--provider", provider, "--env", mark.as_str()]);
        call.prompt = Some(prompt.into());
        call
    }

    /// A run of the practice agent with these directives.
    pub(crate) fn practice(&self, directives: &[&str]) -> Call<'_> {
        let lines: Vec<String> = directives.iter().map(|it| format!("practice: {it}")).collect();
        self.run("practice", &lines.join("\n")).with(&["--env", "PRACTICE_PACE=0"])
    }

    /// Runs the practice agent until it has printed `one`, kills the command, and waits for the end of the agent.
    pub(crate) fn runs_and_is_killed(&self) {
        let mut running = self.practice(&["say one", "hang"]).start();
        running.says("one");
        running.kill();
        let _ = running.end_among_others();
        // Its keeper ends the agent, a moment after the runner.
        wait_until("the end of the agent", || self.agents().is_empty());
    }

    /// A run of a shell script that speaks as Claude Code does.
    pub(crate) fn claude(&self, script: &str) -> Call<'_> {
        let path = self.script("agent", script);
        self.run("claude", "Say something.").with(&[OsStr::new("--binary"), path.as_os_str()])
    }

    /// Returns the journal of the only session.
    pub(crate) fn journal(&self) -> Journal {
        let mut all = self.journals();
        assert_eq!(all.len(), 1, "there is one session");
        all.remove(0)
    }

    pub(crate) fn journals(&self) -> Vec<Journal> {
        Journal::all(&self.path("home"))
    }

    /// Returns the directories of sessions, which may still be going on.
    pub(crate) fn journals_begun(&self) -> Vec<PathBuf> {
        let sessions = std::fs::read_dir(self.path("home").join("sessions"));
        sessions.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Returns whether a journal, which may still be going on, has a line with all of these.
    pub(crate) fn has_line(&self, parts: &[&str]) -> bool {
        self.journals_begun().iter().any(|dir| {
            let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
            text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        })
    }

    /// Returns the mark of agents.
    pub(crate) fn mark(&self) -> String {
        self.agents.clone()
    }

    /// Lists the processes of agents.
    pub(crate) fn agents(&self) -> Vec<String> {
        marked(&self.agents)
    }

    /// Lists the processes of commands, runners and keepers.
    pub(crate) fn hosts(&self) -> Vec<String> {
        marked(&self.hosts)
    }

    /// Fails if a process is left. The keeper goes when it sees that the command is gone.
    pub(crate) fn nobody_is_left(&self) {
        assert_eq!(self.agents(), Vec::<String>::new(), "agents are left");
        wait_until("the end of the keeper", || marked(&self.hosts).is_empty());
        assert_eq!(self.agents(), Vec::<String>::new(), "agents were started by a keeper without a host");
    }
}

/// Lists the processes that have a text in their environment. A zombie has none: it is dead.
fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(environ) = std::fs::read(entry.path().join("environ")) else { continue };
        if environ.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push(format!("{} {}", entry.file_name().display(), command.trim_end()));
        }
    }
    found
}

/// What stands on standard input.
enum Input {
    Nothing,
    Bytes(Vec<u8>),
    /// A pipe on which nothing comes.
    Open,
}

/// A run that is about to begin.
pub(crate) struct Call<'a> {
    world: &'a World,
    args: Vec<OsString>,
    prompt: Option<OsString>,
    env: Vec<(OsString, OsString)>,
    input: Input,
    user: Option<u32>,
    before: Option<&'static str>,
    program: Option<PathBuf>,
}

impl<'a> Call<'a> {
    /// Starts this copy of the program instead.
    pub(crate) fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    pub(crate) fn with<A: AsRef<OsStr>>(mut self, args: &[A]) -> Self {
        self.args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Gives no prompt as an argument.
    pub(crate) fn no_prompt(mut self) -> Self {
        self.prompt = None;
        self
    }

    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Leaves standard input open and silent.
    pub(crate) fn open_input(mut self) -> Self {
        self.input = Input::Open;
        self
    }

    pub(crate) fn user(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }

    /// Starts it from a shell that has done this before.
    pub(crate) fn after(mut self, line: &'static str) -> Self {
        self.before = Some(line);
        self
    }

    /// Returns the command as it would be started.
    #[expect(clippy::disallowed_methods, reason = "the command under test is started here")]
    pub(crate) fn command(&self) -> Command {
        let program = match (&self.program, self.user) {
            (Some(program), _) => program.clone(),
            (None, Some(uid)) => reachable(self.world, uid),
            (None, None) => PathBuf::from(env!("CARGO_BIN_EXE_bowline")),
        };
        let mut command = match self.before {
            Some(line) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("{line}; exec \"$0\" \"$@\"")]).arg(program);
                shell
            }
            None => Command::new(program),
        };
        command.args(&self.args).args(&self.prompt).env_clear().current_dir(self.world.path("work"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.world.path("work"));
        command.env("TMPDIR", self.world.path("tmp")).env("HOST_MARK", &self.world.hosts);
        command
            .env("BOWLINE_HOME", self.world.path("home"))
            .env("PRACTICE_HOME", self.world.path("practice"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !matches!(self.input, Input::Nothing) {
            command.stdin(Stdio::piped());
        }
        // As a job of a shell, it leads a group of its own.
        command.process_group(0);
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Starts it; both of its streams are read.
    pub(crate) fn start(self) -> Running<'a> {
        self.start_with(|_| {})
    }

    /// Starts it; the caller has to read its standard output.
    pub(crate) fn start_unread(self) -> (Running<'a>, ChildStdout) {
        let mut stdout = None;
        let running = self.start_with(|child| stdout = child.stdout.take());
        (running, stdout.expect("a pipe"))
    }

    fn start_with(self, prepare: impl FnOnce(&mut Child)) -> Running<'a> {
        let mut child = self.command().spawn().expect("the command starts");
        prepare(&mut child);
        let stdin = child.stdin.take();
        let (stdin, feeder) = match self.input {
            Input::Nothing => (None, None),
            Input::Open => (stdin, None),
            Input::Bytes(bytes) => (None, stdin.map(|pipe| feed(pipe, bytes))),
        };
        let stdout = child.stdout.take().map(collect);
        let stderr = collect(child.stderr.take().expect("a pipe"));
        Running { world: self.world, child, stdin, feeder, stdout, stderr }
    }

    /// Runs it to its end.
    pub(crate) fn end(self) -> Ended {
        self.start().end()
    }
}

/// Returns a path of the command that another user can reach, and lets that user have the world.
#[expect(clippy::disallowed_methods, reason = "another user is asked whether the command can be reached")]
fn reachable(world: &World, uid: u32) -> PathBuf {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_bowline"));
    world.mode(world.root(), 0o755);
    for name in ["home", "practice", "work", "tmp"] {
        std::os::unix::fs::chown(world.path(name), Some(uid), Some(uid))
            .expect("the directory changes hands");
    }
    let mut test = Command::new("/bin/sh");
    test.args(["-c", "test -x \"$0\""]).arg(&own).uid(uid).gid(uid);
    if test.status().is_ok_and(|status| status.success()) {
        return own;
    }
    let copy = world.path("bowline");
    if !copy.exists() {
        bowline_testkit::copy_program(&own, &copy);
    }
    copy
}

fn feed(mut pipe: ChildStdin, bytes: Vec<u8>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        // The command may end before it has read everything.
        let _ = pipe.write_all(&bytes);
    })
}

/// A stream that is being read.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

fn collect(mut stream: impl Read + Send + 'static) -> Collected {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let shared = bytes.clone();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            shared.lock().expect("a lock").extend_from_slice(&buffer[..count]);
        }
    });
    Collected { bytes, reader }
}

impl Collected {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("a lock")).into_owned()
    }
}

/// A run that is going on.
pub(crate) struct Running<'a> {
    world: &'a World,
    child: Child,
    stdin: Option<ChildStdin>,
    feeder: Option<JoinHandle<()>>,
    stdout: Option<Collected>,
    stderr: Collected,
}

impl Running<'_> {
    /// Writes to the input that was left open, and closes it.
    pub(crate) fn writes(&mut self, text: &str) {
        let mut stdin = self.stdin.take().expect("it was left open");
        stdin.write_all(text.as_bytes()).expect("it is read");
    }

    /// Returns its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the command is alive");
    }

    /// Sends a signal to the group of the command, as a terminal does.
    pub(crate) fn signal_group(&self, signal: Signal) {
        rustix::process::kill_process_group(Pid::from_child(&self.child), signal)
            .expect("the group is there");
    }

    /// Sends a signal to a command that may have ended.
    pub(crate) fn signal_if_alive(&self, signal: Signal) {
        // It is not waited for before `end`, so its number cannot have gone to another process.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns whether the command has ended; it stays a zombie.
    pub(crate) fn is_over(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
    }

    /// Kills the command with SIGKILL, as a machine that runs out of memory does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the command is alive");
        self.child.wait().expect("the command ends");
    }

    /// Returns the command's keeper.
    pub(crate) fn keeper(&self) -> Pid {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("/proc");
        let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        let keeper = children.split_whitespace().find(|child| name(child) == "bowline-keeper\n");
        keeper.and_then(|keeper| Pid::from_raw(keeper.parse().ok()?)).expect("there is one")
    }

    /// Waits until standard output has this text.
    pub(crate) fn prints(&self, text: &str) {
        let stdout = self.stdout.as_ref().expect("it is read");
        wait_until(text, || stdout.text().contains(text));
    }

    /// Waits until the agent has said this: in a pipe, what is printed waits for the end of a message.
    pub(crate) fn says(&self, text: &str) {
        wait_until(text, || self.world.has_line(&["text_delta", text]));
    }

    /// Waits until standard error has this text.
    pub(crate) fn tells(&self, text: &str) {
        wait_until(text, || self.stderr.text().contains(text));
    }

    /// Waits until an agent with the mark is there.
    pub(crate) fn has_agents(&self, count: usize) {
        wait_until("agents", || self.world.agents().len() >= count);
    }

    /// Waits for the end, checks that no process is left, and returns all output.
    pub(crate) fn end(self) -> Ended {
        let world = self.world;
        self.end_then(|| world.nobody_is_left())
    }

    /// Waits for the end of one of several runs, and returns all that was said.
    pub(crate) fn end_among_others(self) -> Ended {
        self.end_then(|| {})
    }

    fn end_then(mut self, check: impl FnOnce()) -> Ended {
        let began = now();
        let status = loop {
            match self.child.try_wait().expect("a status") {
                Some(status) => break status,
                None if began.elapsed() > LONG => {
                    let _ = self.child.kill();
                    panic!("it did not end; standard error has {}", self.stderr.text());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let at = jiff::Timestamp::now();
        check();
        if let Some(feeder) = self.feeder {
            feeder.join().expect("a thread");
        }
        let text = |stream: Collected| {
            stream.reader.join().expect("a thread");
            String::from_utf8_lossy(&stream.bytes.lock().expect("a lock")).into_owned()
        };
        let stdout = self.stdout.map(text).unwrap_or_default();
        Ended { status, at, stdout, stderr: text(self.stderr) }
    }
}
