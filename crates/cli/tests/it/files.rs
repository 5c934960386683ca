//! Which files a run changed, and what it does not leave behind or run on the way.

use crate::world::World;

const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"b"}"#;

/// The files that git said were changed, with what happened to them.
fn touched(stdout: &str) -> Vec<String> {
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let by_git = lines.filter(|event| event["kind"]["seen_by"] == "git");
    by_git
        .flat_map(|event| event["kind"]["files"].as_array().cloned().unwrap_or_default())
        .map(|file| {
            format!("{} {}", file["operation"].as_str().unwrap_or(""), file["path"].as_str().unwrap_or(""))
        })
        .collect()
}

/// Git as a script of a test uses it.
const GIT: &str = "git -c user.name=t -c user.email=t@t -c commit.gpgsign=false -c init.defaultBranch=main";

#[test]
fn files_of_the_first_commit_and_of_later_ones_are_told() {
    let world = World::new();
    let script = format!(
        "cat >/dev/null; {GIT} init -q .; echo a >a.txt; {GIT} add a.txt; {GIT} commit -qm one; echo '{RESULT}'"
    );
    // The repository has to be there before: this run only makes it.
    world.claude(&script).end().exits(0);
    let again = format!(
        "cat >/dev/null; rm a.txt; echo b >b.txt; {GIT} add -A; {GIT} commit -qm two; echo c >c.txt; echo '{RESULT}'"
    );
    let ended = world.claude(&again).with(&["--output", "jsonl"]).end().exits(0);
    assert_eq!(touched(&ended.stdout), ["delete a.txt", "create b.txt", "create c.txt"]);

    let fresh = World::new();
    fresh.claude(&format!("cat >/dev/null; {GIT} init -q .; echo '{RESULT}'")).end().exits(0);
    let first =
        format!("cat >/dev/null; echo a >a.txt; {GIT} add a.txt; {GIT} commit -qm one; echo '{RESULT}'");
    let ended = fresh.claude(&first).with(&["--output", "jsonl"]).end().exits(0);
    assert_eq!(touched(&ended.stdout), ["create a.txt"]);
}

#[test]
fn a_look_at_the_files_runs_no_command_of_the_repository() {
    let world = World::new();
    let planted = world.path("planted");
    let script = format!(
        "cat >/dev/null; {GIT} init -q .; echo a >a.txt; {GIT} add a.txt; {GIT} commit -qm one; echo '{RESULT}'"
    );
    world.claude(&script).end().exits(0);
    let trap = format!(
        "cat >/dev/null; printf '*.txt filter=e\\na.txt filter=e=f\\n' >.gitattributes
         for name in e e=f; do
             printf '[filter \"%s\"]\\n\\tclean = touch {0}; cat\\n\\trequired = true\\n' $name >>.git/config
         done
         echo b >>a.txt; echo '{RESULT}'",
        planted.display()
    );
    let ended = world.claude(&trap).with(&["--output", "jsonl"]).end().exits(0);
    assert_eq!(touched(&ended.stdout), ["create .gitattributes", "write a.txt"]);
    assert!(!planted.exists(), "git ran a filter that the agent had planted");
}

