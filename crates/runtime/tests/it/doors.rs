//! Both doors, and how a turn is let go of.

use bowline::kinds::{EndReason, Outcome, SessionState};
use bowline::{Category, Code, Error, Exit, Kind, PermissionMode, Turn};
use libtest_mimic::Trial;
use rustix::fs::{FileType, Mode, mknodat};
use serde::Deserialize;

use crate::support::{Stage, is_alive, trial, wait_for};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("the_answer_of_a_real_process", the_answer),
        trial("a_failure_is_an_error_at_the_result_door", a_failure),
        trial("an_answer_of_a_type", an_answer_of_a_type),
        trial("a_program_that_is_not_there", not_there),
        trial("dropping_a_turn_stops_its_agent", drop_stops),
        trial("dropping_a_run_stops_its_agent", drop_of_run_stops),
        trial("dropping_a_run_while_git_looks_at_the_files_starts_nobody", drop_before_the_start),
        trial("dropping_the_wait_for_the_outcome_stops_its_agent", drop_of_outcome_stops),
        trial("a_detached_turn_goes_on", detach_goes_on),
        trial("a_cancelled_turn_keeps_what_was_said", cancel_keeps_text),
        trial("an_agent_that_ignores_everything_is_killed", stubborn),
        trial("nothing_is_kept_where_nothing_is_to_be_kept", ephemeral),
        trial("a_journal_that_cannot_be_ended_is_in_the_record", unkept),
        trial("without_a_journal_everything_else_works", without_journal),
        trial("without_a_journal_an_agent_gets_its_decisions", decision_without_journal),
        Trial::test("the_blocking_calls_work_with_real_processes", || {
            blocking();
            Ok(())
        }),
    ]
}

/// An agent that asks for a permission, with and without a journal to write the decision to.
async fn decision_without_journal() {
    let stage = Stage::new(
        r#"while read -r line; do case "$line" in
        *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}' ;;
        *'"method":"session/new"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"n-1"}}' ;;
        *'"method":"session/prompt"'*) echo '{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"n-1","toolCall":{"toolCallId":"t1","kind":"execute"},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}' ;;
        *'"optionId":"yes"'*) echo yes >>"$HERE/decided"; echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}' ;;
        esac; done"#,
    );
    let agent = format!("acp:{}", stage.agent().display());
    let task = || {
        let task = stage.world.task("Tie it").provider(&agent).cwd(stage.world.path());
        task.permission(PermissionMode::Yolo)
    };
    assert_eq!(task().run().await.unwrap().outcome, Outcome::Completed);
    assert_eq!(task().without_journal().run().await.unwrap().outcome, Outcome::Completed);
    assert_eq!(std::fs::read_to_string(stage.path("decided")).unwrap(), "yes\nyes\n");
}

/// Starts a task whose agent says something and goes on; returns when it was said.
pub(crate) async fn speaking(task: bowline::Task) -> Turn {
    let mut turn = task.start().await.unwrap();
    while let Some(event) = turn.next().await {
        if matches!(event.kind, Kind::TextDelta(_)) {
            return turn;
        }
    }
    panic!("it said nothing: {:?}", turn.outcome().await);
}

/// An agent that says something and then waits for its end, with a child that does too.
const WAITS: &str = "echo $$ >$HERE/pid; sleep 600 & echo $! >$HERE/child; init; say m1 Half; wait";

async fn the_answer() {
    let stage = Stage::new("cat >$HERE/stdin; init; say m1 'Hello there'; result 'Hello there'");
    let record = stage.task("Say hello").run().await.unwrap();
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Completed, Some("Hello there")));
    assert_eq!((record.exit, record.cost_usd), (Some(Exit::Code(0)), Some(0.25)));
    assert_eq!(record.native_session.unwrap().as_str(), "n-1");
    assert_eq!(record.survivors, []);
    assert_eq!(stage.task("Say hello").answer().await.unwrap(), "Hello there");
}

async fn a_failure() {
    let stage = Stage::new("echo 'Invalid API key' >&2; exit 1");
    let Err(Error::Turn(record)) = stage.task("x").answer().await else { panic!("it failed") };
    assert_eq!(record.failure.as_ref().unwrap().category, Category::Authentication);
    let error = Error::Turn(record).to_string();
    assert!(error.starts_with("the turn failed (authentication): "), "{error}");
}

