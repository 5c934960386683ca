//! The one writer of a session.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bowline_protocol::kinds::Gap;
use bowline_protocol::{Event, EventWriter, FORMAT_VERSION, Kind, RawFile, RawSpan, Source};

use super::append::Append;
use super::index::{LONGEST, RECORD};
use super::lock::Lock;
use super::mask::MaskedStream;
use super::meta::{self, Durability};
use super::records::Records;
use super::{
    EVENTS_FILE, Home, INDEX_FILE, JournalError, Mask, RAW_FILES, SessionMeta, raw_path, slot_of, unfinished,
};

/// What a session may do to the disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many bytes the raw files, the index and the events may have together.
    pub quota: u64,
    /// What must not reach the disk.
    pub mask: Mask,
}

impl Options {
    /// The quota unless the caller has an opinion: 4 GiB.
    pub const DEFAULT_QUOTA: u64 = 4 << 30;
}

impl Default for Options {
    fn default() -> Self {
        Self { quota: Self::DEFAULT_QUOTA, mask: Mask::none() }
    }
}

/// Room that is kept for the events that say how a session ended, under the quota and on the disk.
const RESERVE: u64 = 64 * 1024;

/// Appends to a session's directory. There is one for each session: the lock sees to it.
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
    /// Names were made in the directory that `fsync` of the files does not cover.
    dir_dirty: bool,
    /// Neither the description nor the name of the directory was ever made durable.
    is_new: bool,
    _lock: Lock,
}

#[derive(Debug)]
struct Raw {
    file: Append,
    masked: MaskedStream,
    /// When the bytes came that are held back.
    held_since: SystemTime,
}

impl Writer {
    /// Makes the directory of a new session and takes its lock.
    ///
    /// What is written survives the end of this process at once, and a loss of power from the first [`Self::sync`] on.
    pub fn create(home: &Home, meta: SessionMeta, options: Options) -> Result<Self, JournalError> {
        let dir = home.create_session_dir(&meta.id)?;
        let index = Records::new(dir.join(INDEX_FILE));
        let mut events = Append::create(dir.join(EVENTS_FILE))?;
        let lock = Lock::take(&dir, &events)?;
        events.reserve(RESERVE)?;
        unfinished::mark(&dir)?;
        // Last, because it is what makes the directory a session.
        meta::write(&dir, &meta, Durability::Process)?;
        Ok(Self {
            dir,
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
            _lock: lock,
        })
    }

    /// Returns the session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns what the session is, as of the last change made here.
    pub fn meta(&self) -> &SessionMeta {
        &self.meta
    }

    /// Returns the number of the last event on file; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns how many bytes count against the quota.
    pub fn used(&self) -> u64 {
        let raw: u64 = self.raw.iter().flatten().map(|raw| raw.file.len() + raw.masked.held() as u64).sum();
        raw + self.index.len() + self.events.len()
    }

    /// Puts bytes of the agent on file before anything looks at them, and takes note of the time at which they came: see
    /// [`Self::write_index`].
    ///
    /// Returns their offset. With secrets to mask, up to the longest of them less one byte may wait for the next call.
    pub fn raw(&mut self, file: RawFile, at: SystemTime, bytes: &[u8]) -> Result<u64, JournalError> {
        let used = self.used();
        let limit = self.options.quota;
        let needed = (bytes.len() + bytes.len().div_ceil(LONGEST) * RECORD) as u64;
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
        let offset = slot.file.len() + slot.masked.held() as u64;
        if self.options.mask.is_empty() {
            for piece in bytes.chunks(LONGEST) {
                append_raw(&mut slot.file, &mut self.index, file, at, piece)?;
            }
            return Ok(offset);
        }
        let (piece, next) = slot.masked.feed(&self.options.mask, bytes);
        if let Some(rewrite) = &piece.rewrite {
            slot.file.overwrite(rewrite, slot.file.len() - rewrite.len() as u64)?;
        }
        for piece in piece.append.chunks(LONGEST) {
            append_raw(&mut slot.file, &mut self.index, file, at, piece)?;
        }
        slot.masked = next;
        slot.held_since = at;
        Ok(offset)
    }

    /// Puts the records of `io.index` on file that wait there for others.
    ///
    /// They are written together when there are many, before a sync, and at the end. Who drives a session calls this
    /// now and then, so that the time of bytes that nothing follows is on file as well.
    pub fn write_index(&mut self) -> Result<(), JournalError> {
        self.index.write()
    }

    /// Makes events public: all of them in one write, behind the bytes that they were read from.
    ///
    /// Their numbers must follow those on file. If it fails, none of them is on file; see [`Self::closing`].
    pub fn events(&mut self, events: &[Event]) -> Result<(), JournalError> {
        let Some(last) = events.last() else { return Ok(()) };
        self.serialise(events)?;
        self.flush_raw(events)?;
        let limit = self.options.quota;
        let len = self.buffer.len() as u64;
        if self.used() + len + RESERVE > limit {
            return Err(JournalError::QuotaExceeded { limit });
        }
        self.events.reserve(len + RESERVE)?;
        self.events.append(&self.buffer)?;
        self.last_seq = last.seq;
        Ok(())
    }

