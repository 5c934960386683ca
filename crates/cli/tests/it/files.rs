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
    try_it(r#"{"mcpServers":{"a":{"type":"sse","url":"http://x"}}}"#).exits(2).tells(&["of type `sse`"]);
    try_it(r#"{"mcpServers":{"a":{"command":"c","cwd":"/x"}}}"#).exits(2).tells(&["unknown field `cwd`"]);
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
