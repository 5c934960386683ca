//! `bowline route` with the options of `bowline run`: who can honour them, and what would follow a failure.

use serde_json::Value;

use crate::route::{answering, routed, run};
use crate::world::{Ended, World};

/// A world with one agent that has a limit of turns and one that has not.
fn two() -> World {
    let world = routed(&[("first", answering())], "");
    let path = world.script("second", "exit 1");
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    let second = format!(
        "  - {{name: second, priority: 90, config: {{provider: codex, binary: {}, env: {{CODEX_API_KEY: x}}}}}}\n",
        path.display()
    );
    std::fs::write(&file, format!("{text}{second}")).expect("a file");
    world
}

fn route(world: &World, args: &[&str]) -> Ended {
    let all: Vec<&str> = ["route"].iter().chain(args).copied().collect();
    world.bowline(&all).env("ANTHROPIC_API_KEY", "made-up").end()
}

fn json(world: &World, args: &[&str]) -> Value {
    let ended = route(world, &[&["--json"], args].concat()).exits(0);
    serde_json::from_str(&ended.stdout).expect("JSON")
}

/// Returns who is asked after a category, in order.
fn asked(told: &Value, category: &str) -> Vec<String> {
    let rows = told["after"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["category"] == category).expect("a row");
    let attempts = row["attempts"].as_array().expect("a list").iter();
    attempts.map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn who_cannot_honour_an_option_is_not_fallen_back_to() {
    let world = two();
    let told = json(&world, &["--retries", "0"]);
    assert_eq!(asked(&told, "quota"), ["second", "first"]);
    assert_eq!(asked(&told, "authentication"), ["second"]);
    let schema = world.path("work/schema.json");
    std::fs::write(&schema, "{}").expect("a file");
    let schema = schema.display().to_string();
    // Each of these is refused by one of them.
    for (options, left) in [
        (&["--max-turns", "3"][..], "first"),
        (&["--no-tools"], "first"),
        (&["--allow-tool", "Read"], "first"),
        (&["--effort", "ultra"], "second"),
        (&["--effort", "no-such-effort"], ""),
        (&["--set", "nobody=1", "--provider", "first"], ""),
    ] {
        let ended = route(&world, &[&["--json", "--retries", "0"], options].concat());
        let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let names: Vec<&Value> = told["candidates"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|it| !it["turn"].is_null())
            .map(|it| &it["name"])
            .collect();
        let left: Vec<&str> = left.split(' ').filter(|name| !name.is_empty()).collect();
        assert_eq!(names, left, "{options:?}: {told:#}");
        match left.is_empty() {
            true => assert_eq!(told["after"], serde_json::json!([]), "nobody is asked, so nobody fails"),
            false => assert_eq!(asked(&told, "quota"), left, "{options:?}"),
        }
    }
    // What decides nothing is taken all the same, so that one word can be put in the place of the other.
    let same =
        ["--schema", &schema, "--max-cost", "0.5", "--timeout", "5m", "--key", "k", "--label", "l", "Do it."];
    assert_eq!(asked(&json(&world, &same), "quota"), ["second", "first"]);
    assert!(world.journals_begun().is_empty(), "nobody was asked");
}

#[test]
fn the_rules_of_the_command_line_are_those_that_are_explained() {
    let world = two();
    let told = json(&world, &["--after", "server", "--retries", "1", "--fallback", "none", "--tool-ran"]);
    assert_eq!((&told["retries"], &told["fallback"]), (&1.into(), &"none".into()));
    let [row] = &told["after"].as_array().expect("a list")[..] else { panic!("{told:#}") };
    assert_eq!((&row["category"], &row["tool_ran"]), (&"server".into(), &true.into()));
    assert_eq!(row["attempts"][0]["then"], "end");
    assert_eq!(row["attempts"][0]["reason"], "server: a tool ran, and would run a second time");
    let told = json(&world, &["--after", "rate-limit", "--retry-after", "4h", "--wait-for-limit"]);
    let attempts = &told["after"][0]["attempts"];
    assert_eq!(attempts[0]["then"], "wait");
    assert_eq!(attempts[0]["wait_ms"], serde_json::json!({"at_least": 14_400_000, "at_most": 14_400_000}));
    let file = world.path("work/.config/bowline/bowline.toml");
    std::fs::write(file, "[route]\nretries = 0\nfallback = \"any\"\n").expect("a file");
    assert_eq!(asked(&json(&world, &[]), "authentication"), ["second", "first"]);
}

#[test]
fn what_is_wrong_is_said_as_run_says_it() {
    let world = two();
    route(&world, &["--after", "rate_limt"]).exits(2).tells(&["did you mean `rate_limit`?"]);
    route(&world, &["--after", "server", "--retry-after", "soon"])
        .exits(2)
        .tells(&["expected a time such as 90s, 10m or 1h30m"]);
    route(&world, &["--provider", "first,second"]).exits(2).tells(&["explains one provider at a time"]);
    let unhonoured = ["--provider", "second", "--fallback", "next", "--max-turns", "3"];
    route(&world, &unhonoured).exits(4).tells(&["second: codex cannot be run with `--max-turns`"]);
    // The table has the reasons, and the error does not repeat them.
    let explained = route(&world, &[&unhonoured[..], &["--explain"]].concat()).exits(4);
    assert!(explained.stdout.contains("codex cannot be run with `--max-turns`"), "{}", explained.stdout);
    assert_eq!(explained.stderr, "error: none of the providers can be used\n");
    for args in [&["--schema", "nowhere.json"][..], &["--max-cost", "0"], &["--cwd", "nowhere"]] {
        let told = route(&world, args).exits(2).stderr;
        assert_eq!(run(&world, &[&["--provider", "auto"], args].concat()).end().exits(2).stderr, told);
    }
}

#[test]
fn who_is_named_and_not_there_is_fallen_back_from_on_request() {
    let world = routed(&[("first", answering())], "");
    run(&world, &["--provider", "codex"]).end().exits(4).tells(&["error: the agent is not installed"]);
    let ended = run(&world, &["--provider", "codex", "--fallback", "next"]).end().exits(0);
    assert_eq!(ended.stdout, "hello\n");
    ended.tells(&["warning: falling back from codex to first: could not start `codex`"]);
    assert!(world.has_line(&["\"type\":\"fallback_taken\"", "\"code\":\"not_installed\""]));
    let named = ["--provider", "codex", "--fallback", "next", "--explain"];
    let told = route(&world, &named).exits(0).stdout;
    assert!(
        told.contains("1      codex  its default  it was named, although `codex` is not installed\n"),
        "{told}"
    );
    assert!(told.contains("2      first  its default  priority 50\n"), "{told}");
    route(&world, &["--provider", "codex"]).exits(4).tells(&["caused by: codex: `codex` is not installed"]);

    // A mistake in the configuration is another matter.
    let file = world.path("work/.config/bowline/router.yaml");
    let text = std::fs::read_to_string(&file).expect("a file");
    let wrong = "  - {name: wrong, config: {provider: claude, profile: nobodys}}\n";
    std::fs::write(&file, format!("{text}{wrong}")).expect("a file");
    let named = ["--provider", "wrong", "--fallback", "next"];
    for ended in [run(&world, &named).end(), route(&world, &named)] {
        ended.exits(3).tells(&[
            "error: `wrong` cannot be used: there is no profile `nobodys`; none are set\n",
            "Bowline does not fall back from an invalid entry",
        ]);
    }
}
