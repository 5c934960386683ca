//! `io.index`: the time of each write to a raw file. A header, then records of one size, little-endian.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_protocol::{RawFile, RawSpan};

use super::{INDEX_FILE, JournalError};

/// The version of the index that this crate writes.
pub(super) const INDEX_FORMAT: u32 = 1;

/// The size of the header and of each record.
pub(super) const RECORD: usize = 32;

/// The longest write that gets one record. Chunks are 64 KiB at most; a prompt may be longer.
pub(super) const LONGEST: usize = 1 << 30;

const MAGIC: [u8; 8] = *b"BOWLNIDX";

/// One write to one of the raw files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    /// When the bytes were read or written, in microseconds since 1970.
    pub micros: i64,
    /// Where they are.
    pub span: RawSpan,
    /// Whether a repair found the bytes. Then the time is that of the repair.
    pub recovered: bool,
}

impl IndexRecord {
    /// Returns the time as a `SystemTime`.
    pub fn at(&self) -> SystemTime {
        let distance = Duration::from_micros(self.micros.unsigned_abs());
        if self.micros < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }

    pub(super) fn encode(self) -> [u8; RECORD] {
        let mut out = [0; RECORD];
        out[..8].copy_from_slice(&self.micros.to_le_bytes());
        out[8..16].copy_from_slice(&self.span.start.to_le_bytes());
        let len = u32::try_from(self.span.end - self.span.start).expect("writers split what is longer");
        out[16..20].copy_from_slice(&len.to_le_bytes());
        out[20] = stream_number(self.span.file);
        out[21] = u8::from(self.recovered);
        seal(&mut out);
        out
    }

    /// Reads a record; `None` if it is not one.
    pub(super) fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let file = stream_of(bytes[20])?;
        let start = u64::from_le_bytes(part(bytes, 8));
        let end = start.checked_add(u32::from_le_bytes(part(bytes, 16)).into())?;
        let record = Self {
            micros: i64::from_le_bytes(part(bytes, 0)),
            span: RawSpan { file, start, end },
            recovered: bytes[21] != 0,
        };
        is_sealed(bytes).then_some(record)
    }
}

/// Converts a time of the system to microseconds since 1970.
pub(super) fn micros(at: SystemTime) -> i64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
    }
}

/// Returns the header of an index.
pub(super) fn header() -> [u8; RECORD] {
    let mut out = [0; RECORD];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&INDEX_FORMAT.to_le_bytes());
    out[12..16].copy_from_slice(&(RECORD as u32).to_le_bytes());
    seal(&mut out);
    out
}

fn stream_number(file: RawFile) -> u8 {
    match file {
        RawFile::Stdout => 1,
        RawFile::Stderr => 2,
        RawFile::Stdin => 3,
        RawFile::Pty => 4,
    }
}

fn stream_of(number: u8) -> Option<RawFile> {
    Some(match number {
        1 => RawFile::Stdout,
        2 => RawFile::Stderr,
        3 => RawFile::Stdin,
        4 => RawFile::Pty,
        _ => return None,
    })
}

fn part<const N: usize>(bytes: &[u8; RECORD], from: usize) -> [u8; N] {
    bytes[from..from + N].try_into().expect("the range has that length")
}

fn seal(bytes: &mut [u8; RECORD]) {
    let sum = checksum(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8; RECORD]) -> bool {
    u32::from_le_bytes(part(bytes, 28)) == checksum(&bytes[..28])
}

/// FNV-1a: it detects zeros and half-written records, not forgeries.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum: u32 = 0x811c_9dc5;
    for byte in bytes {
        sum = (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    sum
}

/// Reads an index from its beginning to the end of the complete records. Reading can go on when the file has grown.
///
/// A living runner may hold records in memory for up to a second.
#[derive(Debug)]
pub struct Index {
    /// None before the first byte.
    file: Option<BufReader<File>>,
    path: PathBuf,
    /// The number of bytes read as header and records.
    offset: u64,
    part: [u8; RECORD],
    filled: usize,
}

impl Index {
    /// Opens the index of a session's directory.
    pub(super) fn open(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(INDEX_FILE);
        Ok(Self { file: look(&path)?, path, offset: 0, part: [0; RECORD], filled: 0 })
    }

    /// Returns the next record, or `None` after the last complete one.
    pub fn next_record(&mut self) -> Result<Option<IndexRecord>, JournalError> {
        if self.offset == 0 {
            let Some(header) = self.next_part()? else { return Ok(None) };
            self.check_header(&header)?;
            self.offset = RECORD as u64;
        }
        let Some(part) = self.next_part()? else { return Ok(None) };
        let record =
            IndexRecord::decode(&part).ok_or_else(|| self.damaged("this is not a record".to_owned()))?;
        self.offset += RECORD as u64;
        Ok(Some(record))
    }

    /// Returns the length of the valid part of the file.
    pub(super) fn understood(&self) -> u64 {
        self.offset
    }

    fn check_header(&self, header: &[u8; RECORD]) -> Result<(), JournalError> {
        let (version, size) = (u32::from_le_bytes(part(header, 8)), u32::from_le_bytes(part(header, 12)));
        if header[..8] != MAGIC || !is_sealed(header) {
            return Err(self.damaged("this is not the header of an index".to_owned()));
        }
        if version > INDEX_FORMAT {
            let path = self.path.clone();
            return Err(JournalError::NewerFormat { path, found: version, known: INDEX_FORMAT });
        }
        if size as usize != RECORD {
            return Err(self.damaged(format!("records of {size} bytes are not of format {version}")));
        }
        Ok(())
    }

    fn next_part(&mut self) -> Result<Option<[u8; RECORD]>, JournalError> {
        if self.file.is_none() {
            self.file = look(&self.path)?;
        }
        let Some(file) = &mut self.file else { return Ok(None) };
        while self.filled < RECORD {
            match file.read(&mut self.part[self.filled..]) {
                // Keep the bytes read so far: the writer may be in the middle of this record.
                Ok(0) => return Ok(None),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(JournalError::read("read", &self.path, error)),
            }
        }
        self.filled = 0;
        Ok(Some(self.part))
    }

    fn damaged(&self, reason: String) -> JournalError {
        JournalError::Damaged { path: self.path.clone(), offset: self.offset, reason, source: None }
    }
}

/// Opens an index, if there is one.
fn look(path: &Path) -> Result<Option<BufReader<File>>, JournalError> {
    match File::open(path) {
        Ok(file) => Ok(Some(BufReader::new(file))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::read("open", path, error)),
    }
}
