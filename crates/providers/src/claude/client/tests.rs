//! The client against programs that were recorded, and against some that the tests play.

mod gates;
mod scene;

use bowline_protocol::kinds::{Outcome, TurnOrigin};
use bowline_protocol::{Attachment, Category, Code, Decision, Kind, Resume, Risk};

use self::scene::Scene;
use super::*;
use crate::dialect::Acknowledgement;

use Outcome::{Cancelled, Completed};

fn text(texts: &[(u32, &str)]) -> Vec<(u32, String)> {
    texts.iter().map(|(turn, text)| (*turn, (*text).to_owned())).collect()
}

fn acknowledged(scene: &Scene) -> Vec<bool> {
    scene.acknowledged.iter().map(|it| it.result.is_ok()).collect()
}

fn starts(scene: &Scene) -> Vec<TurnOrigin> {
    let start = |draft: &crate::dialect::UnnumberedEvent| {
        if let Kind::TurnStarted(it) = &draft.kind { Some(it.origin) } else { None }
    };
    scene.drafts.iter().filter_map(start).collect()
}

/// Plays a recording in which no approval is asked for. Returns the prompts that were read late, and the prompts of each turn.
fn check(case: &str, outcomes: &[Outcome], read: &[&str], prompts: &[(u32, &str)]) -> Scene {
    let mut scene = Scene::plays(case);
    assert_eq!(scene.outcomes(), outcomes, "{case}");
    assert_eq!(scene.read, read, "{case}");
    assert_eq!(scene.prompts(), text(prompts), "{case}");
    assert!(acknowledged(&scene).iter().all(|it| *it), "{case}: {:?}", scene.acknowledged);
    assert_eq!(starts(&scene), vec![TurnOrigin::Prompt; outcomes.len()], "{case}");
    scene
}

#[test]
fn a_steer_joins_the_turn_in_a_tool_and_is_the_next_turn_in_text() {
    let run = "NOTE-A DO[run sleep 3; echo ran | say Ran.]DO";
    let (slow, steer) = ("NOTE-A DO[slow 8]DO", "NOTE-B also this");
    for (case, prompts) in [
        ("bidi-steer-tool", [(1, run), (1, steer)]),
        ("bidi-steer-none-tool", [(1, "CASE:sleepfour go"), (1, "CASE:text steered")]),
        ("bidi-steer-text", [(1, slow), (2, steer)]),
        ("bidi-steer-next-text", [(1, "CASE:slow(0.15) go"), (2, "CASE:text steered")]),
    ] {
        let turns = prompts[1].0 as usize;
        let scene = check(case, &vec![Completed; turns], &["p2"], &prompts);
        assert_eq!(acknowledged(&scene), [true], "{case}");
    }
}

#[test]
fn a_steer_at_an_approval_leaves_it_open() {
    let prompts = [(1, "NOTE-A DO[write /home/u/proj/new.txt | say Written.]DO"), (1, "NOTE-B also this")];
    let scene = check("bidi-steer-perm", &[Completed], &["p2"], &prompts);
    let asked = scene.asked();
    assert_eq!(scene.decided(), [(asked[0].clone(), Decision::Allow)]);
    assert_eq!(asked.len(), 1);
}

#[test]
fn a_steer_is_taken_back_unread() {
    let scene = check("bidi-dequeue", &[Completed], &[], &[(1, "CASE:slow(0.15) go")]);
    assert_eq!(acknowledged(&scene), [true, true], "the steer, and that it is given back");
}

#[test]
fn a_steer_that_the_program_has_read_is_not_given_back() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    scene.steer("Stop.");
    let uuid = scene.sent.last().unwrap()["uuid"].as_str().unwrap().to_owned();
    let sent = scene.decoder.take_back(&"p2".into(), &scene.now, &mut scene.drafts);
    scene.listen();
    scene.answers("success", &json!({ "cancelled": false }));
    let refused = Err("the agent has read the prompt".to_owned());
    let Sent::Awaiting(token) = sent else { panic!("{sent:?}") };
    assert_eq!(scene.acknowledged, [Acknowledgement { token, result: refused }]);
    let started = json!({ "type": "command_lifecycle", "command_uuid": uuid, "state": "started" });
    scene.program(&started.to_string());
    assert_eq!(scene.read, ["p2"]);
    let sent = scene.decoder.take_back(&"p2".into(), &scene.now, &mut scene.drafts);
    assert_eq!(sent, Sent::Cannot("the agent has read it"));
}

