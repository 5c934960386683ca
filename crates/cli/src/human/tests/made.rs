//! Events that no recording has, or not in that order.

use bowline_protocol::{Event, Kind, Millis, PermissionMode};
use serde_json::{Value, json};

use super::support::{Show, Streams, check, made, start, summary, text_of};
use crate::human::{DetailLevel, Interrupt, PieceStream};

fn text(message: &str, text: &str) -> Value {
    json!({"type": "text_delta", "message": message, "block": 0, "text": text})
}

fn began() -> Value {
    json!({"type": "turn_started", "origin": "prompt"})
}

fn done() -> Value {
    json!({"type": "turn_ended", "outcome": "completed", "usage":
        {"input": 400, "output": 340, "cache_read": 800, "cache_write": 0}, "cost_usd": 0.0123})
}

fn tool(id: &str, name: &str, kind: &str, input: &Value) -> Value {
    json!({"type": "tool_started", "id": id, "name": name, "kind": kind, "owner": "cli", "input": input})
}

fn tool_end(id: &str, status: &str) -> Value {
    json!({"type": "tool_finished", "id": id, "status": status})
}

/// One event of every kind, with every field.
fn every_kind() -> Vec<Event> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/tests/fixtures/events.jsonl");
    let lines = std::fs::read_to_string(path).expect("the fixture with every kind");
    lines.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

#[test]
fn every_kind_has_its_place() {
    check("every_kind", &Show::of(every_kind(), Streams::Terminal(100)).screen());
    check("every_kind_pipe", &Show::of(every_kind(), Streams::Pipes).both());
    let show = Show::of(every_kind(), Streams::Pipes).detail(DetailLevel::Everything);
    check("every_kind_everything", &show.both());
}

const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}evil\r\u{8}\u{7f}";

/// Every place in which an agent can put words.
fn hostile() -> Vec<Event> {
    let failure = json!({"category": "unknown", "code": HOSTILE, "message": HOSTILE, "retry": false, "fallback": true,
        "hint": HOSTILE, "stderr_tail": format!("{HOSTILE}\n{HOSTILE} two")});
    let mut events = made(&[
        json!({"type": "session_started", "cwd": "/w", "model": HOSTILE}),
        began(),
        json!({"type": "notice", "level": "warn", "text": HOSTILE}),
        json!({"type": "thinking_delta", "message": "m", "block": 0, "text": HOSTILE}),
        tool("c1", HOSTILE, "execute", &json!({"command": format!("a\nb{HOSTILE}")})),
        tool_end("c1", "denied"),
        tool("c2", "Write", "edit", &json!({"file_path": HOSTILE})),
        json!({"type": "tool_finished", "id": "c2", "status": "failed",
            "output": {"text": format!("\n{HOSTILE}"), "bytes": 9}}),
        json!({"type": "files_touched", "seen_by": "git", "files": [{"path": HOSTILE, "operation": "write"}]}),
        json!({"type": "status", "status": HOSTILE}),
        json!({"type": "retrying", "category": "server", "message": HOSTILE}),
        text("m1", &format!("Answer {HOSTILE}\n\tend")),
        json!({"type": "message_finished", "message": "m1", "phase": "final"}),
        json!({"type": "unrecognized", "reason": "noise", "head": {"text": HOSTILE, "bytes": 9}}),
        json!({"type": "turn_ended", "outcome": "failed", "failure": failure}),
    ]);
    let every = every_kind().into_iter().map(|event| {
        let line = serde_json::to_string(&event).expect("plain data");
        // Words are replaced wherever a foreign string may stand; what is a closed set of words stays.
        let hostile = serde_json::to_string(HOSTILE).expect("a string");
        let line = [
            r#""slow down""#,
            r#""careful""#,
            r#""sleep 300""#,
            r#""torn tail""#,
            r#""overloaded""#,
            r#""db""#,
        ]
        .iter()
        .fold(line, |line, word| line.replace(word, &hostile));
        serde_json::from_str(&line).expect("still an event")
    });
    events.extend(every);
    events
}

