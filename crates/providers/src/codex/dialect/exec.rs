//! `codex-exec`: what `codex exec` prints, as JSON lines, as the JSON lines of older versions, or as plain text.
//!
//! Messages come whole. `error` lines are mostly notices of retries: only `turn.failed` ends a turn badly.

use bowline_protocol::kinds::{
    Phase, Retrying, SessionStarted, TurnOrigin, TurnStarted, UnrecognizedReason, UserOrigin,
};
use bowline_protocol::{Basis, Kind, NativeSessionId};
use serde_json::Value;

use super::super::failures;
use super::super::messages::CodexMessages;
use super::super::stderr::{CodexStderr, StderrReport};
use super::super::tools::{CodexToolCalls, CodexToolStep, Was};
use super::super::usage;
use super::super::wire;
use super::super::wire::{CodexLine, Item, part, text};
use super::ending::{CodexEnding, TurnProgress};
use super::legacy::{Legacy, Msg};
use crate::decode::End;
use crate::dialect::Output;
use crate::dialects::content;
use crate::dialects::loose_json::Maybe;
use crate::dialects::shaped::ShapedDialect;
use crate::dialects::speech::BlockKind;
use crate::lenient;

/// Reads the output of `codex exec`.
#[derive(Debug, Default)]
pub(crate) struct Exec {
    state: ExecState,
    legacy: Legacy,
    stderr: CodexStderr,
}

/// The shared state of both forms of JSON lines.
#[derive(Debug, Default)]
pub(crate) struct ExecState {
    pub(crate) speech: CodexMessages,
    pub(crate) calls: CodexToolCalls,
    pub(crate) turn: TurnProgress,
    /// The thread that the process works on.
    thread: Option<NativeSessionId>,
    /// An error that was reported and not recovered from.
    pub(crate) error: Option<String>,
    /// The retry that is under way.
    retrying: Option<Retrying>,
}

impl ShapedDialect for Exec {
    fn line(&mut self, line: &str, out: &mut Output<'_>) {
        // The fast path: a long turn consists mostly of these lines.
        if let Some(text) = wire::whole_message(line) {
            self.state.progress();
            return self.state.speech.whole(BlockKind::Text, &text, Phase::Final, None, out);
        }
        // A derived reader would take an array for an object, so the brace is looked for first.
        if line.starts_with('{')
            && let Ok(read) = serde_json::from_str::<CodexLine<'_>>(line)
        {
            return self.object(&read, line, out);
        }
        // `web_search` items have the key `id` twice.
        lenient::each_object(line, out, |value: Value, out| {
            let text = value.to_string();
            match serde_json::from_str::<CodexLine<'_>>(&text) {
                Ok(read) => self.object(&read, &text, out),
                Err(_) => out.unrecognized(UnrecognizedReason::BadShape, &text, None),
            }
        });
    }

    fn document(&mut self, document: &str, out: &mut Output<'_>) {
        self.line(document, out);
    }

    fn stderr(&mut self, line: &str, out: &mut Output<'_>) {
        match self.stderr.line(line, out) {
            StderrReport::Nothing => {}
            StderrReport::Retry(retrying) => self.state.retry(retrying, out),
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        self.stderr.end(out);
        // Plain text reports no turn; everything after the banner is one.
        let begun = self.state.turn == TurnProgress::None && self.stderr.has_begun();
        let turn = if begun { TurnProgress::Open } else { self.state.turn };
        let ending = CodexEnding {
            turn,
            reason: self.state.error.as_deref().or(self.stderr.reason()),
            retrying: self.state.retrying.as_ref(),
        };
        ending.judge(end, out);
    }
}

impl Exec {
    fn object(&mut self, line: &CodexLine<'_>, raw: &str, out: &mut Output<'_>) {
        let type_name = line.type_name.or_empty();
        match type_name {
            "thread.started" => {
                let native_session = line.thread_id.get().map(NativeSessionId::from);
                self.state.thread = native_session.clone();
                out.emit(Kind::SessionStarted(SessionStarted {
                    native_session,
                    ..SessionStarted::default()
                }));
            }
            "turn.started" => self.state.begin(line.id.owned(), out),
            "turn.completed" => {
                if let Some(usage) = line.usage.usage() {
                    // Of the whole thread, earlier processes included: three turns reported 1200, 2400, 3600 (0.166.0).
                    out.emit(usage::reported(usage, Basis::Cumulative));
                }
                self.state.ended();
                out.completed(None);
            }
            "turn.failed" => {
                // Only here: an `error` line alone is often a retry notice, and the program continues after it.
                let error = error_text(line).or_else(|| self.state.error.take());
                self.state.ended();
                out.failed(&failures::report(
                    error.as_deref().unwrap_or("Codex reported a failed turn without a reason"),
                ));
            }
            "error" => self.state.error(&error_text(line).unwrap_or_default(), out),
            "item.started" => self.state.item(CodexToolStep::Started, line, raw, out),
            "item.updated" => self.state.item(CodexToolStep::Updated, line, raw, out),
            "item.completed" => self.state.item(CodexToolStep::Completed, line, raw, out),
            "" => self.untyped(line, raw, out),
            _ => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(type_name)),
        }
    }

    /// Handles a line of an older version: an event, the prompt, or the settings.
    fn untyped(&mut self, line: &CodexLine<'_>, raw: &str, out: &mut Output<'_>) {
        if let Maybe(Some(msg)) = part::<Maybe<Msg<'_>>>(line.msg) {
            self.legacy.message(&msg, raw, &mut self.state, out);
        } else if let Some(prompt) = text(line.prompt) {
            out.user(UserOrigin::Replayed, &prompt, None);
        } else if line.workdir.is_some() {
            out.emit(Kind::SessionStarted(SessionStarted {
                model: text(line.model),
                cwd: text(line.workdir),
                permission_mode: text(line.approval),
                ..SessionStarted::default()
            }));
        } else {
            out.unrecognized(UnrecognizedReason::UnknownType, raw, None);
        }
    }
}

