//! Prompts: two turns in one process, the queue, and the next process.

use bowline_protocol::kinds::{PromptQueue, SessionState};
use bowline_protocol::{Kind, Millis, QueuedPrompt, SessionOrder, WhenBusy};

use super::*;
use crate::run::Lifetime;

#[test]
fn two_turns_in_one_process() {
    let mut world = talking();
    world.says(&says("one"));
    let idle = after(&mut world, |world| {
        world.says(&done(3));
    });
    assert!(idle.ends_with("turn_ended:completed state:idle"), "{idle}");
    assert_eq!(world.run.state(), SessionState::Idle);
    let second = after(&mut world, |world| {
        world.order(1, prompt("and now?", WhenBusy::Queue));
    });
    assert_eq!(second, "turn_started user_message state:running !write !answer(1, started:2)");
    world.says(&says("two")).says(&done(4));
    assert_eq!(world.log().matches("turn_ended:completed").count(), 2);
    // The end of a turn is not the end of the process, nor of the session.
    world.wait(60_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    let turns: Vec<u32> = world
        .events
        .iter()
        .filter(|it| matches!(it.kind, Kind::TurnEnded(_)))
        .filter_map(|it| it.turn)
        .collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn no_clock_runs_while_the_agent_is_idle() {
    let mut world = World::live(|plan, _| {
        plan.attempts[0].limits.idle = Some(Millis(5_000));
        plan.attempts[0].limits.total = Some(Millis(60_000));
    });
    begin_process(&mut world);
    world.wait(4_000).says(&done(3)).wait(3_600_000);
    assert!(!world.log().contains("watchdog"), "{}", world.log());
    // Each turn has the whole limit.
    world.order(1, prompt("on", WhenBusy::Queue)).wait(4_000).says(&says("x")).wait(4_000);
    assert!(!world.log().contains("watchdog"), "{}", world.log());
    world.wait(2_000);
    assert!(world.log().contains("watchdog_idle"), "{}", world.log());
}

#[test]
fn the_queue_is_sent_turn_by_turn() {
    let mut world = talking();
    let log = after(&mut world, |world| {
        world.order(1, prompt("second", WhenBusy::Queue)).order(2, prompt("third", WhenBusy::Queue));
    });
    assert_eq!(log, "prompt_queued !answer(1, queued:0) prompt_queued !answer(2, queued:1)");
    let log = after(&mut world, |world| {
        world.says(&done(3));
    });
    assert!(
        log.ends_with("state:idle prompt_removed:sent turn_started user_message state:running !write"),
        "{log}"
    );
    world.says(&done(4)).says(&done(5));
    assert_eq!(world.log().matches("turn_ended:completed").count(), 3);
    assert_eq!(world.run.state(), SessionState::Idle);
}

#[test]
fn a_busy_session_can_refuse_and_dequeue() {
    let mut world = talking();
    world.order(1, prompt("no", WhenBusy::Refuse)).order(2, prompt(" ", WhenBusy::Queue));
    world.order(3, prompt("later", WhenBusy::Queue)).order(4, SessionOrder::Dequeue { prompt: None });
    world.order(5, SessionOrder::Dequeue { prompt: None });
    world.order(6, prompt("steer", WhenBusy::Steer));
    for part in [
        "!answer(1, refused: a turn is running)",
        "!answer(2, refused: the agent rejected it: the prompt is empty)",
        "prompt_removed:dequeued !answer(4, done)",
        "!answer(5, refused: there is no queued prompt)",
        "!answer(6, refused: the agent cannot be steered",
    ] {
        assert!(world.log().contains(part), "{part}: {}", world.log());
    }
}

#[test]
fn prompts_after_a_turn_that_failed_are_offered_and_not_sent() {
    let mut world = talking();
    world.order(1, prompt("second", WhenBusy::Queue));
    world.says(r#"{"id":3,"error":{"code":-32603,"message":"Internal error"}}"#);
    assert!(world.log().contains("prompt_removed:returned"), "{}", world.log());
    assert_eq!(world.log().matches("turn_started").count(), 1, "{}", world.log());
    let snapshot = world.run.snapshot().expect("a live session");
    assert_eq!(snapshot.offered.len(), 1);
    let id = snapshot.offered[0].id.clone();
    world.order(2, SessionOrder::SendOffered { prompt: id.clone() });
    assert_eq!(world.log().matches("turn_started").count(), 2, "{}", world.log());
    world.order(3, SessionOrder::SendOffered { prompt: id });
    assert!(world.log().contains("!answer(3, refused: there is no offered prompt"), "{}", world.log());
}

#[test]
fn an_idle_process_is_ended_and_the_next_prompt_resumes_it() {
    let mut world = World::live(|_, live| live.idle = Some(Millis(600_000)));
    begin_process(&mut world);
    world.says(&done(3)).wait(599_000);
    assert!(!world.log().contains("notice:idle"), "{}", world.log());
    let log = after(&mut world, |world| {
        world.wait(1_000).exits(0).swept();
    });
    assert_eq!(log, "notice:idle !close-stdin process_reaped !sweep state:idle");
    let log = after(&mut world, |world| {
        world.order(1, prompt("again", WhenBusy::Queue));
    });
    assert_eq!(log, "prompt_queued state:preparing !plan(again)");
    let log = after(&mut world, |world| next_process(world, |plan| plan.prompt = Some("again".to_owned())));
    assert!(log.starts_with("prompt_removed:sent"), "{log}");
    let begun = "turn_started user_message !spawn(0) !answer(1, started:2) process_spawned state:running";
    assert!(log.contains(begun), "{log}");
    world.says(HELLO).says(SESSION).says(&done(3));
    assert_eq!(world.run.state(), SessionState::Idle);
    assert_eq!(world.log().matches("session_ended").count(), 0);
}

#[test]
fn a_process_that_dies_takes_its_turn_with_it_and_not_the_session() {
    let mut world = talking();
    world.order(1, prompt("second", WhenBusy::Queue));
    world.killed(9).swept();
    assert!(world.log().contains("turn_ended:failed"), "{}", world.log());
    assert!(world.log().ends_with("state:idle"), "{}", world.log());
    assert_eq!(world.run.snapshot().expect("live").offered.len(), 1, "never sent by itself");
    // The numbering goes on over all processes.
    world.order(2, prompt("next", WhenBusy::Queue));
    next_process(&mut world, |plan| plan.prompt = Some("next".to_owned()));
    let seqs: Vec<u64> = world.events.iter().map(|it| it.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_plan_that_fails_fails_the_turn() {
    let mut world = World::live(|plan, _| plan.prompt = None);
    world.give(RunInput::Begin);
    assert!(world.log().ends_with("session_started state:idle"), "{}", world.log());
    world.order(1, prompt("hello", WhenBusy::Queue));
    let failure = bowline_protocol::Failure::new(
        bowline_protocol::Category::NotFound,
        bowline_protocol::Code::NotInstalled,
        "it is not installed",
    );
    let log = after(&mut world, |world| {
        world.give(RunInput::Planned(Err(Box::new(failure))));
    });
    let failed =
        "prompt_removed:sent turn_started user_message turn_ended:failed state:idle !answer(1, started:1)";
    assert_eq!(log, failed);
}

#[test]
fn a_program_for_each_prompt_is_a_session_as_well() {
    let mut world = World::live(|plan, _| {
        plan.attempts =
            vec![crate::run::tests::world::attempt("claude", bowline_providers::dialect::Shape::Lines)];
        plan.lifetime = Lifetime::PerPrompt;
    });
    world.start();
    use crate::run::tests::world::{INIT, RESULT, text};
    world.says(INIT).says(&text("one")).order(1, prompt("two", WhenBusy::Queue));
    world.order(2, prompt("steer", WhenBusy::Steer));
    assert!(world.log().contains("!answer(2, refused: the agent cannot be steered"), "{}", world.log());
    let log = after(&mut world, |world| {
        world.says(RESULT).exits(0).swept();
    });
    assert!(log.ends_with("process_reaped !sweep state:idle state:preparing !plan(two)"), "{log}");
    assert_eq!(world.run.snapshot().expect("live").native_session, Some("s".into()));
}

#[test]
fn prompts_of_an_earlier_runner_are_offered() {
    let offered = QueuedPrompt {
        id: "p9".into(),
        text: "old".to_owned(),
        attachments: vec![bowline_protocol::Attachment { path: "a.png".to_owned(), media_type: None }],
        queue: PromptQueue::Session,
    };
    let mut world = World::live(|plan, live| {
        plan.prompt = None;
        live.offered = vec![offered.clone()];
    });
    world.give(RunInput::Begin).wait(3_600_000);
    assert_eq!(world.run.snapshot().expect("live").offered, [offered]);
    assert!(!world.log().contains("!plan"), "{}", world.log());
    world.order(1, SessionOrder::SendOffered { prompt: "p9".into() });
    assert!(world.log().contains("!plan(old)"), "{}", world.log());
}

#[test]
fn a_stop_ends_the_stint_and_returns_the_queue() {
    let mut world = talking();
    world.says(&done(3));
    let log = after(&mut world, |world| {
        world.order(1, SessionOrder::Stop).exits(0).swept();
    });
    assert!(log.starts_with("state:stopping !close-stdin !answer(1, done)"), "{log}");
    assert!(log.ends_with("state:completed session_ended !done"), "{log}");
    world.order(2, prompt("late", WhenBusy::Queue));
    assert!(world.log().contains("!answer(2, refused: the session is being stopped"), "{}", world.log());
    // Without a process, at once.
    let mut world = World::live(|plan, _| plan.prompt = None);
    world.give(RunInput::Begin).order(1, SessionOrder::Stop);
    assert!(world.log().contains("session_ended"), "{}", world.log());
    assert!(world.run.is_over());
}

#[test]
fn the_changed_files_belong_to_the_turn_before_the_next_one() {
    let mut world = World::live(|plan, _| plan.files = true);
    world.give(RunInput::Begin).give(RunInput::Prepared(Ok(())));
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(HELLO).says(SESSION).order(1, prompt("second", WhenBusy::Queue));
    let log = after(&mut world, |world| {
        world.says(&done(3));
    });
    assert!(log.ends_with("turn_ended:completed !look"), "the next turn waits: {log}");
    let file = bowline_protocol::kinds::TouchedFile {
        path: "a.rs".to_owned(),
        operation: bowline_protocol::kinds::FileOperation::Write,
    };
    let log = after(&mut world, |world| {
        world.give(RunInput::Files(vec![file]));
    });
    assert!(log.starts_with("files_touched state:idle prompt_removed:sent turn_started"), "{log}");
    let touched = world.events.iter().find(|it| matches!(it.kind, Kind::FilesTouched(_))).expect("files");
    assert_eq!(touched.turn, Some(1));
    // A git that hangs delays the next turn by five seconds at most.
    world.says(&done(4)).wait(5_000);
    assert_eq!(world.run.state(), SessionState::Idle);
}

#[test]
fn an_offered_prompt_is_dequeued_only_by_its_id() {
    let offered = QueuedPrompt {
        id: "p9".into(),
        text: "old".to_owned(),
        attachments: Vec::new(),
        queue: PromptQueue::Session,
    };
    let mut world = World::live(|plan, live| {
        plan.prompt = None;
        live.offered = vec![offered];
    });
    world.give(RunInput::Begin);
    world.order(1, SessionOrder::Dequeue { prompt: None });
    assert!(world.log().ends_with("!answer(1, refused: there is no queued prompt)"), "{}", world.log());
    world.order(2, SessionOrder::Dequeue { prompt: Some("p9".into()) });
    assert!(world.log().ends_with("prompt_removed:dequeued !answer(2, done)"), "{}", world.log());
}