#[test]
fn a_turn_of_the_programs_own_does_not_end_the_prompt() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    let uuid = scene.sent.last().unwrap()["uuid"].clone();
    // The program was told of the end of a background task when the prompt arrived.
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"Noted."}"#;
    scene.program(result);
    assert_eq!(scene.decoder.open_turn(), None);
    let lifecycle =
        |state: &str| json!({ "type": "command_lifecycle", "command_uuid": uuid, "state": state });
    ["queued", "started"].iter().for_each(|state| scene.program(&lifecycle(state).to_string()));
    assert_eq!(scene.decoder.open_turn(), Some(2));
    scene.program(result);
    assert_eq!((scene.outcomes(), scene.prompts()), (vec![Completed, Completed], text(&[(1, "Go.")])));
}

#[test]
fn turns_are_interrupted_and_the_process_goes_on() {
    let [slow, tool] =
        ["NOTE-A DO[slow 40]DO", "NOTE-A DO[run python3 -c 'import time; time.sleep(30)' | say Ran.]DO"];
    for (case, first) in [("bidi-interrupt-text", slow), ("bidi-interrupt-tool", tool)] {
        let mut scene = Scene::plays(case);
        assert_eq!(scene.outcomes(), [Cancelled, Completed], "{case}");
        assert_eq!(acknowledged(&scene), [true], "{case}");
        let prompts = text(&[(1, first), (2, "NOTE-B DO[say Second turn.]DO")]);
        let human = scene.users().into_iter().filter(|(_, _, text)| !text.starts_with("[Request inter"));
        assert_eq!(human.map(|(turn, _, text)| (turn, text)).collect::<Vec<_>>(), prompts, "{case}");
    }
}

#[test]
fn an_interrupt_withdraws_the_approval_and_a_late_decision_is_not_sent() {
    let mut scene = Scene::plays("bidi-interrupt-perm-next");
    assert_eq!(scene.outcomes(), [Cancelled, Completed]);
    let asked = scene.asked();
    let decided = [(asked[0].clone(), Decision::Deny), (asked[1].clone(), Decision::Allow)];
    assert_eq!(scene.decided(), decided);
    let ids: Vec<String> = scene.requests.iter().map(|it| it.approval.as_str().to_owned()).collect();
    assert_eq!(ids, asked, "the event and the request have one id");
    let sent = scene.decide(&asked[0], &ApprovalAnswer::AllowOnce);
    assert_eq!(sent, Sent::Cannot("the agent no longer waits for it"));
}

#[test]
fn decisions_are_sent_as_they_were_recorded() {
    for (case, decisions) in [
        ("bidi-perm-allow", vec![Decision::Allow]),
        ("bidi-perm-allow-modified", vec![Decision::Allow]),
        ("bidi-perm-deny", vec![Decision::Deny]),
        ("bidi-perm-session", vec![Decision::AllowAlways]),
        ("bidi-perm-two-edits", vec![Decision::Allow, Decision::Deny]),
        ("bidi-perm-two-open", vec![Decision::Deny, Decision::Deny]),
        ("bidi-perm-edit-allow", vec![Decision::Allow]),
        ("bidi-perm-open-10min", vec![Decision::Allow]),
        ("bidi-subagent-perm", vec![Decision::Allow]),
        ("bidi-exit-plan", vec![Decision::Allow]),
    ] {
        let mut scene = Scene::plays(case);
        assert!(scene.outcomes().iter().all(|it| *it == Completed), "{case}");
        let (mut asked, mut decided) = (scene.asked(), scene.decided());
        assert_eq!(decided.iter().map(|it| it.1).collect::<Vec<_>>(), decisions, "{case}");
        asked.sort();
        decided.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(decided.into_iter().map(|it| it.0).collect::<Vec<_>>(), asked, "{case}: each once");
        assert_eq!(scene.requests.len(), asked.len(), "{case}");
    }
}

