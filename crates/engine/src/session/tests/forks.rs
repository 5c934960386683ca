//! Forks of a native session: a process that reports the session that it was to fork has forked nothing.

use bowline_protocol::WhenBusy;

use super::{after, done, next_process, prompt};
use crate::run::tests::decisions::HELLO;
use crate::run::tests::world::World;
use crate::run::{ResumeTarget, RunInput};

fn origin() -> ResumeTarget {
    ResumeTarget { id: "origin".into(), fork: true }
}

/// A session that forks another one when its first prompt comes, which it gets.
fn forking() -> World {
    let mut world = World::live(|plan, live| {
        plan.prompt = None;
        live.resume = Some(origin());
    });
    world.give(RunInput::Begin);
    let log = after(&mut world, |world| {
        world.order(1, prompt("one", WhenBusy::Queue));
    });
    assert_eq!(log, "prompt_queued state:preparing !plan(one, fork of origin)");
    next_process(&mut world, |plan| {
        plan.prompt = Some("one".to_owned());
        plan.resume = Some(origin());
    });
    world
}

/// Ends the process, and returns the plan that the next prompt asks for.
fn next_plan(world: &mut World) -> String {
    world.exits(0).swept();
    let log = after(world, |world| {
        world.order(2, prompt("two", WhenBusy::Queue));
    });
    log.split_once("!plan").expect("a plan").1.to_owned()
}

#[test]
fn the_first_prompt_forks_and_the_next_process_goes_on_with_the_fork() {
    let mut world = forking();
    world.says(HELLO).says(r#"{"id":2,"result":{"sessionId":"branch"}}"#).says(&done(3));
    assert_eq!(world.run.snapshot().expect("live").native_session, Some("branch".into()));
    assert_eq!(next_plan(&mut world), "(two)");
}

#[test]
fn a_process_that_reported_no_session_is_followed_by_one_that_forks() {
    assert_eq!(next_plan(&mut forking()), "(two, fork of origin)");
}

#[test]
fn the_session_that_was_to_be_forked_is_never_the_one_to_go_on_with() {
    let mut world = forking();
    world.says(HELLO).says(r#"{"id":2,"result":{"sessionId":"origin"}}"#);
    assert_eq!(world.run.snapshot().expect("live").native_session, None);
    assert_eq!(next_plan(&mut world), "(two, fork of origin)");
}
