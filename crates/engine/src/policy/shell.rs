//! Splits a shell command into the acts that it consists of: programs with their words, redirections, and what cannot be known.
//!
//! Pure and bounded. An input that is not understood is an act of its own ([`ShellAct::Unclear`]), never an error: the judge then
//! asks a person.

mod builtins;
mod fields;
mod scan;
mod script;
mod state;
mod walk;
mod word;

use super::verdict::TextSpan;
pub(super) use fields::{ShellWord, UNKNOWN};
pub(super) use script::LONGEST;
pub(super) use state::{ShellState, WorkingDirs};
pub(super) use walk::walk;

/// One thing that a script does.
#[derive(Clone, Debug)]
pub(super) enum ShellAct {
    /// It runs a program or a builtin.
    Command(ShellCommand),
    /// It writes to a file by a redirection.
    Write(ShellWord, WorkingDirs),
    /// It reads from a file by a redirection.
    Read(ShellWord, WorkingDirs),
    /// It does something that cannot be known.
    Unclear {
        /// The id of the rule.
        rule: &'static str,
        /// The reason.
        reason: String,
        /// The place.
        span: TextSpan,
    },
}

/// A program with its words.
#[derive(Clone, Debug)]
pub(super) struct ShellCommand {
    /// The program and its arguments.
    pub(super) words: Vec<ShellWord>,
    /// The variables that are set for this command alone.
    pub(super) assigned: Vec<(String, ShellWord)>,
    /// Where its standard input comes from.
    pub(super) input: CommandInput,
    /// Where it runs.
    pub(super) dirs: WorkingDirs,
    /// Its place.
    pub(super) span: TextSpan,
}

/// The standard input of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandInput {
    /// That of the shell.
    Inherited,
    /// Output of another command, or a file.
    Piped,
    /// A here-document or a here-string with its place; none if a part of it is not known.
    Text(Option<String>, TextSpan),
}

/// Takes the acts of a script, one by one.
pub(super) trait ActSink {
    /// Takes the next act.
    fn act(&mut self, act: ShellAct);
}

/// The place of a script inside the command that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is a part of that text and begins at this byte.
    At(usize),
    /// It was put together: everything in it has the place of this word.
    Inside(TextSpan),
}

impl Origin {
    /// Returns the place of a part of the script.
    pub(super) fn span(self, from: usize, to: usize) -> TextSpan {
        match self {
            Self::At(start) => TextSpan { from: start + from, to: start + to },
            Self::Inside(span) => span,
        }
    }
}
