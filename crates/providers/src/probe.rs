//! Reads an installed program's own output about itself: its version, and the options that it really has.
//!
//! Text in, values out. The runtime (`detect`) starts the program and caches its output. This module interprets it:
//! [`version`] finds a [`Version`] in the answer to `--version`, [`help`] reads a help page into typed options, [`uses`]
//! lists the options that a manifest puts into commands, [`check()`] compares the two, and [`narrow()`] removes the capabilities
//! that the installed program lacks. Options that work although a help page does not list them are in the manifest, with
//! its reason.

pub mod check;
pub mod help;
pub mod narrow;
pub mod uses;
pub mod version;

use serde::{Deserialize, Serialize};

pub use check::{Finding, check};
pub use help::Help;
pub use narrow::{NarrowedCapabilities, narrow};
pub use version::Version;

/// The output of a program's version and help commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
}

/// A page of help, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The arguments that print it, as in the manifest.
    pub args: Vec<String>,
    /// The text.
    pub help: Help,
}

impl Page {
    /// Reads a page of help. Some programs print it to standard error, so that the stream with more options counts.
    pub fn read(args: &[String], answer: &Answer) -> Self {
        let [stdout, stderr] = [&answer.stdout, &answer.stderr].map(|text| Help::parse(text));
        let more =
            stderr.flags.len() + stderr.subcommands.len() > stdout.flags.len() + stdout.subcommands.len();
        Self { args: args.to_vec(), help: if more { stderr } else { stdout } }
    }

    /// Returns the words that choose what the page is about: `exec` of `exec --help`.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-') && *arg != "help")
    }
}