/// Has the program ask for a permission in mode `default`.
fn asks(scene: &mut Scene, request: &Value) {
    let line = json!({ "type": "control_request", "request_id": "q1", "request": request });
    scene.program(&line.to_string());
}

#[test]
fn a_permission_for_the_session_stays_out_of_the_settings() {
    let rule = |destination: &str| json!({ "type": "addRules", "behavior": "allow", "destination": destination, "rules": [{ "toolName": "Bash", "ruleContent": "touch one.txt" }] });
    let mode = json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
    let bypass = json!({ "type": "setMode", "mode": "bypassPermissions", "destination": "session" });
    let dirs = |destination: &str| json!({ "type": "addDirectories", "directories": ["/p"], "destination": destination });
    for (suggestions, sent) in [
        (json!([rule("localSettings"), dirs("session"), mode]), json!([rule("session")])),
        (json!([rule("userSettings")]), json!([rule("session")])),
        (json!([dirs("projectSettings"), mode, bypass]), json!([dirs("session"), mode])),
        (json!([bypass]), Value::Null),
        (json!([]), Value::Null),
    ] {
        let mut scene = Scene::ready(&Conversation::default());
        scene.prompt("Go.");
        let input = json!({ "command": "touch one.txt" });
        asks(
            &mut scene,
            &json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": input, "permission_suggestions": suggestions }),
        );
        let lasts = scene.requests[0].offers.contains(&bowline_protocol::OptionEffect::AllowAlways);
        assert_eq!(lasts, !sent.is_null(), "{suggestions}");
        let result = scene.decide("q1", &ApprovalAnswer::AllowForSession);
        if sent.is_null() {
            assert!(!result.is_sent());
            assert_eq!(scene.decide("q1", &ApprovalAnswer::DENY), Sent::Done, "it is still open");
        } else {
            let response = &scene.sent.last().unwrap()["response"]["response"];
            let expected = json!({ "behavior": "allow", "updatedInput": input, "updatedPermissions": sent });
            assert_eq!(response, &expected);
            assert_eq!(scene.decided(), [("q1".to_owned(), Decision::AllowAlways)]);
        }
    }
}

#[test]
fn the_input_of_a_tool_goes_back_to_the_byte_and_a_denial_has_a_message() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    let input = r#"{"z":1.10,"a":12345678901234567890123}"#;
    let ask = |id: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"can_use_tool","tool_name":"X","input":{input}}}}}"#
        )
    };
    let line = ask("q1");
    scene.decoder.stdout(format!("{line}\n").as_bytes(), &scene.now, &mut scene.drafts);
    scene.decoder.take_client_output();
    let sent = scene.decoder.decide(&"q1".into(), &ApprovalAnswer::AllowOnce, &scene.now, &mut scene.drafts);
    assert_eq!(sent, Sent::Done);
    let bytes = String::from_utf8(scene.decoder.take_client_output().bytes).unwrap();
    assert!(
        bytes.ends_with(&format!(r#""response":{{"behavior":"allow","updatedInput":{input}}}}}}}{}"#, "\n")),
        "{bytes}"
    );
    scene.program(&ask("q2"));
    assert!(!scene.decide("q2", &ApprovalAnswer::AllowChanged(Json::parse("7").unwrap())).is_sent());
    assert_eq!(scene.decide("q2", &ApprovalAnswer::DENY), Sent::Done);
    let response = &scene.sent.last().unwrap()["response"]["response"];
    assert_eq!(response["message"], "The user denied permission for this action.");
}

#[test]
fn an_edit_that_the_program_protects_has_a_high_risk() {
    let write = json!({ "subtype": "can_use_tool", "tool_name": "Write", "input": { "file_path": "/p/.git/x" }, "blocked_path": "/elsewhere" });
    for (mode, risk) in [("default", Risk::Med), ("acceptEdits", Risk::High)] {
        let mut scene = Scene::ready(&Conversation::default());
        scene.prompt("Go.");
        scene.program(
            &json!({ "type": "system", "subtype": "init", "session_id": "s", "permissionMode": mode })
                .to_string(),
        );
        asks(&mut scene, &write);
        let request = &scene.requests[0];
        assert_eq!(request.paths, Some(vec!["/p/.git/x".to_owned(), "/elsewhere".to_owned()]));
        assert_eq!(request.risk, risk, "{mode}");
        let event = scene
            .drafts
            .iter()
            .find_map(|it| if let Kind::ApprovalAsked(asked) = &it.kind { Some(asked.risk) } else { None });
        assert_eq!(event, Some(risk), "{mode}");
    }
}

#[test]
fn a_sub_agent_in_the_background_may_ask_when_the_turn_is_over() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    let write = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "agent_id": "a1" });
    asks(&mut scene, &write);
    scene.program(r#"{"type":"result","subtype":"success","is_error":false,"result":"Done."}"#);
    assert_eq!(scene.decided(), []);
    assert_eq!(scene.decide("q1", &ApprovalAnswer::AllowOnce), Sent::Done);
    assert_eq!(scene.decided(), [("q1".to_owned(), Decision::Allow)]);
}

