//! The renderer's part of asking: what is printed, and when.

use bowline_protocol::kinds::{ApprovalAsked, ApprovalDecided, QuestionAnswered, QuestionAsked};
use bowline_protocol::{Capabilities, Decider, Decision, OrderRefused, SessionOrder, Timestamp};
use bowline_providers::ansi;
use serde_json::Value;

use super::card::{self, CardContext};
use super::{AskInput, AskPanel, AskStep, AskTyping, LineStep, OpenRequest, SettledHere, ShownRequest};
use crate::human::calls::ToolCall;
use crate::human::line::{Paint, PaintedLine};
use crate::human::remarks::RemarkLevel;
use crate::human::{OutputPiece, Renderer, SILENCE, words};

impl Renderer {
    /// Lets the person decide. The caller then passes on what the person types ([`Self::typed`] or [`Self::typed_line`]), and sends the
    /// orders.
    pub(crate) fn ask(&mut self, typing: AskTyping) {
        self.panel = Some(AskPanel::new(typing));
    }

    /// Returns the number of the request that waits for the keyboard. Keys that were pressed before it was shown do not count.
    pub(crate) fn waits_for_keys(&self) -> Option<u64> {
        let panel = self.panel.as_ref()?;
        panel.shown.as_ref().map(|_| panel.count)
    }

    /// Shows the next request, if none is shown. To be called after a batch of events, so that a request that the batch also
    /// settles is not shown.
    pub(crate) fn ask_next(&mut self, now: Timestamp) -> Vec<OutputPiece> {
        if let Some(panel) = &mut self.panel
            && panel.shown.is_none()
            && let Some(front) = panel.open.front()
        {
            let input = front.first_input();
            panel.shown = Some(ShownRequest { since: now, covered: None, input });
            // A new number: the caller discards what was typed before.
            panel.count += 1;
            self.show_request();
            self.show_status_line(now);
        }
        self.canvas.take()
    }

    /// Handles bytes of the keyboard. Returns the order that they give.
    pub(crate) fn typed(&mut self, bytes: &[u8], now: Timestamp) -> (Vec<OutputPiece>, Option<SessionOrder>) {
        let input = self.shown_input();
        let Some(panel) = &mut self.panel else { return (Vec::new(), None) };
        let order = match panel.typed(bytes, input.as_ref(), now) {
            AskStep::Typed => None,
            AskStep::Explain => {
                self.explain_request();
                None
            }
            AskStep::Remark(text) => {
                self.say(RemarkLevel::Always, &PaintedLine::of(Paint::Yellow, text));
                None
            }
            AskStep::Order(order) => Some(order),
        };
        self.show_status_line(now);
        (self.canvas.take(), order)
    }

    /// Handles a line that the person typed, if it is about the request on the screen.
    pub(crate) fn typed_line(
        &mut self,
        line: &str,
        entered: Timestamp,
        now: Timestamp,
    ) -> (Vec<OutputPiece>, LineStep) {
        let input = self.shown_input();
        let step = self.panel.as_mut().and_then(|panel| panel.line(line, input.as_ref(), entered));
        let step = match step {
            None => LineStep::NotAbout,
            Some(AskStep::Typed) => LineStep::Handled,
            Some(AskStep::Explain) => {
                self.explain_request();
                LineStep::Handled
            }
            Some(AskStep::Remark(text)) => {
                self.say(RemarkLevel::Always, &PaintedLine::of(Paint::Yellow, text));
                LineStep::Handled
            }
            Some(AskStep::Order(order)) => LineStep::Order(order),
        };
        self.show_status_line(now);
        (self.canvas.take(), step)
    }

    /// Returns the order that dismisses the question on the screen.
    pub(crate) fn dismissal(&mut self) -> Option<SessionOrder> {
        self.panel.as_mut().and_then(AskPanel::dismiss_shown)
    }

