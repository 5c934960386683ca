//! The contract suite's data about a program: the cases that it does not claim and why, the cases that cannot hold yet, and
//! the faults that it reports in its own way.

use std::collections::BTreeMap;

use bowline_protocol::Category;
use serde::{Deserialize, Serialize};

/// The section `[certify]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Certify {
    /// Cases that the program does not claim to pass, and why.
    pub not_claimed: BTreeMap<String, String>,
    /// Cases that fail and should not, and why. A listed case that passes is an error, so that the entry is removed.
    pub pending: BTreeMap<String, String>,
    /// Faults that the program reports as another category.
    pub categories: BTreeMap<String, Expected>,
    /// How many cases at a time, for a program that is too heavy for the usual four.
    pub at_once: Option<usize>,
    /// An id that the program takes for a session's, and that no session has. Without it, a UUID.
    pub unknown_session: Option<String>,
}

/// The category of a fault, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The categories that are right for it.
    pub categories: Vec<Category>,
    /// Why it is not the usual one.
    pub why: String,
}
