//! Every directive, played: the decoded result, and the exit of the process.

use std::time::Duration;

use bowline_protocol::Exit;

use crate::support::{Agent, LINES, Ran};

fn play(directives: &str) -> Ran {
    Agent::plays(directives).run()
}

/// A play and its expected result: the directives, the outcome, the text, the unrecognized lines, the exit code.
type Case = (&'static str, &'static str, &'static str, usize, i32);

const CASES: &[Case] = &[
    ("say Hello", "completed", "Hello", 0, 0),
    ("say One\nsay Two", "completed", "One\nTwo", 0, 0),
    ("think Hm.\nsay Hello", "completed", "Hello", 0, 0),
    ("delta 3 x 4", "completed", "abcdabcdabcd", 0, 0),
    ("task", "completed", "*", 0, 0),
    ("show", "completed", "*", 0, 0),
    ("say Hello\nresult", "completed", "Hello", 0, 0),
    ("say Hello\nresult\nstderr late", "completed", "Hello", 0, 0),
    ("say Hello\nno-result", "truncated", "Hello", 0, 0),
    ("say Hello\nsecond-result", "completed", "Hello", 0, 0),
    ("init again\nsay Hello", "completed", "Hello", 0, 0),
    ("unknown-type\nsay Hello", "completed", "Hello", 1, 0),
    ("line {not json\nsay Hello", "completed", "Hello", 1, 0),
    ("line garbage\nsay Hello", "completed", "Hello", 1, 0),
    ("bytes ff fe 00 0a\nsay Hello", "completed", "Hello", 1, 0),
    ("long-line 3MB garbage\nsay Hello", "completed", "Hello", 1, 0),
    ("say Hello\nhalf-line\nexit 1", "failed", "Hello", 1, 1),
    ("stderr a warning\nsay Hello", "completed", "Hello", 0, 0),
    ("say Hello\nexit 3", "failed", "Hello", 0, 3),
    ("exit 0", "truncated", "", 0, 0),
    ("say Hello\nflood stderr 3MB", "completed", "Hello", 0, 0),
    ("pace 0.01\nsay Hello", "completed", "Hello", 0, 0),
    ("silent 10ms\nsay Hello\nsleep 10ms", "completed", "Hello", 0, 0),
    ("read-stdin\nnever-read-stdin\nsay Hello", "completed", "Hello", 0, 0),
    ("ignore sigterm sigint\nkill-self 15\nsay Still here", "completed", "Still here", 0, 0),
    ("tool read nothing.md\nsay Hello", "completed", "Hello", 0, 0),
    ("tool run ls\nsay Hello", "completed", "Hello", 0, 0),
    ("say One\nnext-prompt\nsay Two", "completed", "One", 0, 0),
    ("question Which? red blue\nsay Hello", "completed", "No answer.\nHello", 0, 0),
    ("fail 429 slow down", "failed", "*", 0, 1),
];

#[test]
fn each_comes_to_what_it_must() {
    for (directives, outcome, text, unrecognized, code) in CASES {
        let ran = play(directives);
        assert_eq!(ran.outcome(), *outcome, "{directives}");
        assert_eq!(ran.unrecognized().len(), *unrecognized, "{directives}: {:?}", ran.unrecognized().first());
        assert_eq!(ran.exit, Exit::Code(*code), "{directives}");
        assert!(*text == "*" || ran.text() == *text, "{directives}: {:?}", ran.text());
    }
}

#[test]
fn every_directive_of_the_help_is_played_in_these_tests() {
    let help = String::from_utf8(Agent::told("").args(["--help"]).run().stdout).expect("UTF-8");
    let (_, list) = help.split_once("Directives").expect("a list");
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 35, "{names:?}");
    let tests = [
        include_str!("directives.rs"),
        include_str!("children.rs"),
        include_str!("signals.rs"),
        include_str!("task.rs"),
    ]
    .concat();
    for name in names {
        let played =
            ["\"", "\\n", "practice: "].iter().any(|before| tests.contains(&format!("{before}{name}")));
        assert!(played, "`{name}` is played nowhere");
    }
}

#[test]
fn a_bad_directive_is_an_error_of_usage() {
    let ran = Agent::told("Do it.\npractice: fly away").run();
    assert_eq!(ran.exit, Exit::Code(2));
    assert_eq!(ran.stdout, b"");
    assert_eq!(
        ran.stderr,
        "practice-agent: bad directive `practice: fly away`: unknown name or form; --help lists the directives\n"
    );
}

#[test]
fn speech_is_the_same_in_every_dialect_that_prints_lines() {
    for format in LINES {
        let run = |directives: &str| Agent::plays(directives).format(format).run();
        let ran = run("say Hello\nsay Good bye");
        assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0), "{format}");
        assert!(ran.text().ends_with("Good bye"), "{format}: {}", ran.text());
        let ran = run("say Hello\nfail 401 who are you?");
        assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("failed", 0), "{format}");
        let failure = &ran.summary()["failure"];
        assert!(failure.to_string().contains("who are you?"), "{format}: {failure}");
        let ran = run("say Hello\nno-result");
        assert_eq!(ran.outcome(), "truncated", "{format}");
        let ran = run("unknown-type\nsay Hello");
        assert_eq!(ran.unrecognized().len(), 1, "{format}");
        let ran = run("tool write a.txt \"text\"\nsay Hello");
        assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0), "{format}");
    }
}

#[test]
fn a_failure_has_its_status() {
    for (status, category) in [(401, "auth"), (429, "rate_limit"), (500, "server")] {
        let ran = play(&format!("fail {status} because"));
        let failure = &ran.summary()["failure"];
        assert!(failure.to_string().contains(category), "{status}: {failure}");
    }
}

