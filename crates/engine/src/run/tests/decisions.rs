//! Decisions on approvals: written down, synced, and only then sent.

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{ApprovalVerdict, Decider, Decision, PermissionMode, SessionOrder};
use bowline_providers::conversation::Conversation;

use super::super::*;
use super::world::World;

const ALLOW: ApprovalVerdict = ApprovalVerdict::Allow { input: None };
const DENY: ApprovalVerdict = ApprovalVerdict::Deny { message: None };

pub(crate) const HELLO: &str = r#"{"id":1,"result":{"protocolVersion":1}}"#;
pub(crate) const SESSION: &str = r#"{"id":2,"result":{"sessionId":"s"}}"#;
pub(crate) const READ: &str = r#"{"id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"read"},"options":[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#;
pub(crate) const SHELL: &str = r#"{"id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"u","kind":"execute"},"options":[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#;
pub(crate) const EDIT: &str = r#"{"id":2,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"e","kind":"edit","locations":[{"path":"/src/a.rs"}]},"options":[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#;
pub(crate) const EDIT_TAKEN_BACK: &str = r#"{"method":"$/cancel_request","params":{"requestId":2}}"#;
pub(crate) const TAKEN_BACK: &str = r#"{"method":"$/cancel_request","params":{"requestId":0}}"#;
pub(crate) const DONE: &str = r#"{"id":3,"result":{"stopReason":"end_turn"}}"#;

/// A run whose agent works on its prompt.
fn prompted() -> World {
    prompted_by(PermissionMode::Read, |_| {})
}

/// The same with a person who decides within ten minutes.
fn asking_a_person(permission: PermissionMode) -> World {
    prompted_by(permission, |plan| plan.approver = Approver::Person { deadline: Some(Millis(600_000)) })
}

fn prompted_by(permission: PermissionMode, change: impl FnOnce(&mut RunPlan)) -> World {
    let mut world = World::with(|plan| {
        World::by_protocol(plan);
        plan.attempts[0].limits.in_tool = Some(Millis(60_000));
        plan.attempts[0].limits.total = Some(Millis(120_000));
        let talk = Conversation { permission, cwd: "/src".to_owned(), ..Conversation::default() };
        plan.attempts[0].conversation = Some(Box::new(talk));
        change(plan);
    });
    world.start();
    world.says(HELLO).says(SESSION);
    assert!(world.log().ends_with("!write"), "the prompt is sent: {}", world.log());
    world
}

/// The part of the log since a call.
fn after(world: &mut World, act: impl FnOnce(&mut World)) -> String {
    let before = world.log().len();
    act(world);
    world.log()[before..].trim().to_owned()
}

fn synced(world: &mut World, sync: u64) {
    world.give(RunInput::Synced(SyncId(sync)));
}

fn decisions(world: &World) -> Vec<(&str, Decision, Decider)> {
    let mut all = Vec::new();
    for event in &world.events {
        if let Kind::ApprovalDecided(it) = &event.kind {
            all.push((it.id.as_str(), it.decision, it.by));
        }
    }
    all
}

#[test]
fn a_decision_is_sent_after_its_event_is_on_disk() {
    let mut world = prompted();
    let asked = after(&mut world, |world| {
        world.says(READ);
    });
    assert!(asked.ends_with("approval_asked approval_decided !sync(1)"), "{asked}");
    assert_eq!(after(&mut world, |world| synced(world, 0)), "");
    assert_eq!(after(&mut world, |world| synced(world, 1)), "!write");
    // A second report of the same sync sends nothing twice.
    assert_eq!(after(&mut world, |world| synced(world, 1)), "");
    assert_eq!(decisions(&world), [("0", Decision::Allow, Decider::Policy)]);
    world.says(DONE).exits(0).swept();
    assert_eq!(world.ended().outcome, Outcome::Completed);
}

/// Reports where the file of a request is, after all links.
pub(crate) fn resolved(world: &mut World, work: u64, file: &str) {
    let paths = ResolvedPaths { files: vec![Some(file.into())], roots: vec!["/src".into()] };
    world.give(RunInput::Host(HostWorkId(work), HostResult::Resolved(paths)));
}

#[test]
fn an_edit_is_decided_when_its_links_have_been_followed() {
    let mut world = prompted_by(PermissionMode::Edit, |_| {});
    let asked = after(&mut world, |world| {
        world.says(EDIT);
    });
    assert!(asked.ends_with("approval_asked !host(1, resolve)"), "{asked}");
    // A result of other work is not taken for it.
    assert_eq!(after(&mut world, |world| resolved(world, 7, "/src/a.rs")), "");
    assert_eq!(after(&mut world, |world| resolved(world, 1, "/src/a.rs")), "approval_decided !sync(1)");
    assert_eq!(after(&mut world, |world| resolved(world, 1, "/src/a.rs")), "", "decided once");
    assert_eq!(decisions(&world), [("2", Decision::Allow, Decider::Policy)]);

    let mut world = prompted_by(PermissionMode::Edit, |_| {});
    world.says(EDIT);
    let decided = after(&mut world, |world| resolved(world, 1, "/etc/a.rs"));
    assert_eq!(decided, "notice:- approval_decided !sync(1)", "the refusal is explained");
    assert_eq!(decisions(&world), [("2", Decision::Deny, Decider::Policy)]);

    // A person may allow what leads out of the project.
    let mut world = asking_a_person(PermissionMode::Edit);
    world.says(EDIT);
    resolved(&mut world, 1, "/etc/a.rs");
    assert_eq!(decisions(&world), []);
    let verdict = ALLOW;
    world.order(1, SessionOrder::Decide { approval: Some("2".into()), verdict });
    assert_eq!(decisions(&world), [("2", Decision::Allow, Decider::Human)]);
}

