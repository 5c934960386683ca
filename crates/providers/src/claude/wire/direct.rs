//! The line that comes by the thousand, read by its shape: a piece of streamed text, with the keys in the order in which
//! the program writes them.
//!
//! A shortcut and nothing else. A line that differs in anything, by a key, an escape, a blank, goes to the typed reader in
//! `wire`, and what is read here is what that one would have read; a property test holds it to that.

use std::borrow::Cow;

use bowline_protocol::plain_json_prefix;

use super::{ClaudeDelta, ClaudePiece};

const HEAD: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":"#;
const DELTA: &str = r#","delta":{"type":"text_delta","text":""#;

/// Reads the line, if it has exactly the usual shape.
pub(crate) fn read(line: &str) -> Option<ClaudeDelta<'_>> {
    let (block, rest) = number(line.strip_prefix(HEAD)?)?;
    let (text, rest) = string(rest.strip_prefix(DELTA)?)?;
    let mut rest = rest.strip_prefix("}}")?;
    let (mut message, mut parent) = (DirectField::Unseen, DirectField::Unseen);
    while rest != "}" {
        let (key, value) = string(rest.strip_prefix(",\"")?)?;
        let value = value.strip_prefix(':')?;
        let (value, after) = match value.strip_prefix("null") {
            Some(after) => (None, after),
            None => string(value.strip_prefix('"')?).map(|(text, after)| (Some(text), after))?,
        };
        rest = after;
        match key {
            "api_message_id" => message.set(value)?,
            "parent_tool_use_id" => parent.set(value)?,
            // The typed reader passes over these, however often they come.
            "session_id" | "uuid" => {}
            _ => return None,
        }
    }
    Some(ClaudeDelta {
        message: message.text(),
        parent: parent.text(),
        block,
        piece: ClaudePiece::Text(Cow::Borrowed(text)),
    })
}

/// A field that may come once.
enum DirectField<'a> {
    Unseen,
    Seen(Option<&'a str>),
}

impl<'a> DirectField<'a> {
    fn set(&mut self, value: Option<&'a str>) -> Option<()> {
        match self {
            Self::Unseen => {
                *self = Self::Seen(value);
                Some(())
            }
            // The typed reader refuses a line with a key of its own twice.
            Self::Seen(_) => None,
        }
    }

    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Unseen => None,
            Self::Seen(text) => text.map(Cow::Borrowed),
        }
    }
}

/// Reads a whole number as JSON writes it, and returns it with what follows.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    // JSON has no leading zeros, and a fraction or an exponent would follow here.
    let is_plain = number == "0" || !number.starts_with('0');
    (is_plain && rest.starts_with(',')).then(|| Some((number.parse().ok()?, rest)))?
}

/// Reads the rest of a string without escapes, and returns it with what follows its end.
fn string(text: &str) -> Option<(&str, &str)> {
    let inside = plain_json_prefix(text);
    let rest = text[inside.len()..].strip_prefix('"')?;
    Some((inside, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const USUAL: &str = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello, wörld"}},"session_id":"s","parent_tool_use_id":null,"uuid":"u","api_message_id":"msg_1"}"#;

    /// Whatever the shortcut reads, the typed reader reads the same.
    fn check(line: &str) {
        if let Some(read) = read(line) {
            let typed = ClaudeDelta::typed(line).unwrap_or_else(|| panic!("only the shortcut reads {line}"));
            assert_eq!(format!("{read:?}"), format!("{typed:?}"), "{line}");
        }
    }

    #[test]
    fn the_usual_line_takes_the_shortcut() {
        assert!(read(USUAL).is_some());
        check(USUAL);
        for (from, to) in
            [("null", r#""toolu_1""#), (r#","api_message_id":"msg_1""#, ""), ("0", "4294967295")]
        {
            let line = USUAL.replacen(from, to, 1);
            assert!(read(&line).is_some(), "{line}");
            check(&line);
        }
    }

    #[test]
    fn anything_else_does_not() {
        for (from, to) in [
            ("Hello", r"He\nllo"),
            ("Hello", "He\u{7}llo"),
            ("\"index\":0", "\"index\":00"),
            ("\"index\":0", "\"index\":4294967296"),
            ("\"index\":0", "\"index\":0.0"),
            ("\"index\":0", "\"index\":-0"),
            ("\"uuid\":\"u\"", "\"uuid\":1"),
            ("\"uuid\"", "\"event\""),
            ("\"uuid\"", "\"api_message_id\""),
            ("\"uuid\"", "\"other\""),
            (",\"uuid\"", ", \"uuid\""),
            ("\"}},", "\"},"),
            ("\"}}", "\",\"text\":\"x\"}}"),
        ] {
            let line = USUAL.replacen(from, to, 1);
            assert_ne!(line, USUAL);
            assert!(read(&line).is_none(), "{line}");
        }
        assert!(read(&format!("{USUAL} ")).is_none() && read(&USUAL[..USUAL.len() - 1]).is_none());
    }

    /// Parts of which lines are made that are nearly usual.
    const PARTS: &[&str] = &[
        HEAD,
        DELTA,
        "0",
        "17",
        "007",
        "4294967296",
        "\"}}",
        "}",
        "}}",
        "\"",
        "\\",
        "\\u0041",
        "\u{0}",
        "é\u{1F600}",
        "words",
        ",",
        ":",
        "null",
        "1.5",
        " ",
        ",\"session_id\":\"s\"",
        ",\"uuid\":null",
        ",\"uuid\":{}",
        ",\"parent_tool_use_id\":null",
        ",\"parent_tool_use_id\":\"toolu_1\"",
        ",\"api_message_id\":\"msg_1\"",
        ",\"api_message_id\":7",
        ",\"event\":{}",
        ",\"type\":\"stream_event\"",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_shortcut_agrees_with_the_typed_reader(
            text in ".{0,20}",
            index in select(vec!["0", "1", "00", "4294967295", "4294967296", "-1", "1e1", "null"]),
            after in proptest::collection::vec(select(PARTS), 0..4),
            cut in proptest::option::of((0_usize..260, 0_usize..4, select(PARTS))),
        ) {
            let mut line = format!("{HEAD}{index}{DELTA}{text}\"}}}}{}}}", after.concat());
            check(&line);
            // The same with a piece of it replaced.
            if let Some((at, length, part)) = cut {
                let start = line.floor_char_boundary(at);
                let end = line.ceil_char_boundary(start + length);
                line.replace_range(start..end, part);
                check(&line);
            }
        }
    }
}
