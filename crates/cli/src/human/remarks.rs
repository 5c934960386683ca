//! Events that are shown as one line, and the level of detail that shows them.

use bowline_protocol::kinds::{
    BackgroundTaskEnded, CompactTrigger, ContextCompacted, DiffAvailable, FallbackTaken, Gap, Level,
    LimitReported, LimitState, McpServerStatus, McpState, ModelChanged, Notice, PlanUpdated, ProcessLeaked,
    ProcessSpawned, PromptRemoval, PromptRemoved, ResumeAnswer, ResumeAnswered, Retrying, StepStatus,
    ToolStatus, Transport, Unrecognized, UnrecognizedReason,
};
use bowline_protocol::{Kind, Timestamp};
use jiff::tz::TimeZone;

use super::line::{Paint, PaintedLine};
use super::words;
use crate::remedies;

/// A wait before a retry that is announced at every level, because the command looks stuck.
const LONG_WAIT: bowline_protocol::Millis = bowline_protocol::Millis(5_000);

/// The level of detail that shows a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemarkLevel {
    /// Always.
    Always,
    /// On a terminal, or with `-v`.
    Usual,
    /// With `-v`.
    Verbose,
    /// With `-vv`.
    Everything,
}

/// A line about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) weight: RemarkLevel,
    label: &'static str,
    pub(super) text: String,
}

impl Remark {
    fn new(weight: RemarkLevel, label: &'static str, text: String) -> Self {
        Self { weight, label, text }
    }

    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self::new(RemarkLevel::Always, "warning: ", text.into())
    }

    pub(super) fn usual(text: impl Into<String>) -> Self {
        Self::new(RemarkLevel::Usual, "", text.into())
    }

    pub(super) fn verbose(text: impl Into<String>) -> Self {
        Self::new(RemarkLevel::Verbose, "", text.into())
    }

    pub(super) fn line(&self) -> PaintedLine {
        match self.label {
            "" => PaintedLine::of(Paint::Dim, &*self.text),
            label => PaintedLine::of(Paint::Yellow, label).and(Paint::Plain, &*self.text),
        }
    }
}

/// Returns the line about an event; `None` for events that are shown in another way.
pub(super) fn remark(kind: &Kind, now: Timestamp, zone: &TimeZone) -> Option<Remark> {
    let one_line = words::one_line;
    Some(match kind {
        Kind::Notice(notice) => noticed(notice),
        Kind::LimitReported(limit) => return limit_reported(limit, now, zone),
        Kind::ContextCompacted(compacted) => context_compacted(compacted),
        Kind::Retrying(retrying) => Remark::verbose(retry(retrying, None)),
        Kind::Status(status) => Remark::verbose(busy_with(status.status.as_deref()?)?),
        Kind::ModelChanged(changed) => model_changed(changed),
        Kind::McpServerStatus(server) => mcp_server(server),
        Kind::RouteChosen(route) => {
            let reason = one_line(&remedies::with_flags(&route.reason));
            Remark::verbose(format!("{}: {reason}", one_line(&route.provider)))
        }
        Kind::FallbackTaken(fallback) => fallback_taken(fallback),
        Kind::CapabilityDegraded(degraded) => {
            let [capability, instead] = [&degraded.capability, &degraded.instead].map(|text| one_line(text));
            let reason = one_line(&remedies::with_flags(&degraded.reason));
            Remark::warning(format!("no {capability}: {reason}; instead: {instead}"))
        }
        Kind::TransportSwitched(switched) => {
            let (to, from) = (transport(switched.to), transport(switched.from));
            Remark::verbose(format!("connected with {to} instead of {from}: {}", one_line(&switched.reason)))
        }
        Kind::ResumeAnswered(resume) => resume_answered(resume),
        Kind::DivergenceFound(divergence) => {
            let summary = one_line(&divergence.summary);
            Remark::warning(format!("the agent's own history differs from Bowline's: {summary}"))
        }
        Kind::ProcessSpawned(process) => process_spawned(process),
        Kind::ProcessReaped(process) => {
            Remark::verbose(format!("pid {} ended: {}", process.pid, process.exit))
        }
        Kind::ProcessLeaked(process) => process_leaked(process),
        // Only the times of bytes are not known, which nothing that is shown depends on.
        Kind::Gap(gap) if gap.events.is_none() && gap.bytes.is_none() => Remark::verbose(missing(gap)),
        Kind::Gap(gap) => Remark::warning(missing(gap)),
        // The end of the run warns about all of them, with the path of the raw output.
        Kind::Unrecognized(what) if what.reason == UnrecognizedReason::TooLong => {
            Remark::verbose(too_long(what))
        }
        Kind::Unrecognized(what) => Remark::verbose(not_understood(what)),
        Kind::QuestionAsked(question) => Remark::usual(asked(&question.text, &question.choices)),
        Kind::QuestionAnswered(answer) => Remark::verbose(match answer.answers.as_slice() {
            [] => "the question was dismissed".to_owned(),
            answers => format!("answered: {}", one_line(&answers.join(", "))),
        }),
        Kind::PromptQueued(prompt) => Remark::verbose(format!("queued: {}", one_line(&prompt.text))),
        Kind::PromptRemoved(removed) => prompt_removed(removed),
        Kind::PlanUpdated(plan) => plan_updated(plan),
        Kind::BackgroundTaskStarted(task) => {
            Remark::usual(format!("in the background: {}", one_line(&task.summary)))
        }
        Kind::BackgroundTaskEnded(task) => background_task_ended(task),
        Kind::DiffAvailable(diff) => diff_available(diff),
        Kind::Unknown(unknown) => {
            Remark::verbose(format!("an event of a newer version: {}", one_line(&unknown.type_name)))
        }
        // The renderer shows these in its own way, or not at all.
        Kind::SessionStarted(_)
        | Kind::SessionStateChanged(_)
        | Kind::SessionEnded(_)
        | Kind::ControlModeChanged(_)
        | Kind::TurnStarted(_)
        | Kind::TurnEnded(_)
        | Kind::UserMessage(_)
        | Kind::TextDelta(_)
        | Kind::TextRetracted(_)
        | Kind::MessageFinished(_)
        | Kind::ThinkingDelta(_)
        | Kind::ToolStarted(_)
        | Kind::ToolUpdated(_)
        | Kind::ToolFinished(_)
        | Kind::FilesTouched(_)
        | Kind::ApprovalAsked(_)
        | Kind::ApprovalDecided(_)
        | Kind::UsageReported(_)
        | Kind::UsageTick(_)
        | Kind::ContextGauge(_)
        | Kind::OptionsAdvertised(_)
        | Kind::OptionsChanged(_) => return None,
    })
}