#[test]
fn questions_are_asked_and_answered_once() {
    let mut scene = Scene::plays("bidi-ask-user-question");
    assert_eq!(scene.outcomes(), [Completed]);
    let asked = scene.asked();
    assert_eq!(scene.answered(), [(asked[0].clone(), vec!["Blue".to_owned()])]);
    assert_eq!((asked.len(), scene.decided(), scene.requests.len()), (1, Vec::new(), 0));
    assert_eq!(scene.questions, [QuestionId::from(asked[0].as_str())]);

    let mut scene = Scene::plays("bidi-elicitation");
    assert_eq!(scene.outcomes(), [Completed]);
    let asked = scene.asked();
    let answers = [(asked[0].clone(), vec!["red".to_owned()]), (asked[1].clone(), Vec::new())];
    assert_eq!((scene.answered(), scene.questions.len()), (answers.to_vec(), 2));
}

#[test]
fn several_questions_of_a_request_have_one_response() {
    let question = |text: &str| json!({ "question": text, "options": [{ "label": "A" }, { "label": "B" }] });
    let input = json!({ "questions": [question("One?"), question("Two?")] });
    let request = json!({ "subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": input });
    let answers = |texts: &[&str]| QuestionReply::Answers(texts.iter().map(|it| (*it).to_owned()).collect());
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    asks(&mut scene, &request);
    assert_eq!(scene.questions, ["q1", "q1#2"].map(QuestionId::from));
    let before = scene.sent.len();
    assert!(!scene.decide("q1", &ApprovalAnswer::AllowOnce).is_sent(), "it is no approval");
    assert_eq!(scene.reply("q1#2", &answers(&["A", "B"])), Sent::Done);
    assert!(!scene.reply("q1#2", &answers(&["B"])).is_sent(), "only once");
    assert!(!scene.reply("q1#3", &answers(&["B"])).is_sent(), "there is no third one");
    assert_eq!((scene.sent.len(), scene.answered()), (before, Vec::new()), "the other one still waits");
    assert_eq!(scene.reply("q1", &answers(&["A"])), Sent::Done);
    let response = &scene.sent.last().unwrap()["response"]["response"];
    assert_eq!(response["updatedInput"]["answers"], json!({ "One?": "A", "Two?": "A, B" }));
    assert_eq!(response["updatedInput"]["questions"], input["questions"]);
    let answered = |id: &str, text: &str| (id.to_owned(), vec![text.to_owned()]);
    assert_eq!(scene.answered(), [answered("q1", "A"), answered("q1#2", "A, B")]);

    asks(&mut scene, &request);
    assert_eq!(scene.reply("q1", &QuestionReply::Dismissed), Sent::Done);
    assert_eq!(scene.reply("q1#2", &QuestionReply::Dismissed), Sent::Done);
    let response = &scene.sent.last().unwrap()["response"]["response"];
    assert_eq!(response, &json!({ "behavior": "deny", "message": "The user dismissed the questions." }));
    assert_eq!(scene.answered()[2..], [("q1".to_owned(), vec![]), ("q1#2".to_owned(), vec![])]);
}

