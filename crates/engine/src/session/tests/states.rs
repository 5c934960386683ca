//! Every state of a live session has the reason that a person needs, in its event and in the snapshot.

use bowline_protocol::kinds::{ControlMode, SessionState};
use bowline_protocol::{
    ApprovalVerdict, Category, ChildRequest, Code, Failure, Kind, Millis, PermissionMode, SessionOrder,
    WhenBusy,
};

use super::questions::QUESTION;
use super::*;
use crate::run::tests::decisions::{EDIT, SHELL};
use crate::run::{ResumeTarget, RunCommand};

/// The last state that an event has announced, and its reason.
fn announced(world: &World) -> (SessionState, Option<String>) {
    let last = world.events.iter().rev().find_map(|event| {
        let Kind::SessionStateChanged(changed) = &event.kind else { return None };
        Some((changed.state, changed.reason.clone()))
    });
    last.expect("a state was announced")
}

/// Brings a session into a state, and returns it.
type Scene = fn() -> World;

fn without_prompt() -> World {
    let mut world = World::live(|plan, live| (plan.prompt, live.idle) = (None, Some(Millis(600_000))));
    world.give(RunInput::Begin);
    world
}

/// A session whose first turn is over. Its process waits.
fn idle() -> World {
    let mut world = World::live(|_, live| live.idle = Some(Millis(600_000)));
    begin_process(&mut world);
    world.says(&done(3));
    world
}

fn lead(world: &mut World, mode: ControlMode) {
    world.order(9, SessionOrder::SetControl { mode });
}

