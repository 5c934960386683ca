//! `{name}` in the texts of a scenario: the known names, and the position of an unknown one.
//!
//! Braces around anything but a name are braces: JSON needs no escapes. `{{name}}` becomes `{name}`.

use super::read::is_name;
use super::{Call, Reply, ReplyText};

/// The names that the request defines, for every text.
pub(super) const OF_REQUEST: [&str; 5] = ["first-user", "last-user", "system", "schema", "cwd"];

/// The number of a repeated text.
pub(crate) const NUMBER: &str = "n";

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPiece<'a> {
    /// It is sent unchanged.
    Plain(&'a str),
    /// The value of the name is sent.
    Name(&'a str),
}

/// Splits a text at its names.
pub(crate) fn pieces(text: &str) -> Vec<TextPiece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        pieces.push(TextPiece::Plain(&rest[..at]));
        rest = &rest[at..];
        let (piece, length) = if let Some(name) = between(rest, "{{", "}}") {
            (TextPiece::Plain(&rest[1..name.len() + 3]), name.len() + 4)
        } else if let Some(name) = between(rest, "{", "}") {
            (TextPiece::Name(name), name.len() + 2)
        } else {
            (TextPiece::Plain("{"), 1)
        };
        pieces.push(piece);
        rest = &rest[length..];
    }
    pieces.push(TextPiece::Plain(rest));
    pieces.retain(|piece| *piece != TextPiece::Plain(""));
    pieces
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inside = text.strip_prefix(open)?;
    let name = &inside[..inside.find(close)?];
    is_name(name).then_some(name)
}

/// Returns the names in a text.
pub(super) fn of_text(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        TextPiece::Name(name) => Some(name),
        TextPiece::Plain(_) => None,
    })
}

/// Returns all texts of an answer in which names are replaced.
pub(super) fn texts(reply: &Reply) -> Vec<&str> {
    let mut texts: Vec<&str> = reply.think.iter().map(String::as_str).collect();
    match &reply.say {
        ReplyText::Nothing => {}
        ReplyText::Text { text, .. } => texts.push(text),
        ReplyText::Deltas(deltas) => texts.extend(deltas.iter().map(String::as_str)),
    }
    for Call { forms, otherwise } in &reply.calls {
        texts.extend(otherwise.iter().map(String::as_str));
        for form in forms {
            texts.extend(form.text.iter().map(String::as_str));
            form.input.iter().flat_map(toml::Table::values).for_each(|value| inside(value, &mut texts));
        }
    }
    texts
}

fn inside<'a>(value: &'a toml::Value, texts: &mut Vec<&'a str>) {
    match value {
        toml::Value::String(text) => texts.push(text),
        toml::Value::Array(values) => values.iter().for_each(|value| inside(value, texts)),
        toml::Value::Table(table) => table.values().for_each(|value| inside(value, texts)),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
}

/// Finds the position of a name in a file, after an offset; that offset if it is written in another way, as with an escape.
pub(super) fn place(file: &str, from: usize, name: &str) -> std::ops::Range<usize> {
    let written = format!("{{{name}}}");
    let found = file[from..].match_indices(&written).find(|(at, _)| {
        // Skip an escaped one.
        !file[..from + at].ends_with('{') || !file[from + at + written.len()..].starts_with('}')
    });
    found.map_or(from..from, |(at, _)| from + at..from + at + written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_braces_unless_a_name_is_in_them() {
        use TextPiece::{Name, Plain};
        for (text, expect) in [
            ("a {b} c", vec![Plain("a "), Name("b"), Plain(" c")]),
            ("{a}{b-1}", vec![Name("a"), Name("b-1")]),
            ("{\"a\": {}} { x } {A}", vec![]),
            ("x {{a}} y", vec![Plain("x "), Plain("{a}"), Plain(" y")]),
            ("{{a}", vec![Plain("{"), Name("a")]),
            ("{", vec![Plain("{")]),
            ("{a", vec![Plain("{"), Plain("a")]),
            ("", vec![]),
        ] {
            let found = pieces(text);
            if expect.is_empty() {
                let joined: String = found
                    .iter()
                    .map(|piece| match piece {
                        Plain(text) => *text,
                        Name(name) => panic!("{name} in {text}"),
                    })
                    .collect();
                assert_eq!(joined, text);
            } else {
                assert_eq!(found, expect, "{text}");
            }
        }
    }
}
