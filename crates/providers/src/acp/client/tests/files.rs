//! Requests of the agent for files.

use super::*;
use crate::dialect::{ActionDoer, HostAnswer, HostCall, HostProblem, HostProblemKind, HostRequest};
use crate::manifest::run::HostOffer;

/// A client whose session is open and whose prompt runs. It offers files.
fn prompted() -> Scene {
    let talk = Conversation {
        cwd: "/src".to_owned(),
        prompt: "Hello".to_owned(),
        host_files: HostOffer::Offered,
        ..Conversation::default()
    };
    let mut scene = Scene::of(&talk);
    let hello = scene.said();
    let offered = json!({ "readTextFile": true, "writeTextFile": true });
    assert_eq!(hello["params"]["clientCapabilities"], json!({ "fs": offered, "terminal": false }));
    scene.answers(&hello, &json!({ "protocolVersion": 1 }));
    let open = scene.said();
    scene.answers(&open, &json!({ "sessionId": "s" }));
    assert_eq!(scene.said()["method"], "session/prompt");
    scene
}

impl Scene {
    pub(super) fn hears(&mut self, line: &str) {
        self.decoder.stdout(format!("{line}\n").as_bytes(), &self.now, &mut self.drafts);
    }
}

pub(super) fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"id":{id},"method":"{method}","params":{{"sessionId":"s",{params}}}}}"#)
}

/// Takes the one request for the host. Nothing is sent before its result.
pub(super) fn called(scene: &mut Scene) -> HostRequest {
    let ClientOutput { bytes, mut host, requests, .. } = scene.decoder.take_client_output();
    assert_eq!((bytes.len(), host.len(), requests.len()), (0, 1, 0));
    host.remove(0)
}

pub(super) fn done(
    scene: &mut Scene,
    request: &HostRequest,
    result: &Result<HostAnswer, HostProblem>,
) -> Value {
    let sent = scene.decoder.host_done(request.token, result, &scene.now, &mut scene.drafts);
    assert_eq!(sent, Sent::Done);
    scene.said()
}

