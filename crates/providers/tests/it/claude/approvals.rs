//! Approvals and questions of Claude Code.

use super::*;

#[test]
fn approvals_are_decided_once_by_whoever_decided() {
    let captures = fixtures::all();
    let play = |case: &str| captures.iter().find(|capture| capture.case == case).expect(case).events();
    use Decision::{Allow, Deny};
    for (case, expected) in [
        ("bidi-perm-allow", (Allow, Decider::Host)),
        ("bidi-perm-allow-noinput", (Allow, Decider::Host)),
        ("bidi-perm-allow-modified", (Allow, Decider::Host)),
        ("bidi-perm-deny", (Deny, Decider::Host)),
        ("bidi-perm-bad-response", (Deny, Decider::Host)),
        ("bidi-perm-error-response", (Deny, Decider::Host)),
        ("bidi-perm-stdin-closed", (Deny, Decider::ClientLost)),
        ("bidi-interrupt-during-perm", (Deny, Decider::Withdrawn)),
        ("tool-bash-default-denied", (Deny, Decider::Policy)),
    ] {
        assert_eq!(decisions(&play(case)), [expected], "{case}");
    }
    let changed = |case: &str| {
        play(case).iter().any(
            |event| matches!(&event.kind, Kind::ApprovalDecided(decided) if decided.changed_input.is_some()),
        )
    };
    assert!(changed("bidi-perm-allow-modified") && !changed("bidi-perm-allow"));
}

#[test]
fn an_approval_of_which_no_answer_was_seen_is_decided_by_what_follows() {
    let ask = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t"}}"#;
    let ran =
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}"#;
    let call = calls("m", "t", "Bash");
    let allowed = events(&lines(&[INIT, &call, ask, ran]));
    assert_eq!(decisions(&allowed), [(Decision::Allow, Decider::Host)]);
    let lost = events(&lines(&[INIT, &call, ask]));
    assert_eq!(decisions(&lost), [(Decision::Deny, Decider::Withdrawn)]);
    let ended = events(&lines(&[
        INIT,
        &call,
        ask,
        &result(json!({"is_error": true, "terminal_reason": "aborted_tools"})),
    ]));
    assert_eq!(decisions(&ended), [(Decision::Deny, Decider::Withdrawn)]);
}

#[test]
fn a_question_is_asked_and_answered() {
    let ask = r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","tool_use_id":"t","input":{"questions":[{"question":"A?","options":[{"label":"x"},{"label":"y"}]},{"question":"B?","multiSelect":true,"options":[]}]}}}"#;
    let answer = r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"behavior":"allow","updatedInput":{"answers":{"A?":"y","B?":["p","q"]}}}}}"#;
    let events = talk(&[
        ('<', INIT.into()),
        ('<', calls("m", "t", "AskUserQuestion")),
        ('<', ask.into()),
        ('>', answer.into()),
    ]);
    let told: Vec<(String, Vec<String>)> = events
        .iter()
        .filter_map(|event| {
            if let Kind::QuestionAsked(asked) = &event.kind {
                Some((asked.id.to_string(), asked.choices.clone()))
            } else if let Kind::QuestionAnswered(answered) = &event.kind {
                Some((answered.id.to_string(), answered.answers.clone()))
            } else {
                None
            }
        })
        .collect();
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        told,
        [
            ("r".to_owned(), strings(&["x", "y"])),
            ("r#2".to_owned(), strings(&[])),
            ("r".to_owned(), strings(&["y"])),
            ("r#2".to_owned(), strings(&["p", "q"])),
        ]
    );
}
