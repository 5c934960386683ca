//! Sessions by their key, in this process.

use bowline_protocol::kinds::Outcome;

use super::*;
use crate::journal::Writer;
use crate::testing::{Script, World, script, world};
use crate::{Task, Turn};

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
    assert_eq!((killed[0].label.as_deref(), killed[0].how), (Some("main"), How::Politely));
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
    let hidden = crate::task("Do it").provider("claude").key("hidden");
    let hidden = running(hidden.script(script(HANGS)).without_journal()).await;
    let killed = registry.kill_all("hidden", "").await.unwrap();
    assert_eq!((&killed[0].session, killed[0].how), (hidden.session(), How::Politely));
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
    Writer::create(&world.home(), meta, crate::journal::Options::default()).unwrap()
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
    assert_eq!((killed[0].session.as_str(), killed[0].how), ("s-overdue", How::Survived));
    let reason = SessionMeta::read(overdue.dir()).unwrap().abort.unwrap().reason.unwrap();
    assert!(reason.contains("longer than it may"), "{reason}");
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
    let writer = Writer::create(&world.home(), meta, crate::journal::Options::default()).unwrap();
    assert!(registry.has_active("a").unwrap());
    drop(writer);
    assert!(!registry.has_active("a").unwrap());
    assert_eq!(registry.kill_all("a", "").await.unwrap(), []);
}
