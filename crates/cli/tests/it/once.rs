//! A prompt is sent once: an agent that has done something is not asked a second time by default.

use serde_json::json;

use crate::world::World;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;
const TEXT: &str = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I deployed it."}]},"session_id":"s"}"#;
const RESULT: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#;

/// Agents that append a line to a file, and end without a result.
fn agents() -> Vec<(&'static str, String)> {
    vec![
        (
            "stops in the middle of its lines",
            format!("cat >/dev/null; echo '{INIT}'; printf '{{\"type\":'; exit 1"),
        ),
        ("exits while it reads the prompt", "read -r line; echo 'cannot go on' >&2; exit 3".to_owned()),
        (
            "prints a tool line that is not understood",
            format!(
                "cat >/dev/null; echo '{INIT}'; echo '{{\"type\":\"tool_invocation_v2\",\"n\":1}}'; exit 1"
            ),
        ),
        ("fails after it has answered", format!("cat >/dev/null; echo '{INIT}'; echo '{TEXT}'; exit 1")),
        ("prints nothing and exits with 0", "cat >/dev/null; exit 0".to_owned()),
        ("prints nothing and exits with 1", "cat >/dev/null; exit 1".to_owned()),
        (
            "names a rejected option after it has begun",
            format!("cat >/dev/null; echo '{INIT}'; echo \"error: unknown option '--verbose'\" >&2; exit 1"),
        ),
        (
            "prints the complaint of another program about an option",
            "cat >/dev/null; echo \"error: unknown option 'foo'\" >&2; exit 1".to_owned(),
        ),
        (
            "rejects an option after other words",
            "cat >/dev/null; printf \"working\\nerror: unknown option '--verbose'\\n\" >&2; exit 1"
                .to_owned(),
        ),
    ]
}

/// Returns how often the agent was started.
fn starts(world: &World) -> usize {
    std::fs::read_to_string(world.path("starts")).unwrap_or_default().lines().count()
}

#[test]
fn an_agent_that_may_have_done_something_is_started_once() {
    for (what, script) in agents() {
        for args in [&[][..], &["--retries", "2"], &["--retries", "2", "--fallback", "any"]] {
            let world = World::new();
            let script = format!("echo x >>{}; {script}", world.path("starts").display());
            let ended = world.claude(&script).with(args).end().exits(1);
            assert_eq!(starts(&world), 1, "{what} {args:?}: {}", ended.stderr);
            let journal = world.journal();
            assert_eq!((journal.count("process_spawned"), journal.count("fallback_taken")), (1, 0), "{what}");
        }
    }
}

/// The words of a tool about its own options, from an agent whose lines come late.
#[test]
fn a_complaint_about_options_that_we_did_not_pass_proves_nothing() {
    let world = World::new();
    let script = "echo x >>\"$(dirname \"$0\")/starts\"; cat >/dev/null; echo 'npm error: --foo requires --force' >&2; exit 1";
    let program = world.script("grok", script);
    let run =
        world.run("grok-cli", "Deploy it.").with(&[std::ffi::OsStr::new("--binary"), program.as_os_str()]);
    let ended = run.with(&["--retries", "0", "--permission", "yolo"]).end().exits(1);
    assert_eq!((starts(&world), world.journal().count("fallback_taken")), (1, 0), "{}", ended.stderr);
}

/// Its own usage error, before it printed anything: nothing was done, so that the other form may be tried.
#[test]
fn a_program_that_rejects_its_options_is_asked_in_its_other_form() {
    let world = World::new();
    let script = format!(
        "case \"$*\" in --version|--help) exit 2;; esac; echo x >>{}; case \"$*\" in *stream-json*) echo \"error: unknown option '--output-format'\" >&2; exit 1;; esac; cat >/dev/null; echo '{RESULT}'",
        world.path("starts").display()
    );
    let ended = world.claude(&script).end().exits(0);
    assert_eq!((ended.stdout.as_str(), starts(&world)), ("done\n", 2));
    assert!(world.has_line(&["fallback_taken", "the program rejected its arguments"]));
}

/// A program of an earlier time: it knows no formats, prints text, and rejects what its help lacks in the words of the real one.
fn without_formats(world: &World) -> std::path::PathBuf {
    let script = r#"
echo "$*" >>"$(dirname "$0")/calls"
help='Usage: qwen [options] [command]

Options:
  -m, --model          Model  [string]
  -p, --prompt         Prompt. Appended to input on stdin (if any).  [string]
      --approval-mode  Set the approval mode  [string] [choices: "plan", "default", "auto-edit", "yolo"]
  -v, --version        Show version number  [boolean]
  -h, --help           Show help  [boolean]'
case "$*" in
--version) echo 0.0.14; exit 0 ;;
--help) echo "$help"; exit 0 ;;
*--output-format*) printf 'Unknown arguments: output-format, outputFormat\n%s\n' "$help" >&2; exit 1 ;;
*--bare*) printf 'Unknown argument: bare\n%s\n' "$help" >&2; exit 1 ;;
esac
cat >>"$(dirname "$0")/prompts"
echo "Plain words."
"#;
    world.script("qwen", script)
}

