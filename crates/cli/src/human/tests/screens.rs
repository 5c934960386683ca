//! Recordings on a terminal: what is left on the screen, and what is there while it runs.

use super::support::{Show, Streams, all, check, terminal, type_in};
use crate::human::{DetailLevel, PieceStream};

/// On a terminal of 80 columns, in the end.
fn ends(name: &str, recording: &str) {
    check(name, &Show::recorded(recording, Streams::Terminal(80)).screen());
}

#[test]
fn a_streamed_answer() {
    ends("streamed", "claude/2.1.325/stream-json-partial");
}

#[test]
fn tools_one_line_each() {
    ends("tools", "claude/2.1.325/tool-multi");
    ends("tools_edit", "opencode/1.18.33/tool-edit");
    ends("tools_failed", "claude/2.1.325/tool-error-exit3");
    ends("tools_in_a_shell", "codex/0.166.0/exec-tool-workspace-write");
}

#[test]
fn what_was_refused_and_what_would_allow_it() {
    ends("refused_by_mode", "gemini/0.61.0/tool-default-denied");
    ends("refused_by_host", "claude/2.1.325/bidi-perm-deny");
}

#[test]
fn a_retry_that_went_well_leaves_only_a_figure() {
    ends("retried", "claude/2.1.325/err-flaky-recovers");
}

#[test]
fn a_retry_is_shown_while_it_lasts() {
    let show = Show::recorded("claude/2.1.325/err-flaky-recovers", Streams::Terminal(80));
    let retry = show.events.iter().position(|event| event.kind.type_name() == "retrying").expect("a retry");
    check("retrying", &show.screen_at(retry + 1));
}

#[test]
fn a_limit_says_when_it_ends() {
    ends("limit", "claude/2.1.325/oauth-token-env-usage-limit");
    ends("too_many_requests", "copilot/1.0.102/err429");
}

#[test]
fn compacting_is_shown_and_cleared() {
    ends("compacted", "claude/2.1.325/compact-auto");
    let show = Show::recorded("claude/2.1.325/compact-auto", Streams::Terminal(80));
    let compacting = show.events.iter().position(|event| {
        event.kind.type_name() == "status" && format!("{:?}", event.kind).contains("compacting")
    });
    check("compacting", &show.screen_at(compacting.expect("a compaction") + 1));
}

#[test]
fn withdrawn_text_is_marked() {
    ends("withdrawn", "claude/2.1.325/err-midstream-error");
}

#[test]
fn sub_agents_are_not_the_answer() {
    ends("sub_agent", "claude/2.1.325/subagent-forward-text");
    let show = Show::recorded("claude/2.1.325/subagent-forward-text", Streams::Terminal(80));
    check("sub_agent_verbose", &show.detail(DetailLevel::Verbose).screen());
}

#[test]
fn a_cancelled_run_keeps_what_it_has() {
    ends("cancelled", "claude/2.1.325/tool-running-sigint");
    ends("cancelled_early", "pi/0.87.1/hang-sigint");
}

#[test]
fn a_tool_is_shown_while_it_runs() {
    let show = Show::recorded("claude/2.1.325/tool-sleep20-full", Streams::Terminal(80));
    let tool = show.events.iter().position(|event| event.kind.type_name() == "tool_started").expect("a tool");
    check("tool_running", &show.screen_at(tool + 1));
}

#[test]
fn thinking_is_off_unless_wanted() {
    ends("thinking", "claude/2.1.325/thinking-stream-partial");
    let show = Show::recorded("claude/2.1.325/thinking-stream-partial", Streams::Terminal(80));
    check("thinking_verbose", &show.detail(DetailLevel::Verbose).screen());
}

#[test]
fn everything() {
    let show = Show::recorded("claude/2.1.325/tool-bash-allowed", Streams::Terminal(80));
    check("everything", &show.detail(DetailLevel::Everything).screen());
}

#[test]
fn a_narrow_terminal() {
    check("narrow", &Show::recorded("claude/2.1.325/tool-multi", Streams::Terminal(24)).screen());
}

#[test]
fn without_utf_8() {
    check(
        "ascii",
        &Show::recorded("claude/2.1.325/tool-error-exit3", Streams::Terminal(80)).ascii().screen(),
    );
}

#[test]
fn colours() {
    let show = Show::recorded("gemini/0.61.0/tool-default-denied", Streams::Coloured(80));
    let shown = show.stream(PieceStream::Stderr).replace('\x1b', "␛").replace('\r', "␍");
    let last = shown.rsplit("␍␛[K").next().unwrap_or_default();
    check("colours", last);
}

#[test]
fn no_recording_leaves_a_status_behind() {
    for (name, events) in all() {
        for width in [80, 20, 1] {
            let screen = Show::of(events.clone(), Streams::Terminal(width)).screen();
            let spins = |c: char| ('\u{2800}'..='\u{28FF}').contains(&c);
            assert!(!screen.contains(spins), "{name}: the spinner is still there:\n{screen}");
            assert!(!screen.contains("… retrying"), "{name}: a status is still there:\n{screen}");
        }
    }
}

#[test]
fn lines_begin_where_a_line_begins_and_text_goes_on_where_it_stopped() {
    for (name, events) in all() {
        for (width, renders) in [(80, false), (20, false), (80, true), (20, true)] {
            let mut show = Show::of(events.clone(), Streams::Terminal(width));
            show.renders = renders;
            let (mut terminal, mut text_end) = (terminal(width), 0);
            for piece in show.pieces() {
                let text = String::from_utf8(piece.bytes.clone()).expect("text");
                match piece.to {
                    PieceStream::Stdout => {
                        let column = terminal.screen().cursor_position().1;
                        assert!(
                            column == 0 || column == text_end,
                            "{name}: {text:?} at {column}, not {text_end}"
                        );
                        type_in(&mut terminal, &text);
                        text_end = terminal.screen().cursor_position().1;
                    }
                    PieceStream::Stderr => {
                        let mut rest = text.as_str();
                        for (erase, length) in [("\r\x1b[K", 4), ("\x08\x08\x1b[K", 5), ("\n", 1), ("\n", 1)]
                        {
                            if rest.starts_with(erase) {
                                type_in(&mut terminal, &rest[..length]);
                                rest = &rest[length..];
                            }
                        }
                        let column = terminal.screen().cursor_position().1;
                        let spins = rest.starts_with(' ') && rest.chars().count() >= 2;
                        assert!(column == 0 || rest.is_empty() || spins, "{name}: {text:?} at {column}");
                        type_in(&mut terminal, rest);
                    }
                }
            }
        }
    }
}
