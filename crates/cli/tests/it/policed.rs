//! Policies of runs and sessions: what they deny does not happen, what they ask about waits, and nothing widens them.

use std::path::Path;

use serde_json::{Value, json};

use crate::pty::{Terminal, Typist};
use crate::world::{Ended, World};

/// A policy that denies `rm` and asks about `touch asked`.
fn policy() -> String {
    let asks = json!([{ "name": "careful", "shell": ["touch asked*"] }]);
    json!({ "shellDenylist": ["rm"], "ownCategories": asks }).to_string()
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

/// A world with `work/policy.json` and a file to remove.
fn world() -> World {
    let world = World::new();
    put(&world.path("work/policy.json"), &policy());
    put(&world.path("work/kept.txt"), "kept");
    world
}

/// A home directory elsewhere: the working directory of the other tests is their home, which is no project.
fn run(world: &World, directives: &[&str], args: &[&str]) -> Ended {
    world.practice(directives).with(args).env("HOME", world.path("practice")).end()
}

/// Returns the rules and deciders of all decisions.
fn decisions(world: &World) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut decisions = Vec::new();
    for journal in world.journals() {
        for event in journal.of("approval_decided") {
            let kind = &event["kind"];
            decisions.push((text(&kind["decision"]), text(&kind["by"]), text(&kind["rule"])));
        }
    }
    decisions
}

#[test]
fn a_policy_decides_what_the_agent_asks_for() {
    for mode in ["ask", "edit", "yolo"] {
        let world = world();
        let steps =
            ["tool run touch made.txt", "tool run rm kept.txt", "tool run touch asked.txt", "say Done."];
        let ended = run(&world, &steps, &["--policy", "policy.json", "--permission", mode]);
        assert_eq!(ended.status.code(), Some(0), "{mode}: {}", ended.stderr);
        assert!(
            world.path("work/made.txt").exists(),
            "{mode}: what the policy allows happens: {}",
            ended.stderr
        );
        assert!(world.path("work/kept.txt").exists(), "{mode}: what it denies does not");
        assert!(!world.path("work/asked.txt").exists(), "{mode}: what it asks about needs a person");
        let [made, removed, asked] = &decisions(&world)[..] else { panic!("{:?}", decisions(&world)) };
        assert_eq!((made.0.as_str(), made.1.as_str()), ("allow", "policy"));
        assert_eq!(removed.2, "policy:shell.deny (policy.json:1:81)", "{mode}");
        assert!(asked.2.starts_with("policy:category"), "{mode}: {asked:?}");
        assert!(ended.stderr.contains("denied by the policy: "), "{mode}: {}", ended.stderr);
        assert!(!ended.stderr.contains("--permission"), "{mode}: no flag lifts a policy: {}", ended.stderr);
    }
}

#[test]
fn the_run_of_the_page_is_denied() {
    let world = world();
    let page = include_str!("../../../../docs/policy.md");
    let policy = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a policy");
    put(&world.path("work/policy.json"), policy);
    let run = page.lines().find(|line| line.starts_with("$ bowline run")).expect("a run");
    assert!(
        run.ends_with("--permission yolo --policy policy.json \"practice: tool run git push --force\""),
        "{run}"
    );
    let args = ["--permission", "yolo", "--policy", "policy.json"];
    let ended = self::run(&world, &["tool run git push --force"], &args);
    assert!(decisions(&world)[0].2.starts_with("policy:shell.deny"), "{:?}", decisions(&world));
    assert!(ended.stderr.contains("policy.json:3:21"), "{}", ended.stderr);
}

#[test]
fn read_allows_no_more_than_without_a_policy() {
    let world = world();
    let ended = run(
        &world,
        &["tool run touch made.txt", "say Done."],
        &["--policy", "policy.json", "--permission", "read"],
    );
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!world.path("work/made.txt").exists());
}

