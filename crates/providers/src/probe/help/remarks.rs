//! The right side of an entry: a description, and the remarks that libraries put behind it.
//!
//! `[string] [choices: "a", "b"] [default: "a"]` (yargs), `(choices: "a", "b", default: "a")` (commander),
//! `[possible values: a, b] [default: a] [env: X=] [aliases: c]` and `Possible values:` with a list (clap),
//! `(default "x")` (cobra), `(default: x)` (argparse, and by hand).

use super::ValueForm;

/// The content of the right side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remarks {
    pub(super) text: String,
    pub(super) choices: Vec<String>,
    pub(super) default: Option<String>,
    pub(super) aliases: Vec<String>,
    pub(super) deprecated: Option<String>,
    /// The type of the value, where that is how it is told.
    pub(super) value: Option<ValueForm>,
}

/// Reads a description.
pub(super) fn read(lines: &[String]) -> Remarks {
    let mut remarks = Remarks::default();
    let listed = lines.iter().position(|line| line == "Possible values:");
    let (lines, list) = lines.split_at(listed.unwrap_or(lines.len()));
    let list = list.iter().filter_map(|line| line.strip_prefix("- "));
    remarks.choices = list.map(|line| line.split(':').next().unwrap_or(line).trim().to_owned()).collect();
    let mut text = joined(lines);
    // From the end: libraries append their remarks, one bracket after the other.
    while let Some((start, inner)) = last_group(&text) {
        if !remarks.take(inner) {
            break;
        }
        text.truncate(start);
        text.truncate(text.trim_end().len());
    }
    remarks.deprecated = remarks.deprecated.take().or_else(|| deprecation(&text));
    remarks.text = text;
    remarks
}

/// Joins lines to one text.
fn joined(lines: &[String]) -> String {
    let words: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    words.join(" ")
}

/// Returns the bracket at the end of a text and what is in it. A full stop may stand behind it.
fn last_group(text: &str) -> Option<(usize, &str)> {
    let end = text.trim_end().trim_end_matches('.');
    let (open, close) = match end.chars().last()? {
        ']' => ('[', ']'),
        ')' => ('(', ')'),
        _ => return None,
    };
    let mut depth = 0_usize;
    for (at, letter) in end.char_indices().rev() {
        if letter == close {
            depth += 1;
        } else if letter == open {
            depth -= 1;
            if depth == 0 {
                return Some((at, &end[at + 1..end.len() - 1]));
            }
        }
    }
    None
}

impl Remarks {
    /// Notes what a bracket says; false if it is a part of the sentence.
    fn take(&mut self, inner: &str) -> bool {
        let lower = inner.to_ascii_lowercase();
        match lower.as_str() {
            "boolean" | "count" | "required" | "default" | "hidden" => return true,
            "string" | "number" | "array" => {
                self.value = Some(ValueForm { name: lower.clone(), optional: false, many: lower == "array" });
                return true;
            }
            _ => {}
        }
        if let Some(why) = after_key(inner, "deprecated") {
            self.deprecated = Some(why.trim_matches([':', ',', ' ']).to_owned());
            return true;
        }
        // cobra: `(default "x")` or `(default 8080)`, without a colon.
        let bare = |value: &&str| value.starts_with('"') || !value.contains(' ');
        if let Some(value) = after_key(inner, "default").and_then(|it| it.strip_prefix(' ')).filter(bare) {
            self.default = Some(unquoted(value));
            return true;
        }
        self.keyed(inner)
    }

    /// Reads `key: value, value, key: value`.
    fn keyed(&mut self, inner: &str) -> bool {
        const KEYS: &[&str] = &["choices", "possible values", "default", "aliases", "alias", "env", "preset"];
        let mut key = "";
        for part in parts(inner) {
            let found = KEYS.iter().find_map(|key| Some((*key, after_key(part, key)?.strip_prefix(':')?)));
            let value = match found {
                Some((new, value)) => {
                    key = new;
                    value.trim()
                }
                None if key.is_empty() => return false,
                None => part,
            };
            match key {
                "choices" | "possible values" => self.choices.push(unquoted(value)),
                "aliases" | "alias" => self.aliases.push(unquoted(value)),
                // Remarks come from the end: the library's stands behind the author's, and counts.
                "default" => match self.default.as_mut().filter(|_| found.is_none()) {
                    Some(default) => default.extend([", ", value]),
                    None => self.default = self.default.take().or_else(|| Some(unquoted(value))),
                },
                _ => {}
            }
        }
        !key.is_empty()
    }
}

/// Returns what stands behind a key at the beginning of a text, whatever the case.
fn after_key<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let beginning = text.get(..key.len())?;
    beginning.eq_ignore_ascii_case(key).then(|| &text[key.len()..])
}

/// Cuts a text at the commas that stand outside of quotation marks and brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut from, mut depth, mut quoted) = (0, 0_usize, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '[' | '(' | '{' if !quoted => depth += 1,
            ']' | ')' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[from..].trim());
    found
}

fn unquoted(text: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|mark| text.strip_prefix(*mark)?.strip_suffix(*mark));
    inner.unwrap_or(text).to_owned()
}

/// Finds a word about an option's end in its description, where the library has no remark for it.
fn deprecation(text: &str) -> Option<String> {
    for (open, close) in [('[', ']'), ('(', ')')] {
        for (at, _) in text.match_indices(open) {
            let inner = text[at + 1..].split(close).next().unwrap_or_default();
            if let Some(why) = after_key(inner, "deprecated") {
                return Some(why.trim_matches([':', ',', ' ']).to_owned());
            }
        }
    }
    let why = after_key(text, "deprecated")?;
    Some(why.trim_matches([':', ',', '.', ' ']).to_owned())
}

/// Finds the values that a description lists in words, at its end: `level (low, medium, high)`, `mode: text or json`.
///
/// Only what can hardly be anything else counts: at least three plain words, or two with an `or` or a bar between them.
pub(super) fn in_prose(text: &str) -> Vec<String> {
    let text = text.trim_end_matches('.');
    let bracket = last_group(text).map(|(_, inner)| inner);
    let behind_colon = text.rsplit_once(": ").map(|(_, list)| list);
    bracket.into_iter().chain(behind_colon).find_map(list).unwrap_or_default()
}

fn list(text: &str) -> Option<Vec<String>> {
    let text = text.replace(" (default)", "").replace(", or ", " or ");
    let least = if text.contains(" or ") || text.contains('|') { 2 } else { 3 };
    let items: Vec<&str> =
        text.split(" or ").flat_map(|part| part.split([',', '|'])).map(str::trim).collect();
    let plain = |item: &&str| {
        item.starts_with(|it: char| it.is_ascii_lowercase())
            && item.chars().all(|it| it.is_ascii_alphanumeric() || it == '-' || it == '_')
    };
    let listed = items.len() >= least && items.iter().all(plain);
    listed.then(|| items.into_iter().map(str::to_owned).collect())
}
