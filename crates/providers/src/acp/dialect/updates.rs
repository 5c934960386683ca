//! `session/update`: what happens in a session.

use bowline_protocol::kinds::{
    BackgroundTaskEnded, BackgroundTaskStarted, CompactTrigger, ContextCompacted, ContextGauge, Level,
    Notice, OptionState, OptionsAdvertised, PlanStep, PlanUpdated, Retrying, Status, StepStatus, ToolStatus,
    UnrecognizedReason, UsageReported, UserOrigin,
};
use bowline_protocol::{Basis, Excerpt, Kind, TaskId, ToolId, UsageSource};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::failures;
use super::super::tools::{AcpToolPlace, ToolReport};
use super::super::wire::{
    self, AcpBlock, AcpChunk, AcpString, AcpToolCall, ChunkLine, Commands, UpdateName, UpdateParams, tree,
};
use super::Acp;
use crate::dialect::Output;
use crate::dialects::speech::BlockKind;
use crate::usage;

/// How many child sessions are known at a time.
const CHILDREN: usize = 64;

/// The maximum number of reported steps of a plan, and of commands.
const STEPS: usize = 1024;

/// How much of an error that comes as text is kept.
const ERROR_TEXT: usize = 4096;

impl Acp {
    /// Handles a line that is a piece of text, in one pass. Returns whether it was one.
    pub(crate) fn chunk_line(&mut self, line: &str, out: &mut Output<'_>) -> bool {
        // Only the beginning: Qwen 0.24.4 sends one line of 560 KB for its commands.
        let start = &line.as_bytes()[..line.len().min(512)];
        if memchr::memmem::find(start, b"_chunk\"").is_none() {
            return false;
        }
        let Ok(chunk) = serde_json::from_str::<ChunkLine<'_>>(line) else { return false };
        let is_text = chunk.params.update.content.kind.get() == Some("text");
        if chunk.method.get() != Some("session/update") || chunk.id.is_some() || !is_text {
            return false;
        }
        self.chunk(&chunk.params.session_id, &chunk.params.update, out)
    }

    /// Handles a piece of a message. Returns whether it was one.
    fn chunk(&mut self, session: &AcpString<'_>, chunk: &AcpChunk<'_>, out: &mut Output<'_>) -> bool {
        let owned;
        let text = match text_of(&chunk.content) {
            AcpText::Text(text) => text,
            AcpText::Other(text) => {
                owned = text;
                &owned
            }
        };
        let sort = match chunk.session_update.or_empty() {
            "agent_message_chunk" => BlockKind::Text,
            "agent_thought_chunk" => BlockKind::Thinking,
            "user_message_chunk" => {
                out.quiet();
                if !self.session_known && !self.hears_client {
                    // History comes before the response that opens the session.
                    self.replaying = true;
                }
                if !text.is_empty() {
                    out.user(UserOrigin::Replayed, text, None);
                }
                return true;
            }
            _ => return false,
        };
        if self.replaying {
            // History of an earlier process, which reported it. It is not part of this session's output.
            out.quiet();
            return true;
        }
        // Gemini 0.61.0 writes this beside the response to `session/set_mode`.
        if let Some(mode) = text.strip_prefix("[MODE_UPDATE] ")
            && self.agent.as_deref() == Some("gemini-cli")
        {
            self.options.mode_is(mode, out);
            return true;
        }
        let parent = self.parent(session, chunk.meta);
        if parent.is_none() && !text.is_empty() {
            self.reads_injected(chunk.message_id.filled(), out);
        }
        self.call_usage(chunk.meta, out);
        if self.turn.system_error && parent.is_none() && sort == BlockKind::Text {
            // Codex: text after the thread has failed is the error.
            let room = ERROR_TEXT.saturating_sub(self.turn.error_text.len());
            self.turn.error_text.push_str(&text[..text.floor_char_boundary(room)]);
            out.quiet();
        // Qwen 0.24.4 sends its usage with an empty piece of text.
        } else if text.is_empty() {
            out.quiet();
        } else {
            self.voices.say(sort, text, chunk.message_id.filled(), parent.as_ref(), out);
            self.outside_of_prompts(out);
        }
        true
    }

