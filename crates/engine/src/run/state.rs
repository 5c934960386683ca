//! The state of a run, built from its events: numbers, the session, and how the last turn ended. The decoder knows the open turn,
//! its tools and its retries.

use bowline_protocol::kinds::{Outcome, ResumeAnswer, ResumeAnswered, StopReason, TurnEnded};
use bowline_protocol::{
    Category, Code, Event, FORMAT_VERSION, Failure, Kind, NativeSessionId, RawFile, RawSpan, SessionId,
    Source, Timestamp, UsageSource,
};
use bowline_providers::dialect::UnnumberedEvent;

use super::ladder::StopCause;
use super::values::{Numbering, ResumeTarget, RunPlan};
use crate::footprint::Footprint;
use crate::usage_error;

#[derive(Debug)]
pub(super) struct RunState {
    session: SessionId,
    seq: u64,
    /// The turns of earlier runs of the session and of earlier attempts.
    turns_before: u32,
    /// The last turn that began in this run; 0 before the first.
    turn: u32,
    /// The bytes of earlier runs and attempts, and of all so far.
    stdout_before: u64,
    stderr_before: u64,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    /// The beginning of standard error of this attempt.
    pub(super) stderr_head: Vec<u8>,
    pub(super) outcome: Option<Outcome>,
    pub(super) failure: Option<Failure>,
    pub(super) has_text: bool,
    /// Whether a tool ran in any attempt.
    pub(super) tool_ever_ran: bool,
    /// The strongest sign of work among the events of this attempt.
    pub(super) seen: Footprint,
    /// The footprint of the attempts that are over.
    pub(super) footprint: Footprint,
    /// Whether the program of this attempt reported its token usage.
    pub(super) usage_reported: bool,
    /// Whether the program of this attempt runs and has the prompt.
    pub(super) prompted: bool,
    /// The model that answers, as last named.
    pub(super) model: Option<String>,
    resume: Option<ResumeTarget>,
    answered: Option<ResumeAnswered>,
    wrong_session: Option<Failure>,
}

