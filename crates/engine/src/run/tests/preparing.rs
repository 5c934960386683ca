//! The look at the files before the start.

use bowline_protocol::Code;
use bowline_protocol::kinds::Outcome;

use super::super::*;
use super::world::{INIT, RESULT, World};

#[test]
fn a_look_at_the_files_comes_before_the_start() {
    let mut world = World::with(|plan| plan.files = true);
    world.give(RunInput::Begin);
    assert_eq!(world.log(), "session_started state:preparing !prepare");
    world.give(RunInput::Prepared(Ok(())));
    let spawning = "state:starting turn_started user_message !spawn(0)";
    assert!(world.log().ends_with(spawning), "{}", world.log());

    // A failed look is reported, and no look follows at the end.
    let mut world = World::with(|plan| plan.files = true);
    world.give(RunInput::Begin).give(RunInput::Prepared(Err("git: exit 128".to_owned())));
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(INIT).says(RESULT).exits(0).swept();
    assert!(world.log().contains("state:starting notice:- turn_started"), "{}", world.log());
    assert!(!world.log().contains("!look"), "{}", world.log());
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn a_run_cancelled_while_preparing_starts_no_process() {
    for command in [RunCommand::Cancel, RunCommand::Kill] {
        let mut world = World::with(|plan| plan.files = true);
        world.give(RunInput::Begin).command(command);
        assert_eq!(world.ended().outcome, Outcome::Cancelled);
        assert!(!world.log().contains("!spawn"), "{}", world.log());
        assert!(world.log().contains("state:stopping"), "{}", world.log());
    }
}

#[test]
fn git_has_a_short_while_before_the_start_and_no_more_than_all_of_it() {
    let mut world = World::with(|plan| plan.files = true);
    world.give(RunInput::Begin).wait(4_900);
    assert!(!world.log().contains("!spawn"), "{}", world.log());
    world.wait(200);
    assert!(world.log().contains("notice:- turn_started user_message !spawn(0)"), "{}", world.log());
    let said = |world: &World| format!("{:?}", world.events);
    assert!(said(&world).contains("git took longer than 5 s"), "{}", said(&world));
    // A look that comes late changes nothing.
    let before = world.log();
    world.give(RunInput::Prepared(Ok(())));
    assert_eq!(world.log(), before);

    // The time counts against the limit on all of it.
    let limit = |total| {
        move |plan: &mut RunPlan| (plan.files, plan.attempts[0].limits.total) = (true, Some(Millis(total)))
    };
    let mut world = World::with(limit(6_000));
    world.give(RunInput::Begin).wait(5_000).give(RunInput::Spawned { pid: 7, containment: "test" });
    world.wait(900);
    assert!(!world.log().contains("watchdog_total"), "{}", world.log());
    world.wait(200);
    assert!(world.log().contains("notice:watchdog_total"), "{}", world.log());

    let mut world = World::with(limit(1_000));
    world.give(RunInput::Begin).wait(1_100);
    let ended = world.ended();
    assert_eq!(ended.timed_out, Some(Watchdog::Total));
    assert_eq!(ended.failure.map(|failure| failure.code), Some(Code::TimedOut));
    assert!(!world.log().contains("!spawn"), "{}", world.log());
}
