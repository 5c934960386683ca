//! Several agents side by side.

use crate::route::{answering, calls, failing, routed, run};

#[test]
fn several_are_asked_side_by_side() {
    let world = routed(&[("first", answering()), ("second", failing(401, "Invalid API key"))], "");
    let ended = run(&world, &["--provider", "first,second"]).end().exits(4);
    assert!(ended.stdout.contains("== first ==\nhello\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("== second ==\n"), "{}", ended.stdout);
    ended.tells(&["second: error: ", "second: caused by: API Error: Invalid API key"]);
    run(&world, &["--provider", "first,first"]).end().exits(2).tells(&["error: `first` is named twice"]);
    // Every object and every line says whose it is.
    for format in ["json", "jsonl", "generate", "chunks", "pi", "simple", "stream-events", "provider-events"]
    {
        let ended = run(&world, &["--provider", "first,second", "-o", format]).end().exits(4);
        let objects = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<serde_json::Value>();
        let names: Vec<String> = objects
            .map(|object| object.expect("JSON")["provider"].as_str().unwrap_or_default().to_owned())
            .collect();
        for name in ["first", "second"] {
            assert!(names.iter().any(|it| it == name), "{format}: {names:?}");
        }
        assert!(names.iter().all(|name| ["first", "second"].contains(&name.as_str())), "{format}: {names:?}");
    }
    let ended = run(&world, &["--provider", "first,second", "-o", "json"]).end().exits(4);
    assert_eq!(ended.stdout.lines().count(), 2, "{}", ended.stdout);
    let ended = run(&world, &["--provider", "first,second", "-o", "text"]).end().exits(4);
    assert!(ended.stdout.contains("== first ==\nhello\n"), "{}", ended.stdout);
}

#[test]
fn an_answer_is_held_to_the_schema() {
    let saying = |json: &str| answering().replace("hello", &json.replace('"', "\\\""));
    let world = routed(
        &[
            ("fit", saying(r#"{"line": 7}"#)),
            ("unfit", saying(r#"{"line": "seven"}"#)),
            ("chatty", answering()),
            ("failed", failing(401, "Invalid API key")),
        ],
        "",
    );
    let schema = r#"{"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}"#;
    std::fs::write(world.path("work/schema.json"), schema).unwrap();
    let asked = |who: &str| run(&world, &["--provider", who, "--schema", "schema.json", "-o", "text"]).end();
    let ended = asked("fit").exits(0);
    assert_eq!((ended.stdout.trim(), ended.stderr.as_str()), (r#"{"line": 7}"#, ""));
    let ended = asked("unfit").exits(1);
    assert_eq!(ended.stdout.trim(), r#"{"line": "seven"}"#, "what it said is not kept back");
    ended.tells(&[
        "error: the answer of the agent does not match `--schema schema.json`",
        "caused by: at /line: value is not of type \"integer\"",
    ]);
    asked("chatty").exits(1).tells(&["the answer of the agent is not JSON, as required by `--schema"]);
    // Each provider that failed has an error of its own.
    assert!(!asked("failed").exits(4).stderr.contains("--schema"));
    let ended = asked("fit,unfit").exits(1).tells(&["error: the answer of unfit does not match"]);
    assert!(!ended.stderr.contains("the answer of fit"), "{}", ended.stderr);
    // The practice agent obeys.
    let ended = world.run("practice", "hi").with(&["--schema", "schema.json", "-o", "text"]).end().exits(0);
    assert!(ended.stdout.contains("\"line\""), "{}", ended.stdout);
}

#[test]
fn those_side_by_side_tell_what_was_refused_and_share_one_budget() {
    let refusing = format!(
        "{}; cat <<'END'\n{}\n{}\nEND\n{}",
        "true",
        r#"{"type":"assistant","message":{"id":"t","content":[{"type":"tool_use","id":"c1","name":"Write","input":{"file_path":"/x"}}]},"session_id":"s"}"#,
        r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"Claude requested permissions to write to /x, but you haven't granted it yet."}]},"session_id":"s"}"#,
        answering()
    );
    let world = routed(&[("first", refusing), ("second", answering())], "");
    let single = run(&world, &["--provider", "first"]).end().exits(0);
    let refusal =
        single.stderr.lines().find(|line| line.contains("--permission")).expect("a flag").to_owned();
    let ended = run(&world, &["--provider", "first,second"]).end().exits(0);
    assert!(ended.stderr.contains(&format!("first: {refusal}")), "{}", ended.stderr);

    // Each uses 3000 tokens and goes on; both together are too much for either.
    let script = format!("cat <<'END'\n{}\nEND\nsleep 60 & wait", calls());
    let world = routed(&[("first", script.clone()), ("second", script)], "");
    let ended = run(&world, &["--provider", "first,second", "--max-tokens", "5000"]).end().exits(5);
    for name in ["first", "second"] {
        assert!(ended.stdout.contains(&format!("== {name} ==\nso far\n")), "{}", ended.stdout);
        assert!(ended.stderr.contains(&format!("{name}: error: the budget is used up")), "{}", ended.stderr);
    }
    ended.tells(&["6000 so far with the agents that share the request"]);
    world.nobody_is_left();
}

#[test]
fn nobody_is_asked_if_the_program_of_one_of_them_is_not_there() {
    let world = crate::route::routed(&[("first", "touch asked.txt".to_owned())], "");
    let ended = crate::route::run(&world, &["--provider", "first,qwen"]).end().exits(4);
    ended.tells(&["error: qwen cannot run: ", "; no agent was started"]);
    assert!(!world.path("work/asked.txt").exists(), "the first one was asked");
    assert!(world.journals_begun().is_empty());
}

#[test]
fn those_side_by_side_fall_back_to_others_and_no_two_to_the_same() {
    let counted = |script: String, name: &str| format!("echo x >>{name}.txt; {script}");
    let quota = || failing(400, "insufficient_quota");
    let world = routed(
        &[
            ("first", counted(quota(), "first")),
            ("second", counted(quota(), "second")),
            ("third", counted(answering(), "third")),
            ("fourth", counted(answering(), "fourth")),
        ],
        "",
    );
    let ended = run(&world, &["--provider", "first,second", "--fallback", "next"]).end().exits(0);
    for name in ["first", "second"] {
        assert!(ended.stdout.contains(&format!("== {name} ==\nhello\n")), "{}", ended.stdout);
    }
    for name in ["first", "second", "third", "fourth"] {
        let asked = std::fs::read_to_string(world.path(&format!("work/{name}.txt")));
        assert_eq!(asked.ok().as_deref(), Some("x\n"), "{name} is asked once: {}", ended.stderr);
    }
    // With one left, one of them gets it.
    let ended = run(&world, &["--provider", "first,second,third", "--fallback", "next"]).end().exits(1);
    assert_eq!(ended.stdout.matches("hello").count(), 2, "{}", ended.stdout);
    assert_eq!(ended.stderr.matches("warning: falling back from ").count(), 1, "{}", ended.stderr);
    // A program that is missing does not keep the others from being asked.
    let ended = run(&world, &["--provider", "third,qwen", "--fallback", "next"]).end().exits(0);
    ended.tells(&["qwen: warning: falling back from qwen to first: "]);
}