#[test]
fn a_form_takes_values_of_its_types() {
    let fields =
        json!({ "n": { "type": "integer" }, "yes": { "type": "boolean" }, "t": { "type": "string" } });
    let form = json!({ "subtype": "elicitation", "message": "Fill in", "requested_schema": { "properties": fields }, "property_order": ["t", "n", "yes"] });
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    asks(&mut scene, &form);
    let texts = scene.drafts.iter().filter_map(|it| {
        if let Kind::QuestionAsked(asked) = &it.kind { Some(asked.text.as_str()) } else { None }
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["Fill in\n(t, n, yes)"], "the order of the answers");
    let mut reply = |texts: &[&str]| {
        let answers = texts.iter().map(|it| (*it).to_owned()).collect();
        scene.reply("q1", &QuestionReply::Answers(answers))
    };
    assert!(!reply(&["a", "b", "yes"]).is_sent(), "`b` is no number");
    assert!(!reply(&["a", "2"]).is_sent(), "one is missing");
    assert_eq!(reply(&["a", "2", "yes"]), Sent::Done);
    let content = &scene.sent.last().unwrap()["response"]["response"]["content"];
    assert_eq!(content, &json!({ "t": "a", "n": 2, "yes": true }));
}

#[test]
fn unknown_requests_are_refused_at_once() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    for subtype in ["hook_callback", "mcp_message", "of_the_future"] {
        asks(&mut scene, &json!({ "subtype": subtype }));
        let response = &scene.sent.last().unwrap()["response"];
        assert_eq!((&response["subtype"], &response["request_id"]), (&json!("error"), &json!("q1")));
        // With `--replay-user-messages` it comes back, which must not look like a refusal of the program.
        let echo = scene.sent.last().unwrap().to_string();
        let before = scene.drafts.len();
        scene.program(&echo);
        assert_eq!(scene.drafts.len(), before, "{subtype}");
    }
    assert_eq!((scene.requests.len(), scene.questions.len()), (0, 0));
}

#[test]
fn too_many_requests_are_denied_and_none_is_lost() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    for count in 0..=OPEN_AT_MOST {
        let request = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": {} });
        let line =
            json!({ "type": "control_request", "request_id": format!("q{count}"), "request": request });
        scene.program(&line.to_string());
    }
    assert_eq!(scene.requests.len(), OPEN_AT_MOST);
    assert_eq!(scene.decided(), [(format!("q{OPEN_AT_MOST}"), Decision::Deny)]);
    scene.decoder.close(&scene.now, &mut scene.drafts);
    assert_eq!(
        scene.decide("q0", &ApprovalAnswer::AllowOnce),
        Sent::Cannot("the agent no longer waits for it"),
        "its input is closed"
    );
}

#[test]
fn options_are_set_as_they_were_recorded() {
    let mut scene = Scene::plays("bidi-set-mode-in-perm");
    assert_eq!(scene.outcomes(), [Completed]);
    assert_eq!(acknowledged(&scene), [true]);

    let mut scene = Scene::ready(&Conversation::default());
    assert!(scene.set("model", "sonnet").is_sent());
    assert_eq!(scene.sent.last().unwrap()["request"], json!({ "subtype": "set_model", "model": "sonnet" }));
    assert!(scene.set("max_thinking_tokens", "2000").is_sent());
    let thinking = json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2000 });
    assert_eq!(scene.sent.last().unwrap()["request"], thinking);
    assert!(scene.set("permission", "yolo").is_sent());
    let why = "Cannot set permission mode to bypassPermissions";
    scene.answers("error", &json!(why));
    assert_eq!(scene.acknowledged.last().unwrap().result, Err(why.to_owned()));
    for (option, value) in [
        ("permission", "read"),
        ("permission", "plan"),
        ("effort", "high"),
        ("max_thinking_tokens", "x"),
        ("colour", "red"),
    ] {
        assert!(!scene.set(option, value).is_sent(), "{option}");
    }
}

