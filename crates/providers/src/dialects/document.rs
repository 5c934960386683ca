//! Finding the one JSON value of a document that may hold noise before and after it.

use serde_json::{Map, Value};

use super::content;
use crate::lenient;

/// A JSON value, and what stands around it.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) before: String,
    pub(crate) value: Option<Value>,
    pub(crate) after: String,
}

/// How often a `{` may turn out not to begin an object before the search is given up, so that a hostile document
/// costs a bounded number of parses.
const MOST_ATTEMPTS: usize = 256;

/// Finds the object or array that a document is, else the last object in it that has an answer or an error, else the
/// last one that is no line of a log.
pub(crate) fn find(document: &str) -> Found {
    if let Some(value @ (Value::Object(_) | Value::Array(_))) = lenient::value(document.trim()) {
        return Found { value: Some(value), ..Found::default() };
    }
    let found = search(document);
    // Colour around it, a byte order mark, half a surrogate pair: only then is every line looked at again.
    if found.value.is_some() { found } else { search(&lenient::repair_lines(document)) }
}

fn search(document: &str) -> Found {
    let mut best: Option<(bool, Found)> = None;
    let mut failures = 0;
    let mut from = 0;
    while failures < MOST_ATTEMPTS
        && let Some(at) = next_object(document, from)
    {
        let mut values =
            serde_json::Deserializer::from_str(&document[at..]).into_iter::<Map<String, Value>>();
        let Some(Ok(object)) = values.next() else {
            failures += 1;
            from = line_after(document, at);
            continue;
        };
        let end = at + values.byte_offset();
        from = end;
        if content::is_log_line(&object) {
            continue;
        }
        let speaks =
            content::find(&object).is_some() || object.get("error").and_then(content::error).is_some();
        if speaks || best.as_ref().is_none_or(|(best_speaks, _)| !best_speaks) {
            let (before, after) = (document[..at].to_owned(), document[end..].to_owned());
            best = Some((speaks, Found { before, value: Some(Value::Object(object)), after }));
        }
    }
    best.map(|(_, found)| found).unwrap_or_default()
}

/// Finds the next `{` that is the first visible character from `from` on, or of a later line. One in the middle of
/// a line is quoted by a log.
fn next_object(document: &str, mut from: usize) -> Option<usize> {
    while from < document.len() {
        let visible = document[from..].trim_start();
        let at = document.len() - visible.len();
        if visible.starts_with('{') {
            return Some(at);
        }
        from = line_after(document, at);
    }
    None
}

fn line_after(document: &str, at: usize) -> usize {
    memchr::memchr(b'\n', &document.as_bytes()[at..]).map_or(document.len(), |end| at + end + 1)
}
