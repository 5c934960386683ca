//! Formats numbers, times and foreign text for a terminal.

use std::ops::Range;

use bowline_protocol::{Millis, Timestamp};
use bowline_providers::ansi;
use jiff::tz::TimeZone;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The maximum number of bytes of a foreign text in one line.
const LOOKED_AT: usize = 4 * 1024;

/// The character set for symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// UTF-8.
    Unicode,
    /// The locale is not UTF-8, or unknown.
    Ascii,
}

impl Glyphs {
    /// Returns the character set of a locale, given `LC_ALL`, `LC_CTYPE` and `LANG`: the first that is set decides.
    pub(crate) fn of_locale(variables: [Option<&str>; 3]) -> Self {
        let locale = variables.into_iter().flatten().find(|value| !value.is_empty()).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    pub(super) fn done(self) -> &'static str {
        self.pick("✓", "+")
    }

    pub(super) fn failed(self) -> &'static str {
        self.pick("✗", "x")
    }

    pub(super) fn refused(self) -> &'static str {
        self.pick("–", "-")
    }

    pub(super) fn ellipsis(self) -> &'static str {
        self.pick("…", "...")
    }

    /// Returns the separator of figures.
    pub(super) fn dot(self) -> &'static str {
        self.pick(" · ", ", ")
    }

    /// Returns the prefix of lines that are not the answer: thinking, sub-agents.
    pub(super) fn bar(self) -> &'static str {
        self.pick("│", "|")
    }

    /// Returns the rule below the header of a table.
    pub(super) fn rule(self) -> &'static str {
        self.pick("─", "-")
    }

    /// Returns the bullet of a list.
    pub(super) fn bullet(self) -> &'static str {
        self.pick("•", "*")
    }

    /// Returns a frame of the spinner.
    pub(super) fn spinner(self, place: u64) -> &'static str {
        const ROUND: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        const PLAIN: [&str; 4] = ["|", "/", "-", "\\"];
        match self {
            Self::Unicode => ROUND[(place % 10) as usize],
            Self::Ascii => PLAIN[(place % 4) as usize],
        }
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }
}

/// Makes one harmless line of a foreign text: white space becomes one blank.
pub(super) fn one_line(text: &str) -> String {
    // The output of a tool may have megabytes, and one line shows only its beginning.
    let head = &text[..text.floor_char_boundary(LOOKED_AT)];
    let mut line = String::with_capacity(head.len());
    for word in head.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if head.len() < text.len() {
        line.push_str(" ...");
    }
    ansi::harmless(&line).into_owned()
}

/// Returns the width of a text in columns.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Returns the width of a character in columns; control characters have none.
pub(super) fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Wraps a text at words. A line is longer than the width only if a word is.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut from = 0;
    for gap in breaks(text, columns, 0) {
        out.push_str(&text[from..gap.start]);
        out.push('\n');
        from = gap.end;
    }
    out.push_str(&text[from..]);
    out
}

/// Wraps each line of a text at words, and indents the continuation.
pub(crate) fn wrapped_lines(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let indent = hanging(line, columns);
        let mut from = 0;
        for gap in breaks(line.trim_end_matches('\n'), columns, indent) {
            out.push_str(&line[from..gap.start]);
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            from = gap.end;
        }
        out.push_str(&line[from..]);
    }
    out
}

/// Returns the indentation of the continuation: a little more than the first line, if the width allows.
pub(super) fn hanging(line: &str, columns: usize) -> usize {
    let own = line.len() - line.trim_start_matches(' ').len();
    if own + 2 <= columns / 4 { own + 2 } else { 0 }
}

/// Returns the gaps between words at which to break a line. A part is longer than the width only if a word is. The parts after
/// the first are indented.
pub(super) fn breaks(line: &str, columns: usize, indent: usize) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    // The last possible break, and the width up to its end.
    let (mut last, mut used) = (None::<Range<usize>>, 0);
    let body = line.len() - line.trim_start_matches(' ').len();
    let mut place = 0;
    for word in line.split_inclusive(' ') {
        let text = word.trim_end_matches(' ');
        let wide = width(text);
        if used + wide > columns
            && let Some(gap) = last.take()
        {
            used = indent;
            gaps.push(gap);
        }
        used += wide;
        let end = place + text.len();
        place += word.len();
        if place <= body {
            used += word.len() - text.len();
            continue;
        }
        // Several blanks in a row are one gap.
        last = Some(match last.filter(|gap| gap.end == end) {
            Some(gap) => gap.start..place,
            None => end..place,
        });
        used += word.len() - text.len();
    }
    gaps
}

/// Cuts a text to a width in columns.
pub(super) fn cut(text: &str, columns: usize, glyphs: Glyphs) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let ellipsis = glyphs.ellipsis();
    let room = columns.saturating_sub(width(ellipsis));
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += char_width(c);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    if columns >= width(ellipsis) {
        out.push_str(ellipsis);
    }
    out
}

/// Formats a duration in whole seconds.
pub(super) fn whole_seconds(passed: Millis) -> String {
    Millis(passed.0 / 1000 * 1000).to_string()
}

