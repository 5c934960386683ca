//! `codex-app-server`: JSON-RPC over standard input and output, both directions seen.
//!
//! One process may hold several threads: the one that the client started or resumed is the session, any other is a
//! sub-agent's. Turns, state and usage are those of the session's thread.

use std::collections::HashMap;

use bowline_protocol::kinds::{Level, ModelChanged, Notice, Retrying, ToolOwner, UnrecognizedReason};
use bowline_protocol::{Decider, Excerpt, Exit, Kind, ToolId, Usage};
use serde_json::Value;

use super::super::approvals::OpenApprovals;
use super::super::messages::stream::{MessageStream, RAW_THOUGHT};
use super::super::session::{ThreadSettings, diff, index, limits, server_status, state};
use super::super::stderr::CodexStderr;
use super::super::tools::parts;
use super::super::tools::{CodexToolCall, CodexToolCalls, CodexToolStep};
use super::super::wire::app_server::{AppServerMessage, Params, Rest};
use super::super::wire::part;
use super::ending::{self, CodexEnding};
use super::exec::ExecState;
use super::legacy::Legacy;
use super::responses::{self, Started};
use crate::decode::End;
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::loose_json::LooseText;
use crate::dialects::tools;
use crate::failure::Report;
use crate::lenient;

/// How many of the client's requests may wait for an answer.
const LONGEST: usize = 1024;

/// Reads both directions of `codex app-server`.
#[derive(Debug, Default)]
pub(crate) struct AppServer {
    /// The session's thread.
    pub(crate) thread: Option<String>,
    /// The requests of the client that have no answer yet: id and method.
    pub(crate) sent: HashMap<Box<str>, Box<str>>,
    pub(crate) asked: OpenApprovals,
    pub(crate) calls: CodexToolCalls,
    pub(crate) stream: MessageStream,
    pub(crate) turn: ending::TurnProgress,
    /// Whether the turn has any text.
    pub(crate) spoke: bool,
    /// Why a request that we did not see was refused.
    pub(crate) refused: Option<Report>,
    /// Whether the client ever asked for a turn, and whether the server ever answered.
    pub(crate) prompted: bool,
    pub(crate) answered: bool,
    /// The usage of the thread before this process.
    pub(crate) before: Option<Usage>,
    /// Whether the thread is a branch, which starts with the usage of the other one and does not report it.
    pub(crate) branch: bool,
    pub(crate) error: Option<String>,
    pub(crate) retrying: Option<Retrying>,
    pub(crate) stderr: CodexStderr,
    pub(crate) settings: ThreadSettings,
    /// The first version of the protocol. The second repeats all of it, and after its first message only it is read.
    pub(crate) first: (Legacy, ExecState),
    pub(crate) second: bool,
}

impl Dialect for AppServer {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => each(line, out, |rpc, raw, out| self.received(rpc, raw, out)),
            Input::Sent(line) => each(line, out, |rpc, _, out| self.sent(rpc, out)),
            Input::Stderr(line) => {
                self.stderr.line(line, out);
            }
            Input::Eof(end) => self.end(end, out),
        }
    }
}

/// Reads the messages of a line.
fn each(
    line: &str,
    out: &mut Output<'_>,
    mut take: impl FnMut(&AppServerMessage<'_>, &str, &mut Output<'_>),
) {
    if line.starts_with('{')
        && let Ok(rpc) = serde_json::from_str::<AppServerMessage<'_>>(line)
    {
        return take(&rpc, line, out);
    }
    lenient::each_object(line, out, |value: Value, out| {
        let text = value.to_string();
        match serde_json::from_str::<AppServerMessage<'_>>(&text) {
            Ok(rpc) => take(&rpc, &text, out),
            Err(_) => out.unrecognized(UnrecognizedReason::BadShape, &text, None),
        }
    });
}

impl AppServer {
    /// Handles the client's lines.
    fn sent(&mut self, rpc: &AppServerMessage<'_>, out: &mut Output<'_>) {
        out.quiet();
        match (rpc.method.get(), rpc.id) {
            (Some(method), Some(id)) => {
                // `sendUserMessage` and `sendUserTurn` are the names of the protocol's first version.
                self.prompted |=
                    matches!(method, "turn/start" | "review/start" | "sendUserMessage" | "sendUserTurn");
                self.calls.compaction_ordered |= method == "thread/compact/start";
                if self.sent.len() < LONGEST {
                    self.sent.insert(id.get().into(), method.into());
                }
            }
            (None, Some(_)) => self.asked.answer(rpc, out),
            (_, None) => {}
        }
    }

