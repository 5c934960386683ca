//! Requests of the agent under policies: judged, then decided, and nothing in between is lost.

use std::sync::Arc;

use bowline_protocol::{
    ApprovalVerdict, Decider, Decision, PermissionMode, PolicyVerdict, Risk, SessionOrder,
};
use bowline_providers::conversation::{Conversation, ToolGating};

use super::super::*;
use super::decisions::{DONE, HELLO, SESSION};
use super::world::World;
use crate::approvals::{PolicyReach, PolicySet};
use crate::policy::{PolicyRule, PolicyRules, RulePlace, WorkspaceFacts};

/// A request to run a command.
fn command(text: &str) -> String {
    let call = serde_json::json!({ "toolCallId": "u", "kind": "execute", "rawInput": { "command": text } });
    let options = r#"[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]"#;
    format!(
        r#"{{"id":1,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{call},"options":{options}}}}}"#
    )
}

const UNDESCRIBED: &str = r#"{"id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"u","kind":"other"},"options":[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}"#;
const TAKEN_BACK: &str = r#"{"method":"$/cancel_request","params":{"requestId":1}}"#;

/// A run under policies whose agent works on its prompt.
fn policed(permission: PermissionMode, approver: Approver) -> World {
    let mut world = World::with(|plan| {
        World::by_protocol(plan);
        plan.approver = approver;
        let talk = Conversation {
            permission,
            cwd: "/src".to_owned(),
            gated: ToolGating::On,
            ..Conversation::default()
        };
        plan.attempts[0].conversation = Some(Box::new(talk));
    });
    world.start();
    world.says(HELLO).says(SESSION);
    world
}

const PERSON: Approver = Approver::Person { deadline: None };

/// A policy that denies one program.
fn denying(program: &str, reach: PolicyReach) -> PolicySet {
    let mut rules = PolicyRules::built_in();
    rules.source = "policy.json".into();
    let place = RulePlace { source: rules.source.clone(), at: Some((3, 5)) };
    rules.shell.deny.push(PolicyRule { pattern: program.to_owned(), place });
    PolicySet { rules: Arc::new([rules]), reach }
}

fn facts(policies: Result<PolicySet, String>) -> HostResult {
    let workspace =
        WorkspaceFacts { cwd: "/src".into(), roots: vec!["/src".into()], ..WorkspaceFacts::default() };
    HostResult::Judged(Box::new(ActFacts { policies, workspace, paths: ResolvedPaths::default() }))
}

fn judged(world: &mut World, work: u64, policies: Result<PolicySet, String>) {
    world.give(RunInput::Host(HostWorkId(work), facts(policies)));
}

fn after(world: &mut World, act: impl FnOnce(&mut World)) -> String {
    let before = world.log().len();
    act(world);
    world.log()[before..].trim().to_owned()
}

fn decisions(world: &World) -> Vec<(Decision, Decider, Option<String>)> {
    let mut decisions = Vec::new();
    for event in &world.events {
        if let Kind::ApprovalDecided(it) = &event.kind {
            decisions.push((it.decision, it.by, it.rule.clone()));
        }
    }
    decisions
}

/// Returns the verdict, rule and risk of the only request.
fn ruling(world: &World) -> Option<(PolicyVerdict, String, Risk)> {
    world.events.iter().find_map(|event| {
        let Kind::ApprovalAsked(it) = &event.kind else { return None };
        it.ruling.as_ref().map(|ruling| (ruling.verdict, ruling.rule.clone(), it.risk))
    })
}

#[test]
fn a_request_is_judged_before_anything_is_written_about_it() {
    let mut world = policed(PermissionMode::Ask, Approver::Mode);
    assert_eq!(
        after(&mut world, |world| {
            world.says(&command("ls src"));
        }),
        "tool_started !host(1, judge)"
    );
    // A result of other work is not taken for it.
    assert_eq!(after(&mut world, |world| judged(world, 9, Ok(denying("rm", PolicyReach::Grants)))), "");
    let decided = after(&mut world, |world| judged(world, 1, Ok(denying("rm", PolicyReach::Grants))));
    assert_eq!(decided, "approval_asked approval_decided !sync(1)");
    assert_eq!(decisions(&world), [(Decision::Allow, Decider::Policy, Some("policy:default".to_owned()))]);
    world.give(RunInput::Synced(SyncId(1)));
    world.says(DONE).exits(0).swept();
}

