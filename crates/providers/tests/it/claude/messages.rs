//! Messages of Claude Code: pieces, wholes, commentary.

use super::*;

#[test]
fn an_older_version_that_begins_again_takes_back_what_it_streamed() {
    let stop = stream(&json!({"type": "message_stop"}));
    let output = lines(&[
        INIT,
        &message_start("a"),
        &piece("half an ans"),
        &message_start("b"),
        &piece("an answer"),
        &says("b", "an answer"),
        &stop,
        &result(json!({"result": "an answer"})),
    ]);
    let run = summary(&output);
    assert_eq!((&run["text"], &run["all_text"]), (&json!("an answer"), &json!("an answer")));
}

#[test]
fn a_block_that_says_more_than_its_pieces_adds_the_rest() {
    let output = lines(&[
        INIT,
        &message_start("a"),
        &piece("an "),
        &says("a", "an answer"),
        &result(json!({"result": "an answer"})),
    ]);
    assert_eq!(summary(&output)["all_text"], "an answer");
}

#[test]
fn blocks_of_one_message_join_and_messages_do_not() {
    let output = lines(&[
        INIT,
        &says("a", "one, "),
        &says("a", "two"),
        &says("b", "three"),
        &result(json!({"result": "three"})),
    ]);
    assert_eq!(summary(&output)["text"], "one, two\nthree");
}

#[test]
fn what_is_said_before_a_tool_is_commentary() {
    let output = lines(&[
        INIT,
        &says("a", "let me look"),
        &calls("a", "t", "Read"),
        &says("b", "found"),
        &result(json!({"result": "found"})),
    ]);
    let phases: Vec<Phase> = events(&output)
        .iter()
        .filter_map(
            |event| if let Kind::MessageFinished(done) = &event.kind { Some(done.phase) } else { None },
        )
        .collect();
    assert_eq!(phases, [Phase::Commentary, Phase::Final]);
    assert_eq!(summary(&output)["text"], "found");
    // Unless the program itself says that it is the answer.
    let output =
        lines(&[INIT, &says("a", "done"), &calls("a", "t", "Bash"), &result(json!({"result": "done"}))]);
    assert_eq!(summary(&output)["text"], "done");
}

#[test]
fn structured_output_is_the_answer_when_nothing_else_is() {
    let output = lines(&[
        INIT,
        &calls("a", "t", "StructuredOutput"),
        &result(json!({"result": "", "structured_output": {"name": "x"}})),
    ]);
    assert_eq!(summary(&output)["text"], r#"{"name":"x"}"#);
}

#[test]
fn an_answer_that_was_cut_goes_on_in_the_next_message() {
    let again = r#"{"type":"user","isSynthetic":true,"message":{"role":"user","content":"Output token limit hit. Resume directly."}}"#;
    let end = result(json!({"result": "the other", "stop_reason": "max_tokens"}));
    let output = lines(&[INIT, &says("a", "one half"), again, &says("b", "the other"), &end]);
    let stops: Vec<_> = events(&output)
        .iter()
        .filter_map(|event| if let Kind::TurnEnded(ended) = &event.kind { ended.stop } else { None })
        .collect();
    assert_eq!(summary(&output)["text"], "one half\nthe other");
    assert_eq!(stops, [bowline_protocol::kinds::StopReason::MaxTokens]);
}
