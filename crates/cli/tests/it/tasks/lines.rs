//! Lines that are refused before an agent starts: mistakes, and wishes for more than the command line allows.

use serde_json::{Value, json};

use super::{line, tasks};
use crate::route::{answering, routed};
use crate::world::World;

/// Checks that a second line is refused and that the first was not begun.
#[track_caller]
fn refused(world: &World, second: &Value, more: &[&str], told: &[&str]) {
    let lines = [line("a", &["say one"]), second.clone()];
    let ended = tasks(world, &lines).with(more).end().exits(2).tells(told);
    assert_eq!(ended.stdout, "");
    assert!(world.journals_begun().is_empty(), "nothing was started");
}

#[test]
fn a_mistake_is_an_error_with_its_place() {
    let world = World::new();
    refused(
        &world,
        &json!({"promt": "x"}),
        &[],
        &["error: tasks.jsonl:2:", "unknown field `promt`, expected one of `id`"],
    );
    refused(&world, &json!({"id": "a", "prompt": "x"}), &[], &["the id `a` is already used in line 1"]);
    refused(&world, &json!({"prompt": "x", "model": "--yolo"}), &[], &["`model` must not begin with a dash"]);
    refused(&world, &json!("x"), &[], &["error: tasks.jsonl:2:1: the line is not a JSON object"]);
    let call = |file: &str| world.run("practice", "").no_prompt().with(&["--tasks", file]).end().exits(2);
    call("missing.jsonl")
        .tells(&["error: could not read the tasks of missing.jsonl", "caused by: No such file"]);
    call(".").tells(&["error: `--tasks .` is not a regular file", "hint: pipe the tasks in"]);
    call("/dev/zero").tells(&["is not a regular file"]);
    std::fs::write(world.path("work/empty.jsonl"), "\n\n").expect("a file");
    call("empty.jsonl").tells(&["error: empty.jsonl has no tasks"]);
    let endless = world.run("practice", "").no_prompt().with(&["--tasks", "-"]);
    let bytes = vec![b'\n'; 64 * 1024 * 1024 + 2];
    endless.input(bytes).end().exits(2).tells(&["error: standard input is larger than 64 MiB"]);
}

#[test]
fn a_line_only_narrows_the_permission() {
    let world = World::new();
    let wants = |mode: &str| json!({"prompt": "x", "permission": mode});
    let told =
        ["error: tasks.jsonl:2:15: `permission` edit allows more than the command line, which has ask"];
    refused(
        &world,
        &wants("edit"),
        &[],
        &[told[0], "hint: raise it for the whole file with `--permission edit`"],
    );
    refused(&world, &wants("ask"), &["--permission", "read"], &["`permission` ask allows more than"]);
    refused(&world, &wants("yolo"), &["--permission", "edit"], &["`permission` yolo allows more than"]);
    // A project's or a user's setting is the mode of the command line, if that has none.
    std::fs::create_dir_all(world.path("work/.config/bowline")).expect("a directory");
    std::fs::write(world.path("work/.config/bowline/bowline.toml"), "[run]\npermission = \"read\"\n")
        .expect("a file");
    refused(
        &world,
        &wants("ask"),
        &[],
        &["`permission` ask allows more than the command line, which has read"],
    );
    // A narrower mode holds.
    let writes = |id: &str, mode: &str| {
        let mut line = line(id, &[&format!("tool write {id}.txt x")]);
        line["permission"] = mode.into();
        line
    };
    let lines = [writes("edits", "edit"), writes("reads", "read")];
    tasks(&world, &lines).with(&["--permission", "edit"]).end().tells(&["reads: refused: "]);
    assert!(world.path("work/edits.txt").exists() && !world.path("work/reads.txt").exists());
}