fn noticed(notice: &Notice) -> Remark {
    let text = words::one_line(&notice.text);
    let code = notice.code.as_deref();
    match notice.level {
        // A new field of the program concerns the maintainers of its dialect only.
        Level::Info if code == Some("novel") => Remark::verbose(text),
        Level::Info => Remark::usual(words::one_line(&remedies::of_notice(notice))),
        Level::Warn => Remark::warning(words::one_line(&remedies::of_notice(notice))),
        // The watchdog is ours, so this is not an error that the agent reported.
        Level::Error if code.is_some_and(|code| code.starts_with("watchdog_")) => Remark::warning(text),
        // Shown only if the turn continues: the end of the turn has the label `error:`.
        Level::Error => Remark::warning(format!("the agent reported an error: {text}")),
    }
}

fn prompt_removed(removed: &PromptRemoved) -> Remark {
    let id = words::one_line(removed.id.as_str());
    match removed.reason {
        PromptRemoval::Sent => Remark::verbose("the agent has the queued prompt".to_owned()),
        PromptRemoval::Dequeued => Remark::usual(format!("the queued prompt {id} was taken back")),
        PromptRemoval::Returned => {
            Remark::warning(format!("the queued prompt {id} was not sent; send it with `--offered {id}`"))
        }
        PromptRemoval::Rejected => Remark::warning(format!("the agent did not take the prompt {id}")),
    }
}

fn model_changed(changed: &ModelChanged) -> Remark {
    let reason = changed.reason.as_deref().map(|reason| format!(": {}", words::one_line(reason)));
    let model = words::one_line(&changed.model);
    Remark::usual(format!("the model is now {model}{}", reason.unwrap_or_default()))
}

fn fallback_taken(fallback: &FallbackTaken) -> Remark {
    let [from, to, why] =
        [&fallback.from, &fallback.to, &fallback.failure.message].map(|text| words::one_line(text));
    // Agents that fall back by themselves name rules of their own.
    let ours = bowline::Fallback::ALL.iter().any(|it| it.as_str() == fallback.rule);
    Remark::warning(if ours {
        format!("falling back from {from} to {to}: {why}")
    } else {
        format!("{from} failed, trying {to}: {why}")
    })
}

fn process_spawned(process: &ProcessSpawned) -> Remark {
    let promise = process.containment.as_deref().map(|promise| format!(", {}", words::one_line(promise)));
    let (program, promise) = (words::one_line(&process.program), promise.unwrap_or_default());
    Remark::verbose(format!("started {program} (pid {}{promise})", process.pid))
}

