//! Options that the agent acknowledges, late or not at all: the agent and the engine never differ about permissions in silence.

use bowline_protocol::{PermissionMode, SessionOrder};
use bowline_providers::conversation::Conversation;

use super::*;
use crate::run::tests::decisions::SHELL;

const YES: &str = r#"{"id":4,"result":{}}"#;
const NO: &str = r#"{"id":4,"error":{"code":-32602,"message":"unknown mode"}}"#;
const UNCONFIRMED: &str = "notice:permission_unconfirmed";

/// A session whose agent has modes and models, and is idle in this permission mode.
fn in_mode(permission: PermissionMode) -> World {
    let mut world = World::live(|plan, _| {
        let talk = Conversation { permission, cwd: "/src".to_owned(), ..Conversation::default() };
        plan.attempts[0].conversation = Some(Box::new(talk));
    });
    world.give(RunInput::Begin).give(RunInput::Spawned { pid: 7, containment: "test" });
    let current = if permission == PermissionMode::Ask { "default" } else { "acceptEdits" };
    let modes = format!(
        r#"{{"currentModeId":"{current}","availableModes":[{{"id":"default"}},{{"id":"acceptEdits"}}]}}"#
    );
    let models = r#"{"currentModelId":"a","availableModels":[{"modelId":"a"},{"modelId":"b"}]}"#;
    world.says(HELLO);
    world.says(&format!(r#"{{"id":2,"result":{{"sessionId":"s","modes":{modes},"models":{models}}}}}"#));
    world.says(&done(3));
    assert_eq!(mode(&world), permission);
    world
}

fn set(world: &mut World, order: u64, option: &str, value: &str) -> String {
    after(world, |world| {
        let (option, value) = (option.to_owned(), value.to_owned());
        world.order(order, SessionOrder::SetOption { option, value });
    })
}

fn mode(world: &World) -> PermissionMode {
    world.run.process().permission().expect("a conversation")
}

#[test]
fn a_stricter_mode_counts_at_once() {
    let mut world = in_mode(PermissionMode::Edit);
    assert_eq!(set(&mut world, 1, "permission", "read"), "options_changed !write");
    assert_eq!(mode(&world), PermissionMode::Read);
    let log = after(&mut world, |world| {
        world.says(SHELL);
    });
    assert!(log.contains("approval_decided !sync(1)"), "denied by the mode: {log}");
    assert!(world.says(YES).log().ends_with("!answer(1, done)"), "{}", world.log());
    assert_eq!(mode(&world), PermissionMode::Read);
}

#[test]
fn a_stricter_mode_that_the_agent_does_not_acknowledge_still_counts() {
    let mut world = in_mode(PermissionMode::Edit);
    set(&mut world, 1, "permission", "read");
    let log = after(&mut world, |world| {
        world.wait(15_000);
    });
    let answer = "!answer(1, refused: the agent did not acknowledge it within 15 s)";
    assert_eq!(log, format!("{UNCONFIRMED} {answer}"));
    assert_eq!(mode(&world), PermissionMode::Read);
    let log = after(&mut world, |world| {
        world.says(NO);
    });
    assert!(log.ends_with(UNCONFIRMED), "{log}");
    assert_eq!(mode(&world), PermissionMode::Read);
    // A later order decides, when the agent has it.
    set(&mut world, 2, "permission", "edit");
    assert_eq!(mode(&world), PermissionMode::Read);
    world.says(r#"{"id":5,"result":{}}"#);
    assert_eq!(mode(&world), PermissionMode::Edit, "{}", world.log());
}

#[test]
fn a_stricter_mode_that_the_agent_rejects_changes_nothing() {
    let mut world = in_mode(PermissionMode::Edit);
    set(&mut world, 1, "permission", "ask");
    let log = after(&mut world, |world| {
        world.says(NO);
    });
    assert!(log.contains("options_changed !answer(1, refused: the agent rejected it"), "{log}");
    assert_eq!(mode(&world), PermissionMode::Edit);
}

#[test]
fn a_wider_mode_counts_when_it_is_acknowledged() {
    let mut world = in_mode(PermissionMode::Ask);
    assert_eq!(set(&mut world, 1, "permission", "edit"), "!write");
    world.wait(15_000);
    assert!(world.log().contains(UNCONFIRMED), "{}", world.log());
    assert_eq!(mode(&world), PermissionMode::Ask);
    // Late, but it is what the caller wanted, and what the agent does.
    let log = after(&mut world, |world| {
        world.says(YES);
    });
    assert!(log.ends_with("options_changed"), "{log}");
    assert_eq!(mode(&world), PermissionMode::Edit);
    let options = world.run.options().expect("live");
    assert_eq!(options.permission, Some(PermissionMode::Edit));
}

#[test]
fn the_strictest_mode_on_its_way_counts() {
    let mut world = in_mode(PermissionMode::Ask);
    set(&mut world, 1, "permission", "edit");
    set(&mut world, 2, "permission", "read");
    assert_eq!(mode(&world), PermissionMode::Read);
    world.says(YES);
    assert_eq!(mode(&world), PermissionMode::Read, "{}", world.log());
    // The agent is in the first mode, if it does not take the second one.
    world.says(r#"{"id":5,"error":{"code":-32602,"message":"no"}}"#);
    assert_eq!(mode(&world), PermissionMode::Edit, "{}", world.log());
}

#[test]
fn a_stricter_mode_holds_for_the_next_process_if_this_one_dies() {
    let mut world = in_mode(PermissionMode::Edit);
    set(&mut world, 1, "permission", "read");
    world.killed(9).swept();
    assert!(world.log().contains("!answer(1, refused: the agent's process ended"), "{}", world.log());
    assert_eq!(world.run.options().expect("live").permission, Some(PermissionMode::Read));
    let mut world = in_mode(PermissionMode::Ask);
    set(&mut world, 1, "permission", "edit");
    world.killed(9).swept();
    assert_eq!(world.run.options().expect("live").permission, None);
}

#[test]
fn an_option_that_is_acknowledged_late_is_remembered() {
    let mut world = in_mode(PermissionMode::Ask);
    set(&mut world, 1, "model", "b");
    world.wait(15_000);
    assert_eq!(world.run.options().expect("live").model, None);
    world.says(YES);
    assert_eq!(world.run.options().expect("live").model.as_deref(), Some("b"), "{}", world.log());
    assert!(!world.log().contains(UNCONFIRMED), "{}", world.log());
}

/// The agent leaves the mode in which it asks: from then on no request could be denied.
#[test]
fn a_mode_of_the_agent_counts_as_the_permission_mode_that_it_stands_for() {
    let mut world = in_mode(PermissionMode::Ask);
    assert_eq!(set(&mut world, 1, "mode", "acceptEdits"), "!write");
    assert_eq!(mode(&world), PermissionMode::Ask, "a wider mode counts when it is acknowledged");
    world.says(YES);
    assert_eq!(mode(&world), PermissionMode::Edit);
    assert_eq!(world.run.options().and_then(|options| options.permission), Some(PermissionMode::Edit));
    let refused = set(&mut world, 2, "mode", "auto");
    assert!(refused.starts_with("!answer(2, refused: ") && refused.contains("`permission`"), "{refused}");
    // A stricter one counts at once.
    assert_eq!(set(&mut world, 3, "mode", "default"), "options_changed !write");
    assert_eq!(mode(&world), PermissionMode::Ask);
}
