//! Live sessions through the library, with scripts in the place of agents: a process for each prompt.

mod crews;
mod forks;
mod library;
mod retries;
mod tools;

use bowline::kinds::{Outcome, SessionState};
use bowline::{Kind, OrderRefused, Receipt, SessionOrder, WhenBusy, testing};

/// An agent that names its session and says one thing.
fn says(text: &str) -> testing::Script {
    let steps = serde_json::json!({"session": "n-1", "steps": [{"say": text}, {"result": {}}]});
    testing::script(&steps.to_string())
}

async fn open(world: &testing::World) -> bowline::LiveSession {
    let session = bowline::session("claude").name("thread-42").with(|task| world.prepare(task));
    session.open().await.expect("a session")
}

#[tokio::test]
async fn a_conversation_keeps_its_id_and_its_numbering() {
    let world = testing::world();
    world.provider("claude", says("one").then(says("two")));
    let session = open(&world).await;
    assert_eq!(session.snapshot().await.expect("a snapshot").state, SessionState::Idle);
    let mut watch = session.watch_from(1).expect("a journal");
    let first = session.send("Fix the parser").await.expect("a receipt");
    assert!(matches!(first, Receipt::Started { turn: 1, .. }), "{first:?}");
    assert_eq!(session.turn_over().await.map(|it| (it.turn, it.outcome)), Ok((1, Outcome::Completed)));
    session.send("And now?").await.expect("a receipt");
    assert_eq!(session.turn_over().await.map(|it| it.turn), Ok(2));
    let (id, dir) = (session.id().clone(), session.dir().expect("a journal").to_owned());
    let record = session.stop().await.expect("a record");
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Completed, Some("two")));
    let (mut seq, mut kinds) = (0, Vec::new());
    while let Some(event) = watch.next().await.expect("the journal") {
        seq += 1;
        assert_eq!((event.seq, &event.session), (seq, &id));
        kinds.push(event.kind.type_name().to_owned());
    }
    let count = |name: &str| kinds.iter().filter(|kind| *kind == name).count();
    assert_eq!((count("session_ended"), count("process_spawned"), count("turn_ended")), (1, 2, 2));
    assert_eq!(kinds.last().map(String::as_str), Some("session_ended"));
    // The next day.
    let home = world.home();
    let again = bowline::session("claude").resume(id.as_str()).with(|task| world.prepare(task).home(home));
    let again = again.open().await.expect("the session goes on");
    assert_eq!((again.id(), again.dir()), (&id, Some(dir.as_path())));
    again.send("Still there?").await.expect("a receipt");
    assert_eq!(again.turn_over().await.map(|it| it.turn), Ok(3));
    again.stop().await.expect("a record");
}

#[tokio::test]
async fn two_watchers_read_the_same_events_at_their_own_pace() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let session = open(&world).await;
    let mut first = session.watch_from(1).expect("a journal");
    session.send("hello").await.expect("a receipt");
    session.turn_over().await.expect("a turn");
    let mut second = session.watch_from(4).expect("a journal");
    session.stop().await.expect("a record");
    let (mut all, mut some) = (Vec::new(), Vec::new());
    while let Some(event) = first.next().await.expect("the journal") {
        all.push(event);
    }
    while let Some(event) = second.next().await.expect("the journal") {
        some.push(event);
    }
    assert_eq!(some.first().map(|event| event.seq), Some(4));
    assert_eq!(all[3..], some);
}

