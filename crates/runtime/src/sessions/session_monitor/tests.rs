//! Clocks that jump, and what is overdue.

use bowline_protocol::{Category, Code, Timestamp};

use super::*;
use crate::sessions::journal::{Options, Writer};
use crate::system::clock::BootMoment;

/// Three clocks that went on by so many seconds.
fn later(then: &Clocks, steady: u64, boot: u64, wall: i64) -> Clocks {
    let went = Duration::from_secs(wall.unsigned_abs());
    Clocks {
        steady: then.steady + Duration::from_secs(steady),
        boot: then.boot.plus(Millis(boot * 1000)),
        wall: if wall < 0 { then.wall - went } else { then.wall + went },
    }
}

#[test]
fn sleep_is_told_from_a_step_of_the_clock_and_from_a_slow_machine() {
    let then = Clocks::now();
    for (steady, boot, wall, slept, jumped) in [
        (1, 1, 1, false, false),
        (30, 30, 30, false, false),
        (1, 3600, 3600, true, true),
        (1, 1, 3600, false, true),
        (1, 1, -3600, false, true),
        (1, 1, -2, false, false),
        (60, 60, 1, false, true),
        (1, 6, 6, false, false),
        (1, 7, 1, true, false),
        (1, 1, 7, false, true),
    ] {
        let now = later(&then, steady, boot, wall);
        assert_eq!((now.has_slept_since(&then), now.has_jumped_since(&then)), (slept, jumped), "{now:?}");
    }
}

#[test]
fn what_is_overdue_is_told_by_the_clock_that_counts_sleep() {
    let since = Millis(1_000_000);
    assert!(!is_overdue(since, Millis(120_000), Millis(1_130_000)));
    assert!(is_overdue(since, Millis(120_000), Millis(1_130_001)));
}

/// A run of at most a minute: the time of day is set by an hour, twice, and nothing happens; then the machine sleeps for an hour.
#[tokio::test]
async fn a_step_of_the_clock_ends_no_run_and_sleep_does() {
    let hangs = crate::run::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let task = crate::run::task::task("Do it").provider("claude").script(hangs).key("stepped");
    let turn = task.timeout(Duration::from_secs(60)).start().await.unwrap();
    let now = Clocks::now();
    let mut clocks = vec![now];
    for (steady, boot, wall) in [(1, 1, 1), (1, 1, 3601), (1, 1, -3599), (1, 1, 1)] {
        clocks.push(later(&clocks[clocks.len() - 1], steady, boot, wall));
    }
    let slept = later(&clocks[clocks.len() - 1], 1, 3601, 3601);
    let mut steps = clocks.into_iter();
    go_round(now.steady, || steps.next());
    // An order would end the script at once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!turn.control().is_over(), "a step of the clock ended it");
    let mut steps = [now, slept].into_iter();
    go_round(now.steady, || steps.next());
    let record = turn.outcome().await.unwrap();
    assert_eq!(record.timed_out, Some(bowline_engine::Watchdog::Total));
}

#[tokio::test]
async fn an_overdue_run_fails_with_a_timeout() {
    let hangs = crate::run::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = crate::run::task::task("Do it")
        .provider("claude")
        .script(hangs)
        .key("overdue")
        .start()
        .await
        .unwrap();
    {
        // As if it had begun when the machine did.
        let mut runs = runs();
        let run = runs.list.iter_mut().find(|(_, run)| run.key.as_deref() == Some("overdue"));
        let run = &mut run.unwrap().1;
        (run.since, run.limit) = (Millis(0), Some(Millis(1)));
    }
    give_up_the_overdue(clock::since_boot());
    let record = turn.outcome().await.unwrap();
    // As at any other deadline: this is what becomes exit code 124.
    assert_eq!(record.timed_out, Some(bowline_engine::Watchdog::Total));
    let failure = record.failure.unwrap();
    assert_eq!((failure.category, failure.code), (Category::Timeout, Code::TimedOut));
}

