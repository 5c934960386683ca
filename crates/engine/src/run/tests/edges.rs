//! Edge cases of a run: its first event, which pipe is closed, an early timer, the name of a second attempt.

use bowline_protocol::kinds::{CapabilityDegraded, Outcome};
use bowline_protocol::{Capabilities, Category, Code, RawFile, Resume};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::Shape;

use super::super::output::cut_after_lines;
use super::super::*;
use super::world::{INIT, RESULT, TOOL, World, attempt, text, text_form};
use crate::fallback::StreamFallback;
use crate::footprint::Footprint;

#[test]
fn the_first_event_names_what_was_planned() {
    let capabilities = Capabilities { supports_mcp: true, ..Capabilities::default() };
    let mut world = World::with(|plan| {
        plan.version = Some("1.2.3".to_owned());
        plan.cwd = Some("/project".to_owned());
        plan.model = Some("asked".to_owned());
        plan.capabilities = Some(capabilities.clone());
    });
    world.give(RunInput::Begin);
    let Kind::SessionStarted(started) = &world.events[0].kind else { panic!("{}", world.log()) };
    assert_eq!(started.provider.as_deref(), Some("test"));
    assert_eq!(started.version.as_deref(), Some("1.2.3"));
    assert_eq!(started.cwd.as_deref(), Some("/project"));
    assert_eq!(started.model.as_deref(), Some("asked"));
    assert_eq!(started.capabilities.as_deref(), Some(&capabilities));
}

#[test]
fn an_event_of_ours_has_the_number_of_the_turn_once_there_is_one() {
    let mut world = World::new();
    world.start();
    let turn = |word: &str| {
        let event = world.events.iter().find(|event| event.kind.type_name() == word);
        event.unwrap_or_else(|| panic!("{word}: {}", world.log())).turn
    };
    assert_eq!((turn("session_started"), turn("process_spawned")), (None, Some(1)));
}

/// States and ends of turns are synced to disk. Syncing every text delta would slow the stream down.
#[test]
fn only_states_and_ends_wait_for_the_disk() {
    let mut world = World::new();
    world.start();
    for (line, durable) in [(INIT, false), (text("Hello").as_str(), false), (RESULT, true)] {
        let mut step = RunStep::default();
        let now = Now { wall: bowline_protocol::Timestamp::EPOCH, up: world.now };
        world.run.handle(RunInput::Stdout(format!("{line}\n").as_bytes()), now, &mut step);
        assert!(!step.events.is_empty());
        assert_eq!(step.durable, durable, "{line}");
    }
}

/// A line that the program prints long after its usage text is not an error of its argument parser.
#[test]
fn a_usage_error_counts_only_at_the_beginning_of_stderr() {
    for (bytes, replans) in [(1_000, true), (crate::usage_error::HEAD, false)] {
        let mut world = World::with(|plan| plan.replannable = true);
        world.start();
        // Whole lines, so that the error begins a line wherever the head is cut.
        let usage = format!("{:x<1$}\n", "usage: agent\n", bytes - 1);
        world.give(RunInput::Stderr(usage.as_bytes()));
        world.give(RunInput::Stderr(b"error: unknown option '--verbose'\n")).exits(1).swept();
        assert_eq!(world.log().contains("!replan"), replans, "{bytes}: {}", world.log());
    }
}

