//! What the files for the router mean to a person: who is in them, under which names, and what is wrong in them.

use crate::route::{answering, failing, routed, run};
use crate::world::{Ended, World};

#[test]
fn many_at_once_take_turns_evenly() {
    // Who is asked for its limits is not asked for work.
    let limits = "case \"$*\" in *--no-session-persistence*) exit 1;; esac";
    let named = |name: &str| format!("{limits}; echo {name} >>{{}}; {}", answering());
    let world = World::new();
    let log = world.path("asked.txt");
    let mut file = "routing: {strategy: round-robin}\nproviders:\n".to_owned();
    for name in ["first", "second", "third"] {
        let script = named(name).replace("{}", &log.display().to_string());
        let path = world.script(name, &format!("cat >/dev/null\n{script}"));
        file.push_str(&format!(
            "  - {{name: {name}, config: {{provider: claude, binary: {}}}}}\n",
            path.display()
        ));
    }
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("router.yaml"), file).expect("a file");
    std::thread::scope(|scope| {
        for _ in 0..12 {
            let call = run(&world, &["--provider", "auto"]);
            scope.spawn(move || call.start().end_among_others().exits(0));
        }
    });
    let asked = std::fs::read_to_string(&log).expect("they were asked");
    for name in ["first", "second", "third"] {
        assert_eq!(asked.lines().filter(|line| *line == name).count(), 4, "{asked}");
    }
}

#[test]
fn a_model_that_two_may_have_is_a_mistake_of_the_command_line_and_both_are_named() {
    let world = World::new();
    for name in ["claude", "other"] {
        world.script(name, &format!("cat >/dev/null\n{}", answering()));
    }
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    let manifest = format!(
        "name = \"other\"\nprogram = \"{}\"\nprompt = \"stdin\"\nformats.text.dialect = \"text\"\nmodel_patterns = [\"claude-*\"]\n[permission.ask]\n[run.flags]\nmodel = {{ args = [\"--model\", \"{{value}}\"] }}\n",
        world.path("other").display()
    );
    std::fs::write(dir.join("other.toml"), manifest).expect("a file");
    let path = format!("{}:/usr/bin:/bin", world.root().display());
    let ended = run(&world, &["--model", "claude-sonnet-4-5"]).env("PATH", path).end().exits(2);
    ended.tells(&[
        "error: the model `claude-sonnet-4-5` may be meant for claude or other",
        "hint: name the provider with `--provider NAME`",
    ]);
    assert!(world.journals_begun().is_empty(), "nobody was asked");
}

#[test]
fn a_model_that_two_entries_of_the_file_have_is_asked_of_the_one_that_comes_first_there() {
    let world = World::new();
    let entry = |name: &str, rest: &str| {
        let path = world.script(name, &format!("cat >/dev/null\n{}", answering()));
        format!("  - {{name: {name}, {rest}, config: {{provider: claude, binary: {}}}}}\n", path.display())
    };
    let codex = world.script("codex", "exit 1").display().to_string();
    let codex = format!(
        "  - {{name: third, models: {{fast: shared-1}}, config: {{provider: codex, binary: {codex}, env: {{CODEX_API_KEY: x}}}}}}\n"
    );
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    let (first, second) =
        (entry("first", "models: {fast: shared-1}"), entry("second", "models: {cheap: shared-1}"));
    let later = entry("first", "models: {fast: shared-1}, priority: 40");
    for (entries, order) in [
        ([&first, &second, &codex], "first second third"),
        ([&codex, &second, &first], "third second first"),
        ([&later, &codex, &second], "third second first"),
    ] {
        let file = entries.iter().fold("providers:\n".to_owned(), |file, entry| file + entry);
        std::fs::write(dir.join("router.yaml"), file).expect("a file");
        let call = world.bowline(&["route", "--model", "shared-1", "--after", "quota", "--json"]);
        let told = call.env("ANTHROPIC_API_KEY", "made-up").end().exits(0).json();
        let attempts = told["after"][0]["attempts"].as_array().expect("a list").iter();
        let names: Vec<&str> = attempts.map(|it| it["name"].as_str().unwrap_or_default()).collect();
        assert_eq!(names.join(" "), order, "{told:#}");
    }
}

