//! The version of a program: a typed [`Version`] out of whatever `--version` prints.
//!
//! Programs answer in many ways: the bare number, the product's name before or behind it, a `v`, a full stop at the end,
//! a date instead of a number, standard error instead of standard output, warnings about something else around it. A
//! number is chosen by where it stands, not by being the first: the Node.js that a warning names is not the program.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Answer;
use crate::ansi;

/// A version that can be compared: of numbers (`1.18.33`), or of a date (`2026.11.15`, `2026-11-15`).
///
/// A missing part counts as zero, a pre-release is older than its release, and the name of a build does not count.
///
/// ```
/// use bowline_providers::probe::Version;
///
/// let version = |text| Version::parse(text).expect("a version");
/// assert!(version("0.9.0") < version("v0.10"));
/// assert!(version("2.0.0-rc.2") < version("2.0.0"));
/// assert_eq!(version("1.2"), version("1.2.0+build.7"));
/// assert_eq!(version("v1.2.0").to_string(), "1.2.0");
/// ```
#[derive(Clone, Debug)]
pub struct Version {
    numbers: Vec<u64>,
    /// The parts of a pre-release; none for a release.
    pre: Vec<VersionPart>,
    /// As it was written, without a `v`.
    text: String,
}

/// A part of a pre-release. Numbers come before words, as in semantic versioning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart {
    Number(u64),
    Word(String),
}

/// The most numbers that a version has.
const MOST_NUMBERS: usize = 6;

/// The longest text that is taken for a version.
const LONGEST: usize = 80;

impl Version {
    /// Reads a text that is a version and nothing else, perhaps with a `v`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        if text.len() > LONGEST {
            return None;
        }
        let plain = text.split('+').next().unwrap_or_default();
        let digits = plain.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(plain.len());
        let (numbers, rest) = plain.split_at(digits);
        let mut numbers: Vec<u64> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let pre = suffix(&mut numbers, rest)?;
        (numbers.len() <= MOST_NUMBERS).then(|| Self { numbers, pre, text: text.to_owned() })
    }

    /// Finds the version in what a program printed when it was asked for it.
    ///
    /// A program that failed is believed only where the version has a place of its own: the complaint about an option that
    /// it does not know may name other things.
    pub fn find(answer: &Answer) -> Option<Self> {
        let (stdout, stderr) = match answer.code {
            // Both streams: pi 0.73.1 prints its version on standard error.
            Some(0) => (Clarity::Somewhere, Clarity::Somewhere),
            Some(_) | None => (Clarity::Edge, Clarity::Named),
        };
        clearest(&answer.stdout, stdout).or_else(|| clearest(&answer.stderr, stderr))
    }

    /// Returns the numbers.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Returns whether it is a pre-release.
    pub fn is_pre_release(&self) -> bool {
        !self.pre.is_empty()
    }
}

/// Reads what stands behind the numbers. In a date, a further number belongs to it and a hash names a build.
fn suffix(numbers: &mut Vec<u64>, rest: &str) -> Option<Vec<VersionPart>> {
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let mut words = rest.strip_prefix(['-', '_']).unwrap_or(rest);
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    if words.is_empty() || !words.chars().all(plain) || words.starts_with(['.', '-', '_']) {
        return None;
    }
    if is_year(numbers[0]) {
        loop {
            let (first, rest) = words.split_once(['-', '.', '_']).unwrap_or((words, ""));
            match first.parse::<u64>() {
                Ok(number) if first.len() <= 4 => numbers.push(number),
                Ok(_) | Err(_) if is_hash(first) => {}
                Ok(_) | Err(_) => break,
            }
            if rest.is_empty() {
                return Some(Vec::new());
            }
            words = rest;
        }
    }
    Some(words.split(['.', '-', '_']).flat_map(parts).collect())
}

fn is_year(number: u64) -> bool {
    (1990..2200).contains(&number)
}

fn is_hash(word: &str) -> bool {
    word.len() >= 6 && word.chars().all(|it| it.is_ascii_hexdigit())
}