impl ExecState {
    /// A turn begins.
    pub(crate) fn begin(&mut self, native_turn: Option<String>, out: &mut Output<'_>) {
        // A turn that never got its end is closed first, so that its retries and errors do not count for this one.
        self.ended();
        self.turn = TurnProgress::Open;
        out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn }));
        // A turn that is already open needs no event.
        out.quiet();
    }

    /// A turn ends.
    pub(crate) fn ended(&mut self) {
        self.turn = TurnProgress::Ended;
        self.speech.turn();
        self.error = None;
        self.retrying = None;
    }

    /// Handles an error line: a notice of a retry, or the message of the `turn.failed` that follows.
    pub(crate) fn error(&mut self, message: &str, out: &mut Output<'_>) {
        match failures::retrying(message) {
            Some(retrying) => self.retry(retrying, out),
            None => {
                out.remember_error(message);
                self.error = Some(message.to_owned());
            }
        }
    }

    pub(crate) fn retry(&mut self, retrying: Retrying, out: &mut Output<'_>) {
        // Before the event: 0.166.0 prints messages again after a retry, under new item ids.
        self.speech.retried();
        self.retrying = Some(retrying.clone());
        out.emit(Kind::Retrying(retrying));
    }

    /// Something came of the request.
    pub(crate) fn progress(&mut self) {
        self.retrying = None;
    }

    fn item(&mut self, step: CodexToolStep, line: &CodexLine<'_>, raw: &str, out: &mut Output<'_>) {
        let Some(item) = &line.item.0 else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, line.type_name.get());
        };
        let said = item.agent_message.0.as_ref().map(|said| &said.text);
        let type_name = item.type_name.or_empty();
        let sort = match type_name {
            "agent_message" | "assistant_message" => BlockKind::Text,
            // As the adapter protocol documents it: the text one level down, or no type at all.
            "" if said.is_some() || item.text.get().is_some() => BlockKind::Text,
            "reasoning" => BlockKind::Thinking,
            _ => return self.work(step, item, raw, out),
        };
        let Some(text) = item.text.get().or_else(|| said?.get()) else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some(type_name));
        };
        match step {
            // Only when it is complete: started and updated would repeat it.
            CodexToolStep::Started | CodexToolStep::Updated => out.quiet(),
            CodexToolStep::Completed => {
                self.progress();
                self.speech.whole(sort, text, phase(item), None, out);
            }
        }
    }

    fn work(&mut self, step: CodexToolStep, item: &Item<'_>, raw: &str, out: &mut Output<'_>) {
        let own = self.thread.as_ref().map(NativeSessionId::as_str);
        // Calls between agents name the sending thread. One from our own thread has no parent.
        let sender = item.sender_thread_id.get().filter(|sender| own != Some(*sender));
        let parent = sender.and_then(|sender| self.calls.maker(sender)).cloned();
        match self.calls.item(step, item, parent.as_ref(), out) {
            Was::Tool => {
                self.progress();
                if step == CodexToolStep::Completed {
                    self.speech.tool_ended();
                }
            }
            Was::Known => {}
            Was::Unknown => out.unrecognized(UnrecognizedReason::UnknownType, raw, item.type_name.get()),
        }
    }
}

/// Returns whether a message is commentary; `exec` drops the field for it today.
pub(crate) fn phase(item: &Item<'_>) -> Phase {
    if item.phase.get() == Some("commentary") { Phase::Commentary } else { Phase::Final }
}

/// Returns the error message of a line: `message`, `error.message`, or an `error` of another shape.
fn error_text(line: &CodexLine<'_>) -> Option<String> {
    let field = || content::error(&serde_json::from_str::<Value>(line.error?.get()).ok()?);
    line.message.owned().or_else(field)
}
