//! `bowline config`, `init`, `prices`, `completions` and `man`.

use crate::world::World;

#[test]
fn settings_are_shown_with_their_origin_and_changed_with_their_comments_kept() {
    let world = World::new();
    let config = |args: &[&str]| {
        let all: Vec<&str> = ["config"].iter().chain(args).copied().collect();
        world.bowline(&all).end()
    };
    let shown =
        |args: &[&str]| config(args).exits(0).stdout.replace(&world.root().display().to_string(), "WORLD");
    assert_eq!(shown(&["show"]), "no settings; `bowline config show --all` lists the available ones\n");
    config(&["get", "run.provider"]).exits(1);
    assert_eq!(shown(&["get", "route.retries"]), "2\n");
    config(&["set", "run.provider", "auto"]).exits(0);
    let file = world.path("work/.config/bowline/bowline.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace("[run]", "# mine\n[run]")).expect("a file");
    config(&["set", "route.retries", "5"]).exits(0);
    insta::assert_snapshot!(std::fs::read_to_string(&file).expect("a file"), @r#"
    # mine
    [run]
    provider = "auto"

    [route]
    retries = 5
    "#);
    insta::assert_snapshot!(shown(&["show"]), @r"
    SETTING        VALUE  FROM
    route.retries  5      WORLD/work/.config/bowline/bowline.toml:6
    run.provider   auto   WORLD/work/.config/bowline/bowline.toml:3
    read: WORLD/work/.config/bowline/bowline.toml
    ");
    let json: serde_json::Value = serde_json::from_str(&shown(&["show", "--json"])).expect("JSON");
    assert_eq!(json["settings"].as_array().map(Vec::len), Some(2));
    assert!(shown(&["show", "--all"]).contains("budget.day.cost"));
    config(&["set", "route.retrys", "5"])
        .exits(3)
        .tells(&["`route.retrys` is not a setting", "did you mean `route.retries`?"]);
    config(&["set", "profiles.work.hom", "/x"]).exits(3).tells(&["did you mean `profiles.work.home`?"]);
    config(&["get", "route.retrys"]).exits(2).tells(&["did you mean `route.retries`?"]);
    config(&["set", "route.retries", "few"]).exits(3).tells(&["`few` is not a whole number from 0"]);
    config(&["unset", "route.retries"]).exits(0);
    assert_eq!(shown(&["get", "route.retries"]), "2\n");
    std::fs::write(&file, "[run]\nprovider = 5\n").expect("a file");
    config(&["show"])
        .exits(3)
        .tells(&["bowline.toml:2:12: `5` stands where a text is expected", "2 | provider = 5"]);
}

#[test]
fn settings_count_where_the_command_line_is_silent() {
    let world = World::new();
    let dir = world.path("work/.config/bowline");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(
        dir.join("bowline.toml"),
        "[run]\nprovider = \"practice\"\nmodel = \"practice-7\"\npermission = \"read\"\n",
    )
    .expect("a file");
    let shown = |args: &[&str]| {
        let all: Vec<&str> = ["run"].iter().chain(args).chain(&["--dry-run", "x"]).copied().collect();
        let ended = world.bowline(&all).end().exits(0);
        ended.stdout.lines().next().unwrap_or_default().to_owned()
    };
    let first = shown(&[]);
    assert!(first.contains("--permission read") && first.contains("--model practice-7"), "{first}");
    let other = shown(&["--permission", "edit", "--model", "practice-8", "--provider", "practice"]);
    assert!(other.contains("--permission edit") && other.contains("--model practice-8"), "{other}");
}

#[test]
fn a_file_to_begin_with_is_written_once() {
    let world = World::new();
    let ended = world.bowline(&["init", "--yes"]).end().exits(0);
    assert!(
        ended.stdout.starts_with("wrote ") && ended.stdout.ends_with("bowline.toml\n"),
        "{}",
        ended.stdout
    );
    world.bowline(&["config", "show", "--all"]).end().exits(0);
    world.bowline(&["init", "--yes"]).end().exits(2).tells(&["already exists", "bowline config set"]);
}

#[test]
fn prices_are_dated() {
    let world = World::new();
    let ended = world.bowline(&["prices"]).end().exits(0);
    assert!(ended.stdout.contains("AS OF") && ended.stdout.contains("2026-10-10"), "{}", ended.stdout);
    world.bowline(&["config", "set", "prices.my-model.input", "1.5"]).end().exits(0);
    world.bowline(&["config", "set", "prices.my-model.output", "2"]).end().exits(0);
    let ended = world.bowline(&["prices", "--json"]).end().exits(0);
    let rows: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&rows[0]["models"][0], &rows[0]["as_of"]), (&"my-model".into(), &"your own".into()));
    // What is left open is as in the table; what is in no table is said.
    world.bowline(&["config", "set", "prices.gpt-5.5.output", "31"]).end().exits(0);
    world.bowline(&["config", "set", "prices.other.input", "1"]).end().exits(0);
    let ended = world.bowline(&["prices"]).end().exits(0);
    assert!(
        ended.stdout.ends_with(
            "\nother has no price yet: `prices.other.input` and `prices.other.output` are both needed.\n"
        ),
        "{}",
        ended.stdout
    );
    let line = ended.stdout.lines().find(|line| line.starts_with("gpt-5.5 ")).expect("a line");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["gpt-5.5", "5", "31", "0.5", "5", "your", "own"]
    );
}

#[test]
fn shells_and_manuals_are_made_of_the_same_list_as_the_help() {
    let world = World::new();
    for shell in ["elvish", "powershell"] {
        let ended = world.bowline(&["completions", shell]).end().exits(0);
        assert!(ended.stdout.contains("wait-for-limit"), "{shell}");
    }
    let ended = world.bowline(&["man"]).end().exits(0);
    for word in [".TH bowline 1", "BOWLINE RUN", "BOWLINE ROUTE", "max\\-cost", "Exit codes"] {
        assert!(ended.stdout.contains(word), "{word}");
    }
    assert!(!ended.stdout.contains("(1)"), "there is one page only");
}

#[test]
fn a_provider_that_there_is_not_is_not_set() {
    let world = World::new();
    let set = |key: &str, value: &str| world.bowline(&["config", "set", key, value]).end();
    let refused = set("run.provider", "cluade").exits(2);
    refused.tells(&["error: there is no provider `cluade`", "hint: did you mean `claude`?"]);
    set("run.provider", "claude,nonsense").exits(2).tells(&["error: there is no provider `nonsense`"]);
    set("profiles.work.provider", "nonsense").exits(2).tells(&["error: there is no provider `nonsense`"]);
    for good in ["auto", "claude", "claude-code", "claude,codex", "acp:my-agent --acp"] {
        set("run.provider", good).exits(0);
        assert_eq!(world.bowline(&["config", "get", "run.provider"]).end().exits(0).stdout.trim(), good);
    }
    // What is wrong otherwise is told as before.
    set("run.providr", "claude").exits(3).tells(&["run.providr"]);
    set("run.permission", "all").exits(3).tells(&["one of read, ask, edit, yolo"]);
}
