//! Requests of the agent for files, which the host reads and writes inside the workspace.

use bowline_protocol::{ApprovalCategory, Excerpt, Risk};
use serde_json::{Value, json};

use super::AcpClient;
use super::host_calls::{CallApproval, INVALID_PARAMS};
use crate::conversation::ToolGating;
use crate::dialect::{HostCall, Output, RequestedAct};
use crate::manifest::run::HostOffer;
use crate::rpc::UNKNOWN_METHOD;

impl AcpClient {
    /// Begins a request for a file. Returns the response, if there is one already.
    pub(super) fn file_requested(
        &mut self,
        id: &Value,
        method: &str,
        params: &Value,
        out: &mut Output<'_>,
    ) -> Option<Vec<u8>> {
        // opencode 1.18.33 sends `fs/write_text_file` after an approved edit even if it was not offered.
        if self.talk.host_files == HostOffer::Withheld {
            return Some(self.peer.refuse(id, UNKNOWN_METHOD, "this client does not support it"));
        }
        if let Some((code, why)) = self.refusal(params) {
            return Some(self.peer.refuse(id, code, why));
        }
        let string = |key: &str| params.get(key).and_then(Value::as_str);
        let Some(path) = string("path").map(str::to_owned) else {
            let why = "`path` has to be the absolute path of a file";
            return Some(self.peer.refuse(id, INVALID_PARAMS, why));
        };
        if method == "fs/read_text_file" {
            let number = |key: &str| params.get(key).and_then(Value::as_u64);
            let call =
                HostCall::ReadText { path: path.clone(), line: number("line"), limit: number("limit") };
            if self.talk.gated == ToolGating::Off {
                self.host.begin(id.clone(), call, out);
                return None;
            }
            // A policy may forbid reading a file of the workspace, such as one with secrets.
            let asks = CallApproval {
                category: ApprovalCategory::Read,
                risk: Risk::Low,
                summary: Excerpt::with_limit(&format!("Read {path}"), 4096).text,
                input: json!({ "path": path }),
                paths: Some(vec![path.clone()]),
                act: RequestedAct::Read(path),
            };
            return self.ask_for_call(id, call, asks, out);
        }
        let Some(content) = string("content").map(str::to_owned) else {
            return Some(self.peer.refuse(id, INVALID_PARAMS, "`content` has to be a text"));
        };
        let asks = CallApproval {
            category: ApprovalCategory::Edit,
            risk: Risk::Med,
            summary: Excerpt::with_limit(&format!("Write {path}"), 4096).text,
            input: json!({ "path": path, "content": Excerpt::of(&content).text }),
            paths: Some(vec![path.clone()]),
            act: RequestedAct::Write(path.clone()),
        };
        self.ask_for_call(id, HostCall::WriteText { path, content }, asks, out)
    }
}
