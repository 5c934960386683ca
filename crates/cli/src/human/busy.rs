//! What the agent does while nothing is printed: the words of the status line.

use bowline_protocol::kinds::Retrying;
use bowline_protocol::{Kind, Timestamp};

use super::calls::Calls;
use super::canvas::{Line, Paint, Status};
use super::refusals::Refusals;
use super::words::{self, Glyphs};
use super::{Interrupt, TICK, remarks};

/// What the agent does while nothing is printed.
#[derive(Debug, Default)]
pub(super) struct Busy {
    pub(super) started: Option<Timestamp>,
    /// Whether anything came.
    pub(super) heard: bool,
    /// When the last text was printed; between two pieces of it nothing spins.
    pub(super) spoke: Option<Timestamp>,
    pub(super) retry: Option<(Retrying, Timestamp)>,
    /// Whether a limit is waited for, by us.
    pub(super) waits: bool,
    pub(super) doing: Option<(String, Timestamp)>,
    pub(super) thinking: bool,
    pub(super) stopping: Option<Interrupt>,
    pub(super) ended: bool,
}

impl Busy {
    /// Says what the agent does now.
    pub(super) fn status(
        &self,
        who: Option<&str>,
        now: Timestamp,
        calls: &Calls,
        refusals: &Refusals,
        glyphs: Glyphs,
    ) -> Option<Status> {
        if let Some(interrupt) = self.stopping {
            return Some(Status::Line(Line::of(Paint::Yellow, stopping(interrupt))));
        }
        if self.ended {
            return None;
        }
        if let Some((retrying, since)) = &self.retry {
            let left =
                retrying.delay_ms.map(|delay| delay.0.saturating_sub(now.since(*since).0).div_ceil(1000));
            let who = who.map(|who| format!("{who}: ")).unwrap_or_default();
            let text = format!("{} {who}{}", glyphs.ellipsis(), remarks::retry(retrying, left));
            return Some(Status::Line(Line::of(Paint::Yellow, text)));
        }
        let started = self.started.unwrap_or(now);
        let picture = glyphs.spinner(now.since(started).0 / TICK.0);
        let who = who.map(|who| format!("{who}: ")).unwrap_or_default();
        let line = |text: String| Line::of(Paint::Dim, format!("{picture} {who}")).and(Paint::Plain, text);
        if let Some((words, since)) = &self.doing {
            let passed = words::whole_seconds(now.since(*since));
            return Some(Status::Line(line(words.clone()).and(Paint::Dim, format!(" ({passed})"))));
        }
        if let Some(summary) = refusals.waiting() {
            return Some(Status::Line(line(format!("waits for a decision: {summary}"))));
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
        Some(Status::Spinner { line, picture })
    }
}

impl super::Renderer {
    /// Returns what the agent does now, in words; nothing once it has ended.
    pub(crate) fn activity(&self, now: Timestamp) -> Option<String> {
        let who = self.who.as_deref().unwrap_or("agent");
        let status = self.busy.status(None, now, &self.calls, &self.refusals, self.options.glyphs)?;
        let line = match &status {
            Status::Line(line) | Status::Spinner { line, .. } => line.words(),
        };
        Some(format!("{who}: {}", line.trim_start_matches(|c: char| !c.is_alphanumeric())))
    }
}

/// Writes what several agents do as one line, with a spinner.
pub(crate) fn status_of(doing: &[String], width: usize, glyphs: Glyphs, now: Timestamp) -> String {
    let picture = glyphs.spinner(u64::try_from(now.as_millis()).unwrap_or_default() / TICK.0);
    words::cut(&format!("{picture} {}", doing.join(glyphs.dot())), width.saturating_sub(1), glyphs)
}

/// Says that a wish to stop is heard.
pub(super) fn stopping(interrupt: Interrupt) -> &'static str {
    match interrupt {
        Interrupt::First => "cancelling; Ctrl-C again kills the agent",
        Interrupt::Second => "killing the agent",
    }
}

/// Says whether the agent got on with its work, so that what it waited for is over.
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

/// Says whether an event tells nothing about the agent's work.
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
