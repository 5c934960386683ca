//! Sessions by their key, in this process.

use std::path::{Path, PathBuf};

use bowline_protocol::kinds::{
    EndReason, Outcome, SessionEnded, SessionStarted, SessionState, SessionStateChanged, TurnOrigin,
    TurnStarted,
};
use bowline_protocol::{Event, Kind};

use super::*;
use crate::run::task::Task;
use crate::run::testing::{Script, World, script, world};
use crate::run::turn::Turn;
use crate::sessions::journal::{Writer, unfinished};

const HANGS: &str = r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#;
const STUBBORN: &str = r#"{"on_stop": "ignore", "steps": [{"say": "Half"}, {"hang": true}]}"#;

fn task(world: &World, key: &str, script: Script) -> Task {
    world.task("Do it").provider("claude").key(key).script(script)
}

async fn running(task: Task) -> Turn {
    let mut turn = task.start().await.unwrap();
    while let Some(event) = turn.next().await {
        if matches!(event.kind, bowline_protocol::Kind::MessageFinished(_)) {
            return turn;
        }
    }
    panic!("it ended");
}

#[tokio::test]
async fn sessions_of_one_key_end_together_and_others_do_not() {
    let world = world();
    let registry = Registry::at(world.home());
    assert!(!registry.has_active("a").unwrap());
    let one = running(task(&world, "a", script(HANGS)).label("main")).await;
    let two = running(task(&world, "a", script(STUBBORN))).await;
    let other = running(task(&world, "b", script(HANGS))).await;
    assert_eq!(registry.active().unwrap().len(), 3);
    assert!(registry.has_active("a").unwrap());
    assert!(!registry.was_aborted("a").unwrap());

    let mut killed = registry.kill_all("a", "enough").await.unwrap();
    killed.sort_by_key(|killed| killed.label.is_none());
    assert_eq!(killed.len(), 2);
    assert_eq!((killed[0].label.as_deref(), killed[0].how), (Some("main"), StopResult::Politely));
    assert_eq!(killed[1].session, *two.session());
    assert!(!registry.has_active("a").unwrap());
    assert!(registry.has_active("b").unwrap());
    for turn in [one, two] {
        let record = turn.outcome().await.unwrap();
        assert_eq!((record.outcome, record.text.as_deref()), (Outcome::Cancelled, Some("Half")));
        let meta = SessionMeta::read(&record.journal.unwrap()).unwrap();
        assert_eq!(meta.abort.unwrap().reason.as_deref(), Some("enough"));
    }
    assert!(registry.was_aborted("a").unwrap(), "also after they ended");
    assert!(!registry.was_aborted("b").unwrap());
    registry.clear_abort("a").unwrap();
    assert!(!registry.was_aborted("a").unwrap());
    assert_eq!(registry.kill_all("a", "").await.unwrap(), []);
    assert!(registry.was_aborted("a").unwrap(), "also if nothing ran");
    other.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_without_a_place_in_the_home_ends_with_its_key() {
    let world = world();
    let registry = Registry::at(world.home());
    let hidden = crate::run::task::task("Do it").provider("claude").key("hidden");
    let hidden = running(hidden.script(script(HANGS)).without_journal()).await;
    let killed = registry.kill_all("hidden", "").await.unwrap();
    assert_eq!((&killed[0].session, killed[0].how), (hidden.session(), StopResult::Politely));
    assert_eq!(hidden.outcome().await.unwrap().outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn what_is_too_old_is_ended_by_the_clock_on_the_wall() {
    let world = world();
    let registry = Registry::at(world.home());
    let old = running(task(&world, "a", script(HANGS))).await;
    let young = running(task(&world, "a", script(HANGS))).await;
    let dir = world.home().session_dir(old.session()).unwrap();
    update_meta(&dir, |meta| meta.registered_at = Timestamp::EPOCH).unwrap();
    assert_eq!(registry.kill_stale(Duration::from_secs(u64::MAX)).await.unwrap(), []);
    let killed = registry.kill_stale(Duration::from_secs(3600)).await.unwrap();
    assert_eq!(killed.iter().map(|killed| &killed.session).collect::<Vec<_>>(), [old.session()]);
    assert_eq!(old.outcome().await.unwrap().outcome, Outcome::Cancelled);
    young.stop().await.unwrap();
}

/// Makes a session whose runner lives and does nothing: this process, by no run of its own.
fn forgotten(world: &World, id: &str, limit: Option<Millis>) -> Writer {
    let mut meta = SessionMeta::new(SessionId::from(id), "claude", Timestamp::EPOCH);
    meta.limit_ms = limit;
    // As if it had begun when the machine did.
    meta.registered_up = BootMoment::now().map(|now| BootMoment { up_ms: Millis(0), ..now });
    Writer::create(&world.home(), meta, crate::sessions::journal::Options::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_long_over_its_own_limit_is_ended_by_others() {
    let world = world();
    let registry = Registry::at(world.home());
    let limited = running(task(&world, "a", script(HANGS)).timeout(Duration::from_secs(1000))).await;
    let dir = world.home().session_dir(limited.session()).unwrap();
    assert_eq!(SessionMeta::read(&dir).unwrap().limit_ms, Some(Millis(1_000_000)), "others can know it");
    update_meta(&dir, |meta| meta.registered_at = Timestamp::EPOCH).unwrap();
    let _unlimited = forgotten(&world, "s-unlimited", None);
    assert_eq!(registry.kill_overdue().await.unwrap(), [], "no limit, or a run of our own");

    let overdue = forgotten(&world, "s-overdue", Some(Millis(1000)));
    let killed = registry.kill_overdue().await.unwrap();
    assert_eq!(killed.len(), 1);
    // It is a process with other work: it is asked, and not killed.
    assert_eq!((killed[0].session.as_str(), killed[0].how), ("s-overdue", StopResult::Survived));
    let reason = SessionMeta::read(overdue.dir()).unwrap().abort.unwrap().reason.unwrap();
    assert!(reason.contains("exceeded its time limit"), "{reason}");
    limited.stop().await.unwrap();
}

#[tokio::test]
async fn a_mark_of_somebody_else_is_obeyed() {
    let world = world();
    let turn = running(task(&world, "a", script(HANGS))).await;
    let dir = world.home().session_dir(turn.session()).unwrap();
    // As another process does it: a mark, and a word on the board.
    update_meta(&dir, |meta| meta.abort = Some(abort("from afar"))).unwrap();
    marks::announce(&world.home()).unwrap();
    assert_eq!(turn.outcome().await.unwrap().outcome, Outcome::Cancelled);
    assert!(Registry::at(world.home()).was_aborted("a").unwrap(), "the session's own mark counts");
}

#[tokio::test]
async fn a_session_whose_runner_died_is_not_active() {
    let world = world();
    let registry = Registry::at(world.home());
    let mut meta = SessionMeta::new(SessionId::from("s-1"), "claude", clock::wall());
    meta.key = Some("a".to_owned());
    let writer = Writer::create(&world.home(), meta, crate::sessions::journal::Options::default()).unwrap();
    assert!(registry.has_active("a").unwrap());
    drop(writer);
    assert!(!registry.has_active("a").unwrap());
    assert_eq!(registry.kill_all("a", "").await.unwrap(), []);
}

fn event(seq: u64, kind: Kind) -> Event {
    let (v, session) = (bowline_protocol::FORMAT_VERSION, SessionId::from("s"));
    let (at, source) = (Timestamp::EPOCH, bowline_protocol::Source::Bowline);
    Event { v, seq, at, session, turn: Some(1), source, raw: None, kind }
}

/// Leaves a session as a runner does that is killed after these events, with a file for its agent.
fn left(world: &World, id: &str, events: Vec<Kind>) -> PathBuf {
    let mut meta = SessionMeta::new(SessionId::from(id), "claude", Timestamp::EPOCH);
    meta.state = SessionState::Running;
    let mut writer =
        Writer::create(&world.home(), meta, crate::sessions::journal::Options::default()).unwrap();
    let events: Vec<Event> = events.into_iter().zip(1..).map(|(kind, seq)| event(seq, kind)).collect();
    writer.events(&events).unwrap();
    std::fs::create_dir(writer.dir().join("files")).unwrap();
    std::fs::write(writer.dir().join("files/mcp.json"), "a secret").unwrap();
    writer.dir().to_owned()
}

fn started() -> Kind {
    let native_session = Some(bowline_protocol::NativeSessionId::from("native-1"));
    Kind::SessionStarted(SessionStarted { native_session, ..SessionStarted::default() })
}

fn turn_started() -> Kind {
    Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn: None })
}

fn kinds(dir: &Path) -> Vec<Kind> {
    let mut reader = crate::sessions::journal::Reader::open(dir).unwrap();
    std::iter::from_fn(|| reader.next_event().unwrap().map(|event| event.kind)).collect()
}

#[tokio::test]
async fn what_a_killed_runner_left_is_put_in_order() {
    let world = world();
    let registry = Registry::at(world.home());
    let lost = left(&world, "s-lost", vec![started(), turn_started()]);
    let live = running(task(&world, "a", script(HANGS))).await;
    let other = forgotten(&world, "s-live", None);
    std::fs::create_dir(other.dir().join("files")).unwrap();

    // The run that has just begun looks for it too, and may have been faster.
    let settled = registry.settle_lost().await.unwrap();
    assert!(settled.iter().all(|session| session.as_str() == "s-lost"), "{settled:?}");
    for _ in 0..1000 {
        if SessionMeta::read(&lost).unwrap().state == SessionState::Failed && !lost.join("files").exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let meta = SessionMeta::read(&lost).unwrap();
    assert_eq!((meta.state, meta.native_session.unwrap().as_str()), (SessionState::Failed, "native-1"));
    assert!(!lost.join("files").exists());
    let said = kinds(&lost);
    assert!(matches!(&said[2], Kind::TurnEnded(ended) if ended.outcome == Outcome::Truncated), "{said:?}");
    assert!(matches!(&said[3], Kind::SessionEnded(ended) if ended.reason == EndReason::Lost), "{said:?}");
    assert_eq!(said.len(), 4);

    assert_eq!(registry.settle_lost().await.unwrap(), [], "the others have runners");
    assert!(other.dir().join("files").exists());
    assert_eq!(kinds(&lost).len(), 4);
    let record = live.stop().await.unwrap();
    assert_eq!(unfinished::dirs(&world.home()).unwrap(), [other.dir()], "what is over is not looked at");
    assert_eq!(SessionMeta::read(&record.journal.unwrap()).unwrap().state, SessionState::Failed);
}

#[tokio::test]
async fn a_runner_that_was_killed_between_its_last_event_and_the_state() {
    let world = world();
    let completed = SessionState::Completed;
    let changed = Kind::SessionStateChanged(SessionStateChanged { state: completed, reason: None });
    let ended = Kind::SessionEnded(SessionEnded { exit: None, reason: EndReason::Exited });
    let dir = left(&world, "s-ended", vec![started(), changed, ended]);
    let none = world.home().sessions_dir().join("s-none");
    let said = world.home().sessions_dir().join("s-said");
    for (dir, events) in [(&none, ""), (&said, "{}\n")] {
        std::fs::create_dir(dir).unwrap();
        std::fs::write(dir.join("events.jsonl"), events).unwrap();
    }
    std::fs::write(world.home().path().join("open/s-none"), "").unwrap();
    std::fs::write(world.home().path().join("open/s-said"), "").unwrap();
    std::fs::write(world.home().path().join("open/s-removed"), "").unwrap();
    let registry = Registry::at(world.home());
    assert_eq!(registry.settle_lost().await.unwrap(), [SessionId::from("s-ended")]);
    assert_eq!(SessionMeta::read(&dir).unwrap().state, completed);
    assert_eq!(kinds(&dir).len(), 3, "it had said all");
    assert_eq!((none.exists(), said.join("events.jsonl").exists()), (false, true), "nothing said is lost");
    assert_eq!(unfinished::dirs(&world.home()).unwrap(), [] as [PathBuf; 0]);
}

#[test]
fn two_that_look_at_once_do_no_harm() {
    let world = world();
    let dirs: Vec<PathBuf> =
        (0..20).map(|n| left(&world, &format!("s-{n:02}"), vec![started(), turn_started()])).collect();
    let settle = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Registry::at(world.home()).settle_lost()).unwrap()
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(settle))));
    assert_eq!(unfinished::dirs(&world.home()).unwrap(), [] as [PathBuf; 0]);
    for dir in dirs {
        assert_eq!(SessionMeta::read(&dir).unwrap().state, SessionState::Failed);
        assert_eq!(kinds(&dir).len(), 4, "one of them wrote the end");
    }
}

