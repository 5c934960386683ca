//! Terminal control sequences, taken out of text.
//!
//! The state machine is a library's; here is only what it does not do: sequences that begin with an 8-bit control
//! character (U+0080 to U+009F, or the bare byte) are brought to their 7-bit form first. Lines are treated one at a
//! time, so an unfinished sequence swallows the rest of its line at most, never the rest of the answer.
//!
//! Not for JSON: inside a JSON string these characters are content. See `lenient` for sequences around JSON.

use std::borrow::Cow;

/// Removes terminal control sequences and control characters that are not white space, line by line.
pub fn strip(text: &str) -> Cow<'_, str> {
    if !has_control(text) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let seven_bit = seven_bit(line);
        let stripped = anstream::adapter::strip_str(&seven_bit).to_string();
        clean.extend(stripped.chars().filter(|c| !is_stray(*c)));
        if line.ends_with('\n') && !stripped.ends_with('\n') {
            clean.push('\n');
        }
    }
    Cow::Owned(clean)
}

/// Returns whether there is anything to strip.
pub fn has_control(text: &str) -> bool {
    text.bytes().any(|byte| byte < 0x20 && !byte.is_ascii_whitespace() || byte == 0xC2 || byte == 0x7F)
        && text.chars().any(is_stray)
}

fn is_stray(c: char) -> bool {
    c.is_control() && !c.is_ascii_whitespace()
}

/// Writes 8-bit control characters as the escape and the letter that mean the same.
pub(crate) fn seven_bit(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| ('\u{80}'..='\u{9F}').contains(&c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if ('\u{80}'..='\u{9F}').contains(&c) {
            out.push('\u{1B}');
            // 0x80 to 0x9F correspond to ESC 0x40 to ESC 0x5F.
            out.extend(char::from_u32(c as u32 - 0x40));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Decodes bytes as UTF-8. A byte that is not UTF-8 becomes U+FFFD, except a bare 8-bit control byte, which becomes the
/// control character that it is.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        match chunk.invalid() {
            [] => {}
            [byte @ 0x80..=0x9F] => text.push(char::from(*byte)),
            _ => text.push('\u{FFFD}'),
        }
    }
    Cow::Owned(text)
}

/// Makes text harmless on a terminal: what would move the cursor, reorder the text or be invisible is spelled out.
///
/// Line ends and tabs stay. A joiner between two pictures stays, because it makes one picture of them. So does one variation
/// selector (U+FE0E, U+FE0F) directly after a picture that it belongs to; further ones would only hide text.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    // The last character, if it was kept.
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let stays = match c {
            '\u{200D}' => (is_picture(before) || before == Some('\u{FE0F}')) && is_picture(next),
            '\u{FE0E}' | '\u{FE0F}' => takes_selector(before, next),
            c => !is_deceptive(c),
        };
        before = stays.then_some(c);
        match c {
            c if stays => out.push(c),
            '\0'..='\u{1F}' => out.extend(char::from_u32(0x2400 + c as u32)),
            '\u{7F}' => out.push('\u{2421}'),
            c => out.push_str(&c.escape_unicode().to_string()),
        }
    }
    Cow::Owned(out)
}

/// Makes JSON harmless on a terminal. It stays JSON, and equal: the same characters are written as escapes such as `\u202e`.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_deceptive) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // Outside of strings JSON has no such character but `\r`, which is white space there.
        match c {
            '\r' => out.push(' '),
            c if is_deceptive(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns whether a character moves the cursor, reorders what is shown, or cannot be seen.
fn is_deceptive(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && c != '\n' && c != '\t';
    }
    matches!(c,
        '\u{80}'..='\u{9F}'
        // The soft hyphen, the combining grapheme joiner, the Arabic letter mark, the Mongolian vowel separator
        // and variation selectors.
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}'
        // Letters that are shown as nothing: Hangul fillers, Khmer inherent vowels.
        | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{3164}' | '\u{FFA0}'
        // Zero-width spaces, joiners and marks of direction.
        | '\u{200B}'..='\u{200F}'
        // Separators of lines and paragraphs; characters that reorder what is shown, so that a command reads as another one.
        | '\u{2028}'..='\u{202E}'
        // Invisible operators; isolates.
        | '\u{2060}'..='\u{206F}'
        // The byte order mark; notes between lines; letters that no font shows.
        | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}'
        // Variation selectors: text can be hidden in a row of them. `harmless` keeps the ones that pictures need.
        | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}'
        // Marks of musical notation that begin and end beams, ties, slurs and phrases, and are not shown.
        | '\u{1D173}'..='\u{1D17A}'
    )
}

/// Returns whether a character is one of those that a joiner puts together.
fn is_picture(c: Option<char>) -> bool {
    c.is_some_and(|c| matches!(c, '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}'))
}

