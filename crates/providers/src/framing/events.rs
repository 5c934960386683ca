//! Server-sent events among lines.
//!
//! The lines of an event stream (`data: …`, `event: …`, comments, a blank line as the end) are told from lines of
//! JSON by their beginning, so one framer serves programs that print either. A stream that ends without the last
//! blank line still gives its last event: the bytes were printed, and losing them helps nobody.

use super::Frame;

/// Joins the `data` lines of an event; other lines pass as they are.
#[derive(Debug)]
pub struct EventJoiner {
    data: Vec<u8>,
    /// The place of the data so far; `None` when there is none.
    place: Option<(u64, u64)>,
    first_line: bool,
    cap: usize,
}

impl EventJoiner {
    /// Makes a joiner that gives up on events longer than `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { data: Vec::new(), place: None, first_line: true, cap }
    }

    /// Takes a line.
    pub fn line(&mut self, mut line: Frame<'_>, sink: &mut dyn FnMut(Frame<'_>)) {
        if std::mem::take(&mut self.first_line)
            && let Some(rest) = line.bytes.strip_prefix(b"\xEF\xBB\xBF")
        {
            line = Frame { bytes: rest, start: line.start + 3, ..line };
        }
        if line.cut {
            self.dispatch(sink);
            sink(line);
        } else if line.bytes.is_empty() {
            self.dispatch(sink);
        } else if let Some(value) = field(line.bytes, b"data") {
            self.add(value, &line, sink);
        } else if [&b"event"[..], b"id", b"retry"].iter().any(|name| field(line.bytes, name).is_some())
            || line.bytes.starts_with(b":")
        {
            // They carry nothing that the data does not: both protocols name the type inside it.
        } else {
            self.dispatch(sink);
            sink(line);
        }
    }

    /// Hands on an event that was not closed.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        self.dispatch(sink);
    }

    fn add(&mut self, value: &[u8], line: &Frame<'_>, sink: &mut dyn FnMut(Frame<'_>)) {
        if self.data.len() + value.len() > self.cap {
            self.dispatch(sink);
        }
        let start = self.place.map_or(line.start, |(start, _)| start);
        if self.place.is_some() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.place = Some((start, line.end));
    }

    fn dispatch(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        if let Some((start, end)) = self.place.take() {
            sink(Frame { bytes: &self.data, start, end, cut: false });
            self.data.clear();
        }
    }
}

/// Returns the value if the line is this field: `name: value`, `name:value` or the bare `name`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
