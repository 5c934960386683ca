//! A page of help as data: usage, options and subcommands.
//!
//! The programs print the layout of their libraries (commander, clap, yargs, cobra, argparse) or one that was written by
//! hand. The layout is the grammar: a heading at the margin begins a section, entries of a section stand at one indent (or
//! at two, where long options are aligned behind short ones), whatever stands further in belongs to the entry above.
//! So a `--flag` inside a description is never taken for an option. `layout` cuts a page into entries, `spec` reads
//! the left side of an entry and `remarks` the right one. Nothing here fails: a text that is no help page has no
//! options, and the check reports that.

mod layout;
mod remarks;
mod spec;

use serde::{Deserialize, Serialize};

use crate::ansi;
use layout::{HelpEntry, Section};

/// A page of help.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Help {
    /// The lines that show how the program is called.
    pub usage: Vec<String>,
    /// The options, in their order.
    pub flags: Vec<HelpFlag>,
    /// The subcommands, in their order.
    pub subcommands: Vec<Subcommand>,
}

/// An option. Names have their dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HelpFlag {
    /// The first of its long names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long: Option<String>,
    /// The first of its short names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Its other names; of `--[no-]x`, `--no-x`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Its value; none for a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueForm>,
    /// The only values that it knows, where the page lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Its description on the page, without the remarks that are fields here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// It is deprecated, and the reason on the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
}

impl HelpFlag {
    /// Returns all of its names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.long.iter().chain(&self.short).chain(&self.aliases).map(String::as_str)
    }
}

/// The value of an option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueForm {
    /// Its name on the page: `MODEL`, `path|id`, or the type.
    pub name: String,
    /// It may be left out.
    pub optional: bool,
    /// It takes several, which may be all the arguments behind it.
    pub many: bool,
}

/// A subcommand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subcommand {
    /// Its name.
    pub name: String,
    /// Its other names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Its description on the page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// The longest page that is read; more is no help.
const LONGEST: usize = 1024 * 1024;

impl Help {
    /// Reads a page of help.
    pub fn parse(text: &str) -> Self {
        // The limit is in bytes, and may fall inside a character.
        let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let text = ansi::strip(&text[..end]);
        let page = layout::cut(&text);
        let mut help = Self { usage: page.usage, ..Self::default() };
        for (section, entries) in &page.sections {
            match section {
                Section::Commands => help.subcommands.extend(commands(entries, &help.usage)),
                Section::Flags => {
                    for flag in entries.iter().filter_map(flag) {
                        // Some pages show an option twice, under two headings.
                        if !help.flags.iter().any(|known| known.names().eq(flag.names())) {
                            help.flags.push(flag);
                        }
                    }
                }
            }
        }
        help
    }

    /// Finds an option by any of its names, with the dashes.
    pub fn flag(&self, name: &str) -> Option<&HelpFlag> {
        self.flags.iter().find(|flag| flag.names().any(|known| known == name))
    }

    /// Finds a subcommand by any of its names.
    pub fn subcommand(&self, name: &str) -> Option<&Subcommand> {
        self.subcommands.iter().find(|it| it.name == name || it.aliases.iter().any(|alias| alias == name))
    }
}

/// Reads an entry as an option.
fn flag(entry: &HelpEntry) -> Option<HelpFlag> {
    let spec = spec::read(&entry.spec)?;
    let remarks = remarks::read(&entry.description);
    let mut flag = HelpFlag {
        value: spec.value.or(remarks.value),
        default: remarks.default,
        description: remarks.text,
        deprecated: remarks.deprecated,
        ..HelpFlag::default()
    };
    // A switch has no values: words in its description that look like choices are prose.
    if flag.value.is_some() {
        let told = if remarks.choices.is_empty() { spec.choices } else { remarks.choices };
        flag.choices = if told.is_empty() { remarks::in_prose(&flag.description) } else { told };
    }
    for name in spec.names {
        let place = if name.starts_with("--") { &mut flag.long } else { &mut flag.short };
        match place {
            Some(_) => flag.aliases.push(name),
            None => *place = Some(name),
        }
    }
    flag.aliases.extend(spec.negated);
    flag.aliases.extend(remarks.aliases.iter().map(|name| spec::dashed(name)));
    Some(flag)
}

/// Reads entries as subcommands. Some programs write their own name before each.
fn commands(entries: &[HelpEntry], usage: &[String]) -> Vec<Subcommand> {
    let first_word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let leading: Vec<String> = entries.iter().map(|entry| first_word(&entry.spec)).collect();
    let program = usage.first().map(|line| first_word(line)).unwrap_or_default();
    let repeated = leading.first().filter(|first| leading.len() > 1 && leading.iter().all(|it| it == *first));
    let program = repeated.cloned().unwrap_or(program);
    entries.iter().filter_map(|entry| command(entry, &program)).collect()
}

fn command(entry: &HelpEntry, program: &str) -> Option<Subcommand> {
    let mut words = entry.spec.split_whitespace().peekable();
    words.next_if(|word| *word == program);
    let remarks = remarks::read(&entry.description);
    let mut names = words.next()?.trim_end_matches(',').split(['|', ',']).map(str::to_owned).chain(
        words
            .take_while(|word| !word.starts_with(['<', '[', '-']))
            .map(|word| word.trim_matches(',').to_owned()),
    );
    let name = names.next().filter(|name| name.starts_with(|it: char| it.is_alphanumeric()))?;
    let aliases = names.chain(remarks.aliases).collect();
    Some(Subcommand { name, aliases, description: remarks.text })
}

#[cfg(test)]
mod tests;