    /// Writes the events that say how the session ended, where others could not be written.
    ///
    /// They are numbered anew, so that they follow what is on file; if numbers were used up by events that are lost, a
    /// `gap` comes first and counts them. The room that was kept for this is used. Returns what was written.
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
            event.raw = event.raw.filter(|span| self.has(*span));
        }
        self.serialise(&events)?;
        let limit = self.options.quota;
        if self.used() + self.buffer.len() as u64 > limit {
            return Err(JournalError::QuotaExceeded { limit });
        }
        self.events.append(&self.buffer)?;
        self.last_seq += events.len() as u64;
        Ok(events)
    }

    /// Changes what the session is. What others have written into it meanwhile, such as an abort mark, is kept.
    pub fn set_meta(&mut self, change: impl FnOnce(&mut SessionMeta)) -> Result<(), JournalError> {
        self.meta = meta::update_meta(&self.dir, change)?;
        if meta::is_final(self.meta.state) {
            unfinished::unmark(&self.dir)?;
        }
        Ok(())
    }

    /// Gives back the room that was kept for the closing events, when these are written: on a full disk, what says that
    /// the session is over may need it.
    pub fn release(&mut self) -> Result<(), JournalError> {
        self.events.release()
    }

    /// Makes everything durable: after it returns, a loss of power loses nothing of what was written before.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.pending_sync()?.run()
    }

    /// Returns what [`Self::sync`] has to do, so that it can be done on a thread that may wait for the disk.
    pub fn pending_sync(&mut self) -> Result<PendingSync, JournalError> {
        self.flush_all_raw()?;
        self.index.write()?;
        let raw = self.raw.iter_mut().flatten().filter_map(|raw| raw.file.take_dirty());
        let mut files: Vec<_> = raw.collect();
        files.extend(self.index.take_dirty());
        files.extend(self.events.take_dirty());
        let dir = std::mem::take(&mut self.dir_dirty).then(|| self.dir.clone());
        Ok(PendingSync { files, dir, is_new: std::mem::take(&mut self.is_new) })
    }

    /// Ends the writing: what is held back is written, all is made durable, the lock is freed.
    ///
    /// Dropping the writer does the same as far as it can without waiting for the disk or telling of a failure.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.finish()?;
        self.sync()
    }

    /// Ends the writing like [`Self::close`], and changes what the session is, in one round of waiting for the disk: the raw
    /// files, their index and the events first, then the description that says how the session ended, then the names.
    ///
    /// Each step is tried, whatever became of those before it. The first failure is returned.
    pub fn close_with(mut self, change: impl FnOnce(&mut SessionMeta)) -> Result<(), JournalError> {
        let finished = self.finish();
        let (is_new, synced) = match self.pending_sync() {
            // The new description and the directory are made durable with the change.
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
        // One search over all lines: nearly always there is nothing to mask.
        if self.options.mask.finds_any(&self.buffer) {
            for line in self.buffer.split_mut(|byte| *byte == b'\n') {
                self.options.mask.line(line);
            }
        }
        Ok(())
    }

    /// Puts on file what these events speak of and is still held back.
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

    /// Says whether bytes are on file.
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

/// Writes bytes and takes note of their record, or neither.
fn append_raw(
    raw: &mut Append,
    index: &mut Records,
    file: RawFile,
    at: SystemTime,
    bytes: &[u8],
) -> Result<(), JournalError> {
    index.make_room()?;
    let start = raw.len();
    raw.append(bytes)?;
    index.push(at, RawSpan { file, start, end: raw.len() });
    Ok(())
}

/// What has to be made durable.
#[derive(Debug)]
#[must_use = "nothing is durable until it runs"]
pub struct PendingSync {
    files: Vec<(Arc<File>, PathBuf)>,
    dir: Option<PathBuf>,
    is_new: bool,
}

impl PendingSync {
    /// Waits until it is durable: raw files first, then their index, then the events.
    pub fn run(self) -> Result<(), JournalError> {
        for (file, path) in &self.files {
            file.sync_data().map_err(|error| JournalError::io("sync", path, error))?;
        }
        let Some(dir) = &self.dir else { return Ok(()) };
        if self.is_new {
            let meta = meta::path(dir);
            let synced = File::open(&meta).and_then(|file| file.sync_all());
            synced.map_err(|error| JournalError::io("sync", &meta, error))?;
        }
        meta::sync_dir(dir)?;
        // The session's own name stands in the directory above.
        dir.parent().filter(|_| self.is_new).map_or(Ok(()), meta::sync_dir)
    }
}