#[test]
fn hostile_text_reaches_no_terminal() {
    for streams in [Streams::Terminal(80), Streams::Coloured(80), Streams::Redirected(80)] {
        let pieces = Show::of(hostile(), streams).detail(DetailLevel::Everything).pieces();
        for to in [PieceStream::Stdout, PieceStream::Stderr] {
            if to == PieceStream::Stdout && matches!(streams, Streams::Redirected(_)) {
                continue;
            }
            let mut left = text_of(&pieces, to).replace("\r\x1b[K", "").replace("\x08\x08\x1b[K", "");
            for colour in ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"] {
                left = left.replace(colour, "");
            }
            let bad = left.find(|c: char| {
                (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c)
            });
            assert_eq!(bad.map(|at| &left[at..]), None);
        }
    }
}

#[test]
fn hostile_text_is_shown_for_what_it_is() {
    let events = hostile();
    check("hostile", &Show::of(events[..15].to_vec(), Streams::Terminal(80)).screen());
}

/// A table is shown before the question that follows it, and is not torn by a remark in its middle.
#[test]
fn a_table_is_whole_and_comes_before_what_follows_it() {
    let asked = json!({"type": "approval_asked", "id": "a1", "category": "shell", "risk": "med",
        "summary": "rm x", "options": [], "enforced_by": "agent"});
    let events = made(&[
        began(),
        text("m", "| a | b |\n|---|---|\n| 1 "),
        json!({"type": "notice", "level": "warn", "text": "slow"}),
        text("m", "| 2 |\n"),
        asked,
    ]);
    let mut show = Show::of(events, Streams::Terminal(40));
    show.renders = true;
    let shown = show.screen_at(5);
    let rows: Vec<&str> = shown.lines().filter(|row| !row.is_empty()).collect();
    assert_eq!(rows[..4], ["warning: slow", "a  b", "─  ─", "1  2"], "{shown}");
    assert!(rows[4].ends_with("waiting for approval: rm x"), "{shown}");
}

#[test]
fn a_file_gets_the_answer_as_it_was_written() {
    let show = Show::of(made(&[began(), text("m", HOSTILE), done()]), Streams::Redirected(80));
    assert_eq!(show.stream(PieceStream::Stdout), format!("{HOSTILE}\n"));
}

#[test]
fn tools_in_parallel_end_in_their_own_time() {
    let events = made(&[
        began(),
        text("m1", "I look at three things."),
        tool("a", "Bash", "execute", &json!({"command": "cargo test --workspace"})),
        tool("b", "Read", "read", &json!({"path": "src/main.rs"})),
        tool(
            "c",
            "WebFetch",
            "fetch",
            &json!({"url": "https://example.com/a/very/long/path/that/goes/on/and/on"}),
        ),
        tool_end("b", "completed"),
        json!({"type": "tool_finished", "id": "a", "status": "failed", "exit_code": 101}),
        tool_end("c", "cancelled"),
        tool("d", "Agent", "agent", &json!({"description": "look around"})),
        json!({"type": "tool_started", "id": "e", "name": "Grep", "kind": "search", "owner": "cli", "parent": "d",
            "input": {"pattern": "fn main"}}),
        tool_end("e", "completed"),
        tool_end("d", "completed"),
        text("m2", "One test fails."),
        done(),
    ]);
    let show = Show::of(events, Streams::Terminal(60));
    check("parallel_running", &show.screen_at(6));
    check("parallel", &show.screen());
}

