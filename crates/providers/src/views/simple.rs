//! pi's simple protocol: text, thinking, tool calls and results, then `done` or an error.
//!
//! The protocol has no message boundaries, so a newline in the delta separates one message from the next. It has no
//! retraction either: text that was printed stays. Tools of sub-agents are shown, their text is not.

use std::collections::HashMap;

use bowline_protocol::kinds::{TextDelta, ToolFinished, ToolStatus, ToolUpdated};
use bowline_protocol::{Category, Code, Event, Excerpt, Json, Kind, MessageId, ToolId};
use serde::Serialize;

use super::calls::{LateCall, LateCalls};
use super::tally::Tally;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(SimpleView::default())
}

#[derive(Debug, Default)]
struct SimpleView {
    tally: Tally,
    calls: LateCalls,
    /// Output of running tools that came in pieces, for those that end without repeating it.
    outputs: HashMap<ToolId, String>,
    /// The turn and message of the last text.
    speaker: Option<(u32, MessageId)>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SimpleRecord<'a> {
    Text {
        delta: &'a str,
    },
    Thinking {
        delta: &'a str,
    },
    ToolCall {
        id: &'a ToolId,
        name: &'a str,
        arguments: Json,
    },
    ToolResult {
        id: &'a ToolId,
        content: &'a str,
        #[serde(rename = "isError", skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Done,
    Error {
        message: &'a str,
        category: Category,
        code: &'a Code,
    },
}

impl View for SimpleView {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format has no record for the other kinds")]
    fn event(&mut self, event: &Event, out: &mut String) {
        self.tally.event(event);
        match &event.kind {
            Kind::TextDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                self.text(delta, out)
            }
            Kind::ThinkingDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                line(out, &SimpleRecord::Thinking { delta: &delta.text });
            }
            Kind::ToolStarted(tool) => {
                if let Some(call) = self.calls.started(tool) {
                    tool_call(call, out);
                }
            }
            Kind::ToolUpdated(update) => {
                if let Some(call) = self.calls.updated(update) {
                    tool_call(call, out);
                }
                self.keep_output(update);
            }
            Kind::ToolFinished(finished) => self.tool_finished(finished, out),
            Kind::TurnEnded(_) => self.release_calls(out),
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        self.release_calls(out);
        match self.tally.trouble() {
            None => line(out, &SimpleRecord::Done),
            Some(failure) => {
                let (message, category) = (failure.message.as_str(), failure.category);
                line(out, &SimpleRecord::Error { message, category, code: &failure.code });
            }
        }
    }
}

impl SimpleView {
    fn text(&mut self, delta: &TextDelta, out: &mut String) {
        let goes_on = self
            .speaker
            .as_ref()
            .is_none_or(|(turn, message)| *turn == self.tally.turns && *message == delta.message);
        if goes_on {
            line(out, &SimpleRecord::Text { delta: &delta.text });
        } else {
            line(out, &SimpleRecord::Text { delta: &format!("\n{}", delta.text) });
        }
        self.speaker = Some((self.tally.turns, delta.message.clone()));
    }

    fn keep_output(&mut self, update: &ToolUpdated) {
        let Some(piece) = &update.output_delta else { return };
        let kept = self.outputs.entry(update.id.clone()).or_default();
        let room = Excerpt::LIMIT.saturating_sub(kept.len());
        kept.push_str(&piece.text[..piece.text.floor_char_boundary(room)]);
    }

    fn tool_finished(&mut self, finished: &ToolFinished, out: &mut String) {
        if let Some(call) = self.calls.finished(&finished.id) {
            tool_call(&call, out);
        }
        let kept = self.outputs.remove(&finished.id).unwrap_or_default();
        let content = finished.output.as_ref().map_or(kept.as_str(), |output| &output.text);
        let is_error = match finished.status {
            ToolStatus::Completed => false,
            ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Cancelled => true,
        };
        line(out, &SimpleRecord::ToolResult { id: &finished.id, content, is_error });
    }

    fn release_calls(&mut self, out: &mut String) {
        for call in self.calls.rest() {
            tool_call(call, out);
        }
    }
}

fn tool_call(call: &LateCall, out: &mut String) {
    line(out, &SimpleRecord::ToolCall { id: &call.id, name: &call.name, arguments: call.arguments() });
}