    /// Handles that an order of [`Self::typed`] was refused.
    pub(crate) fn order_refused(
        &mut self,
        order: &SessionOrder,
        why: &OrderRefused,
        now: Timestamp,
    ) -> Vec<OutputPiece> {
        if let Some(text) = self.panel.as_mut().and_then(|panel| panel.order_refused(order, why)) {
            let text = words::one_line(&text);
            self.say(RemarkLevel::Always, &PaintedLine::of(Paint::Yellow, text));
            self.show_status_line(now);
        }
        self.canvas.take()
    }

    /// Returns the order that denies the request on the screen, because the keyboard is gone. `None` if it was denied already.
    pub(crate) fn deny_shown(&mut self) -> Option<SessionOrder> {
        self.panel.as_mut().and_then(AskPanel::deny_shown)
    }

    /// Takes note of what the agent can do, so that no key is shown that does nothing.
    pub(crate) fn capabilities(&mut self, has: &Capabilities) {
        if let Some(panel) = &mut self.panel {
            panel.capabilities(has);
        }
    }

    pub(in crate::human) fn approval_asked(&mut self, asked: &ApprovalAsked) {
        self.refusals.asked(asked);
        if let Some(panel) = &mut self.panel {
            panel.approval_asked(asked);
        }
    }

    /// Records a decision. If the request was on the screen, a line tells its end.
    pub(in crate::human) fn approval_decided(&mut self, decided: &ApprovalDecided) {
        let what = self.refusals.asked_about(&decided.id, &self.calls);
        self.refusals.decided(decided, &self.calls);
        let settled = self.panel.as_mut().and_then(|panel| panel.approval_decided(&decided.id));
        if let (Some(settled), Some(what)) = (settled, what) {
            let text = format!("{}: {what}", decision_text(decided, settled));
            self.say(RemarkLevel::Usual, &PaintedLine::of(Paint::Dim, text));
        }
    }

    /// Records a question. Returns whether the person is asked.
    pub(in crate::human) fn question_asked(&mut self, asked: &QuestionAsked) -> bool {
        let Some(panel) = &mut self.panel else { return false };
        panel.question_asked(asked);
        true
    }

    /// Handles the answer to a question. Returns whether it was on the screen.
    pub(in crate::human) fn question_answered(&mut self, answer: &QuestionAnswered) -> bool {
        let settled = self.panel.as_mut().and_then(|panel| panel.question_answered(&answer.id));
        let Some(settled) = settled else { return false };
        let text = match (answer.answers.as_slice(), settled) {
            ([], SettledHere::Yes) => "dismissed".to_owned(),
            ([], SettledHere::No) => "the question was withdrawn or dismissed".to_owned(),
            (answers, SettledHere::Yes) => format!("answered: {}", words::one_line(&answers.join(", "))),
            (answers, SettledHere::No) => {
                format!("answered in another place: {}", words::one_line(&answers.join(", ")))
            }
        };
        self.say(RemarkLevel::Usual, &PaintedLine::of(Paint::Dim, text));
        true
    }

    /// Remembers that output of the agent stands below the request.
    pub(in crate::human) fn cover_request(&mut self, printed_before: u64, now: Timestamp) {
        let printed = self.canvas.printed() != printed_before;
        if let Some(shown) = self.panel.as_mut().and_then(|panel| panel.shown.as_mut()).filter(|_| printed) {
            shown.covered = Some(now);
        }
    }

    /// Shows the request again, when the output that covers it has paused.
    pub(in crate::human) fn repeat_request(&mut self, now: Timestamp) {
        let Some(shown) = self.panel.as_mut().and_then(|panel| panel.shown.as_mut()) else { return };
        if shown.covered.is_some_and(|covered| now.since(covered) >= SILENCE) {
            shown.covered = None;
            self.show_request();
        }
    }

