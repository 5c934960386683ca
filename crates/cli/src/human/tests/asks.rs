//! Requests that the person decides, on a terminal in memory.

use bowline_protocol::{Millis, SessionOrder, Timestamp};
use serde_json::{Value, json};

use super::support::{Show, Streams, check, made, start};
use crate::human::{AskTyping, OutputPiece, Renderer};

/// A run on a terminal, in which the person is asked.
struct AskedRun {
    show: Show,
    renderer: Renderer,
    pieces: Vec<OutputPiece>,
    now: Timestamp,
}

impl AskedRun {
    fn of(kinds: &[Value]) -> Self {
        let show = Show::of(made(kinds), Streams::Terminal(80));
        let (renderer, now) = (show.renderer(), start());
        let mut run = Self { show, renderer, pieces: Vec::new(), now };
        run.renderer.ask(AskTyping::Keys);
        run.play(0);
        run
    }

    /// Shows the events from this one on as one batch.
    fn play(&mut self, from: usize) {
        for event in &self.show.events[from..] {
            self.now = event.at;
            self.pieces.extend(self.renderer.event(event, event.at));
        }
        self.pieces.extend(self.renderer.ask_next(self.now));
    }

    fn then(&mut self, kinds: &[Value]) {
        let from = self.show.events.len();
        self.show.events.extend(made(kinds));
        self.play(from);
    }

    fn waits(&mut self, millis: u64) {
        for _ in 0..millis / 100 {
            self.now = self.now.after(Millis(100));
            self.pieces.extend(self.renderer.tick(self.now));
        }
    }

    fn types(&mut self, text: &str) -> Option<SessionOrder> {
        let (pieces, order) = self.renderer.typed(text.as_bytes(), self.now);
        self.pieces.extend(pieces);
        order
    }

    fn screen(&self) -> String {
        self.show.on_terminal(&self.pieces)
    }
}

const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}evil\r\u{8}";

fn command(id: &str, command: &str) -> Value {
    json!({"type": "approval_asked", "id": id, "category": "shell", "risk": "high", "summary": "clean up",
        "input": {"command": command, "cwd": "/w/sub"}, "rule": "Bash(rm:*)", "enforced_by": "agent",
        "deadline": start().after(Millis(60_000)).to_string()})
}

fn decided(id: &str, decision: &str, by: &str) -> Value {
    json!({"type": "approval_decided", "id": id, "decision": decision, "by": by, "enforced_by": "agent"})
}

#[test]
fn a_command_is_shown_whole_and_explained() {
    let mut run = AskedRun::of(&[
        json!({"type": "session_started", "cwd": "/w", "provider": "knot"}),
        command("a1", "rm -r old\necho done"),
        command("a2", "ls"),
    ]);
    run.waits(1_000);
    check("ask_command", &run.screen());
    run.types("?");
    check("ask_explained", &run.screen());
}

#[test]
fn an_edit_is_shown_with_its_change() {
    let input = json!({"file_path": "/w/a.rs", "old_string": "one\ntwo\n", "new_string": "one\n2\nthree\n"});
    let run = AskedRun::of(&[
        json!({"type": "session_started", "cwd": "/w", "provider": "knot"}),
        json!({"type": "tool_started", "id": "c1", "name": "Edit", "kind": "edit", "owner": "cli", "input": input}),
        json!({"type": "approval_asked", "id": "a1", "category": "edit", "risk": "med", "summary": "change files",
            "tool": "c1", "enforced_by": "agent", "options": [
                {"id": "y", "label": "Yes", "effect": "allow_once"}, {"id": "n", "label": "No", "effect": "reject_once"}]}),
    ]);
    check("ask_edit", &run.screen());
}

#[test]
fn a_question_is_answered_by_number_or_in_words() {
    let asked =
        json!({"type": "question_asked", "id": "q1", "text": "Which colour?", "choices": ["Red", "Blue"]});
    let mut run = AskedRun::of(&[asked]);
    run.waits(500);
    assert_eq!(run.types("\n"), None, "an empty line is no answer");
    assert_eq!(run.types("7\n"), None);
    check("ask_question", &run.screen());
    let reply = SessionOrder::Reply { question: Some("q1".into()), answers: vec!["Blue".to_owned()] };
    assert_eq!(run.types("2\n"), Some(reply));
    run.then(&[json!({"type": "question_answered", "id": "q1", "answers": ["Blue"]})]);
    assert!(run.screen().ends_with("answered: Blue"), "{}", run.screen());
}

#[test]
fn a_request_that_the_same_batch_settles_is_not_shown() {
    let run = AskedRun::of(&[command("a1", "ls"), decided("a1", "allow", "policy")]);
    assert!(!run.screen().contains("wants to"), "{}", run.screen());
    assert_eq!(run.renderer.waits_for_keys(), None);
}

#[test]
fn output_of_the_agent_is_shown_and_the_request_again_behind_it() {
    let mut run = AskedRun::of(&[command("a1", "ls")]);
    let notice = |text: &str| json!({"type": "notice", "level": "warn", "text": text});
    run.then(&[notice("one"), notice("two")]);
    run.waits(500);
    assert_eq!(run.screen().matches("wants to run").count(), 1, "{}", run.screen());
    run.waits(500);
    let screen = run.screen();
    assert_eq!(screen.matches("wants to run").count(), 2, "{screen}");
    assert!(screen.find("two") < screen.rfind("wants to run"), "{screen}");
    run.waits(3_000);
    assert_eq!(run.screen().matches("wants to run").count(), 2, "once: {}", run.screen());
    for (by, text) in [("withdrawn", "withdrawn by the agent"), ("human", "denied in another place")] {
        let mut run = AskedRun::of(&[command("a1", "ls")]);
        run.then(&[decided("a1", "deny", by)]);
        let screen = run.screen();
        assert!(screen.contains(&format!("{text}: clean up")) && !screen.contains("[y]"), "{screen}");
    }
}

#[test]
fn what_is_hidden_is_told_and_hostile_text_is_harmless() {
    let long: String = (0..40).map(|line| format!("echo {line}\n")).collect();
    let mut run = AskedRun::of(&[command("a1", &long)]);
    assert!(run.screen().contains("16 more lines (? shows more)"), "{}", run.screen());
    run.waits(500);
    run.types("?");
    assert!(run.screen().contains("echo 39"), "{}", run.screen());
    let asked = json!({"type": "approval_asked", "id": HOSTILE, "category": "other", "risk": "low",
        "summary": HOSTILE, "input": {"a": HOSTILE}, "rule": HOSTILE, "enforced_by": "agent"});
    let question = json!({"type": "question_asked", "id": "q", "text": HOSTILE, "choices": [HOSTILE]});
    for kind in [command("a1", HOSTILE), asked, question] {
        let mut run = AskedRun::of(&[kind]);
        run.waits(500);
        run.types("?");
        run.types("m");
        run.types(HOSTILE);
        let bytes: Vec<u8> = run.pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
        let left = String::from_utf8(bytes).expect("text").replace("\r\x1b[K", "");
        let bad =
            left.find(|c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c));
        assert_eq!(bad.map(|at| &left[at..]), None);
    }
}
