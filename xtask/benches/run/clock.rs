//! Time and what it was spent on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since some moment, the same for all processes.
pub(crate) fn nanos() -> u64 {
    of(ClockId::Monotonic)
}

/// Returns the CPU time of this process.
pub(crate) fn cpu() -> Duration {
    Duration::from_nanos(of(ClockId::ProcessCPUTime))
}

fn of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns the most memory that this process ever had, in megabytes.
pub(crate) fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 =
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(f64::NAN);
    kilobytes / 1024.0
}

/// Returns how much memory this process has asked for and not given back, in kilobytes. Nothing where the allocator does not
/// count it.
pub(crate) fn heap_kilobytes() -> Option<f64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it only reads the counters of the allocator, under the allocator's own locks.
        #[expect(unsafe_code, reason = "the standard library has no call for it")]
        let counted = unsafe { libc::mallinfo2() };
        Some((counted.uordblks + counted.hblkhd) as f64 / 1024.0)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Returns how much memory this process has that is no file's, in kilobytes.
pub(crate) fn anonymous_kilobytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(f64::NAN)
}

/// Returns the value below which so many percent of the others lie.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}
