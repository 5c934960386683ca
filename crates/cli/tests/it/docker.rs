//! Agents in a container, against a `docker` that writes down its arguments and runs the command on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::clock::takes_at_most;
use crate::journal::{Journal, is_stopping};
use crate::support::bowline;
use crate::world::wait_until;

/// One container, which is this machine. `broken` is `hangs`, `down`, `slow` (questions after the first take 1.1 s), or anything else: every question after the first fails.
const DOCKER: &str = r#"#!/bin/sh
for word in "$@"; do printf '%s\n' "$word" >>"$DOCKER_LOG"; done; echo '#' >>"$DOCKER_LOG"
[ "$1" = exec ] || exit 2; shift
case $DOCKER_BROKEN in
  hangs) exec sleep 600;;
  down) echo 'Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?' >&2; exit 1;;
esac
if [ "$DOCKER_BROKEN" = slow ] && [ -e "$DOCKER_LOG.asked" ]; then sleep 1.1; DOCKER_BROKEN=; fi
if [ -n "$DOCKER_BROKEN" ] && [ -e "$DOCKER_LOG.asked" ]; then echo 'no such container' >&2; exit 1; fi
: >"$DOCKER_LOG.asked"
while :; do
  case $1 in
    -i|-t) shift;;
    -w) cd "$2" || exit 126; shift 2;;
    -e) case $2 in *=*) export "$2";; esac; shift 2;;
    *) break;;
  esac
done
shift
exec "$@"
"#;

struct World {
    dir: tempfile::TempDir,
    mark: String,
}

impl World {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let bin = dir.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        bowline_testkit::write_program(&bin.join("docker"), DOCKER);
        // Inside, the practice agent is found by its name like any other program.
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), bin.join("bowline")).expect("a link");
        Self { mark: format!("{name}-{}", std::process::id()), dir }
    }

    fn command(&self, args: &[&str], broken: &str) -> Command {
        self.command_of("practice", args, broken)
    }

    fn command_of(&self, provider: &str, args: &[&str], broken: &str) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display());
        let mut all = vec!["run", "--provider", provider, "--docker", "box", "--env", "PRACTICE_PACE=0"];
        let mark = format!("DOCKER_TEST={}", self.mark);
        all.extend(["--env", &mark]);
        all.extend(args);
        let mut command = bowline(&all);
        command
            .env("PATH", path)
            .env("HOME", self.dir.path())
            .env("BOWLINE_HOME", self.dir.path().join("home"));
        // Docker's own variables reach it.
        command.env("DOCKER_LOG", self.log()).env("DOCKER_BROKEN", broken).current_dir(self.dir.path());
        command
    }

    fn run(&self, args: &[&str], broken: &str) -> Output {
        self.command(args, broken).output().expect("the command ends")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("docker.log")
    }

    /// The arguments of each call of docker.
    fn calls(&self) -> Vec<Vec<String>> {
        let log = std::fs::read_to_string(self.log()).expect("a log");
        let calls = log.split("#\n").filter(|call| !call.is_empty());
        calls.map(|call| call.lines().map(str::to_owned).collect()).collect()
    }

    /// Counts living processes that carry the mark.
    fn survivors(&self) -> usize {
        let mark = format!("DOCKER_TEST={}", self.mark).into_bytes();
        let processes = std::fs::read_dir("/proc").expect("a /proc").flatten();
        processes.filter(|entry| is_alive(&entry.path()) && has(&entry.path(), &mark)).count()
    }
}

fn is_alive(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
}

