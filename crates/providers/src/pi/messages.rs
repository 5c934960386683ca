//! The messages of a conversation with pi: started, in pieces, complete.

use bowline_protocol::kinds::{
    ModelChanged, Phase, StopReason, UnrecognizedReason, UsageReported, UserOrigin,
};
use bowline_protocol::{Basis, Kind, Usage, UsageSource};
use serde_json::Value;
use serde_json::value::RawValue;

use super::dialect::{PiEnding, PiEventReader};
use super::wire::{PiBlock, PiMessage, Update};
use crate::dialect::Output;
use crate::dialects::loose_json::{self, Object};
use crate::dialects::speech::BlockKind;
use crate::dialects::{api_error, content};
use crate::usage;

impl PiEventReader {
    pub(super) fn message_start(&mut self, message: Option<&RawValue>, out: &mut Output<'_>) -> bool {
        let Some(message) = message.and_then(|raw| serde_json::from_str::<PiMessage<'_>>(raw.get()).ok())
        else {
            return false;
        };
        out.quiet();
        // The updates that follow repeat its content, if there is any already.
        if message.role.text() == Some("assistant") {
            self.speech.begin(out);
            self.ending = None;
            self.failed_message = None;
            out.incomplete_at_eof();
            if let Some(model) = message.model.text().filter(|model| self.model.as_deref() != Some(*model)) {
                self.model = Some(model.to_owned());
                out.emit(Kind::ModelChanged(ModelChanged { model: model.to_owned(), reason: None }));
            }
        }
        true
    }

    /// Handles a piece of the assistant's message.
    pub(super) fn update(&mut self, raw: &str, update: &Update<'_>, out: &mut Output<'_>) {
        out.overcome();
        // The index, not the order: ends of blocks can come after later blocks have begun (0.87.1).
        let block = update.content_index.small().unwrap_or(0);
        match update.type_name.str() {
            "text_delta" => self.speech.say(block, update.delta.str(), BlockKind::Text, out),
            "thinking_delta" => self.speech.say(block, update.delta.str(), BlockKind::Thinking, out),
            // The end of a block repeats it whole, and may come after later blocks have begun.
            "text_end" => self.speech.whole(block, update.content.str(), BlockKind::Text, out),
            "thinking_end" => self.speech.whole(block, update.content.str(), BlockKind::Thinking, out),
            "start" | "text_start" | "thinking_start" | "done" | "error" => out.quiet(),
            // The program runs its tools itself and reports that, with the whole arguments, in `tool_execution_start`.
            "toolcall_start" | "toolcall_delta" | "toolcall_end" => out.quiet(),
            other => {
                let name = Some(other).filter(|name| !name.is_empty()).unwrap_or("message_update");
                out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(name));
            }
        }
    }

    pub(super) fn message_end(
        &mut self,
        raw: &str,
        message: Option<&RawValue>,
        out: &mut Output<'_>,
    ) -> bool {
        let Some(message) = message.and_then(|raw| serde_json::from_str::<PiMessage<'_>>(raw.get()).ok())
        else {
            return false;
        };
        out.quiet();
        match message.role.str() {
            "assistant" => self.assistant_end(&message, out),
            "user" => user(&message, UserOrigin::Replayed, out),
            // An addition of an extension, in the user's name.
            "custom" | "hookMessage" => user(&message, UserOrigin::Synthetic, out),
            // The program's own instructions, content that `tool_execution_end` has reported, commands of the host itself, and
            // summaries of earlier messages.
            "system" | "toolResult" | "bashExecution" | "compactionSummary" | "branchSummary" => {}
            other => out.unrecognized(UnrecognizedReason::UnknownType, raw, Some(other)),
        }
        true
    }

    fn assistant_end(&mut self, message: &PiMessage<'_>, out: &mut Output<'_>) {
        let blocks: Vec<Object<PiBlock<'_>>> = loose_json::part(message.content);
        let mut said = false;
        for (place, Object(block)) in blocks.iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            match block.type_name.str() {
                "text" => {
                    said |= !block.text.str().is_empty();
                    self.speech.correct(place, block.text.str(), out);
                    self.speech.whole(place, block.text.str(), BlockKind::Text, out);
                }
                "thinking" => self.speech.whole(place, block.thinking.str(), BlockKind::Thinking, out),
                // Tools are reported when they run.
                _ => {}
            }
        }
        let id = self.speech.message();
        self.usage(message, out);
        // Text on the way to its tools; pi itself gives only the last message as its answer.
        let on_the_way = message.stop_reason.str() == "toolUse";
        let phase = if on_the_way { Phase::Commentary } else { Phase::Final };
        self.speech.finish(phase, message.model.text(), out);
        // Only a candidate: `auto_retry_start` may follow an error.
        self.ending = ending(message);
        let failed = matches!(self.ending, Some(PiEnding::Failed(_)));
        if !failed {
            out.overcome();
        }
        self.failed_message = (failed && said).then_some(id);
    }

    fn usage(&mut self, message: &PiMessage<'_>, out: &mut Output<'_>) {
        let reported: Value = loose_json::part(message.usage);
        let Some(usage) = usage::read(&reported) else { return };
        // A message starts with zeros: there is no count yet.
        if usage == (Usage { reasoning: usage.reasoning, ..Usage::default() }) {
            return;
        }
        out.emit(Kind::UsageReported(UsageReported {
            usage,
            basis: Basis::PerCall,
            source: UsageSource::Reported,
            cost_usd: reported.get("cost").and_then(|cost| cost.get("total")?.as_f64()),
            model: message.model.string(),
            message: Some(self.speech.message()),
        }));
    }
}

fn user(message: &PiMessage<'_>, origin: UserOrigin, out: &mut Output<'_>) {
    let content: Value = loose_json::part(message.content);
    out.user(origin, &content::text_of(&content).unwrap_or_default(), None);
}

/// Decides what it would mean if the turn ended with this message.
fn ending(message: &PiMessage<'_>) -> Option<PiEnding> {
    match message.stop_reason.str() {
        // The results of the tools go to the model, which continues.
        "toolUse" => None,
        "error" => {
            let error = message.error_message.text().unwrap_or("the program reported an error");
            Some(PiEnding::Failed(api_error::report(error)))
        }
        "aborted" => Some(PiEnding::Aborted),
        "length" => Some(PiEnding::Done(StopReason::MaxTokens)),
        _ => Some(PiEnding::Done(StopReason::EndTurn)),
    }
}
