//! `bowline start`: what it returns, how a session is named, resumed, ended while idle, and what outlives its caller.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;

use super::session::{LiveWorld, play};
use crate::journal::is_stint_start;
use crate::world::wait_until;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn start_returns_when_the_runner_listens_on_a_private_socket() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    assert!(session.socket.starts_with(live.path("sockets/bowline")), "{}", session.socket.display());
    let dir = session.socket.parent().expect("a directory");
    assert_eq!((mode(&session.socket), mode(dir)), (0o600, 0o700));
    assert!(session.dir().is_dir());
    session.has_played(1);
    let runner = format!("{} ", session.runner.as_raw_nonzero());
    assert!(live.world().hosts().iter().any(|line| line.starts_with(&runner)), "the runner is a process");
    let named = live.starting(Some(&play(&["say two"])), &["--name", "second"]);
    // Without `--json`, standard output is the id.
    let args: Vec<_> =
        named.command().get_args().filter(|arg| *arg != "--json").map(ToOwned::to_owned).collect();
    let second = live.call(&args).start().end_among_others().exits(0).tells(&["bowline attach second"]);
    assert!(second.stdout.starts_with("s-") && second.stdout.lines().count() == 1, "{second:?}");
    live.end(&["stop", "--all"]).exits(0);
    session.is_gone();
    assert!(!session.socket.exists(), "the runner removes its socket");
}

#[test]
fn start_reports_the_error_of_its_runner() {
    let live = LiveWorld::new();
    live.end(&["start", "-p", "no-such-agent", "x"]).exits(2).tells(&["error: ", "no-such-agent"]);
    live.end(&["start", "-p", "practice,claude", "x"]).exits(2).tells(&["error: a session has one provider"]);
    live.end(&["start", "-p", "practice", "--approval-deadline", "soon", "x"]).exits(2);
    let run_only = [
        &["--ephemeral"][..],
        &["--hint", "fast"],
        &["--retries", "2"],
        &["--fallback", "any"],
        &["--wait-for-limit"],
        &["--repeat-tools"],
        &["--stream-fallback", "never"],
        &["--schema", "schema.json"],
    ];
    for option in run_only {
        let args = [&["start", "-p", "practice", "x"], option].concat();
        live.end(&args)
            .exits(2)
            .tells(&[&format!("error: a session cannot be started with `{}`", option[0])]);
    }
    live.world().nobody_is_left();
    assert_eq!(live.world().journals_begun().len(), 0);
}

#[test]
fn an_agent_that_is_not_installed_gets_no_session() {
    let live = LiveWorld::new();
    for (provider, flags, text) in [
        ("claude", ["--binary", "/no/such/program"].as_slice(), "`/no/such/program` is not usable"),
        ("claude", &[], "`claude` is not usable"),
        ("acp:nonexistentcmd --flag", &[], "`nonexistentcmd` is not usable"),
    ] {
        let args = [&["start", "-p", provider, "--name", "absent", "x"], flags].concat();
        live.end(&args).exits(4).tells(&["error: ", text, "caused by: "]);
        live.end(&["status", "absent"]).exits(2);
    }
}

/// Its interpreter is missing, which only its start shows.
#[test]
fn a_program_that_cannot_be_started_fails_the_turn() {
    let live = LiveWorld::new();
    let program = live.path("broken");
    std::fs::write(&program, "#!/no/such/interpreter\n").expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = program.to_str().expect("a path");
    let started = live.end(&["start", "-p", "claude", "--binary", program, "--json", "x"]);
    let session = live.session(&started.exits(0).json());
    session.order("wait", &[]).exits(4).tells(&["error: the agent is installed, but cannot be started"]);
    assert_eq!(session.status()["state"], "idle");
    session.stop().ended("failed configuration cannot_start");
}

