//! What a suite found, as data: for people, for programs, and to be compared with another one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::drift::Change;

/// The version of the form of a report.
pub const FORMAT: u32 = 1;

/// What the suite found out about a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this form.
    pub format: u32,
    /// The provider.
    pub provider: String,
    /// What the program is called.
    pub title: String,
    /// The version that the program answers with.
    pub version: Option<String>,
    /// The program that was run.
    pub program: String,
    /// The version of the adapter.
    pub adapter_version: String,
    /// Our own version.
    pub bowline: String,
    /// When it was made.
    pub at: jiff::Timestamp,
    /// The system and the architecture.
    pub system: String,
    /// Which part of the suite it is.
    pub suite: String,
    /// How the program was kept from the network, and what is promised about processes that it leaves.
    pub isolation: String,
    /// How long it took.
    pub took_ms: u64,
    /// The cells, in the order of the suite.
    pub cells: Vec<Cell>,
    /// The options that its help lists, by page.
    pub flags: BTreeMap<String, BTreeSet<String>>,
    /// The kinds of events that it gave rise to, and how many of each.
    pub kinds: BTreeMap<String, u64>,
    /// The fields that it said, as paths of names and types; never values.
    pub vocabulary: BTreeSet<String>,
    /// Those among them that stand in no recording.
    pub novel: BTreeSet<String>,
    /// What changed since an older report, if it was compared with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Vec<Change>>,
}

/// One case and what it came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The name of the case.
    pub case: String,
    /// What the case is about.
    pub about: String,
    /// What it came to.
    pub status: Status,
    /// Why it is not claimed, or pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is wrong, if it is red.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It holds.
    Green,
    /// It does not; there is evidence.
    Red,
    /// The program is not said to do it.
    NotClaimed,
    /// It cannot hold yet.
    Pending,
}

impl Status {
    /// Returns it in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Red => "red",
            Self::NotClaimed => "not claimed",
            Self::Pending => "pending",
        }
    }
}

impl Report {
    /// Counts the cells of a status.
    pub fn count(&self, status: Status) -> usize {
        self.cells.iter().filter(|cell| cell.status == status).count()
    }

    /// Says whether nothing is red.
    pub fn holds(&self) -> bool {
        self.count(Status::Red) == 0
    }
}
