//! The look at the files before the start.

use bowline_protocol::Code;
use bowline_protocol::kinds::Outcome;

use super::super::*;
use super::world::{INIT, RESULT, World};

#[test]
fn a_look_at_the_files_comes_before_the_start() {
    let mut world = World::with(|plan| plan.files = true);
    world.give(Input::Begin);
    assert_eq!(world.log(), "session_started state:preparing !prepare");
    world.give(Input::Prepared(Ok(())));
    let spawning = "state:starting turn_started user_message !spawn(0)";
    assert!(world.log().ends_with(spawning), "{}", world.log());

    // What cannot be known is told; there is no look at the end then.
    let mut world = World::with(|plan| plan.files = true);
    world.give(Input::Begin).give(Input::Prepared(Err("git: exit 128".to_owned())));
    world.give(Input::Spawned { pid: 7, containment: "test" });
    world.says(INIT).says(RESULT).exits(0).swept();
    assert!(world.log().contains("state:starting notice:- turn_started"), "{}", world.log());
    assert!(!world.log().contains("!look"), "{}", world.log());
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

#[test]
fn who_stops_a_run_while_its_files_are_looked_at_starts_nobody() {
    for command in [Command::Cancel, Command::Kill] {
        let mut world = World::with(|plan| plan.files = true);
        world.give(Input::Begin).command(command);
        assert_eq!(world.ended().outcome, Outcome::Cancelled);
        assert!(!world.log().contains("!spawn"), "{}", world.log());
        assert!(world.log().contains("state:stopping"), "{}", world.log());
    }
}

#[test]
fn git_has_a_short_while_before_the_start_and_no_more_than_all_of_it() {
    let mut world = World::with(|plan| plan.files = true);
    world.give(Input::Begin).wait(4_900);
    assert!(!world.log().contains("!spawn"), "{}", world.log());
    world.wait(200);
    assert!(world.log().contains("notice:- turn_started user_message !spawn(0)"), "{}", world.log());
    let said = |world: &World| format!("{:?}", world.events);
    assert!(said(&world).contains("git took longer than 5 s"), "{}", said(&world));
    // A look that comes late changes nothing.
    let before = world.log();
    world.give(Input::Prepared(Ok(())));
    assert_eq!(world.log(), before);

    // The time counts against the limit on all of it.
    let limit = |total| move |plan: &mut Plan| (plan.files, plan.limits.total) = (true, Some(Millis(total)));
    let mut world = World::with(limit(6_000));
    world.give(Input::Begin).wait(5_000).give(Input::Spawned { pid: 7, containment: "test" });
    world.wait(900);
    assert!(!world.log().contains("watchdog_total"), "{}", world.log());
    world.wait(200);
    assert!(world.log().contains("notice:watchdog_total"), "{}", world.log());

    let mut world = World::with(limit(1_000));
    world.give(Input::Begin).wait(1_100);
    let ended = world.ended();
    assert_eq!(ended.timed_out, Some(Watchdog::Total));
    assert_eq!(ended.failure.map(|failure| failure.code), Some(Code::TimedOut));
    assert!(!world.log().contains("!spawn"), "{}", world.log());
}
