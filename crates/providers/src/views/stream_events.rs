//! The seven normalized stream events of a chat bot's CLI layer, with one result per turn.
//!
//! A result counts its own turn only, so that a reader may add results up. `num_turns` is the program's own count; where
//! it reports none, it is the number of our turn, which is not reset. A cancelled
//! turn has an empty result: the bot that requested the stop does not want half an answer. Tools of sub-agents are shown,
//! their text is not. A second attempt at a request does not start the session again, and it replaces the first:
//! only its result is printed. So the result of a turn that Bowline itself judged as failed waits for the next event.

use bowline_protocol::kinds::{CompactTrigger, Outcome, SessionStarted, TurnEnded};
use bowline_protocol::{Event, Exit, Json, Kind, NativeSessionId, Source, Timestamp, ToolId, Usage};
use serde::Serialize;

use super::answer::{AnswerFold, Keep};
use super::calls::{LateCall, LateCalls};
use super::opening::Opening;
use super::{Setup, View, line};

/// Makes the view.
pub(crate) fn make(_: &Setup) -> Box<dyn View> {
    Box::new(StreamEvents {
        answer: AnswerFold::new(Keep::Answer),
        calls: LateCalls::default(),
        turn_began: None,
        opening: Opening::default(),
        held: None,
    })
}

