//! The panel alone: what keys, lines and refusals lead to. The tests of the renderer check the drawing.

use bowline_protocol::Timestamp;
use serde_json::json;

use super::*;

fn approval(id: &str, options: &[&str], input: &Value) -> ApprovalAsked {
    let options: Vec<Value> =
        options.iter().map(|effect| json!({"id": effect, "label": effect, "effect": effect})).collect();
    let asked = json!({"id": id, "category": "shell", "risk": "high", "summary": "rm x", "options": options,
        "input": input, "enforced_by": "agent"});
    serde_json::from_value(asked).expect("an approval")
}

/// A panel that shows one approval since the epoch.
fn panel(options: &[&str], input: &Value) -> AskPanel {
    let mut panel = AskPanel::new(AskTyping::Keys);
    panel.approval_asked(&approval("a1", options, input));
    panel.shown = Some(ShownRequest { since: Timestamp::EPOCH, covered: None, input: AskInput::Keys });
    panel
}

/// Types pieces, long after the request was shown; returns the last step.
fn typed(panel: &mut AskPanel, input: &Value, pieces: &[&str]) -> AskStep {
    let now = Timestamp::from_seconds(10);
    pieces.iter().map(|bytes| panel.typed(bytes.as_bytes(), Some(input), now)).last().expect("a piece")
}

fn decision(verdict: ApprovalVerdict) -> AskStep {
    AskStep::Order(SessionOrder::Decide { approval: Some("a1".into()), verdict })
}

#[test]
fn only_a_single_key_of_an_offered_answer_decides() {
    let input = json!({"command": "rm x"});
    let (all, once) = (["allow_once", "allow_always", "reject_once"], ["allow_once", "reject_once"]);
    let allowed = || decision(ApprovalVerdict::Allow { input: None });
    for (options, pieces, step) in [
        (&all[..], &["y"][..], allowed()),
        (&[], &["a"], decision(ApprovalVerdict::AllowForSession)),
        (&all, &["A"], decision(ApprovalVerdict::AllowForSession)),
        (&once, &["a"], AskStep::Typed),
        (&["reject_once"], &["y"], AskStep::Typed),
        (&["reject_once"], &["e", "2", "\n"], AskStep::Typed),
        (&all, &["\n"], AskStep::Typed),
        (&all, &["yes"], AskStep::Typed),
        (&all, &["\x1b[A"], AskStep::Typed),
        (&all, &["?"], AskStep::Explain),
        (&all, &["n"], decision(ApprovalVerdict::Deny { message: None })),
        (&all, &["m", "no", "\n"], decision(ApprovalVerdict::Deny { message: Some("no".to_owned()) })),
        // A line that is empty or given up decides nothing, and the keys count again.
        (&all, &["m", "\n"], AskStep::Typed),
        (&all, &["m", "no", "\x1b"], AskStep::Typed),
        (&all, &["m", "no", "\x1b", "y"], allowed()),
        // After a decision nothing counts.
        (&all, &["n", "y"], AskStep::Typed),
    ] {
        assert_eq!(typed(&mut panel(options, &input), &input, pieces), step, "{pieces:?} of {options:?}");
    }
}

#[test]
fn a_key_that_was_pressed_too_soon_does_not_count() {
    let input = json!({});
    let mut panel = panel(&[], &input);
    let at = |panel: &mut AskPanel, millis| {
        panel.typed(b"y", Some(&input), Timestamp::EPOCH.after(Millis(millis)))
    };
    assert_eq!(at(&mut panel, 299), AskStep::Typed);
    assert_eq!(at(&mut panel, 300), decision(ApprovalVerdict::Allow { input: None }));
}

