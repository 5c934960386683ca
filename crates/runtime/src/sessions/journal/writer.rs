//! The one writer of a session.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bowline_protocol::kinds::Gap;
use bowline_protocol::{Event, EventWriter, FORMAT_VERSION, Kind, RawFile, RawSpan, Source, Timestamp};

use super::append::Append;
use super::index::{LONGEST, RECORD};
use super::lock::{Lock, SessionHold};
use super::mask::MaskedStream;
use super::meta::{self, Durability};
use super::pending_sync::PendingSync;
use super::records::Records;
use super::repair::repair_locked;
use super::{
    EVENTS_FILE, Home, INDEX_FILE, JournalEnd, JournalError, META_FORMAT, Mask, RAW_FILES, Runner,
    SessionMeta, raw_path, slot_of, unfinished,
};

/// Options of a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// The limit on the total size of the raw files, the index and the events, in bytes.
    pub quota: u64,
    /// The secrets that must not reach the disk.
    pub mask: Mask,
}

impl Options {
    /// The default quota: 4 GiB.
    pub const DEFAULT_QUOTA: u64 = 4 << 30;
}

impl Default for Options {
    fn default() -> Self {
        Self { quota: Self::DEFAULT_QUOTA, mask: Mask::none() }
    }
}

/// Space reserved for the closing events, within the quota and on the disk.
const RESERVE: u64 = 64 * 1024;

/// Appends to a session's directory. The lock ensures that there is only one for each session.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    meta: SessionMeta,
    options: Options,
    raw: [Option<Raw>; RAW_FILES.len()],
    index: Records,
    events: Append,
    last_seq: u64,
    lines: EventWriter,
    buffer: Vec<u8>,
    /// Whether files were created in the directory, which `fsync` of the files does not cover.
    dir_dirty: bool,
    /// Whether the description and the name of the directory were never synced.
    is_new: bool,
    hold: SessionHold,
}

#[derive(Debug)]
struct Raw {
    file: Append,
    masked: MaskedStream,
    /// The time of the bytes that are held back.
    held_since: SystemTime,
}

impl Writer {
    /// Creates the directory of a new session and takes its lock.
    ///
    /// Written data survives the end of this process at once, and a loss of power after the first [`Self::sync`].
    pub fn create(home: &Home, meta: SessionMeta, options: Options) -> Result<Self, JournalError> {
        let dir = home.create_session_dir(&meta.id)?;
        let index = Records::new(dir.join(INDEX_FILE));
        let mut events = Append::create(dir.join(EVENTS_FILE))?;
        let lock = Lock::take(&dir, &events)?;
        events.reserve(RESERVE)?;
        // After the lock: another process cleans up a session that is marked and not locked.
        unfinished::mark(&dir)?;
        // Last, because this file makes the directory a session.
        meta::write(&dir, &meta, Durability::Process)?;
        Ok(Self {
            meta,
            options,
            raw: [const { None }; RAW_FILES.len()],
            index,
            events,
            last_seq: 0,
            lines: EventWriter::default(),
            buffer: Vec::new(),
            dir_dirty: true,
            is_new: true,
            hold: SessionHold::new(&dir, lock),
            dir,
        })
    }

    /// Opens the directory of a session that is over, or whose runner was killed, to append another stint.
    ///
    /// Takes the lock, and fails with [`JournalError::Locked`] while a runner lives. Repairs the directory as [`repair`](super::repair)
    /// does. `change` describes the new stint in `session.json`, whose format becomes [`META_FORMAT`]: a version that does
    /// not know stints then leaves the directory alone. Returns where the numbering of events, turns and bytes goes on.
    ///
    /// ```
    /// use bowline::journal::{Home, Options, SessionMeta, Writer};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let home = Home::at(dir.path());
    /// let now = "2026-11-15T08:30:00.123Z".parse().expect("a time");
    /// let first = Writer::create(&home, SessionMeta::new("s-1".into(), "claude", now), Options::default())?;
    /// let dir = first.dir().to_owned();
    /// assert!(Writer::open(&dir, Options::default(), now, |_| ()).is_err(), "its runner lives");
    /// first.close()?;
    /// let (second, end) = Writer::open(&dir, Options::default(), now, |meta| meta.label = Some("again".to_owned()))?;
    /// assert_eq!((second.last_seq() + 1, end.next_turn), (end.next_seq, 1));
    /// # Ok::<(), bowline::journal::JournalError>(())
    /// ```
    pub fn open(
        dir: &Path,
        options: Options,
        now: Timestamp,
        change: impl FnOnce(&mut SessionMeta),
    ) -> Result<(Self, JournalEnd), JournalError> {
        // Before the lock, which creates a file: a directory of a newer version is left as it is.
        SessionMeta::read(dir)?;
        let Some(lock) = Lock::hold(dir)? else {
            return Err(JournalError::NoSession { path: dir.to_owned() });
        };
        Self::reopen(SessionHold::new(dir, lock), options, now, |meta| {
            meta.runner = Some(Runner::current());
            // The mark was for an earlier runner.
            meta.abort = None;
            change(meta);
        })
    }

