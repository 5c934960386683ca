//! The reader of lines: it sorts each by its type and its turn.
//!
//! A turn begins with a prompt that we sent or with `system/init`, which is repeated every turn and need not be the
//! first line, and ends with a `result`. One process may have several: when a task in the background ends, the agent
//! learns of it in a turn of its own.

pub(super) mod outcome;

use bowline_protocol::kinds::{Level, TurnOrigin, TurnStarted, UnrecognizedReason, UserOrigin};
use bowline_protocol::{Exit, Kind, Timestamp};
use serde_json::value::RawValue;

use super::approvals::Requests;
use super::failures::{self, ApiError};
use super::messages::speech::{ClaudeMessages, Which};
use super::messages::words;
use super::session::{self, McpServers};
use super::tools::ClaudeToolCalls;
use super::tools::tasks::Tasks;
use super::usage::Spend;
use super::wire::user::UserLine;
use super::wire::{self, ClaudeDelta, ClaudeObject, ClaudePiece};
use crate::decode::{Cause, End};
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::json::Json;
use crate::dialects::shaped::ShapedDialect;
use crate::dialects::speech::BlockKind;
use crate::dialects::stream_json::Documented;
use crate::failure::Report;
use crate::lenient;

/// Reads what Claude Code prints, and what is sent to it.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    pub(super) speech: ClaudeMessages,
    pub(super) spend: Spend,
    pub(super) requests: Requests,
    pub(super) tasks: Tasks,
    pub(super) servers: McpServers,
    pub(super) calls: ClaudeToolCalls,
    /// The turn that runs.
    pub(super) turn: Option<ClaudeTurn>,
    /// Prompts that were sent while a turn ran; each will have a turn of its own.
    queued: u32,
    /// Whether a background task has ended that the agent will be told of.
    pub(super) notified: bool,
    pub(super) session: Option<String>,
    pub(super) model: Option<String>,
    /// The cost of the session at the last result.
    pub(super) cost: f64,
    /// The end of the last limit that was reported as reached.
    pub(super) limit_resets_at: Option<Timestamp>,
    /// Reads the lines that the adapter protocol documents for this program, which it never printed for us.
    documented: Documented,
}

/// The turn that runs.
#[derive(Debug, Default)]
pub(super) struct ClaudeTurn {
    /// Whether a prompt began it.
    prompted: bool,
    /// Whether the agent itself has any text or tool call, as opposed to a sub-agent that still runs from before.
    lively: bool,
    /// Whether it was interrupted: the program reports it, or we requested it.
    pub(super) interrupted: bool,
    /// The error that stood where an answer should.
    pub(super) error: Option<ApiError>,
}

