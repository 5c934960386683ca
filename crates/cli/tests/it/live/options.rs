//! `bowline set` and `bowline compact`: options of a running agent, and of one that comes later.

use super::session::LiveWorld;

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
    for (option, value, error) in [
        ("colour", "red", "error: not possible: the agent has no such setting"),
        ("model", "gpt-0", "error: not possible: the agent does not offer this value"),
        ("permission", "most", "`most` is no permission mode; there are read, ask, edit and yolo"),
    ] {
        session.order("set", &[option, value]).exits(1).tells(&[error]);
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
