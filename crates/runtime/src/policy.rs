//! Policies: the acts that an agent may do, the acts that need a person, and the judge that decides.
//!
//! [`Task::policy`](crate::Task::policy) puts policies in force, [`judge`] shows what they decide.

pub use bowline_engine::policy::*;

pub use crate::run::policy::{PolicyReach, PolicySet, PolicySource, workspace_facts};
