//! Reading one line of JSON from a program that is not always careful.
//!
//! A careful line costs one parse. Only when that fails is the line looked at again: terminal sequences around the
//! JSON go, raw control characters inside strings become escapes, half a surrogate pair becomes U+FFFD, and of a key
//! that occurs twice the last one counts. A line that is still not JSON is noise.

use std::collections::BTreeMap;

use bowline_protocol::kinds::UnrecognizedReason;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::dialect::Output;

/// Reads every JSON object of a line and gives it to `take`. Other text is kept as noise; a blank line is
/// nothing.
///
/// A line that begins with something else is noise as a whole, even if JSON follows: that is a log line which quotes
/// an answer, not an answer. Objects that follow each other without a line end, as two writers produce them, are read.
pub(crate) fn each_object<T: DeserializeOwned>(
    line: &str,
    out: &mut Output<'_>,
    mut take: impl FnMut(T, &mut Output<'_>),
) {
    // A derived reader would take an array for an object, so the brace is looked for first.
    if line.trim_ascii_start().starts_with('{')
        && let Ok(object) = serde_json::from_str::<T>(line)
    {
        return take(object, out);
    }
    if is_blank(line) {
        return;
    }
    let repaired = repair(line);
    let text = repaired.trim_start();
    if !text.starts_with('{') {
        return out.noise(line);
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<BTreeMap<String, Box<RawValue>>>();
    let mut read = 0;
    while let Some(Ok(fields)) = values.next() {
        // Field by field: of two equal keys the last one counts, and a value that cannot be held (a number out of
        // range, too many brackets) costs that field and not the line.
        let held = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
        let object: Map<String, Value> = fields.into_iter().map(|(key, raw)| (key, held(&raw))).collect();
        // Not counted as read: the rest of the line, this object included, is kept as noise.
        let Ok(object) = T::deserialize(Value::Object(object)) else { break };
        read = values.byte_offset();
        take(object, out);
    }
    let rest = text[read..].trim();
    if !rest.is_empty() {
        out.noise(rest);
    }
}

/// Gives every JSON object of a line to `read`, for readers that borrow from what they read: first the line itself, and if
/// `read` could not read that, each object as plain JSON in which no key occurs twice. One that it cannot read then either
/// is of a bad shape.
pub(crate) fn each_borrowed(
    line: &str,
    out: &mut Output<'_>,
    mut read: impl FnMut(&str, &mut Output<'_>) -> bool,
) {
    // A derived reader would take an array for an object.
    if line.trim_ascii_start().starts_with('{') && read(line, out) {
        return;
    }
    each_object(line, out, |object: serde_json::Map<String, Value>, out| {
        let text = Value::Object(object).to_string();
        if !read(&text, out) {
            out.unrecognized(UnrecognizedReason::BadShape, &text, None);
        }
    });
}

/// Reads a text as one JSON value, or not at all.
pub(crate) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(repair(text).trim()).ok())
}

/// Repairs every line of a document on its own: a string does not go over a line's end.
pub(crate) fn repair_lines(document: &str) -> String {
    document.lines().map(repair).collect::<Vec<_>>().join("\n")
}

/// Returns whether a line holds nothing but white space, NUL and byte order marks.
pub(crate) fn is_blank(line: &str) -> bool {
    line.chars().all(|c| c.is_whitespace() || c == '\0' || c == '\u{FEFF}')
}

/// Brings a line closer to JSON without touching the content of its strings.
pub(crate) fn repair(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut in_string = false;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let mut used = c.len_utf8();
        match c {
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '\\' if in_string => used = escape(rest, &mut out),
            '\0'..='\u{1F}' if in_string => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            '\u{1B}' | '\u{80}'..='\u{9F}' if !in_string => used = control_length(rest, used),
            '\t' | '\r' | '\n' => out.push(c),
            '\0'..='\u{1F}' | '\u{FEFF}' if !in_string => {}
            _ => out.push(c),
        }
        rest = &rest[used..];
    }
    out
}

/// Copies one escape of a JSON string and returns its length. Half a surrogate pair is replaced.
fn escape(rest: &str, out: &mut String) -> usize {
    let Some(unit) = unicode_escape(rest) else {
        // Any other escape is the backslash and one character.
        let length = rest.chars().take(2).map(char::len_utf8).sum();
        out.push_str(&rest[..length]);
        return length;
    };
    let pair = match unit {
        0xD800..=0xDBFF => unicode_escape(&rest[6..]).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)),
        0xDC00..=0xDFFF => false,
        _ => {
            out.push_str(&rest[..6]);
            return 6;
        }
    };
    out.push_str(if pair { &rest[..12] } else { "\\ufffd" });
    if pair { 12 } else { 6 }
}

/// Reads `\u` and its four hexadecimal digits at the beginning of a text.
fn unicode_escape(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|b| b.is_ascii_hexdigit()) { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// Returns how long the terminal sequence is that a text begins with; at least `least`.
fn control_length(text: &str, least: usize) -> usize {
    // No sequence of a well-behaved program is longer; without a bound, many of them would cost the square.
    let window = &text[..text.floor_char_boundary(4096)];
    let plain = crate::ansi::seven_bit(window);
    // An 8-bit control character and its 7-bit form are equally long, so the offsets agree.
    let first = anstream::adapter::strip_str(&plain).next().map(|printed| printed.as_ptr() as usize);
    let length = first.map_or(window.len(), |at| at - plain.as_ptr() as usize);
    text.ceil_char_boundary(length.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        assert_eq!(repair(line), expect, "{line:?}");
    }

    #[test]
    fn strings_keep_what_they_say() {
        check("{\"a\":\"\\u001b[32mgreen\"}", "{\"a\":\"\\u001b[32mgreen\"}");
        check("{\"a\":\"\u{9B}32m\"}", "{\"a\":\"\u{9B}32m\"}");
        check("{\"a\":\"x\u{1B}[1my\"}", "{\"a\":\"x\\u001b[1my\"}");
        check("{\"a\":\"x\0y\tz\"}", "{\"a\":\"x\\u0000y\\u0009z\"}");
    }

    #[test]
    fn sequences_around_json_go() {
        check("\u{1B}[32m{\"a\":1}\u{1B}[0m", "{\"a\":1}");
        check("\u{9B}32m{\u{1B}[0m\"a\"\u{1B}[1G:1}", "{\"a\":1}");
        check("\u{1B}]0;a \"title\" {\u{7}{\"a\":1}", "{\"a\":1}");
        check("\u{1B}P1;2|body\u{1B}\\{\"a\":1}", "{\"a\":1}");
        check("\0\u{FEFF}{\"a\":1}\0", "{\"a\":1}");
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_pair_is_not() {
        check(r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#);
        check(r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#);
        check(r#"{"a":"\ude00\ud83dx"}"#, r#"{"a":"\ufffd\ufffdx"}"#);
        check(r#"{"a":"\\ud83d"}"#, r#"{"a":"\\ud83d"}"#);
        check(r#"{"a":"\ud83d\"#, r#"{"a":"\ufffd\"#);
        check(r#"{"a":"\ud83"#, r#"{"a":"\ud83"#);
    }

    #[test]
    fn many_sequences_take_linear_time() {
        let line = "\u{1B}[0m".repeat(200_000);
        assert_eq!(repair(&line), "");
    }
}
