//! Wraps styled text at words, for blocks and table cells.

use crate::human::words;

/// The terminal codes of styles.
pub(super) const BOLD: &str = "1";
pub(super) const ITALIC: &str = "3";
pub(super) const CODE: &str = "36";
pub(super) const DIM: &str = "2";

/// A piece of text and its style codes.
pub(super) type Part = (String, Vec<&'static str>);

/// One line: its pieces, blanks included.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StyledLine {
    parts: Vec<Part>,
    /// The width in columns.
    pub(super) width: usize,
}

impl StyledLine {
    fn push(&mut self, text: &str, codes: &[&'static str]) {
        self.width += words::width(text);
        self.parts.push((text.to_owned(), codes.to_vec()));
    }

    /// Formats the line with its styles.
    pub(super) fn paint(&self, colour: bool, out: &mut String) {
        for (text, codes) in &self.parts {
            out.push_str(&painted(text, codes, colour));
        }
    }
}

/// Wraps a text in style codes.
pub(super) fn painted(text: &str, codes: &[&str], colour: bool) -> String {
    if !colour || codes.is_empty() || text.is_empty() {
        return text.to_owned();
    }
    format!("\x1b[{}m{text}\x1b[0m", codes.join(";"))
}

/// Wraps parts of text at words, with a width for the first line and one for the others. Breaks a word that is longer than a
/// line.
pub(super) fn broken(parts: &[Part], first: usize, rest: usize) -> Vec<StyledLine> {
    let (mut lines, mut line, mut left) = (Vec::new(), StyledLine::default(), first);
    for word in split_words(parts) {
        let width: usize = word.iter().map(|(text, _)| words::width(text)).sum();
        if line.width > 0 && width + 1 > left {
            lines.push(std::mem::take(&mut line));
            left = rest;
        }
        if line.width > 0 {
            line.push(" ", &[]);
            left = left.saturating_sub(1);
        }
        for (text, codes) in word {
            let width = words::width(&text);
            if width <= left {
                line.push(&text, codes);
                left -= width;
                continue;
            }
            // One pass over the word: measuring the rest for each line would take quadratic time.
            let (mut from, mut used) = (0, 0);
            for (at, c) in text.char_indices() {
                let wide = words::char_width(c);
                // A line has at least one character, however narrow it is.
                if used + wide > left && (at > from || line.width > 0) {
                    line.push(&text[from..at], codes);
                    lines.push(std::mem::take(&mut line));
                    (left, from, used) = (rest, at, 0);
                }
                used += wide;
            }
            line.push(&text[from..], codes);
            left = left.saturating_sub(used);
        }
    }
    lines.push(line);
    lines
}

/// Returns the width of the parts in one line, and the width of the longest word.
pub(super) fn widths(parts: &[Part]) -> (usize, usize) {
    let words = split_words(parts);
    let each = words.iter().map(|word| word.iter().map(|(text, _)| words::width(text)).sum::<usize>());
    let (total, longest) = each.fold((0, 0), |(total, longest), width| (total + width, longest.max(width)));
    (total + words.len().saturating_sub(1), longest)
}

/// Cuts parts to a width. Returns `None` if they fit.
pub(super) fn cut(parts: &[Part], columns: usize, ellipsis: &str) -> Option<Vec<Part>> {
    if widths(parts).0 <= columns {
        return None;
    }
    let mut left = columns.saturating_sub(words::width(ellipsis));
    let mut kept = Vec::new();
    for (text, codes) in parts {
        let fits = text.char_indices().find(|(_, c)| {
            let wide = words::char_width(*c);
            let ends = wide > left;
            left = left.saturating_sub(wide);
            ends
        });
        let Some((end, _)) = fits else {
            kept.push((text.clone(), codes.clone()));
            continue;
        };
        kept.push((format!("{}{ellipsis}", text[..end].trim_end()), codes.clone()));
        break;
    }
    Some(kept)
}

/// Splits parts into words; a word may have several styles.
fn split_words(parts: &[Part]) -> Vec<Vec<(String, &[&'static str])>> {
    let (mut all, mut word) = (Vec::new(), Vec::new());
    for (text, codes) in parts {
        let mut part = String::new();
        for c in text.chars() {
            if c.is_whitespace() && c != '\u{a0}' {
                if !part.is_empty() {
                    word.push((std::mem::take(&mut part), codes.as_slice()));
                }
                if !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
            } else {
                part.push(c);
            }
        }
        if !part.is_empty() {
            word.push((part, codes.as_slice()));
        }
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}
