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
mod files;
mod host_calls;
mod parameters;
mod requests;
mod settings;
mod steering;
mod terminals;

use std::collections::VecDeque;

use bowline_protocol::{ApprovalId, PermissionMode, PromptId, QuestionId, Resume};
use serde_json::{Value, json};

use self::choices::SettingChoice;
use self::host_calls::HostCalls;
pub(super) use self::parameters::introduction;
use self::parameters::{ImageForm, PROTOCOL, server};
use self::requests::{OpenRequests, cancelled};
use self::steering::{HeldMessages, SteeringMethod};
use super::approvals;
use super::dialect::{Acp, each_message};
use super::failures::AcpProblem;
use super::tools::targets::ToolTargets;
use super::wire::{AcpMessage, tree};
use crate::conversation::{Conversation, unsupported};
use crate::dialect::{
    AckToken, ApprovalAnswer, Dialect, HostAnswer, HostProblem, HostPrompt, HostToken, Input,
    OptionPermission, Output, QuestionReply, Sent,
};
use crate::failure::Report;
use crate::rpc::{Peer, RpcVersionField, UNKNOWN_METHOD};

/// Talks to an agent about one session.
#[derive(Debug)]
pub(crate) struct AcpClient {
    reader: Acp,
    talk: Conversation,
    stage: AcpStage,
    /// Numbers what we ask, and writes the lines.
    peer: Peer,
    /// The number of the request that the stage waits for.
    last: u64,
    /// Orders that the agent acknowledges by a response, by the numbers of their requests.
    unanswered: Vec<(u64, AckToken)>,
    /// The last token.
    tokens: u64,
    session: String,
    /// The mode in which the session began, if Bowline does not know it.
    own_mode: Option<String>,
    steering: SteeringMethod,
    held: HeldMessages,
    images: ImageForm,
    /// The known tools: a permission request need not repeat what the tool does.
    calls: ToolTargets,
    /// Requests of the agent that wait for the caller.
    open: OpenRequests,
    host: HostCalls,
}

