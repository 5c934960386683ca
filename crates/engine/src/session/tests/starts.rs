//! Requests of an agent's process to start another session.

use bowline_protocol::{ApprovalVerdict, ChildRequest, Decider, Decision, EnforcedBy, Kind, PermissionMode};

use super::*;
use crate::run::tests::decisions::SHELL;
use crate::run::{Approver, SyncId};

fn child() -> ChildRequest {
    ChildRequest {
        provider: "practice".to_owned(),
        prompt: "Review the parser".to_owned(),
        model: None,
        effort: None,
        permission: None,
        name: None,
    }
}

fn start(change: impl FnOnce(&mut ChildRequest)) -> SessionOrder {
    let mut child = child();
    change(&mut child);
    SessionOrder::Start { child }
}

fn decide(approval: &str, verdict: ApprovalVerdict) -> SessionOrder {
    SessionOrder::Decide { approval: Some(approval.into()), verdict }
}

const ALLOW: ApprovalVerdict = ApprovalVerdict::Allow { input: None };

/// A session in a mode, whose first turn runs.
fn in_mode(permission: PermissionMode) -> World {
    let mut world = World::live(|plan, live| {
        live.idle = Some(bowline_protocol::Millis(9_000));
        plan.approver = Approver::Person { deadline: Some(bowline_protocol::Millis(60_000)) };
        plan.attempts[0].conversation.as_mut().unwrap().permission = permission;
    });
    begin_process(&mut world);
    world
}

/// Returns the id of the only approval that was asked for.
fn asked(world: &World) -> String {
    let mut ids = world.events.iter().filter_map(|event| {
        if let Kind::ApprovalAsked(asked) = &event.kind { Some(asked.id.to_string()) } else { None }
    });
    let id = ids.next().expect("an approval");
    assert_eq!(ids.next(), None);
    id
}

#[test]
fn a_person_decides_and_the_decision_is_on_disk_before_the_answer() {
    for mode in [PermissionMode::Ask, PermissionMode::Edit, PermissionMode::Yolo] {
        let mut world = in_mode(mode);
        let log = after(&mut world, |world| {
            world.order(1, start(|_| {}));
        });
        assert_eq!(log, "approval_asked state:waiting_for_approval", "{mode:?}");
        let id = asked(&world);
        let log = after(&mut world, |world| {
            world.order(2, decide(&id, ALLOW));
        });
        assert_eq!(log, "approval_decided state:running !sync(1) !answer(2, done)", "{mode:?}");
        let log = after(&mut world, |world| {
            world.give(RunInput::Synced(SyncId(1)));
        });
        // Nothing is written to the agent.
        assert_eq!(log, "!answer(1, done)", "{mode:?}");
        let decided = world.events.iter().find_map(|event| {
            if let Kind::ApprovalDecided(it) = &event.kind {
                Some((it.decision, it.by, it.enforced_by))
            } else {
                None
            }
        });
        assert_eq!(decided, Some((Decision::Allow, Decider::Human, EnforcedBy::Policy)));
    }
}

#[test]
fn the_approval_shows_all_that_the_agent_chose() {
    let mut world = in_mode(PermissionMode::Edit);
    world.order(
        1,
        start(|it| {
            it.permission = Some(PermissionMode::Edit);
            it.name = Some("x with permission read".to_owned());
        }),
    );
    let asked = world.events.iter().find_map(|event| {
        if let Kind::ApprovalAsked(asked) = &event.kind { Some(asked.clone()) } else { None }
    });
    let asked = asked.unwrap();
    assert_eq!(
        asked.summary,
        "start a session of practice with permission edit, named `x with permission read`: Review the parser"
    );
    assert_eq!(
        asked.input.unwrap().as_str(),
        r#"{"provider":"practice","prompt":"Review the parser","permission":"edit","name":"x with permission read"}"#
    );
    assert!(asked.deadline.is_some());
}

#[test]
fn a_denial_and_a_deadline_are_answers() {
    let mut world = in_mode(PermissionMode::Ask);
    world.order(1, start(|_| {}));
    let id = asked(&world);
    let deny = ApprovalVerdict::Deny { message: Some("not now".to_owned()) };
    world.order(2, decide(&id, deny)).give(RunInput::Synced(SyncId(1)));
    assert!(world.log().ends_with("!answer(1, refused: denied by a person: not now)"), "{}", world.log());
    world.order(3, start(|_| {})).wait(60_000).give(RunInput::Synced(SyncId(2)));
    assert!(world.log().ends_with("!answer(3, refused: denied by its deadline)"), "{}", world.log());
}

