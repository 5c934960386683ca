//! The handle of a running turn or session, and the orders that it sends. The monitor and the registry hold one for each run of this
//! process.

use std::collections::BTreeMap;

use bowline_engine::RunCommand;
use bowline_protocol::kinds::Notice;
use bowline_protocol::{
    Millis, OrderRefused, PermissionMode, Receipt, SessionOrder, SessionSnapshot, WhenBusy,
};
use tokio::sync::{mpsc, oneshot};

/// An order from outside of the run.
#[derive(Debug)]
pub(crate) enum RunOrder {
    /// A command of the caller.
    Command(RunCommand),
    /// The run exceeded this total limit, counting the time in which the machine slept.
    Overdue(Millis),
    /// An order that is answered.
    Order(Box<AnsweredOrder>),
    /// A request for the snapshot of a live session.
    Snapshot(oneshot::Sender<SessionSnapshot>),
    /// Stop the session if nothing runs and nothing waits, for a newer runner.
    HandOver(oneshot::Sender<Result<HandedOver, OrderRefused>>),
    /// A notice about our own machinery.
    Remark(Notice),
}

/// What a newer runner cannot read from the files of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandedOver {
    /// The permission mode of the moment. An agent can write `session.json`.
    pub(crate) permission: Option<PermissionMode>,
}

impl RunOrder {
    /// Returns whether the caller stops the run, so that no further attempt follows.
    pub(crate) fn is_stop(&self) -> bool {
        match self {
            Self::Command(_) => true,
            Self::Order(order) => {
                matches!(order.what, SessionOrder::Stop | SessionOrder::Kill | SessionOrder::Interrupt)
            }
            // From the session monitor and our own machinery, not from the caller.
            Self::Overdue(_) | Self::Snapshot(_) | Self::HandOver(_) | Self::Remark(_) => false,
        }
    }
}

/// An order, with the place of its answer.
#[derive(Debug)]
pub(crate) struct AnsweredOrder {
    pub(crate) what: SessionOrder,
    /// The contents of the images of a prompt, by path.
    pub(crate) images: BTreeMap<String, Vec<u8>>,
    pub(crate) answer: oneshot::Sender<Result<Receipt, OrderRefused>>,
}

/// The receiving end of a run's orders.
pub(crate) type OrderInbox = mpsc::UnboundedReceiver<RunOrder>;

/// Makes the handle of a run, and the inbox of its orders. The inbox has no limit: an order is never dropped, and a caller waits for
/// the answer before it sends the next one.
pub(crate) fn orders() -> (Control, OrderInbox) {
    let (orders, inbox) = mpsc::unbounded_channel();
    (Control { orders }, inbox)
}

/// Stops a turn, decides its approvals and interrupts it, from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {
    orders: mpsc::UnboundedSender<RunOrder>,
}

impl Control {
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

    /// Sends a prompt to a live session.
    pub async fn send_prompt(
        &self,
        text: impl Into<String>,
        when_busy: WhenBusy,
    ) -> Result<Receipt, OrderRefused> {
        let (text, attachments, from) = (text.into(), Vec::new(), None);
        self.order(SessionOrder::Prompt { text, attachments, when_busy, from }).await
    }

    /// Sends an order, and waits for its answer.
    ///
    /// # Errors
    ///
    /// The reason why the order was not carried out; [`OrderRefused::Stopping`] if the turn is over.
    pub async fn order(&self, order: SessionOrder) -> Result<Receipt, OrderRefused> {
        self.order_with(order, BTreeMap::new()).await
    }

    /// The same with the contents of images.
    pub(crate) async fn order_with(
        &self,
        what: SessionOrder,
        images: BTreeMap<String, Vec<u8>>,
    ) -> Result<Receipt, OrderRefused> {
        let (answer, answered) = oneshot::channel();
        self.send(RunOrder::Order(Box::new(AnsweredOrder { what, images, answer })));
        // Dropped without an answer, if the run ended first.
        answered.await.unwrap_or(Err(OrderRefused::Stopping))
    }

    /// Sends an order whose answer nothing waits for.
    pub(crate) fn send_unanswered(&self, what: SessionOrder) {
        let (answer, _) = oneshot::channel();
        let images = BTreeMap::new();
        self.send(RunOrder::Order(Box::new(AnsweredOrder { what, images, answer })));
    }

    /// Stops a live session at rest, for a newer runner. Nothing can begin between the look at its state and the stop.
    pub(crate) async fn hand_over(&self) -> Result<HandedOver, OrderRefused> {
        let (answer, answered) = oneshot::channel();
        self.send(RunOrder::HandOver(answer));
        answered.await.unwrap_or(Err(OrderRefused::Stopping))
    }

    /// Returns the snapshot of a live session; `None` if it is over, or is a turn of one prompt.
    pub async fn snapshot(&self) -> Option<SessionSnapshot> {
        let (answer, answered) = oneshot::channel();
        self.send(RunOrder::Snapshot(answer));
        answered.await.ok()
    }

    /// Ends the turn because it exceeded this limit, counting the time in which the machine slept.
    pub(crate) fn overdue(&self, limit: Millis) {
        self.send(RunOrder::Overdue(limit));
    }

    pub(crate) fn send(&self, order: RunOrder) {
        // A closed inbox belongs to a run that is over.
        let _ = self.orders.send(order);
    }
}
