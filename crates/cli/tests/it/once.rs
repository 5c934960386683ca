//! A prompt is sent once: an agent that has done something is not asked a second time by default.

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
            format!("cat >/dev/null; echo '{INIT}'; echo \"error: unknown option '--x'\" >&2; exit 1"),
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

/// Its own usage error, before it printed anything: nothing was done, so that the other form may be tried.
#[test]
fn a_program_that_rejects_its_options_is_asked_in_its_other_form() {
    let world = World::new();
    let script = format!(
        "echo x >>{}; case \"$*\" in *stream-json*) echo \"error: unknown option '--x'\" >&2; exit 1;; esac; cat >/dev/null; echo '{RESULT}'",
        world.path("starts").display()
    );
    let ended = world.claude(&script).end().exits(0);
    assert_eq!((ended.stdout.as_str(), starts(&world)), ("done\n", 2));
    assert!(world.has_line(&["fallback_taken", "the program rejected its arguments"]));
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