#[test]
fn the_model_is_the_one_that_was_asked_for_until_the_agent_names_one() {
    let mut world = World::new();
    world.start();
    assert_eq!(world.run.model(), None);
    let mut world = World::with(|plan| plan.model = Some("asked".to_owned()));
    world.start();
    assert_eq!(world.run.model(), Some("asked"));
    world.says(INIT);
    assert_eq!(world.run.model(), Some("m"));
    // An agent may name another model in the middle of its work.
    let mut world = World::with(|plan| plan.attempts = vec![attempt("stream-json", Shape::Lines)]);
    world.start();
    world.says(INIT).says(r#"{"model":"other","content":"Hello"}"#);
    assert_eq!(world.run.model(), Some("other"), "{}", world.log());
}

#[test]
fn a_resume_that_the_dialect_answers_is_answered_once() {
    let mut world = World::with(|plan| {
        World::by_protocol(plan);
        plan.resume = Some(ResumeTarget { id: "x".into(), fork: false });
        let resume = Some(Resume::Id { native_session: "x".into() });
        plan.attempts[0].conversation = Some(Box::new(Conversation { resume, ..Conversation::default() }));
    });
    world.start();
    world.says(r#"{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#);
    world.says(r#"{"id":2,"result":{}}"#);
    assert_eq!(world.log().matches("resume_answered").count(), 1, "{}", world.log());
    assert!(world.log().contains("resume_answered:resumed"), "{}", world.log());
}

#[test]
fn the_tree_is_swept_when_both_pipes_are_closed() {
    let pipes: [fn() -> RunInput<'static>; 2] = [|| RunInput::StdoutClosed, || RunInput::StderrClosed];
    for (first, second) in [(pipes[0], pipes[1]), (pipes[1], pipes[0])] {
        for exits_first in [true, false] {
            let mut world = World::new();
            world.start();
            world.says(INIT).says(RESULT);
            if exits_first {
                world.give(RunInput::Exited(Exit::Code(0))).give(first());
            } else {
                world.give(first()).give(RunInput::Exited(Exit::Code(0)));
            }
            assert!(!world.log().contains("!sweep"), "{:?}: {}", first(), world.log());
            world.give(second());
            assert!(world.log().ends_with("!sweep"), "{:?}: {}", first(), world.log());
        }
    }
}

/// A program may close standard error and work on; without standard output it cannot answer any more.
#[test]
fn a_program_that_closes_its_stderr_goes_on() {
    let mut world = World::new();
    world.start();
    world.says(INIT).give(RunInput::StderrClosed).wait(10_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.give(RunInput::StdoutClosed).wait(5_000);
    assert!(world.log().contains("!signal(Terminate, Tree)"), "{}", world.log());
}

/// A driver may fire the timer too early, after a deadline that moved.
#[test]
fn a_timer_that_comes_early_changes_nothing() {
    let waiting = || {
        let mut world = World::with(|plan| plan.delay = Millis(1_000));
        world.give(RunInput::Begin);
        world
    };
    let preparing = || {
        let mut world = World::with(|plan| plan.files = true);
        world.give(RunInput::Begin);
        world
    };
    let running = || {
        let mut world = World::with(|plan| plan.files = true);
        world.start();
        world.says(INIT).says(RESULT);
        world
    };
    let working = || {
        let mut world = World::new();
        world.start();
        world.says(INIT);
        world
    };
    let replanning = || {
        let mut world = World::with(|plan| plan.replannable = true);
        world.start();
        world.give(RunInput::Stderr(b"error: unknown option '--verbose'\n")).exits(1).swept();
        world
    };
    let draining = || {
        let mut world = running();
        world.give(RunInput::Exited(Exit::Code(0)));
        world
    };
    let sweeping = || {
        let mut world = running();
        world.exits(0);
        world
    };
    let closing = || {
        let mut world = draining();
        world.wait_for_action("!sweep");
        world.swept();
        world
    };
    let looking = || {
        let mut world = sweeping();
        world.swept();
        world
    };
    let stopping = || {
        let mut world = running();
        world.command(RunCommand::Cancel);
        world
    };
    let phases: [(&str, &dyn Fn() -> World); 10] = [
        ("waiting", &waiting),
        ("preparing", &preparing),
        ("working", &working),
        ("running", &running),
        ("draining", &draining),
        ("sweeping", &sweeping),
        ("closing", &closing),
        ("looking", &looking),
        ("stopping", &stopping),
        ("replanning", &replanning),
    ];
    for (phase, world) in phases {
        let mut world = world();
        let (log, deadline) = (world.log(), world.run.deadline().expect(phase));
        world.now = Millis(deadline.0 - 1);
        world.give(RunInput::Timer);
        assert_eq!((world.log(), world.run.deadline()), (log.clone(), Some(deadline)), "{phase}");
        world.now = deadline;
        world.give(RunInput::Timer);
        assert_ne!(world.log(), log, "{phase}");
    }
}

/// A dialect with a protocol carries the prompt as an argument if there is no conversation.
#[test]
fn a_prompt_goes_by_protocol_only_where_there_is_a_conversation() {
    let mut world = World::with(|plan| plan.attempts = vec![attempt("acp", Shape::Lines)]);
    world.start();
    world.exits(1).swept();
    assert_eq!(world.ended().footprint, Footprint::Unexplained);
    let mut world = World::with(World::by_protocol);
    world.start();
    world.exits(1).swept();
    assert_eq!(world.ended().footprint, Footprint::PromptNotSent);
}

#[test]
fn stderr_spans_of_a_second_process_follow_the_first() {
    let retry = "Attempt 1 failed with status 503. Retrying with backoff... Error: overloaded\n";
    let mut world = World::with(|plan| {
        plan.attempts = vec![attempt("gemini", Shape::Lines), attempt("gemini", Shape::Lines)];
        plan.stream_fallback = StreamFallback::Always;
    });
    world.start();
    world.give(RunInput::Stderr(retry.as_bytes())).exits(1).swept();
    world.give(RunInput::Spawned { pid: 8, containment: "test" });
    world.give(RunInput::Stderr(retry.as_bytes()));
    let of_stderr = |event: &bowline_protocol::Event| event.raw.filter(|raw| raw.file == RawFile::Stderr);
    let spans: Vec<_> = world.events.iter().filter_map(of_stderr).map(|raw| (raw.start, raw.end)).collect();
    let [(first, end), second] = spans[..] else { panic!("{spans:?}: {}", world.log()) };
    let before = retry.len() as u64;
    assert!(first == 0 && end > 0, "{spans:?}");
    assert_eq!(second, (before, end + before), "{}", world.log());
}

const INTERRUPTED: &str =
    r#"{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s","errors":[]}"#;
const RETRY: &str = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":593,"error_status":529,"error":"overloaded","session_id":"s"}"#;
const THINKING: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}},"session_id":"s"}"#;

#[test]
fn an_agent_that_thinks_again_waits_for_no_retry_any_more() {
    for (lines, code) in [(&[RETRY][..], Code::GaveUpWaiting), (&[RETRY, THINKING], Code::TimedOut)] {
        let mut world = World::with(|plan| plan.attempts[0].limits.total = Some(Millis(10_000)));
        world.start();
        world.says(INIT);
        for line in lines {
            world.says(line);
        }
        world.wait_for_action("!signal(Interrupt, Leader)");
        world.killed(15).swept();
        assert_eq!(world.ended().failure.expect("a failure").code, code, "{}", world.log());
    }
}

/// The deadline only ends the wait. The failure keeps the message of the retry notice, which names the cause.
#[test]
fn a_deadline_during_a_retry_keeps_the_message_of_the_retry() {
    let mut world = World::with(|plan| plan.attempts[0].limits.total = Some(Millis(10_000)));
    world.start();
    world.says(INIT).says(RETRY).wait_for_action("!signal(Interrupt, Leader)");
    world.killed(15).swept();
    let failure = world.ended().failure.expect("a failure");
    assert_eq!((failure.category, failure.message.as_str()), (Category::Server, "overloaded (status 529)"));
}

/// A program that is interrupted during a retry may report an error of its own.
#[test]
fn a_deadline_during_a_retry_is_the_reason_whatever_the_program_calls_it() {
    let mut world = World::with(|plan| plan.attempts[0].limits.total = Some(Millis(10_000)));
    world.start();
    world.says(INIT).says(RETRY).wait_for_action("!signal(Interrupt, Leader)");
    world.says(INTERRUPTED).exits(1).swept();
    let failure = world.ended().failure.expect("a failure");
    assert_eq!((failure.category, failure.code), (Category::Server, Code::GaveUpWaiting));
}

#[test]
fn a_tool_that_has_finished_excuses_no_silence() {
    let mut world = World::with(|plan| {
        plan.attempts[0].limits.idle = Some(Millis(3_000));
        plan.attempts[0].limits.in_tool = Some(Millis(60_000));
    });
    world.start();
    let result = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"u1","content":"ok"}]},"session_id":"s"}"#;
    world.says(INIT).says(TOOL).wait(10_000);
    assert!(!world.log().contains("notice:watchdog"), "{}", world.log());
    world.says(result).wait(4_000);
    assert!(world.log().contains("notice:watchdog_idle"), "{}", world.log());
}