const SCENES: &[(&str, Scene, SessionState, Option<&str>)] = &[
    (
        "a prompt is planned",
        || {
            let mut world = without_prompt();
            world.order(1, prompt("go", WhenBusy::Queue));
            world
        },
        SessionState::Preparing,
        Some("prepares a process for prompt p3"),
    ),
    (
        "the files are read",
        || {
            let mut world = World::live(|plan, _| plan.files = true);
            world.give(RunInput::Begin);
            world
        },
        SessionState::Preparing,
        Some("reads the state of the files, to report which ones the turn changes"),
    ),
    (
        "a new process",
        || {
            let mut world = World::live(|_, _| {});
            world.give(RunInput::Begin);
            world
        },
        SessionState::Starting,
        Some("starts `agent`"),
    ),
    (
        "a resume",
        || {
            let mut world = idle();
            world.killed(9).swept().order(1, prompt("go", WhenBusy::Queue));
            let mut plan = World::live_plan();
            plan.resume = Some(ResumeTarget { id: "s".into(), fork: false });
            world.give(RunInput::Planned(Ok(Box::new(plan))));
            world
        },
        SessionState::Starting,
        Some("resumes the agent's session s"),
    ),
    (
        "the session is opened",
        || {
            let mut world = World::live(|_, _| {});
            world.give(RunInput::Begin).give(RunInput::Spawned { pid: 7, containment: "test" });
            world
        },
        SessionState::Running,
        Some("the agent opens its session"),
    ),
    ("a turn", talking, SessionState::Running, None),
    (
        "an interrupt",
        || {
            let mut world = talking();
            world.order(1, SessionOrder::Interrupt);
            world
        },
        SessionState::Running,
        Some("the turn is being interrupted"),
    ),
    (
        "a command waits",
        || {
            let mut world = talking();
            world.says(SHELL);
            world
        },
        SessionState::WaitingForApproval,
        Some("request 1: the agent wants to run a command"),
    ),
    (
        "two requests wait",
        || {
            let mut world = talking();
            world.says(SHELL).says(EDIT);
            world
        },
        SessionState::WaitingForApproval,
        Some("request 1: the agent wants to run a command; 1 more wait"),
    ),
    (
        "the first of two was decided",
        || {
            let mut world = talking();
            world.says(SHELL).says(EDIT);
            let verdict = ApprovalVerdict::Deny { message: None };
            world.order(1, SessionOrder::Decide { approval: Some("1".into()), verdict });
            world
        },
        SessionState::WaitingForApproval,
        Some("request 2: the agent wants to change files"),
    ),
    (
        "the agent asks for a session",
        || {
            let mut world = talking();
            let child = ChildRequest {
                provider: "alpha".to_owned(),
                prompt: "go".to_owned(),
                model: None,
                effort: None,
                permission: Some(PermissionMode::Ask),
                name: None,
            };
            world.order(1, SessionOrder::Start { child });
            world
        },
        SessionState::WaitingForApproval,
        Some("request start-10: the agent wants to start a session"),
    ),
    (
        "a question",
        || {
            let mut world = talking();
            world.says(QUESTION);
            world
        },
        SessionState::WaitingForInput,
        Some("question 5: Which colour?"),
    ),
    (
        "a person leads",
        || {
            let mut world = idle();
            lead(&mut world, ControlMode::HumanLed);
            world
        },
        SessionState::PausedByHuman,
        Some("a person leads: queued prompts wait for the release"),
    ),
    (
        "a person leads, and there is no process",
        || {
            let mut world = without_prompt();
            lead(&mut world, ControlMode::HumanLed);
            world
        },
        SessionState::PausedByHuman,
        Some("a person leads: queued prompts wait for the release"),
    ),
    (
        "released again",
        || {
            let mut world = without_prompt();
            lead(&mut world, ControlMode::HumanLed);
            lead(&mut world, ControlMode::AgentLed);
            world
        },
        SessionState::Idle,
        Some("no process runs: the first prompt starts one"),
    ),
    (
        "no process yet",
        without_prompt,
        SessionState::Idle,
        Some("no process runs: the first prompt starts one"),
    ),
    (
        "the prompt was taken back",
        || {
            let mut world = without_prompt();
            world.order(1, prompt("go", WhenBusy::Queue)).order(2, SessionOrder::Interrupt);
            world
        },
        SessionState::Idle,
        Some("no process runs: the prompt was taken back before one was started"),
    ),
    ("the process waits", idle, SessionState::Idle, Some("the agent's process waits for a prompt")),
    (
        "idle for too long",
        || {
            let mut world = idle();
            world.wait(600_000).exits(0).swept();
            world
        },
        SessionState::Idle,
        Some("the agent's process ended after 10 min without a prompt"),
    ),
    (
        "killed between two turns",
        || {
            let mut world = idle();
            world.killed(9).swept();
            world
        },
        SessionState::Idle,
        Some("the agent's process ended (signal 9)"),
    ),
    (
        "the next process cannot be planned",
        || {
            let mut world = without_prompt();
            world.order(1, prompt("go", WhenBusy::Queue));
            let failure = Failure::new(Category::NotFound, Code::Unknown, "`agent` is not installed");
            world.give(RunInput::Planned(Err(Box::new(failure))));
            world
        },
        SessionState::Idle,
        Some("the agent's process could not be started: `agent` is not installed"),
    ),
    (
        "a time limit",
        || {
            let mut world = World::live(|plan, _| plan.attempts[0].limits.total = Some(Millis(60_000)));
            begin_process(&mut world);
            world.wait(60_000);
            world
        },
        SessionState::Stopping,
        Some("the turn took longer than 60 s"),
    ),
    (
        "a stop",
        || {
            let mut world = talking();
            world.command(RunCommand::Cancel);
            world
        },
        SessionState::Stopping,
        Some("a stop was ordered"),
    ),
    (
        "stopped",
        || {
            let mut world = idle();
            world.command(RunCommand::Cancel).killed(15).swept();
            world
        },
        SessionState::Completed,
        Some("a stop was ordered"),
    ),
    (
        "an error on our side",
        || {
            let mut world = talking();
            let failure = Failure::new(Category::Unknown, Code::Unknown, "the disk is full");
            world.give(RunInput::Trouble(failure)).killed(15).swept();
            world
        },
        SessionState::Failed,
        Some("the disk is full"),
    ),
];

#[test]
fn every_state_has_its_reason() {
    for (name, scene, state, reason) in SCENES {
        let world = scene();
        let snapshot = world.run.snapshot().expect("live");
        assert_eq!(
            (snapshot.state, snapshot.reason.as_deref()),
            (*state, *reason),
            "{name}: {}",
            world.log()
        );
        // The open request changes without a change of the state, and so does the turn.
        let (announced, of_event) = announced(&world);
        assert_eq!(announced, *state, "{name}: {}", world.log());
        let moves = matches!(state, SessionState::WaitingForApproval | SessionState::Running);
        assert!(moves || of_event.as_deref() == *reason, "{name}: {of_event:?} {}", world.log());
        assert!(*state == SessionState::Running || of_event.is_some(), "{name}: {}", world.log());
    }
    let all = [
        SessionState::Preparing,
        SessionState::Starting,
        SessionState::Running,
        SessionState::WaitingForApproval,
        SessionState::WaitingForInput,
        SessionState::PausedByHuman,
        SessionState::Idle,
        SessionState::Stopping,
        SessionState::Completed,
        SessionState::Failed,
    ];
    assert!(
        all.iter().all(|state| SCENES.iter().any(|(_, _, known, _)| known == state)),
        "a state is missing"
    );
}
