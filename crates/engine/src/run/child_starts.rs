//! Requests of the agent's processes to start another session. Bowline asks for these approvals itself: no dialect sends the decision, it
//! is the answer to the order.
//!
//! ```text
//! order ─┬─ refused at once: the mode, the request, too many
//!        └─ approval_asked ── decided by a person, or its deadline ─> approval_decided, Sync ──synced──> the order is answered
//!                          └─ a stop, or the end of the process ────> denied
//! ```
//!
//! No mode allows such a request, `yolo` neither: the new session outlives this one and its keeper. The caller starts it after the answer.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, ChildRequest, Decider, EnforcedBy, Json, Kind, Millis,
    OptionEffect, OrderRefused, PermissionMode, Receipt, Risk,
};
use bowline_providers::dialect::{ActionDoer, ApprovalAnswer, DecisionRequest};

use super::refusals::decider_name;
use super::request_ids::START_PREFIX;
use super::values::Approver;
use super::{Now, OrderId, Run, RunPhase, RunStep};

/// How many requests may wait. An agent that asks again and again must not bury those that matter.
const WAITING_AT_MOST: usize = 4;

/// An order that waits for the decision on its approval.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildStart {
    pub(super) order: OrderId,
    /// The permission mode that the session would have.
    pub(super) mode: PermissionMode,
}

impl Run {
    /// Asks a person whether another session may be started. The order is answered when that is decided.
    pub(crate) fn ask_to_start(
        &mut self,
        order: OrderId,
        child: &ChildRequest,
        now: Now,
        step: &mut RunStep,
    ) -> Result<(), OrderRefused> {
        if self.phase != RunPhase::Running || self.ladder.is_some() {
            return Err(OrderRefused::Stopping);
        }
        child.check().map_err(|reason| OrderRefused::Unsupported { reason })?;
        let until = self.may_ask_to_start(child.mode(), now)?;
        if self.approvals.waiting_starts() >= WAITING_AT_MOST {
            let reason = format!("{WAITING_AT_MOST} requests to start a session wait for a person already");
            return Err(OrderRefused::Unsupported { reason });
        }
        let approval = ApprovalId::from(format!("{START_PREFIX}{}", self.last_seq() + 1));
        let deadline = until.map(|until| now.wall.after(Millis(until.0.saturating_sub(now.up.0))));
        self.emit(Kind::ApprovalAsked(asked(&approval, child, deadline)), now, step);
        let request = DecisionRequest {
            approval: approval.clone(),
            category: ApprovalCategory::Other,
            risk: Risk::High,
            paths: None,
            // Neither "for the session" nor with another input: a person allows the session that the approval shows.
            offers: vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce],
            changeable: false,
            carries_message: true,
            doer: ActionDoer::Host,
            acts: Vec::new(),
        };
        self.approvals.asked(&approval, EnforcedBy::Policy);
        self.approvals.wait(request, until, Some(ChildStart { order, mode: child.mode() }));
        self.update_state(now, step);
        Ok(())
    }

    /// Returns until when a person may decide. `None` is for ever.
    fn may_ask_to_start(&self, wanted: PermissionMode, now: Now) -> Result<Option<Millis>, OrderRefused> {
        let forbidden = |reason: String| Err(OrderRefused::Forbidden { reason });
        let Approver::Person { deadline } = self.plan.approver else {
            return forbidden("no person decides the approvals of this session".to_owned());
        };
        match self.permission_mode() {
            None => forbidden("the permission mode of this agent is not known".to_owned()),
            Some(PermissionMode::Read) => {
                forbidden("the permission mode of this session is `read`, which starts nothing".to_owned())
            }
            Some(mode) if wanted > mode || wanted == PermissionMode::Yolo => {
                let (wanted, mode) = (wanted.as_str(), mode.as_str());
                forbidden(format!(
                    "the session would have the permission mode `{wanted}`, and this one has `{mode}`; at most `edit` is possible"
                ))
            }
            Some(_) => Ok(deadline.map(|deadline| now.up.plus(deadline))),
        }
    }

    /// Returns the permission mode of the process, if the run sends its decisions.
    fn permission_mode(&self) -> Option<PermissionMode> {
        Some(self.plan.attempts[self.attempt].conversation.as_ref()?.permission)
    }

    /// Returns the answer to an order whose approval is decided.
    pub(super) fn start_decided(
        &self,
        start: ChildStart,
        answer: &ApprovalAnswer,
        by: Decider,
    ) -> Result<Receipt, OrderRefused> {
        match answer {
            // The mode may have been narrowed while the request waited.
            ApprovalAnswer::AllowOnce if self.permission_mode().is_none_or(|mode| start.mode > mode) => {
                let reason = "the permission mode of this session is narrower by now".to_owned();
                Err(OrderRefused::Forbidden { reason })
            }
            ApprovalAnswer::AllowOnce => Ok(Receipt::Done),
            // Not offered.
            ApprovalAnswer::AllowForSession | ApprovalAnswer::AllowChanged(_) => {
                Err(OrderRefused::NotOffered)
            }
            ApprovalAnswer::Deny { message } => {
                Err(OrderRefused::Denied { by: decider_name(by).to_owned(), message: message.clone() })
            }
        }
    }
}

/// Returns the approval in words: everything that the agent chose, and the mode also if it did not.
fn asked(
    approval: &ApprovalId,
    child: &ChildRequest,
    deadline: Option<bowline_protocol::Timestamp>,
) -> ApprovalAsked {
    let shown = ChildRequest { permission: Some(child.mode()), ..child.clone() };
    // Behind the mode, so that a name cannot pretend to be one.
    let name = child.name.as_ref().map(|name| format!(", named `{name}`")).unwrap_or_default();
    let (provider, mode, prompt) = (&child.provider, child.mode().as_str(), &child.prompt);
    let option =
        |id: &str, label: &str, effect| ApprovalOption { id: id.to_owned(), label: label.to_owned(), effect };
    ApprovalAsked {
        id: approval.clone(),
        category: ApprovalCategory::Other,
        risk: Risk::High,
        summary: format!("start a session of {provider} with permission {mode}{name}: {prompt}"),
        tool: None,
        input: Json::of(&shown).ok(),
        input_head: None,
        paths: Vec::new(),
        diff: None,
        options: vec![
            option("allow", "Start it", OptionEffect::AllowOnce),
            option("deny", "Do not start it", OptionEffect::RejectOnce),
        ],
        rule: None,
        ruling: None,
        enforced_by: EnforcedBy::Policy,
        deadline,
    }
}
