//! Lines: cut at `\n`, with a cap, in time linear in the bytes.

/// The longest line that is looked at: 64 MiB. A longer one is reported with its place and skipped.
pub const LINE_CAP: usize = 64 * 1024 * 1024;

/// A piece of a stream and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The bytes, without the end of the line. Of a frame over the cap, only the beginning.
    pub bytes: &'a [u8],
    /// The offset of the first byte in the stream.
    pub start: u64,
    /// The offset behind the last byte of the frame, whether or not it is in `bytes`.
    pub end: u64,
    /// Whether the frame is over the cap.
    pub cut: bool,
}

/// How much of a line over the cap is kept.
const HEAD: usize = 4096;

/// Cuts lines. A line that lies within one chunk is not copied.
#[derive(Debug)]
pub struct LineCutter {
    /// The beginning of a line whose end has not come.
    pending: Vec<u8>,
    /// The offset of that beginning.
    start: u64,
    /// How many bytes of the line have come, kept or not.
    length: u64,
    cap: usize,
    /// Whether line ends are cut at all.
    at_line_ends: bool,
}

impl LineCutter {
    /// Makes a cutter that gives up on lines longer than `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { pending: Vec::new(), start: 0, length: 0, cap, at_line_ends: true }
    }

    /// Makes a cutter that gives everything as one frame, at the end.
    pub fn whole(cap: usize) -> Self {
        Self { at_line_ends: false, ..Self::new(cap) }
    }

    /// Takes bytes and hands on every line that they complete.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Frame<'_>)) {
        let mut rest = bytes;
        while let Some(at) = self.line_end(rest) {
            let (line, after) = (&rest[..at], &rest[at + 1..]);
            // The usual case: the line lies within this chunk, and no byte is copied.
            if self.length == 0 && line.len() <= self.cap {
                sink(frame(line, self.start, line.len() as u64, false));
                self.start += at as u64 + 1;
            } else {
                self.keep(line);
                self.complete(sink);
                // The line end itself, which `complete` does not count.
                self.start += 1;
            }
            rest = after;
        }
        self.keep(rest);
    }

    /// Hands on a last line that has no end.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        if self.length > 0 {
            self.complete(sink);
        }
    }

    fn line_end(&self, bytes: &[u8]) -> Option<usize> {
        if self.at_line_ends { memchr::memchr(b'\n', bytes) } else { None }
    }

    /// Adds to the pending line; over the cap, only counts.
    fn keep(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.length <= self.cap as u64 {
            self.pending.extend_from_slice(bytes);
            return;
        }
        // Whatever the chunks were, the same beginning is kept.
        let room = HEAD.saturating_sub(self.pending.len());
        self.pending.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.pending.truncate(HEAD);
    }

    fn complete(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        let cut = self.length > self.cap as u64;
        sink(frame(&self.pending, self.start, self.length, cut));
        self.start += self.length;
        self.length = 0;
        self.pending.clear();
        // A single huge line should not hold its memory for the rest of the session.
        self.pending.shrink_to(1024 * 1024);
    }
}

/// Makes the frame of a line, leaving out the `\r` of a `\r\n`.
fn frame(bytes: &[u8], start: u64, length: u64, cut: bool) -> Frame<'_> {
    match bytes.strip_suffix(b"\r") {
        Some(bytes) if !cut => Frame { bytes, start, end: start + length - 1, cut },
        _ => Frame { bytes, start, end: start + length, cut },
    }
}