    /// Reads the usage of one call, which Qwen Code adds to an empty piece of text after it.
    fn call_usage(&mut self, meta: Option<&RawValue>, out: &mut Output<'_>) {
        let Some(meta) = meta.filter(|meta| meta.get().contains("\"usage\"")) else { return };
        if let Some(usage) = tree(Some(meta)).get("usage").and_then(usage::read) {
            self.voices.pause(None, out);
            out.emit(Kind::UsageReported(UsageReported {
                usage,
                basis: Basis::PerCall,
                source: UsageSource::Reported,
                cost_usd: None,
                model: None,
                message: None,
            }));
        }
    }

    /// Returns the call of the sub-agent that an update belongs to.
    fn parent(&self, session: &AcpString<'_>, meta: Option<&RawValue>) -> Option<ToolId> {
        let child = session.get().filter(|session| self.children.iter().any(|child| **child == **session));
        let named = || {
            let meta = tree(Some(meta.filter(|meta| meta.get().contains("\"parentTool"))?));
            // Claude Code's name for it, and Qwen Code's.
            let places = ["/claudeCode/parentToolUseId", "/parentToolCallId"];
            places.iter().find_map(|place| meta.pointer(place)?.as_str()).map(ToolId::from)
        };
        child.map(ToolId::from).or_else(named)
    }