#[test]
fn no_session_can_do_more_than_its_parent() {
    let refusal = |mode, change: fn(&mut ChildRequest)| {
        let mut world = in_mode(mode);
        let log = after(&mut world, |world| {
            world.order(1, start(change));
        });
        assert!(log.starts_with("!answer(1, refused: not p"), "{mode:?}: {log}");
        log
    };
    assert!(refusal(PermissionMode::Read, |_| {}).contains("`read`, which starts nothing"));
    let edit: fn(&mut ChildRequest) = |it| it.permission = Some(PermissionMode::Edit);
    assert!(refusal(PermissionMode::Ask, edit).contains("mode `edit`, and this one has `ask`"));
    for mode in [PermissionMode::Ask, PermissionMode::Edit, PermissionMode::Yolo] {
        let log = refusal(mode, |it| it.permission = Some(PermissionMode::Yolo));
        assert!(log.contains("at most `edit` is possible"), "{log}");
    }
    assert!(refusal(PermissionMode::Yolo, |it| it.provider = "acp:sh".to_owned()).contains("one provider"));
}

#[test]
fn nothing_is_started_without_a_person() {
    let mut world = World::live(|plan, _| plan.approver = Approver::Mode);
    begin_process(&mut world);
    world.order(1, start(|_| {}));
    assert!(world.log().contains("!answer(1, refused: not permitted: no person decides"), "{}", world.log());
    let mut idle = World::live(|plan, _| plan.prompt = None);
    idle.give(RunInput::Begin).order(1, start(|_| {}));
    assert!(
        idle.log().contains("!answer(1, refused: not permitted: the agent has no process"),
        "{}",
        idle.log()
    );
}

#[test]
fn it_can_be_allowed_once_and_as_it_is() {
    let mut world = in_mode(PermissionMode::Ask);
    world.order(1, start(|_| {}));
    let id = asked(&world);
    let changed = bowline_protocol::Json::parse(r#"{"provider":"x","prompt":"y"}"#).unwrap();
    for verdict in [ApprovalVerdict::AllowForSession, ApprovalVerdict::Allow { input: Some(changed) }] {
        let log = after(&mut world, |world| {
            world.order(2, decide(&id, verdict));
        });
        assert_eq!(log, "!answer(2, refused: the agent does not offer this answer to its request)");
    }
}

#[test]
fn few_requests_wait_at_once() {
    let mut world = in_mode(PermissionMode::Ask);
    for order in 1..=5 {
        world.order(order, start(|_| {}));
    }
    assert_eq!(world.log().matches("approval_asked").count(), 4);
    assert!(world.log().contains("!answer(5, refused: not possible: 4 requests"), "{}", world.log());
}

#[test]
fn the_end_of_the_agent_answers_what_waits() {
    // Asked, and allowed but not on disk yet.
    for allowed in [false, true] {
        let mut world = in_mode(PermissionMode::Ask);
        world.order(1, start(|_| {}));
        if allowed {
            let id = asked(&world);
            world.order(2, decide(&id, ALLOW));
        }
        world.exits(1).swept().wait(1_000);
        let log = world.log();
        assert_eq!(log.matches("!answer(1, ").count(), 1, "{log}");
        assert!(log.contains("!answer(1, refused: the session is being stopped"), "{log}");
        assert_eq!(log.matches("approval_decided").count(), 1, "{log}");
    }
}

#[test]
fn a_request_of_the_agent_cannot_have_the_id_of_one_to_start_a_session() {
    let mut world = in_mode(PermissionMode::Ask);
    world.order(1, start(|_| {}));
    let id = asked(&world);
    // The agent sees the id in the journal, and uses it for a request of its own.
    world.says(&SHELL.replace(r#""id":1"#, &format!(r#""id":"{id}""#)));
    let log = after(&mut world, |world| {
        world.order(2, decide(&id, ALLOW)).give(RunInput::Synced(SyncId(1)));
    });
    assert!(log.contains("!answer(1, done)") && !log.contains("!write"), "{log}");
    let open: Vec<String> =
        world.run.snapshot().unwrap().approvals.iter().map(|it| it.id.to_string()).collect();
    assert_eq!(open.len(), 1, "the agent's own request is still open");
    assert!(open[0].starts_with(&format!("{id}@")), "{open:?}");
}

#[test]
fn an_idle_agent_that_waits_for_a_person_is_kept() {
    let mut world = in_mode(PermissionMode::Ask);
    world.says(&done(3)).order(1, start(|_| {}));
    assert!(!world.wait(30_000).log().contains("!close-stdin"), "{}", world.log());
    world.wait(600_000);
    assert!(world.log().contains("!close-stdin"), "after the deadline: {}", world.log());
}
