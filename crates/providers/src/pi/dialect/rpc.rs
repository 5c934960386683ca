//! `pi-rpc`: the two-way mode. Commands go in, answers and events come out.
//!
//! A response confirms that a command was accepted, not that its work is done: events report that. Only responses have
//! the session's name, the model, how full the context is, and that a command was refused.

use bowline_protocol::kinds::{
    BackgroundTaskEnded, BackgroundTaskStarted, CompactTrigger, ContextCompacted, ContextGauge, Level,
    ModelChanged, Notice, QuestionAnswered, QuestionAsked, SessionStarted, ToolStatus, TurnOrigin,
};
use bowline_protocol::{Excerpt, Kind, NativeSessionId, QuestionId, TaskId};
use serde_json::Value;

use super::super::wire::{PiCommand, PiLine, PiResponseData};
use super::PiEventReader;
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::{api_error, loose_json};

/// Reads the two-way mode of pi.
#[derive(Debug, Default)]
pub(crate) struct PiRpc {
    events: PiEventReader,
    /// Whether we see what is sent.
    hears_host: bool,
    /// Whether an event reported a compaction, so that the response to `compact` adds nothing.
    compaction_told: bool,
}

impl Dialect for PiRpc {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(line) => super::read(line, out, |text, object, out| self.object(text, object, out)),
            Input::Sent(line) => self.sent(line, out),
            Input::Stderr(_) => {}
            Input::Eof(end) => self.events.end(end, out),
        }
    }
}

impl PiRpc {
    /// Returns whether a turn runs.
    pub(in crate::catalogue::pi) fn is_turning(&self) -> bool {
        self.events.in_turn
    }

    /// Handles an object of a line. Returns whether it could be read. If not, nothing was emitted.
    pub(in crate::catalogue::pi) fn object(
        &mut self,
        raw: &str,
        line: &PiLine<'_>,
        out: &mut Output<'_>,
    ) -> bool {
        match line.type_name.str() {
            "response" => self.response(line, out),
            "extension_ui_request" => extension_asks(line, out),
            "agent_start" => {
                let read = self.events.object(raw, line, out);
                // Until a prompt is sent, what begins next is the program's own doing.
                self.events.origin = self.hears_host.then_some(TurnOrigin::Agent);
                return read;
            }
            "compaction_end" | "auto_compaction_end" => {
                self.compaction_told = true;
                return self.events.object(raw, line, out);
            }
            _ => return self.events.object(raw, line, out),
        }
        true
    }

    /// Handles a command of the host.
    fn sent(&mut self, line: &str, out: &mut Output<'_>) {
        // Only if we see the host's lines can a start without a prompt be told from one with an unseen prompt.
        self.hears_host = true;
        let Ok(command) = serde_json::from_str::<PiCommand<'_>>(line) else { return };
        match command.type_name.str() {
            "prompt" | "steer" | "follow_up" => self.events.origin = Some(TurnOrigin::Prompt),
            "abort" => self.events.aborting = self.events.in_turn,
            // It runs beside the conversation, and also when no turn does.
            "bash" => out.emit(Kind::BackgroundTaskStarted(BackgroundTaskStarted {
                id: TaskId::from(command.id.text().unwrap_or("bash")),
                summary: Excerpt::with_limit(command.command.str(), 1024).text,
                tool: None,
            })),
            "compact" => self.compaction_told = false,
            "extension_ui_response" => {
                let confirmed =
                    command.confirmed.truth().map(|yes| if yes { "yes" } else { "no" }.to_owned());
                out.emit(Kind::QuestionAnswered(QuestionAnswered {
                    id: QuestionId::from(command.id.text().unwrap_or("question")),
                    answers: command.value.string().or(confirmed).into_iter().collect(),
                }));
            }
            // Their responses and events report their effects.
            _ => {}
        }
    }

    fn response(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        out.quiet();
        let data: PiResponseData<'_> = loose_json::part(line.data);
        let command = line.command.str();
        if command == "bash" {
            bash_ended(line, &data, out);
        }
        if line.success.truth() == Some(false) {
            return self.refused(command, line.error.text().unwrap_or("the command was refused"), out);
        }
        match command {
            "get_state" => out.emit(Kind::SessionStarted(SessionStarted {
                native_session: data.session_id.text().map(NativeSessionId::from),
                model: data.model.0.id.string(),
                ..SessionStarted::default()
            })),
            "set_model" | "cycle_model" => {
                if let Some(model) = data.model.0.id.string().or(data.id.string()) {
                    self.events.model = Some(model.clone());
                    out.emit(Kind::ModelChanged(ModelChanged { model, reason: None }));
                }
            }
            // Its tokens are the sum of the messages' reports.
            "get_session_stats" => {
                let usage = &data.context_usage.0;
                if let Some(used) = usage.tokens.whole() {
                    let window = usage.context_window.whole();
                    out.emit(Kind::ContextGauge(ContextGauge { used, window }));
                }
            }
            "compact" if !std::mem::take(&mut self.compaction_told) => {
                out.emit(Kind::ContextCompacted(ContextCompacted {
                    trigger: CompactTrigger::Manual,
                    tokens_before: data.tokens_before.whole(),
                    tokens_after: None,
                }));
            }
            // Accepted; or the response to a query about facts that events have reported.
            _ => {}
        }
    }

    fn refused(&mut self, command: &str, error: &str, out: &mut Output<'_>) {
        // A prompt that is refused between turns is a turn that failed before it began.
        if command == "prompt" && !self.events.in_turn {
            return out.failed(&api_error::report(error));
        }
        let text = format!("{command}: {error}");
        let code = Some("command_refused".to_owned());
        out.emit(Kind::Notice(Notice { level: Level::Warn, text, code }));
    }
}

fn bash_ended(line: &PiLine<'_>, data: &PiResponseData<'_>, out: &mut Output<'_>) {
    let refused = line.success.truth() == Some(false);
    let failed = refused || data.exit_code.number().is_some_and(|code| code != 0.0);
    out.emit(Kind::BackgroundTaskEnded(BackgroundTaskEnded {
        id: TaskId::from(line.id.text().unwrap_or("bash")),
        status: match (data.cancelled.truth(), failed) {
            (Some(true), _) => ToolStatus::Cancelled,
            (_, true) => ToolStatus::Failed,
            (_, false) => ToolStatus::Completed,
        },
        summary: data.output.text().map(|output| Excerpt::with_limit(output, 4096).text),
    }));
}

/// Takes what an extension wants from the user's interface.
fn extension_asks(line: &PiLine<'_>, out: &mut Output<'_>) {
    let message = || loose_json::part::<Value>(line.message).as_str().map(str::to_owned);
    match line.method.str() {
        "select" | "confirm" | "input" | "editor" => {
            let words = [line.title.string(), message()];
            let options: Value = loose_json::part(line.options);
            let choices = options.as_array().into_iter().flatten().filter_map(Value::as_str);
            out.emit(Kind::QuestionAsked(QuestionAsked {
                id: QuestionId::from(line.id.text().unwrap_or("question")),
                text: words.into_iter().flatten().collect::<Vec<_>>().join("\n"),
                choices: choices.map(str::to_owned).collect(),
                several: false,
            }));
        }
        "notify" => {
            let level = match line.notify_type.str() {
                "error" => Level::Error,
                "warning" => Level::Warn,
                _ => Level::Info,
            };
            out.notice(level, message().unwrap_or_default());
        }
        "setStatus" => super::status(line.status_text.text(), out),
        // Decoration of a terminal that is not there.
        _ => out.quiet(),
    }
}