#[test]
fn refusals_are_gathered_by_what_would_allow_them() {
    let events = |answer: &str| {
        made(&[
            began(),
            tool("a", "Write", "edit", &json!({"file_path": "notes.md"})),
            tool_end("a", "denied"),
            tool("b", "Edit", "edit", &json!({"file_path": "src/a.rs"})),
            tool_end("b", "denied"),
            tool("c", "Bash", "execute", &json!({"command": "npm test"})),
            json!({"type": "approval_asked", "id": "p1", "category": "shell", "risk": "med", "summary": "npm test",
                "tool": "c", "enforced_by": "agent"}),
            json!({"type": "approval_decided", "id": "p1", "decision": "deny", "by": answer, "enforced_by": "agent"}),
            tool_end("c", "denied"),
            tool("d", "Bash", "execute", &json!({"command": "npm test"})),
            tool_end("d", "denied"),
            text("m", "I was not allowed to."),
            done(),
        ])
    };
    check("refusals", &Show::of(events("timeout"), Streams::Terminal(80)).screen());
    let mut show = Show::of(events("human"), Streams::Pipes);
    show.permission = PermissionMode::Edit;
    check("refusals_by_a_person", &show.both());
}

#[test]
fn files_time_tokens_and_cost() {
    let touched = |by: &str, path: &str, operation: &str| json!({"type": "files_touched", "seen_by": by, "files": [{"path": path, "operation": operation}]});
    let events = made(&[
        json!({"type": "session_started", "model": "gpt-7", "cwd": "/home/u/proj"}),
        began(),
        text("m", "Done.\n"),
        touched("agent", "/home/u/proj/src/main.rs", "write"),
        touched("git", "src/main.rs", "write"),
        touched("git", "src/new.rs", "create"),
        touched("git", "old.txt", "delete"),
        json!({"type": "unrecognized", "reason": "noise", "head": {"text": "DEBUG hello", "bytes": 11}}),
        json!({"type": "usage_reported", "usage": {"input": 1, "output": 2, "cache_read": 0, "cache_write": 0},
            "basis": "per_turn", "source": "estimated"}),
        done(),
    ]);
    check("footer", &Show::of(events, Streams::Terminal(80)).screen());
}

#[test]
fn the_footer_leaves_out_fields_with_all_details_too() {
    let events = || {
        made(&[
            json!({"type": "session_started", "model": "gpt-7-with-a-name-of-some-length", "cwd": "/w"}),
            began(),
            text("m", "Done.\n"),
            done(),
        ])
    };
    let footer = |columns: u16| {
        let show = Show::of(events(), Streams::Terminal(columns)).detail(DetailLevel::Verbose);
        let screen = show.screen();
        let line = screen.lines().find(|line| line.contains("gpt-7") && line.contains("$0.0123"));
        line.expect("a footer in one line").trim_end().to_owned()
    };
    let (wide, narrow) = (footer(120), footer(80));
    assert!(wide.contains(" (800 cached), "), "{wide}");
    assert!(!narrow.contains("cached") && narrow.chars().count() <= 80, "{narrow}");
}

#[test]
fn a_crash_shows_the_last_words_of_the_agent() {
    let failure = json!({"category": "unknown", "code": "crashed", "message": "the agent ended by signal 11",
        "retry": false, "fallback": true, "exit": {"signal": 11},
        "stderr_tail": "one\ntwo\nthree\nfour\n\nfive\nSegmentation fault\n"});
    let events = made(&[
        began(),
        text("m", "I was about to"),
        tool("a", "Bash", "execute", &json!({"command": "make"})),
        json!({"type": "turn_ended", "outcome": "failed", "failure": failure, "running_tools": ["a"]}),
    ]);
    check("crashed", &Show::of(events, Streams::Terminal(80)).screen());
}

#[test]
fn silence_in_the_middle_of_a_line_spins_behind_it() {
    let show =
        Show::of(made(&[began(), text("m", "Let me th"), text("m", "ink."), done()]), Streams::Terminal(80));
    assert!(show.screen_at(2).ends_with("Let me th ⠋"), "{:?}", show.screen_at(2));
    assert!(show.screen().starts_with("Let me think.\n\n"), "{:?}", show.screen());
    // No room behind the text: nothing is shown, and nothing is broken.
    let show = Show::of(show.events, Streams::Terminal(12));
    assert_eq!(show.screen_at(2), "Let me th");
}

