//! What `bowline run` prints, in every format, and what it tells a person beside it.

use crate::world::{Call, Ended, World};

/// Shows a run in full, with what differs from run to run made equal.
///
/// The end of a process and the last of its output come by different roads: either may be told first.
#[track_caller]
fn shown(world: &World, ended: &Ended) -> String {
    let root = world.root().canonicalize().expect("a path").display().to_string();
    // The count of it in an object is stable; an event of its own, or its name among others, is not.
    let moving = ["\"type\":\"process_reaped\"", " process_reaped]", " ended: exit code"];
    let is_stable = |line: &&str| !moving.iter().any(|it| line.contains(it));
    ended.show().replace(&root, "[WORLD]").lines().filter(is_stable).map(|line| format!("{line}\n")).collect()
}

/// What differs from run to run.
const FILTERS: [(&str, &str); 16] = [
    // Paths are of other lengths elsewhere, and the practice agent counts what it says.
    (r#""start":\d+,"end":\d+"#, r#""start":[N],"end":[N]"#),
    (
        r#""(output|total|bytes|length|len|output_tokens|totalTokens|tokens_used|cost|took_ms|cost_usd|total_cost_usd)":[\d.]+"#,
        r#""$1":[N]"#,
    ),
    (r"\d+ out(,| ·) \$[\d.]+", "[N] out$1 $$[N]"),
    (r#""seq":\d+"#, r#""seq":[N]"#),
    (r"(?m)^\[\d+ ", "[[N] "),
    (r#""duration_ms":\d+"#, r#""duration_ms":[MILLIS]"#),
    (r"s-\d{8}-\d{9}-[a-z0-9]{8}", "[SESSION]"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[NATIVE]"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
    (r#""pid":\d+"#, r#""pid":[PID]"#),
    (r"pid \d+", "pid [PID]"),
    (r"cgroup|subreaper|group\b", "[GUARANTEE]"),
    (r#""timestamp":\d+"#, r#""timestamp":[MILLIS]"#),
    (r#""latency":\d+"#, r#""latency":[NANOS]"#),
    (r#""capabilities":\{[^}]*\}"#, r#""capabilities":{…}"#),
    (r", [\d.]+ (s|min [\d.]+ s),", ", [TOOK],"),
];

macro_rules! snapshot {
    ($world:expr, $call:expr) => {
        snapshot!($world, $call, stringify!($call))
    };
    ($world:expr, $call:expr, $name:expr) => {{
        let text = shown(&$world, &$call.end());
        insta::with_settings!({filters => FILTERS.to_vec(), omit_expression => true}, {
            insta::assert_snapshot!($name, text);
        });
    }};
}

fn task(world: &World) -> Call<'_> {
    std::fs::write(world.path("work").join("notes.md"), "one\ntwo\n").expect("a file");
    let script = [
        "think Let me look.",
        "say I will read it first.",
        "tool read notes.md",
        "tool edit notes.md three",
        "say Done: there are three lines now.",
    ];
    world.practice(&script).with(&["--permission", "edit"])
}

#[test]
fn every_format() {
    for format in [
        "human",
        "text",
        "json",
        "jsonl",
        "pi",
        "pi-partials",
        "simple",
        "chunks",
        "generate",
        "stream-events",
        "provider-events",
    ] {
        let world = World::new();
        snapshot!(world, task(&world).with(&["--output", format]), format!("run_as_{format}"));
        world.journal().check().ended("completed");
    }
}

#[test]
fn verbose() {
    let world = World::new();
    snapshot!(world, task(&world).with(&["-v"]), "run_verbose");
    let world = World::new();
    snapshot!(world, task(&world).with(&["-vv"]), "run_very_verbose");
}

#[test]
fn nothing_is_coloured_in_a_pipe() {
    let world = World::new();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "xterm-256color"), ("CLICOLOR_FORCE", "0")] {
        let ended = task(&world).with(&["-v"]).env(name, value).end().exits(0);
        assert!(!ended.stdout.contains('\x1b') && !ended.stderr.contains('\x1b'), "{ended:?}");
    }
}

#[test]
fn a_refusal_names_the_flag_that_would_allow_it() {
    let world = World::new();
    let script = ["tool write new.txt hello", "say I could not."];
    snapshot!(world, world.practice(&script), "run_refused");
    assert!(!world.path("work").join("new.txt").exists(), "nobody could be asked");

    let ended = world.practice(&script).with(&["--permission", "edit"]).end().exits(0);
    assert!(!ended.stderr.contains("refused"), "{}", ended.stderr);
    assert!(world.path("work").join("new.txt").exists());
}

#[test]
fn an_agent_that_asks_is_refused_where_nobody_is_there_and_the_flag_is_named() {
    let world = World::new();
    let script = ["asks", "tool write new.txt hello", "say I could not."];
    let ended = world.practice(&script).end().exits(0);
    assert_eq!(ended.stdout, "I could not.\n");
    ended.tells(&["refused: ", "new.txt", "--permission edit"]);
    assert!(!world.path("work").join("new.txt").exists(), "nobody could be asked");
    let journal = world.journal();
    journal.check().ended("completed");
    assert_eq!(journal.count("approval_asked"), 1);
    let decided = journal.of("approval_decided");
    let (decision, by) = (&decided[0]["kind"]["decision"], &decided[0]["kind"]["by"]);
    assert_eq!((decided.len(), decision.as_str(), by.as_str()), (1, Some("deny"), Some("client_lost")));
}

/// The first attempt is given up, so that its result is none.
#[test]
fn a_second_attempt_has_the_only_result() {
    let world = World::new();
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let script = format!(
        "case \"$*\" in *stream-json*) echo 'error: unknown option --output-format' >&2; exit 1;; esac; cat >/dev/null; echo '{result}'"
    );
    let ended = world.claude(&script).with(&["--output", "stream-events"]).end().exits(0);
    let results: Vec<&str> = ended.stdout.lines().filter(|line| line.contains("ResultEvent")).collect();
    assert_eq!(results.len(), 1, "{}", ended.stdout);
    assert!(results[0].contains(r#""result":"done""#), "{}", results[0]);
    assert_eq!(world.journal().check().count("fallback_taken"), 1);
}

/// A service that answers 404 and nothing else: the hint names the command, and the closest model of the agent's own list.
#[test]
fn an_unknown_model_gets_the_command_that_helps() {
    let result = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":404,"result":"API Error: 404","session_id":"s"}"#;
    let script = format!("cat >/dev/null; echo '{result}'; exit 1");
    let ended = |model: &str| World::new().claude(&script).with(&["--model", model]).end().exits(1);
    let lists = "`bowline models claude` lists the models; `--model NAME` chooses one";
    ended("sonet").tells(&[&format!("did you mean `--model sonnet`? {lists}")]);
    ended("something-else").tells(&[&format!("the model `something-else` may not exist: {lists}")]);
}

/// The practice agent is where people meet that hint first.
#[test]
fn the_models_of_the_practice_agent_are_listed() {
    let world = World::new();
    let listed = world.bowline(&["models", "practice"]).end().exits(0).stdout;
    for model in ["practice-1", "practice-small", "practice-large"] {
        assert!(listed.contains(model), "{listed}");
    }
}

#[test]
fn an_agent_that_prints_nothing_is_told_once() {
    let ended = World::new().practice(&["result"]).with(&["--format", "text"]).end().exits(1);
    let told: Vec<&str> = ended.stderr.lines().filter(|line| !line.starts_with("practice ")).collect();
    assert_eq!(told, ["error: the agent printed nothing (empty)"]);
}

#[test]
fn a_failure_is_told_in_full() {
    let world = World::new();
    let script = ["say I try.", "fail 529 the model is overloaded"];
    snapshot!(world, world.practice(&script), "run_failed");
}

#[test]
fn files_that_changed_are_told_where_there_is_a_repository() {
    let world = World::new();
    let git = crate::support::in_shell(
        "git init -q && echo one > a.txt && git add -A && \
         git -c user.name=x -c user.email=x@localhost commit -q -m before",
    )
    .current_dir(world.path("work"))
    .env("HOME", world.path("tmp"))
    .status();
    assert!(git.is_ok_and(|status| status.success()), "git is there");
    let script = ["tool edit a.txt two", "tool write b.txt new", "say Done."];
    world.practice(&script).with(&["--permission", "edit", "-v"]).end().exits(0).tells(&["a.txt", "b.txt"]);
    let journal = world.journal();
    journal.check().ended("completed");
    let touched = journal.of("files_touched");
    let by_git = touched.iter().find(|event| event["kind"]["seen_by"] == "git").expect("git saw it");
    let mut paths: Vec<&str> =
        by_git["kind"]["files"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str()).collect();
    paths.sort_unstable();
    assert!(paths.iter().any(|path| path.ends_with("a.txt")) && paths.len() == 2, "{paths:?}");
}

#[test]
fn an_ephemeral_run_leaves_nothing() {
    let world = World::new();
    let ended = world.practice(&["say done"]).with(&["--ephemeral"]).end().exits(0);
    assert_eq!(ended.stdout, "done\n");
    assert!(world.journals().is_empty());
    let left: Vec<_> = std::fs::read_dir(world.path("tmp")).unwrap().flatten().map(|it| it.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn without_a_stream_the_answer_is_the_same() {
    let world = World::new();
    let ended = world.practice(&["say one", "say two"]).with(&["--no-stream"]).end().exits(0);
    assert!(ended.stdout.contains("two"), "{ended:?}");
    world.journal().check().ended("completed");
}

#[test]
fn an_object_names_the_session_by_which_it_is_found_again() {
    let world = World::new();
    let ended = world.practice(&["say one"]).with(&["--output", "json"]).end().exits(0);
    let session = ended.json()["session"].as_str().expect("a name").to_owned();
    let journal = world.journals_begun().pop().expect("a journal");
    assert_eq!(journal.file_name().and_then(|name| name.to_str()), Some(session.as_str()));
    world.practice(&["say two"]).with(&["--resume", &session, "--output", "json"]).end().exits(0);
    let text = world.practice(&["say three"]).with(&["--output", "text"]).end().exits(0);
    assert_eq!(text.stdout, "three\n", "the answer alone");
}

#[test]
fn what_each_format_has_is_written_down() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/output.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let world = World::new();
    let help = world.bowline(&["run", "--help"]).end().exits(0).stdout;
    let formats = help.split("Output format: ").nth(1).and_then(|it| it.split(" [").next()).expect("a list");
    for format in formats.split(',').map(str::trim) {
        assert!(page.contains(&format!("\n| `{format}` |")), "the format {format}");
    }
    let object = world.practice(&["say one"]).with(&["--output", "json"]).end().exits(0).json();
    for key in object.as_object().expect("an object").keys() {
        assert!(page.contains(&format!("\n| `{key}` |")), "the key {key}");
    }
}

#[test]
fn a_log_of_both_streams_has_remarks_on_their_own_lines() {
    let world = World::new();
    let log = std::fs::File::create(world.path("log")).expect("a file");
    let mut command = world.practice(&["say partial", "exit 0"]).command();
    command.stdout(log.try_clone().expect("the same file")).stderr(log);
    assert_eq!(command.status().expect("it runs").code(), Some(1));
    let log = std::fs::read_to_string(world.path("log")).expect("a log");
    assert!(log.starts_with("partial\nwarning: the stream ended"), "{log}");
}