#[test]
fn a_denied_command_names_its_rule() {
    for mode in PermissionMode::ALL {
        let mut world = policed(mode, PERSON);
        world.says(&command("ls && rm -r build"));
        judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
        let rule = "policy:shell.deny (policy.json:3:5)".to_owned();
        assert_eq!(decisions(&world), [(Decision::Deny, Decider::Policy, Some(rule))], "{mode:?}");
        assert_eq!(ruling(&world), Some((PolicyVerdict::Deny, "shell.deny".to_owned(), Risk::High)));
    }
}

#[test]
fn a_verdict_and_a_mode_decide_together() {
    use PermissionMode::{Ask, Edit, Read, Yolo};
    let (allowed, asks) = ("ls src", "git push --force");
    let grants = || denying("terraform", PolicyReach::Grants);
    let narrows = || denying("terraform", PolicyReach::Narrows);
    // The mode, the command, whether a user's policy is in force, and what a run with and without a person decides.
    let table = [
        (Ask, allowed, grants(), Some(Decision::Allow), Decision::Allow),
        (Edit, allowed, grants(), Some(Decision::Allow), Decision::Allow),
        // A policy of a project allows nothing by itself.
        (Ask, allowed, narrows(), None, Decision::Deny),
        (Edit, allowed, narrows(), None, Decision::Deny),
        (Yolo, allowed, narrows(), Some(Decision::Allow), Decision::Allow),
        // `read` promises that nothing is changed.
        (Read, allowed, grants(), Some(Decision::Deny), Decision::Deny),
        (Read, asks, grants(), Some(Decision::Deny), Decision::Deny),
        (Ask, asks, grants(), None, Decision::Deny),
        (Edit, asks, grants(), None, Decision::Deny),
        (Yolo, asks, grants(), None, Decision::Deny),
        (Yolo, asks, narrows(), None, Decision::Deny),
    ];
    for (mode, text, policy, with_person, alone) in table {
        for (approver, expected) in [(PERSON, with_person), (Approver::Mode, Some(alone))] {
            let mut world = policed(mode, approver);
            world.says(&command(text));
            judged(&mut world, 1, Ok(policy.clone()));
            let found: Vec<Decision> = decisions(&world).iter().map(|it| it.0).collect();
            let expected: Vec<Decision> = expected.into_iter().collect();
            assert_eq!(found, expected, "{mode:?} {text} {:?} {approver:?}", policy.reach);
        }
    }
}

#[test]
fn a_person_decides_what_the_policies_ask_about() {
    let mut world = policed(PermissionMode::Ask, PERSON);
    world.says(&command("git push --force"));
    judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
    let asked = ruling(&world).map(|it| it.0);
    assert_eq!(asked, Some(PolicyVerdict::Ask));
    let verdict = ApprovalVerdict::Allow { input: None };
    world.order(1, SessionOrder::Decide { approval: Some("1".into()), verdict });
    assert_eq!(decisions(&world), [(Decision::Allow, Decider::Human, None)]);
}

