//! Gates: `PreToolUse`, a callback that the program makes before each tool, also of its sub-agents, and before its own rules count.
//!
//! Measured with 2.1.325 (`fixtures/claude/2.1.325/bidi-gate-*`): a denial holds under `bypassPermissions` and under a rule that allows the
//! tool. `ask` has the program ask with `can_use_tool` in every mode, also `dontAsk`. An *error* as the answer counts as no objection, so
//! nothing here ever answers with one. Of two tools in one answer, the second is announced when the first is answered. An interrupt
//! withdraws the callback. If standard input closes, the program denies.

use bowline_protocol::{ApprovalId, Json};
use serde_json::{Value, json};

use super::super::wire::ClaudeObject;
use super::{ClaudeClient, ClaudeStage, INTRODUCTION, NOT_OPEN, OPEN_AT_MOST, answers};

use crate::conversation::{Conversation, ToolGating};
use crate::dialect::{ApprovalAnswer, GateAnswer, Output, Sent};

/// The tools that wait: the ids of the request and of the call.
#[derive(Debug, Default)]
pub(super) struct OpenGates(Vec<(String, String)>);

impl OpenGates {
    /// Handles that the program took a request back.
    pub(super) fn withdrawn(&mut self, request: &str) {
        self.0.retain(|(open, _)| open != request);
    }

    fn take(&mut self, gate: &ApprovalId) -> Option<(String, String)> {
        let place = self.0.iter().position(|(id, _)| id == gate.as_str())?;
        Some(self.0.remove(place))
    }
}

impl ClaudeClient {
    /// Handles that a tool waits at its gate.
    pub(super) fn at_gate(&mut self, id: String, input: &ClaudeObject<'_>, out: &mut Output<'_>) {
        if self.gates.0.len() >= OPEN_AT_MOST {
            return self.answer(&id, &gate_answer("deny", "too many tools wait for a policy"), out);
        }
        out.at_gate(self.reader.speaker().requests.gate(&id, input));
        self.gates.0.push((id, input.text_or_empty("tool_use_id").into_owned()));
    }

    /// Sends the decision on a gate. `None` if the approval is not about one.
    pub(super) fn decide_gate(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
        out: &mut Output<'_>,
    ) -> Option<Sent> {
        if self.stage != ClaudeStage::Ready {
            return None;
        }
        let (id, tool) = self.gates.take(approval)?;
        let line = match answer {
            ApprovalAnswer::Deny { message } => {
                self.reader.speaker_mut().requests.denied_at_gate(&tool);
                gate_answer("deny", message.as_deref().unwrap_or("denied by a policy"))
            }
            // Only a denial is decided at a gate. The program's own rules follow.
            ApprovalAnswer::AllowOnce | ApprovalAnswer::AllowForSession | ApprovalAnswer::AllowChanged(_) => {
                no_objection()
            }
        };
        self.answer(&id, &line, out);
        Some(Sent::Done)
    }

    /// Lets a tool pass, or has the program ask for it.
    pub(super) fn open_gate(&mut self, gate: &ApprovalId, answer: &GateAnswer, out: &mut Output<'_>) -> Sent {
        if self.stage != ClaudeStage::Ready {
            return Sent::Cannot(NOT_OPEN);
        }
        let Some((id, _)) = self.gates.take(gate) else { return Sent::Cannot(NOT_OPEN) };
        let line = match answer {
            GateAnswer::Pass => no_objection(),
            GateAnswer::Ask { reason } => gate_answer("ask", reason),
        };
        self.answer(&id, &line, out);
        Sent::Done
    }
}

/// The name of our callback, which the program calls before each tool, also of its sub-agents.
pub(super) const GATE: &str = "policy";

/// Returns the request that introduces us. With a policy, the program announces every tool before its own rules count.
pub(super) fn introduction(talk: &Conversation) -> Value {
    match talk.gated {
        ToolGating::Off => json!({ "subtype": INTRODUCTION }),
        ToolGating::On => json!({
            "subtype": INTRODUCTION,
            "hooks": { "PreToolUse": [{ "matcher": null, "hookCallbackIds": [GATE] }] },
        }),
    }
}

/// Returns the answer that denies a tool, or has the program ask for it.
fn gate_answer(decision: &str, reason: &str) -> Json {
    let output = json!({
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    });
    answers::body(&json!({ "hookSpecificOutput": output }))
}

fn no_objection() -> Json {
    answers::body(&json!({}))
}
