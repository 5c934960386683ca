//! The handle that stops a run, and the orders that it sends. The monitor and the registry hold one for each run of this process.

use bowline_engine::RunCommand;
use bowline_protocol::Millis;
use tokio::sync::mpsc;

/// An order from outside of the run.
#[derive(Debug)]
pub(crate) enum RunOrder {
    /// A command of the caller.
    Command(RunCommand),
    /// The run exceeded this total limit, counting the time in which the machine slept.
    Overdue(Millis),
}

/// Stops a turn, from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {
    orders: mpsc::Sender<RunOrder>,
}

impl Control {
    pub(crate) fn new(orders: mpsc::Sender<RunOrder>) -> Self {
        Self { orders }
    }

    /// Stops the agent, first with its own stop signal, and keeps the partial answer. The agent is gone within two seconds.
    /// Does nothing if the turn is over.
    pub fn cancel(&self) {
        self.send(RunOrder::Command(RunCommand::Cancel));
    }

    /// Kills the agent and every process that it started, at once.
    pub fn kill(&self) {
        self.send(RunOrder::Command(RunCommand::Kill));
    }

    /// Returns whether the turn is over and there is no agent left to stop. There may still be events to read.
    pub fn is_over(&self) -> bool {
        self.orders.is_closed()
    }

    /// Ends the turn because it exceeded this limit, counting the time in which the machine slept.
    pub(crate) fn overdue(&self, limit: Millis) {
        self.send(RunOrder::Overdue(limit));
    }

    pub(crate) fn send(&self, order: RunOrder) {
        match self.orders.try_send(order) {
            // The turn is over, or the queue is full of orders that all stop it.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_) | mpsc::error::TrySendError::Full(_)) => {}
        }
    }
}
