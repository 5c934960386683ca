//! `bowline demo`: the whole road, for people who have no agent.

use crate::world::World;

#[test]
fn the_demo_shows_all_of_it() {
    let world = World::new();
    let ended = world.bowline(&["demo", "--fast"]).end();
    let root = world.root().display().to_string();
    let text = ended.show().replace(&root, "[WORLD]");
    insta::with_settings!({filters => vec![
        (r"s-\d{8}-\d{9}-[a-z0-9]{8}", "[SESSION]"),
        (r"index [0-9a-f]+\.\.[0-9a-f]+", "index [HASHES]"),
    ], omit_expression => true}, {
        insta::assert_snapshot!(text);
    });
    let journal = world.journal();
    journal.check().ended("completed");
    assert!(journal.count("tool_finished") > 0 && journal.count("text_delta") > 1);
    let touched = journal.of("files_touched");
    assert!(touched.iter().any(|event| event["kind"]["seen_by"] == "git"), "git saw the change");
    // The scratch repository stays, because what is printed points at it.
    assert!(world.path("tmp/bowline-demo-1/greeting.py").exists());
}

#[test]
fn the_demo_works_without_git() {
    let world = World::new();
    let ended = world.bowline(&["demo", "--fast"]).env("PATH", world.path("work")).end().exits(0);
    assert!(ended.stdout.contains("(no diff: could not run git: "), "{}", ended.stdout);
    world.journal().check().ended("completed");
}

#[test]
fn the_demo_says_where_it_could_not_work() {
    let world = World::new();
    let ended = world.bowline(&["demo", "--fast"]).env("TMPDIR", "/no/such/place").end().exits(3);
    ended.tells(&["error: could not create a scratch directory", "hint: set TMPDIR"]);
}

#[test]
fn the_demo_works_without_a_home() {
    let world = World::new();
    let call =
        world.bowline(&["demo", "--fast"]).env("HOME", "").env("BOWLINE_HOME", "").env("PRACTICE_HOME", "");
    let ended = call.end().exits(0);
    let kept = world.path("tmp/bowline-demo-1.journal");
    assert!(ended.stdout.contains(&kept.display().to_string()), "{}", ended.stdout);
    crate::journal::Journal::all(&kept)[0].check().ended("completed");
}

#[test]
fn the_demo_is_stopped() {
    let world = World::new();
    let running = world.bowline(&["demo"]).start();
    running.prints("$ bowline run");
    crate::world::wait_until("the journal", || !world.journals_begun().is_empty());
    running.signal(rustix::process::Signal::INT);
    running.end().exits(130);
}