#[test]
fn the_newest_sessions_are_listed_without_a_look_at_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    let registry = Registry::at(home.clone());
    assert_eq!(registry.newest(SessionFilter::All, None, 3).unwrap(), []);
    let mut ids = Vec::new();
    for number in 0..5_u8 {
        let id = crate::sessions::journal::new_session_id(
            Timestamp::from_seconds(1_000 + i64::from(number)),
            [number; 5],
        );
        let mut meta = SessionMeta::new(id.clone(), "practice", Timestamp::EPOCH);
        meta.key = (number % 2 == 0).then(|| "even".to_owned());
        let writer = crate::sessions::journal::Writer::create(
            &home,
            meta,
            crate::sessions::journal::Options::default(),
        )
        .unwrap();
        writer.close_with(|meta| meta.state = bowline_protocol::kinds::SessionState::Completed).unwrap();
        ids.push(id);
    }
    // The oldest is damaged: a list of the newest does not reach it.
    let oldest = home.session_dir(&ids[0]).unwrap().join("session.json");
    std::fs::write(&oldest, "{").unwrap();
    let names = |key: Option<&str>, most| {
        let listed = registry.newest(SessionFilter::All, key, most).unwrap();
        listed.into_iter().map(|listed| listed.meta.id).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), [ids[4].clone(), ids[3].clone()]);
    assert_eq!(names(None, 100), [ids[4].clone(), ids[3].clone(), ids[2].clone(), ids[1].clone()]);
    assert_eq!(names(Some("even"), 1), [ids[4].clone()]);
    assert_eq!(names(Some("even"), 100), [ids[4].clone(), ids[2].clone()]);
    assert!(registry.newest(SessionFilter::Running, None, 100).unwrap().is_empty());
    assert!(registry.contains(&ids[1]));
    for unknown in ["s-none", "../sessions", "", ".", "a/b"] {
        assert!(!registry.contains(&SessionId::from(unknown)), "{unknown:?}");
    }
}

#[test]
fn a_running_session_is_found_by_its_mark_and_told_by_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path());
    let registry = Registry::at(home.clone());
    let id = crate::sessions::journal::new_session_id(Timestamp::from_seconds(1_000), [1; 5]);
    let meta = SessionMeta::new(id.clone(), "practice", Timestamp::EPOCH);
    let writer =
        crate::sessions::journal::Writer::create(&home, meta, crate::sessions::journal::Options::default())
            .unwrap();
    let running = || registry.active().unwrap().into_iter().map(|it| it.session).collect::<Vec<_>>();
    assert_eq!(running(), std::slice::from_ref(&id));
    // Stale marks name nothing, or a session that does not run.
    std::fs::write(dir.path().join("open/s-nothing"), "").unwrap();
    std::fs::write(dir.path().join("open/..x"), "").unwrap();
    assert_eq!(running(), std::slice::from_ref(&id));
    // A home of an older version has no marks.
    std::fs::remove_dir_all(dir.path().join("open")).unwrap();
    assert_eq!(running(), [id]);
    drop(writer);
    assert_eq!(running(), []);
}
