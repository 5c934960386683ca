//! Events that are one line for the reader, and how much the reader must want to know to see it.

use bowline_protocol::kinds::{
    CompactTrigger, ContextCompacted, Gap, Level, LimitReported, LimitState, McpServerStatus, McpState,
    PlanUpdated, ResumeAnswer, ResumeAnswered, Retrying, StepStatus, ToolStatus, Transport, Unrecognized,
    UnrecognizedReason,
};
use bowline_protocol::{Kind, Timestamp};
use jiff::tz::TimeZone;

use super::canvas::{Line, Paint};
use super::words;

/// A wait before a retry that looks as if nothing happened.
const LONG_WAIT: bowline_protocol::Millis = bowline_protocol::Millis(5_000);

/// How much the reader must want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Whatever the streams are.
    Always,
    /// On a terminal, or with `-v`.
    Usual,
    /// With `-v`.
    Verbose,
    /// With `-vv`.
    Everything,
}

/// A line about something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) weight: Weight,
    label: &'static str,
    pub(super) text: String,
}

impl Remark {
    fn new(weight: Weight, label: &'static str, text: String) -> Self {
        Self { weight, label, text }
    }

    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self::new(Weight::Always, "warning: ", text.into())
    }

    pub(super) fn usual(text: impl Into<String>) -> Self {
        Self::new(Weight::Usual, "", text.into())
    }

    pub(super) fn verbose(text: impl Into<String>) -> Self {
        Self::new(Weight::Verbose, "", text.into())
    }

    pub(super) fn line(&self) -> Line {
        match self.label {
            "" => Line::of(Paint::Dim, &*self.text),
            label => Line::of(Paint::Yellow, label).and(Paint::Plain, &*self.text),
        }
    }
}

/// Returns the line about an event, if it is one that a line is enough for.
pub(super) fn remark(kind: &Kind, now: Timestamp, zone: &TimeZone) -> Option<Remark> {
    let one_line = words::one_line;
    Some(match kind {
        Kind::Notice(notice) => match notice.level {
            // What a program never said before concerns those who maintain its dialect.
            Level::Info if notice.code.as_deref() == Some("novel") => Remark::verbose(one_line(&notice.text)),
            Level::Info => Remark::usual(one_line(&notice.text)),
            Level::Warn => Remark::warning(one_line(&notice.text)),
            // Those are ours: the agent said nothing.
            Level::Error if notice.code.as_deref().is_some_and(|code| code.starts_with("watchdog_")) => {
                Remark::warning(one_line(&notice.text))
            }
            // Shown only when the turn survived it: `error:` is what the end is told with.
            Level::Error => {
                Remark::warning(format!("the agent told of an error: {}", one_line(&notice.text)))
            }
        },
        Kind::LimitReported(limit) => return limit_reported(limit, now, zone),
        Kind::ContextCompacted(compacted) => context_compacted(compacted),
        Kind::Retrying(retrying) => Remark::verbose(retry(retrying, None)),
        Kind::Status(status) => Remark::verbose(busy_with(status.status.as_deref()?)?),
        Kind::ModelChanged(changed) => {
            let reason = changed.reason.as_deref().map(|reason| format!(": {}", one_line(reason)));
            let model = one_line(&changed.model);
            Remark::usual(format!("the model is {model} from here on{}", reason.unwrap_or_default()))
        }
        Kind::McpServerStatus(server) => mcp_server(server),
        Kind::RouteChosen(route) => {
            Remark::verbose(format!("{}: {}", one_line(&route.provider), one_line(&route.reason)))
        }
        Kind::FallbackTaken(fallback)
            if bowline::Fallback::ALL.iter().any(|it| it.as_str() == fallback.rule) =>
        {
            Remark::warning(format!(
                "falling back from {} to {}: {}",
                one_line(&fallback.from),
                one_line(&fallback.to),
                one_line(&fallback.failure.message)
            ))
        }
        Kind::FallbackTaken(fallback) => Remark::warning(format!(
            "{} failed, trying {}: {}",
            one_line(&fallback.from),
            one_line(&fallback.to),
            one_line(&fallback.failure.message)
        )),
        Kind::CapabilityDegraded(degraded) => Remark::warning(format!(
            "no {}: {}; instead: {}",
            one_line(&degraded.capability),
            one_line(&degraded.reason),
            one_line(&degraded.instead)
        )),
        Kind::TransportSwitched(switched) => Remark::verbose(format!(
            "connected by {} instead of {}: {}",
            transport(switched.to),
            transport(switched.from),
            one_line(&switched.reason)
        )),
        Kind::ResumeAnswered(resume) => resume_answered(resume),
        Kind::DivergenceFound(divergence) => Remark::warning(format!(
            "the agent's own history differs from ours: {}",
            one_line(&divergence.summary)
        )),
        Kind::ProcessSpawned(process) => {
            let promise = process.containment.as_deref().map(|promise| format!(", {}", one_line(promise)));
            let promise = promise.unwrap_or_default();
            Remark::verbose(format!("started {} (pid {}{promise})", one_line(&process.program), process.pid))
        }
        Kind::ProcessReaped(process) => {
            Remark::verbose(format!("pid {} ended: {}", process.pid, process.exit))
        }
        Kind::ProcessLeaked(process) => {
            let (command, reason) = (one_line(&process.command), one_line(&process.reason));
            Remark::warning(match process.pid {
                // Nobody could be asked, and what it is says why.
                0 => format!("perhaps still running: {command}"),
                pid => format!("still running: {command} (pid {pid}) could not be ended: {reason}"),
            })
        }
        Kind::Gap(gap) => Remark::warning(missing(gap)),
        Kind::Unrecognized(what) if what.reason == UnrecognizedReason::TooLong => {
            Remark::warning(too_long(what))
        }
        Kind::Unrecognized(what) => Remark::verbose(not_understood(what)),
        Kind::QuestionAsked(question) => Remark::usual(asked(&question.text, &question.choices)),
        Kind::QuestionAnswered(answer) => Remark::verbose(match answer.answers.as_slice() {
            [] => "the question was dismissed".to_owned(),
            answers => format!("answered: {}", one_line(&answers.join(", "))),
        }),
        Kind::PlanUpdated(plan) => plan_updated(plan),
        Kind::BackgroundTaskStarted(task) => {
            Remark::usual(format!("in the background: {}", one_line(&task.summary)))
        }
        Kind::BackgroundTaskEnded(task) => {
            let how = match task.status {
                ToolStatus::Completed => "ended",
                ToolStatus::Failed => "failed",
                ToolStatus::Denied => "was refused",
                ToolStatus::Cancelled => "was stopped",
            };
            let summary = task.summary.as_deref().map(|summary| format!(": {}", one_line(summary)));
            Remark::usual(format!("the background task {how}{}", summary.unwrap_or_default()))
        }
        Kind::DiffAvailable(diff) => Remark::verbose(match &diff.summary {
            Some(summary) => format!("diff: {}", one_line(summary)),
            None if diff.lines_added.is_none() && diff.lines_removed.is_none() => {
                "the agent offers a diff of its changes".to_owned()
            }
            None => {
                let (added, removed) = (diff.lines_added.unwrap_or(0), diff.lines_removed.unwrap_or(0));
                let files = diff.files_changed.map(|files| format!(" in {}", words::many(files, "file")));
                format!("diff: +{added} -{removed}{}", files.unwrap_or_default())
            }
        }),
        Kind::Unknown(unknown) => {
            Remark::verbose(format!("an event of a newer version: {}", one_line(&unknown.type_name)))
        }
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

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Pipe => "pipes",
        Transport::Pty => "a terminal",
        Transport::JsonRpc => "JSON-RPC",
        Transport::Acp => "ACP",
    }
}

/// Says that a request is tried again; `left` is what is left of the waiting time.
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

/// Says that the whole request is sent again, by us. Of a long wait everybody wants to know: it looks as if nothing happened.
pub(super) fn sent_again(retrying: &Retrying, now: Timestamp, zone: &TimeZone) -> Remark {
    let wait = retrying.delay_ms.unwrap_or_default();
    if retrying.max_attempts.is_none() {
        let when = words::when(now.after(wait), now, zone);
        return Remark::new(Weight::Always, "", format!("waiting for the limit, which starts anew {when}"));
    }
    let category = retrying.category.as_str().replace('_', " ");
    let weight = if wait >= LONG_WAIT { Weight::Always } else { Weight::Usual };
    Remark::new(weight, "", format!("retrying in {wait} ({category})"))
}

/// Says that a limit was waited for and is over.
pub(super) fn goes_on() -> Remark {
    Remark::new(Weight::Always, "", "the wait for the limit is over: going on".to_owned())
}

/// Says what the agent is busy with. That it waits for its model is what the spinner says anyway.
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
        McpState::Failed => Remark::warning(format!("the MCP server {name} does not work{error}")),
        McpState::NeedsLogin => Remark::warning(format!("the MCP server {name} wants a login{error}")),
        McpState::Connecting => Remark::verbose(format!("the MCP server {name} is being connected")),
        McpState::Ready => Remark::verbose(format!("the MCP server {name} works")),
        McpState::Disabled => Remark::verbose(format!("the MCP server {name} is switched off")),
    }
}

