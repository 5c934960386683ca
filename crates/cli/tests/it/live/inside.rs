//! Processes of an agent may watch a session and nothing else, whatever they do to hide where they come from.

use std::path::Path;

use serde_json::Value;

use super::session::{LiveWorld, Session};
use crate::world::wait_until;

/// How the agent's command starts a process that gives an order.
const WAYS: [(&str, &str); 4] = [
    ("child", "sh order.sh child"),
    ("grandchild", "setsid sh -c 'setsid sh order.sh grandchild & exit'"),
    ("cleared", "env -i PATH=/usr/bin:/bin sh order.sh cleared"),
    (
        "cleared-grandchild",
        "setsid env -i PATH=/usr/bin:/bin sh -c 'setsid sh order.sh cleared-grandchild & exit'",
    ),
];

/// Writes the program of the agent: each way waits for its gate, gives the order, and writes down the exit code.
fn prepare(live: &LiveWorld, order: &str) {
    let text = format!(
        "cat \"gate-$1\" >/dev/null\n\
         env FROM_THE_AGENT=1 BOWLINE_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' {order} >\"out-$1\" 2>&1\n\
         echo $? >\"code.$1\"; mv \"code.$1\" \"code-$1\"\n",
        live.path("home").display(),
        live.path("sockets").display(),
        env!("CARGO_BIN_EXE_bowline"),
    );
    std::fs::write(live.path("work/order.sh"), text).expect("writes");
    let mut launch = String::new();
    for (name, command) in WAYS {
        live.gate(&format!("gate-{name}"));
        launch += &format!("{command} </dev/null >/dev/null 2>&1 &\n");
    }
    std::fs::write(live.path("work/launch.sh"), launch).expect("writes");
}

/// Returns the exit code and the output of an order.
fn ordered(work: &Path, name: &str) -> (String, String) {
    let code = work.join(format!("code-{name}"));
    wait_until(name, || code.exists());
    let read = |path| std::fs::read_to_string(path).expect("a file").trim().to_owned();
    (read(code), read(work.join(format!("out-{name}"))))
}

/// Starts a session whose agent has the processes, and asks for an approval.
fn asking(live: &LiveWorld) -> Session<'_> {
    let session = live.plays(&["tool run sh launch.sh", "tool write a.txt one", "say done"], &[]);
    let first = session.asks();
    session.decides("approve", &[]);
    session.until("the second approval", |status| {
        status["approvals"][0]["id"].is_string() && status["approvals"][0]["id"] != first["id"]
    });
    session
}

#[test]
fn an_agent_cannot_approve_its_own_request() {
    let live = LiveWorld::new();
    prepare(&live, "approve @last");
    let session = asking(&live);
    let asked = session.asks();
    for (name, _) in WAYS {
        live.open_gate(&format!("gate-{name}"));
        let (code, out) = ordered(&live.path("work"), name);
        assert_eq!(code, "5", "{name}: {out}");
        assert!(out.starts_with("error: not permitted"), "{name}: {out}");
    }
    assert_eq!(session.asks(), asked, "the approval is still open");
    assert!(!live.path("work/a.txt").exists());
    // The user is not an agent.
    session.decides("approve", &[]);
    session.has_played(1);
    let journal = session.stop();
    assert_eq!(journal.count("approval_decided"), 2);
}

#[test]
fn an_agent_cannot_give_its_session_another_permission_mode() {
    let live = LiveWorld::new();
    prepare(&live, "set @last permission yolo");
    let session = asking(&live);
    for (name, _) in WAYS {
        live.open_gate(&format!("gate-{name}"));
        let (code, out) = ordered(&live.path("work"), name);
        assert_eq!(code, "5", "{name}: {out}");
    }
    session.done("deny", &[]);
    session.has_played(1);
    session.send(&["tool write b.txt two"], &[]);
    session.asks();
    session.stop();
}

#[test]
fn an_agent_cannot_stop_or_remove_sessions_or_trust_a_project() {
    for (order, refusal) in [
        ("stop @last", "error: an agent cannot stop sessions"),
        ("stop --all", "error: an agent cannot stop sessions"),
        ("sessions remove @last", "error: an agent cannot remove sessions"),
        ("trust", "error: an agent cannot trust project files"),
    ] {
        let live = LiveWorld::new();
        prepare(&live, order);
        let session = asking(&live);
        for (name, _) in WAYS {
            live.open_gate(&format!("gate-{name}"));
            let (code, out) = ordered(&live.path("work"), name);
            assert_eq!(code, "5", "{order}, {name}: {out}");
            assert!(out.starts_with(refusal), "{order}, {name}: {out}");
        }
        session.asks();
        session.stop();
    }
}