#[derive(Debug, PartialEq, Deserialize, schemars::JsonSchema)]
struct Bug {
    file: String,
    line: u32,
}

async fn an_answer_of_a_type() {
    let stage = Stage::new(r#"echo "$@" >$HERE/args; init; result '{\"file\": \"a.rs\", \"line\": 7}'"#);
    let bug: Bug = stage.task("Find it").answer_as().await.unwrap();
    assert_eq!(bug, Bug { file: "a.rs".into(), line: 7 });
    let args = std::fs::read_to_string(stage.path("args")).unwrap();
    assert!(args.contains("\"line\""), "the schema went along: {args}");
    let stage = Stage::new("init; result 'somewhere in a.rs'");
    let Err(Error::BadAnswer { text, source, record: Some(_) }) =
        stage.task("Find it").answer_as::<Bug>().await
    else {
        panic!("it is no JSON")
    };
    assert_eq!(text, "somewhere in a.rs");
    assert_eq!(source.line(), 1);
}

async fn not_there() {
    let stage = Stage::new("");
    let task = stage.task("x").binary(stage.path("no-such-program"));
    let record = task.run().await.unwrap();
    assert_eq!(record.failure.unwrap().code, Code::NotInstalled);
}

async fn drop_stops() {
    let stage = Stage::new(WAITS);
    let turn = speaking(stage.task("x")).await;
    let (pid, child) = (stage.pid("pid"), stage.pid("child"));
    assert!(is_alive(pid) && is_alive(child));
    drop(turn);
    // The task that drives it has to get its turn.
    while is_alive(pid) || is_alive(child) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn drop_of_run_stops() {
    let stage = Stage::new(WAITS);
    let run = tokio::spawn(stage.task("x").run());
    while !stage.path("child").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (pid, child) = (stage.pid("pid"), stage.pid("child"));
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    wait_for("the end of the agent", || !is_alive(pid) && !is_alive(child));
    let (state, last) = end_on_file(&stage);
    assert_eq!(state, SessionState::Failed);
    assert!(matches!(last, Kind::SessionEnded(ended) if ended.reason == EndReason::Lost));
}

/// A working tree whose configuration is a pipe without a writer: git waits for it.
async fn drop_before_the_start() {
    let stage = Stage::new("touch $HERE/started; init; result Hello");
    for dir in [".git", ".git/objects", ".git/refs"] {
        std::fs::create_dir(stage.path(dir)).unwrap();
    }
    std::fs::write(stage.path(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let (pipe, mode) = (stage.path(".git/config"), Mode::RUSR | Mode::WUSR);
    mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    let (told, mut preparing) = tokio::sync::mpsc::unbounded_channel();
    let task = stage.task("x").on_event(move |event| {
        if matches!(&event.kind, Kind::SessionStateChanged(now) if now.state == SessionState::Preparing) {
            told.send(()).unwrap();
        }
    });
    let run = tokio::spawn(task.run());
    preparing.recv().await.unwrap();
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let (state, last) = end_on_file(&stage);
    assert_eq!(state, SessionState::Failed);
    assert!(matches!(last, Kind::SessionEnded(ended) if ended.reason == EndReason::Stopped));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!stage.path("started").exists());
}

/// Returns the state and the last event of the only session, whose runner lets go of it now.
fn end_on_file(stage: &Stage) -> (SessionState, Kind) {
    let entry = stage.world.home().sessions().unwrap().next().unwrap().unwrap();
    assert!(!entry.is_live().unwrap(), "nobody writes it any more");
    let mut reader = bowline::journal::Reader::open(&entry.dir).unwrap();
    let mut last = None;
    while let Some(event) = reader.next_event().unwrap() {
        last = Some(event.kind);
    }
    (entry.meta.state, last.unwrap())
}

async fn drop_of_outcome_stops() {
    let stage = Stage::new(WAITS);
    let turn = speaking(stage.task("x")).await;
    let (pid, child) = (stage.pid("pid"), stage.pid("child"));
    let waited = tokio::time::timeout(std::time::Duration::from_millis(20), turn.outcome()).await;
    assert!(waited.is_err(), "it does not end by itself");
    while is_alive(pid) || is_alive(child) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn detach_goes_on() {
    let stage = Stage::new(
        "echo $$ >$HERE/pid; init; say m1 Half; while [ ! -e $HERE/go ]; do sleep 0.02; done; result Half",
    );
    let turn = speaking(stage.task("x")).await;
    let dir = stage.world.home().session_dir(turn.session()).unwrap();
    let pid = stage.pid("pid");
    turn.detach();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(is_alive(pid), "nobody stopped it");
    std::fs::write(stage.path("go"), "").unwrap();
    let mut reader = bowline::journal::Reader::open(&dir).unwrap();
    while reader.is_live().unwrap() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut outcome = None;
    while let Some(event) = reader.next_event().unwrap() {
        if let Kind::TurnEnded(ended) = event.kind {
            outcome = Some(ended.outcome);
        }
    }
    assert_eq!(outcome, Some(Outcome::Completed));
}

async fn cancel_keeps_text() {
    let stage = Stage::new("trap 'exit 130' INT; echo $$ >$HERE/pid; init; say m1 Half; sleep 600 & wait");
    let turn = speaking(stage.task("x")).await;
    let control = turn.control();
    tokio::spawn(async move { control.cancel() });
    let record = turn.outcome().await.unwrap();
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Cancelled, Some("Half")));
    assert_eq!(record.survivors, []);
    assert!(!is_alive(stage.pid("pid")));
}

async fn stubborn() {
    let stage =
        Stage::new("trap '' INT TERM; echo $$ >$HERE/pid; init; say m1 Half; while :; do sleep 1; done");
    let record = speaking(stage.task("x")).await.stop().await.unwrap();
    assert_eq!((record.outcome, record.exit), (Outcome::Cancelled, Some(Exit::Signal(9))));
    assert!(!is_alive(stage.pid("pid")));
}

async fn ephemeral() {
    let stage = Stage::new("init; say m1 Hello; result Hello");
    let turn = stage.task("x").ephemeral().start().await.unwrap();
    let name = format!("bowline-{}", turn.session());
    let kept = || {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&name))
            .count()
    };
    assert_eq!(kept(), 1, "it has a place while it runs");
    let record = turn.outcome().await.unwrap();
    assert_eq!((record.text.as_deref(), record.journal), (Some("Hello"), None));
    assert_eq!(kept(), 0);
    assert!(!stage.world.home().sessions_dir().exists());
}

