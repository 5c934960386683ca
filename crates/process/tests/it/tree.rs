//! The proof that nothing survives: shapes of trees x ways to end x guarantees x users.
//!
//! A separate host starts the tree, so that it can be killed and can be another user. The tests count the living processes by a
//! variable in the environment of every process, and do not use the crate's own report.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use bowline_testkit::skip;
use libtest_mimic::Trial;

use crate::support::*;

const SHAPES: [&str; 4] = ["plain", "setsid", "daemon", "launcher"];
/// Harder ones: stopped, forking while it is swept, one that adopts orphans itself, five hundred at once.
const HARD_SHAPES: [&str; 4] = ["stopped", "hopper", "subreaper", "many"];
/// Shapes that only root can play.
const ROOT_SHAPES: [&str; 2] = ["other-user", "leaves-cgroup"];
const ENDS: [&str; 6] = ["done", "cancel", "timeout", "runner-killed", "keeper-killed", "both-killed"];
const NOBODY: u32 = 65534;

#[derive(Debug, Clone, Copy)]
struct Cell {
    shape: &'static str,
    end: &'static str,
    /// `auto` or `never` for cgroups, `early` for a keeper that is a copy of its host, or `no-keeper`.
    net: &'static str,
    user: User,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    Own,
    Nobody,
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut cells = Vec::new();
    for shape in SHAPES {
        for end in ENDS {
            for net in ["auto", "early", "never"] {
                cells.extend([User::Own, User::Nobody].map(|user| Cell { shape, end, net, user }));
            }
        }
        // Without a keeper no process outlives the host to clean up, which is why the guarantee has another name.
        for end in ["done", "cancel", "timeout"] {
            cells.push(Cell { shape, end, net: "no-keeper", user: User::Own });
        }
    }
    for end in ENDS {
        for net in ["auto", "never"] {
            for shape in HARD_SHAPES {
                let users: &[User] = if shape == "many" { &[User::Own] } else { &[User::Own, User::Nobody] };
                cells.extend(users.iter().map(|user| Cell { shape, end, net, user: *user }));
            }
            cells.extend(ROOT_SHAPES.map(|shape| Cell { shape, end, net, user: User::Own }));
        }
        // Without a cgroup and without a keeper, nothing shows where such a process comes from.
        let nets: &[&str] =
            if end.starts_with("keeper") || end.starts_with("both") { &["auto"] } else { &["auto", "never"] };
        cells.extend(nets.iter().map(|net| Cell { shape: "cleared", end, net, user: User::Own }));
    }
    cells.into_iter().map(Cell::trial).collect()
}

impl Cell {
    fn name(self) -> String {
        let net = match self.net {
            "auto" => "cgroup",
            "early" => "cgroup-early",
            "never" => "no-cgroup",
            other => other,
        };
        let user = match self.user {
            User::Own => "own-user",
            User::Nobody => "nobody",
        };
        format!("tree::{}::{}::{net}::{user}", self.shape, self.end)
    }

    fn trial(self) -> Trial {
        Trial::test(self.name(), move || {
            if self.user == User::Nobody && !rustix::process::getuid().is_root() {
                skip(&self.name(), "only root can become another user");
                return Ok(());
            }
            if ROOT_SHAPES.contains(&self.shape) && !rustix::process::getuid().is_root() {
                skip(&self.name(), "only root can change the user, or leave a cgroup");
                return Ok(());
            }
            self.prove();
            Ok(())
        })
    }

    /// Returns how many processes the tree has before its end.
    fn size(self) -> usize {
        let leader = usize::from(self.end != "done" && self.shape != "launcher");
        leader
            + match self.shape {
                "launcher" => 3,
                "subreaper" => 3,
                "many" => 500,
                // It is counted by its pipe: a search by its id finds it gone.
                "hopper" => 0,
                "other-user" | "leaves-cgroup" | "cleared" => 1,
                _ => 2,
            }
    }

    fn stands(self, proof: &str, pipe: &HopperPipe) -> bool {
        match self.shape {
            "hopper" => pipe.is_held(),
            _ => marked(proof).len() == self.size(),
        }
    }

    /// Returns whether the cgroup alone shows what is left after both were killed.
    fn is_in_cgroup(self, guarantee: &str) -> bool {
        guarantee == "cgroup" && self.shape != "leaves-cgroup"
    }

    fn prove(self) {
        let proof = format!("PROOF={}-{}", std::process::id(), self.name());
        let pipe = HopperPipe::new();
        let mut host = Host::start(self, &proof, &pipe);
        let left = || marked(&proof).into_iter().chain(pipe.is_held().then(|| "the hopper".to_owned()));
        let left = || left().collect::<Vec<String>>();
        let hello = host.hear();
        let (guarantee, keeper) = hello.split_once(' ').expect("says its guarantee and its keeper");
        self.check_guarantee(guarantee);
        self.check_keeper(keeper);
        wait_until("the tree stands", || self.stands(&proof, &pipe));
        host.say("end it");
        if self.end == "runner-killed" {
            host.process.kill().expect("is ours");
            wait_until("nothing survives", || left().is_empty());
        } else if self.end == "both-killed" {
            self.kill_both(&mut host, keeper);
            // With cgroups, the keeper of another test may have ended it already.
            let by_cgroup = self.is_in_cgroup(guarantee);
            assert!(by_cgroup || !left().is_empty(), "something survives both, or this proves nothing");
            self.run_next(&proof, by_cgroup, &|| left().is_empty());
            assert_eq!(left(), [""; 0], "after the next run");
        } else {
            let report = host.hear();
            // Check at once: the report is a promise about this moment.
            let left = left();
            assert!(report.starts_with("swept, survivors: 0"), "{report}");
            assert_eq!(left, [""; 0], "at the moment of the report");
            assert!(host.process.try_wait().expect("waits").is_none(), "the host lives, it was not its end");
            host.say("go");
        }
        host.process.wait().expect("ends");
        if keeper != "none" {
            let keeper: u32 = keeper.parse().expect("a number");
            wait_until("the keeper is gone", || !is_alive(keeper));
            wait_until("its cgroups are gone", || cgroups_of(keeper).is_empty());
        }
        assert_eq!(left(), [""; 0], "and no process came back");
    }