fn has(process: &Path, mark: &[u8]) -> bool {
    let environ = std::fs::read(process.join("environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|variable| variable == mark)
}

#[test]
fn an_agent_runs_in_a_container_with_its_variables_and_without_secrets_in_arguments() {
    let world = World::new("runs");
    let cwd = world.dir.path().to_string_lossy().into_owned();
    let secret = "sk-not-in-any-argument";
    let args = [
        "--key",
        "chat-7",
        "--cwd",
        &cwd,
        "--env",
        &format!("DATABASE={secret}"),
        "practice: say Hello from the box",
    ];
    let output = world.run(&args, "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello from the box\n", "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    let calls = world.calls();
    let first = &calls[0];
    let after = |word: &str| first.iter().skip_while(|it| *it != word).nth(1).cloned().unwrap_or_default();
    assert_eq!(first[0], "exec");
    assert!(first.contains(&"-i".to_owned()), "the prompt comes over standard input");
    assert_eq!(after("-w"), cwd);
    assert!(first.iter().any(|it| it.starts_with("BOWLINE_SESSION_ID=s-")), "{first:?}");
    assert!(first.contains(&"DUCTOR_CHAT_ID=chat-7".to_owned()), "{first:?}");
    assert!(first.contains(&"DATABASE".to_owned()), "by name: {first:?}");
    assert!(calls.iter().flatten().all(|word| !word.contains(secret)), "a secret stands in an argument");
    assert_eq!(world.survivors(), 0);
}

/// What is in a container is not ours to see: a path is checked where there is none.
#[test]
fn paths_inside_a_container_need_not_exist_here() {
    let options = ["--cwd", "/only/inside", "--add-dir", "/also/inside", "--image", "/pictures/inside.png"];
    let mut args = vec!["run", "--provider", "claude", "--dry-run", "--output", "json"];
    args.extend(options);
    args.push("What is this?");
    let here = bowline(&args).output().expect("the command ends");
    assert_eq!(here.status.code(), Some(2), "{here:?}");
    let said = String::from_utf8_lossy(&here.stderr).into_owned();
    assert!(said.contains("`--cwd /only/inside` is not a directory"), "{said}");

    args.extend(["--docker", "box"]);
    let inside = bowline(&args).output().expect("the command ends");
    assert_eq!(inside.status.code(), Some(0), "{inside:?}");
    let preview: serde_json::Value = serde_json::from_slice(&inside.stdout).expect("JSON");
    let (args, stdin) = (preview["args"].to_string(), preview["stdin"].to_string());
    assert!(args.contains(r#""-w","/only/inside""#), "{args}");
    assert!(args.contains("/also/inside"), "{args}");
    assert!(args.contains("/pictures/inside.png") || stdin.contains("/pictures/inside.png"), "{preview}");
}

#[test]
fn what_the_agent_started_in_the_container_is_ended_there() {
    let world = World::new("ends");
    let prompt = "practice: child setsid 600\npractice: child daemon 600\npractice: hang";
    let output = world.run(&["--timeout", "2s", prompt], "");
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(world.survivors(), 0);
    assert!(world.calls().len() >= 2, "somebody was asked to end it");
}

/// An agent may use docker's own words on standard error, and go on.
#[test]
fn words_of_docker_from_the_agent_are_no_refusal() {
    let world = World::new("words");
    let agent = world.dir.path().join("bin/claude");
    let text = "#!/bin/sh\necho 'the extension is not running' >&2\nsleep 600 &\nsleep 600\n";
    bowline_testkit::write_program(&agent, text);
    let output =
        world.command_of("claude", &["--timeout", "2s", "hi"], "").output().expect("the command ends");
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert_eq!(world.survivors(), 0);
}

#[test]
fn a_container_that_does_not_answer_leaves_a_leak_that_is_told() {
    let world = World::new("leaks");
    let output = world.run(&["--output", "jsonl", "practice: say hello"], "yes");
    let events = String::from_utf8_lossy(&output.stdout);
    let leaked = events.lines().find(|line| line.contains("\"process_leaked\"")).expect("a leak");
    assert!(leaked.contains("container box") && leaked.contains("no such container"), "{leaked}");
    assert!(!leaked.contains("\"pid\""), "nobody knows a pid: {leaked}");
    let output = World::new("leaks-in-words").run(&["practice: say hello"], "yes");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("possibly still running: the agent in container box ("), "{said}");
    assert!(said.contains("no such container") && !said.contains("pid 0"), "{said}");
}

/// Checks that nothing was started, and that the hint is about docker.
fn nothing_started(output: &Output, hint: &str) {
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let events = String::from_utf8_lossy(&output.stdout);
    assert!(!events.contains("process_leaked"), "nothing was started, so nothing is left: {events}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(hint) && !said.contains("--binary"), "{said}");
}

#[test]
fn a_daemon_that_is_down_started_nothing() {
    let world = World::new("down");
    let output = world.run(&["--output", "jsonl", "practice: say hello"], "down");
    nothing_started(&output, "start the docker daemon");
    assert_eq!(world.calls().len(), 1, "nobody was asked to end what never began, or to try again");
}

#[test]
fn docker_that_is_not_there_started_nothing() {
    let world = World::new("missing");
    let mut command = world.command(&["--output", "jsonl", "practice: say hello"], "");
    let output = command.env("PATH", world.dir.path()).output().expect("the command ends");
    nothing_started(&output, "install docker");
}

/// The agent ends when it is asked to, which it reads late; no survivor may be reported.
#[test]
fn a_docker_that_is_slow_leaves_nobody() {
    let world = World::new("slow");
    let mut child = world
        .command(&["--output", "jsonl", "practice: say hello\npractice: hang"], "slow")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    wait_until("the agent", || world.survivors() > 0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is alive");
    wait_until("the end", || child.try_wait().expect("a status").is_some());
    assert_eq!(world.survivors(), 0);
    let journals = Journal::all(&world.dir.path().join("home"));
    journals[0].check();
    let leaked = journals[0].of("process_leaked");
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[test]
fn a_docker_that_hangs_does_not_hold_up_an_abort() {
    takes_at_most(2_000, || {
        let world = World::new("hangs");
        let mut child = world.command(&["practice: say hello"], "hangs").spawn().expect("the command starts");
        wait_until("the call of docker", || world.log().exists());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is alive");
        wait_until("the end", || child.try_wait().expect("a status").is_some());
        let at = jiff::Timestamp::now();
        let journals = Journal::all(&world.dir.path().join("home"));
        journals[0].check();
        // Whether the agent still runs in there, docker does not say.
        let leaked = journals[0].of("process_leaked");
        assert!(leaked[0]["kind"]["command"].as_str().is_some_and(|it| it.contains("docker")), "{leaked:?}");
        journals[0].until(is_stopping, at)
    });
}