/// While the question is open, the clock that counts sleep goes on for an hour, and the limit is a minute.
#[tokio::test]
async fn the_time_of_a_person_is_not_overdue() {
    let asks = r#"{"prompts": [[{"ask": {"name": "Bash", "input": {"command": "ls"}, "allowed": [{"say": "Done."}]}}, {"result": {}}]]}"#;
    let world = crate::run::testing::world();
    let task =
        world.task("Do it").provider("claude").script(crate::run::testing::script(asks)).ask_a_person();
    let mut turn = task.timeout(Duration::from_secs(60)).start().await.unwrap();
    let approval = loop {
        let event = turn.next().await.unwrap();
        if let Some(approval) = turn.approval(&event) {
            break approval;
        }
    };
    let now = Clocks::now();
    let mut steps = [now, later(&now, 3600, 3600, 3600)].into_iter();
    go_round(now.steady, || steps.next());
    // The same for other processes, after the decision, too.
    let dir = world.home().session_dir(turn.session()).unwrap();
    assert_eq!(SessionMeta::read(&dir).unwrap().limit_ms, None);
    approval.allow().await.unwrap();
    let mut steps = [now, later(&now, 3600, 3600, 3600)].into_iter();
    go_round(now.steady, || steps.next());
    let record = turn.outcome().await.unwrap();
    assert_eq!((record.timed_out, record.text.as_deref()), (None, Some("Done.")));
}

/// Makes a journal whose time limit passed while its runner did not look.
fn forgotten_session(home: &Home) -> Writer {
    let mut meta = SessionMeta::new(SessionId::from("s-forgotten"), "claude", Timestamp::EPOCH);
    meta.limit_ms = Some(Millis(1000));
    meta.registered_up = BootMoment::now().map(|now| BootMoment { up_ms: Millis(0), ..now });
    Writer::create(home, meta, Options::default()).unwrap()
}

/// A clock that is told by the test: time passes as fast as it is looked at.
#[tokio::test]
async fn everything_is_looked_at_once_a_minute() {
    let world = crate::run::testing::world();
    let hangs = crate::run::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = world.task("Do it").provider("claude").script(hangs).start().await.unwrap();
    // The first look is over: it would make this round wait for the next.
    assert!(settled(Duration::from_secs(30)));
    let forgotten = forgotten_session(&world.home());
    let is_marked = || SessionMeta::read(forgotten.dir()).unwrap().abort.is_some();
    let began = Clocks::now();
    let mut up = Duration::ZERO;
    go_round(began.steady, || {
        up += TICK;
        match up.as_secs() {
            // A minute after the first look, which is at once.
            0..60 => assert!(!is_marked(), "it was ended after {up:?}"),
            60..62 => {}
            // The check of other sessions has a thread of its own.
            _ => {
                let until = clock::instant() + Duration::from_secs(20);
                while !is_marked() && clock::instant() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let boot = began.boot.plus(Millis(u64::try_from(up.as_millis()).unwrap()));
        let now = Clocks { steady: began.steady + up, boot, wall: began.wall + up };
        (up < Duration::from_secs(63)).then_some(now)
    });
    assert!(is_marked(), "nobody looked for a minute");
    turn.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_that_its_runner_forgot_is_ended_by_the_next() {
    let world = crate::run::testing::world();
    let hangs = crate::run::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = world.task("Do it").provider("claude").script(hangs).start().await.unwrap();
    let forgotten = forgotten_session(&world.home());
    let until = clock::instant() + Duration::from_secs(60);
    while SessionMeta::read(forgotten.dir()).unwrap().abort.is_none() {
        assert!(clock::instant() < until, "nobody marked it");
        // The first check may be in progress; then the next round does it.
        look_after_others(Round::Later);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let own = world.home().session_dir(turn.session()).unwrap();
    assert_eq!(SessionMeta::read(&own).unwrap().abort, None);
    turn.stop().await.unwrap();
}

#[test]
fn an_idle_session_with_a_process_of_its_own_wakes_it_once_a_minute() {
    let run = |pace, limit| MonitoredRun {
        session: SessionId::from("s-1"),
        key: None,
        label: None,
        dir: None,
        home: None,
        prices: Arc::new([]),
        variables: Arc::default(),
        control: crate::sessions::control::orders().0,
        since: Millis(0),
        limit,
        pace,
    };
    let own = || run(MonitorPace::Round, None);
    assert_eq!(wait_of(&[]), None);
    assert_eq!(wait_of(&[own(), own()]), Some(ROUND));
    assert_eq!(wait_of(&[own(), run(MonitorPace::Tick, None)]), Some(TICK));
    assert_eq!(wait_of(&[run(MonitorPace::Round, Some(Millis(1)))]), Some(TICK));
}
