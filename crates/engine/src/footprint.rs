//! The footprint of an attempt: what it may have done with the prompt, judged by the program's output.
//!
//! A prompt that is sent twice does its work twice, and the program may not have printed any sign of the first time. So the
//! rule is conservative: an attempt is untouched only if something proves it. Everything else, including output that was not
//! understood, counts as "a tool may have run". The decision is elsewhere: in [`crate::fallback`] for the second form of a
//! program, and in [`crate::retry`] for retries and other agents.

use bowline_protocol::{Code, Exit, Failure, Kind, RawFile};
use bowline_providers::dialect::{Framing, Shape, StepOutput};
use serde::{Deserialize, Serialize};

/// The work that an attempt may have done, from provably nothing to certainly something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Footprint {
    /// The program was not started, or its protocol never got as far as the prompt.
    #[default]
    PromptNotSent,
    /// The program rejected an option that we passed before it printed anything else.
    UsageError,
    /// The program reported why its model call failed, or was ended before its first line; there is no sign of work.
    NoWork,
    /// The program had the prompt, and did not report why it ended.
    Unexplained,
    /// The model answered, in part at least: text, thinking, a plan, a question, or output tokens.
    ModelAnswered,
    /// The program printed something that was not understood. It may have been a tool call.
    NotUnderstood,
    /// Files of the working tree changed meanwhile.
    FilesChanged,
    /// A tool ran.
    ToolRan,
}

impl Footprint {
    /// Every footprint, from provably nothing to certainly something.
    pub const ALL: [Self; 8] = [
        Self::PromptNotSent,
        Self::UsageError,
        Self::NoWork,
        Self::Unexplained,
        Self::ModelAnswered,
        Self::NotUnderstood,
        Self::FilesChanged,
        Self::ToolRan,
    ];

    /// Returns whether the program provably did nothing with the prompt.
    pub fn is_untouched(self) -> bool {
        matches!(self, Self::PromptNotSent | Self::UsageError)
    }

    /// Returns whether a tool may have run, so that sending the prompt again may do its work twice.
    pub fn may_have_worked(self) -> bool {
        self >= Self::Unexplained
    }

    /// Returns the word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PromptNotSent => "prompt_not_sent",
            Self::UsageError => "usage_error",
            Self::NoWork => "no_work",
            Self::Unexplained => "unexplained",
            Self::ModelAnswered => "model_answered",
            Self::NotUnderstood => "not_understood",
            Self::FilesChanged => "files_changed",
            Self::ToolRan => "tool_ran",
        }
    }

    /// Returns the reason why the prompt may or may not be sent again, for people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PromptNotSent => "the prompt had not been sent",
            Self::UsageError => "the program rejected its arguments before it did anything",
            Self::NoWork => "there is no sign that it began to work",
            Self::Unexplained => "it had the prompt and did not report why it ended, so a tool may have run",
            Self::ModelAnswered => "the model had answered, so a tool may have run",
            Self::NotUnderstood => "some of its output was not understood, so a tool may have run",
            Self::FilesChanged => "files changed meanwhile, so a tool may have run",
            Self::ToolRan => "a tool ran, and would run a second time",
        }
    }

    /// Returns what an event of the agent proves.
    ///
    /// No wildcard: a new kind that is a sign of work must not let a prompt be sent twice.
    pub(crate) fn of_event(kind: &Kind) -> Self {
        match kind {
            Kind::ToolStarted(_)
            | Kind::ToolUpdated(_)
            | Kind::ToolFinished(_)
            | Kind::BackgroundTaskStarted(_)
            | Kind::DiffAvailable(_) => Self::ToolRan,
            Kind::FilesTouched(_) => Self::FilesChanged,
            Kind::Unrecognized(_) | Kind::Unknown(_) => Self::NotUnderstood,
            Kind::TextDelta(_)
            | Kind::ThinkingDelta(_)
            | Kind::PlanUpdated(_)
            | Kind::ApprovalAsked(_)
            | Kind::QuestionAsked(_)
            | Kind::ContextCompacted(_) => Self::ModelAnswered,
            Kind::UsageReported(report) if report.usage.output > 0 => Self::ModelAnswered,
            Kind::SessionStarted(_)
            | Kind::SessionStateChanged(_)
            | Kind::SessionEnded(_)
            | Kind::ControlModeChanged(_)
            | Kind::TurnStarted(_)
            | Kind::TurnEnded(_)
            | Kind::UserMessage(_)
            | Kind::TextRetracted(_)
            | Kind::MessageFinished(_)
            | Kind::BackgroundTaskEnded(_)
            | Kind::ApprovalDecided(_)
            | Kind::QuestionAnswered(_)
            | Kind::PromptQueued(_)
            | Kind::PromptRemoved(_)
            | Kind::Status(_)
            | Kind::Retrying(_)
            | Kind::LimitReported(_)
            | Kind::UsageReported(_)
            | Kind::UsageTick(_)
            | Kind::ContextGauge(_)
            | Kind::OptionsAdvertised(_)
            | Kind::OptionsChanged(_)
            | Kind::ModelChanged(_)
            | Kind::McpServerStatus(_)
            | Kind::Notice(_)
            | Kind::RouteChosen(_)
            | Kind::FallbackTaken(_)
            | Kind::CapabilityDegraded(_)
            | Kind::TransportSwitched(_)
            | Kind::ResumeAnswered(_)
            | Kind::DivergenceFound(_)
            | Kind::ProcessSpawned(_)
            | Kind::ProcessReaped(_)
            | Kind::ProcessLeaked(_)
            | Kind::Gap(_) => Self::PromptNotSent,
        }
    }
}