const BACKGROUND: &str = r#"{"type":"system","subtype":"task_started","task_id":"b1","tool_use_id":"u1","description":"Sleep","is_backgrounded":true,"session_id":"s"}"#;

/// Work in the background may be silent between two turns. A turn that goes on beside it may not.
#[test]
fn a_task_in_the_background_excuses_silence_only_between_turns() {
    let left_running = || {
        let mut world = World::with(|plan| {
            plan.attempts[0].limits.idle = Some(Millis(3_000));
            plan.attempts[0].limits.in_tool = Some(Millis(60_000));
        });
        world.start();
        world.says(INIT).says(BACKGROUND).says(RESULT);
        world
    };
    let mut world = left_running();
    world.wait(30_000);
    assert!(!world.log().contains("!signal"), "{}", world.log());
    world.wait(31_000);
    assert!(world.log().contains("notice:watchdog_in_tool"), "{}", world.log());
    let mut world = left_running();
    world.says(INIT).says(&text("on with it")).wait(4_000);
    assert!(world.log().contains("notice:watchdog_idle"), "{}", world.log());
}

/// An interrupted program reports an error without a real reason.
#[test]
fn an_error_without_a_reason_after_a_cancel_is_the_cancel() {
    let mut world = World::new();
    world.start();
    world.says(INIT).command(RunCommand::Cancel).says(INTERRUPTED).exits(1).swept();
    let ended = world.ended();
    assert_eq!((ended.outcome, ended.failure), (Outcome::Cancelled, None));
}