/// How far we are. All but `Ready` and `Over` wait for the answer to [`AcpClient::last`].
#[derive(Debug)]
enum AcpStage {
    Introducing,
    Opening,
    Choosing(VecDeque<SettingChoice>),
    /// The session is open, and no prompt runs.
    Ready,
    Asking,
    /// A prompt runs, and the agent was asked to stop it.
    Cancelling,
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
            unanswered: Vec::new(),
            tokens: 0,
            session,
            own_mode: None,
            steering: SteeringMethod::None,
            held: HeldMessages::default(),
            images: ImageForm::Links,
            calls: ToolTargets::default(),
            open: OpenRequests::default(),
            host: HostCalls::default(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(crate) fn first_message(talk: &Conversation) -> String {
        let (_, line) = Peer::new(RpcVersionField::Written).call("initialize", &introduction(talk));
        String::from_utf8_lossy(&line).into_owned()
    }

    fn ask(&mut self, method: &str, params: &Value, out: &mut Output<'_>) {
        let (last, line) = self.peer.call(method, params);
        self.last = last;
        self.say(&line, out);
    }

    /// Sends an order that the agent acknowledges by its response.
    fn order(&mut self, method: &str, params: &Value, out: &mut Output<'_>) -> Sent {
        let (number, line) = self.peer.call(method, params);
        let token = self.token();
        self.unanswered.push((number, token));
        self.say(&line, out);
        Sent::Awaiting(token)
    }

    fn token(&mut self) -> AckToken {
        self.tokens += 1;
        AckToken(self.tokens)
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
                self.open.withdrawn(id.as_ref());
                self.host.withdrawn(id.as_ref(), out);
            }
            (Some(_), None) => {
                if let Some(update) = message.params.filter(|params| params.get().contains("tool_call")) {
                    self.calls.hear(tree(Some(update)).get("update").unwrap_or(&Value::Null));
                }
            }
            (None, Some(id)) if self.is_unanswered(id.get()) => self.acknowledged(id.get(), message, out),
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

    fn is_unanswered(&self, id: &str) -> bool {
        self.unanswered.iter().any(|(number, _)| number.to_string() == id)
    }

    /// Passes on the acknowledgement of an order.
    fn acknowledged(&mut self, id: &str, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        let Some(place) = self.unanswered.iter().position(|(number, _)| number.to_string() == id) else {
            return;
        };
        let (_, token) = self.unanswered.remove(place);
        let result = match message.error {
            Some(error) => Err(AcpProblem::read(&tree(Some(error))).text().to_owned()),
            // The answer to a message that came too late.
            None if tree(message.result).get("outcome") == Some(&json!("promptRequired")) => {
                Err("no prompt is running".to_owned())
            }
            None => Ok(()),
        };
        out.acknowledged(token, result);
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
                        self.own_mode = choices.own_mode;
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
            (AcpStage::Asking | AcpStage::Cancelling | AcpStage::Ready, _) => {
                self.stage = AcpStage::Ready;
                self.held.lose(out);
                // The reader has reported their end.
                self.cancel_requests(out);
            }
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
        let able = |what: &str| parameters::is_able(agent, what);
        let loads = agent.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true);
        let images = agent.pointer("/agentCapabilities/promptCapabilities/image");
        if images.and_then(Value::as_bool) == Some(true) {
            self.images = ImageForm::Contents;
        }
        self.steering = SteeringMethod::of(agent);
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
        if let Some(lack) = parameters::lack(agent, &self.talk) {
            return self.give_up(&unsupported(lack), out);
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

    /// Handles a request of the agent: a permission waits for a decision, all else is answered at once.
    fn requested(&mut self, id: Value, method: &str, params: &Value, out: &mut Output<'_>) {
        let line = match method {
            "session/request_permission" => {
                let call = params.get("toolCall").unwrap_or(&Value::Null);
                self.calls.hear(call);
                let options = approvals::options(params.get("options").unwrap_or(&Value::Null));
                if !self.open.is_full() {
                    let request = self.calls.of(call).request(&id, &options);
                    self.open.add_permission(request.approval.clone(), id, options);
                    return out.awaits_decision(request);
                }
                self.peer.answer(&id, &choices::response(&options, &ApprovalAnswer::DENY))
            }
            "elicitation/create"
                if self.talk.answers_questions && requests::is_form(params) && !self.open.is_full() =>
            {
                let question = approvals::question(&id.to_string());
                let schema = params.get("requestedSchema").cloned().unwrap_or_default();
                self.open.add_form(question.clone(), id, schema);
                return out.awaits_reply(question);
            }
            "elicitation/create" => self.peer.answer(&id, &json!({ "action": "decline" })),
            "craft/drainMidTurnQueue" => {
                // A prompt that is being cancelled would not read them.
                let takes = matches!(self.stage, AcpStage::Asking);
                let mut nothing = HeldMessages::default();
                let messages = if takes { self.held.fetch(out) } else { nothing.fetch(out) };
                self.peer.answer(&id, &messages)
            }
            _ if host_calls::is_one(method) => return self.host_requested(&id, method, params, out),
            _ => self.peer.refuse(&id, UNKNOWN_METHOD, "this client does not support it"),
        };
        self.say(&line, out);
    }

    /// Answers the open requests of the agent as cancelled. Gemini 0.61.0 ends a cancelled prompt only then.
    fn cancel_requests(&mut self, out: &mut Output<'_>) {
        for (id, response) in self.open.cancel() {
            let line = self.peer.answer(&id, &response);
            self.say(&line, out);
        }
        self.cancel_calls(out);
    }

    /// Sends a prompt, which begins a turn.
    fn begin(&mut self, blocks: &[Value], out: &mut Output<'_>) -> Sent {
        self.stage = AcpStage::Asking;
        out.prompts();
        self.ask("session/prompt", &json!({ "sessionId": self.session, "prompt": blocks }), out);
        Sent::Done
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
        self.ask("initialize", &introduction(&self.talk), out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        // The reader first, so that a request is reported before our answer to it.
        self.reader.handle(input, out);
        match input {
            Input::Line(line) => {
                // The reader has reported lines that are no message.
                let _ = each_message(line, |message| self.react(message, out));
            }
            Input::Eof(_) => self.held.lose(out),
            Input::Stderr(_) | Input::Sent(_) => {}
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        // A second prompt cancels the first one in Gemini 0.61.0, Qwen 0.24.4 and Copilot 1.0.102.
        if !matches!(self.stage, AcpStage::Ready) {
            return Sent::Cannot("no session is open, or a prompt runs");
        }
        let blocks = parameters::blocks(&self.talk, prompt, self.images);
        self.begin(&blocks, out)
    }

    fn steer(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        match (&self.stage, self.steering) {
            (_, SteeringMethod::None) => Sent::Cannot("this agent takes no messages while a prompt runs"),
            (AcpStage::Asking, SteeringMethod::Request) => {
                let params = json!({
                    "sessionId": self.session,
                    "prompt": parameters::blocks(&self.talk, prompt, self.images),
                    // Without it, a message that comes too late begins a turn whose end the agent does not report.
                    "_meta": { "steering": { "idleBehavior": "promptRequired" } },
                });
                out.prompts();
                self.reader.steering = Some(prompt.clone());
                self.order("_session/steering", &params, out)
            }
            (AcpStage::Asking, SteeringMethod::Fetched) if !prompt.attachments.is_empty() => {
                Sent::Cannot("files cannot go with a message into the running turn")
            }
            (AcpStage::Asking, SteeringMethod::Fetched) if self.held.is_full() => {
                Sent::Cannot("too many messages wait for the agent")
            }
            (AcpStage::Asking, SteeringMethod::Fetched) => {
                let token = self.token();
                self.held.hold(token, prompt);
                Sent::Awaiting(token)
            }
            (AcpStage::Cancelling, _) => Sent::Cannot("the turn is being interrupted"),
            (
                AcpStage::Introducing
                | AcpStage::Opening
                | AcpStage::Choosing(_)
                | AcpStage::Ready
                | AcpStage::Over,
                _,
            ) => Sent::Cannot("no prompt runs"),
        }
    }

    fn take_back(&mut self, prompt: &PromptId, _out: &mut Output<'_>) -> Sent {
        if self.held.take_back(prompt) {
            Sent::Done
        } else {
            Sent::Cannot("the agent does not give a message back that it has accepted")
        }
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        match self.stage {
            AcpStage::Asking => {}
            AcpStage::Cancelling => return Sent::Cannot("the turn is being interrupted"),
            // Without a running prompt, claude-agent-acp 0.99.1 cancels the next one.
            AcpStage::Introducing
            | AcpStage::Opening
            | AcpStage::Choosing(_)
            | AcpStage::Ready
            | AcpStage::Over => return Sent::Cannot("no prompt runs"),
        }
        self.stage = AcpStage::Cancelling;
        let line = self.peer.notify_of("session/cancel", &json!({ "sessionId": self.session }));
        self.say(&line, out);
        self.cancel_requests(out);
        Sent::Done
    }

    fn decide(&mut self, approval: &ApprovalId, answer: &ApprovalAnswer, out: &mut Output<'_>) -> Sent {
        if let Some(sent) = self.call_decided(approval, answer, out) {
            return sent;
        }
        let Some((id, mut response)) = self.open.decide(approval, answer) else {
            return Sent::Cannot("the agent no longer waits for it");
        };
        // It was asked after the interrupt, and the prompt may do nothing more.
        if matches!(self.stage, AcpStage::Cancelling) {
            response = cancelled();
        }
        let line = self.peer.answer(&id, &response);
        self.say(&line, out);
        Sent::Done
    }

    fn reply(&mut self, question: &QuestionId, reply: &QuestionReply, out: &mut Output<'_>) -> Sent {
        let (id, response) = match self.open.reply(question, reply) {
            Ok(reply) => reply,
            Err(why) => return Sent::Cannot(why),
        };
        let line = self.peer.answer(&id, &response);
        self.say(&line, out);
        Sent::Done
    }

    fn host_done(
        &mut self,
        token: HostToken,
        result: &Result<HostAnswer, HostProblem>,
        out: &mut Output<'_>,
    ) -> Sent {
        self.call_done(token, result, out)
    }

    fn set_option(&mut self, option: &str, value: &str, out: &mut Output<'_>) -> Sent {
        if self.session.is_empty() || matches!(self.stage, AcpStage::Over) {
            return Sent::Cannot("no session is open");
        }
        if self.stays_asking(option) {
            return Sent::Done;
        }
        match self.setting(option, value) {
            Ok(choice) => {
                let (method, params) = choice.request(&self.session);
                self.order(method, &params, out)
            }
            Err(why) => Sent::Cannot(why),
        }
    }

    fn option_permission(&self, option: &str, value: &str, current: PermissionMode) -> OptionPermission {
        self.permission_of_setting(option, value, current)
    }

    fn compact(&mut self, out: &mut Output<'_>) -> Sent {
        if !matches!(self.stage, AcpStage::Ready) {
            return Sent::Cannot("no session is open, or a prompt runs");
        }
        // opencode 1.18.33 has the command and does not list it.
        let known = self.reader.agent.as_deref() == Some("OpenCode");
        if !known && !self.reader.offers_compact {
            return Sent::Cannot("this agent has no command to compact its context");
        }
        self.begin(&[json!({ "type": "text", "text": "/compact" })], out)
    }
}

#[cfg(test)]
mod tests;