/// Formats a count of tokens: `340`, `1.2k`, `3M`.
pub(super) fn count(number: u64) -> String {
    let short = |unit: u64, name: &str| {
        let tenths = number / (unit / 10);
        let fraction = if tenths >= 1000 || tenths.is_multiple_of(10) {
            String::new()
        } else {
            format!(".{}", tenths % 10)
        };
        format!("{}{fraction}{name}", tenths / 10)
    };
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => short(1000, "k"),
        _ => short(1_000_000, "M"),
    }
}

/// Formats an amount of dollars; `None` for a negligible one.
pub(super) fn money(dollars: f64) -> Option<String> {
    if dollars.is_nan() || dollars < 0.00005 {
        return None;
    }
    Some(bowline::budget::dollars(dollars))
}

/// Formats a time: `at 14:10 (in 2 h 5 min)`, with the date if it is another day.
pub(crate) fn when(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let civil = |at: Timestamp| {
        let instant =
            jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        zone.to_datetime(instant)
    };
    let (then, today) = (civil(at), civil(now).date());
    let clock = format!("at {:02}:{:02}", then.hour(), then.minute());
    let clock = if then.date() == today { clock } else { format!("on {} {clock}", then.date()) };
    if at <= now {
        return clock;
    }
    // Round to minutes: seconds are noise here.
    let left = at.since(now).0;
    let rounded = if left < 60_000 { left } else { (left + 30_000) / 60_000 * 60_000 };
    format!("{clock} (in {})", Millis(rounded))
}

/// Formats a number of things: `1 line`, `3 lines`.
pub(super) fn many(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_what_we_draw_with() {
        assert_eq!(Glyphs::of_locale([None, None, Some("en_US.UTF-8")]), Glyphs::Unicode);
        assert_eq!(Glyphs::of_locale([Some(""), Some("C.utf8"), Some("C")]), Glyphs::Unicode);
        assert_eq!(Glyphs::of_locale([Some("C"), None, Some("en_US.UTF-8")]), Glyphs::Ascii);
        assert_eq!(Glyphs::of_locale([None, None, None]), Glyphs::Ascii);
    }

    #[test]
    fn counts_and_money_are_short() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1k"), (1249, "1.2k"), (31_904, "31.9k"), (123_456, "123k")]
        {
            assert_eq!(count(number), text);
        }
        assert_eq!((count(1_250_000), count(u64::MAX)), ("1.2M".to_owned(), "18446744073709M".to_owned()));
        assert_eq!(money(0.01234), Some("$0.0123".to_owned()));
        assert_eq!(money(12.345), Some("$12.35".to_owned()));
        assert_eq!((money(-0.0), money(f64::NAN)), (None, None));
    }

    #[test]
    fn another_day_is_named() {
        let now: Timestamp = "2026-11-15T12:05:30Z".parse().expect("a time");
        let say = |text: &str| when(text.parse().expect("a time"), now, &TimeZone::UTC);
        assert_eq!(say("2026-11-15T14:10:00Z"), "at 14:10 (in 2 h 5 min)");
        assert_eq!(say("2026-11-15T12:05:50Z"), "at 12:05 (in 20 s)");
        assert_eq!(say("2026-11-15T12:00:00Z"), "at 12:00");
        assert_eq!(say("2026-11-19T08:00:00Z"), "on 2026-11-19 at 08:00 (in 3 days 19 h)");
    }

    #[test]
    fn foreign_text_becomes_one_harmless_line() {
        assert_eq!(one_line(" a\r\n\tb\x1b[2J\u{202e}c "), "a b␛[2J\\u{202e}c");
        assert!(one_line(&"é".repeat(5000)).ends_with("é ..."));
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("日本 語の abc", 7), "日本\n語の\nabc");
        assert_eq!(wrapped("muchtoolong word", 4), "muchtoolong\nword");
        assert_eq!(wrapped_lines("hint: one two three\n", 12), "hint: one\n  two three\n");
        assert_eq!(wrapped_lines("    a b  c d e\nshort\n", 12), "    a b  c d\ne\nshort\n");
        assert_eq!(wrapped_lines("  a  b c d e f g h i j", 20), "  a  b c d e f g h i\n    j");
        assert_eq!(wrapped_lines("a muchtoolongword b\n\n", 8), "a\n  muchtoolongword\n  b\n\n");
        assert_eq!(wrapped_lines("日本 語の 文", 9), "日本 語の\n  文");
    }

    #[test]
    fn a_text_is_cut_by_columns_and_not_by_letters() {
        assert_eq!(cut("abcdef", 6, Glyphs::Unicode), "abcdef");
        assert_eq!(cut("abcdef", 4, Glyphs::Unicode), "abc…");
        assert_eq!(cut("日本語テキスト", 8, Glyphs::Unicode), "日本語…");
        assert_eq!(cut("abcdef", 4, Glyphs::Ascii), "a...");
        assert_eq!(cut("abcdef", 0, Glyphs::Unicode), "");
    }
}
