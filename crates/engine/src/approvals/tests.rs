//! Tables of requests and decisions, for every permission mode.

use bowline_protocol::ApprovalCategory::{Edit, Network, Other, Read, Shell};
use bowline_protocol::OptionEffect::{AllowAlways, AllowOnce, RejectOnce};
use bowline_protocol::Risk::{High, Low, Med};

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
            let decision = decide_by_mode(&request(category, risk, paths), &talk(mode));
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
        let decision = decide_by_mode(&request, &talk(PermissionMode::Edit));
        assert_eq!(decision.answer == ApprovalAnswer::AllowOnce, why.is_none(), "{paths:?}");
        assert_eq!(decision.notice.map(|text| text.starts_with(why.unwrap_or("?"))), why.map(|_| true));
        // The other modes explain themselves.
        for mode in [PermissionMode::Read, PermissionMode::Ask, PermissionMode::Yolo] {
            assert_eq!(decide_by_mode(&request, &talk(mode)).notice, None, "{mode:?} {paths:?}");
        }
    }
}

#[test]
fn always_is_chosen_only_where_everything_is_allowed_and_nothing_else_is_offered() {
    let offered = |offers: &[OptionEffect], mode| {
        let request = DecisionRequest { offers: offers.to_vec(), ..request(Read, Low, None) };
        decide_by_mode(&request, &talk(mode)).answer
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