#[test]
fn a_message_between_pieces_of_another_loses_neither() {
    for format in LINES {
        let ran = Agent::plays("message-between-deltas").format(format).run();
        assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0), "{format}");
        let all = ran.summary()["all_text"].as_str().expect("a text").to_owned();
        for part in ["before ", "a whole message", "and after"] {
            assert_eq!(all.matches(part).count(), 1, "{format}: {all:?}");
        }
    }
}

#[test]
fn tools_do_what_they_say() {
    let agent = Agent::plays(
        "tool write a.txt \"one\\ntwo\\n\"\ntool edit a.txt \"three\"\ntool edit a.txt \"one\" \"1\"\n\
         tool edit a.txt \"absent\" \"x\"\ntool run echo hi > b.txt\ntool run exit 4\ntool read ../outside",
    );
    let agent = agent.args(["--permission", "yolo"]);
    let ran = agent.run();
    assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0));
    assert_eq!(agent.read("a.txt"), "1\ntwo\nthree\n");
    assert_eq!(agent.read("b.txt"), "hi\n");
    assert_eq!(ran.summary()["tools"], 7);
}

#[test]
fn many_pieces_and_long_lines_arrive_whole() {
    let ran = play("delta 20000 x 40");
    let kinds = ran.kinds();
    assert_eq!(kinds.iter().filter(|kind| *kind == "text_delta").count(), 20_000);
    assert_eq!(ran.summary()["all_text"].as_str().map(str::len), Some(800_000));
    let ran = play("long-line 2MB");
    assert_eq!(ran.text().len(), 2_000_000);
    assert!(ran.stdout.split(|byte| *byte == b'\n').any(|line| line.len() > 2_000_000));
    for format in LINES {
        let ran = Agent::plays("flood stdout 5MB").format(format).run();
        // Some dialects repeat a message twice when it ends, and the last one once more.
        assert!((5_000_000..9_000_000).contains(&ran.stdout.len()), "{format}: {}", ran.stdout.len());
        assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0), "{format}");
    }
}

#[test]
fn a_flood_on_stderr_is_as_large_as_asked() {
    let ran = play("flood stderr 10MB");
    assert_eq!((ran.stderr.len(), ran.outcome().as_str()), (10_000_000, "completed"));
}

#[test]
fn stdout_can_be_closed_while_it_lives() {
    let mut agent = Agent::plays("say Hello\nclose-stdout\nhang").start();
    agent.wait_for_eof();
    assert!(agent.is_alive());
    agent.signal(9);
    assert_eq!(agent.finish().outcome(), "failed");
}

#[test]
fn it_can_hang_before_and_after_its_result() {
    let mut agent = Agent::plays("say Hello\nresult\nhang").start();
    agent.wait_for("\"type\":\"result\"");
    std::thread::sleep(Duration::from_millis(200));
    assert!(agent.is_alive());
    agent.signal(9);
    let ran = agent.finish();
    assert_eq!((ran.exit, ran.text().as_str()), (Exit::Signal(9), "Hello"));

    let mut agent = Agent::plays("silent").start();
    std::thread::sleep(Duration::from_millis(200));
    assert!(agent.is_alive());
    agent.signal(9);
    assert_eq!(agent.finish().stdout, b"");
}

#[test]
fn it_can_die_in_the_ways_of_programs() {
    assert_eq!(play("say Hello\nkill-self 9").exit, Exit::Signal(9));
    assert_eq!(play("say Hello\nkill-self sigsegv").exit, Exit::Signal(11));
    let ran = play("say Hello\ncrash");
    assert_eq!((ran.exit, ran.outcome().as_str(), ran.text().as_str()), (Exit::Signal(6), "failed", "Hello"));
}

#[test]
fn a_large_prompt_is_read_or_left() {
    let large = |first: &str| format!("{first}\n{}", "x".repeat(10_000_000)).into_bytes();
    let ran = Agent::told("").stdin(large("practice: say Hello")).run();
    assert!(ran.all_written);
    assert_eq!(ran.text(), "Hello");
    let ran = Agent::told("").stdin(large("practice: answer-early\npractice: say Hello")).run();
    assert!(!ran.all_written, "it exits before all of it is read");
    assert_eq!((ran.text().as_str(), ran.outcome().as_str()), ("Hello", "completed"));
    for script in ["never-read-stdin\nsay Hello", "say Hello"] {
        let ran = Agent::told("").stdin(large("")).env("PRACTICE_SCRIPT", script).run();
        assert!(!ran.all_written, "{script}");
        assert_eq!(ran.text(), "Hello");
    }
    let ran = Agent::told("").stdin(large("")).env("PRACTICE_SCRIPT", "sleep 10ms\nread-stdin\nshow").run();
    assert!(ran.all_written);
    assert!(ran.text().contains("\"stdin_bytes\":10000001"), "{}", ran.text());
}

#[test]
fn a_script_may_come_from_a_file() {
    let agent = Agent::told("").file("play.txt", "# a comment\n\nsay Hello\npractice: exit 7\n");
    let ran = agent.args(["--script", "play.txt"]).run();
    assert_eq!((ran.text().as_str(), ran.exit), ("Hello", Exit::Code(7)));
}

#[test]
fn a_reader_that_leaves_does_not_stop_it() {
    let agent = Agent::plays("flood stdout 3MB\ntool write done.txt \"yes\"").args(["--permission", "edit"]);
    let mut started = agent.start();
    started.leave();
    assert!(started.wait().success());
    assert_eq!(agent.read("done.txt"), "yes");
}
