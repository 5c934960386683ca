//! The calls of the library around live sessions: watches as streams, resumes by name, records of turns, and approvals over the
//! socket.

use std::pin::Pin;
use std::task::Poll;

use bowline::journal::JournalError;
use bowline::kinds::Outcome;
use bowline::remote::{ConnectError, OrderError};
use bowline::testing::{self, World, script};
use bowline::{Category, Error, EventCursor, Fallback, Kind, OrderRefused, ResumeGap, TurnRecorder};
use futures_core::Stream;

use crate::{open, says};

/// Waits for the next item of a stream, through nothing but its trait.
async fn item<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[tokio::test]
async fn a_turn_and_its_watches_are_streams_of_the_same_events() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let mut turn = world.task("Do it").provider("claude").start().await.expect("a turn");
    let mut watch = turn.watch_from(1).expect("a journal");
    let (mut own, mut watched) = (Vec::new(), Vec::new());
    while let Some(event) = item(&mut turn).await {
        own.push(event.expect("the journal"));
    }
    let cursor = EventCursor::from(&own[2]);
    let mut late = turn.watch_after(&cursor).expect("a journal");
    turn.outcome().await.expect("a record");
    while let Some(event) = item(&mut watch).await {
        watched.push(event.expect("the journal"));
    }
    assert_eq!(own, watched);
    assert!(matches!(own.last().map(|event| &event.kind), Some(Kind::SessionEnded(_))));
    let mut rest = Vec::new();
    while let Some(event) = late.next().await.expect("the journal") {
        rest.push(event);
    }
    assert_eq!(rest, own[3..], "behind the cursor");
}

#[tokio::test]
async fn a_watch_waits_for_events_that_come_later() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let session = open(&world).await;
    let last = *session.head().borrow();
    // Far ahead of the file: the events in between are left out.
    let mut ahead = session.watch_from(last + 4).expect("a journal");
    let waiting =
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut ahead).poll_next(context).is_pending()));
    assert!(waiting.await, "there is no such event yet");
    session.send("hello").await.expect("a receipt");
    let first = ahead.next().await.expect("the journal").expect("an event");
    assert_eq!(first.seq, last + 4);
    session.stop().await.expect("a record");
}

#[tokio::test]
async fn a_turn_without_a_journal_has_no_watch_and_a_cursor_names_its_session() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let task = || world.task("Do it").provider("claude");
    let turn = task().without_journal().start().await.expect("a turn");
    assert!(matches!(turn.watch_from(1), Err(Error::NoJournal)));
    let turn = task().start().await.expect("a turn");
    let other = EventCursor { session: "s-other".into(), seq: 1 };
    assert!(matches!(turn.watch_after(&other), Err(Error::Journal(JournalError::NoSession { .. }))));
}

