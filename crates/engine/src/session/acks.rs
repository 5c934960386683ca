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

/// An order that was sent to the agent.
#[derive(Debug)]
pub(super) enum AckedOrder {
    /// A steer, with the turn that ran and its sender.
    Steer { prompt: HostPrompt, turn: u32, from: Option<String> },
    /// A request to give a prompt back.
    TakeBack(PromptId),
    /// An option.
    Option { option: String, value: String, permission: Option<PermissionMode> },
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
    pub(super) fn take_steer(&mut self, prompt: &PromptId) -> Option<(OrderId, HostPrompt)> {
        let is = |it: &PendingAck| matches!(&it.what, AckedOrder::Steer { prompt: sent, .. } if sent.id == *prompt);
        let place = self.waiting.iter().position(is)?;
        match self.waiting.remove(place) {
            PendingAck { order, what: AckedOrder::Steer { prompt, .. }, .. } => Some((order, prompt)),
            PendingAck {
                what: AckedOrder::TakeBack(_) | AckedOrder::Option { .. } | AckedOrder::Compact,
                ..
            } => None,
        }
    }

    /// Takes the prompt of a steer whose acknowledgement comes too late.
    pub(super) fn take_late(&mut self, token: AckToken) -> Option<PromptId> {
        let place = self.late.iter().position(|(late, _)| *late == token)?;
        Some(self.late.remove(place).1)
    }

    /// Takes the orders whose time is over, with the prompts of steers.
    pub(super) fn expired(&mut self, now: Millis) -> Vec<(OrderId, Option<HostPrompt>)> {
        let mut expired = Vec::new();
        while let Some(place) = self.waiting.iter().position(|it| now >= it.until) {
            let PendingAck { token, order, what, .. } = self.waiting.remove(place);
            let prompt = match what {
                AckedOrder::Steer { prompt, .. } => {
                    if self.late.len() < LATE_AT_MOST {
                        self.late.push((token, prompt.id.clone()));
                    }
                    Some(prompt)
                }
                AckedOrder::TakeBack(_) | AckedOrder::Option { .. } | AckedOrder::Compact => None,
            };
            expired.push((order, prompt));
        }
        expired
    }

    /// Takes all orders, because the process is gone. The prompts of steers are returned for the queue.
    pub(super) fn process_gone(&mut self) -> Vec<(OrderId, Option<HostPrompt>)> {
        self.late.clear();
        let take = |it: PendingAck| match it.what {
            AckedOrder::Steer { prompt, .. } => (it.order, Some(prompt)),
            AckedOrder::TakeBack(_) | AckedOrder::Option { .. } | AckedOrder::Compact => (it.order, None),
        };
        self.waiting.drain(..).map(take).collect()
    }

    /// Answers all orders, because the session is over.
    pub(super) fn abandon(&mut self) -> Vec<(OrderId, Result<Receipt, OrderRefused>)> {
        self.waiting.drain(..).map(|it| (it.order, Err(OrderRefused::Stopping))).collect()
    }
}