fn resume_answered(resume: &ResumeAnswered) -> Remark {
    let wanted = words::one_line(resume.wanted.as_str());
    match resume.answer {
        ResumeAnswer::Resumed => Remark::verbose(format!("the session {wanted} goes on")),
        ResumeAnswer::Rejected => {
            let got = resume.got.as_ref().map(|got| format!("; this is {}", words::one_line(got.as_str())));
            Remark::warning(format!("the session {wanted} was not resumed{}", got.unwrap_or_default()))
        }
        ResumeAnswer::Unknown => {
            Remark::warning(format!("the agent does not say whether the session {wanted} was resumed"))
        }
        ResumeAnswer::TimedOut => {
            Remark::warning(format!("no answer came in time on resuming the session {wanted}"))
        }
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

/// A line above the limit may have held a part of the answer: that is told whatever was asked for.
fn too_long(what: &Unrecognized) -> String {
    let bytes = words::many(what.head.bytes, "byte");
    format!("a line of {bytes} is too long and was skipped: a part of the answer may be missing")
}

fn not_understood(what: &Unrecognized) -> String {
    let name = what.type_name.as_deref().map(|name| format!(" of type {}", words::one_line(name)));
    let rest =
        what.count.map(|count| format!(", and {} behind it", words::many(count.saturating_sub(1), "piece")));
    let (name, rest) = (name.unwrap_or_default(), rest.unwrap_or_default());
    format!("not understood: {}{name}{rest}", words::many(what.head.bytes, "byte"))
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
    fn a_line_that_was_skipped_for_its_length_is_told_and_noise_is_not() {
        let remark = |reason| {
            let head = Excerpt { text: "{".to_owned(), bytes: 70_000_000 };
            let what = Unrecognized { reason, count: None, head, type_name: None };
            remark(&Kind::Unrecognized(what), Timestamp::EPOCH, &TimeZone::UTC).expect("a remark")
        };
        let skipped = remark(UnrecognizedReason::TooLong);
        assert!(matches!(skipped.weight, Weight::Always), "{skipped:?}");
        assert!(skipped.text.contains("70000000 bytes"), "{skipped:?}");
        assert!(!matches!(remark(UnrecognizedReason::Noise).weight, Weight::Always));
    }
}