/// Without any earlier `doctor`, the help is read after the usage error, and the run ends with the text of the program.
#[test]
fn a_program_without_formats_answers_in_plain_text() {
    let world = World::new();
    let program = without_formats(&world);
    let run =
        || world.run("qwen", "Say something.").with(&[std::ffi::OsStr::new("--binary"), program.as_os_str()]);
    let text = |name: &str| std::fs::read_to_string(world.path(name)).unwrap_or_default();
    let (prompts, calls) =
        (|| text("prompts").matches("Say something.").count(), || text("calls").lines().count());
    let ended = run().end().exits(0);
    assert_eq!((ended.stdout.as_str(), prompts()), ("Plain words.\n", 1), "{}", ended.stderr);
    assert_eq!(calls(), 4, "rejected, version, help, answered");
    ended.tells(&["no streams_text", "is not in its help", "plain text"]);
    assert!(world.has_line(&["capability_degraded", "is not in its help"]));
    assert!(world.has_line(&["fallback_taken", "the program rejected its arguments"]));
    let journal = world.journal();
    journal.check().ended("completed");
    let lost: Vec<_> =
        journal.of("capability_degraded").iter().map(|it| it["kind"]["capability"].clone()).collect();
    assert_eq!(lost, ["streams_text", "reports_thinking", "reports_tools", "reports_usage"]);
    let meta = std::fs::read(journal.dir.join("session.json")).expect("a file");
    let meta: serde_json::Value = serde_json::from_slice(&meta).expect("a session");
    let meta = &meta["capabilities"];
    let now = ["streams_text", "reports_thinking", "reports_tools", "reports_usage"].map(|name| &meta[name]);
    assert_eq!(now, [&json!(false), &json!(false), &json!(false), &json!("none")], "{meta}");
    // The next run knows.
    let ended = run().end().exits(0);
    assert_eq!((ended.stdout.as_str(), prompts(), calls()), ("Plain words.\n", 2, 5));
}

/// The help shows that the program cannot be kept from running the code of an untrusted repository: it is read before the start.
#[test]
fn a_program_that_cannot_be_kept_from_a_repository_is_not_started() {
    let world = World::new();
    let program = without_formats(&world);
    // What lies in the home directory itself is no project.
    let project = world.path("work/app");
    std::fs::create_dir_all(project.join(".git")).expect("a directory");
    std::fs::create_dir_all(project.join(".qwen")).expect("a directory");
    std::fs::write(project.join(".qwen/settings.json"), "{}").expect("a file");
    let run =
        world.run("qwen", "Say something.").with(&[std::ffi::OsStr::new("--binary"), program.as_os_str()]);
    let ended = run.with(&["--permission", "read", "--cwd", &project.display().to_string()]).end().exits(2);
    let calls = std::fs::read_to_string(world.path("calls")).expect("it was asked");
    assert_eq!(calls.lines().count(), 2, "version and help: {calls}");
    ended.tells(&["`--bare` is not in its help", "this project is not trusted"]);
    assert!(world.journals().is_empty(), "nothing was begun");
}

/// A format from the settings is the only one, as a format from the command line is.
#[test]
fn a_format_that_was_chosen_is_the_only_one() {
    let script = "echo \"$*\" >>\"$(dirname \"$0\")/starts\"; echo \"error: unknown option '--output-format'\" >&2; exit 1";
    for by_setting in [true, false] {
        let world = World::new();
        let mut run = world.claude(script).with(&["--retries", "0"]);
        if by_setting {
            let dir = world.path("work/.config/bowline");
            std::fs::create_dir_all(&dir).expect("a directory");
            std::fs::write(dir.join("bowline.toml"), "[providers.claude]\nformat = \"stream-json\"\n")
                .expect("a file");
        } else {
            run = run.with(&["--format", "stream-json"]);
        }
        let ended = run.end().exits(1);
        assert_eq!(starts(&world), 1, "{by_setting}: {}", ended.stderr);
        ended.tells(&["flag_rejected"]);
    }
}

/// The time of the run goes on while the help is read: then its end is a timeout, and not the usage error.
#[test]
fn a_deadline_while_the_help_is_read_is_a_timeout() {
    let world = World::new();
    let script = "case \"$*\" in --version|--help) exec sleep 30;; esac; echo x >>\"$(dirname \"$0\")/starts\"; echo \"error: unknown option '--output-format'\" >&2; exit 1";
    let ended = world.claude(script).with(&["--timeout", "2"]).end().exits(124);
    assert_eq!(starts(&world), 1, "{}", ended.stderr);
    assert!(world.has_line(&["turn_ended", "timed_out"]), "{}", ended.stderr);
    world.journal().check().ended("failed timeout timed_out");
}

/// The same "429" on standard error: where no step is ever shown, it may be about the tenth model call.
#[test]
fn a_rate_limit_on_stderr_is_retried_only_where_steps_are_shown() {
    for (form, expect) in [(&[][..], 2), (&["--no-stream"], 1)] {
        let world = World::new();
        let starts_file = world.path("starts");
        let script = format!(
            "echo x >>{}; cat >/dev/null; echo 'API Error: 429 Too Many Requests' >&2; exit 1",
            starts_file.display()
        );
        let ended = world.claude(&script).with(&["--retries", "1"]).with(form).end().exits(1);
        assert_eq!(starts(&world), expect, "{form:?}: {}", ended.stderr);
    }
}
