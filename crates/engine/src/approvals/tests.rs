//! Tables of requests and decisions, for every permission mode.

use bowline_protocol::ApprovalCategory::{Edit, Network, Other, Read, Shell};
use bowline_protocol::OptionEffect::{AllowAlways, AllowOnce, RejectOnce};
use bowline_protocol::Risk::{High, Low, Med};

use bowline_providers::dialect::ActionDoer;

use super::*;

fn talk(permission: PermissionMode) -> Conversation {
    Conversation {
        permission,
        cwd: "/src/boat".to_owned(),
        add_dirs: vec!["/lib/knots".to_owned()],
        ..Conversation::default()
    }
}

fn request(category: ApprovalCategory, risk: Risk, paths: Option<&[&str]>) -> DecisionRequest {
    DecisionRequest {
        approval: "0".into(),
        category,
        risk,
        paths: paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect()),
        offers: vec![AllowOnce, AllowAlways, RejectOnce],
        changeable: false,
        carries_message: false,
        doer: ActionDoer::Agent,
        acts: Vec::new(),
    }
}

#[test]
fn a_mode_allows_what_its_name_says() {
    let here: Option<&[&str]> = Some(&["/src/boat/hull.rs"]);
    // Read, ask, edit, yolo.
    for (category, risk, paths, allowed) in [
        (Read, Low, here, [true, false, true, true]),
        (Other, Low, None, [true, false, true, true]),
        (Edit, Med, here, [false, false, true, true]),
        (Edit, High, here, [false, false, false, true]),
        (Edit, Med, None, [false, false, false, true]),
        (Shell, Med, None, [false, false, false, true]),
        (Shell, High, here, [false, false, false, true]),
        (Network, Med, None, [false, false, false, true]),
        (Other, Med, here, [false, false, false, true]),
        (Other, High, None, [false, false, false, true]),
        (Read, Med, here, [false, false, false, true]),
    ] {
        let modes = [PermissionMode::Read, PermissionMode::Ask, PermissionMode::Edit, PermissionMode::Yolo];
        for (mode, allowed) in modes.into_iter().zip(allowed) {
            let decision = decide_by_mode(&request(category, risk, paths), &talk(mode), RealPlace::Inside);
            let expected = if allowed { ApprovalAnswer::AllowOnce } else { ApprovalAnswer::DENY };
            assert_eq!(decision.answer, expected, "{category:?} {risk:?} {paths:?} {mode:?}");
        }
    }
}

#[test]
fn an_edit_is_allowed_in_the_project_only_and_a_refusal_is_explained() {
    let unknown = "an edit was refused: the agent named no files";
    let outside = "an edit was refused: it names files outside of the project";
    let table: [(&[&str], Option<&str>); 9] = [
        (&["/src/boat/a.rs"], None),
        (&["a.rs", "sub/../b.rs"], None),
        (&["/lib/knots/a.rs"], None),
        (&[], Some(unknown)),
        (&["/etc/passwd"], Some(outside)),
        (&["/src/boathouse/a.rs"], Some(outside)),
        (&["../other/a.rs"], Some(outside)),
        (&["/src/boat/../../etc/passwd"], Some(outside)),
        (&["/src/boat/a.rs", "/etc/passwd"], Some(outside)),
    ];
    for (paths, why) in table {
        let request = request(Edit, Med, Some(paths));
        let decision = decide_by_mode(&request, &talk(PermissionMode::Edit), RealPlace::Inside);
        assert_eq!(decision.answer == ApprovalAnswer::AllowOnce, why.is_none(), "{paths:?}");
        assert_eq!(decision.notice.map(|text| text.starts_with(why.unwrap_or("?"))), why.map(|_| true));
        // The other modes explain themselves.
        for mode in [PermissionMode::Read, PermissionMode::Ask, PermissionMode::Yolo] {
            assert_eq!(
                decide_by_mode(&request, &talk(mode), RealPlace::Inside).notice,
                None,
                "{mode:?} {paths:?}"
            );
        }
    }
}

#[test]
fn without_a_known_directory_nothing_is_inside() {
    let nowhere = Conversation { cwd: String::new(), ..talk(PermissionMode::Edit) };
    for path in ["/etc/passwd", "a.rs"] {
        let decision = decide_by_mode(&request(Edit, Med, Some(&[path])), &nowhere, RealPlace::Inside);
        assert_eq!(decision.answer, ApprovalAnswer::DENY, "{path}");
    }
}

#[test]
fn an_edit_whose_links_lead_out_of_the_project_is_refused() {
    let inside: Option<&[&str]> = Some(&["/src/boat/hull.rs"]);
    let decided = |mode, place| decide_by_mode(&request(Edit, Med, inside), &talk(mode), place);
    let edit = PermissionMode::Edit;
    assert_eq!(decided(edit, RealPlace::Inside).answer, ApprovalAnswer::AllowOnce);
    // Without a look at the links, nothing is allowed for its place.
    for place in [RealPlace::Outside, RealPlace::NotLookedUp] {
        assert_eq!(decided(edit, place).answer, ApprovalAnswer::DENY, "{place:?}");
    }
    assert!(decided(edit, RealPlace::Outside).notice.is_some_and(|text| text.contains("symbolic link")));
    // The place is nothing to the modes that go by the sort of action alone.
    assert_eq!(decided(PermissionMode::Yolo, RealPlace::Outside).answer, ApprovalAnswer::AllowOnce);
    assert_eq!(decided(PermissionMode::Ask, RealPlace::Inside).answer, ApprovalAnswer::DENY);
}

#[test]
fn links_matter_only_for_edits_that_a_mode_allows_for_their_place() {
    let table: [(ApprovalCategory, Risk, Option<&[&str]>, bool); 6] = [
        (Edit, Med, Some(&["/src/boat/a.rs", "b.rs"]), true),
        (Edit, Med, Some(&["/etc/passwd"]), false),
        (Edit, Med, Some(&[]), false),
        (Edit, Med, None, false),
        (Edit, High, Some(&["a.rs"]), false),
        (Read, Low, Some(&["a.rs"]), false),
    ];
    for (category, risk, paths, depends) in table {
        let request = request(category, risk, paths);
        assert_eq!(
            depends_on_links(&request, &talk(PermissionMode::Edit)),
            depends,
            "{category:?} {paths:?}"
        );
        for mode in [PermissionMode::Read, PermissionMode::Ask, PermissionMode::Yolo] {
            assert!(!depends_on_links(&request, &talk(mode)), "{mode:?} {category:?} {paths:?}");
        }
    }
}

#[test]
fn always_is_chosen_only_where_everything_is_allowed_and_nothing_else_is_offered() {
    let offered = |offers: &[OptionEffect], mode| {
        let request = DecisionRequest { offers: offers.to_vec(), ..request(Read, Low, None) };
        decide_by_mode(&request, &talk(mode), RealPlace::NotLookedUp).answer
    };
    for (offers, read, yolo) in [
        (&[][..], ApprovalAnswer::AllowOnce, ApprovalAnswer::AllowOnce),
        (&[AllowAlways, AllowOnce], ApprovalAnswer::AllowOnce, ApprovalAnswer::AllowOnce),
        (&[AllowAlways, RejectOnce], ApprovalAnswer::DENY, ApprovalAnswer::AllowForSession),
        (&[RejectOnce], ApprovalAnswer::DENY, ApprovalAnswer::DENY),
    ] {
        assert_eq!(offered(offers, PermissionMode::Read), read, "{offers:?}");
        assert_eq!(offered(offers, PermissionMode::Yolo), yolo, "{offers:?}");
    }
}
