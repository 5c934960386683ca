//! A session that is resumed, as an embedder sees it: each run has its own events and its own record.

use bowline_protocol::{Event, Kind, Source};

use crate::run::testing::{Script, World, script, world};
use crate::sessions::journal::{Reader, SessionMeta};
use crate::{Error, Record, ResumeGap};

/// A script of the native session `n-1` with these steps before its result.
fn plays(steps: &str) -> Script {
    script(&format!(r#"{{"session": "n-1", "steps": [{steps}, {{"result": {{}}}}]}}"#))
}

async fn resumed(world: &World, first: &Record, steps: &str) -> Record {
    world.provider("claude", plays(steps));
    let task = world.task("Go on").provider("claude").resume(first.session.as_str());
    task.run().await.unwrap()
}

fn events(record: &Record) -> Vec<Event> {
    let mut reader = Reader::open(record.journal.as_ref().unwrap()).unwrap();
    std::iter::from_fn(|| reader.next_event().unwrap()).collect()
}

#[tokio::test]
async fn a_subscriber_and_a_record_have_the_events_of_their_own_run() {
    let world = world();
    world.provider("claude", plays(r#"{"say": "one"}"#));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let before = events(&first).len() as u64;
    world.provider("claude", plays(r#"{"say": "two"}"#));
    let mut turn =
        world.task("Go on").provider("claude").resume(first.session.as_str()).start().await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = turn.try_next().await.unwrap() {
        seen.push(event);
    }
    let second = turn.outcome().await.unwrap();
    let all = events(&second);
    assert_eq!((&second.session, &second.journal), (&first.session, &first.journal));
    assert_eq!(seen, all[before as usize..], "its own events, all of them");
    assert!(all.iter().zip(1..).all(|(event, seq)| event.seq == seq), "one numbering");
    assert_eq!((first.text.as_deref(), second.text.as_deref()), (Some("one"), Some("two")));
    assert_eq!((second.tools, second.usage), (first.tools, first.usage), "the record is that of its run");
    let turns: Vec<_> =
        all.iter().filter(|it| matches!(it.kind, Kind::TurnStarted(_))).map(|it| it.turn).collect();
    assert_eq!(turns, [Some(1), Some(2)]);
}

/// Read again from the raw files, each process by its own decoder.
#[tokio::test]
async fn the_output_of_a_tool_of_each_run_is_read_again() {
    let world = world();
    let tool = |letter: &str| {
        let output = letter.repeat(100_000);
        format!(r#"{{"tool": {{"name": "bash", "input": {{}}, "output": "{output}"}}}}, {{"say": "a"}}"#)
    };
    world.provider("claude", plays(&tool("x")));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let second = resumed(&world, &first, &tool("y")).await;
    let reader = Reader::open(second.journal.as_ref().unwrap()).unwrap();
    let outputs: Vec<String> = events(&second)
        .iter()
        .filter(|event| matches!(event.kind, Kind::ToolFinished(_)))
        .map(|event| reader.tool_output(event).unwrap().unwrap())
        .collect();
    assert_eq!(outputs, ["x".repeat(100_000), "y".repeat(100_000)]);
}

#[tokio::test]
async fn an_answer_that_is_too_long_for_memory_is_that_of_its_run() {
    let world = world();
    let say = |letter: &str| format!(r#"{{"say": "{}"}}"#, letter.repeat(3_000_000));
    world.provider("claude", plays(&say("x")));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let second = resumed(&world, &first, &say("y")).await;
    let third = resumed(&world, &first, r#"{"say": "short"}"#).await;
    for (record, letter) in [(&first, 'x'), (&second, 'y')] {
        let answer = record.answer().unwrap();
        assert!(answer.len() == 3_000_000 && answer.chars().all(|it| it == letter), "{letter}");
        let object = serde_json::to_value(record).unwrap();
        assert_eq!(object["all_text"].as_str().map(str::len), Some(3_000_000), "{letter}");
    }
    assert_eq!(third.answer().unwrap(), "short");
}

#[tokio::test]
async fn a_session_that_runs_is_not_resumed_and_says_where_it_runs() {
    let world = world();
    world.provider("claude", plays(r#"{"say": "one"}"#));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let dir = first.journal.clone().unwrap();
    world.provider("claude", script(r#"{"session": "n-1", "steps": [{"say": "two"}, {"hang": true}]}"#));
    let again = || world.task("Go on").provider("claude").resume(first.session.as_str());
    let mut turn = again().start().await.unwrap();
    while !matches!(turn.next().await.unwrap().kind, Kind::TextDelta(_)) {}
    let error = again().run().await.unwrap_err();
    let Error::NotResumable { gap: ResumeGap::Running { pid }, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(error.to_string().ends_with(&format!("it runs in process {}", std::process::id())), "{error}");
    // The run that was dropped ended as killed, and its session goes on.
    drop(turn);
    while SessionMeta::read(&dir).unwrap().state != bowline_protocol::kinds::SessionState::Failed {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let last = resumed(&world, &first, r#"{"say": "three"}"#).await;
    assert!(last.is_completed());
    let all = events(&last);
    assert!(all.iter().zip(1..).all(|(event, seq)| event.seq == seq), "one numbering");
    let begun =
        |event: &&Event| event.source == Source::Bowline && matches!(event.kind, Kind::SessionStarted(_));
    let ended = all.iter().filter(|event| matches!(event.kind, Kind::SessionEnded(_))).count();
    assert_eq!((all.iter().filter(begun).count(), ended), (3, 3));
}

#[tokio::test]
async fn a_native_id_makes_a_session_of_its_own() {
    let world = world();
    world.provider("claude", plays(r#"{"say": "one"}"#));
    let first = world.task("Do it").provider("claude").run().await.unwrap();
    let before = events(&first);
    let native = world.task("Go on").provider("claude").resume("n-1").run().await.unwrap();
    assert_ne!(native.session, first.session, "the agent's own id names no session of ours");
    assert_eq!(events(&first), before);
}