#[tokio::test]
async fn orders_are_answered_and_prompts_wait_their_turn() {
    let world = testing::world();
    let hangs = testing::script(r#"{"session": "n-1", "steps": [{"say": "well"}, {"hang": true}]}"#);
    world.provider("claude", hangs.then(says("two")));
    let session = open(&world).await;
    session.send("one").await.expect("a receipt");
    let queued = session.send("two").await.expect("a receipt");
    assert!(matches!(queued, Receipt::Queued { ahead: 0, .. }), "{queued:?}");
    assert!(matches!(session.steer("no").await, Err(OrderRefused::NotSteerable { .. })));
    let refused = session.control().send_prompt("no", WhenBusy::Refuse).await;
    assert_eq!(refused, Err(OrderRefused::Busy));
    assert!(matches!(session.send(" ").await, Err(OrderRefused::Rejected { .. })));
    // The next prompt goes before the one that waits.
    session.control().send_prompt("now", WhenBusy::Now).await.expect("a receipt");
    let last = session.turn_over().await.expect("a turn");
    assert_eq!((last.turn, last.outcome), (3, Outcome::Completed));
    let unknown = session.control().order(SessionOrder::Dequeue { prompt: None }).await;
    assert!(matches!(unknown, Err(OrderRefused::Unknown { .. })));
    let mut watch = session.watch_from(1).expect("a journal");
    session.stop().await.expect("a record");
    let mut prompts = Vec::new();
    while let Some(event) = watch.next().await.expect("the journal") {
        if let Kind::UserMessage(message) = event.kind {
            prompts.push(message.text);
        }
    }
    assert_eq!(prompts, ["one", "now", "two"]);
}

#[tokio::test]
async fn a_queue_survives_its_runner_and_is_offered() {
    let world = testing::world();
    let hangs = testing::script(r#"{"session": "n-1", "steps": [{"say": "well"}, {"hang": true}]}"#);
    world.provider("claude", hangs);
    let session = open(&world).await;
    session.send("one").await.expect("a receipt");
    session.send("two").await.expect("a receipt");
    let id = session.id().clone();
    session.stop().await.expect("a record");
    world.provider("claude", says("sent"));
    let again = bowline::session("claude").resume(id.as_str()).with(|task| world.prepare(task));
    let again = again.open().await.expect("the session goes on");
    let offered = again.snapshot().await.expect("a snapshot").offered;
    assert_eq!(offered.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["two"]);
    let prompt = offered[0].id.clone();
    again.control().order(SessionOrder::SendOffered { prompt }).await.expect("a receipt");
    assert_eq!(again.turn_over().await.map(|it| it.turn), Ok(2));
    assert!(again.snapshot().await.expect("a snapshot").offered.is_empty());
}

#[tokio::test]
async fn a_resume_takes_over_the_options_and_no_secret_is_on_file() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let stdio = |args: &[&str]| bowline::McpServer::Stdio {
        command: "server".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: [("TOKEN_OF_SERVER".to_owned(), "hunter2-of-server".to_owned())].into(),
    };
    let web = |url: &str| bowline::McpServer::Http { url: url.to_owned(), headers: Default::default() };
    let session = bowline::session("claude").model("opus").permission(bowline::PermissionMode::Edit);
    let session = session.with(|task| {
        let task = world.prepare(task).effort("low").env("MY_KEY", "hunter2-of-mine");
        // No part of an argument or an address shows that it is a secret.
        task.mcp_server("alone", stdio(&[]))
            .mcp_server("files", stdio(&["-y", "hunter2-as-argument"]))
            .mcp_server("user", web("https://hunter2-as-user@host/mcp"))
            .mcp_server("query", web("https://host/mcp?page=hunter2-in-query"))
            .mcp_server("path", web("https://host/s/hunter2-in-path/mcp"))
            .mcp_server("plain", web("https://host:8443/mcp"))
    });
    let session = session.open().await.expect("a session");
    session.send("hello").await.expect("a receipt");
    session.turn_over().await.expect("a turn");
    let (id, dir) = (session.id().clone(), session.dir().expect("a journal").to_owned());
    session.stop().await.expect("a record");
    let meta = std::fs::read_to_string(dir.join("session.json")).expect("the description");
    assert!(!meta.contains("hunter2"), "{meta}");
    assert!(meta.contains("TOKEN_OF_SERVER") && meta.contains("MY_KEY"), "{meta}");
    let again = || bowline::session("claude").resume(id.as_str());
    // The agent is not started without the tools that it had.
    let error = again().with(|task| world.prepare(task)).open().await.expect_err("servers are not known");
    let bowline::Error::NotResumable { gap: bowline::ResumeGap::McpServers { names }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(names, &["alone", "files", "path", "query", "user"]);
    let kept = bowline::journal::SessionMeta::read(&dir).expect("the description").resume.expect("options");
    assert_eq!(kept.mcp_servers["plain"].address.as_deref(), Some("https://host:8443/mcp"));
    assert_eq!(kept.mcp_servers["alone"].variables, ["TOKEN_OF_SERVER"]);
    let again = again().with(|task| world.prepare(task).only_named_mcp_servers());
    let again = again.open().await.expect("the session goes on");
    let mut watch = again.watch_from(1).expect("a journal");
    again.stop().await.expect("a record");
    let kept = bowline::journal::SessionMeta::read(&dir).expect("the description").resume.expect("options");
    assert_eq!((kept.model.as_deref(), kept.effort.as_deref()), (Some("opus"), Some("low")));
    assert_eq!(kept.permission, Some(bowline::PermissionMode::Edit));
    // What is not known any more is named.
    let mut warned = Vec::new();
    while let Some(event) = watch.next().await.expect("the journal") {
        if let Kind::Notice(notice) = event.kind {
            warned.push(notice.text);
        }
    }
    assert!(warned.iter().any(|text| text.contains("MY_KEY")), "{warned:?}");
}
