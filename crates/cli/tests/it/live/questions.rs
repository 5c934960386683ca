//! Questions of the agent: shown, answered, refused when the answer is wrong, dismissed, and over with the turn or the process.

use rustix::process::{Signal, kill_process};

use super::decide::ALONE;
use super::session::{LiveWorld, Session};
use crate::pty::{Terminal, Typist};

/// A question with choices.
const QUESTION: &str = "question \"Which colour?\" red \"dark blue\"";

/// Starts a session whose agent has asked.
fn asking(live: &LiveWorld) -> Session<'_> {
    let session = live.plays(&[QUESTION, "say done"], &["--name", "fix"]);
    session.is("waiting_for_input");
    session
}

/// Returns the answers of the questions that are over.
fn answered(session: &Session<'_>) -> Vec<serde_json::Value> {
    session.of("question_answered").into_iter().map(|answered| answered["answers"].clone()).collect()
}

#[test]
fn a_question_is_shown_and_answered() {
    let live = LiveWorld::new();
    let session = asking(&live);
    let shown = session.order("status", &[]).exits(0).stdout;
    assert!(shown.contains("state     waiting for input\n"), "{shown}");
    assert!(shown.contains("question  0: Which colour? [red | dark blue]\n"), "{shown}");
    let asked = &session.status()["questions"][0];
    assert_eq!(asked["choices"], serde_json::json!(["red", "dark blue"]), "{asked}");
    let waiting = live.call(&["wait", "fix"]).start();
    waiting.tells("the session waits for your answer");
    waiting.tells("hint: `bowline status fix` shows what for");
    let late = live.end(&["wait", "fix", "--timeout", "1s"]).exits(124);
    late.tells(&["error: the session fix still waits for your answer after 1 s"]);
    session.done("answer", &["dark blue"]);
    assert_eq!(waiting.end_among_others().exits(0).stdout, "Answer: dark blue\ndone\n");
    assert_eq!(session.text(), "Answer: dark bluedone");
    assert_eq!(answered(&session), [serde_json::json!(["dark blue"])]);
    session.order("answer", &["red"]).exits(2).tells(&["there is no open question"]);
    session.stop().ended("completed");
}

#[test]
fn a_wrong_answer_is_refused_and_the_question_stays_open() {
    let live = LiveWorld::new();
    let session = asking(&live);
    session.order("answer", &["green"]).exits(1).tells(&[
        "error: not possible: the answer is none of the choices",
        "hint: the choices are red, dark blue",
    ]);
    // Two words of a shell are two answers.
    session.order("answer", &["dark", "blue"]).exits(1).tells(&["the question takes one answer"]);
    session.order("answer", &["--question", "9", "red"]).exits(2).tells(&["there is no open question `9`"]);
    let status = session.status();
    assert_eq!((&status["state"], answered(&session).len()), (&"waiting_for_input".into(), 0));
    session.done("answer", &["--question", "0", "red"]);
    session.has_played(1);
    assert_eq!(session.stop().text(), "Answer: reddone");
}

#[test]
fn a_question_is_dismissed_by_no_answer_and_by_an_interrupt() {
    let live = LiveWorld::new();
    let session = asking(&live);
    session.done("answer", &[]);
    session.has_played(1);
    assert_eq!(session.text(), "No answer.done");
    session.send(&[QUESTION, "say never"], &[]);
    session.is("waiting_for_input");
    session.done("interrupt", &[]);
    session.has_played(2);
    assert_eq!(answered(&session), [serde_json::json!([]), serde_json::json!([])], "each ends once");
    assert_eq!(session.outcomes(), ["completed", "cancelled"]);
    session.send(&["say three"], &[]);
    session.has_played(3);
    assert_eq!(session.stop().text(), "No answer.donethree");
}

#[test]
fn a_question_ends_with_the_process_that_asked_it() {
    let live = LiveWorld::new();
    let session = asking(&live);
    kill_process(session.agents()[0], Signal::KILL).expect("the agent lives");
    session.is("idle");
    assert_eq!(
        (answered(&session), session.outcomes()),
        (vec![serde_json::json!([])], vec!["failed".to_owned()])
    );
    session.order("answer", &["red"]).exits(2).tells(&["there is no open approval or question"]);
    // The next process numbers its requests anew, and its question has another id.
    session.send(&[QUESTION], &[]);
    let status = session.is("waiting_for_input");
    assert_ne!(status["questions"][0]["id"], "0");
    session.done("answer", &["red"]);
    session.has_played(2);
    assert!(session.stop().text().ends_with("Answer: red"));
}

#[test]
fn a_question_that_is_open_at_the_stop_is_over() {
    let live = LiveWorld::new();
    let session = asking(&live);
    session.order("stop", &[]).exits(0);
    session.is_gone();
    assert_eq!(answered(&session), [serde_json::json!([])]);
    session.journal().ended("cancelled");
}

#[test]
fn a_line_in_attach_answers_the_question_on_the_screen() {
    let live = LiveWorld::new();
    let session = asking(&live);
    let mut terminal = Terminal::start(&live.call(&["attach", "fix"]), ALONE, 100, Typist::Present);
    terminal.shows("Which colour?");
    terminal.shows("    2  dark blue");
    // A number that is no choice, a text that the agent does not take, and then a choice.
    terminal.answers("type a number or an answer", "3\n");
    terminal.answers("choose a number from 1 to 2", "green\n");
    terminal.answers("the answer is none of the choices", "2\n");
    terminal.shows("Answer: dark blue");
    session.has_played(1);
    terminal.types(&format!("practice: {QUESTION}\n"));
    session.is("waiting_for_input");
    terminal.answers("Which colour?", ":dismiss\n");
    session.has_played(2);
    terminal.types("\u{4}");
    let shown = terminal.end();
    assert_eq!(shown.code, Some(0), "{:#?}", shown.rows);
    assert_eq!(answered(&session), [serde_json::json!(["dark blue"]), serde_json::json!([])]);
    session.stop();
}