#[test]
fn files_that_carry_secrets_go_with_the_run() {
    let world = World::new();
    let config = world.path("mcp.json");
    std::fs::write(&config, r#"{"mcpServers":{"a":{"command":"x","env":{"API_KEY":"sk-very-secret"}}}}"#)
        .unwrap();
    let call = world.practice(&["say done"]).with(&["--mcp-config".as_ref(), config.as_os_str()]);
    call.end().exits(0);
    let session = world.journals_begun().remove(0);
    assert!(!session.join("files").exists(), "the side files are still there");
}

#[test]
fn servers_that_cannot_be_had_are_refused_and_disabled_ones_left_out() {
    let world = World::new();
    let config = world.path("mcp.json");
    let try_it = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let call = world.practice(&["say done"]).with(&["--mcp-config".as_ref(), config.as_os_str()]);
        call.with(&["--dry-run", "--output", "json"]).end()
    };
    try_it(r#"{"mcpServers":{"a":{"type":"sse","url":"http://x"}}}"#)
        .exits(2)
        .tells(&["has the unknown type `sse`"]);
    try_it(r#"{"mcpServers":{"a":{"command":"c","cwd":"/x"}}}"#).exits(2).tells(&["unknown field `cwd`"]);
    for name in ["", " "] {
        let nameless = format!(r#"{{"mcpServers":{{"{name}":{{"command":"c"}}}}}}"#);
        try_it(&nameless).exits(2).tells(&["has no name", "mcp.json"]);
    }
    let left = try_it(r#"{"mcpServers":{"a":{"command":"c","disabled":true}}}"#).exits(0);
    assert!(!left.stdout.contains("mcp.json"), "{}", left.stdout);
}

#[test]
fn a_session_is_resumed_by_our_name_or_the_agents() {
    let world = World::new();
    world.practice(&["say one"]).end().exits(0);
    let ours = world.journals_begun().remove(0);
    let ours = ours.file_name().unwrap().to_str().unwrap();
    let ended = world.practice(&["say two"]).with(&["--resume", ours, "--output", "jsonl"]).end().exits(0);
    let answered = ended.stdout.lines().find(|line| line.contains("\"resume_answered\"")).expect("an answer");
    assert!(
        answered.contains("\"answer\":\"resumed\"") && !answered.contains(&format!("\"wanted\":\"{ours}\""))
    );
}

#[test]
fn one_name_means_one_mcp_server() {
    let world = World::new();
    for (name, server) in [("one.json", "a"), ("two.json", "a"), ("three.json", "b")] {
        let text = format!(r#"{{"mcpServers":{{"{server}":{{"command":"c"}}}}}}"#);
        std::fs::write(world.path(name), text).unwrap();
    }
    let with = |two: &str| {
        let call = world.run("claude", "hi").with(&["--dry-run", "--mcp-config"]);
        let call = call.with(&[world.path("one.json").as_os_str(), "--mcp-config".as_ref()]);
        call.with(&[world.path(two)]).end()
    };
    with("three.json").exits(0);
    with("two.json").exits(2).tells(&["the MCP server `a`", "one.json` and in", "two.json`", "hint: rename"]);
}

#[test]
fn a_session_of_ours_is_resumed_after_a_crash_and_only_by_its_provider() {
    let world = World::new();
    world.runs_and_is_killed();
    let ours = world.journals_begun().remove(0);
    let meta = std::fs::read_to_string(ours.join("session.json")).unwrap();
    assert!(!meta.contains("native_session"), "its runner could not write it: {meta}");
    let ours = ours.file_name().unwrap().to_str().unwrap().to_owned();

    let other = world.run("claude", "hi").with(&["--resume", &ours]).end().exits(2);
    other.tells(&[&format!("the session {ours} belongs to `practice`, not to `claude`"), "hint: leave out"]);
    // The session says which agent it is, also where the environment has another opinion.
    let call = world.bowline(&["run", "--resume", &ours, "--output", "jsonl", "practice: say two"]);
    let ended = call.env("BOWLINE_PROVIDER", "claude").end().exits(0);
    let answered = ended.stdout.lines().find(|line| line.contains("\"resume_answered\"")).expect("an answer");
    assert!(answered.contains("\"answer\":\"resumed\""), "{answered}");
}

#[test]
fn a_session_of_ours_goes_on_where_it_was_held() {
    let world = World::new();
    let (there, other) = (world.path("work/there"), world.path("work/other"));
    for dir in [&there, &other] {
        std::fs::create_dir(dir).unwrap();
    }
    world.practice(&["say one"]).with(&["--cwd", "there"]).end().exits(0);
    let ours = world.journals_begun().remove(0);
    let ours = ours.file_name().unwrap().to_str().unwrap().to_owned();
    let ran_in = |args: &[&str]| {
        let ended =
            world.practice(&["say two"]).with(&["--resume", &ours, "--output", "jsonl"]).with(args).end();
        let ended = ended.exits(0);
        let events =
            ended.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut told = events.filter_map(|event| event["kind"]["cwd"].as_str().map(str::to_owned));
        told.next_back().expect("a directory")
    };
    let real = |dir: &std::path::Path| std::fs::canonicalize(dir).unwrap().display().to_string();
    assert_eq!(ran_in(&[]), real(&there));
    assert_eq!(ran_in(&["--cwd", "other"]), real(&other));
    let ended = world.practice(&["say two"]).with(&["--resume", &ours, "-v"]).end().exits(0);
    ended.tells(&[&format!("resuming the session in {}", real(&there))]);
    // By the settings of that directory, wherever it is typed.
    std::fs::create_dir(there.join(".bowline")).unwrap();
    std::fs::write(there.join(".bowline/bowline.toml"), "[run]\npermission = \"read\"\n").unwrap();
    let shown = || {
        let call = world.practice(&["say two"]).with(&["--resume", &ours, "--dry-run", "--output", "json"]);
        call.end().exits(0).stdout
    };
    assert!(shown().contains("\"read\""), "{}", shown());
    // And in its container.
    let meta = world.path("home/sessions").join(&ours).join("session.json");
    let text = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, text.replacen('{', "{ \"container\": \"box\",", 1)).unwrap();
    assert!(shown().contains("\"docker\"") && shown().contains("\"box\""), "{}", shown());
    std::fs::write(&meta, text).unwrap();
    std::fs::remove_dir_all(&there).unwrap();
    let gone = world.practice(&["say two"]).with(&["--resume", &ours]).end().exits(2);
    gone.tells(&[
        "the directory of the session, ",
        "/there, does not exist",
        "hint: choose another directory with `--cwd DIR`",
    ]);
    let none =
        world.practice(&["say two"]).with(&["--resume", "s-20261116-030130268-n7v1y63y"]).end().exits(2);
    none.tells(&[
        "error: there is no session s-20261116-030130268-n7v1y63y",
        "hint: it may have been deleted",
    ]);
}

/// Agents are told of paths as text.
#[test]
fn a_path_that_is_no_text_is_refused_by_its_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    let odd = world.path("work").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).unwrap();
    let texts = ["error: the path ", "caf\\xE9", "is not UTF-8", "hint: rename it"];
    for option in ["--cwd", "--add-dir", "--binary"] {
        let call = world.run("claude", "hi").with(&[option.as_ref(), odd.as_os_str()]);
        call.end().exits(2).tells(&texts);
    }
    let mut command = world.practice(&["say hi"]).command();
    let output = command.current_dir(&odd).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(texts.iter().all(|text| stderr.contains(text)), "{stderr}");
    assert!(world.journals_begun().is_empty(), "nothing was begun");

    // The data home is ours alone, until an agent has to find something there.
    world.practice(&["say hi"]).env("BOWLINE_HOME", &odd).end().exits(0);
    std::fs::write(world.path("mcp.json"), r#"{"mcpServers":{"a":{"command":"c"}}}"#).unwrap();
    let call = world.run("claude", "hi").with(&["--mcp-config".as_ref(), world.path("mcp.json").as_os_str()]);
    call.env("BOWLINE_HOME", &odd).end().exits(2).tells(&texts);
}

/// Writes the answer of an agent that changes files of a repository, from one of its directories.
fn in_a_subdirectory() -> (World, String) {
    let world = World::new();
    let sub = world.path("work/sub");
    std::fs::create_dir(&sub).expect("a directory");
    let before = format!(
        "cat >/dev/null; {GIT} init -q .; echo 1 >a; echo 1 >sub/a; {GIT} add -A; {GIT} commit -qm one; echo '{RESULT}'"
    );
    world.claude(&before).end().exits(0);
    (world, format!("cat >/dev/null; echo 2 >../a; echo 2 >a; echo '{RESULT}'"))
}

#[test]
fn paths_of_changed_files_are_told_from_the_directory_of_the_run() {
    let (world, script) = in_a_subdirectory();
    let above = world.path("work/a").canonicalize().unwrap();
    let above = above.to_str().unwrap();
    std::os::unix::fs::symlink("sub", world.path("work/link")).unwrap();
    let absolute = world.path("work/sub");
    for dir in ["sub", "../work/sub", "link", absolute.to_str().unwrap()] {
        let ended = world.claude(&script).with(&["-v", "-C", dir]).end().exits(0);
        ended.tells(&["changed: 2 files", &format!("  M {above}\n"), "  M a\n"]);
        let ended = world.claude(&script).with(&["-C", dir, "--output", "jsonl"]).end().exits(0);
        assert_eq!(touched(&ended.stdout), [format!("write {above}"), "write a".to_owned()], "{dir}");
    }
}

#[test]
fn paths_that_an_agent_tells_are_told_from_a_directory_that_was_typed_as_it_is() {
    let (world, _) = in_a_subdirectory();
    let path = world.path("work/sub").canonicalize().unwrap().join("a");
    let read = format!(
        r#"{{"type":"assistant","message":{{"id":"m","role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Read","input":{{"file_path":"{}"}}}}]}},"session_id":"b"}}"#,
        path.display()
    );
    let script = format!("cat >/dev/null; echo '{read}'; echo '{RESULT}'");
    for dir in ["sub", "../work/sub"] {
        let ended = world.claude(&script).with(&["-v", "-C", dir]).end().exits(0);
        assert!(ended.stderr.contains("Read a"), "{dir}: {}", ended.stderr);
    }
}

#[test]
fn our_own_files_are_not_told_as_the_agents() {
    let world = World::new();
    let git = format!("cat >/dev/null; {GIT} init -q .; echo '{RESULT}'");
    world.claude(&git).end().exits(0);
    // The home directory is a repository, and everything of ours is in it.
    let work = world.path("work");
    std::fs::create_dir(work.join("tmp")).unwrap();
    let homes = [("", ""), ("BOWLINE_HOME", "kept"), ("BOWLINE_HOME", "."), ("XDG_DATA_HOME", "data")];
    for (name, dir) in homes {
        let said = |call: crate::world::Call<'_>| {
            let call = call.env("BOWLINE_HOME", "").env("PRACTICE_HOME", "").env("TMPDIR", work.join("tmp"));
            let call = if name.is_empty() { call } else { call.env(name, work.join(dir)) };
            call.with(&["--output", "jsonl"]).end().exits(0)
        };
        for options in [&["--key", "k"][..], &["--ephemeral"]] {
            let ended = said(world.practice(&["say hi"]).with(options));
            assert_eq!(touched(&ended.stdout), [""; 0], "{name} {dir} {options:?}");
        }
        // What the agent does beside them is told.
        let script = format!("cat >/dev/null; echo x >\"new-{name}-$$\"; echo '{RESULT}'");
        let told = touched(&said(world.claude(&script)).stdout);
        assert!(matches!(&told[..], [one] if one.starts_with("create new-")), "{name} {dir}: {told:?}");
    }
}