fn process_leaked(process: &ProcessLeaked) -> Remark {
    let (command, reason) = (words::one_line(&process.command), words::one_line(&process.reason));
    Remark::warning(match process.pid {
        // Without a pid there is no reason either; the command describes both.
        0 => format!("possibly still running: {command}"),
        pid => format!("still running: {command} (pid {pid}) could not be killed: {reason}"),
    })
}

fn background_task_ended(task: &BackgroundTaskEnded) -> Remark {
    let how = match task.status {
        ToolStatus::Completed => "ended",
        ToolStatus::Failed => "failed",
        ToolStatus::Denied => "was refused",
        ToolStatus::Cancelled => "was stopped",
    };
    let summary = task.summary.as_deref().map(|summary| format!(": {}", words::one_line(summary)));
    Remark::usual(format!("the background task {how}{}", summary.unwrap_or_default()))
}

fn diff_available(diff: &DiffAvailable) -> Remark {
    Remark::verbose(match &diff.summary {
        Some(summary) => format!("diff: {}", words::one_line(summary)),
        None if diff.lines_added.is_none() && diff.lines_removed.is_none() => {
            "the agent offers a diff of its changes".to_owned()
        }
        None => {
            let (added, removed) = (diff.lines_added.unwrap_or(0), diff.lines_removed.unwrap_or(0));
            let files = diff.files_changed.map(|files| format!(" in {}", words::many(files, "file")));
            format!("diff: +{added} -{removed}{}", files.unwrap_or_default())
        }
    })
}

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Pipe => "pipes",
        Transport::Pty => "a terminal",
        Transport::JsonRpc => "JSON-RPC",
        Transport::Acp => "ACP",
    }
}

/// Describes a retry; `left` is the rest of the wait, in seconds.
pub(super) fn retry(retrying: &Retrying, left: Option<u64>) -> String {
    let which = match (retrying.attempt, retrying.max_attempts) {
        (Some(attempt), Some(most)) => format!(" ({attempt} of {most})"),
        (Some(attempt), None) => format!(" ({attempt})"),
        (None, _) => String::new(),
    };
    let wait = left.or_else(|| retrying.delay_ms.map(|delay| delay.0.div_ceil(1000)));
    let wait = wait.filter(|seconds| *seconds > 0);
    let wait = wait.map_or(String::new(), |seconds| {
        format!(" in {}", bowline_protocol::Millis(seconds.saturating_mul(1000)))
    });
    let message = words::one_line(&retrying.message);
    let why = if message.is_empty() { retrying.category.as_str() } else { &message };
    format!("retrying{which}{wait}: {why}")
}

/// Returns the line about a retry by Bowline. A long wait is shown always, because the command looks stuck.
pub(super) fn sent_again(retrying: &Retrying, now: Timestamp, zone: &TimeZone) -> Remark {
    let wait = retrying.delay_ms.unwrap_or_default();
    if retrying.max_attempts.is_none() {
        let when = words::when(now.after(wait), now, zone);
        return Remark::new(RemarkLevel::Always, "", format!("waiting for the limit, which resets {when}"));
    }
    let category = retrying.category.as_str().replace('_', " ");
    let weight = if wait >= LONG_WAIT { RemarkLevel::Always } else { RemarkLevel::Usual };
    Remark::new(weight, "", format!("retrying in {wait} ({category})"))
}

/// Returns the line about the end of a wait for a usage limit.
pub(super) fn goes_on() -> Remark {
    Remark::new(RemarkLevel::Always, "", "the wait for the limit is over: continuing".to_owned())
}

/// Describes the activity of the agent; `None` for a wait for the model, which the spinner shows.
pub(super) fn busy_with(status: &str) -> Option<String> {
    match status {
        "" | "requesting" => None,
        "compacting" => Some("compacting the conversation".to_owned()),
        other => Some(words::one_line(other)),
    }
}

fn limit_reported(limit: &LimitReported, now: Timestamp, zone: &TimeZone) -> Option<Remark> {
    let used = limit.used_percent.filter(|used| used.is_finite()).unwrap_or(0.0);
    if limit.state == LimitState::Allowed && used < 80.0 {
        return None;
    }
    let window = words::one_line(&limit.window.replace('_', " "));
    let state = match limit.state {
        LimitState::Exhausted => "is used up".to_owned(),
        LimitState::Allowed | LimitState::Warning if used > 0.0 => format!("is used to {used:.0} %"),
        LimitState::Allowed | LimitState::Warning => "is nearly used up".to_owned(),
    };
    let resets = limit.resets_at.map(|at| format!("; it resets {}", words::when(at, now, zone)));
    Some(Remark::warning(format!("the {window} limit {state}{}", resets.unwrap_or_default())))
}