#[test]
fn a_session_without_a_prompt_starts_no_agent_before_the_first_one() {
    let live = LiveWorld::new();
    let session = live.start(None, &[]);
    let status = session.is("idle");
    assert_eq!((&status["has_process"], session.agents().len()), (&false.into(), 0));
    assert_eq!(session.send(&["say one"], &[])["receipt"], "started");
    session.has_played(1);
    let journal = session.stop();
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("one", 1));
}

#[test]
fn a_session_is_found_by_its_name_and_by_parts_of_its_id() {
    let live = LiveWorld::new();
    let first = live.start(None, &["--name", "first"]);
    let second = live.start(None, &["--name", "second"]);
    let found = |name: &str| live.end(&["status", name, "--json"]).exits(0).json()["session"].clone();
    let tail = &first.id[first.id.len() - 8..];
    for name in ["first", first.id.as_str(), tail, &first.id[..first.id.len() - 1]] {
        assert_eq!(found(name), first.id.as_str(), "{name}");
    }
    assert_eq!(found("@last"), second.id.as_str());
    live.end(&["status", "s-"]).exits(2).tells(&["error: ", &first.id, &second.id]);
    live.end(&["status", "nothing"]).exits(2).tells(&["error: ", "nothing", "hint: "]);
    let offered = live.end(&["__complete", "send", "fi"]).exits(0);
    assert_eq!(offered.stdout, format!("first\t{}\n", first.id));
    let all = live.end(&["__complete", "approve", ""]).exits(0).stdout;
    let words: Vec<&str> = all.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["second", "first", "@last", second.id.as_str(), first.id.as_str()]);
    live.end(&["stop", "--all"]).exits(0);
    first.is_gone();
}

#[test]
fn a_stopped_session_is_resumed_by_name_under_its_id() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    let id = session.id.clone();
    let before = session.stop().events.len() as u64;
    live.end(&["send", "fix", "x"]).exits(2).tells(&["bowline start --resume fix"]);
    live.end(&["send", "nosuch", "x"]).exits(2).tells(&["error: there is no session `nosuch`"]);
    live.end(&["stop", "nosuch"]).exits(2).tells(&["error: there is no session `nosuch`"]);
    let again = live.plays(&["say two"], &["--resume", "fix"]);
    assert_eq!(again.id, id);
    again.has_played(2);
    let journal = again.stop();
    let stints: Vec<u64> = journal
        .events
        .iter()
        .filter(|event| is_stint_start(event))
        .map(|event| event["seq"].as_u64().expect("a number"))
        .collect();
    assert_eq!(stints, [1, before + 1]);
    assert_eq!((journal.text().as_str(), journal.count("turn_started")), ("onetwo", 2));
    assert_eq!(live.world().journals().len(), 1, "one session has one directory");
}

#[test]
fn a_running_session_is_not_resumed() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    let second =
        live.starting(Some("practice: say two"), &["--resume", &session.id]).start().end_among_others();
    second.exits(2).tells(&[&format!("the session {} is still running", session.id)]);
    assert_eq!(session.stop().text(), "one");
}

#[test]
fn an_idle_agent_ends_and_the_next_prompt_resumes_it() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--idle", "1s"]);
    session.until("the end of the process", |status| status["has_process"] == false);
    assert_eq!(live.world().agents(), Vec::<String>::new());
    assert_eq!(session.status()["state"], "idle");
    assert_eq!(session.send(&["say two"], &[])["receipt"], "started");
    session.until("the second turn", |status| status["last_turn"]["turn"] == 2);
    let journal = session.stop();
    let natives =
        journal.of("session_started").into_iter().filter_map(|it| it["kind"]["native_session"].as_str());
    let natives: Vec<&str> = natives.collect();
    assert!(natives.len() >= 2 && natives.windows(2).all(|pair| pair[0] == pair[1]), "{natives:?}");
    assert_eq!((journal.text().as_str(), journal.count("process_spawned")), ("onetwo", 2));
}

