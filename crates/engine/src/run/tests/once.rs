//! How often a prompt is sent: once, unless the first process provably did nothing with it.

use bowline_protocol::Category;
use bowline_protocol::kinds::TouchedFile;
use bowline_providers::dialect::Shape;

use super::super::*;
use super::world::{INIT, RESULT, World, attempt, text};
use crate::fallback::StreamFallback;
use crate::footprint::Footprint;

/// The default: after any sign of work, the first process is the only one.
#[test]
fn by_default_a_stream_without_a_result_is_not_sent_again() {
    let once = |plan: &mut RunPlan| {
        World::two_attempts(plan);
        plan.stream_fallback = StreamFallback::default();
    };
    for (lines, exit, footprint) in [
        (&[][..], 0, Footprint::Unexplained),
        (&[], 3, Footprint::Unexplained),
        (&[INIT], 1, Footprint::Unexplained),
        (&[INIT, r#"{"type":"tool_invocation_v2"}"#], 1, Footprint::NotUnderstood),
        (&[INIT, "{\"type\":"], 1, Footprint::NotUnderstood),
    ] {
        let mut world = World::with(once);
        world.start();
        lines.iter().for_each(|line| {
            world.says(line);
        });
        world.exits(exit).swept();
        assert!(world.log().contains("notice:not_sent_again"), "{lines:?}: {}", world.log());
        let ended = world.ended();
        assert_eq!((ended.rule, ended.stream_fallback), (StreamRule::NotSentAgain, false), "{lines:?}");
        assert_eq!(ended.footprint, footprint, "{lines:?}");
    }
    let mut world = World::with(once);
    world.start();
    world.says(INIT).says(&text("I did it")).exits(1).swept();
    assert_eq!(
        (world.ended().rule, world.ended().footprint),
        (StreamRule::NotSentAgain, Footprint::ModelAnswered)
    );
}

#[test]
fn a_usage_error_is_sent_again_in_the_other_form_with_a_reason() {
    let mut world = World::with(|plan| {
        World::two_attempts(plan);
        plan.stream_fallback = StreamFallback::default();
    });
    world.start();
    world.give(RunInput::Stderr(b"error: unknown option '--include-partial-messages'\n")).exits(1).swept();
    assert!(world.log().ends_with("!spawn(1)"), "{}", world.log());
    let reason = world.events.iter().find_map(|event| {
        let Kind::FallbackTaken(taken) = &event.kind else { return None };
        taken.reason.clone()
    });
    assert_eq!(reason.as_deref(), Some(Footprint::UsageError.reason()));
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.says(RESULT).exits(0).swept();
    assert!(world.ended().stream_fallback);
}

/// A protocol that never reached its prompt has requested nothing; one that sent it may have got all the work done.
#[test]
fn a_protocol_is_tried_otherwise_until_it_has_sent_the_prompt() {
    let talks = |plan: &mut RunPlan| {
        World::two_attempts(plan);
        plan.attempts.swap(0, 1);
        let plain = plan.attempts.clone();
        World::by_protocol(plan);
        plan.attempts.extend(plain);
        plan.stream_fallback = StreamFallback::default();
    };
    let mut world = World::with(talks);
    world.start();
    world.exits(1).swept();
    assert!(world.log().ends_with("!spawn(1)"), "{}", world.log());
    let mut world = World::with(talks);
    world.start();
    world.says(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#);
    world.says(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    world.exits(1).swept();
    assert_eq!(world.ended().footprint, Footprint::Unexplained, "{}", world.log());
}

#[test]
fn files_that_changed_are_a_sign_of_work() {
    let mut world = World::with(|plan| plan.files = true);
    world.start();
    world.give(RunInput::Stderr(b"API Error: 529 overloaded\n")).exits(1).swept();
    let operation = bowline_protocol::kinds::FileOperation::Write;
    world.give(RunInput::Files(vec![TouchedFile { path: "a".to_owned(), operation }]));
    assert_eq!(world.ended().footprint, Footprint::FilesChanged);
    let mut world = World::with(|plan| plan.files = true);
    world.start();
    world.give(RunInput::Stderr(b"API Error: 529 overloaded\n")).exits(1).swept();
    world.give(RunInput::Files(Vec::new()));
    assert_eq!(world.ended().footprint, Footprint::NoWork);
}

/// A program that buffers its output, or prints it at the end, may have worked until the watchdog ended it.
#[test]
fn silence_until_a_timeout_counts_only_where_the_program_announces_itself() {
    for (dialect, shape, expect) in [
        ("claude", Shape::Lines, Footprint::NoWork),
        ("codex-exec", Shape::Lines, Footprint::NoWork),
        ("claude", Shape::Text, Footprint::Unexplained),
        ("claude", Shape::Document, Footprint::Unexplained),
        ("opencode", Shape::Lines, Footprint::Unexplained),
        ("grok-cli", Shape::Lines, Footprint::Unexplained),
        ("external-events", Shape::Lines, Footprint::Unexplained),
        ("stream-json", Shape::Lines, Footprint::Unexplained),
        ("text", Shape::Unknown, Footprint::Unexplained),
    ] {
        let mut world = World::with(|plan| {
            plan.attempts = vec![attempt(dialect, shape)];
            plan.attempts[0].limits.first_event = Some(Millis(3_000));
        });
        world.start();
        world.wait_for_action("!signal(Interrupt, Leader)");
        world.killed(15).swept();
        assert_eq!(world.ended().footprint, expect, "{dialect} {shape:?}");
    }
}

/// "429" on standard error may be about the tenth model call. It counts if the first nine would have been visible.
#[test]
fn a_reason_on_stderr_counts_only_where_steps_are_shown_as_they_happen() {
    for (dialect, shape, expect) in [
        ("claude", Shape::Lines, Footprint::NoWork),
        ("opencode", Shape::Lines, Footprint::NoWork),
        ("claude", Shape::Document, Footprint::Unexplained),
        ("gemini", Shape::Document, Footprint::Unexplained),
        ("claude", Shape::Text, Footprint::Unexplained),
        ("text", Shape::Unknown, Footprint::Unexplained),
        ("role-lines", Shape::Unknown, Footprint::Unexplained),
        ("grok-cli", Shape::Lines, Footprint::Unexplained),
        ("external-events", Shape::Lines, Footprint::Unexplained),
        ("executable-generate", Shape::Document, Footprint::NoWork),
    ] {
        let mut world = World::with(|plan| plan.attempts = vec![attempt(dialect, shape)]);
        world.start();
        world.give(RunInput::Stderr(b"Error: 429 Too Many Requests\n")).exits(1).swept();
        let ended = world.ended();
        let category = ended.failure.map(|failure| failure.category);
        assert_eq!(category, Some(Category::RateLimit), "{dialect} {shape:?}");
        assert_eq!(ended.footprint, expect, "{dialect} {shape:?}");
    }
}

/// A document that reports its usage shows whether any model call succeeded.
#[test]
fn a_document_proves_by_its_usage_that_no_model_call_succeeded() {
    for (output, expect) in [(0, Footprint::NoWork), (7, Footprint::ModelAnswered)] {
        let mut world = World::with(|plan| plan.attempts = vec![attempt("claude", Shape::Document)]);
        world.start();
        world.says(&format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: 429 rate limit","session_id":"s","usage":{{"input_tokens":0,"output_tokens":{output}}}}}"#
        ));
        world.exits(1).swept();
        assert_eq!(world.ended().footprint, expect, "{output}");
    }
}

/// grok-cli prints the conversation when it is over: an error line without a tool call before it means that no tool ran.
#[test]
fn an_error_line_on_stdout_stands_behind_the_steps_that_led_to_it() {
    let user = r#"{"role":"user","content":"Say hello"}"#;
    let call = r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#;
    let error = r#"{"role":"assistant","content":"Sorry, I encountered an error: Grok API error: 429 Rate limit reached."}"#;
    for (lines, expect) in
        [(&[user, error][..], Footprint::NoWork), (&[user, call, error], Footprint::ToolRan)]
    {
        let mut world = World::with(|plan| plan.attempts = vec![attempt("grok-cli", Shape::Lines)]);
        world.start();
        lines.iter().for_each(|line| {
            world.says(line);
        });
        world.exits(1).swept();
        assert_eq!(world.ended().footprint, expect, "{lines:?}");
    }
}
