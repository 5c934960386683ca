//! The reasons for which the loop of a run wakes, and the futures that it waits for.

use std::pin::Pin;

use bowline_engine::budget::Amounts;
use bowline_engine::{HostResult, HostWorkId, SyncId};
use bowline_protocol::kinds::TouchedFile;
use bowline_protocol::{Failure, Millis};
use tokio::time::Sleep;

use super::ActiveRun;
use super::waits::{finished, next, others, room, waited};

use crate::run::agent::{Agent, AgentEvent};
use crate::run::error::Error;
use crate::run::git::Snapshot;
use crate::run::launch::{NextLife, SecondPlan};
use crate::sessions::budget::SpendTracker;
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

/// The reason for which the loop woke.
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

impl ActiveRun {
    /// Returns when the timer has to fire, as the time since the beginning of the run.
    pub(super) fn next_deadline(&self) -> Millis {
        let deadlines = self.drive.engine.deadline().into_iter().chain(self.pending.index_due);
        let deadlines = deadlines.chain(self.drive.spend.as_ref().and_then(SpendTracker::deadline));
        deadlines.chain(self.sync_deadline()).min().unwrap_or(Millis(u64::from(u32::MAX)))
    }

    /// Waits for the next thing to handle.
    pub(super) async fn wake(&mut self, mut timer: Pin<&mut Sleep>) -> WakeReason {
        let held = self.pending.holds_back();
        // `biased`, in this order: an order to stop must get through while the agent prints without a pause. The timer
        // comes last, because output that is ready may move the deadline.
        tokio::select! {
            biased;
            order = self.drive.orders.recv(), if !self.orders_closed => WakeReason::Order(order),
            others = others(&mut self.drive.share), if self.drive.share.is_some() => WakeReason::Others(others),
            looked = waited(&mut self.pending.preparation), if self.pending.preparation.is_some() => {
                self.pending.preparation = None;
                WakeReason::Prepared(looked)
            }
            agent = waited(&mut self.pending.spawn), if self.pending.spawn.is_some() => {
                self.pending.spawn = None;
                WakeReason::Spawned(agent.map_err(Box::new))
            }
            second = waited(&mut self.pending.replan), if self.pending.replan.is_some() => {
                self.pending.replan = None;
                WakeReason::Replanned(second)
            }
            planned = waited(&mut self.pending.planning), if self.pending.planning.is_some() => {
                self.pending.planning = None;
                WakeReason::Planned(planned)
            }
            (sync, done) = waited(&mut self.pending.decision_sync), if self.pending.decision_sync.is_some() => {
                self.pending.decision_sync = None;
                WakeReason::Synced(sync, done)
            }
            Some((work, result)) = self.pending.host.done() => WakeReason::Host(work, result),
            () = room(self.drive.sender.as_ref()), if !self.pending.backlog.is_empty() => WakeReason::Room,
            event = next(&mut self.pending.agent), if self.pending.agent.is_some() && !held => WakeReason::Agent(event),
            files = finished(&mut self.pending.files), if self.pending.files.is_some() => {
                self.pending.files = None;
                WakeReason::Files(files.unwrap_or_else(|| Err("the task was aborted".to_owned())))
            }
            // An agent that waits for our subscriber is silent through no fault of its own.
            () = &mut timer, if !held => WakeReason::Timer,
        }
    }
}
