//! Live sessions with the real binary and the practice agent: start, direct, watch, crash, resume.
//!
//! Each test has a data home and a directory of sockets of its own. No test sleeps: it waits for a status, an event or a process.

mod approvals;
mod attached;
mod attention;
mod budgets;
mod builds;
mod control;
mod crashes;
mod decide;
mod files;
mod forms;
mod impostors;
mod inside;
mod newer;
mod options;
mod page;
mod per_prompt;
mod prompts;
mod questions;
mod random_kills;
mod session;
mod start;
mod steers;
mod terminals;
mod waiting;

pub(crate) use self::session::LiveWorld;
