//! Reads a session, also while it is written.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bowline_protocol::{Event, RawSpan};

use super::lock::Lock;
use super::{EVENTS_FILE, Index, JournalError, SessionMeta, raw_path};

/// How much is read at once.
const STEP: usize = 64 * 1024;

/// Reads the events of a session from any place on. Memory does not grow with the session.
///
/// ```no_run
/// # fn main() -> Result<(), bowline::journal::JournalError> {
/// let mut reader = bowline::journal::Reader::open("/home/me/.local/share/bowline/sessions/s-1".as_ref())?;
/// reader.seek(100)?;
/// while let Some(event) = reader.next_event()? {
///     assert!(event.seq >= 100);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reader {
    pub(super) dir: PathBuf,
    path: PathBuf,
    file: BufReader<File>,
    /// The complete line at `position`; empty if it is not read yet, or not there yet.
    line: Vec<u8>,
    /// Where in the file `line` begins.
    position: u64,
    /// The line was handed out; the next one begins behind it.
    taken: bool,
}

impl Reader {
    /// Opens the events of a session's directory.
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(EVENTS_FILE);
        let file = File::open(&path).map_err(|error| JournalError::open(&path, dir, error))?;
        let file = BufReader::with_capacity(STEP, file);
        Ok(Self { dir: dir.to_owned(), path, file, line: Vec::new(), position: 0, taken: false })
    }

    /// Reads the description of the session.
    pub fn meta(&self) -> Result<SessionMeta, JournalError> {
        SessionMeta::read(&self.dir)
    }

    /// Returns whether the session's runner lives, so that more events may come.
    pub fn is_live(&self) -> Result<bool, JournalError> {
        Lock::is_taken(&self.dir)
    }

    /// Returns the next event, or `None` where the complete lines end; more may come later.
    ///
    /// A line that is not an event is an error once, and the next call continues behind it.
    pub fn next_event(&mut self) -> Result<Option<Event>, JournalError> {
        let offset = self.position();
        let Some(line) = self.next_line()? else { return Ok(None) };
        match serde_json::from_slice(line) {
            Ok(event) => Ok(Some(event)),
            Err(error) => {
                let (path, reason) = (self.path.clone(), "this is not an event".to_owned());
                Err(JournalError::Damaged { path, offset, reason, source: Some(error) })
            }
        }
    }

    /// Returns the next line as it is on file, without its end.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, JournalError> {
        if !self.fill()? {
            return Ok(None);
        }
        self.taken = true;
        Ok(self.line.strip_suffix(b"\n"))
    }

    /// Returns where in the file the next line begins.
    pub fn position(&self) -> u64 {
        self.position + if self.taken { self.line.len() as u64 } else { 0 }
    }

    /// Returns whether there are unread bytes, counting a torn line. One system call.
    pub fn poll(&self) -> Result<bool, JournalError> {
        Ok(self.len()? > self.position())
    }

    /// Goes to the first event with this number or a higher one; behind the last if there is none.
    pub fn seek(&mut self, seq: u64) -> Result<(), JournalError> {
        // Numbers grow with the place in the file, so the place is found by halving.
        let (mut low, mut high) = (0, self.len()?);
        while high.saturating_sub(low) > STEP as u64 {
            let middle = low + (high - low) / 2;
            self.jump(middle)?;
            // The middle is hardly ever the beginning of a line: the first one behind it decides.
            let found = if self.next_line()?.is_some() { self.peek_seq()? } else { None };
            match found {
                Some(found) if found < seq => low = self.position(),
                Some(_) | None => high = middle,
            }
        }
        // `low` is 0 or the beginning of a line; so is what this stops at.
        self.jump(low)?;
        while self.peek_seq()?.is_some_and(|found| found < seq) {
            self.taken = true;
        }
        Ok(())
    }

    /// Returns the bytes of a span.
    pub fn raw(&self, span: RawSpan) -> Result<Vec<u8>, JournalError> {
        let path = raw_path(&self.dir, span.file);
        let missing = |len| JournalError::NoSuchBytes { path: path.clone(), span, len };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing(0)),
            Err(error) => return Err(JournalError::read("open", &path, error)),
        };
        let len = file.metadata().map_err(|error| JournalError::read("look at", &path, error))?.len();
        if span.start > span.end || span.end > len {
            return Err(missing(len));
        }
        let size = usize::try_from(span.end - span.start).map_err(|_| missing(len))?;
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, span.start)
            .map_err(|error| JournalError::read("read", &path, error))?;
        Ok(bytes)
    }

    /// Reads the index of the raw files, from the beginning.
    pub fn index(&self) -> Result<Index, JournalError> {
        Index::open(&self.dir)
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.line.capacity() + self.file.capacity()
    }

    fn len(&self) -> Result<u64, JournalError> {
        let found = self.file.get_ref().metadata();
        Ok(found.map_err(|error| JournalError::read("look at", &self.path, error))?.len())
    }

    fn jump(&mut self, position: u64) -> Result<(), JournalError> {
        let sought = self.file.seek(SeekFrom::Start(position));
        sought.map_err(|error| JournalError::read("read", &self.path, error))?;
        self.line.clear();
        (self.position, self.taken) = (position, false);
        Ok(())
    }

    /// Returns the number of the event that comes next, and leaves it there.
    fn peek_seq(&mut self) -> Result<Option<u64>, JournalError> {
        if !self.fill()? {
            return Ok(None);
        }
        // A line of another form than ours is read in full; one that is no event has no number and is left to the caller.
        let read = || serde_json::from_slice::<Event>(&self.line).ok().map(|event| event.seq);
        Ok(seq_of(&self.line).or_else(read))
    }

    /// Fills `line` with the next line, and returns whether it is complete.
    fn fill(&mut self) -> Result<bool, JournalError> {
        if self.taken {
            self.position = self.position();
            self.taken = false;
            self.line.clear();
        }
        if !self.line.is_empty() {
            return Ok(true);
        }
        let read = self.file.read_until(b'\n', &mut self.line);
        read.map_err(|error| JournalError::read("read", &self.path, error))?;
        if self.line.is_empty() || self.line.ends_with(b"\n") {
            return Ok(!self.line.is_empty());
        }
        // Read a torn line again each time: if its writer is dead, a repair replaces it.
        self.jump(self.position)?;
        Ok(false)
    }
}

/// Reads the number of an event without reading the rest, where the line has our own form.
pub(super) fn seq_of(line: &[u8]) -> Option<u64> {
    // Our lines have the number near their beginning. A match further on may be inside a text.
    let at = memchr::memmem::find(&line[..line.len().min(64)], b"\"seq\":")? + 6;
    let digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&line[at..at + digits]).ok()?.parse().ok()
}
