//! The names that a caller gives a session, and how long they may be.

use super::Task;
use crate::run::error::Error;

/// The most bytes of a key or a label: both stand in lists, in files and in what other processes read.
pub const NAME_LIMIT: usize = 256;

/// Refuses a key or a label that is longer than [`NAME_LIMIT`].
pub(crate) fn check_name(what: &'static str, name: Option<&str>) -> Result<(), Error> {
    match name.map_or(0, str::len) {
        bytes if bytes > NAME_LIMIT => Err(Error::LongName { what, bytes }),
        _ => Ok(()),
    }
}

impl Task {
    /// Refuses a key or a label that is too long.
    pub(super) fn check_names(&self) -> Result<(), Error> {
        check_name("key", self.request.key.as_deref())?;
        check_name("label", self.label.as_deref())
    }
}

#[cfg(test)]
mod tests;
