//! Steers: acknowledged, read, lost, and never sent twice.

use bowline_protocol::kinds::SessionState;
use bowline_protocol::{SessionOrder, WhenBusy};

use super::*;

/// The introduction of an agent that takes steers, and acknowledges them by its response.
pub(super) const STEERABLE: &str =
    r#"{"id":1,"result":{"protocolVersion":1,"_meta":{"steering":{"supported":true}}}}"#;

/// A session whose first turn runs, and whose agent has a steer that it has not acknowledged.
fn steered() -> World {
    let mut world = World::live(|_, _| {});
    world.give(RunInput::Begin);
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(STEERABLE).says(SESSION).says(&says("one"));
    world.order(1, prompt("and tests", WhenBusy::Steer));
    assert!(!world.log().contains("!answer(1"), "it waits for the agent: {}", world.log());
    world
}

/// Checks that the steer is offered, and not sent by itself.
fn is_offered(world: &World) {
    let snapshot = world.run.snapshot().expect("live");
    let offered: Vec<&str> = snapshot.offered.iter().map(|it| it.text.as_str()).collect();
    assert_eq!((offered, snapshot.queue.len()), (vec!["and tests"], 0), "{}", world.log());
    assert_eq!(world.log().matches("turn_started").count(), 1, "{}", world.log());
    assert!(!world.log().contains("!plan"), "{}", world.log());
}

/// A process that died with the steer may have read it, and would resume with it.
#[test]
fn a_steer_that_died_with_the_agent_is_offered_and_not_sent() {
    let mut world = steered();
    world.killed(9).swept();
    let answer = "!answer(1, refused: the agent's process ended before it acknowledged it)";
    assert!(world.log().contains(answer), "{}", world.log());
    is_offered(&world);
    // Also if the turn had completed.
    let mut world = steered();
    world.says(&done(3)).exits(0).swept();
    assert!(world.log().contains(answer), "{}", world.log());
    is_offered(&world);
    let id = world.run.snapshot().expect("live").offered[0].id.clone();
    world.order(2, SessionOrder::SendOffered { prompt: id });
    assert!(world.log().ends_with("!plan(and tests)"), "{}", world.log());
    next_process(&mut world, |_| {});
    assert!(world.log().contains("!answer(2, started:2)"), "{}", world.log());
}

#[test]
fn a_steer_without_an_acknowledgement_is_the_next_prompt() {
    let mut world = steered();
    world.wait(14_999);
    assert!(!world.log().contains("!answer(1"), "{}", world.log());
    world.wait(1);
    let answer = "!answer(1, refused: the agent did not acknowledge it within 15 s)";
    assert!(world.log().contains(answer), "{}", world.log());
    assert_eq!(world.run.snapshot().expect("live").queue.len(), 1);
    world.says(&done(3));
    assert_eq!(world.log().matches("turn_started").count(), 2, "{}", world.log());
}