    fn received(&mut self, rpc: &AppServerMessage<'_>, raw: &str, out: &mut Output<'_>) {
        match (rpc.method.get(), rpc.id) {
            (Some(method), None) => self.notified(method, rpc, raw, out),
            (Some(method), Some(_)) => self.requested(method, rpc, raw, out),
            (None, Some(id)) => {
                self.answered = true;
                // Only the client's requests are in `sent`. The server numbers its own from 0, so the ids of the two overlap.
                let method = self.sent.remove(id.get());
                self.response(method.as_deref(), rpc, out);
            }
            (None, None) => out.unrecognized(UnrecognizedReason::UnknownType, raw, None),
        }
    }

    /// Handles an answer of the server to the client.
    fn response(&mut self, method: Option<&str>, rpc: &AppServerMessage<'_>, out: &mut Output<'_>) {
        out.quiet();
        if let Some(error) = &rpc.error.0 {
            // The request was not seen, so it may have been the prompt. The end of the output decides what it meant.
            if method.is_none() {
                self.refused = Some(responses::refused(error));
            }
            return match method {
                Some(
                    "thread/start" | "thread/resume" | "thread/fork" | "turn/start" | "review/start"
                    | "initialize",
                ) => {
                    self.close();
                    out.failed(&responses::refused(error));
                }
                _ => out.notice(Level::Warn, Excerpt::with_limit(error.message.or_empty(), 4096).text),
            };
        }
        match method {
            // The shape of a response shows the kind of request if we did not see the request.
            Some("thread/start" | "thread/resume" | "thread/fork") | None => {
                let started = Started::of(rpc.result);
                if let Some(session) = started.session() {
                    self.thread = started.thread.0.and_then(|thread| thread.id.owned());
                    // A fork inherits the token counts of its origin (0.166.0).
                    self.branch = method == Some("thread/fork");
                    self.settings = ThreadSettings::of(rpc.result);
                    self.second = true;
                    out.emit(session);
                }
            }
            Some("model/list") => out.emit(responses::models(rpc.result)),
            Some("account/rateLimits/read") => limits(rpc.result, out),
            Some(_) => {}
        }
    }

