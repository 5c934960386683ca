//! How a program is ended, and how long that takes.

use bowline_protocol::Exit;
use bowline_protocol::kinds::Outcome;

use super::super::*;
use super::world::{INIT, RESULT, World, text};

#[test]
fn cancel_is_polite_first_and_keeps_the_partial_answer() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Hel"));
    let asked = world.now;
    world.command(RunCommand::Cancel);
    assert!(world.log().ends_with("state:stopping !signal(Interrupt, Leader)"), "{}", world.log());
    world.wait_for_action("!signal(Terminate, Tree)");
    assert_eq!(world.now.0 - asked.0, 850);
    world.wait_for_action("!kill");
    assert_eq!(world.now.0 - asked.0, 1_700, "two seconds have to do for its end as well");
    world.killed(9).swept();
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
    assert!(world.log().contains("text_delta"));
}

#[test]
fn cancel_twice_kills_at_once() {
    let mut world = World::new();
    world.start();
    world.command(RunCommand::Cancel).command(RunCommand::Kill);
    assert!(world.log().ends_with("!signal(Interrupt, Leader) !kill"), "{}", world.log());
    world.command(RunCommand::Kill);
    assert_eq!(world.log().matches("!kill").count(), 1);
    world.killed(9).swept();
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
}

#[test]
fn cancel_before_and_during_the_start() {
    let mut world = World::new();
    world.command(RunCommand::Cancel);
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
    assert!(!world.log().contains("!spawn"));

    let mut world = World::new();
    world.give(RunInput::Begin);
    world.command(RunCommand::Cancel);
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    assert!(world.log().ends_with("!kill"), "{}", world.log());
    world.killed(9).swept();
    assert_eq!(world.ended().outcome, Outcome::Cancelled);
}

/// A descendant that ignores SIGTERM, or holds the pipe, delays the end no longer than a program that ignores it.
#[test]
fn a_descendant_gets_no_more_time_than_its_program_had() {
    // when the program exits after the stop, when the sweep begins, and its grace.
    for (exits, sweeps, grace) in [(100, 350, 250), (1_300, 1_550, 150), (1_600, 1_700, 0), (1_690, 1_700, 0)]
    {
        let mut world = World::new();
        world.start();
        world.says(INIT).command(RunCommand::Cancel).wait(exits);
        world.give(RunInput::Exited(Exit::Code(0)));
        world.wait_for_action("!sweep");
        assert_eq!((world.now, world.grace), (Millis(sweeps), Some(Millis(grace))), "it exits at {exits}");
    }
    // The same after its answer.
    for (exits, sweeps, grace) in [(100, 350, 250), (450, 700, 50), (549, 750, 0)] {
        let mut world = World::new();
        world.start();
        world.says(INIT).says(RESULT).wait(exits);
        world.give(RunInput::Exited(Exit::Code(0)));
        world.wait_for_action("!sweep");
        assert_eq!((world.now, world.grace), (Millis(sweeps), Some(Millis(grace))), "it exits at {exits}");
    }
}

#[test]
fn a_stop_after_the_answer_gives_no_more_time() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(RESULT).wait(300).command(RunCommand::Cancel);
    world.wait_for_action("!kill");
    assert_eq!(world.now, Millis(750));
}

/// A start may hang. No process can be killed yet, and the caller drops the start with the run.
#[test]
fn a_start_that_hangs_does_not_hold_up_an_abort() {
    for (command, within) in [(RunCommand::Cancel, 850), (RunCommand::Kill, 250)] {
        let mut world = World::new();
        world.give(RunInput::Begin).command(command).wait(within);
        assert!(world.run.is_over(), "{command:?}: {}", world.log());
        assert_eq!(world.ended().outcome, Outcome::Cancelled);
    }
}

#[test]
fn a_program_that_answers_and_does_not_exit_is_ended_and_counts() {
    let mut world = World::new();
    world.start();
    world.says(INIT).says(&text("Hello")).says(RESULT);
    let answered = world.now;
    world.wait_for_action("!signal(Terminate, Tree)");
    assert_eq!(world.now.0 - answered.0, 550);
    world.wait_for_action("!kill");
    assert_eq!(world.now.0 - answered.0, 750, "a second has to do for its end as well");
    world.killed(9).swept();
    let ended = world.ended();
    assert_eq!((ended.outcome, ended.failure), (Outcome::Completed, None));
    assert_eq!(ended.exit, Some(Exit::Signal(9)));
}
