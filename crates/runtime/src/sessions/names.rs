//! The names that a caller gives a session, and how long they may be.

/// The most bytes of a key or a label: both stand in lists, in files and in what other processes read.
pub const NAME_LIMIT: usize = 256;

/// A key or a label that is longer than [`NAME_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has {bytes} bytes, and at most {NAME_LIMIT} are allowed")]
pub struct LongName {
    /// `key` or `label`.
    pub what: &'static str,
    /// Its length.
    pub bytes: usize,
}

/// Refuses a key or a label that is longer than [`NAME_LIMIT`].
pub(crate) fn check_name(what: &'static str, name: Option<&str>) -> Result<(), LongName> {
    match name.map_or(0, str::len) {
        bytes if bytes > NAME_LIMIT => Err(LongName { what, bytes }),
        _ => Ok(()),
    }
}