async fn unkept() {
    let stage = Stage::new(
        "for it in $HERE/sessions/* $HERE/*/sessions/*; do mkdir $it/session.json.new; done; init; result Hello",
    );
    let record = stage.task("x").run().await.unwrap();
    assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Completed, Some("Hello")));
    let failure = record.journal_failure.unwrap();
    assert!(failure.message.contains("session.json.new"), "{}", failure.message);
    let stage = Stage::new("init; result Hello");
    assert_eq!(stage.task("x").run().await.unwrap().journal_failure, None);
}

async fn without_journal() {
    let stage = Stage::new("init; say m1 Hello; result Hello");
    let mut turn = stage.task("x").without_journal().start().await.unwrap();
    let mut last = 0;
    while let Some(event) = turn.next().await {
        last += 1;
        assert_eq!(event.seq, last);
    }
    let record = turn.outcome().await.unwrap();
    assert_eq!((record.text.as_deref(), record.journal), (Some("Hello"), None));
    assert!(last > 5);
    assert!(!stage.world.home().sessions_dir().exists());
    // No subscriber reads it, and the outcome comes all the same.
    let turn = stage.task("x").without_journal().start().await.unwrap();
    assert!(turn.outcome().await.unwrap().is_completed());
}

fn blocking() {
    let stage = Stage::new("init; say m1 Hello; result Hello");
    assert_eq!(bowline::blocking::answer(stage.task("x")).unwrap(), "Hello");
    let mut turn = bowline::blocking::start(stage.task("x")).unwrap();
    let seqs: Vec<u64> = turn.by_ref().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(turn.outcome().unwrap().is_completed());
    let stage = Stage::new(WAITS);
    let turn = bowline::blocking::start(stage.task("x")).unwrap();
    let (pid, child) = (stage.pid("pid"), stage.pid("child"));
    drop(turn);
    wait_for("the end of the agent", || !is_alive(pid) && !is_alive(child));
}
