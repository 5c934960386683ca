//! Providers that a user describes: listed, run, and told of when their files are wrong.

use std::path::PathBuf;

use crate::world::World;

/// Puts a manifest where the user's own are looked for.
fn own(world: &World, name: &str, text: &str) -> PathBuf {
    let dir = world.path("work/.config/bowline/providers");
    std::fs::create_dir_all(&dir).expect("a directory");
    let file = dir.join(name);
    std::fs::write(&file, text).expect("a manifest");
    file
}

/// A manifest for a script beside it.
fn agent(name: &str) -> String {
    format!(
        "name = \"{name}\"\nprogram = \"./agent.sh\"\nprompt = \"stdin\"\nformats.text.dialect = \"text\"\n[permission.ask]\n"
    )
}

#[test]
fn a_users_provider_is_run_by_its_name_and_by_the_path_beside_its_file() {
    let world = World::new();
    own(&world, "a.toml", &agent("my-agent"));
    let script = world.script("work/.config/bowline/providers/agent.sh", "echo \"you said: $(cat)\"");
    let ended = world.run("My_Agent", "hello").end().exits(0);
    assert_eq!(ended.stdout.trim(), "you said: hello");
    // A changed program and a changed file count from the next request on.
    bowline_testkit::write_program(&script, "#!/bin/sh\necho new\n");
    assert_eq!(world.run("my-agent", "hello").end().exits(0).stdout.trim(), "new");
    std::fs::remove_file(&script).expect("it is there");
    let ended = world.run("my-agent", "hello").end().exits(4);
    assert!(ended.stderr.contains("agent.sh"), "{}", ended.stderr);
}

/// A manifest without hints: the names of its own models tell which one suits `--hint`.
#[test]
fn a_hint_finds_its_model_in_the_providers_own_list() {
    let world = World::new();
    let models = r#"models = [{ id = "default", name = "Default" }, { id = "knot-3-max", name = "Max" }, { id = "knot-3-flash", name = "Flash" }]"#;
    let flags = "[run.flags]\nmodel = { args = [\"--model\", \"{value}\"] }\n";
    own(&world, "a.toml", &format!("{models}\ndefault_model = \"default\"\n{}{flags}", agent("my-agent")));
    world.script("work/.config/bowline/providers/agent.sh", "cat >/dev/null; echo \"$*\"");
    for (hint, model) in [("fast", "knot-3-flash"), ("capable", "knot-3-max")] {
        let ended = world.run("my-agent", "hello").with(&["--hint", hint]).end().exits(0);
        assert_eq!(ended.stdout.trim(), format!("--model {model}"), "{}", ended.stderr);
    }
}

#[test]
fn providers_lists_where_each_comes_from_and_what_cannot_be_used() {
    let world = World::new();
    let file = own(&world, "a.toml", &agent("my-agent"));
    let ended = world.bowline(&["providers"]).end().exits(0);
    let row = ended.stdout.lines().find(|line| line.starts_with("my-agent ")).expect("a row");
    assert!(row.contains(&*file.to_string_lossy()), "{row}");
    let ended = world.bowline(&["providers", "--json"]).end().exits(0);
    let list: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let origins: Vec<_> = list.as_array().into_iter().flatten().map(|it| it["origin"].as_str()).collect();
    assert_eq!((origins[0], *origins.last().expect("some")), (Some("built in"), file.to_str()));

    let bad = own(&world, "b.toml", "name = \"b\"\nprogram = 7\n");
    let ended = world.bowline(&["providers"]).end().exits(3);
    assert!(ended.stdout.contains("my-agent "), "the others are listed: {}", ended.stdout);
    let expected =
        format!("error: the manifest `{}` cannot be used: line 2, column 11, `program = 7`:", bad.display());
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: correct the file"), "{}", ended.stderr);
    world.run("b", "hello").end().exits(3);
    world.script("work/.config/bowline/providers/agent.sh", "cat");
    world.run("my-agent", "hello").end().exits(0);
}

#[test]
fn a_built_in_name_is_not_taken_by_accident() {
    let world = World::new();
    let file = own(&world, "p.toml", &agent("practice"));
    world.script("work/.config/bowline/providers/agent.sh", "echo mine");
    let ended = world.run("practice", "hello").end().exits(3);
    let expected = format!(
        "error: the manifest `{}` takes the name `practice`, which a built-in provider has already\n",
        file.display()
    );
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    assert!(ended.stderr.contains("`override = true`"), "{}", ended.stderr);
    own(&world, "p.toml", &format!("override = true\n{}", agent("practice")));
    assert_eq!(world.run("practice", "hello").end().exits(0).stdout.trim(), "mine");
}

#[test]
fn the_shipped_example_runs_an_agent_without_a_folder() {
    let world = World::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/omnara.toml");
    own(&world, "omnara.toml", &std::fs::read_to_string(example).expect("the example"));
    std::fs::create_dir(world.path("bin")).expect("a directory");
    // It stands in for the program: it wants a terminal, and says how it was called.
    world.script(
        "bin/omnara",
        "test -t 0 && test -t 1 || exit 3\nprintf '\\033[1m%s\\033[0m\\n' \"$@\" \"key $OMNARA_API_KEY\"",
    );
    let call = |args: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
        world.run("omnara", "it's\n2 lines").with(args).env("PATH", path).env("OMNARA_API_KEY", "made-up-key")
    };
    let ended = call(&["--permission", "edit", "--deny-tool", "Bash", "--output", "json"]).end().exits(0);
    let summary: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a summary");
    let said = summary["text"].as_str().expect("a text").replace('\r', "");
    let words = [
        "headless",
        "--permission-mode",
        "acceptEdits",
        "--disallowed-tools",
        "Bash",
        "--prompt=it's",
        "2 lines",
    ];
    assert!(said.starts_with(&words.join("\n")), "{said}");
    assert!(said.ends_with("key made-up-key"), "{said}");
    // What came over the terminal is in the file for that, and what events point to is there.
    let journal = world.journal();
    journal.check();
    assert!(journal.raw("stdout").is_empty() && !journal.raw("pty").is_empty());
    assert!(journal.events.iter().any(|event| event["raw"]["file"] == "pty"), "{:#?}", journal.events);
    for file in std::fs::read_dir(&world.journals_begun()[0]).expect("a journal").flatten() {
        let kept = std::fs::read(file.path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&kept).contains("made-up-key"), "{}", file.path().display());
    }
    let ended = call(&["--model", "m"]).end().exits(2);
    assert!(ended.stderr.contains("its command line has no choice of model"), "{}", ended.stderr);
}

#[test]
fn the_limit_of_silence_is_that_of_the_first_word_too() {
    let world = World::new();
    own(
        &world,
        "late.toml",
        &format!(
            "{}[watchdog]\nfirst_event = \"600ms\"\nidle = \"5m\"\n",
            agent("late").replace("= \"text\"", "= \"stream-json\"")
        ),
    );
    let line = r#"{"type":"result","subtype":"success","result":"late"}"#;
    world.script("work/.config/bowline/providers/agent.sh", &format!("sleep 1.5; echo '{line}'"));
    let ask = |args: &[&str]| world.run("late", "hello").with(args).end();
    ask(&["--timeout", "30s"]).exits(124).tells(&["printed nothing within 0.6 s"]);
    for limit in ["none", "20s"] {
        assert_eq!(ask(&["--timeout", "30s", "--idle-timeout", limit]).exits(0).stdout.trim(), "late");
    }
}
