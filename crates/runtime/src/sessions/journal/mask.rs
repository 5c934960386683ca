//! Masks known secrets: each byte of a secret becomes `*`, so that offsets and lengths stay correct.
//!
//! Two writers use it. The raw files are a stream of chunks: the mask holds back bytes that may be the beginning of a secret
//! until the next chunk. The events are whole lines of JSON: the mask changes only the inside of strings, and a masked line
//! is still an event. It does not recognise a secret that the agent itself cuts in two (two text deltas, two terminal redraws).

use std::borrow::Cow;

use bowline_protocol::Event;
use memchr::memmem::Finder;

/// The replacement of a masked byte.
const STAR: u8 = b'*';

/// The secrets that must not reach the disk.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<Secret>,
}

/// The ways in which one secret may be written.
#[derive(Clone)]
struct Secret {
    /// The plain text, and its forms in JSON.
    forms: Vec<Finder<'static>>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Mask {
    /// Shorter values are not masked: they occur in any text by chance.
    pub const SHORTEST: usize = 4;

    /// Masks nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Masks these values. Those below [`Self::SHORTEST`] bytes are left out.
    pub fn new<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.as_ref().len() >= Self::SHORTEST);
        Self { secrets: long.map(|secret| Secret::new(secret.as_ref())).collect() }
    }

    /// Returns whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Masks a whole text, such as an error message.
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Cow::Borrowed(bytes);
        for form in self.forms() {
            for start in all(form, bytes) {
                out.to_mut()[start..start + form.needle().len()].fill(STAR);
            }
        }
        out
    }

    fn forms(&self) -> impl Iterator<Item = &Finder<'static>> {
        self.secrets.iter().flat_map(|secret| &secret.forms)
    }

    /// Returns whether these bytes contain a secret.
    pub(super) fn finds_any(&self, bytes: &[u8]) -> bool {
        self.forms().any(|form| form.find(bytes).is_some())
    }

    /// Masks one line of `events.jsonl`, without its end.
    pub(super) fn line(&self, line: &mut [u8]) {
        if !self.finds_any(line) {
            return;
        }
        // Search for every secret in the original line: one may be a part of another.
        let original = line.to_vec();
        let read = |line: &[u8]| serde_json::from_slice::<Event>(line).ok();
        let Some(before) = read(&original) else { return };
        let values = string_values(&original);
        for secret in &self.secrets {
            let mut masked = line.to_vec();
            for value in &values {
                secret.fill(&original[value.clone()], &mut masked[value.clone()]);
            }
            // Never mask a word of our own format, even if it is on the list: every journal contains it.
            if read(&masked).is_some_and(|after| before.kind.type_name() == after.kind.type_name()) {
                line.copy_from_slice(&masked);
            }
        }
    }

    /// Returns the offset of trailing bytes that may be the beginning of a secret.
    fn undecided(&self, bytes: &[u8]) -> usize {
        let longest_beginning = |form: &Finder<'static>| {
            let needle = form.needle();
            // One byte less than the secret: a complete one is found and masked, only a beginning is undecided.
            let most = bytes.len().min(needle.len() - 1);
            let window = bytes.len() - most;
            let mut starts = memchr::memchr_iter(needle[0], &bytes[window..]);
            starts.find(|start| needle.starts_with(&bytes[window + start..])).map(|start| window + start)
        };
        self.forms().filter_map(longest_beginning).min().unwrap_or(bytes.len())
    }
}

impl Secret {
    fn new(plain: &[u8]) -> Self {
        let mut forms: Vec<Vec<u8>> = vec![plain.to_vec()];
        if let Ok(text) = std::str::from_utf8(plain) {
            // An agent prints a tool's input as JSON, often as a string inside JSON. Some writers also escape the slash, or
            // all that is not ASCII.
            let once = json(text);
            let twice = json(&once);
            let slashes = once.replace('/', "\\/");
            let ascii: String = once.encode_utf16().map(ascii_unit).collect();
            for form in [once, twice, slashes, ascii] {
                if !forms.iter().any(|known| known == form.as_bytes()) {
                    forms.push(form.into_bytes());
                }
            }
        }
        Self { forms: forms.iter().map(|form| Finder::new(form).into_owned()).collect() }
    }

