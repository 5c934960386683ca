//! Why a session is in its state, in words that a person can act on.
//!
//! The reason of an event is that of its moment. A snapshot asks again: in one state the open request changes, and the turn goes on.

use bowline_protocol::kinds::{EndReason, Outcome, SessionState};
use bowline_protocol::{ApprovalCategory, Exit, Failure, Millis};

use super::values::ResumeTarget;
use super::{Run, RunEnd, RunPhase};

/// Why a live session has no process after a stop of its plan.
pub(crate) const NOT_PLANNED: &str = "no process runs: the prompt was taken back before one was started";
/// Why a live session has no process at first.
pub(crate) const NO_PROMPT: &str = "no process runs: the first prompt starts one";
/// The same for a session that went on in a new runner.
pub(crate) const NO_FURTHER_PROMPT: &str = "no process runs: the next prompt starts one";
/// A stop that a caller ordered.
pub(crate) const STOP_ORDERED: &str = "a stop was ordered";
/// A person leads.
pub(crate) const PERSON_LEADS: &str = "a person leads: queued prompts wait for the release";
/// The state of the files is read.
pub(super) const READS_FILES: &str = "reads the state of the files, to report which ones the turn changes";

impl Run {
    /// Returns the reason of the state that was announced last, as it is now.
    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.announced();
        let changes = match state {
            SessionState::WaitingForApproval | SessionState::WaitingForInput | SessionState::Running => true,
            SessionState::Created
            | SessionState::Preparing
            | SessionState::Starting
            | SessionState::Idle
            | SessionState::PausedByHuman
            | SessionState::Stopping
            | SessionState::Completed
            | SessionState::Failed => false,
        };
        if changes && self.phase == RunPhase::Running {
            self.reason_of(state)
        } else {
            self.life.announced_reason().map(str::to_owned)
        }
    }

    /// Returns the reason of a state of the running process.
    pub(super) fn reason_of(&self, state: SessionState) -> Option<String> {
        match state {
            SessionState::WaitingForApproval => self.approval_reason(),
            SessionState::WaitingForInput => self.life.questions.reason(),
            SessionState::PausedByHuman => Some(PERSON_LEADS.to_owned()),
            SessionState::Idle => Some("the agent's process waits for a prompt".to_owned()),
            SessionState::Running => self.running_reason().map(str::to_owned),
            SessionState::Created
            | SessionState::Preparing
            | SessionState::Starting
            | SessionState::Stopping
            | SessionState::Completed
            | SessionState::Failed => None,
        }
    }

    fn approval_reason(&self) -> Option<String> {
        let mut waiting = self.approvals.waiting_for();
        let (id, wants) = waiting.next()?;
        let more = waiting.count();
        let more = if more == 0 { String::new() } else { format!("; {more} more wait") };
        Some(format!("request {id}: the agent wants {wants}{more}"))
    }

    /// Returns why the process works. A turn alone needs no reason.
    fn running_reason(&self) -> Option<&'static str> {
        if self.life.is_interrupting() {
            Some("the turn is being interrupted")
        } else if self.life.looking_until().is_some() {
            Some("reads which files the turn has changed")
        } else if self.is_kept() && !self.life.is_ready() {
            Some("the agent opens its session")
        } else if !self.has_open_turn() && self.decoder.has_left_tasks() {
            Some("tasks of the agent run in the background")
        } else {
            None
        }
    }

    /// Returns what the start of the process does.
    pub(super) fn start_reason(&self) -> String {
        match &self.plan.resume {
            Some(ResumeTarget { id, fork: false }) => format!("resumes the agent's session {id}"),
            Some(ResumeTarget { id, fork: true }) => format!("starts a branch of the agent's session {id}"),
            None => format!("starts `{}`", self.plan.attempts[self.attempt].program),
        }
    }
}

/// Returns what an agent wants, in words.
pub(super) fn wants(category: ApprovalCategory) -> &'static str {
    match category {
        ApprovalCategory::Shell => "to run a command",
        ApprovalCategory::Edit => "to change files",
        ApprovalCategory::Read => "to read files",
        ApprovalCategory::Network => "to use the network",
        ApprovalCategory::Merge => "to merge or push",
        ApprovalCategory::DepsAdd => "to add dependencies",
        ApprovalCategory::Secrets => "to use secrets",
        ApprovalCategory::Deploy => "to deploy",
        ApprovalCategory::Other => "a permission",
    }
}

/// Returns why a live session has no process any more.
pub(crate) fn no_process(ended: &RunEnd, was_idle_for: Option<Millis>) -> String {
    if let Some(idle) = was_idle_for {
        return format!("the agent's process ended after {} without a prompt", span(idle));
    }
    let how = ended.exit.map_or_else(String::new, |exit| format!(" ({exit})"));
    let failure = ended.failure.as_ref().map_or_else(String::new, |failure| format!(": {}", failure.message));
    match ended.reason {
        EndReason::Stopped => "the agent's process was ended with its turn".to_owned(),
        EndReason::TimedOut | EndReason::Failed | EndReason::PolicyViolation if ended.exit.is_some() => {
            format!("the agent's process was ended{failure}")
        }
        EndReason::Failed => format!("the agent's process could not be started{failure}"),
        EndReason::Exited if ended.exit == Some(Exit::Code(0)) && failure.is_empty() => {
            "the agent's process ended with its turn".to_owned()
        }
        EndReason::Exited | EndReason::TimedOut | EndReason::PolicyViolation | EndReason::Lost => {
            format!("the agent's process ended{how}{failure}")
        }
    }
}

/// Returns why a session is over.
pub(super) fn of_end(outcome: Outcome, reason: EndReason, failure: Option<&Failure>) -> Option<String> {
    if outcome != Outcome::Completed
        && let Some(failure) = failure
    {
        return Some(failure.message.clone());
    }
    Some(match (outcome, reason) {
        (Outcome::Completed, EndReason::Stopped) => STOP_ORDERED.to_owned(),
        (Outcome::Completed, _) => return None,
        (Outcome::Cancelled, _) => "the turn was cancelled".to_owned(),
        (Outcome::Truncated, _) => "the output ended without a result".to_owned(),
        (Outcome::Failed, _) => "the turn failed".to_owned(),
    })
}

/// Formats a duration for people, in minutes where it is whole ones.
fn span(time: Millis) -> String {
    if time.0 >= 60_000 && time.0.is_multiple_of(60_000) {
        format!("{} min", time.0 / 60_000)
    } else {
        super::watch::seconds(time)
    }
}
