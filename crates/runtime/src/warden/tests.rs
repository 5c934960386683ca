//! Clocks that jump, and what is overdue.

use bowline_protocol::{Category, Code};

use super::*;

#[test]
fn a_jump_of_the_clock_is_told_from_a_slow_machine() {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let check = |steady: u64, wall: i64, expected: bool| {
        let now = if wall < 0 {
            then - Duration::from_secs(wall.unsigned_abs())
        } else {
            then + Duration::from_secs(wall.unsigned_abs())
        };
        assert_eq!(has_jumped(Duration::from_secs(steady), then, now), expected, "{steady} {wall}");
    };
    check(1, 1, false);
    check(30, 30, false);
    check(1, 3600, true);
    check(1, -3600, true);
    check(1, -2, false);
    check(60, 1, true);
}

#[test]
fn what_is_overdue_is_told_by_the_wall() {
    let since = Timestamp::from_seconds(1000);
    assert!(!is_overdue(since, Millis(120_000), Timestamp::from_seconds(1125)));
    assert!(is_overdue(since, Millis(120_000), Timestamp::from_seconds(1131)));
}

#[tokio::test]
async fn an_overdue_run_fails_with_a_timeout() {
    let hangs = crate::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = crate::task("Do it").provider("claude").script(hangs).key("overdue").start().await.unwrap();
    {
        // As if it had begun a day ago.
        let mut wards = wards();
        let ward = wards.list.iter_mut().find(|(_, ward)| ward.key.as_deref() == Some("overdue"));
        ward.unwrap().1.since = Timestamp::EPOCH;
    }
    give_up_the_overdue(clock::wall());
    let record = turn.outcome().await.unwrap();
    // As at any other deadline: this is what becomes exit code 124.
    assert_eq!(record.timed_out, Some(bowline_engine::Watchdog::Total));
    let failure = record.failure.unwrap();
    assert_eq!((failure.category, failure.code), (Category::Timeout, Code::TimedOut));
}

/// A clock that is told by the test: time passes as fast as it is looked at.
#[tokio::test]
async fn everything_is_looked_at_once_a_minute() {
    let world = crate::testing::world();
    let hangs = crate::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = world.task("Do it").provider("claude").script(hangs).start().await.unwrap();
    // The first look is over: it would make this round wait for the next.
    assert!(settled(Duration::from_secs(30)));
    let mut meta = SessionMeta::new(SessionId::from("s-forgotten"), "claude", Timestamp::EPOCH);
    meta.limit_ms = Some(Millis(1000));
    let forgotten =
        crate::journal::Writer::create(&world.home(), meta, crate::journal::Options::default()).unwrap();
    let is_marked = || SessionMeta::read(forgotten.dir()).unwrap().abort.is_some();
    let (began, wall) = (clock::instant(), clock::system());
    let mut up = Duration::ZERO;
    go_round(began, || {
        up += TICK;
        match up.as_secs() {
            // A minute after the first look, which is at once.
            0..60 => assert!(!is_marked(), "it was ended after {up:?}"),
            60..62 => {}
            // Whoever looks has a thread of its own.
            _ => {
                let until = clock::instant() + Duration::from_secs(20);
                while !is_marked() && clock::instant() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        (up < Duration::from_secs(63)).then(|| (began + up, wall + up))
    });
    assert!(is_marked(), "nobody looked for a minute");
    turn.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_that_its_runner_forgot_is_ended_by_the_next() {
    let world = crate::testing::world();
    let hangs = crate::testing::script(r#"{"steps": [{"say": "Half"}, {"hang": true}]}"#);
    let turn = world.task("Do it").provider("claude").script(hangs).start().await.unwrap();
    let mut meta = SessionMeta::new(SessionId::from("s-forgotten"), "claude", Timestamp::EPOCH);
    meta.limit_ms = Some(Millis(1000));
    let forgotten =
        crate::journal::Writer::create(&world.home(), meta, crate::journal::Options::default()).unwrap();
    let until = clock::instant() + Duration::from_secs(60);
    while SessionMeta::read(forgotten.dir()).unwrap().abort.is_none() {
        assert!(clock::instant() < until, "nobody marked it");
        // Somebody may be looking already, for the first time; then it is left to the next round.
        look_after_others(Round::Later);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let own = world.home().session_dir(turn.session()).unwrap();
    assert_eq!(SessionMeta::read(&own).unwrap().abort, None);
    turn.stop().await.unwrap();
}
