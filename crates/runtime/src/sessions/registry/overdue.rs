//! Finds sessions of other processes whose limit passed long ago.
//!
//! A session with a start time by CLOCK_BOOTTIME is measured by that clock. An older one has only a time of day, which may
//! have been set since. Then the age of its runner's process has to agree.

use bowline_protocol::{Millis, Timestamp};

use crate::sessions::journal::SessionMeta;
use crate::system::clock::BootMoment;

/// How long a session may exceed its limit before another process ends it: by then its own runner has checked twice.
const ABANDONED: Millis = Millis(150_000);

/// The kernel's unit for the start time of a process: a hundredth of a second for every program, on every machine.
const TICK: u64 = 10;

/// Returns whether a session with a living runner exceeded its limit long ago.
pub(super) fn is_abandoned(meta: &SessionMeta, wall: Timestamp, up: Option<&BootMoment>) -> bool {
    let Some(limit) = meta.limit_ms.map(|limit| limit.plus(ABANDONED)) else { return false };
    match (&meta.registered_up, up) {
        // Two readings of CLOCK_BOOTTIME compare only within one boot of one machine.
        (Some(then), Some(now)) if then.boot == now.boot => now.up_ms > then.up_ms.plus(limit),
        // A runner on another machine shares the directory; that machine ends it.
        (Some(_), Some(_)) => false,
        (Some(_) | None, _) => {
            let started = meta.runner.and_then(|runner| runner.started);
            let began = started.map(|ticks| Millis(ticks.saturating_mul(TICK)));
            let old_enough = began.zip(up).is_some_and(|(began, now)| now.up_ms > began.plus(limit));
            old_enough && wall > meta.registered_at.after(limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::SessionId;

    use super::*;
    use crate::sessions::journal::Runner;

    const HOUR: u64 = 3_600_000;

    fn at(boot: &str, up: u64) -> BootMoment {
        BootMoment { boot: boot.to_owned(), up_ms: Millis(up) }
    }

    fn wall(hours: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + hours * 3600)
    }

    /// A session with a limit of a minute, an hour after the boot.
    fn session(up: Option<BootMoment>) -> SessionMeta {
        let mut meta = SessionMeta::new(SessionId::from("s-1"), "agent", wall(0));
        (meta.limit_ms, meta.registered_up) = (Some(Millis(60_000)), up);
        meta.runner = Some(Runner { pid: 7, started: Some(HOUR / TICK), sole: true });
        meta
    }

    #[test]
    fn a_step_of_the_time_of_day_ends_nothing() {
        let meta = session(Some(at("b", HOUR)));
        for hours in [-1000, 0, 1, 1000] {
            assert!(!is_abandoned(&meta, wall(hours), Some(&at("b", HOUR + 210_000))), "{hours}");
            assert!(is_abandoned(&meta, wall(hours), Some(&at("b", HOUR + 210_001))), "{hours}");
        }
    }

    #[test]
    fn a_session_of_another_machine_or_without_a_limit_is_left_alone() {
        let meta = session(Some(at("b", HOUR)));
        assert!(!is_abandoned(&meta, wall(1000), Some(&at("c", 1000 * HOUR))));
        let unlimited = SessionMeta { limit_ms: None, ..meta };
        assert!(!is_abandoned(&unlimited, wall(1000), Some(&at("b", 1000 * HOUR))));
    }

    #[test]
    fn an_older_session_needs_two_witnesses() {
        let meta = session(None);
        let late = at("b", HOUR + 210_001);
        assert!(is_abandoned(&meta, wall(1), Some(&late)));
        assert!(!is_abandoned(&meta, wall(0), Some(&late)), "not by the time of day");
        assert!(!is_abandoned(&meta, wall(1), Some(&at("b", HOUR + 210_000))), "its process is too young");
        assert!(!is_abandoned(&meta, wall(1), None), "nothing tells the age of its process");
        let unknown = SessionMeta { runner: None, ..meta };
        assert!(!is_abandoned(&unknown, wall(1), Some(&late)));
    }
}
