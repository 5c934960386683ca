//! What the contract suite has to know about a program: what is not claimed and why, what cannot hold yet, and where
//! a fault is told in another way than the rest of the world tells it.

use std::collections::BTreeMap;

use bowline_protocol::Category;
use serde::{Deserialize, Serialize};

/// The section `[certify]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Certify {
    /// Cases that the program is not said to pass, and why.
    pub not_claimed: BTreeMap<String, String>,
    /// Cases that fail and should not, and why. One that passes after all is an error, so that the entry goes.
    pub pending: BTreeMap<String, String>,
    /// Faults that the program tells as something else.
    pub categories: BTreeMap<String, Expected>,
    /// How many cases at a time, for a program that is too heavy for the usual four.
    pub at_once: Option<usize>,
    /// An id that the program takes for a session's, and that no session has. Without it, a UUID.
    pub unknown_session: Option<String>,
}

/// What a fault is told as, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The categories that are right for it.
    pub categories: Vec<Category>,
    /// Why it is not the usual one.
    pub why: String,
}
