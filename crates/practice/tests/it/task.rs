//! The task for a prompt without directives.

use bowline_protocol::Kind;

use crate::support::{Agent, FORMATS, LINES};

const SAMPLE: (&str, &str) = bowline_practice::SAMPLE;

#[test]
fn in_every_format_it_is_understood_to_the_last_line() {
    for format in FORMATS {
        let agent = Agent::told("Please improve it.").format(format).args(["--permission", "edit"]);
        let agent = agent.file(SAMPLE.0, SAMPLE.1);
        let ran = agent.run();
        let summary = ran.summary();
        assert_eq!(summary["outcome"], "completed", "{format}");
        assert_eq!(ran.unrecognized(), [""; 0], "{format}");
        assert!(ran.text().contains("Done: greeting.py now greets the world"), "{format}: {}", ran.text());
        assert!(summary["usage"]["output"].as_u64() > Some(50), "{format}: {summary}");
        assert!(agent.read(SAMPLE.0).contains("def greeting(name=\"world\"):"), "{format}");
        if !LINES.contains(format) {
            continue;
        }
        assert_eq!(summary["usage"]["source"], "reported", "{format}");
        assert!(summary["usage"]["cache_read"].as_u64() > Some(1000), "{format}: {summary}");
        assert_eq!(summary["tools"], 3, "{format}");
        let mut touched = Vec::new();
        for event in ran.events() {
            if let Kind::FilesTouched(files) = event.kind {
                touched.extend(files.files.into_iter().map(|file| file.path));
            }
        }
        assert_eq!(touched, [agent.path(SAMPLE.0).display().to_string()], "{format}");
    }
}

#[test]
fn it_says_nothing_that_the_real_programs_never_said() {
    for format in LINES {
        for mode in ["ask", "edit"] {
            let agent = Agent::told("Please improve it.").format(format).args(["--permission", mode]);
            let ran = agent.file(SAMPLE.0, SAMPLE.1).run();
            let mut novel = Vec::new();
            for event in ran.events() {
                if let Kind::Notice(notice) = event.kind
                    && notice.text.starts_with("never seen before")
                {
                    novel.push(notice.text);
                }
            }
            assert_eq!(novel, [""; 0], "{format} {mode}");
        }
    }
}

#[test]
fn the_recorded_programs_stream_and_think() {
    for format in ["stream-json", "pi"] {
        let ran = Agent::told("Go.").format(format).file(SAMPLE.0, SAMPLE.1).run();
        let kinds = ran.kinds();
        let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
        assert!(count("text_delta") > 20 && count("thinking_delta") > 5, "{format}: {kinds:?}");
        let cost = ran.summary()["cost_usd"].as_f64();
        assert!(cost > Some(0.01), "{format}: {cost:?}");
    }
}

#[test]
fn without_permission_the_file_stays_and_the_refusal_is_told() {
    for mode in ["read", "ask"] {
        for format in FORMATS {
            let agent = Agent::told("Please improve it.").format(format).args(["--permission", mode]);
            let agent = agent.file(SAMPLE.0, SAMPLE.1);
            let ran = agent.run();
            assert_eq!(agent.read(SAMPLE.0), SAMPLE.1, "{format}");
            assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0), "{format}");
            assert!(ran.text().contains("I was not allowed to change greeting.py"), "{format}");
        }
        let ran = Agent::told("Go.").args(["--permission", mode]).file(SAMPLE.0, SAMPLE.1).run();
        let stdout = String::from_utf8(ran.stdout.clone()).expect("UTF-8");
        assert!(stdout.contains("\"subtype\":\"permission_denied\""));
        let last: serde_json::Value =
            serde_json::from_str(stdout.lines().next_back().expect("a line")).expect("JSON");
        assert_eq!(last["permission_denials"][0]["tool_name"], "Edit");
    }
}

#[test]
fn where_there_is_no_sample_it_keeps_to_a_file_of_its_own() {
    let agent = Agent::told("Go.").args(["--permission", "edit"]).file("README.md", "mine\n");
    assert_eq!(agent.run().outcome(), "completed");
    assert_eq!(agent.read("practice-notes.md"), "# Practice\n\n- The practice agent was here.\n");
    assert_eq!(agent.run().outcome(), "completed");
    assert_eq!(agent.read("practice-notes.md").matches("was here").count(), 2);
    assert_eq!(agent.read("README.md"), "mine\n");
}

#[test]
fn at_its_own_pace_it_can_be_read() {
    let agent = Agent::told("Go.").file(SAMPLE.0, SAMPLE.1).without_pace();
    let start = crate::support::now();
    assert_eq!(agent.run().outcome(), "completed");
    assert!(start.elapsed() > std::time::Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn without_tools_it_only_answers() {
    let agent = Agent::told("Go.").args(["--permission", "yolo", "--no-tools"]).file(SAMPLE.0, SAMPLE.1);
    let ran = agent.run();
    assert_eq!(ran.summary()["tools"], 0);
    assert!(ran.text().starts_with("I have no tools in this session"));
    assert_eq!(agent.read(SAMPLE.0), SAMPLE.1);
}

#[test]
fn it_asks_where_it_is_told_to_and_takes_silence_for_a_no() {
    let script = "asks\ntool write notes.md one\nsay done";
    let agent = Agent::plays(script);
    let ran = agent.run();
    assert!(!agent.path("notes.md").exists());
    assert_eq!((ran.outcome().as_str(), ran.unrecognized().len()), ("completed", 0));
    let kinds = ran.kinds();
    let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
    assert_eq!((count("approval_asked"), count("approval_decided")), (1, 1), "{kinds:?}");
    let events = format!("{:?}", ran.events());
    assert!(events.contains("ClientLost"), "no client was connected: {events}");

    // A host that is there can answer.
    let answer = |behavior: &str| {
        let id = "practice-toolu_practice000001";
        let response = format!(r#"{{"behavior":"{behavior}","message":"not today"}}"#);
        let response = format!(r#"{{"subtype":"success","request_id":"{id}","response":{response}}}"#);
        let line = format!("{{\"type\":\"control_response\",\"response\":{response}}}\n");
        let agent = Agent::told("").env("PRACTICE_SCRIPT", script).stdin(line.into_bytes());
        (agent.run(), agent)
    };
    let (ran, agent) = answer("allow");
    assert_eq!((ran.outcome().as_str(), agent.read("notes.md").as_str()), ("completed", "one"));
    let (ran, agent) = answer("deny");
    assert!(!agent.path("notes.md").exists());
    assert!(String::from_utf8_lossy(&ran.stdout).contains("not today"));

    // The agent does not request a permission that would not help.
    let ran = Agent::plays(script).args(["--deny-tool", "Write"]).run();
    assert!(!ran.kinds().contains(&"approval_asked".to_owned()), "{:?}", ran.kinds());
}
