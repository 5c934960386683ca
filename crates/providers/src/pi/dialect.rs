//! The events of pi's JSON modes, how they end a turn, and the reader of `--mode json` and text mode.
//!
//! One prompt is one turn for us; pi's own turns are calls of the model. A request that fails and is retried ends pi's
//! run (`agent_end`) and begins another, so an end counts only when pi reports that nothing follows: by `agent_settled`
//! since 0.87, by `agent_end` before. Those older versions do not report at the end whether they will retry, so a failure
//! waits for the next event.

pub(super) mod rpc;

use bowline_protocol::kinds::{
    CompactTrigger, ContextCompacted, Level, Notice, OptionState, OptionsChanged, SessionStarted, Status,
    StopReason, TextRetracted, ToolStatus, ToolUpdated, TurnOrigin, TurnStarted, UnrecognizedReason,
};
use bowline_protocol::{Excerpt, Kind, MessageId, Millis, NativeSessionId, ToolId};

use super::tools::Tools;
use super::wire::{Compaction, PiLine};
use crate::decode::{Cause, End};
use crate::dialect::Output;
use crate::dialects::api_error::{self, Retry};
use crate::dialects::loose_json;
use crate::dialects::shaped::ShapedDialect;
use crate::dialects::speech::MessageBlocks;
use crate::failure::Report;
use crate::lenient;

/// Reads the output of pi. In text mode stdout is the answer and nothing else: errors are on stderr, and there the exit
/// code is 1.
#[derive(Debug, Default)]
pub(crate) struct PiDialect {
    events: PiEventReader,
}

impl ShapedDialect for PiDialect {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        self.events.line(line, out);
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        self.events.line(document, out);
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.events.end(end, out);
    }
}

/// Reads the events that both JSON modes print.
#[derive(Debug, Default)]
pub(super) struct PiEventReader {
    pub(super) speech: MessageBlocks,
    pub(super) tools: Tools,
    /// The model of the last message.
    pub(super) model: Option<String>,
    /// How the last assistant's message ended.
    pub(super) ending: Option<PiEnding>,
    /// The last message, if it has text and ended in an error: a retry repeats it.
    pub(super) failed_message: Option<MessageId>,
    /// Whether a turn runs.
    pub(super) in_turn: bool,
    /// Whether the host has aborted the turn that runs.
    pub(super) aborting: bool,
    /// Whether an old version has printed `agent_end` after a failure.
    ended_badly: bool,
    /// The trigger of the next turn.
    pub(super) origin: Option<TurnOrigin>,
}

/// How a turn would end if nothing followed.
#[derive(Debug)]
pub(super) enum PiEnding {
    Done(StopReason),
    Failed(Report),
    Aborted,
}

impl PiEventReader {
    /// Handles a line.
    pub(super) fn line(&mut self, line: &str, out: &mut Output<'_>) {
        read(line, out, |text, object, out| self.object(text, object, out));
    }

    /// Handles the end of the output: a failure that nothing followed is one.
    pub(super) fn end(&mut self, end: &End, out: &mut Output<'_>) {
        if self.in_turn && self.aborting && end.cause == Cause::Exited {
            return out.cancelled();
        }
        if let (true, Cause::Exited, Some(PiEnding::Failed(report))) =
            // `--mode json` exits with 0 after every error of the API (0.87.1): only the last message shows the failure.
            (self.in_turn, end.cause, self.ending.take())
        {
            out.failed(&report);
        }
    }

    /// Handles an event. Returns whether it could be read. If not, nothing was emitted.
    pub(super) fn object(&mut self, raw: &str, line: &PiLine<'_>, out: &mut Output<'_>) -> bool {
        match line.type_name.str() {
            "message_update" => self.update(raw, &line.assistant_message_event.0, out),
            "message_start" => return self.message_start(line.message, out),
            "message_end" => return self.message_end(raw, line.message, out),
            "session" => out.emit(Kind::SessionStarted(SessionStarted {
                native_session: line.id.text().map(NativeSessionId::from),
                cwd: line.cwd.string(),
                ..SessionStarted::default()
            })),
            "agent_start" => self.agent_start(out),
            "agent_end" => self.agent_end(line, out),
            "agent_settled" => {
                out.quiet();
                self.settle(out);
            }
            "tool_execution_start" => self.tools.start(line, out),
            "tool_execution_update" => self.tools.update(line, out),
            "tool_execution_end" => {
                // An abort stops the tools that run, which pi reports as errors.
                let failure = if self.aborting { ToolStatus::Cancelled } else { ToolStatus::Failed };
                self.tools.end(line, failure, out);
            }
            // Other lines report the same: a call of the model begins; its message and the results of its tools.
            "turn_start" | "turn_end" => out.quiet(),
            "auto_retry_start" => self.retrying(line, out),
            "auto_retry_end" => self.retried(line, out),
            // How the session's file changes. After a failed request, that its message is taken out of the context.
            "entry_appended" | "session_info_changed" => out.quiet(),
            // Our own messages that wait. They are reported when they are delivered.
            "queue_update" => out.quiet(),
            "compaction_start" | "auto_compaction_start" => status(Some("compacting"), out),
            "compaction_end" | "auto_compaction_end" => self.compacted(line, out),
            "summarization_retry_scheduled" => retry(line, out),
            // Told by `summarization_retry_scheduled` and by the end of the compaction.
            "summarization_retry_attempt_start" | "summarization_retry_finished" => out.quiet(),
            "thinking_level_changed" => {
                let current = line.level.string();
                let option = OptionState { id: "thinking".to_owned(), choices: Vec::new(), current };
                out.emit(Kind::OptionsChanged(OptionsChanged { options: vec![option] }));
            }
            // The output of a command of the host (`bash`), beside the conversation.
            "bash_execution_update" => out.emit(Kind::ToolUpdated(ToolUpdated {
                id: ToolId::from(line.id.text().unwrap_or("bash")),
                input_delta: None,
                input: None,
                output_delta: Some(Excerpt::of(line.delta.str())),
                title: None,
            })),
            "extension_error" => {
                let text =
                    format!("{}: {}", line.extension_path.text().unwrap_or("extension"), line.error.str());
                let code = Some("extension_error".to_owned());
                out.emit(Kind::Notice(Notice { level: Level::Error, text, code }));
            }
            other => {
                let name = Some(other).filter(|name| !name.is_empty());
                out.unrecognized(UnrecognizedReason::UnknownType, raw, name);
            }
        }
        true
    }

