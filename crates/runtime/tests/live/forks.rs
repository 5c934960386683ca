//! Forks of sessions: sessions of their own that begin with a copy of the conversation, and never change the one that is forked.

use bowline::journal::SessionMeta;
use bowline::kinds::Outcome;
use bowline::testing::{self, World, script};
use bowline::{Code, Error, LiveSession, PermissionMode, ResumeGap, SessionOrder};
use bowline_protocol::RequestField;

use crate::{open, says};

/// An agent that keeps its process. It names a fork of `n-1` `n-1-fork`.
const KEPT: &str = r#"{"session": "n-1", "prompts": [[{"say": "Done."}, {"result": {}}]]}"#;

async fn ask(session: &LiveSession, prompt: &str) -> bowline::LastTurn {
    session.send(prompt).await.expect("a receipt");
    session.turn_over().await.expect("a turn")
}

fn meta(session: &LiveSession) -> SessionMeta {
    SessionMeta::read(session.dir().expect("a journal")).expect("the description")
}

fn sessions(world: &World) -> usize {
    std::fs::read_dir(world.home().sessions_dir()).expect("sessions").count()
}

async fn native(session: &LiveSession) -> Option<String> {
    let snapshot = session.snapshot().await.expect("a snapshot");
    snapshot.native_session.map(|native| native.as_str().to_owned())
}

#[tokio::test]
async fn a_fork_is_another_session_and_leaves_its_source_as_it_is() {
    let world = testing::world();
    world.provider("claude", script(KEPT));
    let source = bowline::session("claude").name("thread-42").model("opus").permission(PermissionMode::Edit);
    let source =
        source.with(|task| world.prepare(task).key("mine").effort("low").mcp_server("files", server()));
    let source = source.open().await.expect("a session");
    ask(&source, "Plan the parser").await;
    // `session.json` gets it when the runner ends.
    let mode = SessionOrder::SetOption { option: "permission".to_owned(), value: "ask".to_owned() };
    source.control().order(mode).await.expect("it is set");
    let before = *source.head().borrow();

    let branch = source.fork().name("by-hand").await.expect("a fork");
    assert_ne!(branch.id(), source.id());
    assert_eq!(*source.head().borrow(), before, "the source is as it was");
    let last = ask(&branch, "Write it by hand").await;
    assert_eq!((last.turn, last.outcome), (1, Outcome::Completed));
    assert_eq!(native(&branch).await.as_deref(), Some("n-1-fork"));
    ask(&branch, "And the tests").await;
    assert_eq!(native(&branch).await.as_deref(), Some("n-1-fork"), "it is forked once");

    let of_branch = meta(&branch);
    assert_eq!(of_branch.parent.as_ref(), Some(source.id()));
    assert_eq!((of_branch.label.as_deref(), of_branch.key.as_deref()), (Some("by-hand"), None));
    let kept = of_branch.resume.expect("options");
    assert_eq!((kept.model.as_deref(), kept.effort.as_deref()), (Some("opus"), Some("low")));
    assert_eq!(kept.permission, Some(PermissionMode::Ask), "the one of the moment");
    assert_eq!(kept.mcp_servers.keys().collect::<Vec<_>>(), ["files"], "with its arguments, from memory");

    assert_eq!(ask(&source, "With a generator").await.turn, 2);
    assert_eq!(native(&source).await.as_deref(), Some("n-1"));
    source.stop().await.expect("a record");
    branch.stop().await.expect("a record");
    let again = bowline::resume("by-hand").with(|task| world.prepare(task).only_named_mcp_servers());
    let again = again.await.expect("the fork goes on");
    assert_eq!(native(&again).await.as_deref(), Some("n-1-fork"));
    assert_eq!(ask(&again, "Still there?").await.turn, 3);
}

fn server() -> bowline::McpServer {
    let (command, args) = ("server".to_owned(), vec!["--root".to_owned(), "/src".to_owned()]);
    bowline::McpServer::Stdio { command, args, env: Default::default() }
}

