//! Retries, as standard error reports them: with a reason, which standard output leaves out.

use bowline_protocol::Millis;

use crate::failure;

/// A notice of a retry on standard error: `Retrying in 60s (attempt 1/10): [API Error: 429 …]`.
#[derive(Debug)]
pub(super) struct Notice<'a> {
    pub(super) attempt: u32,
    pub(super) most: u32,
    pub(super) delay: Option<Millis>,
    pub(super) reason: &'a str,
}

impl<'a> Notice<'a> {
    /// Reads a line; any other line is no notice.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (delay, rest) = line.strip_prefix("Retrying in ")?.split_once(" (attempt ")?;
        let (attempts, reason) = rest.split_once("): ")?;
        let (attempt, most) = attempts.split_once('/')?;
        let delay = failure::retry_after(&format!("retry in {delay}"));
        Some(Self { attempt: attempt.parse().ok()?, most: most.parse().ok()?, delay, reason })
    }
}
