//! The client's side: it introduces itself, opens the session, chooses, and translates prompts, decisions and interrupts.
//!
//! ```text
//!                                                                ┌────── answered ──────┐
//! introducing ──> opening ──> choosing (mode, model, effort) ──> ready ──prompt──> asking
//!      └────────────┴──────────────┴── refused, or it cannot be done ──> over
//! ```
//!
//! All sent lines go to the reader as well, which makes the events. This module only decides what to send.

pub(super) mod choices;

use std::collections::VecDeque;

use bowline_protocol::{ApprovalId, ApprovalOption, Attachment, McpServer, Resume};
use serde_json::{Value, json};

use self::choices::SettingChoice;
use super::approvals;
use super::dialect::{Acp, each_message};
use super::failures::AcpProblem;
use super::tools::targets::ToolTargets;
use super::wire::{AcpMessage, tree};
use crate::conversation::{Conversation, unsupported};
use crate::dialect::{ApprovalAnswer, Dialect, HostPrompt, Input, Output, Sent};
use crate::failure::Report;
use crate::invocation::image_type;
use crate::rpc::{Peer, RpcVersionField, UNKNOWN_METHOD};

/// The version of the protocol that is spoken.
const PROTOCOL: u64 = 1;

/// Talks to an agent about one session.
#[derive(Debug)]
pub(crate) struct AcpClient {
    reader: Acp,
    talk: Conversation,
    stage: AcpStage,
    /// Numbers what we ask, and writes the lines.
    peer: Peer,
    /// The number of the last request.
    last: u64,
    session: String,
    takes_images: bool,
    /// The known tools: a permission request need not repeat what the tool does.
    calls: ToolTargets,
    /// Permissions that wait for a decision.
    open: Vec<OpenPermission>,
}

/// A permission request that waits for a decision.
#[derive(Debug)]
struct OpenPermission {
    approval: ApprovalId,
    id: Value,
    options: Vec<ApprovalOption>,
}

/// How many permissions may wait for a decision. More are denied at once, so that an agent cannot fill the memory.
const OPEN_AT_MOST: usize = 1024;

/// How far we are. All but `Ready` and `Over` wait for the answer to [`AcpClient::last`].
#[derive(Debug)]
enum AcpStage {
    Introducing,
    Opening,
    Choosing(VecDeque<SettingChoice>),
    /// The session is open, and no prompt runs.
    Ready,
    Asking,
    Over,
}

