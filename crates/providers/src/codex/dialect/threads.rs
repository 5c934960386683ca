//! The threads, turns and items of `codex-app-server`.

use bowline_protocol::kinds::{Level, Retrying, ToolUpdated, TurnOrigin, TurnStarted, UnrecognizedReason};
use bowline_protocol::{Basis, Category, Decider, Excerpt, Kind, ToolId};
use serde_json::value::RawValue;

use super::super::failures;
use super::super::messages::stream::RAW_THOUGHT;
use super::super::tools::{CodexToolStep, Was};
use super::super::usage::{self, TokenCounts};
use super::super::wire::app_server::{AppServerTurn, Params, Rest, TurnError};
use super::super::wire::{Item, part};
use super::app_server::AppServer;
use super::ending;
use super::exec::phase;
use super::responses;
use crate::dialect::Output;
use crate::dialects::loose_json::{List, LooseText, Maybe};

impl AppServer {
    /// Returns the call that a thread works for; nothing for the session's own thread.
    pub(crate) fn parent(&self, thread: Option<&str>) -> Option<ToolId> {
        let (thread, own) = (thread?, self.thread.as_deref()?);
        (thread != own).then(|| self.calls.maker(thread).cloned().unwrap_or_else(|| ToolId::from(thread)))
    }

    pub(crate) fn thread_started(&mut self, params: &Rest<'_>, out: &mut Output<'_>) {
        out.quiet();
        self.second = true;
        let Some(thread) = &params.thread.0 else { return };
        // The answer to the client's request says more; this one matters only to those who did not see that.
        if self.thread.is_none() && thread.parent_thread_id.get().is_none() {
            self.thread = thread.id.owned();
            out.emit(Kind::SessionStarted(responses::session(thread)));
        }
    }

    pub(crate) fn turn_started(
        &mut self,
        params: &Rest<'_>,
        thread: Option<&str>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        self.second = true;
        if parent.is_some() {
            return;
        }
        if self.thread.is_none() {
            self.thread = thread.map(str::to_owned);
        }
        // A turn that never got its end is closed here, or its text and error would count for this one.
        self.close();
        self.calls.turn();
        self.turn = ending::TurnProgress::Open;
        let native_turn = params.turn.0.as_ref().and_then(|turn| turn.id.owned());
        let origin = if self.calls.compaction_ordered { TurnOrigin::Agent } else { TurnOrigin::Prompt };
        out.emit(Kind::TurnStarted(TurnStarted { origin, native_turn }));
    }

