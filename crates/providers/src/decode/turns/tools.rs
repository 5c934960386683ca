//! The tool calls of a turn.

use bowline_protocol::RawSpan;
use bowline_protocol::kinds::{Phase, ToolFinished, ToolStarted};

use super::TurnTracker;
use crate::decode::dialect::{Commentary, UnnumberedEvent};

impl TurnTracker {
    /// Handles the start of a tool call. In some dialects it makes the text before it commentary.
    pub(super) fn tool_started(
        &mut self,
        tool: &ToolStarted,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        if tool.parent.is_none() {
            self.waiting = None;
        }
        let speech_is_over = self.commentary == Commentary::BeforeTools && tool.parent.is_none();
        let open = self.ensure_open(raw, out);
        open.lively = true;
        open.running_tools.start(&tool.id);
        if speech_is_over {
            open.messages.tool_called();
            let undecided = std::mem::take(&mut open.undecided);
            self.decide(undecided, Phase::Commentary, raw, out);
        }
    }

    /// Handles the end of a tool call.
    pub(super) fn tool_finished(
        &mut self,
        tool: &ToolFinished,
        raw: Option<RawSpan>,
        out: &mut Vec<UnnumberedEvent>,
    ) {
        let open = self.ensure_open(raw, out);
        open.lively = true;
        open.running_tools.end(&tool.id);
    }
}