#[test]
fn a_file_that_falls_back_after_anything_does() {
    let login = failing(401, "Invalid API key");
    let world = routed(&[("first", login), ("second", answering())], "routing: {fallback: any}\n");
    let ended = run(&world, &["--provider", "auto"]).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    ended.tells(&["warning: falling back from first to second: "]);
    let world = routed(
        &[
            ("first", failing(400, "Your credit balance is too low: insufficient_quota")),
            ("second", answering()),
        ],
        "routing: {fallback: none}\n",
    );
    run(&world, &["--provider", "auto"]).end().exits(1);
}

#[test]
fn what_is_described_badly_is_in_the_way_of_those_only_who_ask_for_it() {
    let world = World::new();
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(dir.join("providers")).expect("a directory");
    let file = dir.join("cli-providers.json");
    std::fs::write(
        &file,
        "{\n  \"good\": {\"executable\": \"/bin/true\"},\n  \"my-cli\": {\"executble\": 1}\n}",
    )
    .expect("a file");
    std::fs::write(dir.join("providers/mine.toml"), "name = \"mine\"\nporgram = \"x\"\n").expect("a file");
    let ended = world.practice(&["say hello"]).end().exits(0);
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.matches("warning: ").count()),
        ("hello\n", 2),
        "{}",
        ended.stderr
    );
    ended.tells(&["cli-providers.json:3:", "providers/mine.toml` cannot be used: line 2, column 1"]);
    run(&world, &["--model", "my-cli"]).end().exits(3).tells(&[
        "cli-providers.json:3:",
        "3 |   \"my-cli\": {\"executble\": 1}",
        "hint: a map by model",
    ]);
    run(&world, &["--provider", "mine"])
        .end()
        .exits(3)
        .tells(&["mine.toml` cannot be used: line 2, column 1"]);
    std::fs::write(&file, "{\"my-cli\": ").expect("a file");
    world.practice(&["say hello"]).end().exits(0).tells(&["warning: ", "cli-providers.json:1:"]);
    run(&world, &["--model", "my-cli"]).end().exits(3).tells(&["cli-providers.json:1:"]);
}

/// A key that the form does not have is a warning with its line, and the entry is used; one that seems to limit it is not ignored.
#[test]
fn unknown_keys_of_an_entry_are_told_and_the_file_is_used() {
    let world = routed(&[("first", answering())], "");
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("the file");
    let with = |key: &str| {
        std::fs::write(&file, text.replace("config: {", &format!("config: {{{key}, "))).expect("a file");
        run(&world, &["--provider", "first"]).end()
    };
    let ended = with("modle: opus, base_url: somewhere, max_retries: 3").exits(0);
    assert_eq!(ended.stdout, "hello\n");
    ended.tells(&[
        "router.yaml:3: ignored `modle` in `config` of `first`: Claude Code has no such setting; did you mean `model`?",
        "router.yaml:3: ignored `base_url` in `config` of `first`: Claude Code has no such setting\n",
        "router.yaml:3: ignored `max_retries` in `config` of `first`: Claude Code has no such setting\n",
    ]);
    with("permission: read").exits(3).tells(&[
        "router.yaml:3:",
        "`permission` is not known",
        "seems to limit it",
    ]);
    with("timout: 5s").exits(3).tells(&["hint: did you mean `timeout`?"]);
}

