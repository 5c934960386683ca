//! Recordings into pipes and files: the answer alone, and hardly a word beside it.

use bowline_protocol::Kind;
use serde_json::json;

use super::support::{Show, Streams, all, answer, check, made, summary, text_of};
use crate::human::{DetailLevel, OutputPiece, PieceStream};

fn both(name: &str, recording: &str) {
    check(name, &Show::recorded(recording, Streams::Pipes).both());
}

#[test]
fn a_pipe_gets_the_answer_and_is_told_nothing_else() {
    both("pipe", "claude/2.1.325/tool-multi");
    both("pipe_withdrawn", "claude/2.1.325/err-midstream-error");
}

#[test]
fn a_pipe_is_told_of_trouble() {
    both("pipe_refused", "gemini/0.61.0/tool-default-denied");
    both("pipe_limit", "claude/2.1.325/oauth-token-env-usage-limit");
    both("pipe_cancelled", "claude/2.1.325/tool-running-sigint");
    both("pipe_bad_flag", "claude/2.1.325/bad-flag");
}

#[test]
fn a_pipe_tells_more_when_asked() {
    let show =
        Show::recorded("claude/2.1.325/err-flaky-recovers", Streams::Pipes).detail(DetailLevel::Verbose);
    check("pipe_verbose", &show.both());
}

#[test]
fn an_answer_in_a_file_leaves_the_rest_on_the_terminal() {
    let show = Show::recorded("claude/2.1.325/tool-multi", Streams::Redirected(80));
    let shown = format!("--- stdout\n{}--- terminal\n{}\n", show.stream(PieceStream::Stdout), show.screen());
    check("redirected", &shown);
}

#[test]
fn every_recording_gives_a_pipe_the_answer_of_the_text_view() {
    for (name, events) in all() {
        let show = Show::of(events.clone(), Streams::Pipes);
        let (shown, answer) = (show.stream(PieceStream::Stdout), answer(&show.events));
        let turns = show.events.iter().filter(|event| matches!(event.kind, Kind::TurnStarted(_))).count();
        if turns == 1 {
            assert_eq!(shown, answer, "{name}");
        } else {
            // The view gives the last turn only.
            assert!(shown.ends_with(&answer), "{name}: {shown:?} does not end with {answer:?}");
        }
    }
}

#[test]
fn a_pipe_never_gets_a_control_sequence_of_ours() {
    for (name, events) in all() {
        let err = Show::of(events.clone(), Streams::Pipes)
            .detail(DetailLevel::Everything)
            .stream(PieceStream::Stderr);
        let control = err.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
        assert_eq!(control, None, "{name}: {err}");
    }
}

#[test]
fn what_is_held_of_a_message_does_not_grow_with_it() {
    let piece = "x".repeat(64 * 1024);
    let events = made(&[json!({"type": "text_delta", "message": "m", "block": 0, "text": piece})]);
    for holds in [false, true] {
        let mut renderer = Show::of(Vec::new(), Streams::Pipes).renderer();
        if holds {
            renderer.hold_answer();
        }
        let (mut said, mut printed, mut most) = (0, 0, 0);
        for _ in 0..160 {
            said += piece.len();
            printed += text_of(&renderer.event(&events[0], events[0].at), PieceStream::Stdout).len();
            most = most.max(said - printed);
        }
        assert!(most <= 3 * 1024 * 1024, "{most} bytes of {said} were held");
        printed += text_of(&renderer.finish(&summary(events[0].at)), PieceStream::Stdout).len();
        assert_eq!(printed, said + 1, "all of it, once, and the end of its line");
    }
}

#[test]
fn in_a_log_a_remark_begins_on_its_own_line() {
    let kinds = [
        json!({"type": "text_delta", "message": "m", "block": 0, "text": "Hello"}),
        json!({"type": "message_finished", "message": "m", "phase": "final"}),
        json!({"type": "notice", "level": "warn", "text": "careful"}),
        json!({"type": "text_delta", "message": "n", "block": 0, "text": "Bye\n"}),
        json!({"type": "message_finished", "message": "n", "phase": "final"}),
        json!({"type": "notice", "level": "warn", "text": "again"}),
    ];
    let log = |streams| {
        let pieces = Show::of(made(&kinds), streams).pieces();
        pieces.iter().map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect::<String>()
    };
    let together = log(Streams::Log);
    assert!(together.starts_with("Hello\nwarning: careful\nBye\nwarning: again\n"), "{together:?}");
    let apart = log(Streams::Pipes);
    assert!(apart.starts_with("Hellowarning: careful\n\nBye\n"), "two files stay as they are: {apart:?}");
}

/// A reader prints when it likes: after the erased status, and before or after any line of ours.
#[test]
fn nothing_is_drawn_where_a_reader_may_print() {
    for (name, events) in all() {
        let pieces = Show::of(events.clone(), Streams::Piped(80)).pieces();
        let text = |piece: &OutputPiece| String::from_utf8(piece.bytes.clone()).expect("text");
        let Some(first) = pieces.iter().position(|piece| piece.to == PieceStream::Stdout) else { continue };
        let before: String = pieces[..first].iter().map(text).collect();
        let clean = before.is_empty() || before.ends_with('\n') || before.ends_with("\r\u{1b}[K");
        assert!(clean, "{name}: something stands where the answer begins: {before:?}");
        for piece in &pieces[first..] {
            let text = text(piece);
            assert!(text.ends_with('\n'), "{name}: {text:?} is no whole line");
            assert!(piece.to == PieceStream::Stdout || !text.contains('\r'), "{name}: {text:?} erases");
        }
    }
}

#[test]
fn a_reader_gets_the_same_text_as_a_file() {
    for (name, events) in all() {
        let piped = Show::of(events.clone(), Streams::Piped(80)).stream(PieceStream::Stdout);
        let file = Show::of(events.clone(), Streams::Redirected(80)).stream(PieceStream::Stdout);
        assert_eq!(piped, file, "{name}");
    }
}
