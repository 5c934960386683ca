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
    /// Steers that were given up, and wait in the queue now. The agent may still acknowledge them.
    late: Vec<(AckToken, PromptId)>,
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

/// An order that was sent to the agent.
#[derive(Debug)]
pub(super) enum AckedOrder {
    Steer(UnackedSteer),
    /// A request to give a prompt back.
    TakeBack(PromptId),
    /// An option.
    Option {
        option: String,
        value: String,
        permission: Option<PermissionMode>,
    },
    /// A request to compact.
    Compact,
}

/// How many late acknowledgements are waited for.
const LATE_AT_MOST: usize = 64;

impl PendingAcks {
    pub(super) fn wait(&mut self, token: AckToken, order: OrderId, what: AckedOrder, now: Millis) {
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

    /// Takes the prompt of a steer whose acknowledgement comes too late.
    pub(super) fn take_late(&mut self, token: AckToken) -> Option<PromptId> {
        let place = self.late.iter().position(|(late, _)| *late == token)?;
        Some(self.late.remove(place).1)
    }

    /// Takes the orders whose time is over. Steers come with their prompts.
    pub(super) fn expired(&mut self, now: Millis) -> Vec<(OrderId, Option<UnackedSteer>)> {
        let mut expired = Vec::new();
        while let Some(place) = self.waiting.iter().position(|it| now >= it.until) {
            let PendingAck { token, order, what, .. } = self.waiting.remove(place);
            let steer = what.into_steer();
            if let Some(steer) = steer.as_ref().filter(|_| self.late.len() < LATE_AT_MOST) {
                self.late.push((token, steer.prompt.id.clone()));
            }
            expired.push((order, steer));
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
            Self::TakeBack(_) | Self::Option { .. } | Self::Compact => None,
        }
    }
}
