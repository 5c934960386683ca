//! The answer of a record: from memory, or from the journal if it is too long for that.

use crate::run::error::Error;
use crate::run::record::Record;
use crate::sessions::journal::digest_of;

impl Record {
    /// Returns the answer, wherever it is: one that is too long to be held is read from the journal.
    pub fn answer(&self) -> Result<String, Error> {
        match (&self.text, &self.journal) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(dir)) => Ok(digest_of(dir, self.first_seq)?.text().unwrap_or_default()),
            (None, None) => Err(Error::TooLong),
        }
    }
}