#[derive(Debug)]
struct StreamEvents {
    answer: AnswerFold,
    calls: LateCalls,
    /// When the turn that is running began.
    turn_began: Option<Timestamp>,
    opening: Opening,
    /// The result of a turn that may be tried again.
    held: Option<String>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum StreamRecord<'a> {
    #[serde(rename = "SystemInitEvent")]
    SystemInit { session_id: Option<&'a NativeSessionId> },
    #[serde(rename = "AssistantTextDelta")]
    AssistantText { text: &'a str },
    #[serde(rename = "ThinkingEvent")]
    Thinking { text: &'a str },
    #[serde(rename = "ToolUseEvent")]
    ToolUse { tool_name: &'a str, tool_id: &'a ToolId, parameters: Json },
    #[serde(rename = "SystemStatusEvent")]
    SystemStatus { status: Option<&'a str> },
    #[serde(rename = "CompactBoundaryEvent")]
    CompactBoundary { trigger: CompactTrigger, pre_tokens: Option<u64> },
    #[serde(rename = "ResultEvent")]
    Result {
        session_id: Option<&'a NativeSessionId>,
        result: String,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        returncode: Option<i32>,
        duration_ms: u64,
        total_cost_usd: Option<f64>,
        usage: StreamUsage,
        num_turns: u32,
    },
}

/// Empty when nothing is known: readers look keys up in it without checking that it exists.
#[derive(Default, Serialize)]
struct StreamUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u64>,
}

impl View for StreamEvents {
    fn event(&mut self, event: &Event, out: &mut String) {
        let before = out.len();
        self.tell(event, out);
        self.opening.put(out, before, |out| line(out, &StreamRecord::SystemInit { session_id: None }));
    }

    fn finish(&mut self, out: &mut String) {
        let before = out.len();
        out.extend(self.held.take());
        self.release_calls(out);
        // A turn that was cut off has a result too, or its reader would wait for one.
        if let Some(began) = self.turn_began {
            self.result(self.answer.tally.last_at.unwrap_or(began), None, out);
        }
        self.opening.put(out, before, |out| line(out, &StreamRecord::SystemInit { session_id: None }));
    }
}

impl StreamEvents {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format has no record for the other kinds")]
    fn tell(&mut self, event: &Event, out: &mut String) {
        self.settle(event, out);
        self.answer.event(event);
        match &event.kind {
            Kind::SessionStarted(started) => self.session_started(event, started, out),
            Kind::FallbackTaken(_) => self.opening.again(),
            Kind::Retrying(_) if event.source == Source::Bowline => self.opening.again(),
            Kind::TurnStarted(_) => self.turn_began = Some(event.at),
            Kind::TurnEnded(ended) => {
                self.release_calls(out);
                self.result(event.at, Some(ended), out);
            }
            Kind::TextDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                line(out, &StreamRecord::AssistantText { text: &delta.text });
            }
            Kind::ThinkingDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                line(out, &StreamRecord::Thinking { text: &delta.text });
            }
            Kind::ToolStarted(tool) => {
                if let Some(call) = self.calls.started(tool) {
                    tool_use(call, out);
                }
            }
            Kind::ToolUpdated(update) => {
                if let Some(call) = self.calls.updated(update) {
                    tool_use(call, out);
                }
            }
            Kind::ToolFinished(finished) => {
                if let Some(call) = self.calls.finished(&finished.id) {
                    tool_use(&call, out);
                }
            }
            Kind::Status(status) => {
                line(out, &StreamRecord::SystemStatus { status: status.status.as_deref() })
            }
            Kind::ContextCompacted(compacted) => {
                let (trigger, pre_tokens) = (compacted.trigger, compacted.tokens_before);
                line(out, &StreamRecord::CompactBoundary { trigger, pre_tokens });
            }
            _ => {}
        }
    }

    fn session_started(&mut self, event: &Event, started: &SessionStarted, out: &mut String) {
        if self.opening.is_told_by(event, started.native_session.is_some()) {
            line(out, &StreamRecord::SystemInit { session_id: started.native_session.as_ref() });
        }
    }

    /// Prints a result that was held back, unless this event starts the request again.
    #[expect(clippy::wildcard_enum_match_arm, reason = "whatever else happens, the turn stays as it ended")]
    fn settle(&mut self, event: &Event, out: &mut String) {
        match event.kind {
            Kind::FallbackTaken(_) => self.held = None,
            // It is printed together with the end of the turn.
            Kind::ResumeAnswered(_) => {}
            _ => out.extend(self.held.take()),
        }
    }

    fn result(&mut self, at: Timestamp, ended: Option<&TurnEnded>, out: &mut String) {
        let began = self.turn_began.take().unwrap_or(at);
        let tally = &self.answer.tally;
        let (result, is_error) = match (tally.outcome, tally.trouble()) {
            (Some(Outcome::Cancelled), _) => (String::new(), false),
            (_, Some(failure)) => (failure.message, true),
            (_, None) => (self.answer.text().to_string(), false),
        };
        let mut told = String::new();
        line(
            &mut told,
            &StreamRecord::Result {
                session_id: tally.native_session.as_ref(),
                result,
                is_error,
                returncode: tally.failure.as_ref().and_then(|failure| failure.exit).map(returncode),
                duration_ms: at.since(began).0,
                total_cost_usd: ended.and_then(|ended| ended.cost_usd),
                usage: ended.and_then(|ended| ended.usage).map(StreamUsage::from).unwrap_or_default(),
                num_turns: ended.and_then(|ended| ended.num_turns).unwrap_or(tally.turns),
            },
        );
        // A verdict of the program's own has a place in its output, and is final.
        let concluded = tally.failure.as_ref().is_some_and(|failure| failure.raw.is_none());
        if concluded && ended.is_some() {
            self.held = Some(told);
        } else {
            out.push_str(&told);
        }
    }

    fn release_calls(&mut self, out: &mut String) {
        for call in self.calls.rest() {
            tool_use(call, out);
        }
    }
}

fn tool_use(call: &LateCall, out: &mut String) {
    let record = StreamRecord::ToolUse {
        tool_name: spoken(&call.name),
        tool_id: &call.id,
        parameters: call.arguments(),
    };
    line(out, &record);
}

/// Returns the name by which the CLI layer knows a tool. Programs that name their items by what they do get the names
/// of the tools that do it.
fn spoken(name: &str) -> &str {
    match name {
        "command_execution" => "Bash",
        "file_change" => "Edit",
        "web_search" => "WebSearch",
        "todo_list" => "TodoWrite",
        "mcp_tool_call" => "MCP",
        other => other,
    }
}

/// Returns an exit as Python's `subprocess` does: a signal is a negative number.
fn returncode(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => -signal,
    }
}

impl From<Usage> for StreamUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: Some(usage.input),
            output_tokens: Some(usage.output),
            cache_read_input_tokens: Some(usage.cache_read),
            cache_creation_input_tokens: Some(usage.cache_write),
        }
    }
}
