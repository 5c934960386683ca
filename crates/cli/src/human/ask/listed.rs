//! Open approvals for commands that ask for nothing: `status`, `approve` and `deny` print them.

use bowline_protocol::kinds::ApprovalAsked;
use bowline_protocol::{Event, Kind};

use super::card::{self, CardContext};
use crate::human::calls::OpenCalls;
use crate::human::words::{self, Glyphs};

/// The facts that the cards of approvals need beside the approvals: the tool calls that wait.
#[derive(Debug)]
pub(crate) struct ApprovalCards {
    who: String,
    calls: OpenCalls,
    cwd: Option<String>,
    glyphs: Glyphs,
}

impl ApprovalCards {
    /// Returns the cards of a provider's session.
    pub(crate) fn new(provider: &str, glyphs: Glyphs) -> Self {
        Self { who: words::one_line(provider), calls: OpenCalls::default(), cwd: None, glyphs }
    }

    /// Takes note of an event of the session.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only tool calls wait for approvals")]
    pub(crate) fn event(&mut self, event: &Event) {
        match &event.kind {
            Kind::SessionStarted(started) if started.cwd.is_some() => self.cwd.clone_from(&started.cwd),
            // Other turns may use the same ids.
            Kind::TurnEnded(_) => drop(self.calls.abandon()),
            Kind::ToolStarted(tool) => self.calls.started(tool, event.at, self.cwd.as_deref()),
            Kind::ToolUpdated(update) => self.calls.updated(update, self.cwd.as_deref()),
            Kind::ToolFinished(end) => drop(self.calls.finished(&end.id)),
            _ => {}
        }
    }

    /// Returns the lines of an approval: who wants what, then the action. They are harmless.
    pub(crate) fn lines(&self, asked: &ApprovalAsked) -> Vec<String> {
        let context = CardContext {
            who: &self.who,
            call: asked.tool.as_ref().and_then(|tool| self.calls.find(tool)),
            cwd: self.cwd.as_deref(),
            glyphs: self.glyphs,
        };
        card::printed(asked, &context).iter().map(|line| line.words()).collect()
    }

    /// The same with the agent's own words for an approval that lasts for the session.
    pub(crate) fn lines_with_scope(&self, asked: &ApprovalAsked) -> Vec<String> {
        let mut lines = self.lines(asked);
        lines.extend(card::for_session(asked).map(|line| line.words()));
        lines
    }
}

/// Writes a word of the agent, such as the id of its request, so that a person can copy it into a shell.
pub(crate) fn shell_word(word: &str) -> String {
    card::quoted(&words::one_line(word))
}