#[test]
fn a_command_or_an_input_is_changed() {
    let changed =
        |input: Value| decision(ApprovalVerdict::Allow { input: Some(Json::of(&input).expect("JSON")) });
    let object = || AskStep::Remark("the input of a tool is a JSON object".to_owned());
    let unchanged = || AskStep::Remark("it is unchanged, and waits for your decision".to_owned());
    for (input, pieces, step) in [
        (
            json!({"command": "rm x", "n": 1}),
            &["e", "\x7f", "y", "\n"][..],
            changed(json!({"command": "rm y", "n": 1})),
        ),
        (json!({"command": "rm x"}), &["e", "\n"], unchanged()),
        (json!({"command": "rm x"}), &["e", "\x15", "\n"], AskStep::Typed),
        // Several lines do not fit in one: the command is typed anew.
        (json!({"command": "a\nb"}), &["e", "c", "\n"], changed(json!({"command": "c"}))),
        (
            json!({"cmd": ["rm", "a b"]}),
            &["e", "\x15", r#"{"cmd":["ls"]}"#, "\n"],
            changed(json!({"cmd": ["ls"]})),
        ),
        (json!({"path": "x"}), &["e", "!", "\n"], object()),
        (json!({"path": "x"}), &["e", "\x15", "[]", "\n"], object()),
    ] {
        assert_eq!(typed(&mut panel(&[], &input), &input, pieces), step, "{pieces:?} of {input}");
    }
    assert_eq!(card::command(&json!({"cmd": ["rm", "a b"]})), Some(("cmd", "rm 'a b'".to_owned())));
}

#[test]
fn a_refused_order_is_about_its_own_request() {
    let input = json!({"command": "rm x"});
    let mut panel = panel(&[], &input);
    let AskStep::Order(order) = typed(&mut panel, &input, &["e", "2", "\n"]) else { panic!("an order") };
    assert!(panel.order_refused(&order, &OrderRefused::NotOffered).is_some());
    let asked = approval("a1", &[], &input);
    assert!(!panel.keys(&asked, Some(&input)).change, "the key is gone");
    assert_eq!(typed(&mut panel, &input, &["y"]), decision(ApprovalVerdict::Allow { input: None }));
    // Decided by its event meanwhile: the refusal comes too late for the next request.
    assert_eq!(panel.approval_decided(&"a1".into()), Some(SettledHere::Yes));
    panel.approval_asked(&approval("a2", &[], &input));
    assert_eq!(panel.order_refused(&order, &OrderRefused::Stopping), None);
    assert_eq!(panel.open.len(), 1);
}

#[test]
fn without_a_keyboard_the_request_on_the_screen_is_denied_once() {
    let input = json!({});
    let mut panel = panel(&[], &input);
    assert_eq!(
        panel.deny_shown().map(AskStep::Order),
        Some(decision(ApprovalVerdict::Deny { message: None }))
    );
    assert_eq!(panel.deny_shown(), None);
}

#[test]
fn a_decision_that_comes_too_late_is_no_prompt() {
    let input = json!({});
    let at = Timestamp::from_seconds(10);
    for (line, is_held) in
        [("y", true), ("n wait", true), ("e ls -l", true), ("go on", false), ("yellow", false)]
    {
        let mut panel = panel(&[], &input);
        panel.typing = AskTyping::Lines;
        assert_eq!(panel.approval_decided(&"a1".into()), Some(SettledHere::No));
        let step = panel.line(line, Some(&input), at);
        assert_eq!(matches!(step, Some(AskStep::Remark(_))), is_held, "{line}: {step:?}");
        // Typed again it is a prompt: the agent may have asked in its text.
        assert_eq!(panel.line(line, Some(&input), at), None, "{line}");
    }
    // Decided here: the person knows that the request is gone.
    let mut panel = panel(&[], &input);
    panel.typing = AskTyping::Lines;
    assert!(matches!(panel.line("y", Some(&input), at), Some(AskStep::Order(_))));
    assert_eq!(panel.approval_decided(&"a1".into()), Some(SettledHere::Yes));
    assert_eq!(panel.line("y", Some(&input), at), None);
}
