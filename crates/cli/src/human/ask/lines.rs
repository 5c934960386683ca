//! Requests that the person decides by typed lines: the terminal keeps its line mode, so that prompts can be typed meanwhile.
//!
//! The keys are the same as on a keyboard, each at the beginning of a line; a text may follow it. All other lines are not about the request.

use bowline_protocol::{ApprovalVerdict, SessionOrder, Timestamp};
use serde_json::Value;

use super::replies::TypedAnswer;
use super::{
    AskInput, AskPanel, AskStep, AskTyping, GRACE, LinePurpose, OpenRequest, card, changed, decide, replies,
};
use crate::human::line::{Paint, PaintedLine};

/// The result of a typed line.
#[derive(Debug, PartialEq)]
pub(crate) enum LineStep {
    /// It is not about the request on the screen.
    NotAbout,
    Handled,
    Order(SessionOrder),
}

/// The reason why a line decides nothing.
const TOO_EARLY: &str = "not counted: it was typed before the request was shown; read it and type again";

/// The reason why a decision is not sent to the agent as a prompt.
const MISSED: &str =
    "not sent: the request was settled before this line was entered; type it again to send it to the agent";

/// Returns whether a line would decide an approval.
fn is_decision(line: &str) -> bool {
    let key = line.split_whitespace().next().unwrap_or_default();
    matches!(line, "y" | "yes" | "a" | "n" | "no" | "?") || matches!(key, "n" | "m" | "e")
}

impl AskPanel {
    /// Returns the line below a request: the keys that decide it.
    pub(super) fn line_keys(&self, input: Option<&Value>) -> Option<PaintedLine> {
        let text = match (self.typing, self.open.front()?) {
            (AskTyping::Keys | AskTyping::Elsewhere, _) => return None,
            (AskTyping::Lines, OpenRequest::Approval(asked)) => {
                format!("{}, then Enter", self.keys(asked, input).line(self.typing))
            }
            (AskTyping::Lines, OpenRequest::Question(asked)) if asked.choices.is_empty() => {
                "type the answer, or `:dismiss`".to_owned()
            }
            (AskTyping::Lines, OpenRequest::Question(_)) => {
                "type a number or an answer, or `:dismiss`".to_owned()
            }
        };
        Some(PaintedLine::of(Paint::Yellow, text))
    }

    /// Handles a line. None if it is not about the request on the screen.
    pub(super) fn line(&mut self, line: &str, input: Option<&Value>, entered: Timestamp) -> Option<AskStep> {
        let line = line.trim();
        match self.typing {
            AskTyping::Keys => return None,
            AskTyping::Elsewhere => return self.line_elsewhere(line),
            AskTyping::Lines => {}
        }
        // Only the next line: a later `y` is meant for the agent again.
        let was_missed = std::mem::take(&mut self.missed);
        if self.shown.is_none() && was_missed && is_decision(line) {
            return Some(AskStep::Remark(MISSED.to_owned()));
        }
        let shown = self.shown.as_ref()?;
        let is_early = entered < shown.since.after(GRACE);
        let is_sent = matches!(shown.input, AskInput::Sent);
        let step = match self.open.front()? {
            _ if line.is_empty() => return Some(AskStep::Typed),
            OpenRequest::Approval(asked) => {
                let (asked, keys) = (asked.clone(), self.keys(asked, input));
                let (key, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                let text = text.trim();
                let verdict = match (key, text) {
                    ("y" | "yes", "") if keys.once => ApprovalVerdict::Allow { input: None },
                    ("a", "") if keys.session => ApprovalVerdict::AllowForSession,
                    ("y" | "yes" | "a", "") => {
                        return Some(AskStep::Remark("the agent does not offer this answer".to_owned()));
                    }
                    ("n" | "no", "") => ApprovalVerdict::Deny { message: None },
                    ("n" | "m", text) if !text.is_empty() => {
                        ApprovalVerdict::Deny { message: Some(text.to_owned()) }
                    }
                    ("e", text) if keys.change && !text.is_empty() => match change(text, input) {
                        Ok(input) => ApprovalVerdict::Allow { input: Some(input) },
                        Err(why) => return Some(AskStep::Remark(why.to_owned())),
                    },
                    ("?", "") => return Some(AskStep::Explain),
                    // `yes, and add tests` is a prompt, not a decision.
                    _ => return None,
                };
                AskStep::Order(decide(&asked, verdict))
            }
            OpenRequest::Question(asked) => match replies::answers(asked, line) {
                TypedAnswer::Wrong(why) => AskStep::Remark(why),
                TypedAnswer::Dismissed => return self.dismiss_shown().map(AskStep::Order),
                TypedAnswer::Given(answers) => {
                    AskStep::Order(SessionOrder::Reply { question: Some(asked.id.clone()), answers })
                }
            },
        };
        Some(match step {
            AskStep::Order(_) if is_sent => AskStep::Remark("your decision is being sent".to_owned()),
            AskStep::Order(_) if is_early => AskStep::Remark(TOO_EARLY.to_owned()),
            AskStep::Order(order) => self.send(order),
            step @ (AskStep::Typed | AskStep::Explain | AskStep::Remark(_)) => step,
        })
    }

    /// Handles a line that cannot decide. It must not reach the agent as a prompt, either.
    fn line_elsewhere(&self, line: &str) -> Option<AskStep> {
        let command = match self.open.front()? {
            OpenRequest::Approval(_) if matches!(line, "y" | "yes" | "a" | "n" | "no") => {
                "`bowline approve` or `deny`"
            }
            OpenRequest::Approval(_) => return None,
            OpenRequest::Question(_) => "`bowline answer`",
        };
        let text = format!("not sent: only a line on a terminal decides; use {command}");
        Some(AskStep::Remark(text))
    }

    /// Returns the order that dismisses the question on the screen.
    pub(super) fn dismiss_shown(&mut self) -> Option<SessionOrder> {
        match self.open.front().filter(|_| self.shown.is_some())? {
            OpenRequest::Question(asked) => {
                let question = Some(asked.id.clone());
                Some(SessionOrder::Reply { question, answers: Vec::new() })
            }
            OpenRequest::Approval(_) => None,
        }
    }
}

/// Makes the changed input of a typed text: a command, or the whole input as JSON.
fn change(text: &str, input: Option<&Value>) -> Result<bowline_protocol::Json, &'static str> {
    // A command in a list of words has no text of its own: its words are changed as JSON.
    let command = input.and_then(|input| {
        card::command(input).filter(|(name, _)| input.get(name).is_some_and(Value::is_string))
    });
    let purpose = command.map_or(LinePurpose::Input, |(name, _)| LinePurpose::Command(name));
    changed(purpose, text, input)
}
