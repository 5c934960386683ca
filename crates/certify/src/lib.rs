//! The contract suite: tests what Bowline promises about an agent program, on the program itself.
//!
//! The suite starts a real program as any run does, in a fresh home, with made-up keys, and with the simulator
//! instead of a model. So it costs nothing, needs no account, and gives the same result every time. The simulator's ledger
//! has every request and response, so a claim such as "the image arrives" or "the usage is
//! right" is checked at the model's end.
//!
//! [`cases`] lists the cases, [`certify`] runs them and returns a [`Report`], [`drift()`] compares two reports. A cell
//! of a report is green, red with evidence, *not claimed* (the manifest declares that the program cannot do it, and why) or
//! *pending* (it needs a part of Bowline that does not exist yet, or is a known fault; a pending case that passes turns red, so that
//! the entry is removed).
//!
//! [`executable`] is the suite for executable providers, which it runs without isolation.
//!
//! The caller has to separate the process from the network and the user's environment first
//! ([`seclusion`]). This crate prints nothing.

mod account;
mod case;
mod case_failure;
mod cases;
mod clock;
pub mod drift;
pub mod executable;
mod live;
mod own_command;
mod place;
mod processes;
mod report;
mod runner;
mod subject;
mod suite;

pub use bowline_process::seclusion;
pub use case::{ContractCase, SuitePart};
pub use cases::{all as cases, chosen};
pub use drift::drift;
pub use own_command::{OwnCommand, RunnerStart};
pub use report::{CaseStatus, FORMAT, Report, ReportCell};
pub use subject::TestedProgram;
pub use suite::{KeptFolders, SuitePlan, SuiteProgress, certify};
