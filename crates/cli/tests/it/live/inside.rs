//! Processes of an agent may watch a session and nothing else, whatever they do to hide where they come from.

use std::path::Path;

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
         env BOWLINE_HOME='{}' XDG_RUNTIME_DIR='{}' '{}' {order} >\"out-$1\" 2>&1\n\
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

#[test]
fn an_agent_cannot_start_a_session() {
    let live = LiveWorld::new();
    prepare(&live, "start -p practice 'practice: say from-inside'");
    let session = asking(&live);
    for (name, _) in WAYS {
        live.open_gate(&format!("gate-{name}"));
        let (code, out) = ordered(&live.path("work"), name);
        assert_eq!(code, "5", "{name}: {out}");
        assert!(out.starts_with("error: an agent cannot start sessions"), "{name}: {out}");
    }
    assert_eq!(live.world().journals_begun().len(), 1);
    session.stop();
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
