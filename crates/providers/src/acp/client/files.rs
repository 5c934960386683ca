//! Requests of the agent for files, which the host reads and writes inside the workspace.
//!
//! ```text
//! fs/read_text_file ───────────────────────────────> the host ──> response
//! fs/write_text_file ──> approval ──decided: allow─┘
//!                                 └─decided: deny, the prompt is over: error
//! ```
//!
//! A write is an approval like any other, so the permission mode decides it. The agent that asks for a permission to edit a file first
//! is not asked about twice: the engine knows both.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{
    ApprovalCategory, ApprovalId, ApprovalOption, Decider, Decision, EnforcedBy, Excerpt, Json, Kind,
    OptionEffect, Risk,
};
use serde_json::{Value, json};

use super::super::approvals;
use super::{AcpClient, AcpStage};
use crate::dialect::{
    ActionDoer, ApprovalAnswer, DecisionRequest, HostAnswer, HostCall, HostProblem, HostProblemKind,
    HostRequest, HostToken, Output, Sent,
};
use crate::manifest::run::HostFiles;
use crate::rpc::UNKNOWN_METHOD;

/// How many requests for files may be open. More are refused at once, so that an agent cannot fill the memory.
const AT_MOST: usize = 64;

/// The protocol's code of a file that does not exist.
const NOT_FOUND: i64 = -32002;
/// JSON-RPC: the parameters cannot be used.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: it did not work.
const INTERNAL_ERROR: i64 = -32603;
/// The protocol's code of a request that was cancelled.
const CANCELLED: i64 = -32800;

/// The open requests for files.
#[derive(Debug, Default)]
pub(super) struct FileRequests {
    /// Writes that wait for a decision, with the agent's ids as it wrote them.
    asked: Vec<(ApprovalId, Value, HostCall)>,
    /// Requests that the host carries out.
    under_way: Vec<(HostToken, Value)>,
    /// The last token.
    last: u64,
}

impl FileRequests {
    /// Gives a request to the host.
    fn begin(&mut self, id: Value, call: HostCall, out: &mut Output<'_>) {
        self.last += 1;
        let token = HostToken(self.last);
        self.under_way.push((token, id));
        out.asks_host(HostRequest { token, call });
    }

    /// Handles that the agent took a request back. A write that is under way is not stopped.
    pub(super) fn withdrawn(&mut self, id: Option<&Value>, out: &mut Output<'_>) {
        for (approval, _, _) in self.asked.extract_if(.., |(_, open, _)| Some(&*open) == id) {
            approvals::decided(approval.as_str(), Decision::Deny, Decider::Withdrawn, None, out);
        }
    }
}

impl AcpClient {
    /// Handles a request for a file.
    pub(super) fn file_requested(&mut self, id: &Value, method: &str, params: &Value, out: &mut Output<'_>) {
        if let Some(line) = self.early_response(id, method, params, out) {
            self.say(&line, out);
        }
    }

    /// Begins a request for a file. Returns the response, if there is one already.
    fn early_response(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        out: &mut Output<'_>,
    ) -> Option<Vec<u8>> {
        // opencode 1.18.33 sends `fs/write_text_file` after an approved edit even if it was not offered.
        if self.talk.host_files == HostFiles::Withheld {
            return Some(self.peer.refuse(id, UNKNOWN_METHOD, "this client does not support it"));
        }
        let refuse = |code, why: &str| Some(self.peer.refuse(id, code, why));
        let string = |key: &str| params.get(key).and_then(Value::as_str);
        if self.session.is_empty() || string("sessionId") != Some(&self.session) {
            return refuse(INVALID_PARAMS, "`sessionId` is not the id of the open session");
        }
        let Some(path) = string("path").map(str::to_owned) else {
            return refuse(INVALID_PARAMS, "`path` has to be the absolute path of a file");
        };
        if self.files.asked.len() + self.files.under_way.len() >= AT_MOST {
            return refuse(INTERNAL_ERROR, "too many requests for files are open");
        }
        if method == "fs/read_text_file" {
            let number = |key: &str| params.get(key).and_then(Value::as_u64);
            let call = HostCall::ReadText { path, line: number("line"), limit: number("limit") };
            self.files.begin(id.clone(), call, out);
            return None;
        }
        let Some(content) = string("content").map(str::to_owned) else {
            return refuse(INVALID_PARAMS, "`content` has to be a text");
        };
        if matches!(self.stage, AcpStage::Cancelling) {
            return refuse(CANCELLED, "the prompt is being cancelled");
        }
        self.ask_for_write(id, path, content, out);
        None
    }

