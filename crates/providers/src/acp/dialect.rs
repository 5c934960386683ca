//! The agent's side: requests, notifications and responses.
//!
//! A turn is a prompt and its answer. Work of an agent without a prompt is a turn of its own that ends with the next
//! prompt or the end of the output. From the agent's lines alone the same events follow, as far as the lines show them.

pub(super) mod client_lines;
pub(super) mod prompts;
pub(super) mod requests;
pub(super) mod steers;
pub(super) mod updates;

use std::collections::VecDeque;

use bowline_protocol::kinds::{
    Level, Notice, ResumeAnswer, ResumeAnswered, SessionStarted, ToolStatus, UnrecognizedReason,
};
use bowline_protocol::{Decider, Decision, Excerpt, Kind, NativeSessionId};
use serde_json::Value;
use serde_json::value::RawValue;

use self::prompts::{AcpCost, AcpTurn};
use self::requests::{AskedRequest, WaitingRequests, Wanted};
use self::steers::{InjectedMessage, PromptEnd};
use super::approvals;
use super::failures::AcpProblem;
use super::messages::AgentMessages;
use super::session::Options;
use super::tools::{AcpToolCalls, AcpToolPlace};
use super::wire::{self, AcpMessage, AcpPermission, AcpToolCall, tree};
use crate::dialect::{Dialect, HostPrompt, Input, Output};
use crate::lenient;

/// Reads the Agent Client Protocol.
#[derive(Debug, Default)]
pub(crate) struct Acp {
    /// The requests of the client to the agent, and of the agent to the client.
    pub(super) asked: WaitingRequests<AskedRequest>,
    pub(super) wanted: WaitingRequests<Wanted>,
    /// The prompt that is being answered, by the id of its request, and those that wait.
    pub(super) prompt: Option<Box<str>>,
    pub(super) queue: VecDeque<(Box<str>, String)>,
    /// Whether there ever was a prompt.
    pub(super) prompted: bool,
    /// Whether what the client sends is shown to us.
    pub(super) hears_client: bool,
    /// Whether we are the client.
    pub(super) ours: bool,
    pub(super) session_known: bool,
    /// Whether the agent repeats an old session.
    pub(super) replaying: bool,
    /// Whether the client wants the prompt to stop.
    pub(super) cancelling: bool,
    /// The agent's name and version, as it introduces itself.
    pub(super) agent: Option<String>,
    pub(super) version: Option<String>,
    /// Whether the agent offers the command `compact`.
    pub(super) offers_compact: bool,
    /// The prompt that our client steers with in the next line. Then the messages that the agent has not read.
    pub(super) steering: Option<HostPrompt>,
    pub(super) injected: Vec<InjectedMessage>,
    /// The model that answered last, as far as the agent reports it.
    pub(super) model: Option<String>,
    pub(super) cost: AcpCost,
    pub(super) turn: AcpTurn,
    pub(super) voices: AgentMessages,
    pub(super) calls: AcpToolCalls,
    pub(super) options: Options,
    /// Sessions of sub-agents.
    pub(super) children: Vec<Box<str>>,
}

impl Dialect for Acp {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => self.line(line, out),
            Input::Sent(line) => {
                self.hears_client = true;
                each_message(line, |message| self.sent(message, out));
            }
            Input::Eof(_) => {
                self.end_injected(PromptEnd::Stopped, out);
                // Before the verdict: open permissions belong to the turn that ends.
                self.settle(out);
                if self.cancelling && self.prompt.is_some() {
                    out.cancelled();
                }
            }
            Input::Stderr(_) => {}
        }
    }
}

