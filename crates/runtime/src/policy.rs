//! Policies: what an agent may do, who has to allow it, and the judge that decides.
//!
//! [`Task::policy`](crate::Task::policy) puts policies in force, [`judge`] shows what they decide.

pub use bowline_engine::policy::*;

pub use crate::run::policy::{PolicyReach, PolicySet, PolicySource, workspace_facts};