/// Nothing is sent by itself after a turn that did not complete, also if the 15 s end later.
#[test]
fn a_steer_of_an_interrupted_turn_is_offered_when_its_time_is_over() {
    let mut world = steered();
    world.order(2, SessionOrder::Interrupt).says(r#"{"id":3,"result":{"stopReason":"cancelled"}}"#);
    world.wait(15_000);
    assert!(world.log().contains("!answer(1, refused: the agent did not"), "{}", world.log());
    is_offered(&world);
}

#[test]
fn a_steer_without_a_turn_is_refused_and_begins_none() {
    let over = |world: &mut World, order: u64| {
        let log = after(world, |world| {
            world.order(order, prompt("and skip the tests", WhenBusy::Steer));
        });
        assert_eq!(log, format!("!answer({order}, refused: no turn is running)"));
    };
    // Before the first prompt, after a turn, while its files are read, and without a process.
    let mut world = World::live(|plan, _| plan.prompt = None);
    world.give(RunInput::Begin);
    over(&mut world, 1);
    let mut world = World::live(|plan, _| plan.files = true);
    world.give(RunInput::Begin).give(RunInput::Prepared(Ok(())));
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(STEERABLE).says(SESSION).says(&done(3));
    assert_eq!(world.run.state(), SessionState::Running, "{}", world.log());
    over(&mut world, 1);
    world.give(RunInput::Files(Vec::new()));
    over(&mut world, 2);
    world.killed(9).swept().give(RunInput::Files(Vec::new()));
    over(&mut world, 3);
    let snapshot = world.run.snapshot().expect("live");
    assert_eq!((snapshot.queue.len(), snapshot.offered.len()), (0, 0), "the caller has the text");
    // While a process is planned, the turn is to come.
    world.order(4, prompt("go", WhenBusy::Queue)).order(5, prompt("steer", WhenBusy::Steer));
    assert!(world.log().ends_with("!answer(5, refused: the agent cannot be steered: the agent is starting)"));
}

#[test]
fn prompts_beside_a_steer_have_ids_of_their_own() {
    let mut world = steered();
    world.order(2, prompt("later", WhenBusy::Queue)).order(3, prompt("second steer", WhenBusy::Steer));
    world.killed(9).swept();
    let mut ids: Vec<String> =
        world.run.snapshot().expect("live").offered.iter().map(|it| it.id.to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "{}", world.log());
}

#[test]
fn a_late_acknowledgement_takes_the_steer_out_of_the_queue() {
    let mut world = steered();
    world.wait(15_000).says(r#"{"id":4,"result":{"outcome":"injected"}}"#);
    assert!(world.log().ends_with("prompt_removed:sent"), "{}", world.log());
    world.says(&done(3));
    assert_eq!(world.log().matches("turn_started").count(), 1, "{}", world.log());
}

/// Qwen Code fetches steers after its tools. A turn without tools ends before that.
#[test]
fn a_steer_that_the_turn_did_not_fetch_is_the_next_prompt() {
    let steered = || {
        let mut world = World::live(|_, _| {});
        world.give(RunInput::Begin).give(RunInput::Spawned { pid: 7, containment: "test" });
        world
            .says(r#"{"id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"qwen-code"}}}"#)
            .says(SESSION);
        world.order(1, prompt("steer", WhenBusy::Steer));
        assert!(!world.log().contains("!answer(1"), "it waits for the agent: {}", world.log());
        world
    };
    let mut world = steered();
    world.says(&done(3));
    assert!(
        world.log().contains("!answer(1, refused: the turn ended before the agent acknowledged it"),
        "{}",
        world.log()
    );
    assert_eq!(world.log().matches("turn_started").count(), 2, "{}", world.log());
    // After a turn that did not complete it is offered.
    let mut world = steered();
    world.order(2, SessionOrder::Interrupt).says(r#"{"id":3,"result":{"stopReason":"cancelled"}}"#);
    assert!(
        world.log().contains("!answer(1, refused: the turn ended before the agent acknowledged it"),
        "{}",
        world.log()
    );
    assert_eq!(world.log().matches("turn_started").count(), 1, "{}", world.log());
    assert_eq!(world.run.snapshot().expect("live").offered.len(), 1);
}

#[test]
fn a_steer_that_is_read_with_the_end_of_the_turn_leaves_an_idle_session() {
    let steerable = r#"{"id":1,"result":{"protocolVersion":1,"_meta":{"steering":{"supported":true}}}}"#;
    let mut world = World::live(|_, _| {});
    world.give(RunInput::Begin);
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(steerable).says(SESSION).says(&says("one"));
    world.order(1, prompt("and tests", WhenBusy::Steer));
    world.says(r#"{"id":4,"result":{"outcome":"injected"}}"#);
    assert!(world.log().ends_with("!answer(1, steered:1)"), "{}", world.log());
    world.order(2, prompt("then this", WhenBusy::Queue));
    let log = after(&mut world, |world| {
        // All in one read of the pipe.
        world.says(&done(3));
    });
    assert!(log.contains("prompt_removed:sent"), "{log}");
    assert!(log.ends_with("turn_started user_message state:running !write"), "the queue goes on: {log}");
    world.says(&done(5));
    assert_eq!(world.run.state(), SessionState::Idle);
    assert!(world.log().ends_with("state:idle"), "{}", world.log());
}
