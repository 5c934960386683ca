//! The harness: a world whose live sessions are stopped when it goes, also when a test fails.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::journal::{Journal, kind};
use crate::world::{Call, Ended, World, wait_until};

/// A world for live sessions. Its end kills every process of its runners, keepers and agents that is left.
pub(crate) struct LiveWorld {
    world: World,
}

impl Drop for LiveWorld {
    fn drop(&mut self) {
        for pid in self.world.hosts().into_iter().chain(self.world.agents()).filter_map(|line| pid_of(&line))
        {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

fn pid_of(line: &str) -> Option<Pid> {
    Pid::from_raw(line.split(' ').next()?.parse().ok()?)
}

impl LiveWorld {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let sockets = world.path("sockets");
        std::fs::create_dir(&sockets).expect("a directory");
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).expect("a mode");
        Self { world }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// A call of the command that finds the sockets of this world.
    pub(crate) fn call<A: AsRef<OsStr>>(&self, args: &[A]) -> Call<'_> {
        self.world.bowline(args).env("XDG_RUNTIME_DIR", self.path("sockets"))
    }

    /// Runs a command to its end. Processes of sessions may be left.
    #[track_caller]
    pub(crate) fn end(&self, args: &[&str]) -> Ended {
        self.call(args).start().end_among_others()
    }

    /// A `start` of the practice agent that is not run yet.
    pub(crate) fn starting(&self, prompt: Option<&str>, flags: &[&str]) -> Call<'_> {
        let mark = format!("MARK={}", self.world.mark());
        let fixed = ["start", "-p", "practice", "--json", "--env", &mark, "--env", "PRACTICE_PACE=0"];
        self.call(&fixed).with(flags).with(&prompt.into_iter().collect::<Vec<_>>())
    }

    /// Starts a session.
    #[track_caller]
    pub(crate) fn start(&self, prompt: Option<&str>, flags: &[&str]) -> Session<'_> {
        let ended = self.starting(prompt, flags).start().end_among_others().exits(0);
        self.session(&ended.json())
    }

    /// Starts a session that plays these directives, one prompt each time it has played them.
    #[track_caller]
    pub(crate) fn plays(&self, directives: &[&str], flags: &[&str]) -> Session<'_> {
        self.start(Some(&play(directives)), flags)
    }

    /// Reads what `start --json` printed.
    #[track_caller]
    pub(crate) fn session(&self, started: &Value) -> Session<'_> {
        let text = |key: &str| started[key].as_str().expect("a text").to_owned();
        let runner = started["pid"].as_i64().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Session {
            live: self,
            id: text("session"),
            runner: runner.expect("a pid"),
            socket: text("socket").into(),
        }
    }

    /// Makes a file that a `cat` of the agent reads until [`Self::open_gate`].
    pub(crate) fn gate(&self, name: &str) {
        let path = self.path("work").join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a fifo");
    }

    /// Waits until the agent stands at the gate.
    #[track_caller]
    pub(crate) fn at_gate(&self, name: &str) -> std::fs::File {
        let path = self.path("work").join(name);
        let mut gate = None;
        // Without a reader, a fifo does not open for a writer that does not block.
        wait_until("the agent reads the gate", || {
            let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            gate = std::fs::OpenOptions::new().write(true).custom_flags(nonblock).open(&path).ok();
            gate.is_some()
        });
        gate.expect("it is open")
    }

    /// Lets the agent go on that stands at a gate.
    #[track_caller]
    pub(crate) fn open_gate(&self, name: &str) {
        self.at_gate(name).write_all(b"go\n").expect("the agent reads");
    }
}

/// Joins directives to a prompt.
pub(crate) fn play(directives: &[&str]) -> String {
    directives.iter().map(|it| format!("practice: {it}")).collect::<Vec<_>>().join("\n")
}

/// A live session.
pub(crate) struct Session<'a> {
    live: &'a LiveWorld,
    pub(crate) id: String,
    pub(crate) runner: Pid,
    pub(crate) socket: PathBuf,
}