    /// Handles a request of the server.
    fn requested(&mut self, method: &str, rpc: &AppServerMessage<'_>, raw: &str, out: &mut Output<'_>) {
        let params = Rest::of(raw);
        let item =
            [&params.item_id, &params.call_id].into_iter().find_map(LooseText::get).unwrap_or_default();
        let tool = self.calls.running(item).cloned();
        if self.asked.ask(rpc, &params, tool.as_ref(), out) {
            return;
        }
        match method {
            "item/tool/call" => {
                let name = params.tool.get().unwrap_or("tool");
                let call = CodexToolCall::new(name, tools::kind_of(name), parts::raw(params.arguments));
                let owner = ToolOwner::Host;
                self.calls.start(item, CodexToolCall { owner, ..call }, None, out);
            }
            // Between the program and its host: nothing for a reader of the conversation.
            "account/chatgptAuthTokens/refresh" | "attestation/generate" => out.quiet(),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(method)),
        }
    }

    fn notified(&mut self, method: &str, rpc: &AppServerMessage<'_>, raw: &str, out: &mut Output<'_>) {
        let nothing = Params::default();
        let params = rpc.params.0.as_ref().unwrap_or(&nothing);
        let parent = self.parent(params.thread_id.get());
        let parent = parent.as_ref();
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => {
                self.progress(parent);
                self.spoke |= parent.is_none();
                self.stream.text(params.item_id.or_empty(), params.delta.or_empty(), parent, out);
            }
            "item/reasoning/summaryTextDelta" => {
                let block = index(params.summary_index);
                self.stream.thought((params.item_id.or_empty(), block), params.delta.or_empty(), parent, out);
            }
            "item/reasoning/textDelta" => {
                let block = RAW_THOUGHT + index(params.content_index);
                self.stream.thought((params.item_id.or_empty(), block), params.delta.or_empty(), parent, out);
            }
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                self.update(params.item_id.or_empty(), Some(Excerpt::of(params.delta.or_empty())), None, out);
            }
            "item/started" => self.item(CodexToolStep::Started, params, raw, parent, out),
            "item/completed" => self.item(CodexToolStep::Completed, params, raw, parent, out),
            _ => self.rare(method, &Rest::of(raw), raw, params.thread_id.get(), parent, out),
        }
    }

    /// Handles a notification that is not frequent.
    fn rare(
        &mut self,
        method: &str,
        params: &Rest<'_>,
        raw: &str,
        thread: Option<&str>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        if let Some(msg) = params.msg.0.as_ref().filter(|_| method.starts_with("codex/event")) {
            let (reader, state) = &mut self.first;
            return if self.second { out.quiet() } else { reader.message(msg, raw, state, out) };
        }
        match method {
            "item/mcpToolCall/progress" => {
                self.update(params.item_id.or_empty(), None, params.message.owned(), out);
            }
            "turn/started" => self.turn_started(params, thread, parent, out),
            "turn/completed" => self.turn_completed(params, parent, out),
            "turn/diff/updated" => out.emit(diff(params.diff.or_empty())),
            "turn/plan/updated" => parts::plan(params.plan, out),
            "thread/started" => self.thread_started(params, out),
            "thread/status/changed" => match state(params.status).filter(|_| parent.is_none()) {
                Some(state) => out.emit(state),
                None => out.quiet(),
            },
            "thread/tokenUsage/updated" => self.usage(params.token_usage, parent, out),
            "thread/settings/updated" if parent.is_none() => {
                self.settings.updated(params.thread_settings, out);
            }
            "thread/compacted" => out.emit(parts::compacted(self.calls.compaction())),
            "account/rateLimits/updated" => limits(params.rate_limits, out),
            "error" => self.error(params, parent, out),
            "serverRequest/resolved" => {
                out.quiet();
                self.asked.resolved(params.request_id, out);
            }
            "model/rerouted" => {
                let model = params.to_model.or_empty().to_owned();
                out.emit(Kind::ModelChanged(ModelChanged { model, reason: params.reason.owned() }));
            }
            "mcpServer/startupStatus/updated" => {
                let status = part::<LooseText<'_>>(params.status);
                let error = part::<LooseText<'_>>(params.error).owned();
                out.emit(server_status(params.name.or_empty(), status.or_empty(), error));
            }
            "warning"
            | "guardianWarning"
            | "configWarning"
            | "deprecationNotice"
            | "windows/worldWritableWarning" => {
                remark(params, out);
            }
            _ if is_aside(method) => out.quiet(),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(method)),
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        // First: an approval must be decided before the turn that contains it ends.
        self.asked.end(Decider::ClientLost, out);
        self.stderr.end(out);
        let turn = if self.turn == ending::TurnProgress::None { self.first.1.turn } else { self.turn };
        let nothing_asked = turn == ending::TurnProgress::None && self.answered && !self.prompted;
        if nothing_asked && end.exit.is_none_or(Exit::is_success) {
            // A client that only looked around got its answers. Of requests that we did not see, any may have been the
            // prompt.
            return match self.refused.take() {
                Some(report) => out.failed(&report),
                None => out.completed(None),
            };
        }
        let ending = CodexEnding {
            turn,
            reason: self.error.as_deref().or(self.stderr.reason()),
            retrying: self.retrying.as_ref(),
        };
        ending.judge(end, out);
    }
}

fn remark(params: &Rest<'_>, out: &mut Output<'_>) {
    let text = [&params.summary, &params.message].into_iter().find_map(LooseText::owned).unwrap_or_default();
    let text = params.details.owned().map_or_else(|| text.clone(), |details| format!("{text} {details}"));
    let text = Excerpt::with_limit(&text, 4096).text;
    out.emit(Kind::Notice(Notice { level: Level::Warn, text, code: None }));
}

/// Returns whether a notification is about the program, its client or its lists, and not about the conversation; or told
/// in full by another one.
fn is_aside(method: &str) -> bool {
    const ASIDE: &[&str] = &[
        "account/login/completed",
        "account/updated",
        "app/list/updated",
        "authStatusChange",
        "fs/changed",
        "hook/completed",
        "hook/started",
        "item/autoApprovalReview/completed",
        "item/autoApprovalReview/started",
        "item/commandExecution/terminalInteraction",
        "item/fileChange/patchUpdated",
        "item/reasoning/summaryPartAdded",
        "item/webSearch/progress",
        "loginChatGptComplete",
        "mcpServer/oauthLogin/completed",
        "model/safetyBuffering/updated",
        "model/verification",
        "rawResponseItem/completed",
        "remoteControl/status/changed",
        "sessionConfigured",
        "skills/changed",
        "thread/archived",
        "thread/closed",
        "thread/deleted",
        "thread/goal/cleared",
        "thread/goal/updated",
        "thread/name/updated",
        "thread/queue/changed",
        "thread/readState/changed",
        "thread/reverted",
        "thread/settings/updated",
        "thread/unarchived",
        "turn/moderationMetadata",
    ];
    ASIDE.contains(&method)
}
