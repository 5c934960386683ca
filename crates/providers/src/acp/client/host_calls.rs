//! Requests of the agent that the host carries out inside the workspace: files and terminals.
//!
//! ```text
//! fs/read_text_file, terminal/output, ... ─────────────────────────────> the host ──> response
//! fs/write_text_file, terminal/create ──> approval ──decided: allow────────┘
//!                                            └─decided: deny, the prompt is over: error
//! ```
//!
//! A write and a command are approvals like any other, so the permission mode decides them. The agent that asks for a permission to
//! edit a file first is not asked about twice: the engine knows both.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Exit, Json, Kind,
    OptionEffect, Risk,
};
use serde_json::{Value, json};

use super::super::approvals;
use super::{AcpClient, AcpStage};
use crate::dialect::{
    ActionDoer, ApprovalAnswer, DecisionRequest, HostAnswer, HostCall, HostProblem, HostProblemKind,
    HostRequest, HostToken, Output, RequestedAct, Sent,
};
use crate::failure::signal_name;

/// How many requests for the host may be open. More are refused at once, so that an agent cannot fill the memory.
const AT_MOST: usize = 64;

/// The protocol's code of a file that does not exist.
const NOT_FOUND: i64 = -32002;
/// JSON-RPC: it is no valid request.
const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC: the parameters cannot be used.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: it did not work.
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// The protocol's code of a request that was cancelled.
pub(super) const CANCELLED: i64 = -32800;

/// The open requests for the host.
#[derive(Debug, Default)]
pub(super) struct HostCalls {
    /// Those that wait for a decision, with the agent's ids as it wrote them.
    asked: Vec<(ApprovalId, Value, HostCall)>,
    /// Those that the host carries out.
    under_way: Vec<(HostToken, Value)>,
    /// The last token.
    last: u64,
}

/// What a person sees of a request that needs an approval.
pub(super) struct CallApproval {
    pub(super) category: ApprovalCategory,
    pub(super) risk: Risk,
    pub(super) summary: String,
    pub(super) input: Value,
    /// The files that it names. `None` if requests of its sort name none.
    pub(super) paths: Option<Vec<String>>,
    /// The act of the host.
    pub(super) act: RequestedAct,
}

impl HostCalls {
    pub(super) fn is_full(&self) -> bool {
        self.asked.len() + self.under_way.len() >= AT_MOST
    }

    /// Gives a request to the host.
    pub(super) fn begin(&mut self, id: Value, call: HostCall, out: &mut Output<'_>) {
        self.last += 1;
        let token = HostToken(self.last);
        self.under_way.push((token, id));
        out.asks_host(HostRequest { token, call });
    }

    /// Handles that the agent took a request back. One that is under way is not stopped.
    pub(super) fn withdrawn(&mut self, id: Option<&Value>, out: &mut Output<'_>) {
        for (approval, _, _) in self.asked.extract_if(.., |(_, open, _)| Some(&*open) == id) {
            approvals::decided(approval.as_str(), Decision::Deny, Decider::Withdrawn, None, out);
        }
    }
}

/// Returns whether a request of the agent is one for the host.
pub(super) fn is_one(method: &str) -> bool {
    matches!(method, "fs/read_text_file" | "fs/write_text_file") || method.starts_with("terminal/")
}

impl AcpClient {
    /// Handles a request for the host.
    pub(super) fn host_requested(&mut self, id: &Value, method: &str, params: &Value, out: &mut Output<'_>) {
        let early = if method.starts_with("fs/") {
            self.file_requested(id, method, params, out)
        } else {
            self.terminal_requested(id, method, params, out)
        };
        if let Some(line) = early {
            self.say(&line, out);
        }
    }

    /// Checks what all requests for the host need. Returns why one is refused.
    pub(super) fn refusal(&self, params: &Value) -> Option<(i64, &'static str)> {
        let session = params.get("sessionId").and_then(Value::as_str);
        if self.session.is_empty() || session != Some(&self.session) {
            return Some((INVALID_PARAMS, "`sessionId` is not the id of the open session"));
        }
        let full = (INTERNAL_ERROR, "too many requests for files and terminals are open");
        self.host.is_full().then_some(full)
    }