    /// Turns a write into an approval.
    fn ask_for_write(&mut self, id: &Value, path: String, content: String, out: &mut Output<'_>) {
        let approval = approvals::approval(&id.to_string());
        let option = |id: &str, label: &str, effect| ApprovalOption {
            id: id.to_owned(),
            label: label.to_owned(),
            effect,
        };
        out.emit(Kind::ApprovalAsked(ApprovalAsked {
            id: approval.clone(),
            category: ApprovalCategory::Edit,
            risk: Risk::Med,
            summary: Excerpt::with_limit(&format!("Write {path}"), 4096).text,
            tool: None,
            input: Json::of(&json!({ "path": path, "content": Excerpt::of(&content).text })).ok(),
            input_head: None,
            paths: vec![path.clone()],
            diff: None,
            options: vec![
                option("allow", "Allow", OptionEffect::AllowOnce),
                option("deny", "Deny", OptionEffect::RejectOnce),
            ],
            rule: None,
            // Not the agent: without the decision, the host does not write.
            enforced_by: EnforcedBy::Policy,
            deadline: None,
        }));
        let request = DecisionRequest {
            approval: approval.clone(),
            category: ApprovalCategory::Edit,
            risk: Risk::Med,
            paths: Some(vec![path.clone()]),
            offers: vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce],
            changeable: false,
            carries_message: true,
            doer: ActionDoer::Host,
        };
        self.files.asked.push((approval, id.clone(), HostCall::WriteText { path, content }));
        out.awaits_decision(request);
    }

    /// Carries out the decision on a write. `None` if the approval is not about one.
    pub(super) fn write_decided(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
        out: &mut Output<'_>,
    ) -> Option<Sent> {
        let place = self.files.asked.iter().position(|(asked, ..)| asked == approval)?;
        let (_, id, call) = self.files.asked.remove(place);
        let line = match answer {
            // The prompt may do nothing more.
            _ if matches!(self.stage, AcpStage::Cancelling) => {
                self.peer.refuse(&id, CANCELLED, "the prompt is being cancelled")
            }
            ApprovalAnswer::AllowOnce => {
                self.files.begin(id, call, out);
                return Some(Sent::Done);
            }
            ApprovalAnswer::Deny { message } => {
                let why = message.as_deref().unwrap_or("the write was denied");
                self.peer.refuse(&id, INTERNAL_ERROR, why)
            }
            // Neither is offered.
            ApprovalAnswer::AllowForSession | ApprovalAnswer::AllowChanged(_) => {
                self.peer.refuse(&id, INTERNAL_ERROR, "the write was denied")
            }
        };
        self.say(&line, out);
        Some(Sent::Done)
    }

    /// Sends the result of a request that the host has carried out.
    pub(super) fn file_done(
        &mut self,
        token: HostToken,
        result: &Result<HostAnswer, HostProblem>,
        out: &mut Output<'_>,
    ) -> Sent {
        let Some(place) = self.files.under_way.iter().position(|(open, _)| *open == token) else {
            return Sent::Cannot("the agent no longer waits for it");
        };
        let (_, id) = self.files.under_way.remove(place);
        let line = match result {
            Ok(HostAnswer::Text(text)) => self.peer.answer(&id, &json!({ "content": text })),
            Ok(HostAnswer::Written) => self.peer.answer(&id, &json!({})),
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

    /// Refuses the writes that wait for a decision: the prompt is over, or being cancelled.
    pub(super) fn cancel_writes(&mut self, out: &mut Output<'_>) {
        for (approval, id, _) in std::mem::take(&mut self.files.asked) {
            approvals::decided(approval.as_str(), Decision::Deny, Decider::Withdrawn, None, out);
            let line = self.peer.refuse(&id, CANCELLED, "the prompt is over");
            self.say(&line, out);
        }
    }
}