#[tokio::test]
async fn a_watch_spans_a_fallback() {
    let world = testing::world();
    world.provider("claude", script(r#"{"steps": [{"fail": "insufficient_quota"}]}"#));
    world.provider("codex", says("by codex"));
    let task = world.task("Do it").providers(["claude", "codex"]).fallback(Fallback::Next);
    let mut turn = task.start().await.expect("a turn");
    let mut watch = turn.watch_from(1).expect("a journal");
    let mut own = Vec::new();
    while let Some(event) = turn.try_next().await.expect("the journal") {
        own.push(event);
    }
    let second = own.iter().find(|event| event.session != own[0].session).expect("a linked session").clone();
    let mut late = turn.watch_after(&EventCursor::from(&second)).expect("a journal");
    turn.outcome().await.expect("a record");
    let mut watched = Vec::new();
    while let Some(event) = watch.next().await.expect("the journal") {
        watched.push(event);
    }
    assert_eq!(own, watched);
    assert_eq!(late.next().await.expect("the journal").map(|event| event.seq), Some(second.seq + 1));
}

/// A session with one turn, named `thread-42`.
async fn ended(world: &World, agent: testing::Script) -> bowline::SessionId {
    world.provider("claude", agent);
    let session = open(world).await;
    session.send("one").await.expect("a receipt");
    session.turn_over().await.expect("a turn");
    let id = session.id().clone();
    session.stop().await.expect("a record");
    id
}

#[tokio::test]
async fn a_session_is_resumed_by_its_name() {
    let world = testing::world();
    let id = ended(&world, says("one")).await;
    let again = bowline::resume("thread-42").with(|task| world.prepare(task)).await.expect("it goes on");
    assert_eq!(again.id(), &id);
    again.send("two").await.expect("a receipt");
    assert_eq!(again.turn_over().await.map(|it| it.turn), Ok(2));
    // Its runner lives.
    let second = bowline::resume("thread-42").with(|task| world.prepare(task)).await;
    let Err(Error::NotResumable { gap: ResumeGap::Running { pid }, .. }) = second else {
        panic!("{second:?}")
    };
    assert_eq!(pid, Some(std::process::id()));
    again.stop().await.expect("a record");
    let unknown = bowline::resume("thread-43").home(world.home()).await;
    assert!(matches!(unknown, Err(Error::NoSuchSession(_))), "{unknown:?}");
}

#[tokio::test]
async fn a_resume_is_never_a_fresh_session() {
    // Its agent has never named its session.
    let world = testing::world();
    let mute = r#"{"dialect": "text", "steps": [{"stdout_text": "hello\n"}]}"#;
    ended(&world, script(mute)).await;
    let again = bowline::resume("thread-42").with(|task| world.prepare(task)).await;
    let Err(Error::NotResumable { gap: ResumeGap::NoNativeSession, .. }) = &again else {
        panic!("{again:?}")
    };
    // Nothing was changed, and the session is closed.
    let all = bowline::registry::Registry::at(world.home());
    assert!(all.list(bowline::registry::SessionFilter::Running).expect("the sessions").is_empty());
    // The agent opens another session than the one that was resumed.
    let world = testing::world();
    ended(&world, says("one")).await;
    let other = r#"{"session": "n-2", "steps": [{"say": "who?"}, {"result": {}}]}"#;
    world.provider("claude", script(other));
    let again = bowline::resume("thread-42").with(|task| world.prepare(task)).await.expect("a session");
    again.send("two").await.expect("a receipt");
    let last = again.turn_over().await.expect("a turn");
    let record = again.turn_record(last.turn).expect("the journal").expect("the turn");
    assert_eq!(
        (record.outcome, record.failure.map(|it| it.category)),
        (Outcome::Failed, Some(Category::NotFound))
    );
}

#[tokio::test]
async fn each_turn_has_a_record() {
    let talk = r#"{"session": "n-1", "model": "big", "prompts": [
        [{"tool": {"name": "Bash", "input": {"command": "ls"}, "output": "a"}},
            {"ask": {"name": "Write", "input": {"path": "/etc/passwd"}, "denied": [{"say": "I left it."}]}},
            {"result": {"usage": {"input": 5, "output": 3}, "cost_usd": 0.25}}],
        [{"say": "Half"}, {"fail": "529 overloaded_error"}],
        [{"say": "All"}, {"result": {"usage": {"input": 7, "output": 1}, "cost_usd": 0.5}}]
    ]}"#;
    let world = testing::world();
    world.provider("claude", script(talk));
    let session = open(&world).await;
    let mut watch = session.watch_from(1).expect("a journal");
    session.send("one").await.expect("a receipt");
    loop {
        let event = watch.next().await.expect("the journal").expect("an approval");
        if let Some(approval) = session.approval(&event) {
            approval.deny("no").await.expect("it waits");
            break;
        }
    }
    assert!(session.turn_record(1).expect("the journal").is_none(), "it is not over");
    session.turn_over().await.expect("a turn");
    for prompt in ["two", "three"] {
        session.send(prompt).await.expect("a receipt");
        session.turn_over().await.expect("a turn");
    }
    let read: Vec<_> =
        (1..=3).map(|turn| session.turn_record(turn).expect("the journal").expect("the turn")).collect();
    assert!(session.turn_record(4).expect("the journal").is_none());
    let [one, two, three] = &read[..] else { panic!("three turns") };
    assert_eq!((one.outcome, one.text.as_deref(), one.tools), (Outcome::Completed, Some("I left it."), 2));
    assert_eq!((one.usage.map(|it| it.total()), one.cost_usd, one.cost), (Some(8), Some(0.25), Some(0.25)));
    assert_eq!(one.refused.iter().map(|it| it.tool.as_str()).collect::<Vec<_>>(), ["Write"]);
    assert_eq!((two.outcome, two.text.as_deref(), two.exit_code()), (Outcome::Failed, Some("Half"), 1));
    assert!(two.refused.is_empty() && two.cost_usd.is_none(), "each turn has its own: {two:?}");
    assert_eq!(
        (three.cost_usd, three.text.as_deref(), three.model.as_deref()),
        (Some(0.5), Some("All"), Some("big"))
    );
    assert!(one.last_seq < two.first_seq && two.last_seq < three.first_seq);
    session.stop().await.expect("a record");
    // The same records from a watch.
    let (mut recorder, mut seen) = (TurnRecorder::default(), Vec::new());
    let mut reader =
        bowline::journal::Reader::open(&world.home().session_dir(&one.session).expect("a name")).expect("it");
    while let Some(event) = reader.next_event().expect("the journal") {
        seen.extend(recorder.event(&event));
    }
    assert_eq!(format!("{seen:?}"), format!("{read:?}"));
}

#[tokio::test]
async fn an_approval_is_decided_once_over_the_socket() {
    let talk = r#"{"session": "n-1", "prompts": [[
        {"ask": {"name": "Bash", "input": {"command": "make"}, "allowed": [{"say": "built"}], "denied": [{"say": "not built"}]}},
        {"result": {}}
    ]]}"#;
    let world = testing::world();
    world.provider("claude", script(talk));
    let session = open(&world).await;
    session.serve().expect("a socket");
    let home = world.home();
    let unknown = bowline::attach_in(&home, "thread-43").await;
    assert!(matches!(unknown, Err(ConnectError::Name(_))), "{unknown:?}");
    let attached = bowline::attach_in(&home, "thread-42").await.expect("a connection");
    assert_eq!(attached.id(), session.id());
    let mut watch = attached.watch_from(1).expect("a journal");
    for (prompt, text) in [("one", "built"), ("two", "not built"), ("three", "not built")] {
        session.send(prompt).await.expect("a receipt");
        let (ours, theirs) = loop {
            let event = watch.next().await.expect("the journal").expect("an approval");
            if let Some(approval) = attached.approval(&event) {
                break (session.approval(&event).expect("the same"), approval);
            }
        };
        assert_eq!(theirs.command().as_deref(), Some("make"));
        match prompt {
            "one" => theirs.allow().await.expect("it waits"),
            "two" => theirs.deny("no").await.expect("it waits"),
            // Dropped without a decision.
            _ => drop(theirs),
        }
        let last = session.turn_over().await.expect("a turn");
        let again = ours.allow().await;
        assert!(
            matches!(again, Err(OrderError::Refused(OrderRefused::AlreadyDecided { .. }))),
            "{prompt}: {again:?}"
        );
        let record = attached.turn_record(last.turn).expect("the journal").expect("the turn");
        assert_eq!(record.text.as_deref(), Some(text), "{prompt}");
    }
    session.stop().await.expect("a record");
}
