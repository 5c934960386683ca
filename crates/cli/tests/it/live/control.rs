//! `bowline control`: who leads, also over stints.

use serde_json::json;

use super::session::{LiveWorld, kill, play};

#[test]
fn a_person_who_leads_holds_the_queue_over_a_crash() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &["--name", "fix"]);
    session.has_played(1);
    assert_eq!(session.order("control", &[]).exits(0).stdout, "agent-led\n");
    assert_eq!(session.order("control", &["human-led"]).exits(0).stdout, "done\n");
    let status = session.is("paused_by_human");
    assert_eq!(status["control"], "human_led");
    let shown = session.order("status", &[]).exits(0).stdout;
    assert!(shown.contains("\ncontrol   human-led\n"), "{shown}");
    // The queue waits, in its order, and the receipts say so.
    let receipt = session.send(&["say three"], &[]);
    assert_eq!(
        (&receipt["receipt"], &receipt["ahead"], &receipt["held"]),
        (&"queued".into(), &0.into(), &true.into())
    );
    let told = session.order("send", &[&play(&["say four"])]).exits(0).stdout;
    assert!(told.starts_with("queued behind 1") && told.contains("a person leads"), "{told}");
    // The person sends.
    assert_eq!(session.send(&["say two"], &["--now"])["receipt"], "started");
    session.until("the end of the second turn", |status| status["last_turn"]["turn"] == 2);
    assert_eq!(session.text(), "onetwo");

    kill(session.runner);
    session.is_gone();
    let again = live.start(None, &["--resume", "fix"]);
    let status = again.is("paused_by_human");
    let offered = status["offered"].as_array().expect("prompts").clone();
    assert_eq!(offered.len(), 2, "{status}");
    assert_eq!(again.done("control", &[]), json!({ "control": "human_led" }));
    // An offered prompt is one of the queue, so it waits, too.
    let id = offered[0]["id"].as_str().expect("an id");
    assert_eq!(again.done("send", &["--offered", id])["held"], true);
    again.done("control", &["delegated"]);
    again.has_played(3);
    assert_eq!(again.order("control", &[]).exits(0).stdout, "delegated\n");
    assert_eq!(again.send(&["say five"], &[])["receipt"], "started");
    again.has_played(4);
    let journal = again.stop();
    assert_eq!(journal.text(), "onetwothreefive");
    // In the journal, so a later stint has it again.
    let last = live.start(None, &["--resume", "fix"]);
    assert_eq!(last.status()["control"], "delegated");
    last.stop();
}

#[test]
fn a_typed_prompt_of_the_person_who_leads_is_sent() {
    let live = LiveWorld::new();
    let session = live.plays(&["say one"], &[]);
    session.has_played(1);
    let typed = format!(":lead\n:queue practice: say three\n{}\n", play(&["say two"]));
    let attached = live.call(&["attach", &session.id]).input(typed).start();
    session.says("two");
    session.until("the end of the turn", |status| status["last_turn"]["turn"] == 2);
    assert_eq!(session.text(), "onetwo");
    session.done("control", &["agent-led"]);
    session.has_played(3);
    assert_eq!(session.stop().text(), "onetwothree");
    attached.end_among_others().exits(0);
}

#[test]
fn an_unknown_mode_is_a_usage_error() {
    let live = LiveWorld::new();
    live.end(&["control", "fix", "mine"]).exits(2).tells(&["invalid value `mine`", "human-led"]);
}