    /// Opens the directory again for the next run of the runner that has kept it since the last one: a retry. An abort mark stays,
    /// because it was for this runner.
    pub(crate) fn reopen(
        hold: SessionHold,
        options: Options,
        now: Timestamp,
        change: impl FnOnce(&mut SessionMeta),
    ) -> Result<(Self, JournalEnd), JournalError> {
        let dir = hold.dir();
        let end = repair_locked(dir, hold.lock(), now, Vec::new(), |_| ())?;
        let mut events = Append::open(dir.join(EVENTS_FILE))?;
        let mut raw = [const { None }; RAW_FILES.len()];
        for file in RAW_FILES {
            let path = raw_path(dir, file);
            if path.exists() {
                let file_end = Append::open(path)?;
                let stream = Raw {
                    file: file_end,
                    masked: MaskedStream::default(),
                    held_since: SystemTime::UNIX_EPOCH,
                };
                raw[slot_of(file)] = Some(stream);
            }
        }
        let index = Records::open(dir.join(INDEX_FILE))?;
        events.reserve(RESERVE)?;
        // In the order of `create`: lock, mark, description. Killed in between, the next repair finds a session that is over.
        unfinished::mark(dir)?;
        let meta = meta::update_meta(dir, |meta| {
            meta.format = META_FORMAT;
            change(meta);
        })?;
        let writer = Self {
            dir: dir.to_owned(),
            meta,
            options,
            raw,
            index,
            events,
            last_seq: end.next_seq - 1,
            lines: EventWriter::default(),
            buffer: Vec::new(),
            dir_dirty: true,
            is_new: false,
            hold,
        };
        Ok((writer, end))
    }

    /// Returns the session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps the session for this process when the writer is closed, as long as the result exists.
    pub(crate) fn hold(&self) -> SessionHold {
        self.hold.clone()
    }

    /// Returns the description of the session, as of the last change by this writer.
    pub fn meta(&self) -> &SessionMeta {
        &self.meta
    }

    /// Returns the number of the last event on file; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns the number of bytes that count against the quota.
    pub fn used(&self) -> u64 {
        let raw: u64 = self.raw.iter().flatten().map(|raw| raw.file.len() + raw.masked.held() as u64).sum();
        raw + self.index.len() + self.events.len()
    }

    /// Writes bytes of the agent before they are decoded, and records their time; see [`Self::write_index`].
    ///
    /// Returns their offset. With secrets to mask, up to the longest of them less one byte may wait for the next call.
    pub fn raw(&mut self, file: RawFile, at: SystemTime, bytes: &[u8]) -> Result<u64, JournalError> {
        let used = self.used();
        let limit = self.options.quota;
        let needed = (bytes.len() + bytes.len().div_ceil(LONGEST) * RECORD) as u64;
        // The agent's bytes must not use the space of the closing events.
        if used + needed + RESERVE > limit {
            return Err(JournalError::QuotaExceeded { limit });
        }
        let slot = &mut self.raw[slot_of(file)];
        let slot = match slot {
            Some(slot) => slot,
            None => {
                self.dir_dirty = true;
                let file = Append::create(raw_path(&self.dir, file))?;
                slot.insert(Raw { file, masked: MaskedStream::default(), held_since: at })
            }
        };
        // Count the bytes that are held back: spans refer to the agent's stream, not to the file as it is now.
        let offset = slot.file.len() + slot.masked.held() as u64;
        if self.options.mask.is_empty() {
            for piece in bytes.chunks(LONGEST) {
                append_raw(&mut slot.file, &mut self.index, file, at, piece)?;
            }
            return Ok(offset);
        }
        let (piece, next) = slot.masked.feed(&self.options.mask, bytes);
        // Before the append. If that fails, the part of a secret that a flush wrote is masked already.
        if let Some(rewrite) = &piece.rewrite {
            slot.file.overwrite(rewrite, slot.file.len() - rewrite.len() as u64)?;
        }
        for piece in piece.append.chunks(LONGEST) {
            append_raw(&mut slot.file, &mut self.index, file, at, piece)?;
        }
        // Only now: after a failed write the earlier state still describes the file.
        slot.masked = next;
        slot.held_since = at;
        Ok(offset)
    }

