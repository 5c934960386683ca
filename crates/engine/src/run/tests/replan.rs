//! A program that rejects its options: its help is read once, before another form is tried.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Category, Code};
use bowline_providers::dialect::Shape;

use super::super::*;
use super::world::{INIT, World, attempt, text_form};
use crate::fallback::StreamFallback;

const REJECTED: &[u8] = b"Unknown arguments: output-format, outputFormat\n";

/// A run whose program has just rejected its options, and whose plan has a second form.
fn rejected(change: impl FnOnce(&mut RunPlan)) -> World {
    let mut world = World::with(|plan| {
        plan.attempts.push(attempt("claude", Shape::Document));
        plan.replannable = true;
        change(plan);
    });
    world.start();
    world.give(RunInput::Stderr(REJECTED)).exits(1).swept();
    world
}

#[test]
fn the_help_decides_what_is_tried_next() {
    let remark =
        |code: &str| Notice { level: Level::Warn, text: "so it is".to_owned(), code: Some(code.to_owned()) };
    let mut world = rejected(|plan| plan.notices = vec![remark("told")]);
    assert!(world.log().ends_with("process_reaped !sweep turn_ended:failed !replan"), "{}", world.log());
    world.give(RunInput::Replanned(ReplanResult::Instead(
        Box::new(text_form()),
        vec![remark("told"), remark("new")],
    )));
    assert!(
        world.log().contains("!replan notice:new fallback_taken:stream_fallback capability_degraded"),
        "{}",
        world.log()
    );
    let reason = world.events.iter().find_map(|event| {
        let Kind::CapabilityDegraded(degraded) = &event.kind else { return None };
        Some(degraded.reason.clone())
    });
    assert_eq!(reason.as_deref(), Some("`--output-format` is not in its help"));
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.says("Hello").exits(0).swept();
    assert_eq!((world.ended().outcome, world.ended().stream_fallback), (Outcome::Completed, true));
    assert_eq!(world.log().matches("!spawn").count(), 2, "{}", world.log());
}

#[test]
fn a_help_that_changes_nothing_leaves_the_plan() {
    let mut world = rejected(|_| {});
    world.give(RunInput::Replanned(ReplanResult::Unchanged));
    assert!(world.log().ends_with("!spawn(1)"), "{}", world.log());
    // The same if it takes too long. A late result is ignored.
    let mut world = rejected(|_| {});
    world.wait_for_action("!spawn(1)");
    assert_eq!(world.now, Millis(12_000));
    world.give(RunInput::Replanned(ReplanResult::Instead(Box::new(text_form()), Vec::new())));
    assert_eq!(world.run.process().plan.attempts[1].shape, Shape::Document);
}

#[test]
fn a_second_form_that_is_rejected_too_is_the_last() {
    let mut world = rejected(|_| {});
    world.give(RunInput::Replanned(ReplanResult::Instead(
        Box::new(AttemptPlan { shape: Shape::Lines, ..text_form() }),
        Vec::new(),
    )));
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.give(RunInput::Stderr(REJECTED)).exits(1).swept();
    assert_eq!(world.log().matches("!replan").count(), 1, "{}", world.log());
    assert_eq!(world.ended().failure.expect("a failure").code, Code::FlagRejected);
}

#[test]
fn a_program_that_lacks_what_keeps_a_promise_is_not_started_again() {
    let mut world = rejected(|_| {});
    world.give(RunInput::Replanned(ReplanResult::Refused("it would run the repository's code".to_owned())));
    assert!(world.log().contains("notice:not_sent_again state:failed"), "{}", world.log());
    assert_eq!(world.log().matches("!spawn").count(), 1);
}

