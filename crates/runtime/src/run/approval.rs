//! An approval as a value: its decision consumes it, and dropping it denies.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{ApprovalVerdict, Event, Json, Kind, OrderRefused, SessionOrder};

use crate::sessions::control::Control;

/// A request of the agent that waits for a decision. Dropped without one, it denies.
///
/// ```
/// # async fn example(mut turn: bowline::Turn) -> Result<(), bowline::OrderRefused> {
/// while let Some(event) = turn.next().await {
///     if let Some(approval) = turn.approval(&event) {
///         println!("{}", approval.summary());
///         if approval.risk() == bowline::Risk::Low {
///             approval.allow().await?;
///         } else {
///             approval.deny("ask a colleague first").await?;
///         }
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "an approval that is dropped is denied"]
pub struct Approval {
    control: Control,
    asked: ApprovalAsked,
    decided: bool,
}

impl Approval {
    /// Returns the approval of an event, if the event asks for one.
    pub(crate) fn of(event: &Event, control: &Control) -> Option<Self> {
        let Kind::ApprovalAsked(asked) = &event.kind else { return None };
        Some(Self { control: control.clone(), asked: asked.clone(), decided: false })
    }

    /// Returns everything that the agent said about it.
    pub fn asked(&self) -> &ApprovalAsked {
        &self.asked
    }

    /// Returns the question, in a sentence.
    pub fn summary(&self) -> &str {
        &self.asked.summary
    }

    /// Returns how much may go wrong.
    pub fn risk(&self) -> bowline_protocol::Risk {
        self.asked.risk
    }

    /// Returns the command, if the tool runs one.
    pub fn command(&self) -> Option<String> {
        let input: serde_json::Value = self.asked.input.as_ref()?.read().ok()?;
        match input.get("command").or_else(|| input.get("cmd"))? {
            serde_json::Value::String(command) => Some(command.clone()),
            serde_json::Value::Array(words) => {
                let words: Option<Vec<&str>> = words.iter().map(serde_json::Value::as_str).collect();
                Some(words?.join(" "))
            }
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::Object(_) => None,
        }
    }

    /// Allows it, this time.
    ///
    /// # Errors
    ///
    /// The decision was made before, or the turn is over. The other calls have the same errors.
    pub async fn allow(self) -> Result<(), OrderRefused> {
        self.decide(ApprovalVerdict::Allow { input: None }).await
    }

    /// Allows it with another input of the tool.
    pub async fn allow_with(self, input: Json) -> Result<(), OrderRefused> {
        self.decide(ApprovalVerdict::Allow { input: Some(input) }).await
    }

    /// Allows it, and has the agent not ask for the same again in this session.
    pub async fn allow_for_session(self) -> Result<(), OrderRefused> {
        self.decide(ApprovalVerdict::AllowForSession).await
    }

    /// Denies it. The agent reads the reason, if its protocol carries one.
    pub async fn deny(self, reason: impl Into<String>) -> Result<(), OrderRefused> {
        let message = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.decide(ApprovalVerdict::Deny { message }).await
    }

    async fn decide(mut self, verdict: ApprovalVerdict) -> Result<(), OrderRefused> {
        let order = self.order(verdict);
        // From here on the answer decides; a future that is dropped while it waits has sent its decision.
        self.decided = true;
        self.control.order(order).await.map(drop)
    }

    fn order(&self, verdict: ApprovalVerdict) -> SessionOrder {
        SessionOrder::Decide { approval: Some(self.asked.id.clone()), verdict }
    }
}

impl Drop for Approval {
    fn drop(&mut self) {
        if !self.decided {
            let order = self.order(ApprovalVerdict::Deny { message: None });
            self.control.send_unanswered(order);
        }
    }
}
