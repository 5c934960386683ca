//! The left side of an entry: the names of an option and what it takes.
//!
//! `-m, --model <MODEL>`, `--model=<x>`, `--color[=<WHEN>]`, `--name, -n <name>`, `-m MODEL, --model MODEL`,
//! `--allowedTools, --allowed-tools <tools...>`, `-i, --image <FILE>...`, `--format {text,json}`, `--[no-]color`,
//! `--port int`.

use super::ValueForm;

/// The content of the left side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) names: Vec<String>,
    /// The other half of `--[no-]x`.
    pub(super) negated: Option<String>,
    pub(super) value: Option<ValueForm>,
    pub(super) choices: Vec<String>,
}

/// Reads a left side; none if it names no option. Reading stops at the first unknown part.
pub(super) fn read(text: &str) -> Option<Spec> {
    let mut spec = Spec::default();
    let mut rest = text.trim();
    loop {
        rest = rest.trim_start_matches([',', '|', '/', ' ']);
        let Some((name, negated, behind)) = name(rest) else { break };
        spec.names.push(name);
        spec.negated = spec.negated.or(negated);
        rest = value(behind, &mut spec);
    }
    (!spec.names.is_empty()).then_some(spec)
}

/// Returns a name with the dashes that it needs, as lists of aliases leave them out.
pub(super) fn dashed(name: &str) -> String {
    let dashes = match name.len() {
        _ if name.starts_with('-') => "",
        1 => "-",
        _ => "--",
    };
    format!("{dashes}{name}")
}

/// Cuts a name off. The end of options (`--`) is none.
fn name(text: &str) -> Option<(String, Option<String>, &str)> {
    let stem = text.trim_start_matches('-');
    let dashes = &text[..text.len() - stem.len()];
    if !matches!(dashes, "-" | "--") {
        return None;
    }
    let (stem, negatable) = match ["[no-]", "(no-)", "[no]"].iter().find_map(|no| stem.strip_prefix(no)) {
        Some(stem) => (stem, true),
        None => (stem, false),
    };
    let is_name = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | ':' | '?' | '#' | '@');
    // The dots behind a name mean that it may be given several times.
    let end = stem.find("...").or_else(|| stem.find(|it| !is_name(it))).unwrap_or(stem.len());
    let end = end.min(stem.find(|it| !is_name(it)).unwrap_or(stem.len()));
    let (name, rest) = stem.split_at(end);
    let rest = rest.strip_prefix("...").unwrap_or(rest);
    let no = negatable.then(|| format!("{dashes}no-{name}"));
    (!name.is_empty()).then(|| (format!("{dashes}{name}"), no, rest))
}

/// Cuts a value off, if one stands there, and notes it. The last name's value counts.
fn value<'a>(text: &'a str, spec: &mut Spec) -> &'a str {
    let behind = text.strip_prefix(['=', ' ']).unwrap_or(text).trim_start();
    let (inner, rest, optional) = match behind.chars().next() {
        Some('<') => match closed(behind, '<', '>') {
            Some((inner, rest)) => (inner, rest, false),
            None => return text,
        },
        Some('[') => match closed(behind, '[', ']') {
            Some((inner, rest)) => (inner, rest, true),
            None => return text,
        },
        Some('{') => match closed(behind, '{', '}') {
            Some((inner, rest)) => {
                spec.choices = inner.split(',').map(|it| it.trim().to_owned()).collect();
                (inner, rest, false)
            }
            None => return text,
        },
        Some(letter) if letter.is_alphabetic() && text.starts_with(['=', ' ']) => match word(behind) {
            Some((inner, rest)) => (inner, rest, false),
            None => return text,
        },
        Some(_) | None => return text,
    };
    let dotted = rest.trim_start();
    // `FILE...`, and argparse's `FILE [FILE ...]`.
    let again = format!("[{inner} ...]");
    let (rest, dots) = match ["...", "…", &again].iter().find_map(|dots| dotted.strip_prefix(dots)) {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    // `[=<WHEN>]`, `[<tools>...]`, `<tools...>`, `[message..]`.
    let inner = inner.trim().trim_start_matches('=');
    let bare = inner.trim_end_matches(['.', '…']);
    let many = dots || bare.len() < inner.len();
    let name = bare.strip_prefix('<').and_then(|it| it.strip_suffix('>')).unwrap_or(bare);
    let many = many || name.ends_with("...");
    spec.value = Some(ValueForm { name: name.trim_end_matches('.').to_owned(), optional, many });
    rest
}

/// Cuts a bracket off, with those inside it.
fn closed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth -= 1;
            if depth == 0 {
                return Some((&text[1..at], &text[at + close.len_utf8()..]));
            }
        }
    }
    None
}

/// Cuts a word off that can only be a value: it is the last, or another name follows. Otherwise it begins a sentence.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '|' | '/' | ':');
    let end = text.find(|it| !is_word(it)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let after = rest.trim_start_matches("...").trim_start_matches(['.', '…']);
    let after = after.trim_start();
    let ends =
        after.is_empty() || after.starts_with([',', '|']) || after.starts_with(&format!("[{word} ..."));
    ends.then_some((word, rest))
}
