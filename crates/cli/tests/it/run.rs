//! `bowline run`: where the prompt comes from, what reaches the agent, and what is refused before anything starts.

use serde_json::Value;

use crate::world::World;

/// Returns what the practice agent was given.
#[track_caller]
fn shown(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn the_prompt_comes_from_the_argument_from_standard_input_or_from_both() {
    let world = World::new();
    let prompt = |ended: crate::world::Ended| shown(&ended.exits(0).stdout)["prompt"].clone();
    let show = "practice: show";
    assert_eq!(prompt(world.run("practice", show).end()), show);
    assert_eq!(prompt(world.run("practice", "").no_prompt().input(show).end()), show);
    assert_eq!(prompt(world.run("practice", "-").input(show).end()), show);
    assert_eq!(
        prompt(world.run("practice", show).input("some text\n").end()),
        "practice: show\n\nsome text\n"
    );
    assert_eq!(prompt(world.run("practice", show).input("").end()), show, "an empty pipe is no prompt");
    assert_eq!(prompt(world.run("practice", show).input(" \n").end()), show, "nor is one of blanks");
    for journal in world.journals() {
        journal.check().ended("completed");
    }
}

#[test]
fn a_pipe_that_is_slow_to_speak_is_waited_for() {
    let world = World::new();
    let mut running = world.run("practice", "practice: show").open_input().start();
    running.tells("waiting for the end of standard input");
    running.tells("hint: if the prompt is complete");
    assert!(!running.is_over() && world.agents().is_empty(), "nothing is begun with half a prompt");
    running.writes("late words");
    let ended = running.end().exits(0);
    assert_eq!(shown(&ended.stdout)["prompt"], "practice: show\n\nlate words");
}

#[test]
fn what_never_ends_is_not_taken_for_a_prompt() {
    let world = World::new();
    let endless = vec![b'x'; 64 * 1024 * 1024 + 1];
    for prompt in ["-", "practice: say done"] {
        let ended = world.run("practice", prompt).input(endless.clone()).end().exits(2);
        ended.tells(&["error: the prompt on standard input is longer than 64 MiB", "hint: "]);
    }
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn no_prompt_at_all() {
    let world = World::new();
    for call in [
        world.run("practice", "").no_prompt(),
        world.run("practice", "-").input(" \n"),
        world.run("practice", " "),
    ] {
        call.end().exits(2).tells(&["error: there is no prompt", "hint: "]);
    }
    let ended = world.run("practice", "-").input(b"caf\xe9".to_vec()).end().exits(2);
    ended.tells(&["not UTF-8", "iconv"]);
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn a_dry_run_says_what_would_be_started_and_starts_nothing() {
    let world = World::new();
    let call = world.run("practice", "practice: say hello").with(&["--dry-run", "--model", "m-1"]);
    let preview = shown(&call.with(&["--output", "json"]).end().exits(0).stdout);
    for key in ["program", "args", "env", "env_removed", "stdin", "cwd", "transport"] {
        assert!(preview.get(key).is_some(), "`{key}` is missing in {preview}");
    }
    assert_eq!(preview["program"], "bowline");
    assert_eq!(preview["stdin"], "practice: say hello");
    assert_eq!(preview["transport"], "pipe");
    assert_eq!(preview["cwd"], world.path("work").canonicalize().unwrap().display().to_string());
    assert_eq!(preview["env"]["MARK"], world.mark());
    let args: Vec<&str> = preview["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(args.windows(2).any(|pair| pair == ["--model", "m-1"]), "{args:?}");

    let ended = world.run("claude", "it's me").with(&["--dry-run"]).end().exits(0);
    assert!(ended.stdout.starts_with("claude --print "), "{}", ended.stdout);
    assert!(world.journals().is_empty(), "nothing was begun");
    assert!(!world.path("practice").join("sessions").exists());
}

#[test]
fn key_and_label_are_on_file_for_whoever_looks_for_the_session() {
    let world = World::new();
    world.practice(&["say done"]).with(&["--key", "chat-7", "--label", "night shift"]).end().exits(0);
    let meta = std::fs::read(world.journal().dir.join("session.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    assert_eq!((&meta["key"], &meta["label"]), (&"chat-7".into(), &"night shift".into()));
}

#[test]
fn a_schema_is_an_object_in_a_file_of_a_sane_size() {
    let world = World::new();
    let write = |name: &str, content: &[u8]| std::fs::write(world.path("work").join(name), content).unwrap();
    write("list.json", b"[1, 2]");
    write("text.json", b"not json");
    write("odd.json", br#"{"type": 5}"#);
    write("elsewhere.json", br#"{"$ref": "http://127.0.0.1:9/other.json"}"#);
    write("large.json", &vec![b' '; 5 * 1024 * 1024]);
    let made = crate::support::in_shell("mkfifo pipe").current_dir(world.path("work")).status().unwrap();
    assert!(made.success());
    for (path, said) in [
        ("list.json", "`--schema list.json` is JSON, but not an object"),
        ("text.json", "`--schema text.json` is not JSON"),
        ("odd.json", "`--schema odd.json` is not a usable JSON Schema"),
        ("elsewhere.json", "put the whole schema into the file: Bowline fetches nothing"),
        ("large.json", "`--schema large.json` is larger than 4 MiB"),
        ("pipe", "`--schema pipe` is not a regular file"),
        ("/dev/zero", "`--schema /dev/zero` is not a regular file"),
        (".", "`--schema .` is not a regular file"),
        ("absent.json", "could not read `--schema absent.json`"),
    ] {
        world.run("practice", "hi").with(&["--schema", path]).end().exits(2).tells(&["error: ", said]);
    }
    world.run("practice", "hi").with(&["--mcp-config", "pipe"]).end().exits(2).tells(&["not a regular file"]);
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn secrets_are_not_in_a_dry_run() {
    let world = World::new();
    let call =
        world.run("practice", "hi").with(&["--dry-run", "--env", "MY_API_KEY=sk-live-0123456789abcdef"]);
    let ended = call.end().exits(0);
    assert!(!ended.stdout.contains("sk-live-0123456789abcdef"), "{}", ended.stdout);
}

#[test]
fn the_agent_gets_the_variables_that_are_meant_for_it_and_no_others() {
    let world = World::new();
    let call = world.run("practice", "practice: show").env("SECRET_OF_THE_HOST", "1").env("LANG", "C.UTF-8");
    let call = call.env("XDG_STATE_HOME", world.path("tmp")).env("AWS_SECRET_ACCESS_KEY", "1");
    let seen = shown(&call.with(&["--env", "MINE=yes", "--env", "EMPTY="]).end().exits(0).stdout);
    let names: Vec<&str> = seen["env_names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in
        ["MINE", "EMPTY", "MARK", "LANG", "PATH", "HOME", "XDG_STATE_HOME", "BOWLINE_SESSION_ID", "TERM"]
    {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    for name in ["SECRET_OF_THE_HOST", "AWS_SECRET_ACCESS_KEY", "HOST_MARK", "BOWLINE_HOME"] {
        assert!(!names.contains(&name), "{name} does not concern the agent");
    }
    assert_eq!((&seen["env"]["TERM"], &seen["env"]["NO_COLOR"]), (&"dumb".into(), &"1".into()));
    let session = world.journal().dir.file_name().unwrap().display().to_string();
    assert_eq!(seen["env"]["BOWLINE_SESSION_ID"], session);
    assert_eq!(seen["cwd"], world.path("work").canonicalize().unwrap().display().to_string());
}

#[test]
fn secrets_are_masked_in_the_journal_and_shown_as_they_are() {
    let world = World::new();
    let secret = "sk-live-0123456789abcdef";
    let script = [
        "tool run printenv MY_API_KEY",
        "say it is sk-live-0123456789abcdef",
        "stderr sk-live-0123456789abcdef",
    ];
    let call =
        world.practice(&script).with(&["--env", &format!("MY_API_KEY={secret}"), "--permission", "yolo"]);
    let ended = call.end().exits(0);
    assert_eq!(ended.stdout, format!("it is {secret}\n"), "who asked for it sees it");
    let journal = world.journal();
    journal.check().ended("completed");
    for entry in std::fs::read_dir(&journal.dir).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "the secret is in {}", entry.path().display());
    }
    assert!(journal.text().contains("it is "), "the rest is there");
    assert_eq!(journal.count("tool_finished"), 1);
}

#[test]
fn files_for_the_agent_are_found_wherever_it_works() {
    let world = World::new();
    let work = world.path("work");
    std::fs::create_dir(work.join("elsewhere")).unwrap();
    std::fs::write(work.join("mcp.json"), r#"{"mcpServers":{"notes":{"command":"notes-server"}}}"#).unwrap();
    let options = ["--cwd", "elsewhere", "--mcp-config", "mcp.json"];
    // Homes that are named from where we are.
    for (name, value) in [("BOWLINE_HOME", "home-beside"), ("TMPDIR", "elsewhere")] {
        let call = world.run("practice", "practice: show").with(&options).env(name, value);
        let call = if name == "TMPDIR" { call.with(&["--ephemeral"]) } else { call };
        let seen = shown(&call.end().exits(0).stdout);
        assert!(seen["mcp_servers"].to_string().contains("notes"), "{seen}");
        assert_eq!(seen["cwd"], work.join("elsewhere").canonicalize().unwrap().display().to_string());
    }
    let left: Vec<_> =
        std::fs::read_dir(work.join("elsewhere")).unwrap().flatten().map(|it| it.path()).collect();
    assert!(left.is_empty(), "an ephemeral run leaves nothing: {left:?}");
}

#[test]
fn the_provider_comes_from_the_option_or_the_environment() {
    let world = World::new();
    let say = "practice: say hello";
    let ended = world.bowline(&["run", say]).env("BOWLINE_PROVIDER", "practice").end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    let ended = world.run("practice", say).env("BOWLINE_PROVIDER", "no-such-provider").end().exits(0);
    assert_eq!(ended.stdout, "hello\n", "the option is stronger");
    world
        .bowline(&["run", say])
        .env("BOWLINE_PROVIDER", "practise")
        .end()
        .exits(2)
        .tells(&["did you mean `practice`?"]);

    let ended = world.bowline(&["run", say]).env("PATH", world.path("tmp")).end().exits(2);
    let texts = ["error: no provider is selected", "claude, codex, gemini", "none of them is installed"];
    ended.tells(&texts).tells(&["--provider NAME", "BOWLINE_PROVIDER", "bowline demo"]);
}

#[test]
fn what_cannot_be_asked_for() {
    let world = World::new();
    let run = |args: &[&str]| world.bowline(&["run"]).with(args).end();
    insta::assert_snapshot!(run(&["--provider", "cluade", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: there is no provider `cluade`
hint: did you mean `claude`?
hint: `bowline providers` lists what there is
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--modle", "x", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: unexpected argument `--modle` found
hint: did you mean `--model`?
hint: usage: bowline run --provider <NAME> --model <NAME> [PROMPT]
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--output", "jsn", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: there is no output format `jsn`
hint: did you mean `json`?
hint: possible values: human, jsonl, text, json, pi, pi-partials, simple, chunks, generate, stream-events, provider-events
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--permission", "maybe", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: invalid value `maybe` for `--permission <MODE>`
hint: possible values: read, ask, edit, yolo
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--timeout", "soon", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: invalid value `soon` for `--timeout <TIME>`: expected a time such as 90s, 10m or 1h30m, or `none`
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--env", "X", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: invalid value `X` for `--env <NAME[=VALUE]>`: `X` is not set in this environment; use X=VALUE
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--resume", "x", "--continue", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: the argument `--resume <ID>` cannot be used with `--continue`
hint: usage: bowline run --provider <NAME> --resume <ID> <PROMPT>
hint: `bowline --help` lists the commands, `bowline COMMAND --help` their options
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--image", "/no/such/image.png", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: `--image /no/such/image.png` is not a file
hint: check the path
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--schema", "none.json", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: could not read `--schema none.json`
caused by: No such file or directory (os error 2)
"#);
    insta::assert_snapshot!(run(&["--provider", "practice", "--max-cost", "0", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: `--max-cost` must be greater than 0
hint: leave it out for no limit
"#);
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn what_a_provider_cannot_do_is_refused_with_a_reason() {
    let world = World::new();
    let run = |args: &[&str]| world.bowline(&["run"]).with(args).end();
    insta::assert_snapshot!(run(&["--provider", "gemini", "--max-turns", "1", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: gemini cannot be run with `--max-turns`: it has no option for this, only a setting (`model.maxSessionTurns`)
hint: limit the time with `--timeout`
"#);
    insta::assert_snapshot!(run(&["--provider", "codex", "--max-turns", "3", "hi"]).show(), @r#"
exit 2
--- stdout
--- stderr
error: codex cannot be run with `--max-turns`: it has no turn limit
hint: limit the time with `--timeout`
"#);
    let long = "x".repeat(1_048_577);
    let ended = world.run("codex", "-").input(long).end().exits(2);
    ended.tells(&["error: ", "1048576"]);
    assert!(world.journals().is_empty(), "nothing was begun");
}

#[test]
fn the_answer_of_a_second_attempt_has_a_line_of_its_own() {
    let world = World::new();
    let script = r#"cat >/dev/null
if mkdir begun 2>/dev/null; then
  echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
  echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"part of"}]},"session_id":"s"}'
  exit 3
fi
echo '{"type":"result","subtype":"success","is_error":false,"result":"the full answer","session_id":"s"}'"#;
    let ended = world.claude(script).with(&["--stream-fallback", "always"]).end().exits(0);
    assert_eq!(ended.stdout, "part of\nthe full answer\n");
    assert_eq!(ended.stderr.matches("exit code 3").count(), 1, "the failure is told once: {}", ended.stderr);
}
