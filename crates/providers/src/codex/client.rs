//! Our side of `codex app-server`: it introduces itself, opens the thread, and translates prompts, decisions and interrupts. The
//! server ends when its input does.
//!
//! ```text
//!                             ┌────────── turn completed ─────────┐
//! introducing ──> opening ──> ready ──prompt──> starting ──> turning
//!      └────────────┴── refused, or not what was wanted ──> over
//! ```
//!
//! All sent lines go to the reader as well, which makes the events. This module only decides what to send.

use bowline_protocol::{
    ApprovalCategory, ApprovalId, Category, Code, Json, PermissionMode, RequestField, Resume, Risk,
};
use serde_json::{Value, json};

use super::account::introduction;
use super::dialect::app_server::AppServer;
use crate::conversation::{Conversation, unsupported};
use crate::dialect::{ApprovalAnswer, DecisionRequest, Dialect, HostPrompt, Input, Output, Sent};
use crate::failure::Report;
use crate::rpc::{Incoming, Peer, RpcVersionField, UNKNOWN_METHOD};

/// Talks to the server about one thread.
#[derive(Debug)]
pub(super) struct AppServerClient {
    reader: AppServer,
    talk: Conversation,
    stage: CodexStage,
    peer: Peer,
    thread: String,
    /// Requests of the server that wait for a decision.
    open: Vec<OpenRequest>,
}

/// A request of the server that waits for a decision.
#[derive(Debug)]
struct OpenRequest {
    approval: ApprovalId,
    /// As the server wrote it: `0` and `"0"` are two requests.
    id: Value,
    method: String,
    params: Value,
}

/// How many requests may wait for a decision. More are denied at once, so that a server cannot fill the memory.
const OPEN_AT_MOST: usize = 1024;

/// How far we are.
#[derive(Debug)]
enum CodexStage {
    Introducing,
    Opening,
    /// The thread is open, and no turn runs.
    Ready,
    Starting,
    /// The turn with this id continues.
    Turning(String),
    Over,
}

/// The server's settings for a permission mode: when it asks, and what its sandbox allows.
struct Policy {
    asks: &'static str,
    sandbox: &'static str,
    /// The name of the sandbox in answers.
    told: &'static str,
}

impl Policy {
    fn of(permission: PermissionMode) -> Self {
        let (asks, sandbox, told) = match permission {
            PermissionMode::Read => ("never", "read-only", "readOnly"),
            // All but what is known to read only is asked for before it runs. With `on-request` a command that its sandbox
            // stops would leave no trace (0.166.0).
            PermissionMode::Ask => ("untrusted", "read-only", "readOnly"),
            PermissionMode::Edit => ("on-request", "workspace-write", "workspaceWrite"),
            PermissionMode::Yolo => ("never", "danger-full-access", "dangerFullAccess"),
        };
        Self { asks, sandbox, told }
    }
}

