//! The differences between two reports: options, fields of the output, and results of cases.
//!
//! A field that is missing in the newer report is no drift: the output depends on the prompt. A field that is in no older report
//! is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::{CaseStatus, Report};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ReportChange {
    /// The reports are about different providers, so nothing else is compared.
    Provider {
        /// That of the older report.
        before: String,
        /// That of this one.
        now: String,
    },
    /// The version.
    Version {
        /// That of the older report.
        before: Option<String>,
        /// That of this one.
        now: Option<String>,
    },
    /// An option that is new in a page of its help.
    FlagAdded {
        /// The page: the arguments that show it.
        page: String,
        /// The option.
        flag: String,
    },
    /// An option that is gone from a page of its help.
    FlagRemoved {
        /// The page: the arguments that show it.
        page: String,
        /// The option.
        flag: String,
    },
    /// A kind of event that was not seen before.
    Event {
        /// The kind.
        kind: String,
    },
    /// A field that no earlier output had.
    Field {
        /// Its path of names and types.
        path: String,
    },
    /// A case with another result.
    Case {
        /// The case.
        case: String,
        /// The earlier result, if the case ran.
        before: Option<CaseStatus>,
        /// The result now.
        now: CaseStatus,
    },
}

impl fmt::Display for ReportChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        let of = |page: &str| if page.is_empty() { String::new() } else { format!(" of `{page}`") };
        match self {
            Self::Provider { before, now } => write!(f, "the reports are about {before} and {now}"),
            Self::Version { before, now } => write!(f, "version {} -> {}", version(before), version(now)),
            Self::FlagAdded { page, flag } => write!(f, "option {flag}{} is new", of(page)),
            Self::FlagRemoved { page, flag } => write!(f, "option {flag}{} is gone", of(page)),
            Self::Event { kind } => write!(f, "event `{kind}` was not seen before"),
            Self::Field { path } => write!(f, "field `{path}` was not seen before"),
            Self::Case { case, before, now } => {
                let before = before.map_or("not tried", CaseStatus::as_str);
                write!(f, "case {case}: {before} -> {}", now.as_str())
            }
        }
    }
}

/// Returns the differences, the more important first within each sort.
pub fn drift(before: &Report, now: &Report) -> Vec<ReportChange> {
    if before.provider != now.provider {
        return vec![ReportChange::Provider { before: before.provider.clone(), now: now.provider.clone() }];
    }
    let mut changes = Vec::new();
    if before.version != now.version {
        changes.push(ReportChange::Version { before: before.version.clone(), now: now.version.clone() });
    }
    let none = BTreeSet::new();
    let pages: BTreeSet<&String> = before.flags.keys().chain(now.flags.keys()).collect();
    for page in pages {
        let (was, is) = (before.flags.get(page).unwrap_or(&none), now.flags.get(page).unwrap_or(&none));
        changes.extend(
            was.difference(is)
                .map(|flag| ReportChange::FlagRemoved { page: page.clone(), flag: flag.clone() }),
        );
        changes.extend(
            is.difference(was).map(|flag| ReportChange::FlagAdded { page: page.clone(), flag: flag.clone() }),
        );
    }
    let status = |report: &Report| -> BTreeMap<String, CaseStatus> {
        report.cells.iter().map(|cell| (cell.case.clone(), cell.status)).collect()
    };
    let (was, is) = (status(before), status(now));
    // A case that did not run this time has no result to compare.
    for (case, now) in is {
        let before = was.get(&case).copied();
        if before != Some(now) {
            changes.push(ReportChange::Case { case, before, now });
        }
    }
    let new_kinds = now.kinds.keys().filter(|kind| !before.kinds.contains_key(*kind));
    changes.extend(new_kinds.cloned().map(|kind| ReportChange::Event { kind }));
    changes.extend(
        now.vocabulary.difference(&before.vocabulary).cloned().map(|path| ReportChange::Field { path }),
    );
    changes
}

#[cfg(test)]
mod tests;
