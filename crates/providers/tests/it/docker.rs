//! The scripts that run inside a container, run by a real shell outside of one.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use bowline_protocol::{Json, Request};
use bowline_providers::catalogue;
use bowline_providers::invocation::docker::{Container, ContainerSignal, stop, wrap};
use bowline_providers::invocation::{Invocation, Wish, build};

/// A `docker` that has no containers: it runs what stands behind the container's name, with the variables of `-e`.
#[expect(clippy::disallowed_methods, reason = "the script is the thing under test")]
fn docker(args: &[String], env: &[(&str, &str)]) -> Child {
    let name = args.iter().position(|arg| arg == "the-box").expect("the container's name");
    let mut command = Command::new(&args[name + 1]);
    command.args(&args[name + 2..]).stdin(Stdio::null()).stdout(Stdio::piped());
    for pair in args[..name].windows(2).filter(|pair| pair[0] == "-e") {
        if let Some((name, value)) = pair[1].split_once('=') {
            command.env(name, value);
        }
    }
    command.envs(env.iter().copied()).spawn().expect("sh is there")
}

fn found(container: &Container<'_>, signal: ContainerSignal) -> String {
    let command = stop("codex", container, signal).expect("a command");
    let done = docker(&command, &[]).wait_with_output().expect("it ends");
    assert!(done.status.success());
    String::from_utf8(done.stdout).expect("text")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{what} did not happen");
}

#[test]
fn an_agent_is_found_and_ended_inside_its_container() {
    let session = format!("docker-test-{}", std::process::id());
    let container = Container { name: "the-box", cwd: None, session: &session, key: None };
    let schema = Json::parse(r#"{"a":"b'c\"d $HOME"}"#).expect("JSON");
    let request = Request { prompt: "x".into(), output_schema: Some(schema), ..Request::default() };
    let manifest = catalogue::by_name("codex").expect("a provider");
    // In this form the schema is a file.
    let wish = Wish { format: Some("stream-json".into()), ..Wish::default() };
    let inside = build(manifest, &request, &wish).expect("can be put");
    // A shell instead of the agent: a child, one that has left its session, and one that does not mind SIGTERM.
    let script = "(setsid sleep 300 &); sleep 301 & (trap '' TERM; sleep 302) & wait";
    let inside = Invocation { program: "sh".into(), args: vec!["-c".into(), script.into()], ..inside };
    let wrapped = wrap(inside, &container, ["PATH"]).expect("can be wrapped");
    let args: Vec<String> = wrapped.args.iter().map(|arg| arg.text(str::to_owned)).collect();
    let env: Vec<(&str, &str)> =
        wrapped.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut agent = docker(&args, &env);

    eventually("three sleepers", || {
        found(&container, ContainerSignal::None).matches(" sleep\n").count() == 3
    });
    let directory = format!("/tmp/bowline-{session}");
    let file = Path::new(&directory).join("schema.json");
    assert_eq!(fs::read_to_string(file).expect("the side file"), r#"{"a":"b'c\"d $HOME"}"#);
    let pid = fs::read_to_string(Path::new(&directory).join("pid")).expect("the pid");
    assert_eq!(pid.trim(), agent.id().to_string(), "the script has become the agent");

    let killed = found(&container, ContainerSignal::Kill);
    assert!(killed.lines().count() >= 4, "{killed}");
    agent.wait().expect("it has ended");
    eventually("nobody is left", || found(&container, ContainerSignal::None).is_empty());
    fs::remove_dir_all(directory).expect("ours");
}