    fn agent_start(&mut self, out: &mut Output<'_>) {
        out.quiet();
        if self.ended_badly {
            // An old version failed and did not retry: this is another prompt.
            self.settle(out);
        }
        // After a retry the turn continues.
        if !self.in_turn {
            self.in_turn = true;
            let origin = self.origin.take().unwrap_or(TurnOrigin::Prompt);
            out.emit(Kind::TurnStarted(TurnStarted { origin, native_turn: None }));
        }
    }

    fn agent_end(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        out.quiet();
        // 0.87 has `willRetry`; versions up to 0.74 do not, and end with `agent_end` instead of `agent_settled`.
        match (line.will_retry.truth(), &self.ending) {
            (Some(true), _) => {}
            (Some(false), Some(PiEnding::Done(stop))) => out.complete_at_eof(Some(*stop)),
            (Some(false), None) => out.complete_at_eof(None),
            // The end of the output is taken care of in `end`.
            (Some(false), Some(PiEnding::Failed(_) | PiEnding::Aborted)) => {}
            (None, Some(PiEnding::Failed(_))) => self.ended_badly = true,
            (None, Some(PiEnding::Done(_) | PiEnding::Aborted) | None) => self.settle(out),
        }
    }

    /// Ends the turn: nothing follows.
    fn settle(&mut self, out: &mut Output<'_>) {
        self.ended_badly = false;
        self.failed_message = None;
        out.overcome();
        let aborted = std::mem::take(&mut self.aborting);
        if !std::mem::take(&mut self.in_turn) {
            return;
        }
        match (self.ending.take(), aborted) {
            // The answer was complete before the abort took effect.
            (Some(PiEnding::Done(stop)), _) => out.completed(Some(stop)),
            // An abort during a tool ends in a message with the stop reason `error` (0.87.1).
            (Some(PiEnding::Failed(_)) | None, true) | (Some(PiEnding::Aborted), _) => out.cancelled(),
            (Some(PiEnding::Failed(report)), false) => out.failed(&report),
            (None, false) => out.completed(None),
        }
    }

    fn retrying(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        self.ended_badly = false;
        self.start_over(out);
        retry(line, out);
    }

    /// Retracts the text of a failed request: it will be repeated.
    fn start_over(&mut self, out: &mut Output<'_>) {
        self.ending = None;
        out.incomplete_at_eof();
        if let Some(message) = self.failed_message.take() {
            out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
        }
    }

    fn retried(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        out.quiet();
        // If the last attempt failed, its message has the reason. If there was none, the wait for it was cancelled.
        if line.success.truth() == Some(false) && self.ending.is_none() {
            let error = line.final_error.str();
            let broken_off = ["cancel", "abort"].iter().any(|word| error.to_ascii_lowercase().contains(word));
            let failed = || PiEnding::Failed(api_error::report(error));
            self.ending = Some(if broken_off { PiEnding::Aborted } else { failed() });
        }
    }

    fn compacted(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        status(None, out);
        if let Some(error) = line.error_message.text() {
            out.notice(Level::Warn, error);
        }
        if line.result.is_some() && line.aborted.truth() != Some(true) {
            let result: Compaction<'_> = loose_json::part(line.result);
            let manual = line.reason.text() == Some("manual");
            out.emit(Kind::ContextCompacted(ContextCompacted {
                trigger: if manual { CompactTrigger::Manual } else { CompactTrigger::Auto },
                tokens_before: result.tokens_before.whole(),
                tokens_after: result.tokens_after.whole().or(result.estimated_tokens_after.whole()),
            }));
        }
        // The request did not fit and is sent again, now that it does.
        if line.will_retry.truth() == Some(true) {
            self.ended_badly = false;
            self.start_over(out);
        }
    }
}

/// Reads the objects of a line. `take` returns whether it could read one; if not, it gets it once more as plain JSON.
pub(super) fn read(
    line: &str,
    out: &mut Output<'_>,
    mut take: impl FnMut(&str, &PiLine<'_>, &mut Output<'_>) -> bool,
) {
    lenient::each_borrowed(line, out, |text, out| {
        serde_json::from_str::<PiLine<'_>>(text).is_ok_and(|object| take(text, &object, out))
    });
}

pub(super) fn status(status: Option<&str>, out: &mut Output<'_>) {
    out.emit(Kind::Status(Status { status: status.map(str::to_owned) }));
}

fn retry(line: &PiLine<'_>, out: &mut Output<'_>) {
    let message = line.error_message.str();
    Retry {
        attempt: line.attempt.small(),
        max_attempts: line.max_attempts.small(),
        delay: line.delay_ms.whole().map(Millis),
        report: Some(&api_error::report(message)),
        message,
    }
    .emit(out);
}