#[test]
fn names_of_the_routers_file_are_known_to_every_command_that_asks_about_providers() {
    let version = "case \"$1\" in --version) echo '2.1.0 (Claude Code)'; exit 0;; esac\n";
    let world = routed(&[], "");
    let agent = world.script("agent", &format!("{version}cat >/dev/null\n{}", answering()));
    let dir = world.path("work/.config/bowline");
    world.script(
        "work/.config/bowline/own",
        r#"case "$1" in health) echo fine;; *) cat >/dev/null; echo '{"content":"knot","delta":"knot","done":true,"tokens_used":7,"timestamp":"2026-11-15T08:00:00Z"}';; esac"#,
    );
    let file = format!(
        "providers:\n  - {{name: mine, config: {{provider: claude, binary: {}}}}}\n  - {{name: own, type: cli, config: {{path: ./own}}}}\n  - {{name: away, type: api, enabled: false}}\n",
        agent.display()
    );
    std::fs::write(dir.join("router.yaml"), file).expect("a file");
    let ask = |args: &[&str]| world.bowline(args).env("ANTHROPIC_API_KEY", "made-up").end();
    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&ask(args).stdout).expect("JSON");

    let doctor = json(&["doctor", "mine", "own", "--json"]);
    let rows: Vec<_> =
        doctor["agents"].as_array().expect("rows").iter().map(|row| &row["provider"]).collect();
    assert_eq!(rows, ["mine", "own"], "{doctor:#}");
    assert_eq!(doctor["agents"][0]["path"], agent.display().to_string());
    let all = json(&["doctor", "--json"]);
    let rows = all["agents"].as_array().expect("rows");
    assert!(["mine", "own"].iter().all(|name| rows.iter().any(|row| row["provider"] == *name)), "{all:#}");

    let models = ask(&["models", "mine"]);
    assert!(models.stdout.starts_with("mine"), "{models:?}");
    let limits = ask(&["limits", "own"]);
    assert!(limits.stderr.contains("own does not report its limits"), "{limits:?}");
    assert!(ask(&["provider", "health", "own"]).exits(0).stdout.starts_with("own is healthy"));
    let provided =
        world.bowline(&["provide", "own", "generate"]).no_prompt().input(r#"{"prompt":"hi"}"#).end();
    assert!(provided.exits(0).stdout.contains("knot"));
    let certified = ask(&["certify", "mine", "--only", "nonsense"]);
    assert!(certified.stderr.contains("there is no case `nonsense`"), "{certified:?}");
    let foreign = ask(&["doctor", "away"]).exits(3);
    foreign.tells(&["router.yaml:4:1: `away`: `api` providers cannot be driven"]);
    ask(&["models", "nobody"]).exits(2).tells(&["error: there is no provider `nobody`"]);
}

#[test]
fn what_a_program_in_the_form_for_pi_is_given_is_what_its_entry_says() {
    let world = World::new();
    let path = world.script(
        "agent",
        r#"printf 'data: {"type":"text","delta":"%s %s %s"}\n\ndata: {"type":"done"}\n\n' "$PWD" "$GREETING" "$*""#,
    );
    std::fs::create_dir_all(world.path("work/.config/bowline")).expect("a directory");
    std::fs::create_dir_all(world.path("elsewhere")).expect("a directory");
    let entry = format!(
        r#"{{"my-cli": {{"executable": "{}", "modelArg": "m-1", "extraArgs": ["--json"], "dialect": "simple", "outputFormat": "sse",
            "workdir": "{}", "env": {{"GREETING": "hi"}}, "cliSessionId": "s-1"}},
           "slow": {{"executable": "/bin/sleep", "args": ["60"], "modelFlag": "", "promptFlag": "", "outputFormat": "text", "timeout": 300}}}}"#,
        path.display(),
        world.path("elsewhere").display()
    );
    std::fs::write(world.path("work/.config/bowline/cli-providers.json"), entry).expect("a file");
    let ended = run(&world, &["--model", "my-cli", "--permission", "yolo"]).end().exits(0);
    let elsewhere = std::fs::canonicalize(world.path("elsewhere")).expect("a directory");
    assert_eq!(
        ended.stdout,
        format!("{} hi --session s-1 --mode json --model m-1 --json -p Say hello.\n", elsewhere.display())
    );
    // Without a mode it runs with a warning. A mode that was asked for is refused, and only this program is of interest.
    run(&world, &["--model", "my-cli"]).end().exits(0).tells(&["warning: my-cli cannot be restricted"]);
    let held = run(&world, &["--model", "my-cli", "--permission", "ask"]).end().exits(4);
    assert!(!held.stderr.contains("not known as a model"), "{}", held.stderr);
    held.tells(&[
        "caused by: my-cli: ",
        "add `permissionArgs.ask` to the configuration, or use `--permission yolo` to",
    ]);
    // Its model names the program, so that its sessions can go on.
    let resumed =
        run(&world, &["--model", "my-cli", "--permission", "yolo", "--resume", "s-7"]).end().exits(0);
    assert!(resumed.stdout.contains(" --session s-7 --continue "), "{}", resumed.stdout);
    let args = ["run", "--model", "slow", "--permission", "yolo", "--retries", "0", "60"];
    world.bowline(&args).end().exits(124);
}