#[test]
fn an_agent_may_watch() {
    let live = LiveWorld::new();
    prepare(&live, "status @last");
    let session = asking(&live);
    for (name, _) in WAYS {
        live.open_gate(&format!("gate-{name}"));
        let (code, out) = ordered(&live.path("work"), name);
        assert_eq!(code, "0", "{name}: {out}");
        assert!(out.contains("waiting for approval"), "{name}: {out}");
    }
    session.stop();
}

/// Waits for the agent's request to start a session, and returns it.
fn wants_a_session(session: &Session<'_>) -> Value {
    let is_start = |asked: &&Value| asked["id"].as_str().is_some_and(|id| id.starts_with("start-"));
    let find =
        |status: &Value| status["approvals"].as_array().and_then(|all| all.iter().find(is_start).cloned());
    let status = session.until("a request to start a session", |status| find(status).is_some());
    find(&status).expect("it was there")
}

/// Returns the parents of a process.
fn parents(pid: i64) -> Vec<i64> {
    let parent = |pid: &i64| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(parent(&pid), parent).collect()
}

#[test]
fn an_agent_starts_a_session_if_a_person_allows_it() {
    let live = LiveWorld::new();
    prepare(&live, "start -p practice --json --name \"helper-$1\" 'practice: say from-inside'");
    let session = asking(&live);
    for (name, _) in WAYS {
        live.open_gate(&format!("gate-{name}"));
        let asked = wants_a_session(&session);
        assert_eq!(
            (asked["risk"].as_str(), asked["summary"].as_str()),
            (
                Some("high"),
                Some(
                    format!("start a session of practice with permission ask, named `helper-{name}`: practice: say from-inside")
                        .as_str()
                )
            )
        );
        session.done("approve", &[asked["id"].as_str().expect("an id")]);
        let (code, out) = ordered(&live.path("work"), name);
        assert_eq!(code, "0", "{name}: {out}");
        let started = out.lines().find(|line| line.starts_with('{')).expect("the session");
        let started: Value = serde_json::from_str(started).expect("JSON");
        assert_eq!(started["parent"], session.id.as_str());
        let child = started["session"].as_str().expect("an id");
        assert_eq!(live.end(&["wait", child]).exits(0).stdout, "from-inside\n");
        let meta =
            std::fs::read(live.path("home/sessions").join(child).join("session.json")).expect("a file");
        let meta: Value = serde_json::from_slice(&meta).expect("JSON");
        assert_eq!(
            (&meta["parent"], &meta["resume"]["permission"], &meta["label"]),
            (&session.id.as_str().into(), &"ask".into(), &format!("helper-{name}").into())
        );
        // Outside of the agent's tree, with nothing of the agent's environment.
        let runner = meta["runner"]["pid"].as_i64().expect("a pid");
        let parents = parents(runner);
        assert!(!parents.contains(&i64::from(session.runner.as_raw_nonzero().get())), "{parents:?}");
        let environ = std::fs::read(format!("/proc/{runner}/environ")).expect("it lives");
        assert!(!String::from_utf8_lossy(&environ).contains("FROM_THE_AGENT"), "{name}");
    }
    assert_eq!(live.world().journals_begun().len(), 1 + WAYS.len());
    // The others outlive it.
    session.order("stop", &[]).exits(0);
    for (name, _) in WAYS {
        live.end(&["status", &format!("helper-{name}")]).exits(0);
    }
    live.end(&["stop", "--all"]).exits(0);
    session.is_gone();
}

#[test]
fn an_agent_whose_session_is_denied_gets_the_reason() {
    let live = LiveWorld::new();
    prepare(&live, "start -p practice 'practice: say from-inside'");
    let session = asking(&live);
    let (name, _) = WAYS[0];
    live.open_gate(&format!("gate-{name}"));
    let asked = wants_a_session(&session);
    session.done("deny", &[asked["id"].as_str().expect("an id"), "--message", "one is enough"]);
    let (code, out) = ordered(&live.path("work"), name);
    assert_eq!(code, "5", "{out}");
    assert!(out.contains("error: the session was not started: denied by a person: one is enough"), "{out}");
    assert!(out.contains("hint: do not ask again"), "{out}");
    // A session that ends answers what waits.
    let (name, _) = WAYS[1];
    live.open_gate(&format!("gate-{name}"));
    wants_a_session(&session);
    assert_eq!(live.world().journals_begun().len(), 1);
    session.stop();
}