#[test]
fn a_line_works_inside_the_directory_of_the_command_line() {
    let world = World::new();
    std::fs::create_dir_all(world.path("work/web/src")).expect("a directory");
    std::fs::create_dir_all(world.path("other")).expect("a directory");
    std::os::unix::fs::symlink(world.path("other"), world.path("work/link")).expect("a link");
    let inside = |dir: &str| json!({"prompt": "x", "cwd": dir});
    let absolute = world.path("other").display().to_string();
    for dir in ["../other", "link", &absolute, "/"] {
        refused(&world, &inside(dir), &[], &["is outside of ", "hint: `--cwd DIR` sets the directory"]);
    }
    refused(&world, &inside("nowhere"), &[], &["error: tasks.jsonl:2:8: `cwd` nowhere is not a directory"]);
    refused(&world, &inside("src"), &["--docker", "box"], &["`cwd` cannot be used with `--docker`"]);
    let mut lines = [line("a", &["tool run pwd >a.txt"]), line("b", &["tool run pwd >b.txt"])];
    lines[0]["cwd"] = "src".into();
    tasks(&world, &lines).with(&["-C", "web", "--permission", "yolo"]).end().exits(0);
    assert!(world.path("work/web/src/a.txt").exists() && world.path("work/web/b.txt").exists());
    // A common parent allows directories beside each other.
    lines[0]["cwd"] = absolute.into();
    let root = world.root().display().to_string();
    tasks(&world, &lines[..1]).with(&["-C", &root, "--permission", "yolo"]).end().exits(0);
    assert!(world.path("other/a.txt").exists());
}

#[test]
fn a_line_has_at_most_the_timeout_of_the_command_line() {
    let world = World::new();
    let wants = |time: &str| json!({"prompt": "x", "timeout": time});
    refused(
        &world,
        &wants("2m"),
        &["--timeout", "1m"],
        &["error: tasks.jsonl:2:25: `timeout` is longer than `--timeout` 1 min"],
    );
    refused(&world, &wants("none"), &["--timeout", "1m"], &["`timeout` is longer than"]);
    let mut hangs = line("a", &["say x", "hang"]);
    hangs["timeout"] = "1s".into();
    // The same cause for all, among tasks that completed.
    tasks(&world, &[hangs, line("b", &["say y"])])
        .with(&["--timeout", "1m"])
        .end()
        .exits(124)
        .tells(&["a: error: "]);
}

#[test]
fn a_program_that_a_line_chooses_can_be_restricted() {
    let world = World::new();
    let wants = |provider: &str| json!({"prompt": "x", "provider": provider});
    refused(
        &world,
        &wants("acp:./evil"),
        &[],
        &["error: tasks.jsonl:2:", "a line cannot start a program by its command"],
    );
    refused(&world, &wants("practise"), &[], &["error: tasks.jsonl:2: there is no provider `practise`"]);
    refused(
        &world,
        &wants("claude"),
        &["--binary", "/bin/true"],
        &["`provider` cannot be used with `--binary`"],
    );
    // An agent that cannot be restricted runs with a warning if the person names it, and not because a line does.
    refused(
        &world,
        &wants("glm"),
        &[],
        &["hint: name the provider with `--provider`: tasks.jsonl:2 chose it"],
    );
    // A project's own file for the router names programs that its user has not chosen.
    let world = routed(&[("first", answering())], "");
    let project = world.path("work/project/.bowline");
    std::fs::create_dir_all(&project).expect("a directory");
    std::fs::write(
        project.join("router.yaml"),
        "providers: [{name: theirs, config: {provider: practice}}]\n",
    )
    .expect("a file");
    std::fs::remove_file(world.path("work/.config/bowline/router.yaml")).expect("the file");
    std::fs::write(world.path("work/tasks.jsonl"), format!("{}\n", wants("theirs"))).expect("a file");
    let call = |more: &[&str]| {
        let args = [&["run", "-C", "project", "--tasks", "tasks.jsonl"], more].concat();
        world.bowline(&args).end()
    };
    call(&["-p", "practice"]).exits(2).tells(&["`theirs` would use ", "which came with the project"]);
    call(&["-p", "theirs"]).exits(0);
}

#[test]
fn options_of_one_task_are_refused() {
    let world = World::new();
    let conflicts: [&[&str]; 5] = [
        &["a prompt"],
        &["--resume", "@last"],
        &["--continue"],
        &["--dry-run"],
        &["--approval-deadline", "5m"],
    ];
    for more in conflicts {
        tasks(&world, &[line("a", &["say x"])]).with(more).end().exits(2).tells(&["cannot be used with"]);
    }
    let alone = world.run("practice", "x").with(&["--at-once", "2"]).end().exits(2);
    alone.tells(&["error: `--at-once` needs `--tasks FILE`"]);
    assert!(world.journals_begun().is_empty());
}

#[test]
fn a_missing_program_is_an_error_before_the_first_task() {
    let world = World::new();
    let ended =
        tasks(&world, &[line("a", &["say x"]), json!({"prompt": "x", "provider": "qwen"})]).end().exits(4);
    ended.tells(&["error: qwen cannot run: ", "no agent was started"]);
    assert!(world.journals_begun().is_empty());
}