#[test]
fn a_session_of_ours_goes_on_with_whoever_held_it() {
    let world = World::new();
    let log = world.path("log");
    let said = |who: &str| {
        format!("cat >/dev/null; echo \"{who} $CLAUDE_CONFIG_DIR $*\" >>{}\n{}", log.display(), answering())
    };
    let mine = world.script("mine", &said("mine"));
    // The provider itself is another program, with two accounts.
    std::fs::create_dir_all(world.path("bin")).expect("a directory");
    world.script("bin/claude", &said("usual"));
    let pi = world.script(
        "pi-like",
        &format!(
            r#"echo '{{"type":"session","id":"abc-1"}}'; echo "pi $*" >>{}
echo '{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"hey"}}],"stopReason":"stop"}}}}'
echo '{{"type":"agent_end","messages":[]}}'"#,
            log.display()
        ),
    );
    let (files, account) = (world.path("work/.config/bowline"), world.path("account"));
    for dir in [&files, &account] {
        std::fs::create_dir_all(dir).expect("a directory");
    }
    let write = |name: &str, text: String| std::fs::write(files.join(name), text).expect("a file");
    let entry =
        format!("providers:\n  - name: mine\n    config: {{provider: claude, binary: {}}}\n", mine.display());
    write("router.yaml", entry);
    write(
        "bowline.toml",
        format!("[profiles.work]\nprovider = \"claude\"\nhome = \"{}\"\n", account.display()),
    );
    write("cli-providers.json", format!(r#"{{"my-cli": {{"executable": "{}"}}}}"#, pi.display()));

    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let asked = |args: &[&str]| run(&world, &["-o", "json"]).with(args).env("PATH", &path).end();
    let session = |ended: &Ended| -> String {
        let answer: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
        answer["session"].as_str().expect("its name").to_owned()
    };
    let accounted = format!("usual {} ", account.display());
    for (first, rest, resumed) in [
        (["--provider", "mine"], &[][..], ["mine  ", " --resume s"]),
        (["--profile", "work"], &[], [&accounted, " --resume s"]),
        (["--model", "my-cli"], &["--permission", "yolo"], ["pi ", "--session abc-1 --continue "]),
    ] {
        let ours = session(&asked(&[&first, rest].concat()).exits(0));
        asked(&[&["--resume", &ours], rest].concat()).exits(0);
        let log = std::fs::read_to_string(&log).expect("it ran");
        let last = log.lines().last().expect("a line");
        assert!(resumed.iter().all(|part| last.contains(part)), "{first:?}: {last}");
    }
    let ours = session(&asked(&["--provider", "mine"]).exits(0));
    let other = asked(&["--resume", &ours, "--provider", "claude"]).exits(2);
    other.tells(&["belongs to `mine`, not to `claude`"]);
    // Another project's file may have the same name; it is not what held the session.
    let project = world.path("work/other/.bowline");
    std::fs::create_dir_all(&project).expect("a directory");
    let evil = world.script("evil", &said("evil"));
    let entry =
        format!("providers:\n  - name: mine\n    config: {{provider: claude, binary: {}}}\n", evil.display());
    std::fs::write(project.join("router.yaml"), entry).expect("a file");
    asked(&["--resume", &ours, "--cwd", "other"]).exits(0).tells(&["ignored `mine`: it runs "]);
    assert!(!std::fs::read_to_string(&log).expect("a log").contains("evil"));
    std::fs::remove_file(files.join("router.yaml")).expect("the file");
    asked(&["--resume", &ours]).exits(2).tells(&["belongs to `mine`, which is no longer configured"]);
}

#[test]
fn hints_about_a_file_name_its_keys_and_no_flags() {
    let world = World::new();
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("router.yaml"), "providers:\n  - {name: first, confg: {provider: claude}}\n")
        .expect("a file");
    let ended = run(&world, &["--provider", "auto"]).end().exits(3);
    ended.tells(&["did you mean `config`?"]);
    let doctor = world.bowline(&["doctor"]).end();
    assert!(doctor.stdout.contains("did you mean `config`?"), "{doctor:#?}");
}