impl Session<'_> {
    /// Runs a command about the session: its name, then the session, then the others.
    #[track_caller]
    pub(crate) fn order(&self, command: &str, args: &[&str]) -> Ended {
        let words: Vec<&str> = [command, &self.id].into_iter().chain(args.iter().copied()).collect();
        self.live.end(&words)
    }

    /// Gives an order that is carried out, and returns its receipt.
    #[track_caller]
    pub(crate) fn done(&self, command: &str, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.order(command, &args).exits(0).json()
    }

    /// Decides the oldest open approval by its id, and returns the receipt.
    #[track_caller]
    pub(crate) fn decides(&self, command: &str, args: &[&str]) -> Value {
        let asked = self.asks();
        let id = asked["id"].as_str().expect("an id");
        self.done(command, &[&[id], args].concat())
    }

    /// Sends directives as a prompt.
    #[track_caller]
    pub(crate) fn send(&self, directives: &[&str], flags: &[&str]) -> Value {
        let text = play(directives);
        let args: Vec<&str> = flags.iter().copied().chain([text.as_str()]).collect();
        self.done("send", &args)
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.done("status", &[])
    }

    /// Waits until the status is as wanted, and returns it.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        wait_until(what, || {
            status = self.status();
            is_so(&status)
        });
        status
    }

    /// Waits until the session has this state.
    #[track_caller]
    pub(crate) fn is(&self, state: &str) -> Value {
        self.until(state, |status| status["state"] == state)
    }

    /// Waits until this many turns have ended and the session is idle.
    #[track_caller]
    pub(crate) fn has_played(&self, turns: u64) -> Value {
        self.until("the end of the turn", |status| {
            status["state"] == "idle" && status["last_turn"]["turn"] == turns && status["queue"].is_null()
        })
    }

    /// Waits for an approval, and returns it.
    #[track_caller]
    pub(crate) fn asks(&self) -> Value {
        self.is("waiting_for_approval")["approvals"][0].clone()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.live.path("home").join("sessions").join(&self.id)
    }

    /// Returns the events that are on file.
    pub(crate) fn events(&self) -> Vec<Value> {
        events_of(&self.dir())
    }

    /// Returns the fields of the events of a kind.
    pub(crate) fn of(&self, wanted: &str) -> Vec<Value> {
        self.events()
            .iter()
            .filter(|event| kind(event) == wanted)
            .map(|event| event["kind"].clone())
            .collect()
    }

    /// Returns all that the agent said.
    pub(crate) fn text(&self) -> String {
        self.of("text_delta").iter().filter_map(|delta| delta["text"].as_str()).collect()
    }

    /// Waits until the agent has said this.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        wait_until(text, || self.text().contains(text));
    }

    /// Returns the outcomes of the turns that ended, in order.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let ends = self.of("turn_ended");
        ends.iter().map(|end| end["outcome"].as_str().expect("an outcome").to_owned()).collect()
    }

    /// Returns the ids of the agent's processes.
    pub(crate) fn agents(&self) -> Vec<Pid> {
        let number = |spawned: &Value| Pid::from_raw(i32::try_from(spawned["pid"].as_i64()?).ok()?);
        self.of("process_spawned").iter().filter_map(number).collect()
    }

    /// Stops the session, checks that no process is left, and returns its journal, which is checked.
    #[track_caller]
    pub(crate) fn stop(self) -> Journal {
        self.order("stop", &[]).exits(0);
        self.is_gone();
        self.journal()
    }

    /// Returns the journal of the session, whose runner has ended.
    #[track_caller]
    pub(crate) fn journal(&self) -> Journal {
        let mut all = self.live.world.journals();
        all.retain(|journal| journal.dir == self.dir());
        let journal = all.pop().expect("a journal");
        journal.check();
        journal
    }

    /// Waits until the runner, its keeper and all agents are gone.
    #[track_caller]
    pub(crate) fn is_gone(&self) {
        wait_until("the end of the runner", || self.live.world.hosts().is_empty());
        assert_eq!(self.live.world.agents(), Vec::<String>::new(), "agents are left");
    }
}

/// Returns the events of a directory that is still written.
pub(crate) fn events_of(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// Kills a process with SIGKILL.
#[track_caller]
pub(crate) fn kill(pid: Pid) {
    rustix::process::kill_process(pid, Signal::KILL).expect("the process is alive");
}