#[test]
fn a_mode_that_is_narrowed_while_a_request_waits_counts() {
    let live = LiveWorld::new();
    prepare(&live, "start -p practice --permission edit 'practice: say from-inside'");
    let session = live.plays(&["tool run sh launch.sh", "say done"], &["--permission", "edit"]);
    session.asks();
    session.decides("approve", &[]);
    let (name, _) = WAYS[0];
    live.open_gate(&format!("gate-{name}"));
    let asked = wants_a_session(&session);
    session.done("set", &["permission", "ask"]);
    session.done("approve", &[asked["id"].as_str().expect("an id")]);
    let (code, out) = ordered(&live.path("work"), name);
    assert_eq!(code, "5", "{out}");
    assert!(out.contains("the permission mode of this session is narrower by now"), "{out}");
    assert_eq!(live.world().journals_begun().len(), 1);
    session.stop();
}

#[test]
fn an_agent_chooses_nothing_that_widens_its_session() {
    let live = LiveWorld::new();
    let orders = [
        ("-p practice --permission yolo x", "with `--permission yolo`"),
        ("-p practice --cwd / x", "with `--cwd`"),
        ("-p practice --env A=b x", "with `--env`"),
        ("-p practice --add-dir / x", "with `--add-dir`"),
        ("-p practice --mcp-config m.json x", "with `--mcp-config`"),
        ("-p practice --agent-arg=-x x", "with `--agent-arg`"),
        ("-p practice --binary /bin/sh x", "with `--binary`"),
        ("-p practice --allow-tool Bash x", "with `--allow-tool`"),
        ("--resume @last x", "with `--resume`"),
        ("-p 'acp:sh -c id' x", "name of one provider"),
        ("-p practice,codex x", "name of one provider"),
        ("-p practice", "needs a prompt"),
        ("x", "has to name the provider"),
    ];
    let (home, sockets, program) =
        (live.path("home"), live.path("sockets"), Path::new(env!("CARGO_BIN_EXE_bowline")));
    let steps = orders.map(|(order, _)| {
        format!(
            "tool run BOWLINE_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' start {order}",
            home.display(),
            sockets.display(),
            program.display()
        )
    });
    let session = live.plays(&steps.each_ref().map(String::as_str), &["--permission", "yolo"]);
    session.has_played(1);
    let finished = session.of("tool_finished");
    assert_eq!(finished.len(), orders.len());
    for ((order, expected), finished) in orders.iter().zip(&finished) {
        let text = finished["output"]["text"].as_str().unwrap_or_default();
        assert!(text.contains(expected), "{order}: {finished:#}");
        assert_eq!(finished["status"], "failed", "{order}");
    }
    assert_eq!(session.of("approval_asked").iter().filter(|it| it["risk"] == "high").count(), 0);
    assert_eq!(live.world().journals_begun().len(), 1);
    session.stop();
}

#[test]
fn an_agent_of_a_run_without_a_person_starts_nothing() {
    let live = LiveWorld::new();
    let step = format!(
        "practice: tool run BOWLINE_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' start -p practice hello >out.txt 2>&1",
        live.path("home").display(),
        live.path("sockets").display(),
        env!("CARGO_BIN_EXE_bowline"),
    );
    live.end(&["run", "-p", "practice", "--permission", "yolo", &step]);
    let out = std::fs::read_to_string(live.path("work/out.txt")).expect("it was played");
    assert!(out.starts_with("error: an agent of `bowline run` cannot start sessions"), "{out}");
    assert!(out.contains("hint: no person decides its approvals"), "{out}");
    assert_eq!(live.world().journals_begun().len(), 1);
}

#[test]
fn the_agent_of_another_session_may_watch_only() {
    let live = LiveWorld::new();
    let asking = live.plays(&["tool write a.txt one", "say done"], &["--name", "asking"]);
    asking.asks();
    let line = |order: &str| {
        format!(
            "tool run BOWLINE_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' {order}",
            live.path("home").display(),
            live.path("sockets").display(),
            env!("CARGO_BIN_EXE_bowline")
        )
    };
    let orders = ["approve asking", "send asking hello", "interrupt asking", "set asking permission yolo"];
    let steps: Vec<String> = orders.iter().map(|order| line(order)).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let other = live.plays(&steps, &["--permission", "yolo", "--name", "other"]);
    other.has_played(1);
    let codes: Vec<_> = other.of("tool_finished").iter().map(|it| it["status"].clone()).collect();
    assert_eq!(codes, ["failed"; 4], "{:#?}", other.of("tool_finished"));
    let outputs = other.of("tool_finished");
    assert!(
        outputs
            .iter()
            .all(|it| it["output"]["text"].as_str().is_some_and(|text| text.contains("not permitted"))),
        "{outputs:#?}"
    );
    let status = asking.status();
    assert_eq!(
        (&status["state"], &status["queue"]),
        (&"waiting_for_approval".into(), &serde_json::Value::Null)
    );
    live.end(&["stop", "--all"]).exits(0);
    asking.is_gone();
}
