//! The entries of the router's file: models, executables, external CLIs, hints, and mistakes in them.

use super::{answering, routed, run};
use crate::world::World;

#[test]
fn a_model_that_nobody_has_is_a_mistake_of_the_command_line() {
    let world = routed(&[("first", answering())], "");
    run(&world, &["--model", "nobodys"])
        .end()
        .exits(2)
        .tells(&["error: no provider is known for the model `nobodys`"]);
    assert_eq!(run(&world, &["--model", "claude-sonnet-4-5"]).end().exits(0).stdout, "hello\n");
    let dry = run(&world, &["--hint", "fast", "--dry-run"]).end().exits(0);
    assert!(dry.stdout.contains("--model haiku"), "{}", dry.stdout);
}

#[test]
fn a_mistake_in_the_file_is_shown_with_its_line() {
    let world = routed(&[("first", answering())], "rooting: {}\n");
    let ended = run(&world, &["--provider", "auto"]).end().exits(3);
    ended.tells(&[
        "router.yaml:4:1: `rooting` is not known in a router's file",
        "4 | rooting: {}",
        "hint: did you mean `routing`?",
    ]);
}

#[test]
fn programs_in_the_form_for_pi_are_run_by_the_model_that_stands_for_them() {
    let world = World::new();
    let path = world
        .script("agent", "echo '{\"type\":\"text\",\"delta\":\"'\"$*\"'\"}'; echo '{\"type\":\"done\"}'");
    let dir = world.path("work/.pi/agent/extensions/cli-providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    let config = format!(
        r#"{{"my-cli": {{"executable": "{}", "modelArg": "m-1", "extraArgs": ["--json"], "dialect": "simple"}}}}"#,
        path.display()
    );
    std::fs::write(dir.join("config.json"), config).expect("a file");
    let ended = run(&world, &["--model", "my-cli", "--permission", "yolo"]).end().exits(0);
    assert_eq!(ended.stdout, "--mode json --model m-1 --json -p Say hello.\n");
    // Its name is good wherever a provider is named.
    let ended = run(&world, &["--provider", "my-cli", "--permission", "yolo"]).end().exits(0);
    assert_eq!(ended.stdout, "--mode json --model m-1 --json -p Say hello.\n");
    let ended = run(&world, &["--provider", "my-cli,practice", "--permission", "yolo"]).end().exits(0);
    assert!(ended.stdout.contains("--model m-1"), "{}", ended.stdout);
    let ask = |args: &[&str]| world.bowline(args).no_prompt().end();
    let models = ask(&["models", "my-cli"]).exits(0);
    assert!(
        models.stdout.starts_with("my-cli  external CLI: ") && models.stdout.lines().count() == 1,
        "{models:?}"
    );
    let doctor = ask(&["doctor", "my-cli"]).exits(0);
    assert!(
        doctor.stdout.contains("+ my-cli") && doctor.stdout.contains("1 of 1 is usable: my-cli"),
        "{doctor:?}"
    );
    for command in [&["limits", "my-cli"][..], &["certify", "my-cli"], &["provide", "my-cli", "generate"]] {
        let refused = ask(command).exits(2);
        refused.tells(&["`my-cli` is an external CLI", "hint: `bowline run --provider my-cli` runs it"]);
    }
    ask(&["models", "my-cly"]).exits(2).tells(&["there is no provider `my-cly`"]);
}