    /// Turns a request into an approval. Returns the response instead, if the prompt is being cancelled.
    pub(super) fn ask_for_call(
        &mut self,
        id: &Value,
        call: HostCall,
        asks: CallApproval,
        out: &mut Output<'_>,
    ) -> Option<Vec<u8>> {
        if matches!(self.stage, AcpStage::Cancelling) {
            return Some(self.peer.refuse(id, CANCELLED, "the prompt is being cancelled"));
        }
        if self.host.asked.iter().any(|(_, open, _)| open == id) {
            // Two decisions about one id could not be told apart.
            return Some(self.peer.refuse(id, INVALID_REQUEST, "the id is that of an open request"));
        }
        let CallApproval { category, risk, summary, input, paths, act } = asks;
        let approval = approvals::approval(&id.to_string());
        let option = |id: &str, label: &str, effect| ApprovalOption {
            id: id.to_owned(),
            label: label.to_owned(),
            effect,
        };
        out.emit(Kind::ApprovalAsked(ApprovalAsked {
            id: approval.clone(),
            category,
            risk,
            summary,
            tool: None,
            input: Json::of(&input).ok(),
            input_head: None,
            paths: paths.clone().unwrap_or_default(),
            diff: None,
            options: vec![
                option("allow", "Allow", OptionEffect::AllowOnce),
                option("deny", "Deny", OptionEffect::RejectOnce),
            ],
            rule: None,
            // Not the agent: without the decision, the host does nothing.
            ruling: None,
            enforced_by: EnforcedBy::Policy,
            deadline: None,
        }));
        let request = DecisionRequest {
            approval: approval.clone(),
            category,
            risk,
            paths,
            offers: vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce],
            changeable: false,
            carries_message: true,
            doer: ActionDoer::Host,
            acts: vec![act],
        };
        self.host.asked.push((approval, id.clone(), call));
        out.awaits_decision(request);
        None
    }

    /// Carries out the decision on a request for the host. `None` if the approval is not about one.
    pub(super) fn call_decided(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
        out: &mut Output<'_>,
    ) -> Option<Sent> {
        let place = self.host.asked.iter().position(|(asked, ..)| asked == approval)?;
        let (_, id, call) = self.host.asked.remove(place);
        let denied = match call {
            HostCall::CreateTerminal(_) => "the command was denied",
            HostCall::ReadText { .. }
            | HostCall::WriteText { .. }
            | HostCall::TerminalOutput(_)
            | HostCall::WaitForExit(_)
            | HostCall::KillTerminal(_)
            | HostCall::ReleaseTerminal(_) => "the write was denied",
        };
        let line = match answer {
            // The prompt may do nothing more.
            _ if matches!(self.stage, AcpStage::Cancelling) => {
                self.peer.refuse(&id, CANCELLED, "the prompt is being cancelled")
            }
            ApprovalAnswer::AllowOnce => {
                self.host.begin(id, call, out);
                return Some(Sent::Done);
            }
            ApprovalAnswer::Deny { message } => {
                self.peer.refuse(&id, INTERNAL_ERROR, message.as_deref().unwrap_or(denied))
            }
            // Neither is offered.
            ApprovalAnswer::AllowForSession | ApprovalAnswer::AllowChanged(_) => {
                self.peer.refuse(&id, INTERNAL_ERROR, denied)
            }
        };
        self.say(&line, out);
        Some(Sent::Done)
    }

    /// Sends the result of a request that the host has carried out.
    pub(super) fn call_done(
        &mut self,
        token: HostToken,
        result: &Result<HostAnswer, HostProblem>,
        out: &mut Output<'_>,
    ) -> Sent {
        let Some(place) = self.host.under_way.iter().position(|(open, _)| *open == token) else {
            return Sent::Cannot("the agent no longer waits for it");
        };
        let (_, id) = self.host.under_way.remove(place);
        let line = match result {
            Ok(answer) => self.peer.answer(&id, &response(answer)),
            Err(problem) => {
                let code = match problem.kind {
                    HostProblemKind::NotFound => NOT_FOUND,
                    HostProblemKind::Refused => INVALID_PARAMS,
                    HostProblemKind::Failed => INTERNAL_ERROR,
                };
                self.peer.refuse(&id, code, &problem.message)
            }
        };
        self.say(&line, out);
        Sent::Done
    }

    /// Refuses the requests that wait for a decision: the prompt is over, or being cancelled.
    pub(super) fn cancel_calls(&mut self, out: &mut Output<'_>) {
        for (approval, id, _) in std::mem::take(&mut self.host.asked) {
            approvals::decided(approval.as_str(), Decision::Deny, Decider::Withdrawn, None, out);
            let line = self.peer.refuse(&id, CANCELLED, "the prompt is over");
            self.say(&line, out);
        }
    }
}

/// Returns the response for a result of the host.
fn response(answer: &HostAnswer) -> Value {
    match answer {
        HostAnswer::Text(text) => json!({ "content": text }),
        HostAnswer::Written | HostAnswer::Ended => json!({}),
        HostAnswer::Terminal(name) => json!({ "terminalId": name.0 }),
        HostAnswer::Output { text, truncated, exit } => {
            let mut response = json!({ "output": text, "truncated": truncated });
            if let Some(exit) = exit {
                response["exitStatus"] = exit_status(*exit);
            }
            response
        }
        HostAnswer::Exited(exit) => exit_status(*exit),
    }
}

fn exit_status(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "exitCode": code, "signal": null }),
        Exit::Signal(number) => json!({ "exitCode": null, "signal": signal_name(number) }),
    }
}