#[test]
fn silence_at_the_start_spins() {
    let show = Show::of(made(&[began()]), Streams::Terminal(80));
    assert_eq!(show.screen_at(0), "⠏ starting (0 s)");
    assert_eq!(show.screen_at(1), "⠴ working (1 s)");
    let pipe = Show::of(made(&[began()]), Streams::Pipes);
    assert_eq!(pipe.until(1), []);
}

#[test]
fn stopping_is_told_at_once() {
    for (streams, shown) in [
        (Streams::Terminal(80), "Half an ans\n\ncancelling; Ctrl-C again kills the agent"),
        (Streams::Redirected(80), "cancelling; Ctrl-C again kills the agent"),
    ] {
        let show = Show::of(made(&[began(), text("m", "Half an ans")]), streams);
        let (mut renderer, mut pieces) = (show.renderer(), Vec::new());
        for event in &show.events {
            pieces.extend(renderer.event(event, event.at));
        }
        pieces.extend(renderer.interrupted(Interrupt::First, start()));
        assert_eq!(show.on_terminal(&pieces), shown);
        pieces.extend(renderer.interrupted(Interrupt::Second, start()));
        assert!(show.on_terminal(&pieces).ends_with("killing the agent"));
        let end = made(&[json!({"type": "turn_ended", "outcome": "cancelled"})]);
        pieces.extend(renderer.event(&end[0], end[0].at));
        pieces.extend(renderer.finish(&summary(start().after(Millis(1500)))));
        let screen = show.on_terminal(&pieces);
        assert!(screen.contains("cancelled; the answer so far is kept\n1.5 s · s-7f3a"), "{screen}");
        assert!(!screen.contains("killing"), "{screen}");
    }
}

#[test]
fn a_dumb_terminal_is_not_drawn_upon() {
    let show =
        Show::of(made(&[began(), tool("a", "Bash", "execute", &json!({})), done()]), Streams::Terminal(80));
    let mut renderer = show.renderer();
    let dumb = crate::human::Surface::terminal(80, Some("dumb"), true);
    let screen = crate::human::Screen { stdout: dumb, stderr: dumb, ..crate::human::Screen::PIPES };
    renderer.canvas = crate::human::canvas::Canvas::new(screen, show.glyphs);
    let mut pieces = Vec::new();
    for event in &show.events {
        pieces.extend(renderer.event(event, event.at));
        pieces.extend(renderer.tick(event.at.after(Millis(3000))));
    }
    assert_eq!(text_of(&pieces, PieceStream::Stderr), "– Bash: did not finish\n");
}

#[test]
fn the_width_may_change() {
    let show = Show::of(made(&[began()]), Streams::Terminal(80));
    let mut renderer = show.renderer();
    renderer.resize(20);
    let long = made(&[tool("a", "Bash", "execute", &json!({"command": "x".repeat(100)}))]);
    let pieces = renderer.event(&long[0], long[0].at);
    let line = text_of(&pieces, PieceStream::Stderr);
    assert_eq!(super::super::words::width(&line), 19, "{line:?}");
}

#[test]
fn a_retry_is_over_when_the_agent_gets_on() {
    let retry = json!({"type": "retrying", "attempt": 2, "max_attempts": 10, "delay_ms": 4000,
        "category": "server", "message": "server_error"});
    for (next, after) in [
        (tool("a", "Bash", "execute", &json!({"command": "make"})), "Bash make"),
        (text("m", "Well"), "Well"),
        (json!({"type": "thinking_delta", "message": "m", "block": 0, "text": "hm"}), "thinking"),
    ] {
        let show = Show::of(made(&[began(), retry.clone(), next]), Streams::Terminal(80));
        assert_eq!(show.screen_at(2), "… retrying (2 of 10) in 3 s: server_error");
        let screen = show.screen_at(3);
        assert!(screen.contains(after) && !screen.contains("retrying"), "{screen:?}");
    }
}