#[test]
fn a_read_goes_to_the_host_and_its_result_to_the_agent() {
    let mut scene = prompted();
    scene.hears(&request(7, "fs/read_text_file", r#""path":"/src/a","line":2,"limit":3"#));
    let read = called(&mut scene);
    assert_eq!(read.call, HostCall::ReadText { path: "/src/a".to_owned(), line: Some(2), limit: Some(3) });
    let response = done(&mut scene, &read, &Ok(HostAnswer::Text("text".to_owned())));
    assert_eq!(response, json!({ "jsonrpc": "2.0", "id": 7, "result": { "content": "text" } }));
    // A second result of the same request is for nothing.
    let again = scene.decoder.host_done(read.token, &Ok(HostAnswer::Written), &scene.now, &mut scene.drafts);
    assert!(matches!(again, Sent::Cannot(_)));
    for (kind, code) in [
        (HostProblemKind::NotFound, -32002),
        (HostProblemKind::Refused, -32602),
        (HostProblemKind::Failed, -32603),
    ] {
        scene.hears(&request(8, "fs/read_text_file", r#""path":"/src/a""#));
        let read = called(&mut scene);
        let problem = HostProblem { kind, message: "no".to_owned() };
        assert_eq!(done(&mut scene, &read, &Err(problem))["error"], json!({ "code": code, "message": "no" }));
    }
}

#[test]
fn a_write_is_an_approval_first() {
    let mut scene = prompted();
    let write = request(7, "fs/write_text_file", r#""path":"/src/a","content":"text""#);
    scene.hears(&write);
    let asked = scene.awaited();
    let about = (asked.category, asked.risk, asked.paths.clone(), asked.doer);
    let paths = Some(vec!["/src/a".to_owned()]);
    assert_eq!(about, (ApprovalCategory::Edit, Risk::Med, paths, ActionDoer::Host));
    let decide = |scene: &mut Scene, answer: &ApprovalAnswer| {
        scene.decoder.decide(&"7".into(), answer, &scene.now, &mut scene.drafts)
    };
    assert_eq!(decide(&mut scene, &ApprovalAnswer::AllowOnce), Sent::Done);
    let call = called(&mut scene);
    let expected = HostCall::WriteText { path: "/src/a".to_owned(), content: "text".to_owned() };
    assert_eq!(call.call, expected);
    assert_eq!(done(&mut scene, &call, &Ok(HostAnswer::Written))["result"], json!({}));

    scene.hears(&write);
    scene.awaited();
    let message = Some("not today".to_owned());
    assert_eq!(decide(&mut scene, &ApprovalAnswer::Deny { message }), Sent::Done);
    assert_eq!(scene.said()["error"]["message"], "not today");
}

#[test]
fn a_write_that_waits_ends_with_its_prompt_or_by_the_agent() {
    let withdrawn = |scene: &Scene| {
        let is_withdrawal = |it: &&UnnumberedEvent| matches!(&it.kind, Kind::ApprovalDecided(it) if it.by == bowline_protocol::Decider::Withdrawn);
        scene.drafts.iter().filter(is_withdrawal).count()
    };
    let asked = || {
        let mut scene = prompted();
        scene.hears(&request(7, "fs/write_text_file", r#""path":"/src/a","content":"text""#));
        scene.awaited();
        scene
    };
    let mut scene = asked();
    scene.hears(r#"{"method":"$/cancel_request","params":{"requestId":7}}"#);
    assert_eq!(withdrawn(&scene), 1);

    let mut scene = asked();
    scene.hears(r#"{"id":3,"result":{"stopReason":"end_turn"}}"#);
    assert_eq!(withdrawn(&scene), 1);
    let (sent, _) = scene.sent();
    assert_eq!(sent[0]["error"]["code"], -32800, "{sent:?}");

    let mut scene = asked();
    assert_eq!(scene.decoder.interrupt(&scene.now, &mut scene.drafts), Sent::Done);
    assert_eq!(withdrawn(&scene), 1);
    let (sent, _) = scene.sent();
    assert_eq!(sent.iter().filter(|line| line["error"]["code"] == -32800).count(), 1, "{sent:?}");
    // A further one is refused at once: the prompt may do nothing more.
    scene.hears(&request(8, "fs/write_text_file", r#""path":"/src/a","content":"text""#));
    assert_eq!(scene.said()["error"]["code"], -32800);
}

#[test]
fn wrong_requests_are_answered_at_once() {
    let mut scene = prompted();
    for (method, params) in [
        ("fs/read_text_file", r#""line":1"#),
        ("fs/read_text_file", r#""path":7"#),
        ("fs/write_text_file", r#""path":"/src/a""#),
        ("fs/write_text_file", r#""path":"/src/a","content":null"#),
        ("fs/write_text_file", r#""path":"/src/a","content":"x","sessionId":"other""#),
    ] {
        scene.hears(&request(7, method, params));
        assert_eq!(scene.said()["error"]["code"], -32602, "{method} {params}");
    }
    for id in 0..64 {
        scene.hears(&request(id, "fs/read_text_file", r#""path":"/src/a""#));
    }
    assert_eq!(scene.decoder.take_client_output().host.len(), 64);
    scene.hears(&request(99, "fs/read_text_file", r#""path":"/src/a""#));
    assert_eq!(scene.said()["error"]["code"], -32603, "too many at once");
}

#[test]
fn without_the_offer_files_are_not_supported() {
    let mut scene = Scene::of(&Conversation { cwd: "/src".to_owned(), ..Conversation::default() });
    let hello = scene.said();
    let withheld = json!({ "readTextFile": false, "writeTextFile": false });
    assert_eq!(hello["params"]["clientCapabilities"]["fs"], withheld);
    scene.hears(&request(0, "fs/write_text_file", r#""path":"/src/a","content":"text""#));
    assert_eq!(scene.said()["error"]["code"], -32601);
}