#[test]
fn a_request_whose_links_are_being_followed_ends_once() {
    let begun = || {
        let mut world = prompted_by(PermissionMode::Edit, |_| {});
        world.says(EDIT);
        world
    };
    type Ending = fn(&mut World);
    let endings: [(Ending, Decider); 3] = [
        (
            |world| {
                world.says(EDIT_TAKEN_BACK);
            },
            Decider::Withdrawn,
        ),
        (
            |world| {
                world.command(RunCommand::Cancel);
            },
            Decider::Host,
        ),
        (
            |world| {
                world.exits(0);
            },
            Decider::Withdrawn,
        ),
    ];
    for (end, by) in endings {
        let mut world = begun();
        end(&mut world);
        assert_eq!(after(&mut world, |world| resolved(world, 1, "/src/a.rs")), "", "{by:?}");
        world.exits(0).swept();
        assert_eq!(decisions(&world), [("2", Decision::Deny, by)]);
    }
}

#[test]
fn two_open_requests_are_decided_and_sent_each() {
    let mut world = prompted();
    world.says(READ).says(SHELL);
    let sent = after(&mut world, |world| synced(world, 2));
    assert_eq!(sent.matches("!write").count(), 1, "both in one write: {sent}");
    let expected = [("0", Decision::Allow, Decider::Policy), ("1", Decision::Deny, Decider::Policy)];
    assert_eq!(decisions(&world), expected);
}

#[test]
fn a_request_that_the_agent_takes_back_is_decided_once() {
    let mut world = prompted();
    world.says(READ).says(TAKEN_BACK);
    let sent = after(&mut world, |world| synced(world, 1));
    assert_eq!(sent, "notice:-", "nothing is sent to an agent that no longer waits");
    assert_eq!(decisions(&world), [("0", Decision::Allow, Decider::Policy)]);
}

#[test]
fn an_agent_that_is_gone_gets_no_decision() {
    let mut world = prompted();
    world.says(READ).exits(0);
    assert_eq!(after(&mut world, |world| synced(world, 1)), "");
    world.swept();
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn a_run_that_is_stopped_allows_nothing_more() {
    let mut world = prompted();
    world.command(RunCommand::Cancel).says(READ);
    assert_eq!(decisions(&world), [("0", Decision::Deny, Decider::Host)]);
    let sent = after(&mut world, |world| synced(world, 1));
    assert_eq!(sent, "!write", "some agents end a turn only after an answer");
}

/// Gives a person's decision, and returns what follows from it.
fn person(world: &mut World, approval: &str, verdict: ApprovalVerdict) -> String {
    let approval = Some(approval.into());
    after(world, |world| {
        world.order(5, SessionOrder::Decide { approval, verdict });
    })
}

#[test]
fn a_person_decides_and_no_clock_runs_meanwhile() {
    let mut world = asking_a_person(PermissionMode::Ask);
    let asked = after(&mut world, |world| {
        world.says(SHELL);
    });
    assert!(asked.ends_with("approval_asked state:waiting_for_approval"), "{asked}");
    assert_eq!(world.run.process().waiting_approvals().count(), 1);
    // Longer than the limit on silence and the total limit.
    assert_eq!(
        after(&mut world, |world| {
            world.wait(599_000);
        }),
        ""
    );
    let decided = person(&mut world, "1", ALLOW);
    assert_eq!(decided, "approval_decided state:running !sync(1) !answer(5, done)");
    assert_eq!(after(&mut world, |world| synced(world, 1)), "!write");
    assert_eq!(decisions(&world), [("1", Decision::Allow, Decider::Human)]);
    // The second decision on the same request does not count.
    assert_eq!(person(&mut world, "1", DENY), "!answer(5, refused: it was decided already, by a person)");
    // The limits go on where they stood.
    world.wait(59_000);
    assert!(!world.log().contains("watchdog"), "{}", world.log());
    // The total limit as well: 50 s before the request and 70 s after it, whatever the wait took.
    let mut world = asking_a_person(PermissionMode::Edit);
    world.wait(50_000).says(SHELL).wait(500_000);
    person(&mut world, "1", ALLOW);
    world.wait(59_000).says(TAKEN_BACK).wait(10_900);
    assert!(!world.log().contains("watchdog"), "{}", world.log());
    world.wait(200);
    assert!(world.log().contains("watchdog_total"), "{}", world.log());
}

/// ACP carries no reason. The other side of it, an agent that reads the reason, is Claude's.
#[test]
fn a_reason_that_the_agent_does_not_get_is_not_reported_as_sent() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(SHELL);
    let why = "not in this harbour".to_owned();
    let decided = person(&mut world, "1", ApprovalVerdict::Deny { message: Some(why.clone()) });
    assert!(decided.starts_with("notice:reason_not_sent approval_decided"), "{decided}");
    let mut told = Vec::new();
    for event in &world.events {
        if let Kind::ApprovalDecided(decided) = &event.kind {
            assert_eq!(decided.reason, None);
        } else if let Kind::Notice(notice) = &event.kind
            && notice.text.contains(&why)
        {
            told.push(notice.code.as_deref());
        }
    }
    assert_eq!(told, [Some("reason_not_sent")]);
}