    pub(crate) fn turn_completed(
        &mut self,
        params: &Rest<'_>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        if parent.is_some() {
            return;
        }
        let nothing = AppServerTurn::default();
        let turn = params.turn.0.as_ref().unwrap_or(&nothing);
        if !self.spoke {
            self.last_word(turn, out);
        }
        // Before the turn's end: requests that are still open die with the turn.
        self.asked.end(Decider::Withdrawn, out);
        // Before `close`, which clears it.
        let told = self.error.take();
        self.close();
        self.calls.compaction_ordered = false;
        match turn.status.or_empty() {
            "interrupted" => {
                self.calls.interrupted(out);
                out.cancelled();
            }
            "failed" => {
                let error = part::<Maybe<TurnError<'_>>>(turn.error).0;
                let words = || {
                    failures::report(
                        told.as_deref().unwrap_or("Codex reported a failed turn without a reason"),
                    )
                };
                out.failed(&error.as_ref().map_or_else(words, responses::failed));
            }
            _ => out.completed(None),
        }
    }

    /// Emits the message that the end of a turn repeats, if it was not emitted before.
    fn last_word(&mut self, turn: &AppServerTurn<'_>, out: &mut Output<'_>) {
        let items = part::<List<Maybe<Item<'_>>>>(turn.items);
        let messages = items.0.iter().filter_map(|item| item.0.as_ref());
        for item in messages.filter(|item| item.type_name.get() == Some("agentMessage")) {
            self.stream.whole(item.id.or_empty(), item.text.or_empty(), phase(item), None, out);
        }
    }

    /// Forgets what belongs to one turn.
    pub(crate) fn close(&mut self) {
        self.turn = ending::TurnProgress::Ended;
        self.stream.turn();
        self.spoke = false;
        self.error = None;
        self.retrying = None;
    }

    /// Something came of the session's request.
    pub(crate) fn progress(&mut self, parent: Option<&ToolId>) {
        if parent.is_none() {
            self.retrying = None;
        }
    }

    pub(crate) fn item(
        &mut self,
        step: CodexToolStep,
        params: &Params<'_>,
        raw: &str,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        let Some(item) = &params.item.0 else {
            return out.unrecognized(UnrecognizedReason::BadShape, raw, Some("item"));
        };
        let id = item.id.or_empty();
        match (item.type_name.or_empty(), step) {
            ("agentMessage" | "plan", CodexToolStep::Completed) => {
                self.progress(parent);
                self.spoke |= parent.is_none();
                self.stream.whole(id, item.text.or_empty(), phase(item), parent, out);
            }
            ("reasoning", CodexToolStep::Completed) => {
                out.quiet();
                self.thoughts(item, parent, out);
            }
            ("agentMessage" | "plan" | "reasoning", CodexToolStep::Started | CodexToolStep::Updated) => {
                out.quiet()
            }
            ("userMessage", CodexToolStep::Started) => {
                out.quiet();
                if parent.is_none() {
                    self.stream.cut_off(out);
                }
            }
            _ => match self.calls.item(step, item, parent, out) {
                Was::Tool if step == CodexToolStep::Completed => {
                    self.progress(parent);
                    self.asked.item_completed(id, item.status.or_empty(), out);
                    if parent.is_none() {
                        self.stream.tool_ended();
                    }
                }
                Was::Tool => self.progress(parent),
                Was::Known => {}
                Was::Unknown => out.unrecognized(UnrecognizedReason::UnknownType, raw, item.type_name.get()),
            },
        }
    }

    /// Handles a complete thought, of which pieces may have come before.
    fn thoughts(&mut self, item: &Item<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let id = item.id.or_empty();
        for (parts, from) in [(item.summary, 0), (item.content, RAW_THOUGHT)] {
            for (block, text) in (from..).zip(&part::<List<LooseText<'_>>>(parts).0) {
                self.stream.whole_thought((id, block), text.or_empty(), parent, out);
            }
        }
        self.stream.close(id);
    }

    pub(crate) fn update(
        &mut self,
        item: &str,
        output_delta: Option<Excerpt>,
        title: Option<String>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        if let Some(id) = self.calls.running(item).cloned() {
            let (input_delta, input) = (None, None);
            out.emit(Kind::ToolUpdated(ToolUpdated { id, input_delta, input, output_delta, title }));
        }
    }

    /// Handles the counts of a thread. Those of the session's own are cumulative, and begin before this process if it
    /// resumed the thread: what comes before the first turn was used by earlier ones.
    pub(crate) fn usage(&mut self, raw: Option<&RawValue>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        out.quiet();
        let counts = TokenCounts::of(raw);
        if parent.is_some() {
            if let Some(last) = counts.last.usage() {
                out.emit(usage::reported(last, Basis::PerCall));
            }
            return;
        }
        if let Some(total) = counts.total.usage() {
            // A fork reports no count before its first request. The first total minus that request is what it inherited.
            if self.branch && self.before.is_none() {
                self.before = counts.last.usage().map(|last| total.since(&last));
            }
            match (self.turn, &self.before) {
                // `thread/resume` reports the old total before any turn of this process.
                (ending::TurnProgress::None, _) => self.before = Some(total),
                (_, Some(before)) => out.emit(usage::reported(total.since(before), Basis::Cumulative)),
                (_, None) => out.emit(usage::reported(total, Basis::Cumulative)),
            }
        }
        if let Some(gauge) = counts.gauge() {
            out.emit(gauge);
        }
    }

    pub(crate) fn error(&mut self, params: &Rest<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let error = part::<Maybe<TurnError<'_>>>(params.error).0.unwrap_or_default();
        let message = error.message.get().unwrap_or(params.message.or_empty());
        // Unlike `exec`, the server marks a retry: no guess from the text.
        if params.will_retry.0 == Some(true) {
            let details = error.additional_details.get().filter(|details| !message.contains(details));
            let retrying = Retrying {
                category: responses::retried(&error),
                message: details
                    .map_or_else(|| message.to_owned(), |details| format!("{message} ({details})")),
                ..failures::retrying(message).unwrap_or(Retrying {
                    attempt: None,
                    max_attempts: None,
                    delay_ms: None,
                    category: Category::Unknown,
                    message: String::new(),
                })
            };
            if parent.is_none() {
                self.stream.retried(out);
                self.retrying = Some(retrying.clone());
            }
            return out.emit(Kind::Retrying(retrying));
        }
        if parent.is_some() {
            // A sub-agent's failure is its own; the turn continues.
            return out.notice(Level::Warn, Excerpt::with_limit(message, 4096).text);
        }
        self.error = Some(message.to_owned());
        out.remember_error(message);
    }
}
