//! Requests of the agent for terminals.

use bowline_protocol::Exit;

use super::files::{called, done, request};
use super::*;
use crate::dialect::{ActionDoer, HostAnswer, HostCall, HostProblem, HostProblemKind};
use crate::dialect::{TerminalCommand, TerminalName};
use crate::manifest::run::HostOffer;

/// A client whose session is open and whose prompt runs. It offers terminals.
fn prompted() -> Scene {
    let talk = Conversation {
        cwd: "/src".to_owned(),
        prompt: "Hello".to_owned(),
        host_terminals: HostOffer::Offered,
        ..Conversation::default()
    };
    let mut scene = Scene::of(&talk);
    let hello = scene.said();
    let withheld = json!({ "readTextFile": false, "writeTextFile": false });
    assert_eq!(hello["params"]["clientCapabilities"], json!({ "fs": withheld, "terminal": true }));
    scene.answers(&hello, &json!({ "protocolVersion": 1 }));
    let open = scene.said();
    scene.answers(&open, &json!({ "sessionId": "s" }));
    assert_eq!(scene.said()["method"], "session/prompt");
    scene
}

fn decide(scene: &mut Scene, answer: &ApprovalAnswer) -> Sent {
    scene.decoder.decide(&"7".into(), answer, &scene.now, &mut scene.drafts)
}

const CREATE: &str = r#""command":"make","args":["all it","x"],"env":[{"name":"A","value":"1"}],"cwd":"/src/sub","outputByteLimit":9"#;

#[test]
fn a_command_is_an_approval_before_the_host_has_it() {
    let mut scene = prompted();
    scene.hears(&request(7, "terminal/create", CREATE));
    let asked = scene.awaited();
    let about = (asked.category, asked.risk, asked.paths.clone(), asked.doer);
    assert_eq!(about, (ApprovalCategory::Shell, Risk::High, None, ActionDoer::Host));
    let shown = scene.drafts.iter().find_map(|event| {
        let Kind::ApprovalAsked(asked) = &event.kind else { return None };
        Some((asked.summary.clone(), asked.input.clone()))
    });
    let (summary, input) = shown.expect("it was shown");
    assert_eq!(summary, "make 'all it' x");
    let expected = json!({ "command": "make 'all it' x", "cwd": "/src/sub", "env": { "A": "1" } });
    assert_eq!(serde_json::to_value(input).expect("JSON"), expected);

    assert_eq!(decide(&mut scene, &ApprovalAnswer::AllowOnce), Sent::Done);
    let call = called(&mut scene);
    let command = TerminalCommand {
        program: "make".to_owned(),
        args: vec!["all it".to_owned(), "x".to_owned()],
        env: vec![("A".to_owned(), "1".to_owned())],
        cwd: Some("/src/sub".to_owned()),
        output_limit: Some(9),
    };
    assert_eq!(call.call, HostCall::CreateTerminal(command));
    let name = TerminalName("t1".to_owned());
    let created = done(&mut scene, &call, &Ok(HostAnswer::Terminal(name)));
    assert_eq!(created["result"], json!({ "terminalId": "t1" }));

    scene.hears(&request(7, "terminal/create", CREATE));
    scene.awaited();
    assert_eq!(decide(&mut scene, &ApprovalAnswer::DENY), Sent::Done);
    assert_eq!(scene.said()["error"], json!({ "code": -32603, "message": "the command was denied" }));
    assert!(scene.decoder.take_client_output().host.is_empty(), "nothing was started");
}

#[test]
fn what_is_done_with_a_terminal_needs_no_approval() {
    let name = || TerminalName("t1".to_owned());
    let output = |exit| HostAnswer::Output { text: "x".to_owned(), truncated: true, exit };
    for (method, call, answer, expected) in [
        (
            "output",
            HostCall::TerminalOutput(name()),
            output(None),
            json!({ "output": "x", "truncated": true }),
        ),
        (
            "output",
            HostCall::TerminalOutput(name()),
            output(Some(Exit::Code(3))),
            json!({ "output": "x", "truncated": true, "exitStatus": { "exitCode": 3, "signal": null } }),
        ),
        (
            "wait_for_exit",
            HostCall::WaitForExit(name()),
            HostAnswer::Exited(Exit::Signal(9)),
            json!({ "exitCode": null, "signal": "SIGKILL" }),
        ),
        ("kill", HostCall::KillTerminal(name()), HostAnswer::Ended, json!({})),
        ("release", HostCall::ReleaseTerminal(name()), HostAnswer::Ended, json!({})),
    ] {
        let mut scene = prompted();
        scene.hears(&request(7, &format!("terminal/{method}"), r#""terminalId":"t1""#));
        let asked = called(&mut scene);
        assert_eq!(asked.call, call, "{method}");
        assert_eq!(done(&mut scene, &asked, &Ok(answer))["result"], expected, "{method}");
    }
    let mut scene = prompted();
    scene.hears(&request(7, "terminal/kill", r#""terminalId":"t9""#));
    let asked = called(&mut scene);
    let problem = HostProblem { kind: HostProblemKind::Refused, message: "no such".to_owned() };
    let error = json!({ "code": -32602, "message": "no such" });
    assert_eq!(done(&mut scene, &asked, &Err(problem))["error"], error);
}

#[test]
fn wrong_requests_for_terminals_are_answered_at_once() {
    let mut scene = prompted();
    for (method, params) in [
        ("create", r#""args":[]"#.to_owned()),
        ("create", r#""command":"""#.to_owned()),
        ("create", r#""command":"a","args":"b""#.to_owned()),
        ("create", r#""command":"a","args":[1]"#.to_owned()),
        ("create", r#""command":"a","env":[{"name":"A=B","value":"1"}]"#.to_owned()),
        ("create", r#""command":"a","env":[{"name":"A"}]"#.to_owned()),
        ("create", r#""command":"a","cwd":7"#.to_owned()),
        ("create", r#""command":"a","outputByteLimit":-1"#.to_owned()),
        ("create", r#""command":"a\u0000b""#.to_owned()),
        ("create", format!(r#""command":"a","args":["{}"]"#, "x".repeat(64 << 10))),
        ("create", r#""command":"a","sessionId":"other""#.to_owned()),
        ("output", String::from(r#""terminal":"t1""#)),
    ] {
        scene.hears(&request(7, &format!("terminal/{method}"), &params));
        assert_eq!(scene.said()["error"]["code"], -32602, "{method} {params:.80}");
    }
    scene.hears(&request(7, "terminal/resize", r#""terminalId":"t1""#));
    assert_eq!(scene.said()["error"]["code"], -32601);
    // Absent and `null` are the same.
    scene.hears(&request(7, "terminal/create", r#""command":"a","args":null,"env":null,"cwd":null"#));
    scene.awaited();
    assert_eq!(scene.decoder.interrupt(&scene.now, &mut scene.drafts), Sent::Done);
    let (sent, _) = scene.sent();
    assert_eq!(sent.iter().filter(|line| line["error"]["code"] == -32800).count(), 1, "{sent:?}");
}

#[test]
fn without_the_offer_terminals_are_not_supported() {
    let mut scene = Scene::of(&Conversation { cwd: "/src".to_owned(), ..Conversation::default() });
    assert_eq!(scene.said()["params"]["clientCapabilities"]["terminal"], false);
    scene.hears(&request(0, "terminal/create", r#""command":"a""#));
    assert_eq!(scene.said()["error"]["code"], -32601);
}
