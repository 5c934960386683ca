//! The edge at which the clock is read.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use bowline_protocol::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// Returns the clock for deadlines.
#[expect(clippy::disallowed_methods, reason = "this is the edge")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the system's time of day.
#[expect(clippy::disallowed_methods, reason = "this is the edge")]
pub(crate) fn system() -> SystemTime {
    SystemTime::now()
}

/// A moment of one boot of one machine, by a clock that no step of the time of day moves. It goes on while the machine sleeps,
/// which the clock for deadlines does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootMoment {
    /// The boot, by the kernel's own random name for it.
    pub boot: String,
    /// How long the machine had been up, sleep included.
    pub up_ms: Millis,
}

impl BootMoment {
    /// Returns the current moment; nothing where the system has no name for its boot.
    pub(crate) fn now() -> Option<Self> {
        static BOOT: OnceLock<Option<String>> = OnceLock::new();
        let boot = BOOT.get_or_init(|| {
            let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(id.trim().to_owned()).filter(|id| !id.is_empty())
        });
        Some(Self { boot: boot.clone()?, up_ms: since_boot() })
    }
}

/// Returns how long the machine has been up, sleep included.
pub(crate) fn since_boot() -> Millis {
    // Apple's monotonic clock goes on while the machine sleeps; Linux has another one that does.
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    Millis(seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000))
}

/// Returns the time of day.
pub(crate) fn wall() -> Timestamp {
    timestamp(system())
}

/// Writes a time for people: to the minute, in the zone of this machine.
pub(crate) fn in_words(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M %Z").to_string()
}

/// Turns the system's time into ours.
pub(crate) fn timestamp(at: SystemTime) -> Timestamp {
    let millis = match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    };
    Timestamp::from_millis(millis)
}
