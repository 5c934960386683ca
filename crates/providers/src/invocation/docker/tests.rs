//! What `docker` is told.

use bowline_protocol::{Json, PermissionMode, Request};

use super::super::{Wish, build};
use super::*;
use crate::catalogue;

fn container() -> Container<'static> {
    Container { name: "box", cwd: Some("/work"), session: "s-1", key: Some("chat 7") }
}

fn inside(provider: &str, request: &Request) -> Invocation {
    let manifest = catalogue::by_name(provider).expect("a provider of the catalogue");
    build(manifest, request, &Wish::default()).expect("can be honoured")
}

fn args(invocation: &Invocation) -> Vec<String> {
    invocation
        .args
        .iter()
        .map(|arg| arg.text(|name| panic!("the host's file {name} means nothing")))
        .collect()
}

#[test]
fn the_command_is_the_same_inside() {
    let permission = PermissionMode::Read;
    let request =
        Request { prompt: "hi".into(), cwd: Some("/host".into()), permission, ..Request::default() };
    let host = ["PATH", "HOME", "CODEX_API_KEY", "AWS_SECRET_ACCESS_KEY", "CODEX_SANDBOX"];
    let made = wrap(inside("codex", &request), &container(), host).expect("can be wrapped");
    assert_eq!(made.program, "docker");
    let line = args(&made);
    let expected = [
        "exec",
        "-i",
        "-w",
        "/work",
        "-e",
        "BOWLINE_SESSION_ID=s-1",
        "-e",
        "DUCTOR_CHAT_ID=chat 7",
        "-e",
        "CI=true",
        "-e",
        "NO_COLOR=1",
        "-e",
        "TERM=dumb",
        "-e",
        "CODEX_API_KEY",
        "box",
        "sh",
        "-c",
        START,
        "/tmp/bowline-s-1",
        "0",
        "codex",
        "exec",
        "--json",
    ];
    assert_eq!(line[..expected.len()], expected);
    assert_eq!(line.last().map(String::as_str), Some("-"));
    assert_eq!(made.cwd, None);
    assert_eq!(made.stdin, StdinPlan::Prompt("hi".into()));
    assert!(made.keeps("CODEX_API_KEY") && made.keeps("DOCKER_HOST"));
    assert!(!made.keeps("AWS_SECRET_ACCESS_KEY") && !made.keeps("CODEX_SANDBOX"));
}

#[test]
fn secrets_and_files_go_by_name() {
    let request = Request {
        prompt: "hi".into(),
        output_schema: Some(Json::parse(r#"{"type":"object"}"#).expect("JSON")),
        permission: PermissionMode::Read,
        env: [("CODEX_API_KEY".into(), "sk-made-up".into()), ("PLAIN".into(), "v".into())].into(),
        ..Request::default()
    };
    let made = wrap(inside("codex", &request), &container(), ["CODEX_API_KEY"]).expect("can be wrapped");
    let line = args(&made).join(" ");
    assert!(line.contains(" -e CODEX_API_KEY -e ") && line.contains(" -e PLAIN=v "), "{line}");
    assert!(!line.contains("sk-made-up"), "{line}");
    assert_eq!(made.env["CODEX_API_KEY"], "sk-made-up");
    assert!(line.contains(" -e BOWLINE_FILE_0 ") && line.contains(" 1 schema.json codex exec "), "{line}");
    assert!(line.contains("--output-schema /tmp/bowline-s-1/schema.json"), "{line}");
    assert_eq!(made.env["BOWLINE_FILE_0"], r#"{"type":"object"}"#);
    assert!(made.files.is_empty());
}

#[test]
fn without_stdin_there_is_no_i() {
    let request = Request { prompt: "hi".into(), permission: PermissionMode::Yolo, ..Request::default() };
    let bare = Container { cwd: None, key: None, ..container() };
    let line = args(&wrap(inside("glm", &request), &bare, ["X"]).expect("can be wrapped"));
    assert_eq!(line[..3], ["exec", "-e", "BOWLINE_SESSION_ID=s-1"]);
    assert!(!line.iter().any(|arg| arg.starts_with("DUCTOR_")));
}

#[test]
fn names_that_would_be_something_else_are_refused() {
    let request = Request { prompt: "hi".into(), ..Request::default() };
    for (name, session) in [("-v", "s"), ("", "s"), ("box", "../x"), ("box", ""), ("box", "a b")] {
        let container = Container { name, session, ..container() };
        let refusal = wrap(inside("codex", &request), &container, ["X"]).expect_err("refused");
        assert_eq!(refusal.field, RequestField::Docker);
        stop("codex", &container, ContainerSignal::Term).expect_err("refused");
    }
    let command = stop("codex", &container(), ContainerSignal::Kill).expect("a command");
    assert_eq!(command[..5], ["docker", "exec", "box", "sh", "-c"]);
    assert_eq!(command[6..], ["/tmp/bowline-s-1", "s-1", "KILL"]);
}

#[test]
fn a_complaint_of_dockers_own_is_told_from_the_agents() {
    for (complaint, hint) in [
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "start the docker daemon",
        ),
        ("\nError response from daemon: No such container: box\n", "docker ps"),
        ("Error: No such container: box", "docker ps"),
        ("Error response from daemon: container 4f is not running", "docker start"),
        ("OCI runtime exec failed: exec failed: unable to start container process: exec: \"sh\"", "`sh`"),
    ] {
        assert!(refusal(complaint).is_some_and(|it| it.contains(hint)), "{complaint}");
    }
    for complaint in ["", "Invalid API key", "looking at docker\nError: No such container: box"] {
        assert_eq!(refusal(complaint), None, "{complaint}");
    }
}
