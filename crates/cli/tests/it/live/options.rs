//! `bowline set` and `bowline compact`: options of a running agent, and of one that comes later.

use super::session::{LiveWorld, Session, kill};

#[test]
fn the_permission_mode_holds_from_the_next_tool_on() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one"], &[]);
    session.asks();
    session.decides("approve", &[]);
    session.has_played(1);
    session.done("set", &["permission", "edit"]);
    session.send(&["tool write b.txt two", "say done"], &[]);
    session.has_played(2);
    assert_eq!(session.of("approval_decided").iter().filter(|it| it["by"] == "human").count(), 1);
    assert!(live.path("work/b.txt").exists());
    assert_eq!(session.stop().text(), "done");
}

/// Else the agent acts in its own mode `yolo` without a request, and nothing is left to deny.
#[test]
fn a_mode_of_the_agent_is_no_way_around_the_permission_mode() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--permission", "read"]);
    session.has_played(1);
    let permission = |status: &serde_json::Value| {
        let options = status["options"].as_array().expect("options");
        options.iter().find(|option| option["id"] == "permission").map(|option| option["current"].clone())
    };
    session.done("set", &["mode", "yolo"]);
    assert_eq!(permission(&session.status()), Some("yolo".into()), "Bowline knows what the agent may do");
    session.done("set", &["permission", "read"]);
    session.send(&["tool write evil.txt x", "say two"], &[]);
    session.has_played(2);
    assert!(!live.path("work/evil.txt").exists());
    session.stop();
}

#[test]
fn options_are_checked_and_reported() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    session.done("set", &["model", "practice-small"]);
    session.done("set", &["effort", "high"]);
    let current = |status: &serde_json::Value, id: &str| {
        let options = status["options"].as_array().expect("options");
        options.iter().find(|option| option["id"] == id).map(|option| option["current"].clone())
    };
    let status = session.status();
    assert_eq!(current(&status, "model"), Some("practice-small".into()), "{status}");
    assert_eq!(current(&status, "effort"), Some("high".into()), "{status}");
    for (option, value, error, hint) in [
        (
            "colour",
            "red",
            "error: not possible: the agent has no such setting",
            "hint: the options are model, effort, permission, mode",
        ),
        (
            "model",
            "gpt-0",
            "error: not possible: the agent does not offer this value",
            "hint: the values of `model` are practice-small, practice-large",
        ),
        (
            "permission",
            "most",
            "`most` is no permission mode; there are read, ask, edit and yolo",
            "hint: the values of `permission` are read, ask, edit, yolo",
        ),
    ] {
        session.order("set", &[option, value]).exits(1).tells(&[error, hint]);
    }
    session
        .order("compact", &[])
        .exits(1)
        .tells(&["error: not possible: this agent has no command to compact"]);
    assert_eq!(session.status(), status, "a refused order changes nothing");
    session.stop();
}

#[test]
fn options_that_are_set_without_a_process_hold_for_the_next_one() {
    let live = LiveWorld::new();
    let session = live.start(None, &[]);
    session.done("set", &["model", "practice-small"]);
    session.order("set", &["colour", "red"]).exits(1).tells(&["its process is not running"]);
    session.order("compact", &[]).exits(1).tells(&["send a prompt first"]);
    session.done("set", &["permission", "yolo"]);
    session.send(&["tool write a.txt one", "say done"], &[]);
    let status = session.has_played(1);
    assert_eq!(status["model"], "practice-small", "{status}");
    assert!(live.path("work/a.txt").exists());
    assert_eq!(session.stop().text(), "done");
}

#[test]
fn an_answer_without_a_question_is_refused() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    session.order("answer", &["yes"]).exits(2).tells(&["error: there is no open question"]);
    session.stop();
}

/// Returns the options that `session.json` keeps for the next stint.
fn kept(session: &Session<'_>) -> serde_json::Value {
    let text = std::fs::read_to_string(session.dir().join("session.json")).expect("a description");
    let meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    meta["resume"].clone()
}

#[test]
fn options_that_are_set_hold_for_the_next_stint() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    session.done("set", &["permission", "edit"]);
    session.done("set", &["model", "practice-small"]);
    session.done("set", &["effort", "high"]);
    let journal = session.stop();
    assert_eq!(journal.text(), "one");

    let again = live.start(None, &["--resume", "fix"]);
    // The agent's own mode is another one until its process knows.
    live.end(&["status", "fix"]).exits(0).prints(&["\npermission edit\n"]);
    let kept_before = kept(&again);
    for (option, value) in [("permission", "edit"), ("model", "practice-small"), ("effort", "high")] {
        assert_eq!(kept_before[option], value, "{kept_before}");
    }
    again.send(&["tool write a.txt one", "say two"], &[]);
    let status = again.has_played(2);
    assert_eq!(status["model"], "practice-small", "{status}");
    assert!(live.path("work/a.txt").exists(), "without an approval");
    // Also after a crash. `yolo` has to be chosen anew.
    again.done("set", &["effort", "low"]);
    again.done("set", &["permission", "yolo"]);
    kill(again.runner);
    again.is_gone();
    let last = live.start(None, &["--resume", "fix"]);
    assert_eq!(kept(&last)["effort"], "low");
    last.send(&["tool write b.txt one", "say three"], &[]);
    last.asks();
    last.decides("approve", &[]);
    last.has_played(3);
    let notices = last.of("notice");
    let warned =
        |notice: &serde_json::Value| notice["text"].as_str().is_some_and(|text| text.contains("`yolo`"));
    assert!(notices.iter().any(warned), "{notices:?}");
    last.stop();
}

#[test]
fn a_stricter_permission_mode_counts_before_the_agent_acknowledges_it() {
    let live = LiveWorld::new();
    let session = live.plays(&["ignore set", "say one"], &["--permission", "edit"]);
    session.has_played(1);
    let setting = live.call(&["set", &session.id, "permission", "read"]).start();
    session.until("the stricter mode", |status| {
        let options = status["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        options.iter().any(|option| option["id"] == "permission" && option["current"] == "read")
    });
    session.send(&["tool write a.txt one", "say two"], &[]);
    session.has_played(2);
    assert!(!live.path("work/a.txt").exists(), "the agent asks, and the mode denies");
    setting.end_among_others().exits(124).tells(&["error: the agent did not acknowledge it within 15 s"]);
    let codes: Vec<_> = session.of("notice").into_iter().map(|notice| notice["code"].clone()).collect();
    assert!(codes.contains(&"permission_unconfirmed".into()), "{codes:?}");
    session.stop();
}

/// A live session has no limit of its own: each turn has the whole time.
#[test]
fn the_time_limit_is_that_of_a_turn() {
    let live = LiveWorld::new();
    let session = live.plays(&["sleep 3s", "say one"], &["--timeout", "5s", "--name", "fix"]);
    session.has_played(1);
    session.send(&["sleep 3s", "say two"], &[]);
    session.has_played(2);
    session.send(&["say three", "hang"], &[]);
    session.until("the end of the turn", |status| status["last_turn"]["turn"] == 3);
    live.end(&["wait", "fix"]).exits(124);
    assert_eq!(session.outcomes(), ["completed", "completed", "failed"]);
    session.send(&["say four"], &[]);
    session.has_played(4);
    assert_eq!(session.stop().text(), "onetwothreefour");
}