impl Acp {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        if self.chunk_line(line, out) || each_message(line, |message| self.received(line, message, out)) {
            return;
        }
        lenient::each_object(line, out, |object: Value, out| {
            let text = object.to_string();
            if !each_message(&text, |message| self.received(&text, message, out)) {
                out.unrecognized(UnrecognizedReason::BadShape, &text, None);
            }
        });
    }

    /// Handles a message of the agent.
    fn received(&mut self, line: &str, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        match (message.method.get(), message.id) {
            (Some(method), Some(id)) => self.requested(line, method, id, message, out),
            (Some(method), None) => self.notified(line, method, message, out),
            (None, Some(id)) if message.error.is_some() || message.result.is_some() => {
                self.answered(line, id, message, out);
            }
            // The agent could not read what the client sent.
            (None, None) if message.error.is_some() => {
                let problem = AcpProblem::read(&tree(message.error));
                out.notice(Level::Error, Excerpt::with_limit(problem.text(), 4096).text);
            }
            (None, Some(_) | None) => out.unrecognized(UnrecognizedReason::BadShape, line, None),
        }
    }

    /// Handles a request of the agent.
    fn requested(
        &mut self,
        line: &str,
        method: &str,
        id: &RawValue,
        message: &AcpMessage<'_>,
        out: &mut Output<'_>,
    ) {
        let params = || tree(message.params);
        let string = |key: &str| params().get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let wanted = match method {
            "session/request_permission" => return self.permission(id, message.params, out),
            "elicitation/create" => {
                approvals::question_asked(id, &params(), out);
                Wanted::Question
            }
            "craft/drainMidTurnQueue" => Wanted::QueuedMessages,
            // The client's response, or the tool call that they serve, shows their outcome.
            "fs/read_text_file" => Wanted::Read { path: string("path") },
            "fs/write_text_file" => Wanted::Write { path: string("path") },
            "terminal/output" => Wanted::TerminalOutput { terminal: string("terminalId") },
            "terminal/wait_for_exit" => Wanted::TerminalExit { terminal: string("terminalId") },
            "terminal/create" | "terminal/kill" | "terminal/release" => Wanted::Other,
            // Servers that the client runs for the agent: their tools are tool calls of the agent.
            _ if method.starts_with("mcp/") || is_extension(method) => Wanted::Other,
            _ => {
                self.wanted.add(id, Wanted::Other);
                return out.unrecognized(UnrecognizedReason::UnknownType, line, Some(method));
            }
        };
        out.quiet();
        self.wanted.add(id, wanted);
    }

    fn permission(&mut self, id: &RawValue, params: Option<&RawValue>, out: &mut Output<'_>) {
        let (mut spare, mut spare_call) = (String::new(), String::new());
        let request: AcpPermission<'_> =
            params.and_then(|params| wire::read(params.get(), &mut spare)).unwrap_or_default();
        let call: AcpToolCall<'_> =
            request.tool_call.and_then(|call| wire::read(call.get(), &mut spare_call)).unwrap_or_default();
        // Gemini asks before it has reported the call.
        self.call(&call, None, AcpToolPlace::Permission, out);
        let options = approvals::options(&request.options);
        // codex-acp 0.166.0 sends the change with the call, and only a title and paths with the request.
        let plan = call.tool_call_id.filled().map(|call| self.calls.plan(call)).unwrap_or_default();
        approvals::asked(id, &call, plan, &options, out);
        let tool = call.tool_call_id.filled().map(Into::into);
        self.wanted.add(id, Wanted::Permission { tool, options });
    }

    /// Handles a notification of the agent.
    fn notified(&mut self, line: &str, method: &str, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        match method {
            "session/update" => self.update(line, message.params, out),
            "auth/status_update" | "_auth/status_update" => auth_status(&tree(message.params), out),
            "qwen/notify/session/mode-update" => {
                match tree(message.params).get("currentModeId").and_then(Value::as_str) {
                    Some(mode) => self.options.mode_is(mode, out),
                    None => out.quiet(),
                }
            }
            "$/cancel_request" => {
                out.quiet();
                let id = tree(message.params).get("requestId").map(Value::to_string).unwrap_or_default();
                match self.wanted.take_by(&id) {
                    Some(Wanted::Permission { .. }) => {
                        approvals::decided(&id, Decision::Deny, Decider::Withdrawn, None, out);
                    }
                    Some(Wanted::Question) => approvals::question_answered(&id, &Value::Null, out),
                    Some(_) | None => {}
                }
            }
            // The client has been told that a page was visited; the question was answered before.
            "elicitation/complete" => out.quiet(),
            // The protocol wants extensions that are not known to be ignored.
            _ if method.starts_with("mcp/") || is_extension(method) => out.quiet(),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, line, Some(method)),
        }
    }

    /// Handles an answer of the agent.
    fn answered(&mut self, line: &str, id: &RawValue, message: &AcpMessage<'_>, out: &mut Output<'_>) {
        let asked = self.asked.take(id);
        if let Some(error) = message.error {
            return self.refused(id, asked, &AcpProblem::read(&tree(Some(error))), out);
        }
        let result = tree(message.result);
        match asked.unwrap_or_else(|| AskedRequest::guess(&result)) {
            AskedRequest::Prompt => {
                if self.turn_of(id, out) {
                    self.prompt_answered(&result, out);
                } else {
                    out.unrecognized(UnrecognizedReason::BadShape, line, Some("session/prompt"));
                }
            }
            AskedRequest::Initialize => {
                out.quiet();
                let told = |what: &str| result.pointer(what).and_then(Value::as_str).map(str::to_owned);
                (self.agent, self.version) = (told("/agentInfo/name"), told("/agentInfo/version"));
            }
            AskedRequest::NewSession { cwd } => self.opened(None, cwd, &result, out),
            AskedRequest::OldSession { wanted, cwd } => self.opened(wanted.as_deref(), cwd, &result, out),
            AskedRequest::SetMode { mode: Some(mode) } => self.options.mode_is(&mode, out),
            AskedRequest::SetModel { model: Some(model) } => self.options.model_is(&model, out),
            AskedRequest::SetOption => self.options.updated(&result, out),
            AskedRequest::Steer(message) => match result.get("outcome").and_then(Value::as_str) {
                // The prompt is over, and the agent did nothing with the message.
                Some("promptRequired") => out.quiet(),
                Some(_) | None => self.injected(message, out),
            },
            // Lists, logins and the like: they change nothing in the session.
            AskedRequest::Authenticate
            | AskedRequest::SetMode { .. }
            | AskedRequest::SetModel { .. }
            | AskedRequest::Other => out.quiet(),
        }
    }

    /// Handles an error of the agent.
    fn refused(
        &mut self,
        id: &RawValue,
        asked: Option<AskedRequest>,
        problem: &AcpProblem,
        out: &mut Output<'_>,
    ) {
        let text = Excerpt::with_limit(problem.text(), 4096).text;
        match asked {
            Some(AskedRequest::Prompt) if self.turn_of(id, out) => self.prompt_failed(problem, out),
            // Only the agent's side is shown: that is what a failed prompt looks like.
            None if !self.hears_client && !problem.is_unknown_method() => self.prompt_failed(problem, out),
            Some(AskedRequest::OldSession { wanted, .. }) => {
                self.replaying = false;
                if let Some(wanted) = wanted.map(NativeSessionId::from) {
                    let answer = ResumeAnswer::Rejected;
                    out.emit(Kind::ResumeAnswered(ResumeAnswered { wanted, got: None, answer }));
                }
                self.not_begun(problem, text, out);
            }
            Some(AskedRequest::Initialize | AskedRequest::Authenticate | AskedRequest::NewSession { .. }) => {
                self.not_begun(problem, text, out);
            }
            Some(
                AskedRequest::Prompt
                | AskedRequest::SetMode { .. }
                | AskedRequest::SetModel { .. }
                | AskedRequest::SetOption
                | AskedRequest::Steer(_)
                | AskedRequest::Other,
            )
            | None => out.notice(Level::Warn, text),
        }
    }

    /// Fails before there was a prompt: there will be none, unless the client finds another way.
    fn not_begun(&mut self, problem: &AcpProblem, text: String, out: &mut Output<'_>) {
        if self.prompted {
            out.notice(Level::Error, text);
        } else {
            out.failed(&problem.report(None));
        }
    }

    /// Handles the answer that opens a session.
    fn opened(&mut self, wanted: Option<&str>, cwd: Option<String>, result: &Value, out: &mut Output<'_>) {
        self.replaying = false;
        self.session_known = true;
        let options = self.options.advertised(result);
        let told = result.get("sessionId").and_then(Value::as_str);
        let got = told.or(wanted).map(NativeSessionId::from);
        if let Some(wanted) = wanted.map(NativeSessionId::from) {
            // The protocol has no other meaning for success than that the session goes on.
            let same = got.as_ref() == Some(&wanted);
            let answer = if same { ResumeAnswer::Resumed } else { ResumeAnswer::Rejected };
            out.emit(Kind::ResumeAnswered(ResumeAnswered { wanted, got: got.clone(), answer }));
        }
        out.emit(Kind::SessionStarted(SessionStarted {
            native_session: got,
            version: self.version.clone(),
            model: self.options.model(),
            cwd,
            permission_mode: self.options.mode(),
            ..SessionStarted::default()
        }));
        if let Some(options) = options {
            out.emit(options);
        }
    }

    /// A tool call has ended: that decides its permissions without a visible response.
    pub(super) fn tool_ended(&mut self, id: &str, status: ToolStatus, out: &mut Output<'_>) {
        let of_tool =
            |wanted: &Wanted| matches!(wanted, Wanted::Permission { tool: Some(tool), .. } if **tool == *id);
        for (request, _) in self.wanted.take_all(of_tool) {
            approvals::decided_unseen(&request, Some(status), out);
        }
    }

    /// Ends what cannot continue: permissions and questions without a response, and tools that were denied.
    pub(super) fn settle(&mut self, out: &mut Output<'_>) {
        for (request, _) in self.wanted.take_all(|wanted| matches!(wanted, Wanted::Question)) {
            approvals::question_answered(&request, &Value::Null, out);
        }
        for (request, _) in self.wanted.take_all(|wanted| matches!(wanted, Wanted::Permission { .. })) {
            approvals::decided_unseen(&request, None, out);
        }
        self.calls.end_turn(out);
    }

    /// Work without a prompt is over.
    pub(super) fn end_outside(&mut self, out: &mut Output<'_>) {
        if self.prompt.is_none() && self.turn.outside {
            self.voices.end(out);
            self.settle(out);
            self.turn_usage(&Value::Null, out);
            self.turn = AcpTurn::default();
            out.completed(None);
        }
    }

    /// Something happened. Without a prompt, few agents report its end.
    pub(super) fn outside_of_prompts(&mut self, out: &mut Output<'_>) {
        if self.prompt.is_none() && self.hears_client {
            self.turn.outside = true;
            out.complete_at_eof(None);
            out.ends_at_prompt();
        }
    }
}

