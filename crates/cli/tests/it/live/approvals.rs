//! Approvals that a person decides, once and for the session, and those that no person decides in time.

use super::session::{LiveWorld, Session};

/// Returns the decision on each approval, and what or who decided, in order.
fn decisions(session: &Session<'_>) -> Vec<(String, String)> {
    let text = |decided: &serde_json::Value, key: &str| decided[key].as_str().expect("a word").to_owned();
    session.of("approval_decided").iter().map(|it| (text(it, "decision"), text(it, "by"))).collect()
}

fn pairs(expect: &[(&str, &str)]) -> Vec<(String, String)> {
    expect.iter().map(|(decision, by)| ((*decision).to_owned(), (*by).to_owned())).collect()
}

#[test]
fn an_approval_waits_for_a_person_who_allows_it() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt hello", "say done"], &[]);
    let asked = session.asks();
    assert_eq!((&asked["category"], asked["input"]["content"].as_str()), (&"edit".into(), Some("hello")));
    let shown = session.order("status", &[]).exits(0).stdout;
    let id = asked["id"].as_str().expect("an id");
    let line = format!("approval  {id}: practice wants to change files (medium risk, 1 line)\n    + hello\n");
    assert!(
        shown.contains(&line)
            && shown.contains("\n  files: a.txt\n")
            && shown.contains("state     waiting for approval"),
        "{shown}"
    );
    assert!(!live.path("work/a.txt").exists(), "the agent waits");
    session.decides("approve", &[]);
    session.has_played(1);
    assert_eq!(std::fs::read_to_string(live.path("work/a.txt")).expect("a file"), "hello");
    assert_eq!(decisions(&session), pairs(&[("allow", "human")]));
    session.stop().ended("completed");
}

#[test]
fn allowed_for_the_session_is_not_asked_again() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "tool write b.txt two"], &[]);
    let asked = session.asks();
    // Only the agent knows what else it allows then: its own words are shown before and after.
    let scope = "\n  for this session: Yes, and don't ask again for Write in this session\n";
    session.order("status", &[]).exits(0).prints(&[scope]);
    let id = asked["id"].as_str().expect("an id");
    let allowed = session.order("approve", &[id, "--session"]).exits(0);
    allowed.prints(&["allowed for this session: practice wants to change files", scope]);
    session.has_played(1);
    session.send(&["tool write c.txt three"], &[]);
    session.has_played(2);
    assert_eq!(decisions(&session), pairs(&[("allow_always", "human")]));
    assert!(["a.txt", "b.txt", "c.txt"].iter().all(|name| live.path("work").join(name).exists()));
    session.stop();
}

#[test]
fn a_denial_keeps_its_reason_and_the_turn_goes_on() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &[]);
    session.asks();
    session.done("deny", &["--message", "do not touch the lock file"]);
    session.has_played(1);
    let decided = &session.of("approval_decided")[0];
    assert_eq!((&decided["decision"], &decided["by"]), (&"deny".into(), &"human".into()));
    // The event has only the text that the agent gets, and ACP carries none.
    assert_eq!(decided["reason"], serde_json::Value::Null);
    let kept = session.of("notice").iter().any(|notice| {
        notice["code"] == "reason_not_sent"
            && notice["text"].as_str().is_some_and(|text| text.ends_with("do not touch the lock file"))
    });
    assert!(kept, "the reason is kept for people");
    assert!(!live.path("work/a.txt").exists());
    assert_eq!(session.stop().text(), "done");
}

#[test]
fn the_second_decision_names_the_first() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &[]);
    let asked = session.asks();
    let id = asked["id"].as_str().expect("an id");
    session.order("approve", &["no-such-id"]).exits(2).tells(&["there is no open approval `no-such-id`"]);
    session.done("deny", &[id]);
    session.order("approve", &[id]).exits(1).tells(&["error: it was decided already, by a person"]);
    session.has_played(1);
    session.order("approve", &[]).exits(2).tells(&["there is no open approval", "hint: `bowline status"]);
    assert_eq!(decisions(&session), pairs(&[("deny", "human")]));
    session.stop();
}

#[test]
fn an_approval_is_denied_at_its_deadline() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &["--approval-deadline", "1s"]);
    let asked = session.asks();
    assert!(asked["deadline"].is_string(), "{asked}");
    session.has_played(1);
    session.order("approve", &[asked["id"].as_str().expect("an id")]).exits(1).tells(&["by its deadline"]);
    assert_eq!(decisions(&session), pairs(&[("deny", "timeout")]));
    assert_eq!(session.stop().text(), "done");
    assert!(!live.path("work/a.txt").exists());
}

#[test]
fn an_interrupt_decides_an_open_approval() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say never"], &[]);
    session.asks();
    session.done("interrupt", &[]);
    session.has_played(1);
    assert_eq!((decisions(&session).len(), session.outcomes()), (1, vec!["cancelled".to_owned()]));
    session.send(&["say two"], &[]);
    session.has_played(2);
    assert_eq!(session.stop().text(), "two");
    assert!(!live.path("work/a.txt").exists());
}

#[test]
fn a_steer_leaves_an_approval_open() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &[]);
    let asked = session.asks();
    session.done("send", &["--steer", "use tabs"]);
    let status = session.status();
    assert_eq!((&status["state"], &status["approvals"][0]), (&"waiting_for_approval".into(), &asked));
    session.decides("approve", &[]);
    session.has_played(1);
    assert!(session.stop().text().contains("Noted: use tabs"));
}

#[test]
fn changed_input_is_refused_where_the_agent_cannot_take_it() {
    let live = LiveWorld::new();
    let session = live.plays(&["tool write a.txt one", "say done"], &[]);
    let asked = session.asks();
    let id = asked["id"].as_str().expect("an id");
    std::fs::write(live.path("work/input.json"), "{\"content\":\"two\"}").expect("writes");
    let refused = session.order("approve", &[id, "--input", "input.json", "--json"]).exits(1);
    // A program reads the same refusal as the library has it.
    assert_eq!(refused.json(), serde_json::json!({ "refused": "not_offered" }));
    refused.tells(&["error: this agent runs only its own input: leave out `--input`\n"]);
    let unknown = session.order("set", &["colour", "red", "--json"]).exits(1).json();
    assert_eq!(unknown["refused"], "unsupported", "{unknown}");
    session
        .order("approve", &[id, "--input", "none.json"])
        .exits(2)
        .tells(&["could not read `--input none.json`"]);
    assert_eq!(session.status()["state"], "waiting_for_approval");
    session.decides("approve", &[]);
    session.has_played(1);
    session.stop();
}
