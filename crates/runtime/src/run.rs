//! One run of one agent: the task that describes it, the launch, the driver, and what a caller gets from it.

pub(crate) mod agent;
mod answer;
pub(crate) mod approval;
pub mod attention;
pub(crate) mod callback;
pub(crate) mod drive;
pub(crate) mod error;
pub(crate) mod failures;
pub(crate) mod git;
pub(crate) mod host_tools;
pub(crate) mod launch;
pub(crate) mod live;
pub(crate) mod policy;
pub(crate) mod record;
pub mod settings;
pub(crate) mod subscribe;
pub(crate) mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trust;
pub(crate) mod turn;
pub(crate) mod turn_record;
pub(crate) mod watch;