/// Gives every message of a line to `take`: the line is one, or an array of them. Returns whether it was.
pub(super) fn each_message(line: &str, mut take: impl FnMut(&AcpMessage<'_>)) -> bool {
    match line.trim_ascii_start().as_bytes().first() {
        Some(b'{') => serde_json::from_str(line).map(|message| take(&message)).is_ok(),
        Some(b'[') => {
            let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(line) else { return false };
            let read = |raw: &&RawValue| raw.get().starts_with('{');
            if batch.is_empty() || !batch.iter().all(read) {
                return false;
            }
            for raw in batch {
                let mut spare = String::new();
                let message: AcpMessage<'_> = wire::read(raw.get(), &mut spare).unwrap_or_default();
                take(&message);
            }
            true
        }
        Some(_) | None => false,
    }
}

/// Returns whether a method is an agent's own. The protocol's mark is an underscore; Qwen Code does without.
fn is_extension(method: &str) -> bool {
    method.starts_with('_') || method.starts_with("craft/") || method.starts_with("qwen/")
}

/// Takes how the agent is logged in. Only that it is not is news.
fn auth_status(params: &Value, out: &mut Output<'_>) {
    out.quiet();
    let status = params.get("authStatus").unwrap_or(params);
    let string = |key: &str| status.get(key).and_then(Value::as_str);
    if string("kind") == Some("none") {
        let text = string("label").unwrap_or("Not logged in").to_owned();
        out.emit(Kind::Notice(Notice { level: Level::Warn, text, code: Some("not_logged_in".to_owned()) }));
    }
}