impl RunState {
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            session: plan.session.clone(),
            seq: plan.numbering.next_seq - 1,
            turns_before: plan.numbering.next_turn - 1,
            turn: 0,
            stdout_before: plan.numbering.stdout,
            stderr_before: plan.numbering.stderr,
            stdout_bytes: plan.numbering.stdout,
            stderr_bytes: plan.numbering.stderr,
            stderr_head: Vec::new(),
            outcome: None,
            failure: None,
            has_text: false,
            tool_ever_ran: false,
            seen: Footprint::default(),
            footprint: Footprint::default(),
            usage_reported: false,
            prompted: false,
            model: None,
            resume: plan.resume.clone(),
            answered: None,
            wrong_session: None,
        }
    }

    /// Resets the state for the next process of the same session.
    pub(super) fn next_attempt(&mut self, resume: Option<ResumeTarget>) {
        // The new process gets the same request to resume, so it has to confirm it anew.
        self.resume = resume;
        // A run has one numbering: the turns and spans of the next process continue behind these. `footprint` and
        // `tool_ever_ran` stay, because they describe the whole run.
        self.turns_before = self.turns_before.max(self.turn);
        self.stdout_before = self.stdout_bytes;
        self.stderr_before = self.stderr_bytes;
        self.stderr_head.clear();
        (self.outcome, self.failure, self.has_text) = (None, None, false);
        (self.seen, self.prompted, self.usage_reported) = (Footprint::default(), false, false);
    }

    /// Resets the state for the next process of a live session, which continues the numbering.
    pub(super) fn next_life(&mut self, resume: Option<ResumeTarget>) {
        self.next_attempt(resume);
        (self.footprint, self.tool_ever_ran) = (Footprint::default(), false);
        (self.answered, self.wrong_session) = (None, None);
    }

    /// Returns the number that the next turn gets.
    pub(super) fn next_turn(&self) -> u32 {
        self.turns_before.max(self.turn) + 1
    }

    /// Returns where a further run of the session begins.
    pub(super) fn numbering(&self) -> Numbering {
        Numbering {
            next_seq: self.seq + 1,
            next_turn: self.next_turn(),
            stdout: self.stdout_bytes,
            stderr: self.stderr_bytes,
        }
    }

    /// Returns the number of the last event.
    pub(super) fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Returns the last turn that began; 0 before the first.
    pub(super) fn last_turn(&self) -> u32 {
        self.turn
    }

    /// Records bytes of standard error.
    pub(super) fn add_stderr(&mut self, bytes: &[u8]) {
        self.stderr_bytes += bytes.len() as u64;
        // This does not underflow: the line below never lets the head grow past `HEAD`.
        let room = usage_error::HEAD - self.stderr_head.len();
        self.stderr_head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns whether a sync of the journal has to follow an event of this kind. [`RunStep::durable`](super::RunStep::durable)
    /// describes what the sync protects from, and what it does not delay.
    pub(super) fn is_durable(kind: &Kind) -> bool {
        matches!(
            kind,
            Kind::TurnEnded(_)
                | Kind::SessionStateChanged(_)
                | Kind::SessionEnded(_)
                | Kind::ApprovalAsked(_)
                | Kind::ApprovalDecided(_)
                | Kind::PromptQueued(_)
                | Kind::PromptRemoved(_)
        )
    }

    /// Numbers an event of the run itself.
    pub(super) fn number_own(&mut self, kind: Kind, at: Timestamp) -> Event {
        let turn = (self.turn > 0).then_some(self.turn);
        self.number(turn, Source::Bowline, None, kind, at)
    }

    /// Takes note of an event of the decoder and changes its turn and its span into those of the whole run. Returns whether the
    /// event is one of the run. Events come by the thousand and are large, so this one stays where it is.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most kinds pass through a run and do not concern it")]
    pub(super) fn accept(&mut self, draft: &mut UnnumberedEvent, why: Option<&StopCause>) -> bool {
        let UnnumberedEvent { turn, source: _, raw, kind } = draft;
        if let Some(turn) = turn {
            *turn += self.turns_before;
        }
        if let Some(span) = raw {
            self.shift(span);
        }
        self.seen = self.seen.max(Footprint::of_event(kind));
        match kind {
            // The run itself emits that event, when the processes are gone.
            Kind::SessionEnded(_) => return false,
            Kind::SessionStarted(started) => {
                self.model = started.model.clone().or(self.model.take());
                self.session_reported(started.native_session.as_ref());
            }
            // The dialect emits the answer itself.
            Kind::ResumeAnswered(_) => self.resume = None,
            Kind::ModelChanged(changed) => self.model = Some(changed.model.clone()),
            Kind::UsageReported(report) => {
                self.usage_reported |= report.source == UsageSource::Reported;
                self.model = report.model.clone().or(self.model.take());
            }
            Kind::TurnStarted(_) => {
                self.turn = turn.unwrap_or(self.turn);
                // A run ends as its last turn did.
                (self.outcome, self.failure, self.has_text) = (None, None, false);
            }
            Kind::TurnEnded(ended) => {
                if let Some(span) = ended.failure.as_mut().and_then(|failure| failure.raw.as_mut()) {
                    self.shift(span);
                }
                apply_stop_cause(ended, why);
                self.turn_ended(ended);
            }
            // The text of a subagent is not the answer.
            Kind::TextDelta(delta) => self.has_text |= delta.parent.is_none(),
            Kind::ToolStarted(_) => self.tool_ever_ran = true,
            _ => {}
        }
        true
    }

    /// Numbers an accepted event.
    #[inline]
    pub(super) fn number_draft(&mut self, draft: UnnumberedEvent, at: Timestamp) -> Event {
        let UnnumberedEvent { turn, source, raw, kind } = draft;
        self.number(turn, source, raw, kind, at)
    }

    /// Returns whether the program of this attempt wrote to standard output.
    pub(super) fn has_printed(&self) -> bool {
        self.stdout_bytes > self.stdout_before
    }

    /// Returns the answer to the request to resume, once, when it is known.
    pub(super) fn resume_answer(&mut self) -> Option<ResumeAnswered> {
        self.answered.take()
    }

    /// Returns why the agent must not continue in its session, once.
    pub(super) fn wrong_session(&mut self) -> Option<Failure> {
        self.wrong_session.take()
    }

    #[inline]
    fn number(
        &mut self,
        turn: Option<u32>,
        source: Source,
        raw: Option<RawSpan>,
        kind: Kind,
        at: Timestamp,
    ) -> Event {
        self.seq += 1;
        Event { v: FORMAT_VERSION, seq: self.seq, at, session: self.session.clone(), turn, source, raw, kind }
    }

    /// Moves a span of this process behind the bytes of earlier processes in the same file.
    fn shift(&self, span: &mut RawSpan) {
        let before = match span.file {
            RawFile::Stdout | RawFile::Pty => self.stdout_before,
            RawFile::Stderr => self.stderr_before,
            RawFile::Stdin => 0,
        };
        span.start += before;
        span.end += before;
    }

    /// Handles the session id that the agent reports.
    fn session_reported(&mut self, got: Option<&NativeSessionId>) {
        // An event without an id leaves the request open for the next event.
        let (Some(got), Some(wanted)) = (got, self.resume.take_if(|_| got.is_some())) else { return };
        let same = *got == wanted.id;
        // A resumed session keeps its id; a fork must have another one.
        let answer = if same != wanted.fork { ResumeAnswer::Resumed } else { ResumeAnswer::Rejected };
        if answer == ResumeAnswer::Rejected {
            let message = if wanted.fork {
                format!("a fork of session {} was requested, but the agent continued it", wanted.id)
            } else {
                format!("session {} was requested, but the agent began session {got}", wanted.id)
            };
            self.wrong_session = Some(Failure::new(Category::NotFound, Code::SessionNotFound, message));
        }
        self.answered = Some(ResumeAnswered { wanted: wanted.id, got: Some(got.clone()), answer });
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.outcome = Some(ended.outcome);
        self.failure = ended.failure.as_deref().cloned();
        // The agent never reported its session: a refusal, a deadline, or an unknown reason.
        if let Some(wanted) = self.resume.take() {
            let code = ended.failure.as_ref().map(|failure| &failure.code);
            let answer = match code {
                Some(Code::SessionNotFound) => ResumeAnswer::Rejected,
                Some(Code::TimedOut | Code::GaveUpWaiting) => ResumeAnswer::TimedOut,
                _ => ResumeAnswer::Unknown,
            };
            self.answered = Some(ResumeAnswered { wanted: wanted.id, got: None, answer });
        }
    }
}