#[test]
fn a_session_that_the_program_does_not_find_is_a_resume_that_it_rejects() {
    let mut world = World::with(|plan| plan.resume = Some(ResumeTarget { id: "s".into(), fork: false }));
    world.start();
    world.give(RunInput::Stderr(b"No conversation found with session ID: s\n")).exits(1).swept();
    assert!(world.log().contains("resume_answered:rejected"), "{}", world.log());
    assert_eq!(world.ended().failure.expect("a failure").code, Code::SessionNotFound);
}

/// The names of both forms in the event of the second attempt, and why a capability is lost.
fn fallback(world: &World) -> (Vec<String>, Option<String>) {
    let taken = world.events.iter().find_map(|event| {
        let Kind::FallbackTaken(taken) = &event.kind else { return None };
        Some(vec![taken.from.clone(), taken.to.clone()])
    });
    let reason = world.events.iter().find_map(|event| {
        let Kind::CapabilityDegraded(degraded) = &event.kind else { return None };
        Some(degraded.reason.clone())
    });
    (taken.expect("a second attempt"), reason)
}

#[test]
fn a_second_attempt_names_its_form_and_what_it_does_without() {
    let usage_error = b"error: unknown option '--output-format'\n";
    let rejected = |second: AttemptPlan| {
        let mut world = World::with(|plan| {
            plan.replannable = true;
            plan.attempts.push(second);
        });
        world.start();
        world.give(RunInput::Stderr(usage_error)).exits(1).swept();
        assert!(world.log().ends_with("!replan"), "{}", world.log());
        world
    };
    let degraded = text_form().degraded;
    let by_plan = "the better form did not work: error: unknown option '--output-format'";
    let by_help = "`--output-format` is not in its help";
    for (shape, unchanged, instead) in [
        (Shape::Lines, "non-streaming", "another format"),
        (Shape::Document, "non-streaming", "non-streaming"),
    ] {
        let second = || AttemptPlan { degraded: degraded.clone(), ..attempt("claude", shape) };
        let mut world = rejected(second());
        world.give(RunInput::Replanned(ReplanResult::Unchanged));
        let forms = |to: &str| vec!["streaming".to_owned(), to.to_owned()];
        assert_eq!(fallback(&world), (forms(unchanged), Some(by_plan.to_owned())), "{shape:?}");
        let mut world = rejected(second());
        world.give(RunInput::Replanned(ReplanResult::Instead(Box::new(second()), Vec::new())));
        assert_eq!(fallback(&world), (forms(instead), Some(by_help.to_owned())), "{shape:?}");
    }
}

