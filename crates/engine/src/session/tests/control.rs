//! Who leads: the queue waits while a person leads, and the person sends.

use bowline_protocol::kinds::{ControlMode, SessionState};
use bowline_protocol::{Kind, SessionOrder, WhenBusy};

use super::*;

fn lead(world: &mut World, order: u64, mode: ControlMode) {
    world.order(order, SessionOrder::SetControl { mode });
}

/// The texts of the prompts that began turns, in order.
fn begun(world: &World) -> Vec<&str> {
    let mut texts = Vec::new();
    for event in &world.events {
        // The conversation of the test world has no prompt of its own, and its dialect reports that as an empty message.
        if let Kind::UserMessage(message) = &event.kind
            && !message.text.is_empty()
        {
            texts.push(message.text.as_str());
        }
    }
    texts
}

/// The texts in the queue.
fn waiting(world: &World) -> Vec<String> {
    world.run.snapshot().expect("live").queue.into_iter().map(|it| it.text).collect()
}

#[test]
fn a_person_who_leads_holds_the_queue() {
    let mut world = talking();
    lead(&mut world, 1, ControlMode::HumanLed);
    world.order(2, prompt("first", WhenBusy::Queue)).says(&done(3)).wait(3_600_000);
    assert_eq!(world.run.state(), SessionState::PausedByHuman);
    assert_eq!(begun(&world), ["Say hello"]);
    // Also a prompt that comes while no turn runs. It is behind the first one, and its receipt reports that.
    let log = after(&mut world, |world| {
        world.order(3, prompt("second", WhenBusy::Queue));
    });
    assert_eq!(log, "prompt_queued !answer(3, held:1)");
    let log = after(&mut world, |world| {
        world.order(4, prompt("not now", WhenBusy::Refuse));
    });
    assert_eq!(log, "!answer(4, refused: a person leads the session)");
    lead(&mut world, 5, ControlMode::Delegated);
    assert_eq!(begun(&world), ["Say hello", "first"], "released");
    world.says(&done(4));
    assert_eq!(begun(&world), ["Say hello", "first", "second"]);
}

#[test]
fn a_prompt_of_the_person_who_leads_goes_before_the_queue() {
    let mut world = talking();
    lead(&mut world, 1, ControlMode::HumanLed);
    world.order(2, prompt("queued", WhenBusy::Queue)).says(&done(3));
    world.order(3, prompt("typed", WhenBusy::Now));
    assert!(world.log().ends_with("!answer(3, started:2)"), "{}", world.log());
    assert_eq!((begun(&world), waiting(&world)), (vec!["Say hello", "typed"], vec!["queued".to_owned()]));
    world.says(&done(4)).wait(3_600_000);
    assert_eq!((begun(&world).len(), world.run.state()), (2, SessionState::PausedByHuman));
}

#[test]
fn a_person_who_leads_can_interrupt_with_a_prompt() {
    let mut world = talking();
    lead(&mut world, 1, ControlMode::HumanLed);
    world.order(2, prompt("queued", WhenBusy::Queue)).order(3, prompt("now", WhenBusy::Now));
    world.says(r#"{"id":3,"result":{"stopReason":"cancelled"}}"#);
    assert_eq!((begun(&world), waiting(&world)), (vec!["Say hello", "now"], vec!["queued".to_owned()]));
    // Taken back, it interrupts only.
    let mut world = talking();
    lead(&mut world, 1, ControlMode::HumanLed);
    world.order(2, prompt("queued", WhenBusy::Queue)).order(3, prompt("now", WhenBusy::Now));
    let id = world.run.snapshot().expect("live").queue[0].id.clone();
    world.order(4, SessionOrder::Dequeue { prompt: Some(id) });
    world.says(r#"{"id":3,"result":{"stopReason":"cancelled"}}"#);
    assert_eq!(begun(&world), ["Say hello"], "{}", world.log());
}

#[test]
fn the_queue_of_a_session_without_a_process_keeps_its_order() {
    let mut world = World::live(|plan, _| plan.prompt = None);
    world.give(RunInput::Begin);
    lead(&mut world, 1, ControlMode::HumanLed);
    world.order(2, prompt("first", WhenBusy::Queue)).order(3, prompt("second", WhenBusy::Queue));
    assert!(world.log().contains("!answer(2, held:0) prompt_queued !answer(3, held:1)"), "{}", world.log());
    assert_eq!(world.run.state(), SessionState::PausedByHuman);
    lead(&mut world, 4, ControlMode::AgentLed);
    assert!(
        world.log().contains("!plan(first)") && !world.log().contains("!plan(second)"),
        "{}",
        world.log()
    );
}

#[test]
fn a_prompt_for_now_goes_before_one_whose_process_is_being_planned() {
    let mut world = World::live(|plan, _| plan.prompt = None);
    world.give(RunInput::Begin);
    world.order(1, prompt("first", WhenBusy::Queue)).order(2, prompt("second", WhenBusy::Queue));
    let log = after(&mut world, |world| {
        world.order(3, prompt("now", WhenBusy::Now));
    });
    // No turn of the first one had begun, so its receipt is that of the queue.
    assert_eq!(log, "prompt_queued state:preparing !answer(1, queued:1) !plan(now)");
    assert_eq!(waiting(&world), ["first", "second"]);
    let log = after(&mut world, |world| {
        next_process(world, |plan| plan.prompt = Some("now".to_owned()));
        world.says(crate::run::tests::decisions::HELLO).says(SESSION).says(&done(3));
    });
    assert!(log.contains("!answer(3, started:1)"), "{log}");
    assert_eq!(begun(&world), ["now", "first"]);
}