#[test]
fn the_runner_survives_a_hangup_and_the_end_of_its_callers_group() {
    let live = LiveWorld::new();
    live.gate("gate");
    // The caller is a shell that leads a group, and stays.
    let started = live.starting(Some(&play(&["tool run cat gate", "say done"])), &[]);
    let line = "\"$0\" \"$@\" >started; kill -HUP 0; exec sleep 600";
    let mut shell = crate::support::in_shell(line);
    let own = started.command();
    shell.arg(own.get_program()).args(own.get_args()).env_clear();
    shell
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(live.path("work"));
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let status = shell.status().expect("a shell");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(1),
        "the caller's group was hung up"
    );
    let text = std::fs::read_to_string(live.path("work/started")).expect("a file");
    let session = live.session(&serde_json::from_str(&text).expect("JSON"));
    let _ = rustix::process::kill_process(session.runner, Signal::HUP);
    live.open_gate("gate");
    session.has_played(1);
    assert_eq!(session.stop().text(), "done");
}

#[test]
fn the_runner_survives_the_end_of_its_callers_terminal() {
    let live = LiveWorld::new();
    live.gate("gate");
    let call = live.starting(Some(&play(&["tool run cat gate", "say done"])), &["--name", "fix"]);
    // `script` would be simpler, and is not everywhere. The shell's session ends with the terminal.
    let line = "setsid sh -c '\"$0\" \"$@\"' \"$0\" \"$@\" </dev/null";
    let shown = crate::pty::shown(&call, line, 200);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let id = wait_for_session(&live);
    let status = live.end(&["status", &id, "--json"]).exits(0).json();
    assert_eq!(status["state"], "running", "{status}");
    live.open_gate("gate");
    live.end(&["wait", &id]).exits(0);
    live.end(&["stop", &id]).exits(0);
    wait_until("the end of the runner", || live.world().hosts().is_empty());
    assert_eq!(live.world().journal().text(), "done");
}

fn wait_for_session(live: &LiveWorld) -> String {
    let mut dirs = live.world().journals_begun();
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    dirs.remove(0).file_name().expect("a name").display().to_string()
}

#[test]
fn piped_input_is_the_first_prompt() {
    let live = LiveWorld::new();
    let started = live.starting(None, &[]).input("practice: say piped").start().end_among_others().exits(0);
    let session = live.session(&started.json());
    session.has_played(1);
    assert_eq!(session.stop().text(), "piped");
    // An input that stays open and silent is not waited for.
    let silent = live.starting(None, &[]).open_input().start();
    silent.tells("standard input is silent, and is not read");
    let session = live.session(&silent.end_among_others().exits(0).json());
    session.is("idle");
    session.order("stop", &[]).exits(0);
    session.is_gone();
}

#[test]
fn a_task_file_is_the_first_prompt() {
    let live = LiveWorld::new();
    let task = r#"{"title": "Fix it", "goal": "Go.", "constraints": ["no new packages"], "acceptance": []}"#;
    std::fs::write(live.path("work/task.json"), task).expect("written");
    let session = super::decide::asking_with(&live, &["--task", "task.json"]);
    live.end(&["status", "Fix it"]).exits(0);
    let prompts = std::fs::read_to_string(live.path("work/prompts")).expect("the agent got a prompt");
    assert!(prompts.contains(r"Fix it\n\nGo.\n\nConstraints:\n- no new packages"), "{prompts}");
    session.stop();
    for (text, problem) in [
        (r#"{"title": "T", "goal": "G", "roomPath": "web"}"#, "`--task task.json` has `roomPath`"),
        (r#"{"title": "T", "goal": "G", "branchName": "b"}"#, "`--task task.json` has `branchName`"),
        (r#"{"title": "T", "goal": "G", "policy": {}}"#, "`policy`"),
    ] {
        std::fs::write(live.path("work/task.json"), text).expect("written");
        live.starting(None, &["--task", "task.json"]).start().end_among_others().exits(2).tells(&[problem]);
    }
    live.starting(Some("x"), &["--task", "task.json"]).start().end_among_others().exits(2);
    live.starting(None, &["--task", "none.json"])
        .start()
        .end_among_others()
        .exits(2)
        .tells(&["could not read `--task none.json`"]);
}
