//! Interrupts end a turn; a stop ends the program.

use bowline_protocol::kinds::{Outcome, SessionState};
use bowline_protocol::{ApprovalVerdict, SessionOrder, WhenBusy};

use super::*;
use crate::run::SyncId;
use crate::run::tests::decisions::{SHELL, TAKEN_BACK};

const CANCELLED: &str = r#"{"id":3,"result":{"stopReason":"cancelled"}}"#;

#[test]
fn an_interrupt_ends_the_turn_and_keeps_the_process() {
    let mut world = talking();
    world.says(&says("partial"));
    let log = after(&mut world, |world| {
        world.order(1, SessionOrder::Interrupt).order(2, SessionOrder::Interrupt);
    });
    assert_eq!(log, "!write !answer(1, done) !answer(2, done)", "one request for a turn");
    world.says(CANCELLED);
    assert_eq!(world.run.state(), SessionState::Idle);
    let last = world.run.snapshot().expect("live").last_turn.expect("a turn");
    assert_eq!((last.turn, last.outcome), (1, Outcome::Cancelled));
    world.order(3, SessionOrder::Interrupt).order(4, prompt("go on", WhenBusy::Queue));
    assert!(world.log().contains("!answer(3, refused: no turn is running)"), "{}", world.log());
    assert!(world.log().ends_with("!answer(4, started:2)"), "{}", world.log());
}

#[test]
fn an_interrupt_without_effect_climbs_the_ladder() {
    let mut world = talking();
    world.order(1, SessionOrder::Interrupt);
    let log = after(&mut world, |world| {
        world.wait(9_999);
    });
    assert_eq!(log, "");
    world.wait_for_action("!signal(Terminate, Tree)");
    assert!(world.log().contains("notice:interrupt_ignored"), "{}", world.log());
    world.killed(15).swept();
    assert!(world.log().contains("turn_ended:cancelled"), "{}", world.log());
    assert_eq!(world.run.state(), SessionState::Idle);
    world.order(2, prompt("again", WhenBusy::Queue));
    assert!(world.log().ends_with("!plan(again)"), "{}", world.log());
}

#[test]
fn an_interrupt_denies_what_waits_for_a_person() {
    let mut world = talking();
    world.says(SHELL);
    assert_eq!(world.run.state(), SessionState::WaitingForApproval);
    let log = after(&mut world, |world| {
        world.order(1, SessionOrder::Interrupt).give(RunInput::Synced(SyncId(1)));
    });
    assert!(
        log.starts_with("!write approval_decided state:running !sync(1)") || log.contains("approval_decided")
    );
    assert_eq!(log.matches("approval_decided").count(), 1, "{log}");
    world.says(CANCELLED);
    assert_eq!(world.run.state(), SessionState::Idle);
}

#[test]
fn a_prompt_now_interrupts_and_is_next() {
    let mut world = talking();
    world.order(1, prompt("later", WhenBusy::Queue)).order(2, prompt("now", WhenBusy::Now));
    assert!(world.log().contains("!answer(2, queued:0)"), "{}", world.log());
    world.says(CANCELLED);
    // The cancelled turn does not return the queue: its prompt was meant to cancel it.
    assert!(!world.log().contains("prompt_removed:returned"), "{}", world.log());
    let snapshot = world.run.snapshot().expect("live");
    assert_eq!(snapshot.turn, Some(2));
    assert_eq!(snapshot.queue.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["later"]);
}

#[test]
fn the_state_stays_true_while_the_agent_talks_during_an_approval() {
    let mut world = talking();
    world.says(SHELL);
    let log = after(&mut world, |world| {
        world.says(&says("a sub-agent goes on")).wait(3_600_000);
    });
    assert!(!log.contains("state:"), "{log}");
    assert_eq!(world.run.state(), SessionState::WaitingForApproval);
    assert_eq!(world.run.snapshot().expect("live").approvals.len(), 1);
    let verdict = ApprovalVerdict::Allow { input: None };
    world.order(1, SessionOrder::Decide { approval: None, verdict });
    assert_eq!(world.run.state(), SessionState::Running);
    assert!(world.run.snapshot().expect("live").approvals.is_empty());
    let mut world = talking();
    let again = SHELL.replace(r#""id":1"#, r#""id":0"#);
    world.says(&again).says(TAKEN_BACK);
    assert_eq!(world.run.state(), SessionState::Running);
    // Also in one read of the pipe.
    let mut world = talking();
    world.says(&format!("{again}\n{TAKEN_BACK}"));
    assert_eq!(world.run.state(), SessionState::Running, "{}", world.log());
}

#[test]
fn an_interrupt_before_the_process_runs_cancels_the_turn() {
    let mut world = World::live(|_, _| {});
    world.give(RunInput::Begin).order(1, SessionOrder::Interrupt);
    world.give(RunInput::Spawned { pid: 7, containment: "test" }).killed(9).swept();
    assert!(world.log().contains("turn_ended:cancelled"), "{}", world.log());
    assert_eq!(world.run.state(), SessionState::Idle);
    // While the host makes the plan, the prompt goes back.
    world.order(2, prompt("next", WhenBusy::Queue)).order(3, SessionOrder::Interrupt);
    assert!(
        world.log().ends_with("prompt_removed:returned state:idle !answer(2, queued:0) !answer(3, done)"),
        "{}",
        world.log()
    );
}

#[test]
fn a_decision_for_a_request_of_an_earlier_process_meets_no_other_one() {
    let mut world = talking();
    world.says(SHELL);
    let id = |world: &World| world.run.snapshot().expect("live").approvals[0].id.clone();
    let first = id(&world);
    world.killed(9).swept();
    world.order(1, prompt("again", WhenBusy::Queue));
    next_process(&mut world, |_| {});
    world.says(crate::run::tests::decisions::HELLO).says(crate::run::tests::decisions::SESSION).says(SHELL);
    let second = id(&world);
    assert_ne!(first, second, "the agent calls both `1`");
    let allow = |approval| SessionOrder::Decide {
        approval: Some(approval),
        verdict: ApprovalVerdict::Allow { input: None },
    };
    world.order(2, allow(first));
    assert!(world.log().contains("!answer(2, refused: it was decided already"), "{}", world.log());
    assert_eq!(world.run.state(), SessionState::WaitingForApproval);
    let log = after(&mut world, |world| {
        world.order(3, allow(second)).give(RunInput::Synced(SyncId(99)));
    });
    assert!(log.contains("!answer(3, done)") && log.ends_with("!write"), "{log}");
}