impl ShapedDialect for Claude {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        // Fast paths first. Both give up on an unusual line, which then takes the slow path through `wire::each`.
        if let Some(delta) = ClaudeDelta::read(line) {
            return self.delta(&delta, out);
        }
        if let Some(user) = UserLine::read(line) {
            return self.user(line, &user, out);
        }
        wire::each(line, out, |raw, object, out| self.object(raw, object, out));
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        // With `--verbose`, `json` is an array of what the lines would have been.
        if document.starts_with('[') {
            out.quiet();
            let repaired;
            let events: Vec<&RawValue> = match serde_json::from_str(document) {
                Ok(events) => events,
                Err(_) => {
                    repaired = lenient::repair(document);
                    serde_json::from_str(&repaired).unwrap_or_default()
                }
            };
            return events.into_iter().for_each(|event| self.line(event.get(), out));
        }
        match ClaudeObject::read(document) {
            // Every object of the real program has a `type`. One without it is the plain `json` answer of a wrapper.
            Some(object) if object.raw("type").is_none() => {
                Json.handle(Input::Line(document), out);
                out.complete_at_eof(None);
            }
            Some(_) | None => self.line(document, out),
        }
    }

    fn text_was_error(&mut self, tail: &str, end: &End) -> Option<Report> {
        // Killed programs print nothing; what is printed before an exit of 1 is the error.
        let failed = matches!(end.exit, Some(Exit::Code(1..=127)));
        let tail = tail.trim();
        (failed && !tail.is_empty()).then(|| failures::printed(tail))
    }

    fn sent(&mut self, line: &str, out: &mut Output<'_>) {
        let Some(object) = ClaudeObject::read(line) else { return };
        match object.text_or_empty("type").as_ref() {
            "user" => self.prompt(&object, out),
            "control_response" => {
                if let Some(response) = object.object("response") {
                    self.requests.answered(&response, out);
                }
            }
            "control_request" => {
                let request = object.object("request").unwrap_or_default();
                if let (Some(turn), "interrupt") = (&mut self.turn, request.text_or_empty("subtype").as_ref())
                {
                    // Set before the reply arrives: if no answer had begun, the program exits with 0 and prints no result.
                    turn.interrupted = true;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.requests.end(out);
        // Before any answer began, an interrupt ends the program with exit code 0 and without a result.
        if end.cause == Cause::Exited && self.was_interrupted() {
            out.cancelled();
            self.turn_over();
        }
    }
}

impl Claude {
    fn object(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let type_name = line.text_or_empty("type");
        match type_name.as_ref() {
            "stream_event" => self.stream_event(raw, line, out),
            "assistant" => self.assistant(raw, line, out),
            "user" => UserLine::with(raw, |user| self.user(raw, user, out)),
            "system" => self.system(raw, line, out),
            "result" => self.result(line, out),
            "rate_limit_event" => self.limit(line, out),
            "control_request" => self.control_request(raw, line, out),
            "control_response" => {
                let response = line.object("response").unwrap_or_default();
                self.response(&response, out);
            }
            "control_cancel_request" => self.requests.cancelled(&line.text_or_empty("request_id"), out),
            // Which of our prompts is at work; its turn shows the same.
            "command_lifecycle" => out.quiet(),
            // Signs of life.
            "keep_alive" | "tool_progress" => out.quiet(),
            "tool_use_summary" | "prompt_suggestion" | "auth_status" => {
                session::remark(&type_name, line, Level::Info, out);
            }
            "turn.started" | "content" | "turn.completed" | "turn.failed" | "error" | "" => {
                self.documented.0.handle(Input::Line(raw), out);
            }
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&type_name)),
        }
    }

    /// Begins a turn, unless one runs.
    pub(super) fn open_turn(&mut self, out: &mut Output<'_>) {
        // `init` repeats in every turn, and a prompt that we sent may have opened the turn already.
        if self.turn.is_some() {
            return;
        }
        // A prompt goes before a notice; of one that we do not know of, the notice is the better explanation.
        let noticed = self.queued == 0 && std::mem::take(&mut self.notified);
        self.queued = self.queued.saturating_sub(1);
        self.begin_turn(if noticed { TurnOrigin::BackgroundNotice } else { TurnOrigin::Prompt }, out);
    }

    fn begin_turn(&mut self, origin: TurnOrigin, out: &mut Output<'_>) {
        self.turn = Some(ClaudeTurn { prompted: origin == TurnOrigin::Prompt, ..ClaudeTurn::default() });
        out.emit(Kind::TurnStarted(TurnStarted { origin, native_turn: None }));
    }

    /// Begins a turn with a prompt of the client, unless one runs. The turn tracker knows the prompt already.
    pub(super) fn prompted(&mut self, out: &mut Output<'_>) {
        match &mut self.turn {
            None => self.begin_turn(TurnOrigin::Prompt, out),
            Some(turn) => turn.prompted |= !turn.lively,
        }
    }

    /// Handles the announcement of a turn.
    pub(super) fn announced(&mut self, out: &mut Output<'_>) {
        // The next prompt's turn, although the last one was never ended.
        if self.queued > 0 && self.turn.as_ref().is_some_and(|turn| turn.lively) {
            self.turn_over();
        }
        self.open_turn(out);
    }

    /// Forgets the turn, which has ended.
    pub(super) fn turn_over(&mut self) {
        self.turn = None;
        self.speech.turn_over();
    }

    /// Returns whether the current turn was interrupted.
    pub(super) fn was_interrupted(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.interrupted)
    }

    /// Returns the error that stood where an answer should.
    pub(super) fn take_error(&mut self) -> Option<ApiError> {
        self.turn.as_mut()?.error.take()
    }

    /// Records that the agent, or a sub-agent, does something.
    pub(super) fn stir(&mut self, parent: Option<&str>, out: &mut Output<'_>) {
        match (&mut self.turn, parent) {
            (Some(turn), None) => {
                turn.lively = true;
                out.overcome();
            }
            (Some(_), Some(_)) => {}
            // `init` is not always the first line (2.1.325), and we may not have seen the prompt.
            (None, None) => {
                self.open_turn(out);
                self.turn.get_or_insert_default().lively = true;
            }
            // A sub-agent in the background continues between turns.
            (None, Some(_)) => self.begin_turn(TurnOrigin::BackgroundNotice, out),
        }
    }

    /// Handles a prompt that was sent.
    fn prompt(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        // The program rejects a line without a message.
        let Some(message) = line.object("message") else { return };
        let text = words(&message);
        match &mut self.turn {
            None => self.begin_turn(TurnOrigin::Prompt, out),
            // Words of a sub-agent have opened this one; it becomes the prompt's.
            Some(turn) if !turn.prompted && !turn.lively => turn.prompted = true,
            Some(_) => self.queued += 1,
        }
        out.user(UserOrigin::Human, &text, None);
    }

    /// Handles a piece of streamed text or thinking.
    fn delta(&mut self, delta: &ClaudeDelta<'_>, out: &mut Output<'_>) {
        let parent = delta.parent.as_deref();
        self.stir(parent, out);
        let which = Which { parent, id: delta.message.as_deref(), model: None };
        match &delta.piece {
            ClaudePiece::Text(text) => self.speech.piece(which, delta.block, BlockKind::Text, text, out),
            ClaudePiece::Thinking(text) => {
                self.speech.piece(which, delta.block, BlockKind::Thinking, text, out)
            }
            // The block that follows has it whole.
            ClaudePiece::Other => {}
        }
        out.quiet();
    }

    fn stream_event(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let Some(event) = line.object("event") else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some("stream_event"));
        };
        let parent = line.text("parent_tool_use_id");
        let parent = parent.as_deref();
        let message = event.object("message").unwrap_or_default();
        // Older versions have no `api_message_id`: there only `message_start` carries the id.
        let id = line.text("api_message_id").or_else(|| message.text("id"));
        let model = message.text("model");
        let which = Which { parent, id: id.as_deref(), model: model.as_deref() };
        let index = event.count("index").and_then(|index| u32::try_from(index).ok()).unwrap_or_default();
        self.stir(parent, out);
        match event.text_or_empty("type").as_ref() {
            "message_start" => {
                self.speech.begin(which, out);
                self.spend.told(which, message.raw("usage"), out);
            }
            "content_block_start" => self.speech.begin_block(which, index, out),
            "content_block_delta" => {
                let delta = event.object("delta").unwrap_or_default();
                let sort = match delta.text_or_empty("type").as_ref() {
                    "text_delta" => BlockKind::Text,
                    "thinking_delta" => BlockKind::Thinking,
                    _ => return,
                };
                let key = if sort == BlockKind::Text { "text" } else { "thinking" };
                self.speech.piece(which, index, sort, &delta.text_or_empty(key), out);
            }
            "content_block_stop" => self.speech.end_block(which, out),
            "message_delta" => self.spend.told(which, event.raw("usage"), out),
            // After a failure in mid-stream, 2.1.325 sends the text again under a new message id.
            // The text of this message is void from that index on.
            "message_stop" => match line.object("abandoned_blocks") {
                Some(abandoned) => {
                    let from = abandoned.count("from_block_index").unwrap_or_default();
                    self.speech.abandon(which, u32::try_from(from).unwrap_or(u32::MAX), out);
                }
                None => self.speech.end(which, out),
            },
            "ping" => {}
            other => {
                let name = format!("stream_event/{other}");
                out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&name));
            }
        }
    }

    fn control_request(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let id = line.text_or_empty("request_id");
        let request = line.object("request").unwrap_or_default();
        match request.text_or_empty("subtype").as_ref() {
            "can_use_tool" => self.requests.can_use_tool(&id, &request, out),
            "elicitation" => self.requests.elicitation(&id, &request, out),
            // Work for the host's own hooks and MCP servers.
            "hook_callback" | "mcp_message" => out.quiet(),
            other => {
                let name = format!("control_request/{other}");
                out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(&name));
            }
        }
    }
}