    /// Takes any update.
    pub(crate) fn update(&mut self, line: &str, params: Option<&RawValue>, out: &mut Output<'_>) {
        let (mut spare, mut spare_name) = (String::new(), String::new());
        let params: UpdateParams<'_> =
            params.and_then(|params| wire::read(params.get(), &mut spare)).unwrap_or_default();
        let Some(raw) = params.update else {
            return out.unrecognized(UnrecognizedReason::BadShape, line, Some("session/update"));
        };
        let name: UpdateName<'_> = wire::read(raw.get(), &mut spare_name).unwrap_or_default();
        let session = &params.session_id;
        match name.session_update.or_empty() {
            "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
                let mut spare = String::new();
                let chunk: Option<AcpChunk<'_>> = wire::read(raw.get(), &mut spare);
                // A derived reader takes a list for a block without anything in it.
                let chunk =
                    chunk.filter(|chunk| chunk.content.kind.get().or(chunk.content.text.get()).is_some());
                match chunk.or_else(|| AcpChunk::of_tree(&name, &tree(Some(raw)))) {
                    Some(chunk) => drop(self.chunk(session, &chunk, out)),
                    None => out.unrecognized(UnrecognizedReason::BadShape, line, name.session_update.get()),
                }
            }
            "tool_call" | "tool_call_update" => self.tool_call(line, session, raw, out),
            "plan" => plan(tree(Some(raw)).get("entries"), out),
            "plan_update" => plan(tree(Some(raw)).pointer("/plan/entries"), out),
            "plan_removed" => plan(None, out),
            "current_mode_update" => {
                let mode = tree(Some(raw));
                let mode = mode.get("currentModeId").and_then(Value::as_str);
                match mode {
                    Some(mode) => self.options.mode_is(mode, out),
                    None => out.unrecognized(UnrecognizedReason::BadShape, line, Some("current_mode_update")),
                }
            }
            "config_option_update" => self.options.updated(&tree(Some(raw)), out),
            "available_commands_update" => self.offers_compact = commands(raw, out),
            "session_info_update" => self.session_info(&tree(Some(raw)), out),
            "usage_update" => self.usage_update(&tree(Some(raw)), out),
            "notice" => notice(&tree(Some(raw)), out),
            "compaction_update" => compaction(&tree(Some(raw)), out),
            // The summary is for the model; that there is one was reported.
            "compaction_summary_chunk" => out.quiet(),
            "subagent_update" => self.subagent(&tree(Some(raw)), out),
            // Messages between sessions of one agent. The child's answer comes as its own updates.
            "session_message" | "session_message_chunk" => out.quiet(),
            other => {
                out.unrecognized(
                    UnrecognizedReason::UnknownType,
                    line,
                    Some(other).filter(|name| !name.is_empty()),
                );
            }
        }
    }

    fn tool_call(&mut self, line: &str, session: &AcpString<'_>, raw: &RawValue, out: &mut Output<'_>) {
        let mut spare = String::new();
        let call: AcpToolCall<'_> = wire::read(raw.get(), &mut spare).unwrap_or_default();
        if call.tool_call_id.filled().is_none() {
            return out.unrecognized(UnrecognizedReason::BadShape, line, Some("tool_call"));
        }
        if self.replaying {
            return out.quiet();
        }
        let parent = self.parent(session, call.meta);
        self.call(&call, parent.as_ref(), AcpToolPlace::Update, out);
        self.outside_of_prompts(out);
    }

    /// Handles an update of a tool call, wherever it is.
    pub(crate) fn call(
        &mut self,
        call: &AcpToolCall<'_>,
        parent: Option<&ToolId>,
        place: AcpToolPlace,
        out: &mut Output<'_>,
    ) {
        let Some(id) = call.tool_call_id.filled() else { return };
        if !self.calls.knows(id) {
            if parent.is_none() && place == AcpToolPlace::Update {
                self.reads_injected(None, out);
            }
            self.voices.pause(parent, out);
        }
        match self.calls.hear(id, call, parent, place, out) {
            ToolReport::Nothing => {}
            ToolReport::Finished(status) => self.tool_ended(id, status, out),
        }
    }

    /// Takes what is known about the session itself. Codex reports the state of its thread here.
    fn session_info(&mut self, update: &Value, out: &mut Output<'_>) {
        out.quiet();
        if let Some(title) = update.get("title").and_then(Value::as_str).filter(|title| !title.is_empty()) {
            let text = Excerpt::with_limit(title, 1024).text;
            out.emit(Kind::Notice(Notice {
                level: Level::Info,
                text,
                code: Some("session_title".to_owned()),
            }));
        }
        let Some(codex) = update.pointer("/_meta/codex") else { return };
        match codex.pointer("/threadStatus/type").and_then(Value::as_str) {
            // codex-acp 2.6.0 ends a prompt that failed by 429, 500 or a full context with `end_turn`: this state is the sign.
            Some("systemError") => self.turn.system_error = true,
            Some("idle") if self.turn.outside => self.end_outside(out),
            // Active and idle repeat the turn's own events. A reported error stays one.
            Some(_) if self.turn.error_text.is_empty() => self.turn.system_error = false,
            Some(_) | None => {}
        }
        let Some(error) = codex.get("error").filter(|error| error.is_object()) else { return };
        if error.get("willRetry").and_then(Value::as_bool) == Some(true) {
            self.turn.status = error.get("codexErrorInfo").and_then(failures::codex_status);
            retrying(error, out);
        } else {
            self.turn.error_data = error.clone();
        }
    }

    /// Handles the state of the context and what the session has cost so far.
    fn usage_update(&mut self, update: &Value, out: &mut Output<'_>) {
        out.quiet();
        if let Some(used) = update.get("used").and_then(Value::as_u64) {
            let window = update.get("size").and_then(Value::as_u64).filter(|size| *size > 0);
            out.emit(Kind::ContextGauge(ContextGauge { used, window }));
        }
        let in_dollars =
            update.pointer("/cost/currency").and_then(Value::as_str).is_none_or(|code| code == "USD");
        if let Some(cost) = update.pointer("/cost/amount").and_then(Value::as_f64).filter(|_| in_dollars) {
            // The sum of the session; the turn's part is computed at its end.
            self.cost.now = Some(cost);
        }
        // claude-agent-acp 0.99.1 reports the cost when an answer is complete, also without a prompt.
        if update.get("cost").is_some() {
            self.end_outside(out);
        }
        if let Some(model) = update.pointer("/_meta/_claude~1model").and_then(Value::as_str) {
            self.model = Some(model.to_owned());
        }
    }

    /// Handles an update about a child session. Text of the child is then attributed to it, not to the agent.
    fn subagent(&mut self, update: &Value, out: &mut Output<'_>) {
        out.quiet();
        let Some(id) = update.get("sessionId").and_then(Value::as_str) else { return };
        let known = self.children.iter().any(|child| **child == *id);
        let idle = update.pointer("/state/state").and_then(Value::as_str) == Some("idle");
        if !known && !idle {
            if self.children.len() == CHILDREN {
                self.children.remove(0);
            }
            self.children.push(id.into());
            let words = ["title", "description"].iter().find_map(|key| update.get(key)?.as_str());
            let summary = Excerpt::with_limit(words.unwrap_or("sub-agent"), 1024).text;
            out.emit(Kind::BackgroundTaskStarted(BackgroundTaskStarted {
                id: TaskId::from(id),
                summary,
                tool: None,
            }));
        }
        if known && idle {
            let status = ToolStatus::Completed;
            out.emit(Kind::BackgroundTaskEnded(BackgroundTaskEnded {
                id: TaskId::from(id),
                status,
                summary: None,
            }));
        }
    }
}

