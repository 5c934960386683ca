//! Orders that wait for an acknowledgement of the agent.

use bowline_protocol::{Millis, OrderRefused, PermissionMode, PromptId, Receipt};
use bowline_providers::dialect::{AckToken, HostPrompt};

use crate::run::OrderId;

/// How long an agent may take to acknowledge.
const PATIENCE: Millis = Millis(15_000);

/// The orders that wait.
#[derive(Debug, Default)]
pub(super) struct PendingAcks {
    waiting: Vec<PendingAck>,
    /// Orders that were given up. The agent may still acknowledge them.
    late: Vec<(AckToken, LateOrder)>,
}

/// An order that waits.
#[derive(Debug)]
pub(super) struct PendingAck {
    token: AckToken,
    pub(super) order: OrderId,
    until: Millis,
    pub(super) what: AckedOrder,
}

/// A steer that the agent has not acknowledged.
#[derive(Debug)]
pub(super) struct UnackedSteer {
    pub(super) prompt: HostPrompt,
    /// The turn that ran.
    pub(super) turn: u32,
    /// The sender.
    pub(super) from: Option<String>,
}

/// An option that is being changed.
#[derive(Clone, Debug)]
pub(super) struct OptionChange {
    pub(super) option: String,
    pub(super) value: String,
    /// The value, if the option is the permission mode.
    pub(super) permission: Option<PermissionMode>,
}

/// An order whose acknowledgement comes too late for its caller.
#[derive(Debug)]
pub(super) enum LateOrder {
    /// A steer, which waits in the queue now.
    Steer(PromptId),
    Option(OrderId, OptionChange),
}

/// An order that was sent to the agent.
#[derive(Debug)]
pub(super) enum AckedOrder {
    Steer(UnackedSteer),
    /// A request to give a prompt back.
    TakeBack(PromptId),
    Option(OptionChange),
    /// A request to compact.
    Compact,
}

/// How many late acknowledgements are waited for.
const LATE_AT_MOST: usize = 64;

impl PendingAcks {
    pub(super) fn wait(&mut self, token: AckToken, order: OrderId, what: AckedOrder, now: Millis) {
        if let AckedOrder::Option(change) = &what {
            // The agent takes orders one after the other, so this one decides.
            self.late.retain(
                |(_, late)| !matches!(late, LateOrder::Option(_, old) if old.option == change.option),
            );
        }
        self.waiting.push(PendingAck { token, order, until: now.plus(PATIENCE), what });
    }

    pub(super) fn deadline(&self) -> Option<Millis> {
        self.waiting.iter().map(|it| it.until).min()
    }

    /// Takes the order that an acknowledgement is about.
    pub(super) fn take(&mut self, token: AckToken) -> Option<PendingAck> {
        let place = self.waiting.iter().position(|it| it.token == token)?;
        Some(self.waiting.remove(place))
    }

    /// Takes the steer of a prompt, with its order.
    pub(super) fn take_steer(&mut self, prompt: &PromptId) -> Option<(OrderId, UnackedSteer)> {
        let is = |it: &PendingAck| matches!(&it.what, AckedOrder::Steer(steer) if steer.prompt.id == *prompt);
        let place = self.waiting.iter().position(is)?;
        let PendingAck { order, what, .. } = self.waiting.remove(place);
        Some((order, what.into_steer()?))
    }

    /// Takes an order whose acknowledgement comes too late.
    pub(super) fn take_late(&mut self, token: AckToken) -> Option<LateOrder> {
        let place = self.late.iter().position(|(late, _)| *late == token)?;
        Some(self.late.remove(place).1)
    }

    /// Takes the orders whose time is over.
    pub(super) fn expired(&mut self, now: Millis) -> Vec<(OrderId, AckedOrder)> {
        let mut expired = Vec::new();
        while let Some(place) = self.waiting.iter().position(|it| now >= it.until) {
            let PendingAck { token, order, what, .. } = self.waiting.remove(place);
            let late = match &what {
                AckedOrder::Steer(steer) => Some(LateOrder::Steer(steer.prompt.id.clone())),
                AckedOrder::Option(change) => Some(LateOrder::Option(order, change.clone())),
                AckedOrder::TakeBack(_) | AckedOrder::Compact => None,
            };
            self.late.extend(late.filter(|_| self.late.len() < LATE_AT_MOST).map(|late| (token, late)));
            expired.push((order, what));
        }
        expired
    }

    /// Takes all orders, because the process is gone. Steers come with their prompts.
    pub(super) fn process_gone(&mut self) -> Vec<(OrderId, Option<UnackedSteer>)> {
        self.late.clear();
        self.waiting.drain(..).map(|it| (it.order, it.what.into_steer())).collect()
    }

    /// Answers all orders, because the session is over.
    pub(super) fn abandon(&mut self) -> Vec<(OrderId, Result<Receipt, OrderRefused>)> {
        self.waiting.drain(..).map(|it| (it.order, Err(OrderRefused::Stopping))).collect()
    }
}

impl AckedOrder {
    fn into_steer(self) -> Option<UnackedSteer> {
        match self {
            Self::Steer(steer) => Some(steer),
            Self::TakeBack(_) | Self::Option(_) | Self::Compact => None,
        }
    }
}