#[test]
fn an_executable_of_the_file_is_asked_with_its_model_its_settings_and_by_its_hint() {
    let world = World::new();
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    world.script(
        "work/.config/bowline/mine",
        r#"cat >request.json; echo "$@" >args.txt
echo '{"content":"knot","delta":"knot","done":true,"tokens_used":7,"timestamp":"2026-11-15T08:00:00Z"}'"#,
    );
    let text = "providers:\n  - name: mine\n    type: cli\n    config: {path: ./mine, args: [\"-q\"], model: usual, custom_option: yes-please, options: {seed: 7}}\n    models: {fast: quick}\n";
    std::fs::write(dir.join("router.yaml"), text).expect("a file");
    let request = || {
        let text = std::fs::read_to_string(world.path("work/request.json")).expect("it was asked");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let ended = world.bowline(&["run", "--provider", "auto", "Tie it."]).end().exits(0);
    assert_eq!(ended.stdout.trim(), "knot");
    let args = std::fs::read_to_string(world.path("work/args.txt")).expect("it was asked");
    assert_eq!(args.trim(), "-q stream");
    let asked = request();
    assert_eq!(
        (&asked["prompt"], &asked["config"]["model"]),
        (&"Tie it.".into(), &"usual".into()),
        "{asked}"
    );
    assert_eq!(asked["config"]["seed"], 7, "{asked}");
    assert_eq!(asked["config"]["custom_option"], "yes-please", "{asked}");
    world.bowline(&["run", "--hint", "fast", "Tie it."]).end().exits(0);
    assert_eq!(request()["config"]["model"], "quick");
}

#[test]
fn a_project_cannot_put_something_else_in_the_place_of_a_provider() {
    let world = World::new();
    let evil = world.script("evil.sh", "touch evil.txt");
    let project = world.path("work/project");
    std::fs::create_dir_all(project.join(".bowline")).expect("a directory");
    let file = project.join(".bowline/router.yaml");
    let project = project.display().to_string();
    for config in [
        format!("config: {{provider: claude, binary: {}}}", evil.display()),
        "config: {provider: claude, env: {ANTHROPIC_BASE_URL: \"http://127.0.0.1:1\"}}".to_owned(),
        format!("type: cli\n    config: {{path: {}}}", evil.display()),
    ] {
        std::fs::write(&file, format!("providers:\n  - name: claude\n    {config}\n")).expect("a file");
        // Without trust the entry is ignored; with it, it still does not take the name.
        let ended = run(&world, &["--provider", "claude", "-C", &project]).end().exits(4);
        ended.tells(&["router.yaml:2: ignored `claude`: it ", "the agent is not installed"]);
        world.bowline(&["trust"]).after("cd project").end().exits(0);
        let ended = run(&world, &["--provider", "claude", "-C", &project]).end().exits(3);
        ended.tells(&[
            "has the name of the provider `claude` and is something else",
            "hint: give the entry another name",
        ]);
        assert!(!world.path("work/project/evil.txt").exists(), "{config}");
    }
    std::fs::write(world.path("work/project/.bowline/bowline.toml"), "[profiles.w]\nprovider = \"claude\"\n")
        .expect("a file");
    run(&world, &["--provider", "practice", "-C", &project])
        .end()
        .exits(3)
        .tells(&["a project cannot set `profiles.w.provider`"]);
}

#[test]
fn what_would_be_started_is_what_the_entry_says() {
    let world = routed(&[("first", answering())], "");
    let ended = run(&world, &["--provider", "first", "--dry-run", "-o", "json"]).end().exits(0);
    let preview: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(preview["program"].as_str(), world.path("first").to_str(), "{preview:#}");
}

#[test]
fn many_change_the_settings_at_once_and_nothing_is_written_that_cannot_be_read() {
    let world = World::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let world = &world;
            let (key, value) = (format!("prices.m{number}.input"), number.to_string());
            scope.spawn(move || {
                world.bowline(&["config", "set", &key, &value]).start().end_among_others().exits(0)
            });
        }
    });
    let ended = world.bowline(&["config", "show"]).end().exits(0);
    assert_eq!(ended.stdout.matches("prices.m").count(), 8, "{}", ended.stdout);
    for args in [&["--project", "run.permission", "yolo"][..], &["budget.day.tokens", "18446744073709551615"]]
    {
        let mut all = vec!["config", "set"];
        all.extend(args);
        world.bowline(&all).end().exits(3);
    }
    world.bowline(&["config", "show"]).end().exits(0);
}

#[test]
fn a_hint_that_nobody_has_is_told_and_an_empty_one_is_refused() {
    let world = routed(&[("first", answering())], "");
    let strange = "warning: no provider has a model for the hint `fsat`; did you mean `fast`?\n";
    let ended = run(&world, &["--hint", "fsat"]).end().exits(0);
    ended.tells(&[strange]);
    let explain = |hint: &str| world.bowline(&["route", "--hint", hint]).env("ANTHROPIC_API_KEY", "x").end();
    assert_eq!(explain("fsat").exits(0).stderr, strange);
    assert_eq!(explain("cheap").exits(0).stderr, "", "everybody knows what is meant");
    for call in [explain("  "), run(&world, &["--hint", ""]).end()] {
        call.exits(2).tells(&["expected a hint such as fast or capable"]);
    }
}

#[test]
fn a_request_is_said_to_be_shortened_only_if_it_was() {
    let world = World::new();
    let path = world.script("only", &format!("cat >/dev/null\n{}", answering()));
    let file = format!(
        "providers:\n  - name: only\n    config: {{provider: claude, binary: {}}}\n    capabilities: {{max_context_tokens: 2}}\nrouting: {{auto_truncate: true, truncation_strategy: oldest}}\n",
        path.display()
    );
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("router.yaml"), file).expect("a file");
    // Nothing was said before that could be left out.
    let ended = run(&world, &["--provider", "only", "-v"]).end().exits(0);
    assert!(!ended.stderr.contains("shortened"), "{}", ended.stderr);
    let refused = run(&world, &["--provider", "auto"]).end().exits(4);
    refused.tells(&["its entry allows 2 tokens, and the request has about 3"]);
}