/// Cuts `rc10` into a word and a number, so that it is newer than `rc9`.
fn parts(word: &str) -> impl Iterator<Item = VersionPart> {
    let cut = word.find(|it: char| it.is_ascii_digit()).unwrap_or(word.len());
    let (letters, digits) = word.split_at(cut);
    let split = !letters.is_empty() && digits.parse::<u64>().is_ok();
    let pieces = if split { vec![letters, digits] } else { vec![word] };
    let part = |piece: &str| match piece.parse() {
        Ok(number) => VersionPart::Number(number),
        Err(_) => VersionPart::Word(piece.to_ascii_lowercase()),
    };
    pieces.into_iter().filter(|piece| !piece.is_empty()).map(part).collect::<Vec<_>>().into_iter()
}

/// How clearly a text marks a number as the program's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Clarity {
    /// It is all of the line.
    Alone,
    /// It follows the word `version`.
    Named,
    /// It begins or ends the line.
    Edge,
    /// It is somewhere in the line, or the line is a warning.
    Somewhere,
}

/// Returns the version that the text marks most clearly; of several, the first.
fn clearest(text: &str, most: Clarity) -> Option<Version> {
    let mut best: Option<(Clarity, Version)> = None;
    for line in text.lines() {
        let line = ansi::strip(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        for (place, word) in words.iter().enumerate() {
            let before = place.checked_sub(1).map(|place| words[place].to_ascii_lowercase());
            let Some(version) = in_word(word, before.as_deref()) else { continue };
            let named = before.as_deref().is_some_and(|word| word.trim_end_matches(':').ends_with("version"));
            let clarity = match (place, words.len()) {
                (0, 1) => Clarity::Alone,
                _ if is_aside(&line) => Clarity::Somewhere,
                _ if named => Clarity::Named,
                (place, count) if place == 0 || place + 1 == count => Clarity::Edge,
                _ => Clarity::Somewhere,
            };
            // A number without a dot may be anything, unless its place shows what it is.
            let bare = version.numbers.len() == 1 && clarity > Clarity::Named;
            if !bare && clarity <= most && best.as_ref().is_none_or(|(than, _)| clarity < *than) {
                best = Some((clarity, version));
            }
        }
    }
    best.map(|(_, version)| version)
}

/// Returns whether a line is about something else than the program's version.
fn is_aside(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["warn", "deprecat", "error", "require", "unsupported", "update", "upgrade", "available", ">=", "unknown"]
        .iter()
        .any(|word| line.contains(word))
}

/// Reads a word that is a version, also with a name in front as in `tool/1.2.3`, `tool@1.2.3` or `tool-v1.2.3`.
fn in_word(word: &str, before: Option<&str>) -> Option<Version> {
    /// Whose version it is when it is not the program's.
    const OTHERS: &[&str] = &["node", "node.js", "nodejs", "npm", "bun", "deno", "python", "protocol"];
    let edges = ['(', ')', '[', ']', '{', '}', '"', '\'', '`', ',', ';', ':', '.', '!'];
    let word = word.trim_matches(edges);
    if word.contains("://") || before.is_some_and(|before| OTHERS.contains(&before.trim_matches(edges))) {
        return None;
    }
    if let Some(version) = Version::parse(word) {
        return Some(version);
    }
    let is_cut = |at: usize| {
        let rest = word[at + 1..].strip_prefix(['v', 'V']).unwrap_or(&word[at + 1..]);
        rest.starts_with(|it: char| it.is_ascii_digit())
    };
    let (at, _) = word.match_indices(['/', '@', '=', '-']).find(|(at, _)| is_cut(*at))?;
    let (name, version) = (&word[..at], &word[at + 1..]);
    let named = name.chars().any(|it| it.is_ascii_alphabetic());
    let other = OTHERS.contains(&name.to_ascii_lowercase().as_str());
    Version::parse(version).filter(|version| named && !other && version.numbers.len() > 1)
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let count = self.numbers.len().max(other.numbers.len());
        let number = |of: &Self, place: usize| of.numbers.get(place).copied().unwrap_or(0);
        let numbers = (0..count).map(|place| number(self, place).cmp(&number(other, place)));
        let release = |of: &Self| of.pre.is_empty();
        numbers
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| release(self).cmp(&release(other)))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a version such as `1.2.3`")))
    }
}

#[cfg(test)]
mod tests;
