//! How the agent ends after a signal.

use bowline_protocol::Exit;

use crate::support::{Agent, PATIENCE, Ran, marked, now};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Sends a signal when the agent has started to print, at a pace that leaves time for it.
fn interrupt(format: &str, signal: i32) -> Ran {
    let mut agent = Agent::plays("pace 1\nsay Hello\ndelta 100000 x 8").format(format).start();
    agent.wait_for("Hello");
    if format != "codex" {
        agent.wait_for("abcdefgh");
    }
    agent.signal(signal);
    agent.finish()
}

#[test]
fn an_interrupt_leaves_what_was_said_and_a_result_that_is_none() {
    let ran = interrupt("stream-json", SIGINT);
    assert_eq!(ran.exit, Exit::Code(0), "as the real one");
    assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("cancelled", 0));
    assert!(ran.summary()["all_text"].as_str().expect("a text").contains("abcdefgh"));
    let stdout = String::from_utf8(ran.stdout).expect("UTF-8");
    assert!(stdout.contains("[Request interrupted by user]"));
    let last = stdout.lines().next_back().expect("a line");
    assert!(last.contains("error_during_execution") && last.contains("aborted_streaming"), "{last}");
}

#[test]
fn an_interrupted_tool_is_told() {
    let agent = Agent::plays("tool run sleep 600 # and wait").args(["--permission", "yolo"]);
    let mark = format!("tool-{}", std::process::id());
    let mut agent = agent.env("PRACTICE_MARK", &mark).start();
    let mark = format!("PRACTICE_MARK={mark}");
    let deadline = now() + PATIENCE;
    // The agent, and the shell that it runs the command in.
    while marked(&mark).len() < 2 {
        assert!(now() < deadline, "no command was started");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    agent.wait_for("message_stop");
    agent.signal(SIGINT);
    let ran = agent.finish();
    assert_eq!(ran.exit, Exit::Code(0));
    assert_eq!(ran.outcome(), "cancelled");
    assert!(String::from_utf8(ran.stdout).expect("UTF-8").contains("interrupted by user for tool use"));
    // Like the real one, it kills its tools on a stop signal.
    while !marked(&mark).is_empty() {
        assert!(now() < deadline, "the command lives on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn other_signals_and_dialects_end_as_the_recorded_programs_do() {
    for (format, signal, exit) in [
        ("stream-json", SIGTERM, Exit::Code(143)),
        ("stream-json", SIGHUP, Exit::Code(129)),
        ("codex", SIGINT, Exit::Code(1)),
        ("codex", SIGTERM, Exit::Signal(SIGTERM)),
        ("gemini", SIGINT, Exit::Code(130)),
        ("pi", SIGINT, Exit::Signal(SIGINT)),
        ("text", SIGTERM, Exit::Signal(SIGTERM)),
    ] {
        let ran = interrupt(format, signal);
        assert_eq!(ran.exit, exit, "{format} {signal}");
        assert_ne!(ran.outcome(), "completed", "{format} {signal}");
        assert_eq!(ran.unrecognized(), [""; 0], "{format} {signal}");
    }
}

#[test]
fn before_its_first_answer_and_as_a_document_it_says_nothing() {
    let mut agent = Agent::plays("init again\nhang").start();
    agent.wait_for("\"init\"");
    agent.signal(SIGINT);
    let ran = agent.finish();
    assert_eq!(ran.exit, Exit::Code(0));
    assert!(!String::from_utf8(ran.stdout).expect("UTF-8").contains("\"result\""));

    let mut agent = Agent::plays("say Hello\nstderr ready\nhang").format("json").start();
    agent.wait_for_stderr("ready");
    agent.signal(SIGINT);
    let ran = agent.finish();
    assert_eq!((ran.exit, ran.stdout.len()), (Exit::Code(0), 0));
}

#[test]
fn it_can_be_deaf() {
    let mut agent = Agent::plays("ignore sigterm sigint\nsay Hello\nhang").start();
    agent.wait_for("Hello");
    agent.signal(SIGTERM);
    agent.signal(SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(agent.is_alive());
    agent.signal(9);
    assert_eq!(agent.finish().exit, Exit::Signal(9));
}

#[test]
fn a_reader_that_does_not_read_cannot_keep_it_alive() {
    let mut agent = Agent::plays("flood stdout 500MB").start();
    agent.wait_for("abcdefgh");
    agent.stop_reading();
    agent.signal(SIGTERM);
    assert_eq!(agent.wait().code(), Some(143));
}
