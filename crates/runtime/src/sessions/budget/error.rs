//! Why a budget does not allow a run, or cannot be checked.

use crate::sessions::journal::JournalError;

/// Why a budget does not allow a run, or cannot be checked. Converts to [`crate::Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A budget is used up already.
    #[error("the budget for {scope} is used up: {what}")]
    Over {
        /// The scope of the budget.
        scope: String,
        /// How much of it was used.
        what: String,
    },
    /// The spending so far could not be read.
    #[error("could not read the spending so far")]
    Ledger {
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The journal of a killed run could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