/// The outcome is that of the stop, and not the usage error of the first process.
#[test]
fn a_run_that_is_stopped_while_the_help_is_read_starts_nothing() {
    for command in [RunCommand::Cancel, RunCommand::Kill] {
        let mut world = rejected(|_| {});
        world.command(command);
        let ended = world.ended();
        assert_eq!((ended.outcome, ended.failure), (Outcome::Cancelled, None), "{}", world.log());
        assert_eq!((ended.rule, world.log().matches("!spawn").count()), (StreamRule::Aborted, 1));
        assert!(
            world.log().contains("!replan state:stopping turn_started user_message turn_ended:cancelled"),
            "{}",
            world.log()
        );
    }
    let code_of = |ended: &RunEnd| ended.failure.as_ref().map(|failure| failure.code.clone());
    let mut late = rejected(|plan| plan.attempts[0].limits.total = Some(Millis(3_000)));
    late.wait(5_000);
    let mut slept = rejected(|_| {});
    slept.give(RunInput::Overdue(Millis(3_000)));
    for world in [late, slept] {
        let ended = world.ended();
        assert_eq!((code_of(&ended), ended.timed_out), (Some(Code::TimedOut), Some(Watchdog::Total)));
        assert!(world.log().contains("notice:watchdog_total state:stopping"), "{}", world.log());
        assert_eq!(world.log().matches("!spawn").count(), 1);
    }
    let mut full = rejected(|_| {});
    full.give(RunInput::Trouble(Failure::new(Category::Configuration, Code::DiskFull, "no room")));
    assert_eq!((code_of(&full.ended()), full.log().matches("!spawn").count()), (Some(Code::DiskFull), 1));
}

/// The help is read only where the prompt may be sent again: after a usage error that proves that nothing was done.
#[test]
fn the_help_is_not_read_after_anything_else() {
    let never = rejected(|plan| plan.stream_fallback = StreamFallback::Never);
    assert!(!never.log().contains("!replan"), "{}", never.log());
    let known = rejected(|plan| plan.replannable = false);
    assert!(known.log().ends_with("!spawn(1)"), "{}", known.log());
    let document = rejected(|plan| plan.attempts[0].shape = Shape::Document);
    assert!(!document.log().contains("!replan"), "{}", document.log());
    for (line, exit) in [(Some(INIT), 1), (None, 0), (None, 3)] {
        let mut world = World::with(|plan| plan.replannable = true);
        world.start();
        if let Some(line) = line {
            world.says(line);
        }
        if exit != 3 {
            world.give(RunInput::Stderr(REJECTED));
        }
        world.exits(exit).swept();
        assert!(!world.log().contains("!replan"), "{line:?} {exit}: {}", world.log());
    }
}

/// A form that prints nothing before its end has its own limits on silence.
#[test]
fn each_form_has_its_own_limits() {
    let limits = RunLimits { first_event: None, ..RunLimits::default() };
    let mut world = rejected(|plan| plan.attempts[0].limits.first_event = Some(Millis(3_000)));
    world.give(RunInput::Replanned(ReplanResult::Instead(
        Box::new(AttemptPlan { limits, ..text_form() }),
        Vec::new(),
    )));
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.wait(60_000);
    assert!(!world.log().contains("watchdog_first_event"), "{}", world.log());
    world.says("Hello").exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

/// A protocol that never reached its prompt has done nothing, but that proves nothing about its options.
#[test]
fn the_help_is_not_read_where_no_option_was_rejected() {
    for (complaint, exit, reads) in [
        (&b"Cannot find module 'x'\n"[..], Exit::Code(1), false),
        (REJECTED, Exit::Code(1), true),
        (REJECTED, Exit::Code(0), false),
        (REJECTED, Exit::Signal(9), false),
    ] {
        let mut world = World::with(|plan| {
            World::by_protocol(plan);
            plan.replannable = true;
        });
        world.start();
        world.give(RunInput::Stderr(complaint)).give(RunInput::StdoutClosed).give(RunInput::StderrClosed);
        world.give(RunInput::Exited(exit)).swept();
        assert_eq!(world.log().contains("!replan"), reads, "{exit:?}: {}", world.log());
    }
}
