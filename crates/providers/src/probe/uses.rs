//! Which options of a program a manifest relies on: every one that it puts into a command, and with which values.
//!
//! The words before the first option of a format choose a subcommand, and the options behind them are that
//! subcommand's: they are looked up on its page of help, not on the program's.

use std::collections::BTreeSet;

use crate::manifest::Manifest;
use crate::manifest::run::Flag;

/// Something that a manifest puts into commands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestUse {
    /// The subcommand that it belongs to, in words; none for the program itself.
    pub of: Vec<String>,
    /// The option or word.
    pub what: CommandPart,
    /// The key of the manifest that uses it.
    pub key: String,
}

/// A part of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandPart {
    /// An option.
    Flag {
        /// Its name, with the dashes.
        name: String,
        /// The value.
        given: OptionValue,
    },
    /// A subcommand.
    Subcommand(String),
}

impl CommandPart {
    /// Returns the name of the option or of the subcommand.
    pub fn name(&self) -> &str {
        match self {
            Self::Flag { name, .. } | Self::Subcommand(name) => name,
        }
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionValue {
    /// Nothing: it is a switch.
    Nothing,
    /// A value: one of these, if the manifest names them, else the caller's.
    Value(Vec<String>),
}

/// Lists what a manifest puts into commands, each once.
pub fn of(manifest: &Manifest) -> Vec<ManifestUse> {
    let mut uses = BTreeSet::new();
    let run = &manifest.run;
    let mut runs: BTreeSet<Vec<String>> = BTreeSet::new();
    for (name, format) in &manifest.formats {
        if format.own.is_some() {
            // Settings of one format are known by the name of the format.
            let own = format!("formats.{name}");
            let named = |it: ManifestUse| {
                if it.key == own { it } else { ManifestUse { key: format!("{own}.{}", it.key), ..it } }
            };
            uses.extend(of(&manifest.in_format(name)).into_iter().map(named));
            continue;
        }
        let words: Vec<String> = leading_words(&format.args);
        let in_runs = [run.format.as_ref(), run.no_stream_format.as_ref(), Some(&manifest.default_format)];
        if in_runs.contains(&Some(name)) {
            runs.insert(words.clone());
        }
        let key = format!("formats.{name}");
        for (depth, word) in words.iter().enumerate() {
            let what = CommandPart::Subcommand(word.clone());
            uses.insert(ManifestUse { of: words[..depth].to_vec(), what, key: key.clone() });
        }
        read(&key, &words, &format.args[words.len()..], &[], &mut uses);
    }
    for words in &runs {
        let mut note =
            |key: &str, args: &[String], values: &[String]| read(key, words, args, values, &mut uses);
        note("run.args", &run.args, &[]);
        note("run.prompt_args", &run.prompt_args, &[]);
        note("run.stdin_args", &run.stdin_args, &[]);
        let flags = run.flags.iter().map(|(flag, how)| (format!("run.flags.{}", flag.key()), how));
        let config = run.config.iter().map(|(name, how)| (format!("run.config.{name}"), how));
        for (key, how) in flags.chain(config) {
            let Flag { args, each, large, values, .. } = how;
            note(&key, args, values);
            note(&key, each, values);
            note(&format!("{key}.large"), large.as_ref().map_or(&[], |large| &large.args), &[]);
        }
        note("repository", &manifest.repository.args, &[]);
        for (mode, permission) in &manifest.permission {
            note(&format!("permission.{}", mode.as_str()), &permission.args, &[]);
        }
    }
    uses.into_iter().collect()
}

fn leading_words(args: &[String]) -> Vec<String> {
    args.iter().take_while(|arg| is_word(arg)).cloned().collect()
}

/// Returns whether an argument can be a subcommand.
fn is_word(arg: &str) -> bool {
    arg.starts_with(|it: char| it.is_ascii_alphabetic()) && !arg.contains(['{', '=', '/'])
}

fn is_flag(arg: &str) -> bool {
    arg.starts_with('-') && arg.trim_start_matches('-').starts_with(|it: char| it.is_alphanumeric())
}

/// Reads a list of arguments. `values` are those that a template's value can have.
fn read(key: &str, of: &[String], args: &[String], values: &[String], uses: &mut BTreeSet<ManifestUse>) {
    let mut note = |what: CommandPart| {
        uses.insert(ManifestUse { of: of.to_vec(), what, key: key.to_owned() });
    };
    let literal = |text: &str| match text.contains('{') {
        // Of a value with something around it, only the program knows what it may be.
        true if text == "{value}" => values.to_vec(),
        true => Vec::new(),
        false => vec![text.to_owned()],
    };
    let mut args = args.iter().peekable();
    if let Some(word) = args.next_if(|arg| is_word(arg)) {
        note(CommandPart::Subcommand(word.clone()));
    }
    while let Some(arg) = args.next().map(String::as_str) {
        // A value without an option is a word of the prompt, or a file.
        if !is_flag(arg) {
            continue;
        }
        let (name, joined) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
        let given = match joined {
            Some(value) => OptionValue::Value(literal(value)),
            None => match args.next_if(|next| !is_flag(next)) {
                Some(value) => OptionValue::Value(literal(value)),
                None => OptionValue::Nothing,
            },
        };
        note(CommandPart::Flag { name: name.to_owned(), given });
    }
}