/// Replaces the program's outcome by our own reason.
fn apply_stop_cause(ended: &mut TurnEnded, why: Option<&StopCause>) {
    match why {
        None | Some(StopCause::Lingering) => {}
        Some(StopCause::Trouble(failure)) => {
            ended.outcome = Outcome::Failed;
            let reported = ended.failure.take();
            let mut failure = failure.clone();
            failure.exit = failure.exit.or(reported.as_ref().and_then(|reported| reported.exit));
            ended.failure = Some(failure);
            ended.stop = None;
        }
        Some(StopCause::Cancelled) => {
            // An interrupted program often reports an error. A program that names another reason had really failed.
            // One program in our captures reports an error after SIGINT, and exits with 0.
            let real = ended.failure.as_ref().is_some_and(|failure| {
                failure.raw.is_some() && !matches!(failure.category, Category::Unknown | Category::Timeout)
            });
            if ended.outcome != Outcome::Completed && !real {
                (ended.outcome, ended.failure) = (Outcome::Cancelled, None);
                ended.stop = Some(StopReason::Cancelled);
            }
        }
        Some(StopCause::TimedOut(which, limit, retrying)) => {
            // The answer was complete before the program was stopped, so it counts.
            if ended.outcome == Outcome::Completed {
                return;
            }
            let message = which.about(*limit);
            let reported = ended.failure.take();
            let mut failure = match (reported, *retrying) {
                // The turn tracker knows the cause that the program was waiting for.
                (Some(reported), _) if reported.raw.is_none() && reported.code == Code::GaveUpWaiting => {
                    *reported
                }
                (reported, retrying) => {
                    let (category, code) = match retrying {
                        Some(category) => (category, Code::GaveUpWaiting),
                        None => (Category::Timeout, Code::TimedOut),
                    };
                    let mut failure = Failure::new(category, code, message);
                    if retrying.is_none() {
                        failure = which.advise(failure);
                    }
                    if let Some(reported) = reported {
                        (failure.exit, failure.stderr_tail) = (reported.exit, reported.stderr_tail);
                    }
                    failure
                }
            };
            // The deadline is our conclusion. A span would mark it as the program's own verdict (`fallback::decide`).
            failure.raw = None;
            (ended.outcome, ended.stop) = (Outcome::Failed, None);
            ended.failure = Some(Box::new(failure));
        }
    }
}