#[test]
fn compaction_is_a_turn_without_a_message_of_the_user() {
    let mut scene = Scene::plays("bidi-compact");
    assert_eq!(scene.outcomes(), [Completed, Completed, Completed]);
    assert_eq!(acknowledged(&scene), [true]);
    let texts: Vec<String> = scene.users().into_iter().map(|it| it.2).collect();
    assert!(!texts.iter().any(|it| it.contains("/compact")), "{texts:?}");
}

#[test]
fn the_first_turn_shows_whether_it_is_the_session_that_is_meant() {
    let resume = |native: &str| Some(Resume::Id { native_session: native.into() });
    for (resume, wrong) in [(resume("s2"), true), (resume("s1"), false), (None, false)] {
        let mut scene = Scene::ready(&Conversation { resume, ..Conversation::default() });
        scene.prompt("Go on.");
        scene.program(r#"{"type":"system","subtype":"init","session_id":"s1"}"#);
        assert_eq!(scene.hung_up, wrong);
        assert_eq!(scene.sent.last().unwrap()["request"]["subtype"] == "interrupt", wrong);
        scene.program(r#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"Hi"}]}}"#);
        let failures: Vec<Code> = scene.drafts.iter().filter_map(code).collect();
        assert_eq!(failures, if wrong { vec![Code::SessionNotFound] } else { Vec::new() });
        assert_eq!(scene.decoder.open_turn().is_none(), wrong, "its text is not part of the session");
    }
}

fn code(draft: &crate::dialect::UnnumberedEvent) -> Option<Code> {
    if let Kind::TurnEnded(ended) = &draft.kind { Some(ended.failure.as_ref()?.code.clone()) } else { None }
}

#[test]
fn a_refused_introduction_ends_it() {
    let mut scene = Scene::of(&Conversation::default());
    assert!(!scene.steer("Now.").is_sent());
    scene.answers("error", &json!("no such request"));
    assert!(scene.hung_up && !scene.ready);
    assert!(!scene.prompt("Go.").is_sent());
    let category = scene.drafts.iter().find_map(|draft| {
        if let Kind::TurnEnded(ended) = &draft.kind { Some(ended.failure.as_ref()?.category) } else { None }
    });
    assert_eq!(category, Some(Category::Unknown));
}

#[test]
fn images_go_as_blocks_and_other_files_by_name() {
    let talk = Conversation { cwd: "/p".into(), ..Conversation::default() };
    let file = |path: &str| Attachment { path: path.into(), media_type: None };
    let mut prompt = HostPrompt::of("p1".into(), "Look.");
    prompt.attachments = vec![file("a.png"), file("b c.txt"), file("d.bmp")];
    prompt.images = [("a.png".to_owned(), b"png".to_vec()), ("d.bmp".to_owned(), b"bmp".to_vec())].into();
    let content = prompts::content(&prompt, &talk).unwrap();
    let text = "Look.\n\n@\"/p/b c.txt\"\n\n@/p/d.bmp";
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "cG5n" });
    assert_eq!(content, json!([{ "type": "text", "text": text }, { "type": "image", "source": source }]));
    prompt.attachments = vec![file("b\nc.txt")];
    assert!(prompts::content(&prompt, &talk).is_err());
}

#[test]
fn prompts_have_uuids_of_their_own() {
    let mut uuids = Vec::new();
    for millis in [0, 1_795_000_000_000] {
        let mut prompts = OwnPrompts::default();
        for name in ["p1", "p2", "p1"] {
            uuids.push(prompts.add(name, None, None, bowline_protocol::Timestamp::from_millis(millis)));
        }
    }
    for uuid in &uuids {
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{uuid}");
        assert_eq!((&uuid[14..15], &uuid[19..20]), ("4", "8"), "{uuid}");
        assert_eq!(uuids.iter().filter(|it| *it == uuid).count(), 1, "{uuid}");
    }
}
