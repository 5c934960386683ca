//! What wakes the loop of a run, and the futures that it waits for.

use std::pin::Pin;

use bowline_engine::budget::Amounts;
use bowline_engine::{HostResult, HostWorkId, SyncId};
use bowline_protocol::Failure;
use bowline_protocol::kinds::TouchedFile;

use crate::run::agent::{Agent, AgentEvent};
use crate::run::error::Error;
use crate::run::git::Snapshot;
use crate::run::launch::{NextLife, SecondPlan};
use crate::sessions::control::RunOrder;
use crate::sessions::journal::JournalError;

/// A snapshot of the files before the start.
pub(super) type Preparation = Pin<Box<dyn Future<Output = Result<Option<Snapshot>, String>> + Send>>;

/// The files that changed, and the state after that.
pub(super) type FilesAfter = (Vec<TouchedFile>, Option<Snapshot>);

/// The plan of a further process that is being made.
pub(super) type Planning = Pin<Box<dyn Future<Output = Result<Box<NextLife>, Error>> + Send>>;

/// A second plan that is being made.
pub(super) type Replanning = Pin<Box<dyn Future<Output = SecondPlan> + Send>>;

/// A sync that decisions on approvals wait for.
pub(super) type DecisionSync = Pin<Box<dyn Future<Output = (SyncId, Result<(), JournalError>)> + Send>>;

/// What woke the loop.
pub(super) enum WakeReason {
    Order(Option<RunOrder>),
    /// Another task has used more of the shared budget.
    Others(Amounts),
    Prepared(Result<Option<Snapshot>, String>),
    Spawned(Result<Agent, Box<Failure>>),
    Agent(AgentEvent),
    Files(Result<FilesAfter, String>),
    Replanned(SecondPlan),
    /// The plan of a further process is made, or could not be made.
    Planned(Result<Box<NextLife>, Error>),
    /// Decisions on approvals are on disk, or could not be written there.
    Synced(SyncId, Result<(), JournalError>),
    /// Work for a request of the agent is done.
    Host(HostWorkId, HostResult),
    Timer,
    /// The subscriber's queue has room.
    Room,
}