    /// Kills host and keeper so that neither can react to the end of the other.
    fn kill_both(self, host: &mut Host, keeper: &str) {
        let keeper = rustix::process::Pid::from_raw(keeper.parse().expect("a number")).expect("is one");
        // The keeper first: the end of its host would wake it.
        let pids = [keeper, rustix::process::Pid::from_child(&host.process)];
        for pid in pids {
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("is ours");
        }
        // The signal is sent, but a thread that has not run since may still act: it waits for a processor.
        wait_until("both stand still", || pids.iter().all(|pid| is_stopped(*pid)));
        for pid in pids {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("is ours");
        }
        host.process.wait().expect("ends");
        wait_until("both are gone", || {
            pids.iter().all(|pid| !is_alive(pid.as_raw_nonzero().get().cast_unsigned()))
        });
        // The kernel ends the agent itself with its keeper; what it started is left.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    /// Lets another host run to its end, one that keeps no journal where the cgroup has to be enough.
    fn run_next(self, proof: &str, by_cgroup: bool, is_gone: &dyn Fn() -> bool) {
        let (_, marker) = proof.split_once('=').expect("is a variable");
        let mut command = Host::command("next", self);
        if !by_cgroup {
            command.env("SETTLE", marker);
        }
        let output = command.stdin(Stdio::null()).output().expect("starts");
        assert!(output.status.success(), "{output:?}");
        if by_cgroup {
            // Its keeper looks while the first agent begins, and the host does not wait for that.
            wait_until("its keeper has ended what was abandoned", is_gone);
        }
    }

    /// Every keeper has its own process name, however it was started. Only an executed one got the variable.
    fn check_keeper(self, keeper: &str) {
        if keeper == "none" {
            return;
        }
        let read = |file: &str| std::fs::read(format!("/proc/{keeper}/{file}")).expect("it is there");
        // A copy has as much space as its host's arguments had. The environment follows them and must not be read.
        let expected = if self.net == "early" { "bowli\0" } else { "bowline-keeper\0" };
        assert_eq!(String::from_utf8_lossy(&read("cmdline")), expected);
        let asked = String::from_utf8_lossy(&read("environ")).contains("BOWLINE_KEEPER=");
        assert_eq!(asked, self.net != "early");
    }

    fn check_guarantee(self, guarantee: &str) {
        match (self.net, self.user, guarantee) {
            ("no-keeper", _, "group") | ("never", _, "subreaper") | ("auto" | "early", _, "cgroup") => {}
            // The user `nobody` may not create cgroups: the proof is then that the fallback works.
            ("auto" | "early", User::Nobody, "subreaper") => {}
            ("auto" | "early", User::Own, "subreaper") => {
                skip(&self.name(), "cgroups are refused to this user: proved without");
            }
            other => panic!("not the net that was asked for: {other:?}"),
        }
    }
}

/// The host, a process of its own.
struct Host {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Host {
    #[expect(
        clippy::disallowed_methods,
        reason = "the host is started as a shell would, not by the crate under test"
    )]
    fn command(host: &str, cell: Cell) -> Command {
        // Another user can execute the binary by this link, wherever it lies.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("short").env("PLAY", "host").env("HOST", host).env("NET", cell.net).current_dir("/");
        if cell.user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn start(cell: Cell, proof: &str, pipe: &HopperPipe) -> Self {
        let (_, proof) = proof.split_once('=').expect("is a variable");
        let mut command = Self::command("tree", cell);
        command.env("SHAPE", cell.shape).env("END", cell.end).env("HOST_PROOF", proof);
        command.env("PIPE", pipe.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let lines = BufReader::new(process.stdout.take().expect("is piped"));
        Self { process, lines }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("reads");
        line.trim_end().to_owned()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_ref().expect("is piped"), "{line}").expect("writes");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A failed test leaves nothing behind either.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A named pipe that a hopper and all its copies hold open: it closes exactly when the last of them ends.
struct HopperPipe {
    folder: tempfile::TempDir,
    reader: std::fs::File,
}

impl HopperPipe {
    fn new() -> Self {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let folder = tempfile::tempdir().expect("makes a folder");
        let path = folder.path().join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("makes a pipe");
        // Another user writes to it, too.
        for (path, mode) in [(folder.path(), 0o755), (path.as_path(), 0o666)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("sets the mode");
        }
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let reader =
            std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(&path).expect("opens");
        Self { folder, reader }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("pipe")
    }

    /// Returns whether a process holds it.
    fn is_held(&self) -> bool {
        // Nothing is ever written: a read blocks while there is a writer, and returns the end when there is none.
        let read = std::io::Read::read(&mut &self.reader, &mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// Returns whether every thread of a process has stopped.
fn is_stopped(pid: rustix::process::Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("it is there");
    tasks.flatten().all(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:\tT"))
    })
}

/// Returns the cgroups that a keeper left, wherever they are mounted.
fn cgroups_of(keeper: u32) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("reads");
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("reads");
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let Some(mount) = mount.and_then(|line| line.split(' ').nth(1)) else { return Vec::new() };
    let folder = format!("{mount}{own}");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().display().to_string());
    names.filter(|name| name.starts_with(&format!("bowline-{keeper}-"))).collect()
}
