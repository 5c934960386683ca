//! Orders without an answer, such as the denial by an approval that was dropped.

use bowline_protocol::SessionOrder;
use tokio::sync::mpsc;

use super::{ClientCall, OrderSender, encode};

impl OrderSender {
    /// Gives an order whose answer nothing waits for, also outside of an async function.
    pub(crate) fn send_unanswered(&self, order: SessionOrder) {
        let id = {
            let mut calls = self.calls();
            // No call is entered, so the answer to this number is skipped.
            calls.last_id += 1;
            calls.last_id
        };
        let line = encode(&ClientCall::Order { id, order }.into_line());
        match self.lines.try_send(line) {
            // Without the runner there is nothing to decide.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(line)) => {
                let lines = self.lines.clone();
                match tokio::runtime::Handle::try_current() {
                    Ok(runtime) => drop(runtime.spawn(async move { lines.send(line).await })),
                    Err(_) => {
                        tracing::warn!("an order is lost: too many others wait, and there is no runtime")
                    }
                }
            }
        }
    }
}
