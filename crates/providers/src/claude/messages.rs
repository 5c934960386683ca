//! Whole messages: `assistant` lines, one for each block, and `user` lines, which mostly hold results of tools.

pub(super) mod speech;

use bowline_protocol::kinds::{Level, Notice, ToolStatus, UnrecognizedReason, UserOrigin};
use bowline_protocol::{Excerpt, Kind, ToolId};

use self::speech::Which;
use super::approvals::Settled;
use super::dialect::Claude;
use super::failures::ApiError;
use super::tools::ToolEnding;
use super::wire::ClaudeObject;
use super::wire::user::{ResultContent, ToolResultDetails, UserBlock, UserLine};
use crate::dialect::Output;
use crate::dialects::speech::BlockKind;

impl Claude {
    /// Handles an `assistant` line: a block of a message, whole.
    pub(super) fn assistant(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        out.quiet();
        let Some(message) = line.object("message") else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some("assistant"));
        };
        let parent = line.text("parent_tool_use_id");
        let parent = parent.as_deref();
        // The program's own messages (errors, interrupts, local commands) have this in place of a model.
        let model = message.text("model").filter(|model| model != "<synthetic>");
        self.stir(parent, out);
        // 2.1.197 has no `is_api_error_message`: there an `error` on a synthetic message is the sign.
        let told = line.is("is_api_error_message");
        let is_error = told || line.raw("error").is_some();
        if told || is_error && model.is_none() {
            return self.api_error(line, words(&message), parent, out);
        }
        let outcome = line.object("local_command_outcome").and_then(|outcome| outcome.text("kind"));
        if outcome.as_deref() == Some("failed") {
            let (level, text) = (Level::Error, Excerpt::with_limit(&words(&message), 4096).text);
            return out.emit(Kind::Notice(Notice { level, text, code: Some("local_command_failed".into()) }));
        }
        if let (Some(turn), true) = (&mut self.turn, is_error && parent.is_none()) {
            // The message has a real model, so its text is an answer: keep the fields of the error, not the text.
            turn.error = Some(ApiError::of(line, String::new()));
        }
        if let (Some(model), None) = (&model, parent) {
            self.changed_model(model, None, out);
        }
        if let (Some(turn), true) = (&mut self.turn, line.is("aborted") && parent.is_none()) {
            turn.interrupted = true;
        }
        let id = message.text("id");
        let which = Which { parent, id: id.as_deref(), model: model.as_deref() };
        // One without an id cannot be told from its other blocks.
        if model.is_some() && id.is_some() {
            self.spend.told(which, message.raw("usage"), out);
        }
        // Content may be a plain string instead of blocks.
        if let Some(text) = message.text("content") {
            return self.speech.block(which, BlockKind::Text, &text, out);
        }
        for block in message.objects("content") {
            self.block(which, &block, out);
        }
    }

    fn block(&mut self, which: Which<'_>, block: &ClaudeObject<'_>, out: &mut Output<'_>) {
        match block.text_or_empty("type").as_ref() {
            "text" => self.speech.block(which, BlockKind::Text, &block.text_or_empty("text"), out),
            "thinking" => {
                self.speech.block(which, BlockKind::Thinking, &block.text_or_empty("thinking"), out)
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.speech.call(which, out);
                self.calls.start(block, which.parent, out);
            }
            kind if kind.ends_with("tool_result") => {
                self.speech.skip(which, out);
                let status = if block.is("is_error") { ToolStatus::Failed } else { ToolStatus::Completed };
                let output = ResultContent::of(block.raw("content"));
                let output = output.words();
                let ending = ToolEnding { status, output: output.as_deref(), details: None };
                self.calls.end(block.text("tool_use_id").as_deref(), &ending, out);
            }
            // Thoughts that are not shown, and everything else that is neither text nor a tool.
            _ => self.speech.skip(which, out),
        }
    }

    /// Handles an error that is printed in place of the agent's text.
    fn api_error(
        &mut self,
        line: &ClaudeObject<'_>,
        text: String,
        parent: Option<&str>,
        out: &mut Output<'_>,
    ) {
        if parent.is_some() {
            // A sub-agent's failure goes back to the agent as the result of its tool. It does not fail the turn.
            return out.notice(Level::Error, Excerpt::with_limit(&text, 4096).text);
        }
        // Before the error is recorded: streamed text that no block confirmed must not remain as the answer.
        self.speech.broken(out);
        out.remember_error(&text);
        if let Some(turn) = &mut self.turn {
            turn.error = Some(ApiError::of(line, text));
        }
    }

    /// Handles a `user` line: results of tools, or a text on the user's side.
    pub(super) fn user(&mut self, raw: &str, line: &UserLine<'_>, out: &mut Output<'_>) {
        out.quiet();
        let Some(message) = &line.message.0 else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some("user"));
        };
        let results = message.content.results();
        // `--replay-user-messages` repeats old lines; their tool results were reported when they happened.
        if line.is_replay.0 != Some(true) {
            for result in &results {
                self.stir(line.parent_tool_use_id.get(), out);
                // The details are those of the only result.
                let details = line.tool_use_result.0.as_ref().filter(|_| results.len() == 1);
                self.tool_result(line, result, details, out);
            }
        }
        let text = message.content.words().unwrap_or_default();
        if !text.is_empty() || results.is_empty() {
            self.user_text(line, &text, out);
        }
    }

    fn tool_result(
        &mut self,
        line: &UserLine<'_>,
        block: &UserBlock<'_>,
        details: Option<&ToolResultDetails<'_>>,
        out: &mut Output<'_>,
    ) {
        let id = block.tool_use_id.or_empty();
        let mut metas = line.tool_result_meta.0.iter().filter_map(|meta| meta.0.as_ref());
        let meta = metas.find(|meta| meta.id.get() == Some(id));
        let decision = meta.and_then(|meta| meta.permission_decision.0.decision.get());
        let not_run = meta.and_then(|meta| meta.non_execution_kind.get());
        let output = block.content.words();
        let words = output.as_deref().unwrap_or_default();
        let is_error = block.is_error.0 == Some(true);
        // Versions without `tool_result_meta` have only a text for it.
        let rejected = not_run == Some("user-rejected")
            || is_error && words.starts_with("The user doesn't want to proceed with this tool use");
        let forbidden = decision == Some("reject")
            || not_run == Some("permission-rule")
            || is_error && words.starts_with("Claude requested permissions to");
        let answers = details.and_then(|details| details.answers.0.as_ref());
        let settled = Settled { tool: id, refused: rejected || forbidden, output: words, answers };
        // Before `is_refused` is read: settling an open request is what records the refusal.
        self.requests.settled(&settled, out);
        let status = if forbidden || self.requests.is_refused(id) {
            ToolStatus::Denied
        } else if rejected || details.is_some_and(|details| details.interrupted.0 == Some(true)) {
            // The call was stopped, not denied, which the program reports with the same text.
            ToolStatus::Cancelled
        } else if is_error {
            ToolStatus::Failed
        } else {
            ToolStatus::Completed
        };
        let ending = ToolEnding { status, output: output.as_deref(), details };
        self.calls.end(block.tool_use_id.get(), &ending, out);
    }

    /// Handles a text on the user's side. None that the program prints is a person's.
    fn user_text(&mut self, line: &UserLine<'_>, text: &str, out: &mut Output<'_>) {
        let parent = line.parent_tool_use_id.get();
        // `[Request interrupted by user]` and `[… for tool use]`: the program's own text, not a person's.
        let interrupted = text.starts_with("[Request interrupted by user");
        let of_command = text.starts_with("<local-command-std");
        if (interrupted || of_command) && self.turn.is_none() {
            // Between turns (the answer to `set_model`, say) there is no conversation that it belongs to.
            let text = Excerpt::with_limit(&untagged(text), 4096).text;
            let code = Some("local_command_output".into());
            return out.emit(Kind::Notice(Notice { level: Level::Info, text, code }));
        }
        if parent.is_none() {
            self.open_turn(out);
        }
        if let (Some(turn), true) = (&mut self.turn, interrupted) {
            turn.interrupted = true;
        }
        if text.starts_with("[structured-output-enforce]") {
            self.speech.reject(out);
        }
        let replayed = line.is_replay.0 == Some(true);
        let origin = if replayed { UserOrigin::Replayed } else { UserOrigin::Synthetic };
        let parent = parent.map(ToolId::from);
        out.user(origin, text, parent.as_ref());
    }
}

/// Returns the text of a message, whether it is a string or blocks.
pub(super) fn words(message: &ClaudeObject<'_>) -> String {
    ResultContent::of(message.raw("content")).words().unwrap_or_default().into_owned()
}

/// Returns the output of a local command without the tags around it.
fn untagged(text: &str) -> String {
    let inner = text.split_once('>').map_or(text, |(_, inner)| inner);
    inner.rsplit_once("</").map_or(inner, |(inner, _)| inner).trim().to_owned()
}