    /// Writes the records of `io.index` that are in memory.
    ///
    /// The writer also writes them when there are many, before a sync, and at the end. The driver of a session calls this now and
    /// then, so that the time of the last bytes is on file as well.
    pub fn write_index(&mut self) -> Result<(), JournalError> {
        self.index.write()
    }

    /// Writes events: all of them in one write, after the bytes that they were decoded from.
    ///
    /// Their numbers must follow those on file. If it fails, none of them is on file; see [`Self::closing`].
    pub fn events(&mut self, events: &[Event]) -> Result<(), JournalError> {
        let Some(last) = events.last() else { return Ok(()) };
        self.serialise(events)?;
        // Bytes before events: an event on file must not refer to bytes that are not there.
        self.flush_raw(events)?;
        self.flush_before_end(events)?;
        let limit = self.options.quota;
        let len = self.buffer.len() as u64;
        if self.used() + len + RESERVE > limit {
            return Err(JournalError::QuotaExceeded { limit });
        }
        // Reserve first. On a full disk this fails before anything is written.
        self.events.reserve(len + RESERVE)?;
        self.events.append(&self.buffer)?;
        self.last_seq = last.seq;
        Ok(())
    }

    /// Writes the closing events after a write of other events failed.
    ///
    /// Renumbers them, so that they follow the events on file. If lost events had used numbers, a `gap` event comes first and
    /// counts them. Uses the reserved space. Returns the written events.
    pub fn closing(&mut self, mut events: Vec<Event>) -> Result<Vec<Event>, JournalError> {
        let Some(first) = events.first() else { return Ok(events) };
        let lost = first.seq.saturating_sub(self.last_seq + 1);
        if lost > 0 {
            let gap = Gap {
                events: Some(lost),
                bytes: None,
                reason: format!("the journal had no room for them in {EVENTS_FILE}"),
            };
            let gap = Event {
                v: FORMAT_VERSION,
                seq: 0,
                at: first.at,
                session: first.session.clone(),
                turn: first.turn,
                source: Source::Bowline,
                raw: None,
                kind: Kind::Gap(gap),
            };
            events.insert(0, gap);
        }
        for (event, seq) in events.iter_mut().zip(self.last_seq + 1..) {
            event.seq = seq;
            // Some bytes may be among the lost ones, and a span of them would point behind the end of the file.
            event.raw = event.raw.filter(|span| self.has(*span));
        }
        self.serialise(&events)?;
        self.flush_before_end(&events)?;
        let limit = self.options.quota;
        // Without `RESERVE`: it was reserved for these events.
        if self.used() + self.buffer.len() as u64 > limit {
            return Err(JournalError::QuotaExceeded { limit });
        }
        self.events.append(&self.buffer)?;
        self.last_seq += events.len() as u64;
        Ok(events)
    }

    /// Changes the description of the session. Keeps changes of other processes, such as an abort mark.
    pub fn set_meta(&mut self, change: impl FnOnce(&mut SessionMeta)) -> Result<(), JournalError> {
        self.meta = meta::update_meta(&self.dir, change)?;
        // After the final state is on file. A kill in between leaves the mark, and the next cleanup removes it.
        if meta::is_final(self.meta.state) {
            unfinished::unmark(&self.dir)?;
        }
        Ok(())
    }

    /// Releases the reserved space after the closing events are written: on a full disk, the final description may need it.
    pub fn release(&mut self) -> Result<(), JournalError> {
        self.events.release()
    }

