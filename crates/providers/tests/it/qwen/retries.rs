//! Retries of Qwen Code: their text, and their notices.

use super::*;

#[test]
fn retries_do_not_double_the_text() {
    let text_block = block(&json!({"type": "text", "text": ""}));
    let begin = [init(), start("a"), text_block];
    let finish = |whole: &str| [stop(), said("a", whole, 3), message_stop(), success(whole)];
    let all = |middle: &[Value], whole: &str| lines(&[&begin, middle, &finish(whole)].concat());
    for (middle, whole, expect) in [
        (
            vec![piece("first half "), retry(true), piece("first half "), piece("and more")],
            "first half first half and more",
            "first half and more",
        ),
        (
            vec![piece("first half "), retry(true), piece("first "), retry(true), piece("first half end")],
            "first half first first half end",
            "first half end",
        ),
        (vec![piece("one "), retry(true), piece("two")], "one two", "one two"),
        (vec![piece("wrong "), retry(false), piece("right")], "wrong right", "right"),
        (
            vec![piece("first half "), retry(false), piece("first half "), retry(false), piece("all")],
            "first half first half all",
            "all",
        ),
    ] {
        let stdout = all(&middle, whole);
        assert_eq!(text("qwen", &stdout), expect, "{whole}");
    }
    let whole = lines(&[
        init(),
        retry(true),
        retry(true),
        said("a", "half half half ", 0),
        success("half half half "),
    ]);
    assert_eq!(text("qwen", &whole), "half ");
    let failed = "half half [API Error: terminated]";
    let stdout = lines(&[init(), retry(false), said("a", failed, 0), error("[API Error: terminated]")]);
    let summary = Run::of("qwen", &stdout).exit(1).summary();
    assert_eq!(
        (summary["text"].as_str(), failure(&summary).as_str()),
        (Some("half "), "network/connection_lost")
    );
}

#[test]
fn a_retry_takes_back_messages_that_came_whole() {
    let said = |id: &str, text: &str| {
        json!({"type": "assistant", "message": {"id": id, "role": "assistant",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}})
    };
    let done = json!({"type": "result", "subtype": "success", "is_error": false, "result": "whole answer"});
    for id in ["a", "b"] {
        let stdout =
            lines(&[init(), said("a", "half an"), retry(false), said(id, "whole answer"), done.clone()]);
        let run = Run::of("qwen", &stdout);
        assert_eq!((run.text().as_str(), run.outcome().as_str()), ("whole answer", "completed"), "{id}");
    }
    // Where the program says that the text stays, it does.
    let stdout = lines(&[init(), said("a", "one"), retry(true), said("b", "two"), done.clone()]);
    assert!(Run::of("qwen", &stdout).text().starts_with("one"), "kept");
    // What stands before a tool's result belongs to a request that was answered.
    let result = json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}});
    let stdout = lines(&[
        init(),
        said("a", "first"),
        result,
        said("b", "half"),
        retry(false),
        said("c", "last"),
        done,
    ]);
    let text = Run::of("qwen", &stdout).text();
    assert!(text.contains("first") && text.contains("last") && !text.contains("half"), "{text}");
}

#[test]
fn a_version_that_prints_text_whatever_it_is_asked_for_has_answered() {
    // The adapter protocol's own example.
    let text = "The answer is 42.\n\nIt follows from the question.\n";
    let decode = |output: &str, exit: i32| {
        let mut run = Run::of("qwen", output).exit(exit);
        run.shape = Shape::Lines;
        (run.outcome(), run.text())
    };
    assert_eq!(decode(text, 0), ("completed".into(), text.trim().into()));
    assert_eq!(decode(text, 1).0, "failed");
    // Noise before the first line of JSON stays noise.
    let noisy = format!(
        "warming up\n{}",
        lines(&[init(), json!({"type": "result", "subtype": "success", "is_error": false, "result": "hi"})])
    );
    assert_eq!(decode(&noisy, 0), ("completed".into(), "hi".into()));
    // What is longer than can be held is not taken for an answer.
    let long = "x\n".repeat(800_000);
    assert_eq!(decode(&long, 0).0, "failed");
}

#[test]
fn retries_are_told_once_and_name_what_is_retried_at_the_deadline() {
    let stderr = "Retrying in 60s (attempt 1/10): [API Error: 429 Rate limit reached. Please try again in 2s.]\nRetrying provider attempt (0 buffered tool call(s) discarded).\n";
    let told = json!({"type": "system", "subtype": "retry", "data": {"reason": "retry", "attempt": 1, "maxRetries": 10,
        "delayMs": 60000, "discardedToolCalls": 0, "preserveText": false}});
    for stdout in [lines(&[init(), told]), String::new()] {
        let mut run = Run::of("qwen", &stdout).signal(9).stderr(stderr);
        run.end.cause = Cause::TimedOut;
        let summary = run.summary();
        assert_eq!(failure(&summary), "rate_limit/gave_up_waiting");
        assert_eq!(summary["failure"]["retry_after_ms"], 2000);
        let retries: Vec<_> = run
            .events()
            .into_iter()
            .filter_map(|event| if let Kind::Retrying(retrying) = event.kind { Some(retrying) } else { None })
            .collect();
        assert_eq!(retries.len(), 1);
        let numbers = (retries[0].attempt, retries[0].max_attempts, retries[0].delay_ms.map(|delay| delay.0));
        assert_eq!(numbers, (Some(1), Some(10), Some(60_000)));
    }
}