#[test]
fn a_limit_that_is_waited_for_is_counted_down() {
    let failure = json!({"category": "rate_limit", "code": "rate_limited", "message": "429", "retry": true,
        "fallback": false});
    let mut events = made(&[
        began(),
        json!({"type": "turn_ended", "outcome": "failed", "failure": failure}),
        json!({"type": "session_ended", "reason": "exited"}),
        json!({"type": "retrying", "attempt": 1, "delay_ms": 14_400_000, "category": "rate_limit", "message": "429"}),
    ]);
    events[3].source = bowline_protocol::Source::Bowline;
    let screen = Show::of(events.clone(), Streams::Terminal(80)).screen_at(4);
    let (first, countdown) = screen.split_once('\n').expect("two lines");
    assert!(first.starts_with("waiting for the limit, which resets at "), "{first}");
    assert!(first.ends_with(" (in 4 h)"), "{first}");
    assert_eq!(countdown, "… retrying (1) in 3 h 59 min: 429");

    // Where nothing can be drawn, it is a line when it begins and a line when it is over, and none of a short retry.
    let said = |events: &[Event]| {
        let show = Show::of(events.to_vec(), Streams::Pipes);
        let pieces = show.until(events.len());
        text_of(&pieces, PieceStream::Stderr)
    };
    let spawned = json!({"type": "process_spawned", "pid": 7, "program": "a", "transport": "pipe"});
    let at = events[3].at;
    events.extend(made(&[spawned]).into_iter().map(|it| Event { at, ..it }));
    let (first, last) = (first.to_owned(), "the wait for the limit is over: continuing");
    assert_eq!(said(&events), format!("{first}\n{last}\n"));
    if let Kind::Retrying(retrying) = &mut events[3].kind {
        (retrying.max_attempts, retrying.delay_ms) = (Some(2), Some(bowline_protocol::Millis(900)));
    }
    assert_eq!(said(&events), "");
    if let Kind::Retrying(retrying) = &mut events[3].kind {
        retrying.delay_ms = Some(bowline_protocol::Millis(20_000));
    }
    assert_eq!(said(&events), "retrying in 20 s (rate limit)\n", "a long one looks as if nothing happened");
}

#[test]
fn text_is_not_torn_by_a_tool_that_runs_beside_it() {
    let show = Show::of(
        made(&[
            began(),
            tool("a", "Bash", "execute", &json!({"command": "sleep 9"})),
            text("m", "This takes "),
            json!({"type": "tool_updated", "id": "a", "title": "still asleep"}),
            text("m", "a while."),
            tool_end("a", "completed"),
            done(),
        ]),
        Streams::Terminal(80),
    );
    assert!(show.screen_at(4).starts_with("This takes "), "{:?}", show.screen_at(4));
    assert!(
        show.screen().starts_with("This takes a while.\n\n✓ Bash sleep 9 (2 s)\n"),
        "{:?}",
        show.screen()
    );
}

#[test]
fn a_terminal_whose_standard_error_goes_to_a_file_shows_the_answer_only() {
    let events = made(&[
        began(),
        text("m1", "One."),
        tool("a", "Bash", "execute", &json!({"command": "make"})),
        tool_end("a", "completed"),
        json!({"type": "notice", "level": "warn", "text": "careful"}),
        text("m2", "Two."),
        done(),
    ]);
    let show = Show::of(events, Streams::Logged(80));
    assert_eq!(show.screen(), "One.\nTwo.");
    assert_eq!(show.stream(PieceStream::Stdout), "One.\nTwo.\n");
    assert_eq!(show.stream(PieceStream::Stderr), "warning: careful\n");
}