    /// Returns the line below the request: the keys, or the line that is being typed.
    pub(in crate::human) fn ask_line(&self, now: Timestamp) -> Option<PaintedLine> {
        let panel = self.panel.as_ref().filter(|panel| panel.typing == AskTyping::Keys)?;
        let (front, shown) = (panel.open.front()?, panel.shown.as_ref()?);
        let columns = usize::from(self.canvas.screen().stderr.width).saturating_sub(1);
        let (text, deadline) = match (&shown.input, front) {
            (AskInput::Line(_, entry), _) => return Some(entry.line(columns, self.options.glyphs)),
            (AskInput::Sent, _) => ("sending your decision".to_owned(), None),
            (AskInput::Keys, OpenRequest::Approval(asked)) => {
                (panel.keys(asked, self.shown_input().as_ref()).line(panel.typing), asked.deadline)
            }
            // A question waits for a line.
            (AskInput::Keys, OpenRequest::Question(_)) => return None,
        };
        let all = panel.done + panel.open.len();
        let place = (all > 1).then(|| format!("{} of {all}", panel.done + 1));
        let left = deadline.map(|at| format!("{} left", words::whole_seconds(at.since(now))));
        let facts: Vec<String> = place.into_iter().chain(left).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        Some(PaintedLine::of(Paint::Yellow, text).and(Paint::Dim, facts))
    }

    fn shown_call(&self) -> Option<&ToolCall> {
        match self.panel.as_ref()?.open.front()? {
            OpenRequest::Approval(asked) => self.calls.find(asked.tool.as_ref()?),
            OpenRequest::Question(_) => None,
        }
    }

    fn shown_input(&self) -> Option<Value> {
        match self.panel.as_ref()?.open.front()? {
            OpenRequest::Approval(asked) => card::input(asked, self.shown_call()),
            OpenRequest::Question(_) => None,
        }
    }

    fn context(&self) -> CardContext<'_> {
        CardContext {
            who: self.who.as_deref().unwrap_or("the agent"),
            call: self.shown_call(),
            cwd: self.options.cwd.as_deref(),
            glyphs: self.options.glyphs,
        }
    }

    fn show_request(&mut self) {
        let Some(panel) = &self.panel else { return };
        let mut lines = match panel.open.front() {
            Some(OpenRequest::Approval(asked)) => card::approval(asked, &self.context()),
            Some(OpenRequest::Question(asked)) => card::question(asked, &self.context()),
            None => return,
        };
        lines.extend(panel.line_keys(self.shown_input().as_ref()));
        self.print_request(&lines);
    }

    fn explain_request(&mut self) {
        let panel = self.panel.as_ref();
        let Some((panel, OpenRequest::Approval(asked))) =
            panel.and_then(|panel| Some((panel, panel.open.front()?)))
        else {
            return;
        };
        let keys = panel.keys(asked, self.shown_input().as_ref()).explained(panel.typing);
        let lines = card::explained(asked, &keys, &self.context());
        self.print_request(&lines);
    }

    fn print_request(&mut self, lines: &[PaintedLine]) {
        for line in lines {
            self.say(RemarkLevel::Always, line);
        }
    }
}

/// Returns how an approval that was on the screen ended.
fn decision_text(decided: &ApprovalDecided, settled: SettledHere) -> String {
    let verdict = match decided.decision {
        Decision::Allow if decided.changed_input.is_some() => "allowed with your change",
        Decision::Allow => "allowed",
        Decision::AllowAlways => "allowed for this session",
        Decision::Deny | Decision::DenyAlways => "denied",
    };
    match (decided.by, settled) {
        (Decider::Human, SettledHere::Yes) => verdict.to_owned(),
        (Decider::Human, SettledHere::No) => format!("{verdict} in another place"),
        (Decider::Timeout, _) => format!("{verdict}, because its deadline passed"),
        (Decider::Withdrawn, _) => "withdrawn by the agent".to_owned(),
        (Decider::Host, _) => format!("{verdict}, because the turn is being stopped"),
        (Decider::Policy, _) => {
            let rule = decided.rule.as_deref().map(|rule| format!(" ({})", ansi::harmless(rule)));
            format!("{verdict} by a rule{}", rule.unwrap_or_default())
        }
        (Decider::ClientLost, _) => format!("{verdict}, because its client is gone"),
    }
}