#[test]
fn silence_of_the_person_is_a_refusal() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(SHELL);
    let deadline = world
        .events
        .iter()
        .find_map(|event| if let Kind::ApprovalAsked(asked) = &event.kind { asked.deadline } else { None });
    let asked_at = world.events.last().expect("an event").at;
    assert_eq!(deadline, Some(asked_at.after(Millis(600_000))), "subscribers see the deadline");
    world.wait(600_000);
    assert_eq!(decisions(&world), [("1", Decision::Deny, Decider::Timeout)]);
    assert_eq!(
        person(&mut world, "1", ALLOW),
        "!answer(5, refused: it was decided already, by its deadline)"
    );
    assert_eq!(after(&mut world, |world| synced(world, 1)), "!write", "the agent gets the refusal");
}

#[test]
fn a_person_is_asked_only_where_the_mode_leaves_it_open() {
    let edit = READ.replace(r#""kind":"read""#, r#""kind":"edit","locations":[{"path":"/src/a.rs"}]"#);
    let outside = edit.replace("/src/a.rs", "/etc/passwd");
    for (mode, line, waits) in [
        (PermissionMode::Read, SHELL, false),
        (PermissionMode::Ask, READ, true),
        (PermissionMode::Edit, READ, false),
        (PermissionMode::Edit, &edit, false),
        (PermissionMode::Edit, &outside, true),
        (PermissionMode::Edit, SHELL, true),
        (PermissionMode::Yolo, SHELL, false),
    ] {
        let mut world = asking_a_person(mode);
        world.says(line);
        resolved(&mut world, 1, "/src/a.rs");
        assert_eq!(world.run.process().waiting_approvals().count(), usize::from(waits), "{mode:?} {line}");
        assert_eq!(decisions(&world).len(), usize::from(!waits), "{mode:?} {line}");
    }
}

#[test]
fn an_answer_that_the_agent_does_not_offer_leaves_the_request_open() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(SHELL);
    assert_eq!(
        person(&mut world, "1", ApprovalVerdict::AllowForSession),
        "!answer(5, refused: the agent does not offer this answer to its request)"
    );
    assert_eq!(world.run.process().waiting_approvals().count(), 1);
}

#[test]
fn two_requests_wait_until_the_last_one_is_decided() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(READ).says(SHELL);
    let first = person(&mut world, "1", DENY);
    assert_eq!(first, "approval_decided !sync(1) !answer(5, done)", "the other one is still open");
    let second = person(&mut world, "0", ALLOW);
    assert_eq!(second, "approval_decided state:running !sync(2) !answer(5, done)");
}

#[test]
fn a_request_that_is_taken_back_waits_no_longer() {
    let mut world = asking_a_person(PermissionMode::Ask);
    let log = after(&mut world, |world| {
        world.says(READ).says(TAKEN_BACK);
    });
    assert!(log.ends_with("approval_decided state:running"), "{log}");
    assert_eq!(decisions(&world), [("0", Decision::Deny, Decider::Withdrawn)]);
}

#[test]
fn a_stop_denies_what_waits_for_a_person() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(SHELL);
    world.command(RunCommand::Cancel);
    assert_eq!(decisions(&world), [("1", Decision::Deny, Decider::Host)]);
    assert!(world.log().contains("state:stopping"), "{}", world.log());
    world.exits(0).swept();
    assert_eq!(
        person(&mut world, "1", ALLOW),
        "!answer(5, refused: the session is being stopped, or is over)"
    );
}

#[test]
fn a_run_is_not_overdue_while_a_person_is_waited_for() {
    let mut world = asking_a_person(PermissionMode::Ask);
    world.says(SHELL);
    let overdue = |world: &mut World| {
        after(world, |world| {
            world.give(RunInput::Overdue(Millis(120_000)));
        })
    };
    assert_eq!(overdue(&mut world), "");
    world.order(1, SessionOrder::Decide { approval: Some("1".into()), verdict: ALLOW });
    synced(&mut world, 1);
    // The machine slept while the agent worked.
    assert!(overdue(&mut world).starts_with("notice:watchdog_total state:stopping"), "{}", world.log());
}
