//! Programs as the specifications show them: external CLIs, wrappers without permissions, native arguments, formats.

use serde_json::Value;

use crate::world::World;

/// Protocol B of the specification for pi, word for word.
const PROTOCOL_B: &str = r#"cat <<'END'
{"type":"text","delta":"Hello"}
{"type":"thinking","delta":"Let me think..."}
{"type":"tool_call","id":"call_1","name":"bash","arguments":{"command":"ls"}}
{"type":"tool_result","id":"call_1","content":"file1.txt\nfile2.txt"}
{"type":"done"}
END"#;

/// Describes an external CLI as the specification does.
fn described(world: &World, script: &str) {
    let path = world.script("agent", script);
    let dir = world.path("work/.pi/agent/extensions/cli-providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    let config = format!(
        r#"{{"claude-cli": {{"executable": "{}", "modelArg": "sonnet-x", "extraArgs": ["--json"], "outputFormat": "jsonl"}}}}"#,
        path.display()
    );
    std::fs::write(dir.join("config.json"), config).expect("a file");
}

fn settings(world: &World, dir: &str, text: &str) {
    let dir = world.path(dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("bowline.toml"), text).expect("a file");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn protocol_b_needs_no_setting_and_names_its_model() {
    let world = World::new();
    described(&world, PROTOCOL_B);
    let run =
        |output: &str| world.bowline(&["run", "--model", "claude-cli", "-o", output, "hi"]).end().exits(0);
    let ended = run("pi");
    let records: Vec<Value> = ended.stdout.lines().map(json).collect();
    let done = records.last().expect("an end");
    assert_eq!((&done["type"], &done["message"]["model"]), (&"done".into(), &"claude-cli".into()), "{done}");
    assert_eq!(done["message"]["content"][0]["text"], "Hello", "{done}");
    assert_eq!(ended.stderr.matches("cannot be restricted").count(), 1, "{}", ended.stderr);
    let summary = json(&run("json").stdout);
    assert_eq!((&summary["model"], &summary["model_source"]), (&"claude-cli".into(), &"asked".into()));
}

#[test]
fn a_mode_that_was_asked_for_is_never_widened() {
    let world = World::new();
    described(&world, &format!("touch ran.txt\n{PROTOCOL_B}"));
    let run = |more: &[&str]| {
        let _ = std::fs::remove_file(world.path("work/ran.txt"));
        let ended = world.bowline(&[&["run", "--model", "claude-cli", "hi"], more].concat()).end();
        (ended, world.path("work/ran.txt").exists())
    };
    for mode in ["ask", "read", "edit"] {
        let (ended, ran) = run(&["--permission", mode]);
        assert!(!ran && ended.stderr.contains(&format!("--permission {mode}")), "{}", ended.stderr);
    }
    settings(&world, "work/.config/bowline", "[permission]\nunrestricted = \"refuse\"\n");
    assert!(!run(&[]).1, "the settings forbid it");
    settings(&world, "work/.config/bowline", "[permission]\nunrestricted = \"warn\"\n");
    assert!(run(&["--permission", "ask"]).1, "the settings allow it");
    // A project may only tighten it.
    settings(&world, "work/.config/bowline", "");
    settings(&world, "work/project/.bowline", "[permission]\nunrestricted = \"refuse\"\n");
    assert!(!run(&["--cwd", "project"]).1);
    for text in ["[permission]\nunrestricted = \"warn\"\n", "[providers.claude]\nargs = [\"--x\"]\n"] {
        settings(&world, "work/project/.bowline", text);
        let (ended, ran) = run(&["--cwd", "project"]);
        assert!(!ran && ended.stderr.contains("a project cannot set"), "{}", ended.stderr);
    }
}

#[test]
fn a_wrapper_without_permissions_runs_as_the_adapter_protocol_shows() {
    let world = World::new();
    for script in [
        r#"echo '{"role":"assistant","content":"hello"}'"#,
        "echo hello",
        r#"echo '{"messages":[{"role":"assistant","content":"hello"}]}'"#,
    ] {
        let path = world.script("ax-glm", script);
        let binary = path.to_str().expect("a path");
        let ended = world.bowline(&["run", "--provider", "glm", "--binary", binary, "hi"]).end().exits(0);
        assert_eq!(ended.stdout, "hello\n", "{script}");
        assert_eq!(ended.stderr.matches("cannot be restricted").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_qwen_that_prints_text_has_answered() {
    let world = World::new();
    let path = world.script("qwen", "cat >/dev/null; echo 'The answer is 42.'");
    let binary = path.to_str().expect("a path");
    let ended = world.bowline(&["run", "--provider", "qwen", "--binary", binary, "hi"]).end().exits(0);
    assert_eq!(ended.stdout, "The answer is 42.\n", "{}", ended.stderr);
}

#[test]
fn a_format_can_be_chosen() {
    let world = World::new();
    let path = world.script("qwen", "cat >/dev/null; echo \"$*\"");
    let binary = path.to_str().expect("a path");
    let run = |more: &[&str]| {
        world.bowline(&[&["run", "--provider", "qwen", "--binary", binary, "hi"], more].concat()).end()
    };
    let said = run(&["--format", "text"]).exits(0).stdout;
    assert!(!said.contains("--output-format"), "{said}");
    let ended = run(&["--format", "xml"]).exits(2);
    assert!(
        ended.stderr.contains("it has no format `xml`; it has acp, json, stream-json"),
        "{}",
        ended.stderr
    );
    settings(&world, "work/.config/bowline", "[providers.qwen]\nformat = \"text\"\n");
    assert!(!run(&[]).exits(0).stdout.contains("--output-format"));
}

#[test]
fn native_arguments_are_passed_on_unless_they_contradict() {
    let world = World::new();
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let path = world.script("agent", &format!("cat >/dev/null; echo \"$*\" >args.txt; echo '{result}'"));
    let binary = path.to_str().expect("a path");
    let run = |more: &[&str]| {
        world.bowline(&[&["run", "--provider", "claude", "--binary", binary, "hi"], more].concat()).end()
    };
    let args = || std::fs::read_to_string(world.path("work/args.txt")).expect("it was started");
    run(&["--agent-arg=--permission-mode=plan", "--agent-arg", "--betas", "--agent-arg=x"]).exits(0);
    let started = args();
    assert!(started.trim_end().ends_with("--permission-mode=plan --betas x"), "{started}");
    assert_eq!(started.matches("--permission-mode").count(), 1, "{started}");
    settings(&world, "work/.config/bowline", "[providers.claude]\nargs = [\"--ide\"]\n");
    run(&[]).exits(0);
    assert!(args().trim_end().ends_with("--ide"), "{}", args());
    settings(&world, "work/.config/bowline", "");
    for (arg, hint) in [
        ("--dangerously-skip-permissions", "hint:"),
        ("--permission-mode=bypassPermissions", "use `--permission`"),
        ("--model=opus", "use `--model`"),
        ("--output-format=text", "use `--format`"),
        ("-p", "hint:"),
        ("a prompt", "read as a prompt"),
    ] {
        std::fs::remove_file(world.path("work/args.txt")).ok();
        let ended = run(&[&format!("--agent-arg={arg}")]).exits(2);
        assert!(
            ended.stderr.contains(hint) && ended.stderr.contains("--agent-arg="),
            "{arg}: {}",
            ended.stderr
        );
        assert!(!world.path("work/args.txt").exists(), "{arg}: nothing is started");
    }
    // They are one program's options, and the router is told nothing of whose.
    let ended = world.bowline(&["run", "--provider", "auto", "--agent-arg=--x", "hi"]).end();
    assert!(!ended.stdout.contains("done"), "{}", ended.stdout);
}

#[test]
fn external_programs_are_listed() {
    let world = World::new();
    described(&world, "touch ran.txt");
    let table = world.bowline(&["providers"]).end().exits(0).stdout;
    assert!(
        table.lines().any(|line| line.starts_with("claude-cli ") && line.contains("external")),
        "{table}"
    );
    let list = json(&world.bowline(&["providers", "--json"]).end().exits(0).stdout);
    let last = list.as_array().and_then(|list| list.last()).expect("a list").clone();
    assert_eq!((&last["name"], &last["external"]), (&"claude-cli".into(), &true.into()));
    let doctor = world.bowline(&["doctor"]).end().exits(0).stdout;
    assert!(doctor.contains("+ claude-cli external CLI, `--model claude-cli`: "), "{doctor}");
    let last = doctor.lines().last().expect("a line");
    assert!(last.contains(" is usable: claude-cli"), "{doctor}");
    let models = world.bowline(&["models"]).end().exits(0).stdout;
    assert!(models.contains("claude-cli  external CLI: "), "{models}");
    assert!(!world.path("work/ran.txt").exists(), "nothing of it is started");
}

#[test]
fn a_one_way_run_claims_no_steering() {
    let world = World::new();
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    world.claude(&format!("cat >/dev/null; echo '{result}'")).end().exits(0);
    let journal = world.journal();
    let started = &journal.of("session_started")[0]["kind"];
    assert_eq!(started["capabilities"]["steers"], false, "{started}");
    assert_eq!(started["capabilities"]["approvals"], "rules", "{started}");
}

#[test]
fn a_dry_run_shows_what_a_protocol_carries() {
    let world = World::new();
    let args = ["run", "--provider", "codex", "--model", "gpt-x", "--effort", "high", "--dry-run", "Fix it"];
    let shown = world.bowline(&args).end().exits(0).stdout;
    for part in ["app-server", "sends     prompt: Fix it", "sends     model: gpt-x", "sends     effort: high"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
