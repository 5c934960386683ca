//! Requests of the agent that the host carries out.

use bowline_protocol::{ApprovalVerdict, Decider, Decision, PermissionMode, SessionOrder};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::HostAnswer;
use bowline_providers::manifest::run::HostOffer;

use super::super::*;
use super::decisions::{DONE, HELLO, SESSION, resolved};
use super::world::World;

const READ: &str = r#"{"id":5,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/src/a.rs"}}"#;
const WRITE: &str =
    r#"{"id":6,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/src/a.rs","content":"x"}}"#;
pub(super) const COMMAND: &str =
    r#"{"id":6,"method":"terminal/create","params":{"sessionId":"s","command":"make","cwd":"/src"}}"#;
const EDIT: &str = r#"{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"e","kind":"edit","locations":[{"path":"/src/a.rs"}]},"options":[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#;

/// A run whose agent works on its prompt and may ask for files. A person decides.
fn prompted(permission: PermissionMode, lifetime: Lifetime) -> World {
    let mut world = World::with(|plan| {
        World::by_protocol(plan);
        plan.lifetime = lifetime;
        plan.approver = Approver::Person { deadline: None };
        let talk = Conversation {
            permission,
            cwd: "/src".to_owned(),
            host_files: HostOffer::Offered,
            host_terminals: HostOffer::Offered,
            ..Conversation::default()
        };
        plan.attempts[0].conversation = Some(Box::new(talk));
    });
    world.start();
    world.says(HELLO).says(SESSION);
    world
}

fn after(world: &mut World, act: impl FnOnce(&mut World)) -> String {
    let before = world.log().len();
    act(world);
    world.log()[before..].trim().to_owned()
}

fn answered(world: &mut World, work: u64) {
    let text = HostAnswer::Text("text".to_owned());
    world.give(RunInput::Host(HostWorkId(work), HostResult::Called(Ok(text))));
}

fn decisions(world: &World) -> Vec<(&str, Decision, Decider, Option<&str>)> {
    let mut all = Vec::new();
    for event in &world.events {
        if let Kind::ApprovalDecided(it) = &event.kind {
            all.push((it.id.as_str(), it.decision, it.by, it.rule.as_deref()));
        }
    }
    all
}

#[test]
fn a_read_is_carried_out_in_every_mode_and_answered_once() {
    for mode in [PermissionMode::Read, PermissionMode::Ask, PermissionMode::Edit, PermissionMode::Yolo] {
        let mut world = prompted(mode, Lifetime::OnePrompt);
        let asked = after(&mut world, |world| {
            world.says(READ);
        });
        assert_eq!(asked, "!host(1, call)", "{mode:?}");
        assert_eq!(after(&mut world, |world| answered(world, 2)), "", "work that was never given");
        let sent = after(&mut world, |world| answered(world, 1));
        assert_eq!(sent, "files_touched !write", "{mode:?}");
        assert_eq!(after(&mut world, |world| answered(world, 1)), "");
    }
    // A program that is gone gets no answer.
    let mut world = prompted(PermissionMode::Ask, Lifetime::OnePrompt);
    world.says(READ).exits(0);
    assert_eq!(after(&mut world, |world| answered(world, 1)), "");
}

#[test]
fn a_write_is_carried_out_when_it_is_allowed() {
    for (mode, decided) in [
        (PermissionMode::Read, Some(Decision::Deny)),
        (PermissionMode::Ask, None),
        (PermissionMode::Edit, Some(Decision::Allow)),
        (PermissionMode::Yolo, Some(Decision::Allow)),
    ] {
        let mut world = prompted(mode, Lifetime::OnePrompt);
        world.says(WRITE);
        resolved(&mut world, 1, "/src/a.rs");
        assert_eq!(decisions(&world).first().map(|it| it.1), decided, "{mode:?}");
        let verdict = ApprovalVerdict::Allow { input: None };
        world.order(1, SessionOrder::Decide { approval: Some("6".into()), verdict });
        let done = after(&mut world, |world| {
            world.give(RunInput::Synced(SyncId(9)));
        });
        // The decision is on disk before the host writes.
        assert_eq!(done.contains("call"), mode != PermissionMode::Read, "{mode:?}: {done}");
        assert_eq!(done.contains("!write"), mode == PermissionMode::Read, "{mode:?}: {done}");
    }
}

#[test]
fn an_edit_that_was_allowed_to_the_agent_is_not_asked_about_again() {
    let mut world = prompted(PermissionMode::Ask, Lifetime::Kept);
    world.says(EDIT);
    let verdict = ApprovalVerdict::Allow { input: None };
    world.order(1, SessionOrder::Decide { approval: Some("7".into()), verdict });
    world.give(RunInput::Synced(SyncId(1))).says(WRITE);
    let expected = [
        ("7", Decision::Allow, Decider::Human, None),
        ("6", Decision::Allow, Decider::Policy, Some("edit_approved")),
    ];
    assert_eq!(decisions(&world), expected);
    // Another file is, and so is the same file in the next turn.
    world.says(&WRITE.replace("a.rs", "b.rs").replace("\"id\":6", "\"id\":8"));
    assert_eq!(world.run.process().waiting_approvals().count(), 1);
    world.says(DONE);
    assert_eq!(decisions(&world).len(), 3, "withdrawn with its turn: {}", world.log());
    world.says(&WRITE.replace("\"id\":6", "\"id\":9"));
    assert_eq!(world.run.process().waiting_approvals().count(), 1);
}

#[test]
fn a_command_is_decided_like_any_other_before_the_host_has_it() {
    for (mode, decided) in [
        (PermissionMode::Read, Some(Decision::Deny)),
        (PermissionMode::Ask, None),
        // The project is no reason: a command may do anything.
        (PermissionMode::Edit, None),
        (PermissionMode::Yolo, Some(Decision::Allow)),
    ] {
        let mut world = prompted(mode, Lifetime::OnePrompt);
        let asked = after(&mut world, |world| {
            world.says(COMMAND);
        });
        assert!(!asked.contains("!host"), "{mode:?}: {asked}");
        assert_eq!(decisions(&world).first().map(|it| it.1), decided, "{mode:?}");
        let verdict = ApprovalVerdict::Deny { message: None };
        world.order(1, SessionOrder::Decide { approval: Some("6".into()), verdict });
        let done = after(&mut world, |world| {
            world.give(RunInput::Synced(SyncId(9)));
        });
        // What a person denies never gets to the host; the agent gets its answer.
        assert_eq!(done.contains("call"), mode == PermissionMode::Yolo, "{mode:?}: {done}");
        assert_eq!(done.contains("!write"), mode != PermissionMode::Yolo, "{mode:?}: {done}");
    }
    // An edit that was allowed is no permission for a command in the same place.
    let mut world = prompted(PermissionMode::Ask, Lifetime::Kept);
    world.says(EDIT);
    let verdict = ApprovalVerdict::Allow { input: None };
    world.order(1, SessionOrder::Decide { approval: Some("7".into()), verdict });
    world.give(RunInput::Synced(SyncId(1))).says(COMMAND);
    assert_eq!(world.run.process().waiting_approvals().count(), 1);
}