/// An option that the program itself rejects on its stream is no result where the next form does without it.
#[test]
fn only_the_next_form_decides_whether_there_is_one_that_asks_for_less() {
    let lost = || CapabilityDegraded { reason: "it streams".to_owned(), ..text_form().degraded.remove(0) };
    // which form lacks something, how often a program is started.
    for (first, second, spawns) in [(false, true, 2), (true, false, 1), (false, false, 1)] {
        let mut world = World::with(|plan| {
            World::two_attempts(plan);
            plan.stream_fallback = StreamFallback::Always;
            for (form, has) in [(0, first), (1, second)] {
                plan.attempts[form].degraded.extend(has.then(lost));
            }
        });
        world.start();
        world.says(INIT).says(
            r#"{"type":"result","subtype":"success","is_error":true,"result":"error: unknown option '--output-format'","session_id":"s"}"#,
        );
        world.exits(1).swept();
        assert_eq!(world.log().matches("!spawn").count(), spawns, "{first} {second}: {}", world.log());
    }
}

#[test]
fn a_process_ends_once_and_not_before_it_is_there() {
    let mut world = World::new();
    world.give(RunInput::Begin).give(RunInput::Exited(Exit::Code(1)));
    assert!(world.log().ends_with("!spawn(0)"), "{}", world.log());
    world.give(RunInput::Spawned { pid: 7, containment: "test" });
    world.says(INIT).says(RESULT).give(RunInput::Exited(Exit::Code(0)));
    let log = world.log();
    world.give(RunInput::Exited(Exit::Code(1)));
    assert_eq!(world.log(), log);
    world.wait_for_action("!sweep");
    world.swept().wait(1_000);
    assert_eq!(world.ended().exit, Some(Exit::Code(0)));
}

#[test]
fn a_plan_with_one_form_has_no_second_attempt() {
    for wanted in [StreamFallback::Untouched, StreamFallback::Always] {
        let mut world = World::with(|plan| plan.stream_fallback = wanted);
        world.start();
        world.give(RunInput::Stderr(b"error: unknown option '--verbose'\n")).exits(1).swept();
        assert_eq!(world.ended().rule, StreamRule::GiveUp, "{}", world.log());
    }
}

#[test]
fn a_large_piece_gives_the_events_of_its_lines() {
    let lines: Vec<String> =
        (0..200).map(|line| text(&format!("line {line} {}", "word ".repeat(line % 40)))).collect();
    let (mut whole, mut single) = (World::new(), World::new());
    whole.start();
    single.start();
    whole.says(&lines.join("\n"));
    for line in &lines {
        single.says(line);
    }
    assert_eq!(whole.events, single.events);
    assert!(whole.events.len() >= lines.len(), "{}", whole.events.len());
}

#[test]
fn a_part_ends_behind_the_last_line_that_fits() {
    let two = [&[b'x'; 3_000][..], b"\n", &[b'y'; 500], b"\n", &[b'z'; 4_000]].concat();
    let (part, rest) = cut_after_lines(&two).expect("a part");
    assert_eq!((part.len(), rest.len(), part.last()), (3_502, 4_000, Some(&b'\n')));
    let full = b"a\n".repeat(3_000);
    assert_eq!(cut_after_lines(&full).map(|(part, rest)| (part.len(), rest.len())), Some((4_096, 1_904)));
    assert_eq!(cut_after_lines(&full[..4_095]), None, "short output is one part");
    assert_eq!(cut_after_lines(&[b'x'; 9_000]), None, "no line ends in it");
}