/// Returns whether a variation selector may stand between two characters: after a picture, after one of the signs that also
/// have the form of a picture, and between a digit and the frame that makes a key of it.
fn takes_selector(before: Option<char>, next: Option<char>) -> bool {
    match before {
        Some('0'..='9' | '#' | '*') => next == Some('\u{20E3}'),
        Some('©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙') => true,
        before => is_picture(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(strip(text), expect, "{text:?}");
    }

    #[test]
    fn what_the_adapter_protocol_names() {
        check("\x1b[32mgreen\x1b[0m", "green");
        check("\x1b[2K\x1b[1Gline", "line");
        check("\x1bMup \x1b[1;31;4mmany\x1b[m", "up many");
        check("plain é\r\n\ttext", "plain é\r\n\ttext");
        check("a\x07b\0c", "abc");
    }

    #[test]
    fn strings_of_the_terminal_go_with_their_bodies() {
        check("\x1b]0;title\x07text", "text");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!", "link!");
        check("\x1bP1$r0m\x1b\\after", "after");
    }

    #[test]
    fn eight_bit_forms() {
        check("\u{9b}31mred\u{9b}0m", "red");
        check("\u{9d}0;title\u{9c}text", "text");
        check(&decode(b"\x9b31mred\x9b0m \xc4\x9b"), "red ě");
    }

    #[test]
    fn an_unfinished_sequence_ends_with_its_line() {
        check("a\x1b]0;never closed\nthe answer\n", "a\nthe answer\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        assert_eq!(decode(b"caf\xe9 \xe2\x9c"), "caf\u{FFFD} \u{FFFD}");
    }

    #[test]
    fn a_terminal_is_safe_from_agents() {
        assert_eq!(harmless("ok\n\tok"), "ok\n\tok");
        assert_eq!(harmless("\x1b[2J\x07\r\x7f"), "␛[2J␇␍␡");
        assert_eq!(harmless("\u{9b}2J \u{202e}txt"), "\\u{9b}2J \\u{202e}txt");
        for hidden in [
            "\u{200b}",
            "\u{200d}",
            "\u{2028}",
            "\u{2060}",
            "\u{feff}",
            "\u{ad}",
            "\u{e0041}",
            "\u{61c}",
            "\u{34f}",
            "\u{115f}",
            "\u{1160}",
            "\u{17b4}",
            "\u{17b5}",
            "\u{3164}",
            "\u{ffa0}",
            "\u{e0100}",
            "\u{e01ef}",
            "\u{fe00}",
            "\u{fe0d}",
            "\u{fe0e}",
            "\u{fe0f}",
            "\u{180b}",
            "\u{180d}",
            "\u{180f}",
            "\u{1d173}",
            "\u{1d17a}",
        ] {
            let text = format!("a{hidden}b");
            assert_eq!(harmless(&text), format!("a{}b", hidden.escape_unicode()));
        }
        assert_eq!(
            harmless("👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥"),
            "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥",
            "one picture"
        );
        assert_eq!(harmless("👩\u{200d}"), "👩\\u{200d}");
    }

    #[test]
    fn a_picture_keeps_one_selector() {
        for whole in ["⚠\u{fe0f} ✔\u{fe0e}", "1\u{fe0f}\u{20e3}", "©\u{fe0f}™\u{fe0e}", "🏳\u{fe0f}\u{200d}🌈"]
        {
            assert_eq!(harmless(whole), whole);
        }
        // Each further one would be a bit of a hidden text.
        assert_eq!(harmless("⚠\u{fe0f}\u{fe0e}\u{fe0f}"), "⚠\u{fe0f}\\u{fe0e}\\u{fe0f}");
        assert_eq!(harmless("⚠\u{fe00}"), "⚠\\u{fe00}");
        assert_eq!(harmless("1\u{fe0f}2"), "1\\u{fe0f}2");
        // What was made harmless is left alone, a joiner before a selector that goes included.
        assert_eq!(harmless("👩\u{200d}\u{fe0f}👩"), "👩\\u{200d}\\u{fe0f}👩");
        assert_eq!(harmless("a\u{fe0f}\u{200d}👩"), "a\\u{fe0f}\\u{200d}👩");
    }

    #[test]
    fn json_stays_json_and_equal() {
        let text = "\u{9b}2J\u{202e}a\u{200b}\u{2028}\u{feff}\u{7f}\u{e0041}é⚠\u{fe0f}\n\u{1b}\"";
        let value = serde_json::json!({ text: [text] });
        for json in [value.to_string(), serde_json::to_string_pretty(&value).expect("JSON")] {
            let shown = harmless_json(&json);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
            assert!(!shown.contains(is_deceptive), "{shown}");
            assert!(
                shown.contains("\\u009b2J\\u202ea\\u200b\\u2028\\ufeff\\u007f\\udb40\\udc41é⚠\\ufe0f"),
                "{shown}"
            );
        }
        assert!(matches!(harmless_json("{}"), Cow::Borrowed(_)));
    }
}
