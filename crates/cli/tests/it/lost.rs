//! What is left when the command is killed with SIGKILL, and how the next run puts it in order.

use std::path::Path;

use bowline::journal::{Home, Options, SessionMeta, Writer};
use bowline::kinds::SessionState;
use rustix::process::Signal;

use crate::journal::Journal;
use crate::support::in_shell;
use crate::world::{World, wait_until};

const SECRET: &str = "sk-of-a-server-that-nobody-has";

fn state(dir: &Path) -> SessionState {
    SessionMeta::read(dir).expect("a session").state
}

#[test]
fn the_next_run_removes_secrets_and_says_how_it_ended() {
    let world = World::new();
    let servers =
        format!(r#"{{"mcpServers": {{"one": {{"command": "x", "env": {{"TOKEN": "{SECRET}"}}}}}}}}"#);
    std::fs::write(world.path("mcp.json"), servers).expect("a file");
    let init = r#"echo '{"type":"system","subtype":"init","session_id":"native-1","model":"m"}'"#;
    let call = world.claude(&format!("{init}; exec sleep 600"));
    let mut running = call.with(&["--mcp-config".as_ref(), world.path("mcp.json").as_os_str()]).start();
    wait_until("the agent", || world.has_line(&["native-1"]));
    let lost = world.journals_begun().remove(0);
    let secrets = || in_shell(&format!("grep -rl {SECRET} '{}'", world.path("home").display())).output();
    assert!(secrets().expect("a shell").status.success(), "the agent can find it");
    running.kill();
    let _ = running.end_among_others();
    assert_ne!(state(&lost), SessionState::Failed);

    // Another run, which goes on beside it, finds it in order.
    let next = world.practice(&["say part", "hang"]).start();
    wait_until("the end on file", || state(&lost) == SessionState::Failed);
    let own = world.journals_begun().into_iter().find(|dir| *dir != lost).expect("another session");
    assert_ne!(state(&own), SessionState::Failed, "a runner that lives is left alone");
    next.signal(Signal::INT);
    next.end().exits(130);
    assert!(!secrets().expect("a shell").status.success(), "nothing has it any more");
    assert!(!lost.join("files").exists());
    for journal in Journal::all(&world.path("home")) {
        journal.check();
    }
    let marks = std::fs::read_dir(world.path("home").join("open")).expect("the marks").count();
    assert_eq!(marks, 0, "both are over");
}

#[test]
fn the_next_run_removes_what_a_killed_question_left() {
    let world = World::new();
    let left = world.path("tmp").join("bowline-probe-s-20260101-000000000-00000000");
    std::fs::create_dir(&left).expect("a directory");
    let aged = in_shell(&format!("touch -d '1 hour ago' '{}'", left.display())).status();
    assert!(aged.expect("a shell").success());
    let next = world.practice(&["hang"]).start();
    wait_until("its end", || !left.exists());
    next.signal(Signal::INT);
    next.end().exits(130);
}

/// Command and keeper go at the same moment, and with them everybody who knew of what the agent had started.
#[test]
fn the_next_run_ends_what_outlived_command_and_keeper() {
    let world = World::new();
    let mut running = world.practice(&["child setsid 600", "say there", "hang"]).start();
    running.has_agents(2);
    let keeper = running.keeper();
    // Stopped, the command cannot do the keeper's work when that is gone.
    running.signal(Signal::STOP);
    rustix::process::kill_process(keeper, Signal::KILL).expect("it is there");
    running.kill();
    let _ = running.end_among_others();
    wait_until("the agent's end", || world.agents().len() < 2);
    world.practice(&["say done"]).start().end().exits(0);
    world.nobody_is_left();
}

/// A session that ran in a container when its runner was killed, and a stand-in for its agent: it has the session's mark
/// and belongs to no keeper. `docker exec NAME …` runs it here.
fn lost_in_a_container(world: &World, docker: &str) -> (std::path::PathBuf, std::process::Child) {
    std::fs::create_dir(world.path("bin")).expect("a directory");
    world.script("bin/docker", &format!(r#"[ "$1 $2" = "exec box" ] || exit 2; shift 2; {docker}exec "$@""#));
    let mut meta = SessionMeta::new(
        "s-20260101-000000000-00000000".into(),
        "practice",
        bowline_protocol::Timestamp::EPOCH,
    );
    (meta.container, meta.state) = (Some("box".to_owned()), SessionState::Running);
    let id = meta.id.clone();
    let writer = Writer::create(&Home::at(world.path("home")), meta, Options::default()).expect("a session");
    let agent = in_shell("exec sleep 600").env("BOWLINE_SESSION_ID", id.as_str()).spawn().expect("a shell");
    (writer.dir().to_owned(), agent)
}

fn path(world: &World) -> String {
    format!("{}:/usr/local/bin:/usr/bin:/bin", world.path("bin").display())
}

/// It was killed, and nothing is said to be left.
fn was_ended(lost: &Path, mut agent: std::process::Child) {
    let ended = agent.try_wait().expect("a status");
    if ended.is_none() {
        agent.kill().expect("it can be ended");
    }
    let ended = ended.expect("it was ended before its session was called over");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
    let said = std::fs::read_to_string(lost.join("events.jsonl")).expect("events");
    assert!(!said.contains("process_leaked"), "{said}");
}

#[test]
fn the_next_run_ends_an_agent_that_stayed_in_its_container() {
    let world = World::new();
    let (lost, agent) = lost_in_a_container(&world, "");
    let next = world.practice(&["hang"]).env("PATH", path(&world)).start();
    wait_until("the end on file", || state(&lost) == SessionState::Failed);
    next.signal(Signal::INT);
    next.end().exits(130);
    was_ended(&lost, agent);
}

#[test]
fn a_short_run_waits_for_a_docker_that_takes_its_time() {
    let world = World::new();
    let (lost, agent) = lost_in_a_container(&world, "sleep 1; ");
    world.practice(&["say done"]).env("PATH", path(&world)).start().end().exits(0);
    assert_eq!(state(&lost), SessionState::Failed, "it is in order when the command is over");
    was_ended(&lost, agent);
}
