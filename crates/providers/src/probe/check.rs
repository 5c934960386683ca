//! Whether an installed program still has the options that its manifest relies on, and whether they mean the same.
//!
//! Help is the program's own list of its options, so a difference is worth a report. It is not proof: an option that
//! is not listed may work, and a listed one may not. Proof is a run, which the contract suite makes.

use std::fmt;

use super::help::{Help, HelpFlag};
use super::uses::{self, CommandPart, ManifestUse, OptionValue};
use super::{Page, Version};
use crate::manifest::Manifest;

/// A difference between a manifest and the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The option, with its dashes, or the subcommand; of a page, its words.
    pub name: String,
    /// The subcommand that it belongs to, in words.
    pub of: Vec<String>,
    /// The keys of the manifest that rely on it.
    pub keys: Vec<String>,
    /// The difference.
    pub kind: Kind,
}

/// A difference between a manifest and the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no page of help with options to compare with.
    NoPage,
    /// The page does not list it.
    Missing,
    /// It has to be given a value now.
    WantsValue,
    /// It is a switch now.
    TakesNoValue,
    /// It does not know a value that the manifest gives.
    LacksChoice {
        /// The value.
        value: String,
        /// Those that it knows.
        choices: Vec<String>,
    },
    /// It means something else in this version.
    Means {
        /// The other meaning.
        what: String,
        /// The first version in which it means what the manifest means.
        until: Version,
    },
    /// It still works, and is on its way out.
    Deprecated {
        /// The reason on the page.
        why: String,
    },
}

impl Finding {
    /// Returns whether commands may fail or do something else because of it.
    pub fn is_serious(&self) -> bool {
        !matches!(self.kind, Kind::Deprecated { .. })
    }
}

impl Finding {
    /// Describes the difference, without the parts of the manifest that rely on it.
    pub fn difference(&self) -> String {
        let of = if self.of.is_empty() { String::new() } else { format!(" of `{}`", self.of.join(" ")) };
        let differs = match &self.kind {
            Kind::NoPage => ": found no options in its help page".to_owned(),
            Kind::Missing => " is not in its help".to_owned(),
            Kind::WantsValue => " takes a value now".to_owned(),
            Kind::TakesNoValue => " takes no value now".to_owned(),
            Kind::LacksChoice { value, choices } => {
                format!(" does not accept `{value}`, only {}", choices.join(", "))
            }
            Kind::Means { what, until } => format!(" means something else before {until}: {what}"),
            Kind::Deprecated { why } if why.is_empty() => " is deprecated".to_owned(),
            Kind::Deprecated { why } => format!(" is deprecated: {why}"),
        };
        format!("`{}`{of}{differs}", self.name)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (the manifest relies on it in {})", self.difference(), self.keys.join(", "))
    }
}

/// Compares the options that a manifest relies on with the program's help.
///
/// A manifest without help pages has nothing to compare, and nothing is found.
pub fn check(manifest: &Manifest, pages: &[Page], version: Option<&Version>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    if manifest.probe.pages.is_empty() {
        return findings;
    }
    for used in uses::of(manifest) {
        for kind in differences(manifest, pages, version, &used) {
            let (of, name) = if kind == Kind::NoPage {
                // Report a missing page once, and not for every option on it.
                let program = || (Vec::new(), manifest.program.clone());
                used.of.split_last().map_or_else(program, |(name, of)| (of.to_vec(), name.clone()))
            } else {
                (used.of.clone(), used.what.name().to_owned())
            };
            let same = |it: &&mut Finding| it.name == name && it.of == of && it.kind == kind;
            match findings.iter_mut().find(same) {
                Some(known) if known.keys.contains(&used.key) => {}
                Some(known) => known.keys.push(used.key.clone()),
                None => findings.push(Finding { name, of, keys: vec![used.key.clone()], kind }),
            }
        }
    }
    findings
}

fn differences(
    manifest: &Manifest,
    pages: &[Page],
    version: Option<&Version>,
    used: &ManifestUse,
) -> Vec<Kind> {
    let page = |words: &mut dyn Iterator<Item = &str>| {
        let words: Vec<&str> = words.collect();
        let page = pages.iter().find(|page| page.words().eq(words.iter().copied()))?;
        // Without any option the output is no help page: that is one finding, not one for each option.
        Some(&page.help).filter(|help| !help.flags.is_empty())
    };
    let of = || used.of.iter().map(String::as_str);
    let Some(help) = page(&mut of()) else {
        // Where the page above was not asked for, what has a page of its own is there.
        let there = match &used.what {
            CommandPart::Subcommand(name) => page(&mut of().chain([name.as_str()])).is_some(),
            CommandPart::Flag { .. } => false,
        };
        return if there { Vec::new() } else { vec![Kind::NoPage] };
    };
    match &used.what {
        CommandPart::Subcommand(name) if help.subcommand(name).is_none() => vec![Kind::Missing],
        CommandPart::Subcommand(_) => Vec::new(),
        CommandPart::Flag { name, given } => flag(manifest, help, version, name, given),
    }
}

fn flag(
    manifest: &Manifest,
    help: &Help,
    version: Option<&Version>,
    name: &str,
    given: &OptionValue,
) -> Vec<Kind> {
    let probe = &manifest.probe;
    let mut kinds = Vec::new();
    let changed = probe.changed.iter().filter(|it| it.flag == name);
    // An unknown version gives no finding: a guess would warn every user of a program without `--version`.
    for changed in changed.filter(|it| version.is_some_and(|version| *version < it.since)) {
        kinds.push(Kind::Means { what: changed.before.clone(), until: changed.since.clone() });
    }
    let unlisted = || probe.unlisted.iter().filter(|it| it.flag == name);
    let Some(flag) = help.flag(name) else {
        // Claude 2.1.325 accepts `--max-turns` and `--permission-prompt-tool` without listing them.
        let known = unlisted().any(|it| it.values.is_empty());
        kinds.extend((!known).then_some(Kind::Missing));
        return kinds;
    };
    let all_unlisted = |values: &[String]| {
        !values.is_empty() && values.iter().all(|value| unlisted().any(|it| it.values.contains(value)))
    };
    match given {
        // `--switch=false`, which help does not show.
        OptionValue::Value(values) if all_unlisted(values) => {}
        OptionValue::Value(_) | OptionValue::Nothing => kinds.extend(form(flag, given)),
    }
    if let OptionValue::Value(values) = given {
        let lacks = |value: &&String| {
            !flag.choices.is_empty()
                && !value.is_empty()
                && !flag.choices.contains(value)
                && !unlisted().any(|it| it.values.contains(value))
        };
        let lack = |value: &String| Kind::LacksChoice { value: value.clone(), choices: flag.choices.clone() };
        kinds.extend(values.iter().filter(lacks).map(lack));
    }
    kinds.extend(flag.deprecated.iter().map(|why| Kind::Deprecated { why: why.clone() }));
    kinds
}

fn form(flag: &HelpFlag, given: &OptionValue) -> Option<Kind> {
    match (given, &flag.value) {
        (OptionValue::Nothing, Some(value)) if !value.optional => Some(Kind::WantsValue),
        (OptionValue::Value(_), None) => Some(Kind::TakesNoValue),
        (OptionValue::Nothing | OptionValue::Value(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