#[test]
fn a_program_that_does_not_ask_is_refused_under_a_policy() {
    let world = world();
    let ended = run(&world, &["say Hello."], &["--policy", "policy.json", "--format", "stream-json"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("it does not ask in this format"), "{}", ended.stderr);
    assert!(world.journals().is_empty(), "nothing was started");
    let ended = world.bowline(&["run", "--dry-run", "-p", "glm", "--policy", "policy.json", "hi"]).end();
    assert!(ended.stderr.contains("it does not ask in this format"), "{}", ended.stderr);
}

#[test]
fn a_policy_with_a_mistake_stops_the_run_before_it_begins() {
    let world = world();
    put(&world.path("work/policy.json"), "{\n  \"shellDenyList\": [\"rm\"]\n}");
    let ended = run(&world, &["say Hello."], &["--policy", "policy.json"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("policy.json:2:3"), "{}", ended.stderr);
    put(&world.path("work/.bowline/policy.json"), "[]");
    let ended = run(&world, &["say Hello."], &[]);
    assert_eq!(ended.status.code(), Some(3), "a project's policy is not ignored: {}", ended.stderr);
}

#[test]
fn a_policy_that_disappears_denies_everything() {
    let world = world();
    // Deleted by another program between two commands, not by the agent.
    let agent = "tool run touch one.txt\nsleep 1s\ntool run touch two.txt\nsay Done.";
    let steps: Vec<&str> = agent.lines().collect();
    let call = world.practice(&steps).with(&["--policy", "policy.json", "--permission", "yolo"]).start();
    crate::world::wait_until("the first command", || world.path("work/one.txt").exists());
    std::fs::remove_file(world.path("work/policy.json")).expect("it is there");
    let ended = call.end();
    assert!(!world.path("work/two.txt").exists(), "{}", ended.stderr);
    assert!(ended.stderr.contains("the policy cannot be read"), "{}", ended.stderr);
}

#[test]
fn an_agent_does_not_change_its_policy() {
    let world = world();
    let steps =
        ["tool write policy.json {}", "tool run rm policy.json", "tool run bowline trust", "say Done."];
    let ended = run(&world, &steps, &["--policy", "policy.json", "--permission", "yolo"]);
    assert_eq!(
        std::fs::read_to_string(world.path("work/policy.json")).ok(),
        Some(policy()),
        "{}",
        ended.stderr
    );
    assert!(decisions(&world).iter().all(|it| it.0 == "deny"), "{:?}", decisions(&world));
}

#[test]
fn the_policy_of_a_project_narrows_and_never_widens() {
    let world = world();
    std::fs::remove_file(world.path("work/policy.json")).expect("it is there");
    let text = json!({ "shellAllowlist": ["*"], "shellDenylist": ["rm"], "networkMode": "open" }).to_string();
    put(&world.path("work/.bowline/policy.json"), &text);
    let steps = ["tool run touch made.txt", "tool run rm kept.txt", "say Done."];
    run(&world, &steps, &["--permission", "ask"]);
    assert!(!world.path("work/made.txt").exists(), "its list allows nothing that the mode asks about");
    run(&world, &steps, &["--permission", "yolo"]);
    assert!(world.path("work/made.txt").exists() && world.path("work/kept.txt").exists());
}

#[test]
fn the_policy_of_the_user_holds_in_every_directory() {
    let world = world();
    std::fs::remove_file(world.path("work/policy.json")).expect("it is there");
    put(&world.path("config/bowline/policy.json"), &policy());
    let config = world.path("config");
    let steps = ["tool run rm kept.txt", "say Done."];
    let ended = world.practice(&steps).with(&["--permission", "yolo"]).env("XDG_CONFIG_HOME", &config).end();
    assert!(world.path("work/kept.txt").exists(), "{}", ended.stderr);
    let shown = world.bowline(&["policy", "explain"]).env("XDG_CONFIG_HOME", &config).end();
    assert!(shown.stdout.contains("deny   shellDenylist"), "{}", shown.stdout);
    let checked = world.bowline(&["policy", "check", "--", "rm", "x"]).env("XDG_CONFIG_HOME", &config).end();
    assert_eq!(checked.status.code(), Some(5), "{}", checked.stdout);
}

#[test]
fn a_resume_keeps_the_policy_of_its_session() {
    let world = world();
    run(&world, &["say One."], &["--policy", "policy.json"]);
    let session = world.journal().dir.file_name().expect("a name").display().to_string();
    let steps = ["practice: tool run rm kept.txt", "practice: say Two."].join("\n");
    let args = ["run", "--resume", &session, "--permission", "yolo", "--env", "PRACTICE_PACE=0", &steps];
    let ended = world.bowline(&args).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(world.path("work/kept.txt").exists(), "{}", ended.stderr);
    assert!(decisions(&world)[0].2.starts_with("policy:shell.deny"), "{:?}", decisions(&world));
}

#[test]
fn a_person_sees_the_rule_and_the_part_that_decided() {
    let world = world();
    let steps = ["tool run ls && touch asked.txt", "say Done."];
    let call = world.practice(&steps).with(&["--policy", "policy.json", "--permission", "yolo"]);
    let mut terminal = Terminal::start(&call, r#""$0" "$@""#, 120, Typist::Present);
    terminal.answers("[y] once", "y");
    let shown = terminal.end();
    let has =
        |text: &str| assert!(shown.rows.iter().any(|row| row.contains(text)), "{text}: {:#?}", shown.rows);
    has("rule `category`, category `careful`");
    has("touch asked.txt");
    assert!(world.path("work/asked.txt").exists(), "{:#?}", shown.rows);
}