impl AppServerClient {
    pub(super) fn new(talk: Conversation) -> Self {
        Self {
            // We are here for a prompt: a server that never gets to it has not succeeded.
            reader: AppServer { prompted: true, ..AppServer::default() },
            talk,
            stage: CodexStage::Introducing,
            peer: Peer::new(RpcVersionField::LeftOut),
            thread: String::new(),
            open: Vec::new(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(super) fn first_message() -> String {
        let (_, line) = Peer::new(RpcVersionField::LeftOut).call("initialize", &introduction());
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Names an option that cannot be had with the others, and why.
    pub(super) fn refuses(talk: &Conversation) -> Option<(RequestField, &'static str)> {
        let resumes = matches!(talk.resume, Some(Resume::Id { .. }));
        (talk.ephemeral && resumes)
            .then_some((RequestField::Ephemeral, "a thread that goes on is written down as it was before"))
    }

    fn ask(&mut self, method: &str, params: &Value, out: &mut Output<'_>) {
        let (_, line) = self.peer.call(method, params);
        out.say(&line, &mut self.reader);
    }

    /// Continues after a response. The reader reports the server's refusals.
    fn answered(&mut self, method: &str, result: Option<&Value>, out: &mut Output<'_>) {
        let Some(result) = result else {
            match (method, &self.stage) {
                // A turn that cannot be interrupted continues.
                ("turn/interrupt", _) => {}
                // The turn has failed. The thread is still there.
                ("turn/start", CodexStage::Starting) => self.stage = CodexStage::Ready,
                _ => self.hang_up(out),
            }
            return;
        };
        match (&self.stage, method) {
            (CodexStage::Introducing, "initialize") => {
                let line = self.peer.notify("initialized");
                out.say(&line, &mut self.reader);
                self.open_thread(out);
            }
            (CodexStage::Opening, _) => self.opened(result, out),
            (CodexStage::Starting, "turn/start") => {
                let turn = result.pointer("/turn/id").and_then(Value::as_str).unwrap_or_default();
                self.stage = CodexStage::Turning(turn.to_owned());
            }
            (
                CodexStage::Introducing
                | CodexStage::Ready
                | CodexStage::Starting
                | CodexStage::Turning(_)
                | CodexStage::Over,
                _,
            ) => {}
        }
    }

    /// Opens the thread: a new one, or the one that is to go on.
    fn open_thread(&mut self, out: &mut Output<'_>) {
        let talk = &self.talk;
        let policy = Policy::of(talk.permission);
        let mut params = json!({
            "approvalPolicy": policy.asks,
            // The user's settings may leave the answers to a model.
            "approvalsReviewer": "user",
            "sandbox": policy.sandbox,
        });
        let mut put = |key: &str, value: Value| params[key] = value;
        if !talk.cwd.is_empty() {
            put("cwd", json!(talk.cwd));
        }
        if let Some(model) = &talk.model {
            put("model", json!(model));
        }
        if !talk.add_dirs.is_empty() {
            let roots: Vec<String> = talk.add_dirs.iter().map(|dir| talk.absolute(dir)).collect();
            put("config", json!({ "sandbox_workspace_write.writable_roots": roots }));
        }
        if talk.ephemeral {
            put("ephemeral", json!(true));
        }
        let method = match &talk.resume {
            // `resume = latest` is ignored, with a warning: which session is the latest is not told.
            None | Some(Resume::Latest) => "thread/start",
            Some(Resume::Id { native_session }) => {
                put("threadId", json!(native_session.as_str()));
                "thread/resume"
            }
            Some(Resume::Fork { native_session }) => {
                put("threadId", json!(native_session.as_str()));
                "thread/fork"
            }
        };
        if method != "thread/start" {
            // The old conversation is not wanted again.
            put("excludeTurns", json!(true));
        }
        self.stage = CodexStage::Opening;
        self.ask(method, &params, out);
    }

    /// Is ready in the thread that was opened, if it is the right one and allows what was asked for.
    fn opened(&mut self, opened: &Value, out: &mut Output<'_>) {
        let thread = opened.pointer("/thread/id").and_then(Value::as_str).unwrap_or_default();
        // Check before the prompt goes out: after `turn/start` the agent may already act in the wrong thread or sandbox.
        if let Some(report) = self.talk.not_meant(thread).or_else(|| self.differs(opened)) {
            return self.give_up(&report, out);
        }
        if let Some(Err(why)) = self.talk.schema.as_ref().map(Json::read::<Value>) {
            let report = unsupported(&format!("the output schema is not valid JSON: {why}"));
            return self.give_up(&report, out);
        }
        thread.clone_into(&mut self.thread);
        self.stage = CodexStage::Ready;
        out.ready();
    }

    /// Returns the parts of a prompt, as the server takes them.
    fn input(&self, prompt: &HostPrompt) -> Vec<Value> {
        let images = prompt.attachments.iter();
        let images =
            images.map(|file| json!({ "type": "localImage", "path": self.talk.absolute(&file.path) }));
        std::iter::once(json!({ "type": "text", "text": prompt.text })).chain(images).collect()
    }

    /// Returns why a thread may do other things than requested: settings of an administrator override ours.
    fn differs(&self, opened: &Value) -> Option<Report> {
        let policy = Policy::of(self.talk.permission);
        let wanted = [
            ("/approvalPolicy", policy.asks),
            ("/approvalsReviewer", "user"),
            ("/sandbox/type", policy.told),
        ];
        let is_other = |(place, wanted): &(&str, &str)| {
            opened.pointer(place).is_some_and(|told| told.as_str() != Some(wanted))
        };
        let (place, wanted) = wanted.into_iter().find(is_other)?;
        let message = format!(
            "the thread was opened with {} for `{}`, but `{wanted}` was requested",
            opened.pointer(place)?,
            place.trim_start_matches('/').replace('/', "."),
        );
        let (category, code) = (Some(Category::Configuration), Some(Code::Unsupported));
        Some(Report { category, code, ..Report::of(message) })
    }

    /// Handles a request of the server: an approval waits for a decision, all else is answered at once.
    fn requested(&mut self, id: Value, method: String, params: Value, out: &mut Output<'_>) {
        let request = decision_request(&id, &method, &params);
        if let Some(request) = request.filter(|_| self.open.len() < OPEN_AT_MOST) {
            self.open.push(OpenRequest { approval: request.approval.clone(), id, method, params });
            return out.awaits_decision(request);
        }
        let line = match response(&method, &params, &ApprovalAnswer::DENY) {
            Some(result) => self.peer.answer(&id, &result),
            None => self.peer.refuse(&id, UNKNOWN_METHOD, &format!("this client does not know `{method}`")),
        };
        out.say(&line, &mut self.reader);
    }

    /// Ends it for a reason of ours.
    fn give_up(&mut self, report: &Report, out: &mut Output<'_>) {
        out.at(None, |out| out.failed(report));
        self.hang_up(out);
    }

    fn hang_up(&mut self, out: &mut Output<'_>) {
        self.stage = CodexStage::Over;
        out.hang_up();
    }

    fn heard(&mut self, line: &str, out: &mut Output<'_>) {
        match self.peer.hear(line) {
            Incoming::Reply { method, result, .. } => self.answered(&method, result.as_ref().ok(), out),
            Incoming::Call { id, method, params } => self.requested(id, method, params, out),
            // The server took the request back, or has read our response.
            Incoming::Notification { method, params } if method == "serverRequest/resolved" => {
                self.open.retain(|open| params.get("requestId") != Some(&open.id));
            }
            Incoming::Notification { method, params } => {
                // Sub-agents have threads in the same process. The end of their turns is not ours.
                let own = params.get("threadId").and_then(Value::as_str) == Some(&self.thread);
                if method == "turn/completed" && own && !matches!(self.stage, CodexStage::Over) {
                    self.stage = CodexStage::Ready;
                }
            }
            // The reader has reported lines that are no message.
            Incoming::Strange => {}
        }
    }
}

impl Dialect for AppServerClient {
    fn open(&mut self, out: &mut Output<'_>) {
        self.ask("initialize", &introduction(), out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        // The reader first: its events about this line must precede those that our answer causes.
        self.reader.handle(input, out);
        // Most lines are pieces of text, which want no answer and are not read twice.
        if let Input::Line(line) = input
            && ["\"id\"", "\"turn/completed\"", "\"serverRequest/resolved\""]
                .iter()
                .any(|it| line.contains(it))
        {
            self.heard(line, out);
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        // While a turn runs, the server takes `turn/start` as a steer, in silence (0.166.0).
        if !matches!(self.stage, CodexStage::Ready) {
            return Sent::Cannot("no thread is open, or a turn runs");
        }
        let mut params = json!({ "threadId": self.thread, "input": self.input(prompt) });
        if let Some(effort) = &self.talk.effort {
            params["effort"] = json!(effort);
        }
        // `opened` has checked it.
        if let Some(Ok(schema)) = self.talk.schema.as_ref().map(Json::read::<Value>) {
            params["outputSchema"] = schema;
        }
        self.stage = CodexStage::Starting;
        out.prompts();
        self.ask("turn/start", &params, out);
        Sent::Done
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        // Before the response to `turn/start` there is no turn id, so there is no request to send.
        let CodexStage::Turning(turn) = &self.stage else { return Sent::Cannot("no turn runs") };
        let params = json!({ "threadId": self.thread, "turnId": turn });
        self.ask("turn/interrupt", &params, out);
        Sent::Done
    }

    fn decide(&mut self, approval: &ApprovalId, answer: &ApprovalAnswer, out: &mut Output<'_>) -> Sent {
        let Some(place) = self.open.iter().position(|open| open.approval == *approval) else {
            return Sent::Cannot("the server no longer waits for it");
        };
        let OpenRequest { id, method, params, .. } = self.open.remove(place);
        // `requested` keeps only methods that have a response.
        let Some(result) = response(&method, &params, answer) else {
            return Sent::Cannot("the server takes no decision on it");
        };
        let line = self.peer.answer(&id, &result);
        out.say(&line, &mut self.reader);
        Sent::Done
    }
}

/// Returns what the server asks to be decided; `None` if the request is no approval.
fn decision_request(id: &Value, method: &str, params: &Value) -> Option<DecisionRequest> {
    let (category, risk) = match method {
        // Access to the network comes as a request about the command that needs it.
        "item/commandExecution/requestApproval" if params.get("networkApprovalContext").is_some() => {
            (ApprovalCategory::Network, Risk::Med)
        }
        "item/commandExecution/requestApproval" | "execCommandApproval" => {
            (ApprovalCategory::Shell, Risk::Med)
        }
        "item/fileChange/requestApproval" | "applyPatchApproval" => (ApprovalCategory::Edit, Risk::Med),
        "item/permissions/requestApproval" => (ApprovalCategory::Other, Risk::High),
        "mcpServer/elicitation/request" if is_about_a_tool(params) => (ApprovalCategory::Other, Risk::Med),
        _ => return None,
    };
    // As the reader names it in `approval_asked`.
    let name = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    // The start of the item names the files of an edit, not the request. `accept` is always taken, listed or not (0.166.0).
    let (paths, offers) = (None, Vec::new());
    Some(DecisionRequest {
        approval: ApprovalId::from(name),
        category,
        risk,
        paths,
        offers,
        changeable: false,
    })
}

/// Returns whether an MCP elicitation asks if a tool may run. Others are questions of the MCP server itself.
fn is_about_a_tool(params: &Value) -> bool {
    params.pointer("/_meta/codex_approval_kind").is_some()
}

/// Returns the response to a request of the server; `None` if the method is unknown.
fn response(method: &str, params: &Value, answer: &ApprovalAnswer) -> Option<Value> {
    let word = |once: &'static str, session: &'static str, no: &'static str| match answer {
        ApprovalAnswer::AllowOnce => once,
        ApprovalAnswer::AllowForSession => session,
        // The request is not `changeable`, so that the engine never changes its input. A denial is the safe side.
        ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => no,
    };
    Some(match method {
        // `decline`, not `cancel`: with `cancel` the whole turn ends as interrupted. 0.166.0 accepts `decline` unlisted.
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            json!({ "decision": word("accept", "acceptForSession", "decline") })
        }
        // The same requests in the first version of the protocol.
        "execCommandApproval" | "applyPatchApproval" => {
            json!({ "decision": word("approved", "approved_for_session", "denied") })
        }
        "item/permissions/requestApproval" => {
            let asked = || params.get("permissions").cloned().unwrap_or_else(|| json!({}));
            match answer {
                ApprovalAnswer::AllowOnce => json!({ "permissions": asked() }),
                ApprovalAnswer::AllowForSession => json!({ "permissions": asked(), "scope": "session" }),
                ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => json!({ "permissions": {} }),
            }
        }
        "mcpServer/elicitation/request" => match answer {
            ApprovalAnswer::AllowOnce => json!({ "action": "accept", "content": {} }),
            ApprovalAnswer::AllowForSession => {
                json!({ "action": "accept", "content": {}, "_meta": { "persist": "session" } })
            }
            ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => json!({ "action": "decline" }),
        },
        // There is no person to answer it yet.
        "item/tool/requestUserInput" => json!({ "answers": {} }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
