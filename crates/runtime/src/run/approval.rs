//! An approval as a value: its decision consumes it, and dropping it denies.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{ApprovalVerdict, Event, Json, Kind, SessionOrder};

use crate::sessions::control::Control;
use crate::sessions::socket::client::{OrderError, OrderSender};

/// A request of the agent that waits for a decision. Dropped without one, it denies.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// # enum Choice { Yes, Edited(bowline::Json), No(&'static str) }
/// # use Choice::*;
/// # async fn show(summary: &str, command: Option<String>, risk: bowline::Risk) -> Choice {
/// #     match summary {
/// #         "make test" => Yes,
/// #         "edit" => Edited(serde_json::from_str("{}").unwrap()),
/// #         _ => No("not today"),
/// #     }
/// # }
/// # let world = bowline::testing::world();
/// # world.provider("claude", bowline::testing::script(r#"{"prompts": [[
/// #     {"ask": {"name": "Bash", "input": {"command": "make test"}, "output": "ok"}},
/// #     {"ask": {"name": "Bash", "input": {"command": "make release"},
/// #         "allowed": [{"say": "Released."}], "denied": [{"say": "Tested only."}]}},
/// #     {"result": {}}]]}"#));
/// let task = bowline::task("Release it").provider("claude").permission(bowline::PermissionMode::Ask);
/// # let task = world.prepare(task);
/// let mut turn = task.approval_deadline(Duration::from_secs(300)).start().await?;
/// while let Some(event) = turn.next().await {
///     if let Some(approval) = turn.approval(&event) {
///         match show(approval.summary(), approval.command(), approval.risk()).await {
///             Yes => approval.allow().await?,
///             Edited(input) => approval.allow_with(input).await?,
///             No(why) => approval.deny(why).await?,
///         }
///     }
/// }
/// # let record = turn.outcome().await?;
/// # assert_eq!(record.text.as_deref(), Some("Tested only."));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "an approval that is dropped is denied"]
pub struct Approval {
    decider: DecisionSender,
    asked: ApprovalAsked,
    decided: bool,
}

/// The way of a decision to the run.
#[derive(Debug)]
enum DecisionSender {
    /// The run is one of this process.
    Control(Control),
    /// Over the socket of its runner.
    Socket(OrderSender),
}

impl Approval {
    /// Returns the approval of an event, if the event asks for one.
    pub(crate) fn of(event: &Event, control: &Control) -> Option<Self> {
        Self::by(event, || DecisionSender::Control(control.clone()))
    }

    /// The same for a session of another process.
    pub(crate) fn over_socket(event: &Event, orders: &OrderSender) -> Option<Self> {
        Self::by(event, || DecisionSender::Socket(orders.clone()))
    }

    fn by(event: &Event, decider: impl FnOnce() -> DecisionSender) -> Option<Self> {
        let Kind::ApprovalAsked(asked) = &event.kind else { return None };
        Some(Self { decider: decider(), asked: asked.clone(), decided: false })
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
    /// The decision was made before, or the turn is over. Over a socket, the connection may be lost. The other calls have the same
    /// errors.
    pub async fn allow(self) -> Result<(), OrderError> {
        self.decide(ApprovalVerdict::Allow { input: None }).await
    }

    /// Allows it with another input of the tool.
    pub async fn allow_with(self, input: Json) -> Result<(), OrderError> {
        self.decide(ApprovalVerdict::Allow { input: Some(input) }).await
    }

    /// Allows it, and has the agent not ask for the same again in this session.
    pub async fn allow_for_session(self) -> Result<(), OrderError> {
        self.decide(ApprovalVerdict::AllowForSession).await
    }

    /// Denies it. The agent reads the reason, if its protocol carries one.
    pub async fn deny(self, reason: impl Into<String>) -> Result<(), OrderError> {
        let message = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.decide(ApprovalVerdict::Deny { message }).await
    }

    async fn decide(mut self, verdict: ApprovalVerdict) -> Result<(), OrderError> {
        let order = self.order(verdict);
        // From here on the answer decides; a future that is dropped while it waits has sent its decision.
        self.decided = true;
        match &self.decider {
            DecisionSender::Control(control) => {
                control.order(order).await.map(drop).map_err(OrderError::from)
            }
            DecisionSender::Socket(orders) => orders.order(order).await.map(drop),
        }
    }

    fn order(&self, verdict: ApprovalVerdict) -> SessionOrder {
        SessionOrder::Decide { approval: Some(self.asked.id.clone()), verdict }
    }
}

impl Drop for Approval {
    fn drop(&mut self) {
        if !self.decided {
            let order = self.order(ApprovalVerdict::Deny { message: None });
            match &self.decider {
                DecisionSender::Control(control) => control.send_unanswered(order),
                DecisionSender::Socket(orders) => orders.send_unanswered(order),
            }
        }
    }
}