impl AcpClient {
    pub(crate) fn new(talk: Conversation) -> Self {
        let session = String::new();
        Self {
            reader: Acp { ours: true, ..Acp::default() },
            talk,
            stage: AcpStage::Introducing,
            peer: Peer::new(RpcVersionField::Written),
            last: 0,
            session,
            takes_images: false,
            calls: ToolTargets::default(),
            open: Vec::new(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(crate) fn first_message() -> String {
        let (_, line) = Peer::new(RpcVersionField::Written).call("initialize", &introduction());
        String::from_utf8_lossy(&line).into_owned()
    }

    fn ask(&mut self, method: &str, params: &Value, out: &mut Output<'_>) {
        let (last, line) = self.peer.call(method, params);
        self.last = last;
        self.say(&line, out);
    }

    fn say(&mut self, line: &[u8], out: &mut Output<'_>) {
        out.say(line, &mut self.reader);
    }

    /// Handles a message of the agent.
    fn react(&mut self, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        match (message.method.get(), message.id) {
            (Some(method), Some(id)) => {
                // An id goes back as the agent wrote it: `3` and `"3"` are two.
                let id = tree(Some(id));
                self.requested(id, method, &tree(message.params), out);
            }
            (Some("$/cancel_request"), None) => {
                let id = tree(message.params).get("requestId").cloned();
                self.open.retain(|open| Some(&open.id) != id.as_ref());
            }
            (Some(_), None) => {
                if let Some(update) = message.params.filter(|params| params.get().contains("tool_call")) {
                    self.calls.hear(tree(Some(update)).get("update").unwrap_or(&Value::Null));
                }
            }
            // Only the last request moves the stages. Agents number their own requests from 0, so ids of the two sides overlap.
            (None, Some(id)) if id.get() == self.last.to_string() => {
                let outcome = match message.error {
                    Some(error) => Err(AcpProblem::read(&tree(Some(error)))),
                    None => Ok(tree(message.result)),
                };
                self.advance(outcome, out);
            }
            (None, Some(_) | None) => {}
        }
    }

    /// Continues after a response. The reader reports the agent's refusals, except for choices.
    fn advance(&mut self, outcome: Result<Value, AcpProblem>, out: &mut Output<'_>) {
        // `Over`, until an arm below sets the next stage.
        match (std::mem::replace(&mut self.stage, AcpStage::Over), outcome) {
            (AcpStage::Introducing, Ok(agent)) => self.open_session(&agent, out),
            (AcpStage::Opening, Ok(session)) => {
                let told =
                    session.get("sessionId").and_then(Value::as_str).unwrap_or(&self.session).to_owned();
                if let Some(report) = self.talk.not_meant(&told) {
                    return self.give_up(&report, out);
                }
                self.session = told;
                match choices::of(&self.talk, &session) {
                    Ok(choices) => {
                        for remark in choices.remarks {
                            out.at(None, |out| out.notice(bowline_protocol::kinds::Level::Warn, remark));
                        }
                        // Before the prompt: codex-acp 2.6.0 starts in mode `agent`, where a model grants the permissions.
                        self.choose(choices.wanted, out);
                    }
                    Err(report) => self.give_up(&report, out),
                }
            }
            (AcpStage::Choosing(rest), Ok(_)) => self.choose(rest, out),
            (AcpStage::Choosing(_), Err(problem)) => self.give_up(&problem.report(None), out),
            (AcpStage::Introducing | AcpStage::Opening, Err(_)) => out.hang_up(),
            (AcpStage::Asking | AcpStage::Ready, _) => self.stage = AcpStage::Ready,
            (AcpStage::Over, _) => {}
        }
    }

    /// Opens the session: a new one, or the one that is to go on.
    fn open_session(&mut self, agent: &Value, out: &mut Output<'_>) {
        // An agent that supports only another version returns that version, not an error.
        let version = agent.get("protocolVersion").and_then(Value::as_u64).unwrap_or(PROTOCOL);
        if version != PROTOCOL {
            let message =
                format!("the agent uses protocol version {version}; Bowline needs version {PROTOCOL}");
            return self.give_up(&unsupported(&message), out);
        }
        let able = |what: &str| {
            agent
                .pointer(&format!("/agentCapabilities/sessionCapabilities/{what}"))
                // A capability is an object, `{}` included. `null` means that it is missing.
                .is_some_and(|it| !it.is_null())
        };
        let loads = agent.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true);
        let images = agent.pointer("/agentCapabilities/promptCapabilities/image");
        self.takes_images = images.and_then(Value::as_bool) == Some(true);
        let (method, id) = match &self.talk.resume {
            None => ("session/new", None),
            // Without the old conversation, where that can be had.
            Some(Resume::Id { native_session }) if able("resume") => ("session/resume", Some(native_session)),
            Some(Resume::Id { native_session }) if loads => ("session/load", Some(native_session)),
            Some(Resume::Fork { native_session }) if able("fork") => ("session/fork", Some(native_session)),
            Some(Resume::Id { .. } | Resume::Fork { .. } | Resume::Latest) => {
                let report = unsupported("the agent does not support continuing a session this way");
                return self.give_up(&report, out);
            }
        };
        if !self.talk.add_dirs.is_empty() && !able("additionalDirectories") {
            return self.give_up(&unsupported("the agent does not support additional directories"), out);
        }
        let servers: Vec<Value> = self.talk.mcp_servers.iter().map(|(name, it)| server(name, it)).collect();
        let mut params = json!({ "cwd": self.talk.cwd, "mcpServers": servers });
        if !self.talk.add_dirs.is_empty() {
            params["additionalDirectories"] = json!(self.talk.add_dirs);
        }
        if let Some(id) = id {
            params["sessionId"] = json!(id.as_str());
            id.as_str().clone_into(&mut self.session);
        }
        self.stage = AcpStage::Opening;
        self.ask(method, &params, out);
    }

    /// Makes the next choice; when all are made, the client is ready.
    fn choose(&mut self, mut rest: VecDeque<SettingChoice>, out: &mut Output<'_>) {
        let Some(choice) = rest.pop_front() else {
            self.stage = AcpStage::Ready;
            return out.ready();
        };
        self.stage = AcpStage::Choosing(rest);
        let (method, params) = choice.request(&self.session);
        self.ask(method, &params, out);
    }

    /// Writes a file that goes with the prompt: an image where the agent takes one, else a link, which every agent has to
    /// understand.
    fn attached(&self, prompt: &HostPrompt, file: &Attachment) -> Value {
        if let (Some(bytes), Some(kind), true) =
            (prompt.images.get(&file.path), image_type(file), self.takes_images)
        {
            return json!({ "type": "image", "mimeType": kind, "data": base64(bytes) });
        }
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let uri = format!("file://{}", self.talk.absolute(&file.path));
        let mut link = json!({ "type": "resource_link", "uri": uri, "name": name });
        if let Some(kind) = &file.media_type {
            link["mimeType"] = json!(kind);
        }
        link
    }

    /// Handles a request of the agent: a permission waits for a decision, all else is answered at once.
    fn requested(&mut self, id: Value, method: &str, params: &Value, out: &mut Output<'_>) {
        let line = match method {
            "session/request_permission" => {
                let call = params.get("toolCall").unwrap_or(&Value::Null);
                self.calls.hear(call);
                let options = approvals::options(params.get("options").unwrap_or(&Value::Null));
                if self.open.len() < OPEN_AT_MOST {
                    let request = self.calls.of(call).request(&id, &options);
                    self.open.push(OpenPermission { approval: request.approval.clone(), id, options });
                    return out.awaits_decision(request);
                }
                self.peer.answer(&id, &choices::response(&options, &ApprovalAnswer::DENY))
            }
            // There is no person to answer it yet.
            "elicitation/create" => self.peer.answer(&id, &json!({ "action": "decline" })),
            _ => self.peer.refuse(&id, UNKNOWN_METHOD, "this client does not support it"),
        };
        self.say(&line, out);
    }

    /// Ends it for a reason of ours.
    fn give_up(&mut self, report: &Report, out: &mut Output<'_>) {
        self.stage = AcpStage::Over;
        out.at(None, |out| out.failed(report));
        out.hang_up();
    }
}

impl Dialect for AcpClient {
    fn open(&mut self, out: &mut Output<'_>) {
        self.ask("initialize", &introduction(), out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        // The reader first, so that a request is reported before our answer to it.
        self.reader.handle(input, out);
        if let Input::Line(line) = input {
            // The reader has reported lines that are no message.
            let _ = each_message(line, |message| self.react(message, out));
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        // A second prompt cancels the first one in Gemini 0.61.0, Qwen 0.24.4 and Copilot 1.0.102.
        if !matches!(self.stage, AcpStage::Ready) {
            return Sent::Cannot("no session is open, or a prompt runs");
        }
        let mut blocks = vec![json!({ "type": "text", "text": prompt.text })];
        blocks.extend(prompt.attachments.iter().map(|file| self.attached(prompt, file)));
        self.stage = AcpStage::Asking;
        out.prompts();
        self.ask("session/prompt", &json!({ "sessionId": self.session, "prompt": blocks }), out);
        Sent::Done
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        // Without a running prompt, claude-agent-acp 0.99.1 cancels the next one.
        if !matches!(self.stage, AcpStage::Asking) {
            return Sent::Cannot("no prompt runs");
        }
        let line = self.peer.notify_of("session/cancel", &json!({ "sessionId": self.session }));
        self.say(&line, out);
        Sent::Done
    }

    fn decide(&mut self, approval: &ApprovalId, answer: &ApprovalAnswer, out: &mut Output<'_>) -> Sent {
        let Some(place) = self.open.iter().position(|open| open.approval == *approval) else {
            return Sent::Cannot("the agent no longer waits for it");
        };
        let OpenPermission { id, options, .. } = self.open.remove(place);
        let line = self.peer.answer(&id, &choices::response(&options, answer));
        self.say(&line, out);
        Sent::Done
    }
}

/// Our name, and that we offer neither files nor terminals: the agent has its own.
pub(super) fn introduction() -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        // Offering `fs` breaks Gemini 0.61.0: it reads a new file through us first, and fails to write it after "not found".
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "bowline", "title": "Bowline", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn server(name: &str, server: &McpServer) -> Value {
    let pairs = |pairs: &std::collections::BTreeMap<String, String>| -> Vec<Value> {
        pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    };
    match server {
        McpServer::Stdio { command, args, env } => {
            json!({ "name": name, "command": command, "args": args, "env": pairs(env) })
        }
        McpServer::Http { url, headers } => {
            json!({ "type": "http", "name": name, "url": url, "headers": pairs(headers) })
        }
    }
}

/// Writes bytes as base64, as the protocol wants images.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
