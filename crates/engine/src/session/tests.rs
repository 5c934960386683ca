//! Live sessions as tables: orders and output in, events and actions out.

mod budgets;
mod control;
mod forks;
mod interrupts;
mod options;
mod prompts;
mod questions;
mod random;
mod starts;
mod states;
mod steers;

use bowline_protocol::{Millis, SessionOrder, WhenBusy};

use crate::run::tests::decisions::{HELLO, SESSION};
use crate::run::tests::world::World;
use crate::run::{RunInput, RunPlan};

/// The order to send a prompt.
fn prompt(text: &str, when_busy: WhenBusy) -> SessionOrder {
    SessionOrder::Prompt { text: text.to_owned(), attachments: Vec::new(), when_busy, from: None }
}

/// The answer to the prompt with this number, counted from the first process's introduction.
fn done(id: u64) -> String {
    format!(r#"{{"id":{id},"result":{{"stopReason":"end_turn"}}}}"#)
}

/// A text of the agent.
fn says(text: &str) -> String {
    format!(
        r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
    )
}

/// A live session whose first turn runs.
fn talking() -> World {
    let mut world = World::live(|_, _| {});
    begin_process(&mut world);
    assert!(world.log().ends_with("!write"), "the prompt is sent: {}", world.log());
    world
}

/// Starts the process that the session waits for.
fn begin_process(world: &mut World) {
    world.give(RunInput::Begin);
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(HELLO).says(SESSION);
}

/// Gives the plan that the session asked for, and starts its process.
fn next_process(world: &mut World, change: impl FnOnce(&mut RunPlan)) {
    let mut plan = World::live_plan();
    change(&mut plan);
    world.give(RunInput::Planned(Ok(Box::new(plan))));
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
}

/// The part of the log since a call.
fn after(world: &mut World, act: impl FnOnce(&mut World)) -> String {
    let before = world.log().len();
    act(world);
    world.log()[before..].trim().to_owned()
}