/// The facts about an attempt when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptTraces<'a> {
    /// The strongest sign among the events of the agent.
    pub(crate) seen: Footprint,
    /// Whether the program was started and given the prompt.
    pub(crate) prompted: bool,
    /// Whether the program only generates text, by its contract: it has no tools.
    pub(crate) generates_only: bool,
    /// When the format shows the program's steps.
    pub(crate) steps: StepOutput,
    /// The shape of the output, as known before it is read.
    pub(crate) shape: Shape,
    /// How the dialect cuts the output into frames.
    pub(crate) framing: Framing,
    /// Whether the program reported its token usage. Output tokens are a sign of work of their own, see `seen`.
    pub(crate) usage_reported: bool,
    /// Whether the program wrote to standard output.
    pub(crate) printed: bool,
    /// Whether the beginning of standard error rejects an option that we passed.
    pub(crate) rejects_ours: bool,
    /// Whether our watchdog ended the program.
    pub(crate) timed_out: bool,
    /// Whether an error on our side ended the program. The program's own reasons then do not count.
    pub(crate) trouble: bool,
    /// Why the turn failed.
    pub(crate) failure: Option<&'a Failure>,
}

impl AttemptTraces<'_> {
    /// Judges an attempt that ended without success.
    pub(crate) fn footprint(&self) -> Footprint {
        let Self { seen, prompted, generates_only, shape, printed, timed_out, trouble, failure, .. } = *self;
        // By its contract the program has no tools. A tool event disproves the contract.
        if generates_only {
            return if seen == Footprint::ToolRan { seen } else { Footprint::NoWork };
        }
        // Events come first: no exit code and no error message can undo the work that they show.
        if seen.may_have_worked() {
            return seen;
        }
        if !prompted {
            return Footprint::PromptNotSent;
        }
        // We ended the program, so its report is missing, or is about our signal.
        if trouble {
            return Footprint::Unexplained;
        }
        match failure {
            // Every condition is needed: a wrong proof sends the prompt twice. Only lines would have shown earlier steps.
            Some(failure)
                if shape == Shape::Lines && !printed && self.rejects_ours && is_usage_error(failure) =>
            {
                Footprint::UsageError
            }
            // A program that announces each step has begun none if it printed nothing.
            Some(_) if timed_out && !printed && self.steps == StepOutput::Announced => Footprint::NoWork,
            Some(failure) if names_reason(failure) && self.would_show_work(failure) => Footprint::NoWork,
            Some(_) | None => Footprint::Unexplained,
        }
    }

    /// Returns whether a tool call would have been visible before this failure, so that no sign of work means no work.
    ///
    /// In a format that shows steps late or never, a reason on standard error proves nothing: the "429" may be that of the
    /// tenth model call. A document or a text shows no steps, but a usage report without output tokens means that no model call
    /// succeeded.
    fn would_show_work(&self, failure: &Failure) -> bool {
        let reads_lines =
            self.framing != Framing::Document && matches!(self.shape, Shape::Lines | Shape::Unknown);
        // An error line follows the steps that led to it.
        let is_error_line =
            reads_lines && failure.raw.as_ref().is_some_and(|span| span.file == RawFile::Stdout);
        self.steps != StepOutput::Late || is_error_line || self.usage_reported
    }
}

/// Returns whether the program rejected our arguments and exited.
pub(crate) fn is_usage_error(failure: &Failure) -> bool {
    failure.code == Code::FlagRejected && matches!(failure.exit, Some(Exit::Code(code)) if code != 0)
}

/// Returns whether the program itself named the reason. The other codes are our conclusions from its exit.
fn names_reason(failure: &Failure) -> bool {
    !matches!(
        failure.code,
        Code::Unknown
            | Code::Crashed
            | Code::Killed
            | Code::Truncated
            | Code::Empty
            | Code::FormatChanged
            | Code::FlagRejected
            | Code::TimedOut
    )
}

#[cfg(test)]
mod tests;
