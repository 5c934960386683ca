//! Trust per project: which files of a project may run programs, pass variables or name addresses.
//!
//! A project's files come from its repository, so that an attacker may have written them. Without trust they may only narrow
//! and order what the user already has. `bowline trust` pins the content of every such file; this module decides, and every
//! reader of a project's files asks it. The states of a file:
//!
//! ```text
//!              `bowline trust`                    the content changes
//!   Unpinned ──────────────────> Trusted ──────────────────────────────> Changed
//!      ^                           │ ^        `bowline trust`               │
//!      │      the pin is removed   │ └──────────────────────────────────────┘
//!      └───────────────────────────┴────    the pin is removed    ──────────┘
//! ```
//!
//! [`judge`] is the whole decision: the pins of a directory and what was found there go in, a [`TrustState`] comes out. Only
//! `Trusted` lifts a restriction. The bytes that are hashed are the bytes that are parsed: a file is read once, so that
//! nothing can change between the two. A program inside the project that a file names is pinned with it. Between that check
//! and the start of the program its owner can still replace it; a file of another owner is therefore never read.
//!
//! Absent on purpose: trust in a whole directory tree ("everything below ~/src"), and trust that a project's file can give
//! itself. Git worktrees and copies are directories of their own and need a `bowline trust` each.

mod review;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bowline_providers::invocation::environment::looks_secret;
use serde::Serialize;

pub use bowline::trust::{ObservedFile, ProjectTrust, TrustRecord, TrustState, judge};
pub use review::{ReviewedFile, TrustReview};
pub use store::{TrustError, TrustStore};

/// Something that a project's file would do and may not do without trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The line, counted from 1.
    pub line: usize,
    /// Its effect.
    pub kind: ClaimKind,
}

/// An effect of a project's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "claim")]
pub enum ClaimKind {
    /// Run a program.
    Runs {
        /// The program, as the file has it.
        program: String,
        /// The arguments that the file gives it.
        args: Vec<String>,
    },
    /// Read a variable of the user's environment.
    Reads {
        /// Its name.
        variable: String,
    },
    /// Set a variable of an agent's environment.
    Sets {
        /// Its name.
        variable: String,
        /// Its value; `***` for a secret.
        value: String,
    },
    /// Send requests, with the user's key, to an address.
    Contacts {
        /// The variable that holds it.
        variable: String,
        /// The address.
        address: String,
    },
    /// Choose the account.
    Uses {
        /// The profile.
        profile: String,
    },
    /// Pass settings that only the program understands.
    Configures {
        /// The name of the setting.
        option: String,
        /// Its value; `***` for a secret.
        value: String,
    },
}

impl ClaimKind {
    /// A variable that is set to a value, which may hold an address.
    pub(crate) fn set(variable: &str, value: &str) -> Self {
        let value = unless_secret(variable, value);
        let variable = variable.to_owned();
        match value.contains("://") {
            true => Self::Contacts { variable, address: value },
            false => Self::Sets { variable, value },
        }
    }

    /// A setting of the program that gets a value.
    pub(crate) fn configure(option: impl Into<String>, value: &str) -> Self {
        let option = option.into();
        Self::Configures { value: unless_secret(&option, value), option }
    }

    /// Returns a short form, without arguments and values.
    fn brief(&self) -> String {
        match self {
            Self::Runs { program, .. } => {
                // Of an `acp:` command, the first word is the program.
                let command = program.strip_prefix("acp:").and_then(|it| it.split_whitespace().next());
                match command {
                    Some(command) => format!("runs acp:{}", visible(command)),
                    None => format!("runs {}", visible(program)),
                }
            }
            Self::Configures { option, .. } => format!("sets the option `{option}` of the program"),
            Self::Sets { variable, .. } => format!("sets ${variable}"),
            Self::Reads { .. } | Self::Contacts { .. } | Self::Uses { .. } => self.to_string(),
        }
    }
}

/// Returns a value as it may be shown. A secret is masked by the name that it has, except for an address: the user has to see where
/// requests go, whatever the file calls it.
fn unless_secret(name: &str, value: &str) -> String {
    let masked = looks_secret(name) && !value.contains("://");
    if masked { "***".to_owned() } else { value.to_owned() }
}

/// Shows one word of a command so that it can be told from the next one, and nothing in it is hidden.
fn visible(word: &str) -> String {
    let plain = !word.is_empty() && word.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"');
    if plain { word.to_owned() } else { format!("\"{}\"", word.escape_debug()) }
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { program, args } => {
                // An `acp:` command has its arguments in itself.
                let whole = program.starts_with("acp:") && !program.contains(char::is_control);
                let program = if whole { program.clone() } else { visible(program) };
                write!(f, "runs {program}")?;
                args.iter().try_for_each(|arg| write!(f, " {}", visible(arg)))
            }
            Self::Reads { variable } => write!(f, "reads ${variable} of your environment"),
            Self::Sets { variable, value } => write!(f, "sets ${variable} to {}", visible(value)),
            Self::Contacts { variable, address } => {
                write!(f, "sets ${variable}, so that requests go to {}", visible(address))
            }
            Self::Uses { profile } => write!(f, "uses your account `{profile}`"),
            Self::Configures { option, value } => {
                write!(f, "sets the option `{option}` of the program to {}", visible(value))
            }
        }
    }
}

/// A part of a project's file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1; absent for a whole file.
    pub line: Option<usize>,
    /// The entry or the key; absent for a whole file.
    pub name: Option<String>,
    /// Why.
    pub reason: String,
}

impl LeftOut {
    /// A whole file is not used.
    pub(crate) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, name: None, reason: reason.into() }
    }

    /// A part of a file is not used, because of what it would do.
    pub(crate) fn part(path: &Path, line: usize, name: &str, claims: &[Claim]) -> Self {
        let claims: Vec<String> = claims.iter().map(|claim| claim.kind.brief()).collect();
        let reason = format!("it {}", claims.join(", "));
        Self { path: path.to_owned(), line: Some(line), name: Some(name.to_owned()), reason }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.name {
            Some(name) => write!(f, ": ignored `{name}`: {}", self.reason),
            None => write!(f, ": ignored: {}", self.reason),
        }
    }
}

/// Returns the owner of a project's file if it is neither the user nor root: such a file is not read at all.
pub(crate) fn foreign_owner(meta: &std::fs::Metadata) -> Option<u32> {
    let uid = meta.uid();
    (uid != 0 && uid != rustix::process::geteuid().as_raw()).then_some(uid)
}