    /// Masks the secret inside a JSON string.
    fn fill(&self, text: &[u8], masked: &mut [u8]) {
        if !self.forms.iter().any(|form| form.find(text).is_some()) {
            return;
        }
        let borders = character_borders(text);
        for form in &self.forms {
            for start in all(form, text) {
                let end = start + form.needle().len();
                // Do not match half of an escape sequence.
                if borders[start] && borders[end] {
                    masked[start..end].fill(STAR);
                }
            }
        }
    }
}

/// Returns a text as the inside of a JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Writes a UTF-16 unit as JSON writers do that keep to ASCII.
fn ascii_unit(unit: u16) -> String {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    }
}

/// Finds every occurrence of a form, also overlapping ones.
fn all<'a>(form: &'a Finder<'static>, bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + form.find(bytes.get(from..)?)?;
        from = start + 1;
        Some(start)
    })
}

/// Finds the strings of a line of JSON that are not keys.
fn string_values(line: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(quote) = memchr::memchr(b'"', &line[at..]) {
        let start = at + quote + 1;
        let mut end = start;
        while end < line.len() && line[end] != b'"' {
            end += if line[end] == b'\\' { 2 } else { 1 };
        }
        let end = end.min(line.len());
        at = (end + 1).min(line.len());
        let is_key = line[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        if !is_key {
            found.push(start..end);
        }
    }
    found
}

/// Returns for each offset inside a JSON string whether it is a boundary of characters and escapes.
fn character_borders(text: &[u8]) -> Vec<bool> {
    let mut borders = vec![false; text.len() + 1];
    let mut at = 0;
    while at < text.len() {
        borders[at] = true;
        at += match (text[at], text.get(at + 1)) {
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            _ => 1,
        };
    }
    borders[text.len()] = true;
    borders
}

/// One raw file on its way to the disk.
#[derive(Debug, Default)]
pub(super) struct MaskedStream {
    /// The end of the stream that may be the beginning of a secret, as the agent wrote it.
    tail: Vec<u8>,
    /// The same, with overlapping secrets masked.
    tail_masked: Vec<u8>,
    /// The number of bytes of the tail that a flush has written.
    flushed: usize,
}

/// The writes for one chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Overwrite the last bytes of the file with this: a secret that a flush had cut in two is now complete.
    pub(super) rewrite: Option<Vec<u8>>,
    /// Append this.
    pub(super) append: Cow<'a, [u8]>,
}

impl MaskedStream {
    /// Returns the number of bytes held back.
    pub(super) fn held(&self) -> usize {
        self.tail.len() - self.flushed
    }

    /// Takes a chunk, and returns the writes and the next state of the stream.
    pub(super) fn feed<'a>(&self, mask: &Mask, chunk: &'a [u8]) -> (Piece<'a>, Self) {
        if self.tail.is_empty() && !mask.finds_any(chunk) {
            // The common case: write the chunk unchanged, except a tail that may be the beginning of a secret.
            let (append, tail) = chunk.split_at(mask.undecided(chunk));
            let next = Self { tail: tail.to_vec(), tail_masked: tail.to_vec(), flushed: 0 };
            return (Piece { rewrite: None, append: append.into() }, next);
        }
        let bytes = [&self.tail, chunk].concat();
        let mut masked = [&self.tail_masked, chunk].concat();
        for form in mask.forms() {
            for start in all(form, &bytes) {
                masked[start..start + form.needle().len()].fill(STAR);
            }
        }
        let end = mask.undecided(&bytes);
        let rewrite = (masked[..self.flushed] != self.tail_masked[..self.flushed])
            .then(|| masked[..self.flushed].to_vec());
        // Bytes that a flush wrote stay part of the tail as long as they may belong to a secret.
        let append = masked[self.flushed..end.max(self.flushed)].to_vec().into();
        let next = Self {
            tail: bytes[end..].to_vec(),
            tail_masked: masked[end..].to_vec(),
            flushed: self.flushed.saturating_sub(end),
        };
        (Piece { rewrite, append }, next)
    }

    /// Returns the bytes held back, masked for the file.
    pub(super) fn held_bytes(&self) -> &[u8] {
        &self.tail_masked[self.flushed..]
    }

    /// Marks everything as written. If the next chunk completes a secret, it is overwritten.
    pub(super) fn mark_flushed(&mut self) {
        self.flushed = self.tail.len();
    }
}

#[cfg(test)]
mod tests;
