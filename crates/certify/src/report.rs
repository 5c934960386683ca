//! The results of a suite as data: for people, for programs, and to be compared with another report.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::drift::ReportChange;

/// The version of the report format.
pub const FORMAT: u32 = 1;

/// The results of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format.
    pub format: u32,
    /// The provider.
    pub provider: String,
    /// The name of the product, for people.
    pub title: String,
    /// The version that the program prints.
    pub version: Option<String>,
    /// The program that was run.
    pub program: String,
    /// The version of the adapter.
    pub adapter_version: String,
    /// Our own version.
    pub bowline: String,
    /// When the report was made.
    pub at: jiff::Timestamp,
    /// The system and the architecture.
    pub system: String,
    /// Which part of the suite ran.
    pub suite: String,
    /// How the program was isolated from the network, and the guarantee about processes that it leaves.
    pub isolation: String,
    /// How long it took.
    pub took_ms: u64,
    /// The cells, in the order of the suite.
    pub cells: Vec<ReportCell>,
    /// The options that its help lists, by page.
    pub flags: BTreeMap<String, BTreeSet<String>>,
    /// The kinds of events of its runs, and how many of each.
    pub kinds: BTreeMap<String, u64>,
    /// The fields of its output, as paths of names and types; never values.
    pub vocabulary: BTreeSet<String>,
    /// Those that are in no recording.
    pub novel: BTreeSet<String>,
    /// The differences to an older report, if there was one to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Vec<ReportChange>>,
}

/// One case and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportCell {
    /// The name of the case.
    pub case: String,
    /// The promise of the case.
    pub about: String,
    /// The result.
    pub status: CaseStatus,
    /// Why it is not claimed, or pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The evidence, if it is red.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// How long it took.
    pub took_ms: u64,
}

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// The promise holds.
    Green,
    /// It does not hold; there is evidence.
    Red,
    /// The manifest does not claim it.
    NotClaimed,
    /// It cannot hold yet.
    Pending,
}

impl CaseStatus {
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
    pub fn count(&self, status: CaseStatus) -> usize {
        self.cells.iter().filter(|cell| cell.status == status).count()
    }

    /// Returns whether no cell is red.
    pub fn holds(&self) -> bool {
        self.count(CaseStatus::Red) == 0
    }
}