fn context_compacted(compacted: &ContextCompacted) -> Remark {
    let who = match compacted.trigger {
        CompactTrigger::Auto => "the conversation was compacted",
        CompactTrigger::Manual => "the conversation was compacted, as asked",
    };
    let tokens = match (compacted.tokens_before, compacted.tokens_after) {
        (Some(before), Some(after)) => {
            format!(": {} to {} tokens", words::count(before), words::count(after))
        }
        (Some(before), None) => format!(": it had {} tokens", words::count(before)),
        (None, Some(after)) => format!(" to {} tokens", words::count(after)),
        (None, None) => String::new(),
    };
    Remark::usual(format!("{who}{tokens}"))
}

fn mcp_server(server: &McpServerStatus) -> Remark {
    let name = words::one_line(&server.name);
    let error =
        server.error.as_deref().map(|error| format!(": {}", words::one_line(error))).unwrap_or_default();
    match server.state {
        McpState::Failed => Remark::warning(format!("the MCP server {name} failed{error}")),
        McpState::NeedsLogin => Remark::warning(format!("the MCP server {name} needs a login{error}")),
        McpState::Connecting => Remark::verbose(format!("the MCP server {name} is connecting")),
        McpState::Ready => Remark::verbose(format!("the MCP server {name} is connected")),
        McpState::Disabled => Remark::verbose(format!("the MCP server {name} is disabled")),
    }
}

fn resume_answered(resume: &ResumeAnswered) -> Remark {
    let wanted = words::one_line(resume.wanted.as_str());
    match resume.answer {
        ResumeAnswer::Resumed => Remark::verbose(format!("the session {wanted} was resumed")),
        ResumeAnswer::Rejected => {
            let got = resume
                .got
                .as_ref()
                .map(|got| format!("; the new session is {}", words::one_line(got.as_str())));
            Remark::warning(format!("the session {wanted} was not resumed{}", got.unwrap_or_default()))
        }
        ResumeAnswer::Unknown => {
            Remark::warning(format!("the agent does not report whether the session {wanted} was resumed"))
        }
        ResumeAnswer::TimedOut => Remark::warning(format!(
            "the agent did not confirm in time that the session {wanted} was resumed"
        )),
    }
}

fn missing(gap: &Gap) -> String {
    let what = match (gap.events, gap.bytes) {
        (Some(events), _) => words::many(events, "event"),
        (None, Some(bytes)) => words::many(bytes, "byte"),
        (None, None) => "a part of the stream".to_owned(),
    };
    format!("missing: {what}: {}", words::one_line(&gap.reason))
}

/// Describes a line above the size limit, which may have been a part of the answer.
fn too_long(what: &Unrecognized) -> String {
    let bytes = words::many(what.head.bytes, "byte");
    format!("a line of {bytes} is too long and was skipped")
}

fn not_understood(what: &Unrecognized) -> String {
    let name = what.type_name.as_deref().map(|name| format!(" of type {}", words::one_line(name)));
    let rest =
        what.count.map(|count| format!(", and {}", words::many(count.saturating_sub(1), "more piece")));
    let (name, rest) = (name.unwrap_or_default(), rest.unwrap_or_default());
    format!("not recognized: {}{name}{rest}", words::many(what.head.bytes, "byte"))
}

fn asked(text: &str, choices: &[String]) -> String {
    let choices = if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(" / ")) };
    words::one_line(&format!("the agent asks: {text}{choices}"))
}

fn plan_updated(plan: &PlanUpdated) -> Remark {
    let done = plan.steps.iter().filter(|step| step.status == StepStatus::Completed).count();
    let now = plan.steps.iter().find(|step| step.status == StepStatus::InProgress);
    let now = now.map(|step| format!(", now: {}", words::one_line(&step.text))).unwrap_or_default();
    Remark::verbose(format!("plan: {done} of {} steps done{now}", plan.steps.len()))
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Excerpt;

    use super::*;

    #[test]
    fn lines_that_were_skipped_are_told_at_the_end() {
        let remark = |reason| {
            let head = Excerpt { text: "{".to_owned(), bytes: 70_000_000 };
            let what = Unrecognized { reason, count: None, head, type_name: None };
            remark(&Kind::Unrecognized(what), Timestamp::EPOCH, &TimeZone::UTC).expect("a remark")
        };
        let skipped = remark(UnrecognizedReason::TooLong);
        assert!(matches!(skipped.weight, RemarkLevel::Verbose), "{skipped:?}");
        assert!(skipped.text.contains("70000000 bytes"), "{skipped:?}");
        assert!(!matches!(remark(UnrecognizedReason::Noise).weight, RemarkLevel::Always));
    }
}