/// The text of a block.
enum AcpText<'a> {
    Text(&'a str),
    /// The block is no text; this stands for it.
    Other(String),
}

fn text_of<'a>(block: &'a AcpBlock<'_>) -> AcpText<'a> {
    match block.kind.or_empty() {
        "text" | "" => AcpText::Text(block.text.or_empty()),
        "resource_link" => AcpText::Other(format!("[{}]", block.uri.filled().unwrap_or("resource"))),
        "resource" => {
            let resource = tree(block.resource);
            let string = |key: &str| resource.get(key).and_then(Value::as_str);
            let text = string("text").map(str::to_owned);
            AcpText::Other(text.unwrap_or_else(|| format!("[{}]", string("uri").unwrap_or("resource"))))
        }
        other => AcpText::Other(format!("[{}]", block.mime_type.filled().unwrap_or(other))),
    }
}

fn plan(entries: Option<&Value>, out: &mut Output<'_>) {
    let step = |entry: &Value| {
        let string = |key: &str| entry.get(key).and_then(Value::as_str);
        let status = match string("status") {
            Some("in_progress") => StepStatus::InProgress,
            Some("completed") => StepStatus::Completed,
            Some("cancelled" | "canceled") => StepStatus::Cancelled,
            Some(_) | None => StepStatus::Pending,
        };
        PlanStep { text: Excerpt::with_limit(string("content").unwrap_or_default(), 4096).text, status }
    };
    let steps = entries.and_then(Value::as_array).into_iter().flatten().take(STEPS).map(step).collect();
    out.emit(Kind::PlanUpdated(PlanUpdated { steps }));
}

/// Emits the names of the commands that a prompt may begin with. Returns whether `compact` is among them.
fn commands(raw: &RawValue, out: &mut Output<'_>) -> bool {
    let mut spare = String::new();
    let commands: Commands<'_> = wire::read(raw.get(), &mut spare).unwrap_or_default();
    let names = commands.available_commands.iter().filter_map(|command| command.name.filled());
    let offers_compact = names.clone().any(|name| name == "compact");
    let choices = names.take(STEPS).map(str::to_owned).collect();
    let options = vec![OptionState { id: "command".to_owned(), choices, current: None }];
    out.emit(Kind::OptionsAdvertised(OptionsAdvertised { options }));
    offers_compact
}

fn notice(update: &Value, out: &mut Output<'_>) {
    let string = |key: &str| update.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let level = match string("severity") {
        Some("error") => Level::Error,
        Some("warning") => Level::Warn,
        Some(_) | None => Level::Info,
    };
    let text: Vec<&str> = [string("title"), string("description")].into_iter().flatten().collect();
    out.notice(level, Excerpt::with_limit(&text.join(": "), 4096).text);
}

fn compaction(update: &Value, out: &mut Output<'_>) {
    match update.get("status").and_then(Value::as_str) {
        Some("in_progress") => out.emit(Kind::Status(Status { status: Some("compacting".to_owned()) })),
        Some("completed") => {
            out.emit(Kind::Status(Status { status: None }));
            let trigger = CompactTrigger::Auto;
            out.emit(Kind::ContextCompacted(ContextCompacted {
                trigger,
                tokens_before: None,
                tokens_after: None,
            }));
        }
        status => {
            out.emit(Kind::Status(Status { status: None }));
            let why = update.get("error").and_then(Value::as_str).or(status).unwrap_or("it ended");
            out.notice(Level::Warn, format!("compacting: {why}"));
        }
    }
}

/// Emits a retry of Codex.
fn retrying(error: &Value, out: &mut Output<'_>) {
    let string = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let status = error.get("codexErrorInfo").and_then(failures::codex_status);
    let words = [string("message"), string("additionalDetails")];
    let problem = failures::AcpProblem::of(words[1]).with_status(status);
    let category = problem.category();
    // "Reconnecting... 1/5".
    let tries = words[0].rsplit(' ').next().and_then(|tries| tries.split_once('/'));
    let (attempt, max_attempts) = tries.map_or((None, None), |(a, b)| (a.parse().ok(), b.parse().ok()));
    let message = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
    let message = Excerpt::with_limit(&message, 4096).text;
    out.emit(Kind::Retrying(Retrying { attempt, max_attempts, delay_ms: None, category, message }));
}