    /// Syncs everything: data written before survives a loss of power.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.pending_sync()?.run()
    }

    /// Returns the work of [`Self::sync`], for a thread that may wait for the disk.
    pub fn pending_sync(&mut self) -> Result<PendingSync, JournalError> {
        // Write everything before the files are collected: `take_dirty` marks a file as synced.
        self.flush_all_raw()?;
        self.index.write()?;
        let raw = self.raw.iter_mut().flatten().filter_map(|raw| raw.file.take_dirty());
        let mut files: Vec<_> = raw.collect();
        files.extend(self.index.take_dirty());
        files.extend(self.events.take_dirty());
        let dir = std::mem::take(&mut self.dir_dirty).then(|| self.dir.clone());
        Ok(PendingSync { files, dir, is_new: std::mem::take(&mut self.is_new) })
    }

    /// Closes the journal: writes the bytes held back, syncs everything, and releases the lock.
    ///
    /// Dropping the writer does the same without a sync, and only logs errors.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.finish()?;
        self.sync()
    }

    /// Closes the journal like [`Self::close`] and changes the description, with one wait for the disk: first the raw files, their
    /// index and the events, then the description with the end of the session, then the directory.
    ///
    /// Tries each step even if an earlier one failed. Returns the first error.
    pub fn close_with(mut self, change: impl FnOnce(&mut SessionMeta)) -> Result<(), JournalError> {
        let finished = self.finish();
        let (is_new, synced) = match self.pending_sync() {
            // The change also syncs the new description and the directory.
            Ok(pending) => (pending.is_new, PendingSync { dir: None, ..pending }.run()),
            Err(error) => (self.is_new, Err(error)),
        };
        let set = self.set_meta(change);
        // The session's own name stands in the directory above.
        let named = self.dir.parent().filter(|_| is_new).map_or(Ok(()), meta::sync_dir);
        finished.and(synced).and(set).and(named)
    }

    fn finish(&mut self) -> Result<(), JournalError> {
        self.flush_all_raw()?;
        let index = self.index.finish();
        self.events.release().and(index)
    }

    fn serialise(&mut self, events: &[Event]) -> Result<(), JournalError> {
        self.buffer.clear();
        for (event, expected) in events.iter().zip(self.last_seq + 1..) {
            if event.seq != expected {
                return Err(JournalError::OutOfOrder { expected, got: event.seq });
            }
            let written = self.lines.write(event, &mut self.buffer);
            written.map_err(|source| JournalError::Unwritable { seq: event.seq, source })?;
        }
        // Search all lines at once: nearly always there is nothing to mask.
        if self.options.mask.finds_any(&self.buffer) {
            for line in self.buffer.split_mut(|byte| *byte == b'\n') {
                self.options.mask.line(line);
            }
        }
        Ok(())
    }

    /// Writes the bytes held back that these events refer to.
    fn flush_raw(&mut self, events: &[Event]) -> Result<(), JournalError> {
        if self.options.mask.is_empty() {
            return Ok(());
        }
        for span in events.iter().filter_map(|event| event.raw) {
            if !self.has(span) {
                self.flush_one(span.file)?;
            }
        }
        Ok(())
    }

    /// Writes all that is held back before the end of a stint: a repair then has nothing to report behind that end.
    fn flush_before_end(&mut self, events: &[Event]) -> Result<(), JournalError> {
        if !events.iter().any(|event| matches!(event.kind, Kind::SessionEnded(_))) {
            return Ok(());
        }
        self.flush_all_raw()?;
        self.index.write()
    }

    fn flush_all_raw(&mut self) -> Result<(), JournalError> {
        RAW_FILES.into_iter().try_for_each(|file| self.flush_one(file))
    }

    fn flush_one(&mut self, file: RawFile) -> Result<(), JournalError> {
        let Some(slot) = &mut self.raw[slot_of(file)] else { return Ok(()) };
        if slot.masked.held() > 0 {
            append_raw(&mut slot.file, &mut self.index, file, slot.held_since, slot.masked.held_bytes())?;
            slot.masked.mark_flushed();
        }
        Ok(())
    }

    /// Returns whether bytes are on file.
    fn has(&self, span: RawSpan) -> bool {
        self.raw[slot_of(span.file)].as_ref().is_some_and(|raw| span.end <= raw.file.len())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!(session = %self.meta.id, %error, "the end of a journal could not be written");
        }
    }
}

/// Writes bytes and adds their record, or neither.
fn append_raw(
    raw: &mut Append,
    index: &mut Records,
    file: RawFile,
    at: SystemTime,
    bytes: &[u8],
) -> Result<(), JournalError> {
    // The space for the record first: when the bytes are on file, adding their record must not fail.
    index.make_room()?;
    let start = raw.len();
    raw.append(bytes)?;
    index.push(at, RawSpan { file, start, end: raw.len() });
    Ok(())
}