#[test]
fn nothing_is_allowed_for_the_session_because_the_agent_would_no_longer_ask() {
    let always = r#"[{"optionId":"ever","kind":"allow_always"},{"optionId":"no","kind":"reject_once"}]"#;
    let once = r#"[{"optionId":"go","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]"#;
    let only_always = command("ls src").replace(once, always);
    assert_ne!(only_always, command("ls src"));
    for mode in [PermissionMode::Ask, PermissionMode::Yolo] {
        let mut world = policed(mode, Approver::Mode);
        world.says(&only_always);
        judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
        let found: Vec<Decision> = decisions(&world).iter().map(|it| it.0).collect();
        assert_eq!(found, [Decision::Deny], "{mode:?}");
    }
    let mut world = policed(PermissionMode::Ask, PERSON);
    world.says(
        &command("git push --force")
            .replace(once, &format!("{},{}", &always[..always.len() - 1], &once[1..])),
    );
    judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
    let shown = world.events.iter().find_map(|event| {
        if let Kind::ApprovalAsked(it) = &event.kind { Some(it.options.clone()) } else { None }
    });
    let lasts =
        |it: &bowline_protocol::ApprovalOption| it.effect == bowline_protocol::OptionEffect::AllowAlways;
    assert!(!shown.expect("it asks").iter().any(lasts));
    world.order(
        1,
        SessionOrder::Decide { approval: Some("1".into()), verdict: ApprovalVerdict::AllowForSession },
    );
    assert!(decisions(&world).is_empty(), "{:?}", decisions(&world));
    let verdict = ApprovalVerdict::Allow { input: None };
    world.order(2, SessionOrder::Decide { approval: Some("1".into()), verdict });
    assert_eq!(decisions(&world)[0].0, Decision::Allow);
}

#[test]
fn a_request_that_describes_nothing_asks() {
    let mut world = policed(PermissionMode::Ask, Approver::Mode);
    world.says(UNDESCRIBED);
    judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
    assert_eq!(ruling(&world).map(|it| it.1), Some("unknown.request".to_owned()));
    assert_eq!(decisions(&world)[0].0, Decision::Deny);
}

#[test]
fn a_policy_that_cannot_be_read_denies() {
    for mode in [PermissionMode::Ask, PermissionMode::Yolo] {
        let mut world = policed(mode, PERSON);
        world.says(&command("ls"));
        judged(&mut world, 1, Err("policy.json is gone".to_owned()));
        assert_eq!(decisions(&world)[0].0, Decision::Deny, "{mode:?}");
        assert_eq!(ruling(&world).map(|it| it.1), Some("policy.unreadable".to_owned()));
    }
}

#[test]
fn a_changed_policy_holds_from_the_next_request_on_and_is_reported() {
    let mut world = policed(PermissionMode::Ask, Approver::Mode);
    world.says(&command("rm x"));
    judged(&mut world, 1, Ok(denying("terraform", PolicyReach::Grants)));
    world.give(RunInput::Synced(SyncId(1)));
    world.says(&command("rm x"));
    let changed = after(&mut world, |world| judged(world, 2, Ok(denying("rm", PolicyReach::Grants))));
    assert_eq!(changed, "notice:policy_changed approval_asked approval_decided !sync(2)");
    world.give(RunInput::Synced(SyncId(2)));
    world.says(&command("rm x"));
    let same = after(&mut world, |world| judged(world, 3, Ok(denying("rm", PolicyReach::Grants))));
    assert_eq!(same, "approval_asked approval_decided !sync(3)");
    let found: Vec<Decision> = decisions(&world).iter().map(|it| it.0).collect();
    assert_eq!(found, [Decision::Allow, Decision::Deny, Decision::Deny]);
}

#[test]
fn a_request_that_is_being_judged_ends_once() {
    type Ending = fn(&mut World);
    let endings: [(Ending, Decider); 3] = [
        (
            |world| {
                world.says(TAKEN_BACK);
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
                world.exits(0).swept();
            },
            Decider::Withdrawn,
        ),
    ];
    for (end, decider) in endings {
        let mut world = policed(PermissionMode::Ask, PERSON);
        world.says(&command("ls"));
        end(&mut world);
        judged(&mut world, 1, Ok(denying("rm", PolicyReach::Grants)));
        let asked = world.events.iter().filter(|it| matches!(it.kind, Kind::ApprovalAsked(_))).count();
        let found: Vec<Decider> = decisions(&world).iter().map(|it| it.1).collect();
        assert_eq!((asked, found), (1, vec![decider]));
    }
}
