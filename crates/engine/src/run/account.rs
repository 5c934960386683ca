//! What a run remembers of the events that pass: numbers, the state of the turn, and how it ended.

use std::collections::HashSet;

use bowline_protocol::kinds::{Outcome, ResumeAnswer, ResumeAnswered, StopReason, TurnEnded};
use bowline_protocol::{
    Category, Code, Event, FORMAT_VERSION, Failure, Kind, NativeSessionId, RawFile, RawSpan, SessionId,
    Source, Timestamp, ToolId, UsageSource,
};
use bowline_providers::dialect::Draft;

use super::ladder::Why;
use super::values::{Plan, Wanted};
use crate::footprint::Footprint;

#[derive(Debug)]
pub(super) struct Account {
    session: SessionId,
    seq: u64,
    /// The turns of earlier attempts.
    turns_before: u32,
    /// The last turn that began.
    turn: u32,
    open: bool,
    /// Whether the last turn that ended left work running in the background.
    background: bool,
    tools: HashSet<ToolId>,
    /// What earlier attempts wrote, and what this one has.
    stdout_before: u64,
    stderr_before: u64,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    /// What the agent does instead of working, as it last said.
    retrying: Option<Category>,
    pub(super) outcome: Option<Outcome>,
    pub(super) failure: Option<Failure>,
    pub(super) has_text: bool,
    /// Whether a tool ran in any attempt.
    pub(super) tool_ever_ran: bool,
    /// The strongest sign of work among the events of this attempt.
    pub(super) seen: Footprint,
    /// What the attempts that are over may have done.
    pub(super) footprint: Footprint,
    /// Whether the program of this attempt reported its token usage.
    pub(super) usage_reported: bool,
    /// Whether the program of this attempt runs and has the prompt.
    pub(super) prompted: bool,
    /// The model that answers, as it was last named.
    pub(super) model: Option<String>,
    resume: Option<Wanted>,
    answered: Option<ResumeAnswered>,
    wrong_session: Option<Failure>,
}

impl Account {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            session: plan.session.clone(),
            seq: 0,
            turns_before: 0,
            turn: 0,
            open: false,
            background: false,
            tools: HashSet::new(),
            stdout_before: 0,
            stderr_before: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            retrying: None,
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

    /// Makes room for the next process of the same session.
    pub(super) fn next_attempt(&mut self, resume: Option<Wanted>) {
        // It is asked anew, so it has to answer anew.
        self.resume = resume;
        self.turns_before = self.turn;
        self.stdout_before = self.stdout_bytes;
        self.stderr_before = self.stderr_bytes;
        self.tools.clear();
        (self.retrying, self.outcome, self.failure) = (None, None, None);
        (self.has_text, self.open, self.background) = (false, false, false);
        (self.seen, self.prompted, self.usage_reported) = (Footprint::default(), false, false);
    }

    /// Says whether events of this kind have to be safe on disk before anything else happens.
    pub(super) fn is_durable(kind: &Kind) -> bool {
        matches!(
            kind,
            Kind::TurnEnded(_)
                | Kind::SessionStateChanged(_)
                | Kind::SessionEnded(_)
                | Kind::ApprovalAsked(_)
                | Kind::ApprovalDecided(_)
        )
    }

    /// Numbers an event of our own.
    pub(super) fn own(&mut self, kind: Kind, at: Timestamp) -> Event {
        let turn = (self.turn > 0).then_some(self.turn);
        self.number(turn, Source::Bowline, None, kind, at)
    }

    /// Numbers what the decoder said, in the words of the whole run.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most kinds pass through a run and do not concern it")]
    pub(super) fn agents(&mut self, draft: Draft, at: Timestamp, why: Option<&Why>) -> Option<Event> {
        let Draft { turn, source, mut raw, mut kind } = draft;
        let turn = turn.map(|turn| turn + self.turns_before);
        if let Some(span) = &mut raw {
            self.shift(span);
        }
        self.seen = self.seen.max(Footprint::of_event(&kind));
        match &mut kind {
            // The run says that, when the processes are gone.
            Kind::SessionEnded(_) => return None,
            Kind::SessionStarted(started) => {
                self.model = started.model.clone().or(self.model.take());
                self.identified(started.native_session.as_ref());
            }
            // The dialect knows it already, and says it.
            Kind::ResumeAnswered(_) => self.resume = None,
            Kind::ModelChanged(changed) => self.model = Some(changed.model.clone()),
            Kind::UsageReported(report) => {
                self.usage_reported |= report.source == UsageSource::Reported;
                self.model = report.model.clone().or(self.model.take());
            }
            Kind::TurnStarted(_) => {
                self.turn = turn.unwrap_or(self.turn);
                self.open = true;
                (self.outcome, self.failure) = (None, None);
                (self.has_text, self.retrying) = (false, None);
            }
            Kind::TurnEnded(ended) => {
                if let Some(span) = ended.failure.as_mut().and_then(|failure| failure.raw.as_mut()) {
                    self.shift(span);
                }
                self.overrule(ended, why);
                self.turn_ended(ended);
            }
            Kind::TextDelta(delta) => {
                self.retrying = None;
                self.has_text |= delta.parent.is_none();
            }
            Kind::ThinkingDelta(_) => self.retrying = None,
            Kind::ToolStarted(tool) => {
                self.retrying = None;
                self.tool_ever_ran = true;
                self.tools.insert(tool.id.clone());
            }
            Kind::ToolFinished(tool) => {
                self.tools.remove(&tool.id);
            }
            Kind::Retrying(retrying) => self.retrying = Some(retrying.category),
            _ => {}
        }
        Some(self.number(turn, source, raw, kind, at))
    }