#[tokio::test]
async fn a_fork_without_a_prompt_forks_when_it_is_resumed() {
    let world = testing::world();
    world.provider("claude", script(KEPT));
    let source = open(&world).await;
    ask(&source, "Plan the parser").await;
    let branch = source.fork().name("later").open().await.expect("a fork");
    branch.stop().await.expect("a record");
    let again = bowline::resume("later").with(|task| world.prepare(task)).await.expect("it goes on");
    assert_eq!(native(&again).await, None);
    assert_eq!(ask(&again, "Now").await.outcome, Outcome::Completed);
    assert_eq!(native(&again).await.as_deref(), Some("n-1-fork"));
    source.stop().await.expect("a record");
}

#[tokio::test]
async fn an_agent_that_goes_on_with_the_source_has_forked_nothing() {
    let world = testing::world();
    world.provider("claude", says("one"));
    let source = open(&world).await;
    ask(&source, "one").await;
    let branch = source.fork().name("branch").open().await.expect("a fork");
    for prompt in ["two", "three"] {
        let last = ask(&branch, prompt).await;
        let turn = branch.turn_record(last.turn).expect("the journal").expect("the turn");
        assert_eq!(turn.failure.map(|it| it.code), Some(Code::SessionNotFound), "{prompt}");
        assert_eq!(native(&branch).await, None, "the source is not its session");
    }
    let dir = branch.dir().expect("a journal").to_owned();
    branch.stop().await.expect("a record");
    let meta = SessionMeta::read(&dir).expect("the description");
    assert_eq!((meta.native_session, meta.forked_from.as_ref().map(|it| it.as_str())), (None, Some("n-1")));
    // It had turns, of which no agent has kept anything.
    let again = bowline::resume("branch").with(|task| world.prepare(task)).await;
    assert!(matches!(again, Err(Error::NotResumable { gap: ResumeGap::NoNativeSession, .. })), "{again:?}");
}

#[tokio::test]
async fn a_fork_that_is_not_possible_creates_nothing() {
    let refused = |result: Result<LiveSession, Error>, value: &str| match result {
        Err(Error::Refused(refusal)) => {
            assert_eq!((refusal.field, refusal.value.as_deref()), (RequestField::Resume, Some(value)));
        }
        other => panic!("{other:?}"),
    };
    let world = testing::world();
    world.provider("claude", script(KEPT));
    world.provider("gemini", script(KEPT));
    let source = bowline::session("gemini").with(|task| world.prepare(task)).open().await.expect("a session");
    ask(&source, "one").await;
    refused(source.fork().open().await, "fork");
    assert_eq!(sessions(&world), 1);

    let source = open(&world).await;
    let unnamed = source.fork().open().await;
    assert!(
        matches!(unnamed, Err(Error::NotResumable { gap: ResumeGap::NoNativeSession, .. })),
        "{unnamed:?}"
    );
    let sent = source.send("one").await.expect("a receipt");
    let bowline::Receipt::Started { prompt, .. } = sent else { panic!("{sent:?}") };
    source.turn_over().await.expect("a turn");
    let at = format!("fork at {prompt}");
    refused(source.fork().at(prompt).open().await, &at);
    assert_eq!(sessions(&world), 2);

    let source = bowline::session("claude").with(|task| world.prepare(task).without_journal());
    let source = source.open().await.expect("a session");
    ask(&source, "one").await;
    assert!(matches!(source.fork().open().await, Err(Error::NoJournal)));
    assert_eq!(sessions(&world), 2);
}

#[tokio::test]
async fn a_session_of_another_process_is_forked_in_this_one() {
    let world = testing::world();
    world.provider("claude", script(KEPT));
    let source = open(&world).await;
    ask(&source, "one").await;
    source.serve().expect("a socket");
    let attached = bowline::attach_in(&world.home(), "thread-42").await.expect("a connection");
    let branch = attached.fork().with(|task| world.prepare(task)).open().await.expect("a fork");
    assert_eq!(ask(&branch, "two").await.outcome, Outcome::Completed);
    assert_eq!(native(&branch).await.as_deref(), Some("n-1-fork"));
    assert_eq!(meta(&branch).parent.as_ref(), Some(source.id()));
    branch.stop().await.expect("a record");
    source.stop().await.expect("a record");
}
