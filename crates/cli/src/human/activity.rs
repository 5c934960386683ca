//! The text of the status line.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Kind, Timestamp};

use super::calls::OpenCalls;
use super::canvas::StatusDisplay;
use super::line::{Paint, PaintedLine};
use super::refusals::Refusals;
use super::words::{self, Glyphs};
use super::{Interrupt, TICK, remarks};

/// The state that the status line shows.
#[derive(Debug, Default)]
pub(super) struct ActivityState {
    pub(super) started: Option<Timestamp>,
    /// Whether the agent has reported anything.
    pub(super) heard: bool,
    /// The time of the last text; the spinner waits between pieces of text.
    pub(super) spoke: Option<Timestamp>,
    pub(super) retry: Option<(Retrying, Timestamp)>,
    /// Whether Bowline waits for a usage limit.
    pub(super) waits: bool,
    pub(super) doing: Option<(String, Timestamp)>,
    pub(super) thinking: bool,
    pub(super) stopping: Option<Interrupt>,
    pub(super) ended: bool,
}

impl ActivityState {
    /// Returns the current status.
    pub(super) fn status(
        &self,
        who: Option<&str>,
        now: Timestamp,
        calls: &OpenCalls,
        refusals: &Refusals,
        glyphs: Glyphs,
    ) -> Option<StatusDisplay> {
        if let Some(interrupt) = self.stopping {
            return Some(StatusDisplay::Line(PaintedLine::of(Paint::Yellow, stopping(interrupt))));
        }
        if self.ended {
            return None;
        }
        if let Some((retrying, since)) = &self.retry {
            let left =
                retrying.delay_ms.map(|delay| delay.0.saturating_sub(now.since(*since).0).div_ceil(1000));
            let who = who.map(|who| format!("{who}: ")).unwrap_or_default();
            let text = format!("{} {who}{}", glyphs.ellipsis(), remarks::retry(retrying, left));
            return Some(StatusDisplay::Line(PaintedLine::of(Paint::Yellow, text)));
        }
        let started = self.started.unwrap_or(now);
        let picture = glyphs.spinner(now.since(started).0 / TICK.0);
        let who = who.map(|who| format!("{who}: ")).unwrap_or_default();
        let line =
            |text: String| PaintedLine::of(Paint::Dim, format!("{picture} {who}")).and(Paint::Plain, text);
        if let Some((words, since)) = &self.doing {
            let passed = words::whole_seconds(now.since(*since));
            return Some(StatusDisplay::Line(line(words.clone()).and(Paint::Dim, format!(" ({passed})"))));
        }
        if let Some(summary) = refusals.waiting() {
            return Some(StatusDisplay::Line(line(format!("waiting for approval: {summary}"))));
        }
        let line = match calls.running() {
            Some((call, beside)) => {
                let others = if beside == 0 { String::new() } else { format!(" and {beside} more") };
                line(call.label()).and(Paint::Dim, format!("{others} ({})", call.age(now)))
            }
            None => {
                let doing = match (self.heard, self.thinking) {
                    (false, _) => "starting",
                    (true, true) => "thinking",
                    (true, false) => "working",
                };
                let passed = words::whole_seconds(now.since(started));
                line(doing.to_owned()).and(Paint::Dim, format!(" ({passed})"))
            }
        };
        Some(StatusDisplay::Spinner { line, picture })
    }
}

impl super::Renderer {
    /// Returns the current activity as text, with the provider; `None` once the agent has ended.
    pub(crate) fn activity(&self, now: Timestamp) -> Option<String> {
        Some(format!("{}: {}", self.who.as_deref().unwrap_or("agent"), self.doing(now)?))
    }

    /// Returns the provider of the current attempt, if it is known.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.who.as_deref()
    }

    /// Returns the cost so far, if the agent reports it.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.tally.cost_usd
    }

    /// Returns the current activity as text; `None` once the agent has ended.
    pub(crate) fn doing(&self, now: Timestamp) -> Option<String> {
        let status = self.busy.status(None, now, &self.calls, &self.refusals, self.options.glyphs)?;
        let line = match &status {
            StatusDisplay::Line(line) | StatusDisplay::Spinner { line, .. } => line.words(),
        };
        Some(line.trim_start_matches(|c: char| !c.is_alphanumeric()).to_owned())
    }
}

/// Formats the activities of several agents as one line, with a spinner.
pub(crate) fn status_of(doing: &[String], width: usize, glyphs: Glyphs, now: Timestamp) -> String {
    let picture = glyphs.spinner(u64::try_from(now.as_millis()).unwrap_or_default() / TICK.0);
    words::cut(&format!("{picture} {}", doing.join(glyphs.dot())), width.saturating_sub(1), glyphs)
}

/// Returns the status text of an interrupt.
pub(super) fn stopping(interrupt: Interrupt) -> &'static str {
    match interrupt {
        Interrupt::First => "cancelling; Ctrl-C again kills the agent",
        Interrupt::Second => "killing the agent",
    }
}

/// Returns whether an event shows progress, so that a wait of the agent has ended.
pub(super) fn is_work(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::TextDelta(_)
            | Kind::ThinkingDelta(_)
            | Kind::ToolStarted(_)
            | Kind::ToolUpdated(_)
            | Kind::ToolFinished(_)
            | Kind::TurnStarted(_)
    )
}

/// Returns whether an event ends the text before it: a tool call, an approval or a question.
pub(super) fn ends_text(kind: &Kind) -> bool {
    let calls = matches!(kind, Kind::ToolStarted(tool) if tool.parent.is_none());
    calls || matches!(kind, Kind::ApprovalAsked(_) | Kind::QuestionAsked(_))
}

/// Returns whether an event is not about the agent's work.
pub(super) fn is_background(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::UsageReported(_)
            | Kind::UsageTick(_)
            | Kind::ContextGauge(_)
            | Kind::Unrecognized(_)
            | Kind::OptionsAdvertised(_)
            | Kind::OptionsChanged(_)
            | Kind::ProcessReaped(_)
    )
}
