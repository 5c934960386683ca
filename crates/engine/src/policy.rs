//! The judge of policies: whether an agent may do something, and why.
//!
//! [`judge`] takes policies, an [`action`](PolicyAction) and facts about the workspace, and returns a [`Judgement`]: verdict, rule with
//! its place, risk, category, and the parts of a command that decided. It has no IO: the caller supplies the links, the current
//! branch and the places of agents' settings.
//!
//! A shell command is split into all that it runs, reads and writes (`shell`), also behind programs that run others (`wrappers`).
//! An act that cannot be known before it runs asks, and no list allows it. `acts` has the risky acts by name. The strictest rule of all
//! policies wins, so that a project's policy narrows the user's and cannot widen it.
//!
//! Not here: reading the files of policies (`config`), and enforcement.

mod action;
mod acts;
mod judge;
mod paths;
pub mod pattern;
mod rules;
mod shell;
#[cfg(test)]
mod tests;
mod verdict;
mod wrappers;

pub use action::{PolicyAction, WorkspaceFacts};
pub use judge::judge;
pub use pattern::PatternError;
pub use rules::{CategoryRules, GATED, PolicyRule, PolicyRules, RuleLists, RulePlace, gated_name};
pub use verdict::{Finding, Judgement, TextSpan, Verdict};

/// The longest command that is read, in bytes. A longer one cannot be known.
pub const LONGEST_COMMAND: usize = shell::LONGEST;
