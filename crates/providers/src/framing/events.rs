//! Server-sent events among lines.
//!
//! The lines of an event stream (`data: …`, `event: …`, comments, a blank line as the end) are told from lines of
//! JSON by their beginning, so one framer serves programs that print either. A stream that ends without the last
//! blank line still gives its last event, and lines that only look like fields, because no data goes with them, pass
//! as they are: the program printed the bytes, so they must not be lost.

use super::Frame;

/// Joins the `data` lines of an event; other lines pass as they are.
#[derive(Debug)]
pub struct EventJoiner {
    data: Vec<u8>,
    /// The place of the data so far; `None` when there is none.
    place: Option<(u64, u64)>,
    /// Fields without data so far, each with its place.
    fields: Vec<(Vec<u8>, u64, u64)>,
    first_line: bool,
    /// Whether this has shown to be a stream of events.
    events: bool,
    cap: usize,
}

/// The most fields that one event has before its data.
const MOST_FIELDS: usize = 16;

impl EventJoiner {
    /// Makes a joiner that gives up on events longer than `cap` bytes.
    pub fn new(cap: usize) -> Self {
        let (data, fields) = (Vec::new(), Vec::new());
        Self { data, place: None, fields, first_line: true, events: false, cap }
    }

    /// Handles a line.
    pub fn line(&mut self, mut line: Frame<'_>, sink: &mut dyn FnMut(Frame<'_>)) {
        // A byte order mark may begin the stream, and the place of the line moves with it.
        if std::mem::take(&mut self.first_line)
            && let Some(rest) = line.bytes.strip_prefix(b"\xEF\xBB\xBF")
        {
            line = Frame { bytes: rest, start: line.start + 3, ..line };
        }
        let in_block = self.place.is_some() || !self.fields.is_empty();
        if line.cut {
            self.dispatch(sink);
            sink(line);
        } else if line.bytes.is_empty() {
            self.dispatch(sink);
        } else if let Some(value) = field(line.bytes, b"data", in_block) {
            self.add(value, &line, sink);
        } else if self.events && line.bytes.starts_with(b":") {
            // A comment, with which servers keep a connection alive.
        } else if is_other_field(line.bytes, in_block) && self.fields.len() < MOST_FIELDS {
            // It carries nothing that the data does not: both protocols name the type inside it.
            if self.place.is_none() {
                self.fields.push((line.bytes.to_vec(), line.start, line.end));
            }
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
        self.events = true;
        // The fields were real ones: data goes with them, so they are not printed as lines.
        self.fields.clear();
        // An event over the cap is handed on in parts, since dropping bytes of the program is not allowed.
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
        for (bytes, start, end) in self.fields.drain(..) {
            sink(Frame { bytes: &bytes, start, end, cut: false });
        }
        if let Some((start, end)) = self.place.take() {
            sink(Frame { bytes: &self.data, start, end, cut: false });
            self.data.clear();
        }
    }
}

fn is_other_field(line: &[u8], in_block: bool) -> bool {
    line.starts_with(b":")
        || [&b"event"[..], b"id", b"retry"].iter().any(|name| field(line, name, in_block).is_some())
}

/// Returns the value if the line is this field: `name: value`, `name:value`, or, among others, the bare `name`.
fn field<'a>(line: &'a [u8], name: &[u8], in_block: bool) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    if rest.is_empty() {
        // A bare `data` or `id` counts only inside an event: on its own it is more likely text.
        return in_block.then_some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