    /// Says whether the program of this attempt printed anything on standard output.
    pub(super) fn has_printed(&self) -> bool {
        self.stdout_bytes > self.stdout_before
    }

    /// Says whether the agent works at something of which it need not speak meanwhile.
    pub(super) fn is_working(&self) -> bool {
        !self.tools.is_empty() || (!self.open && self.background)
    }

    /// Says whether the program has nothing more to do than to exit.
    pub(super) fn may_linger(&self) -> bool {
        self.turn > 0 && !self.open && !self.background
    }

    /// Returns the answer to the wish to resume, once, when it is known.
    pub(super) fn resume_answer(&mut self) -> Option<ResumeAnswered> {
        self.answered.take()
    }

    /// Returns why the agent may not go on in the session that it is in, once.
    pub(super) fn wrong_session(&mut self) -> Option<Failure> {
        self.wrong_session.take()
    }

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

    /// Moves a span of this process behind what earlier ones wrote to the same file.
    fn shift(&self, span: &mut RawSpan) {
        let before = match span.file {
            RawFile::Stdout | RawFile::Pty => self.stdout_before,
            RawFile::Stderr => self.stderr_before,
            RawFile::Stdin => 0,
        };
        span.start += before;
        span.end += before;
    }

    /// The agent said which session it is in.
    fn identified(&mut self, got: Option<&NativeSessionId>) {
        let (Some(got), Some(wanted)) = (got, self.resume.take_if(|_| got.is_some())) else { return };
        let same = *got == wanted.id;
        let answer = if same != wanted.fork { ResumeAnswer::Resumed } else { ResumeAnswer::Rejected };
        if answer == ResumeAnswer::Rejected {
            let message = if wanted.fork {
                format!("a branch of session {} was wanted, and the agent went on in it", wanted.id)
            } else {
                format!("session {} was wanted, and the agent began session {got}", wanted.id)
            };
            self.wrong_session = Some(Failure::new(Category::NotFound, Code::SessionNotFound, message));
        }
        self.answered = Some(ResumeAnswered { wanted: wanted.id, got: Some(got.clone()), answer });
    }

    /// Puts our own reason in the place of what the program made of it.
    fn overrule(&self, ended: &mut TurnEnded, why: Option<&Why>) {
        match why {
            None | Some(Why::Lingering) => {}
            Some(Why::Trouble(failure)) => {
                ended.outcome = Outcome::Failed;
                let told = ended.failure.take();
                let mut failure = failure.clone();
                failure.exit = failure.exit.or(told.as_ref().and_then(|told| told.exit));
                ended.failure = Some(failure);
                ended.stop = None;
            }
            Some(Why::Cancelled) => {
                // A program that is interrupted often calls that an error. One that names another reason had failed.
                let real = ended.failure.as_ref().is_some_and(|failure| {
                    failure.raw.is_some()
                        && !matches!(failure.category, Category::Unknown | Category::Timeout)
                });
                if ended.outcome != Outcome::Completed && !real {
                    (ended.outcome, ended.failure) = (Outcome::Cancelled, None);
                    ended.stop = Some(StopReason::Cancelled);
                }
            }
            Some(Why::TimedOut(which, limit)) => {
                if ended.outcome == Outcome::Completed {
                    return;
                }
                let message = which.about(*limit);
                let told = ended.failure.take();
                let mut failure = match (told, self.retrying) {
                    // The account of turns knows what the program was waiting for.
                    (Some(told), _) if told.raw.is_none() && told.code == Code::GaveUpWaiting => *told,
                    (told, retrying) => {
                        let (category, code) = match retrying {
                            Some(category) => (category, Code::GaveUpWaiting),
                            None => (Category::Timeout, Code::TimedOut),
                        };
                        let mut failure = Failure::new(category, code, message);
                        failure.hint = Some(which.remedy().to_owned()).filter(|_| retrying.is_none());
                        if let Some(told) = told {
                            (failure.exit, failure.stderr_tail) = (told.exit, told.stderr_tail);
                        }
                        failure
                    }
                };
                failure.raw = None;
                (ended.outcome, ended.stop) = (Outcome::Failed, None);
                ended.failure = Some(Box::new(failure));
            }
        }
    }

    fn turn_ended(&mut self, ended: &TurnEnded) {
        self.open = false;
        self.tools.clear();
        self.background = !ended.running_tasks.is_empty();
        self.outcome = Some(ended.outcome);
        self.failure = ended.failure.as_deref().cloned();
        // The agent never said which session it is in: a refusal, a deadline, or nobody knows.
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
