//! The facts about a live session that its events give, and the snapshot for its callers.

use bowline_protocol::kinds::{ApprovalAsked, OptionState, QuestionAsked};
use bowline_protocol::{Event, Kind, LastTurn, NativeSessionId, SessionSnapshot};

use super::Session;
use crate::budget::BudgetScope;
use crate::run::{Numbering, ResumeTarget};

/// How many options are kept. An agent that invents options must not fill the memory.
const OPTIONS_AT_MOST: usize = 256;

/// The fold of a session's events: of a live session by its runner, and of any other one by a reader of its journal.
#[derive(Debug, Default)]
pub struct SessionView {
    native: Option<NativeSessionId>,
    /// The session of which this one is a fork. It is another session, whatever the agent reports.
    origin: Option<NativeSessionId>,
    last_turn: Option<LastTurn>,
    approvals: Vec<ApprovalAsked>,
    questions: Vec<QuestionAsked>,
    options: Vec<OptionState>,
}

impl SessionView {
    pub(super) fn new(resume: Option<ResumeTarget>, last_turn: Option<LastTurn>) -> Self {
        let view = Self { last_turn, ..Self::default() };
        match resume {
            Some(ResumeTarget { id, fork: true }) => Self { origin: Some(id), ..view },
            Some(ResumeTarget { id, fork: false }) => Self { native: Some(id), ..view },
            None => view,
        }
    }

    /// Returns the session with which the next process goes on.
    pub(super) fn resume(&self) -> Option<ResumeTarget> {
        let own = self.native.clone().map(|id| ResumeTarget { id, fork: false });
        own.or_else(|| self.origin.clone().map(|id| ResumeTarget { id, fork: true }))
    }

    pub(super) fn native(&self) -> Option<&NativeSessionId> {
        self.native.as_ref()
    }

    pub(super) fn last_turn(&self) -> Option<LastTurn> {
        self.last_turn
    }

    /// Writes its facts into a snapshot.
    pub fn describe(&self, snapshot: &mut SessionSnapshot) {
        snapshot.native_session.clone_from(&self.native);
        snapshot.last_turn = self.last_turn;
        snapshot.approvals.clone_from(&self.approvals);
        snapshot.questions.clone_from(&self.questions);
        snapshot.options.clone_from(&self.options);
    }

    /// Takes note of an event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most kinds do not change a snapshot")]
    pub fn fold(&mut self, event: &Event) {
        match &event.kind {
            Kind::SessionStarted(started) => {
                if let Some(native) = &started.native_session
                    && self.origin.as_ref() != Some(native)
                {
                    // The first one is the session. An agent that resumes another one is stopped.
                    self.native.get_or_insert_with(|| native.clone());
                }
            }
            Kind::TurnEnded(ended) => {
                self.last_turn = event.turn.map(|turn| LastTurn { turn, outcome: ended.outcome });
            }
            Kind::ApprovalAsked(asked) => self.approvals.push(asked.clone()),
            Kind::ApprovalDecided(decided) => self.approvals.retain(|it| it.id != decided.id),
            Kind::QuestionAsked(asked) => self.questions.push(asked.clone()),
            Kind::QuestionAnswered(answered) => self.questions.retain(|it| it.id != answered.id),
            Kind::OptionsAdvertised(advertised) => self.merge(&advertised.options),
            Kind::OptionsChanged(changed) => self.merge(&changed.options),
            _ => {}
        }
    }

    fn merge(&mut self, options: &[OptionState]) {
        for option in options {
            let has_room = self.options.len() < OPTIONS_AT_MOST;
            match self.options.iter_mut().find(|it| it.id == option.id) {
                Some(known) => {
                    if !option.choices.is_empty() {
                        known.choices.clone_from(&option.choices);
                    }
                    known.current = option.current.clone().or(known.current.take());
                }
                None if has_room => self.options.push(option.clone()),
                None => {}
            }
        }
    }
}

impl Session {
    /// Returns whether the session has a limit of its own, beside those of a day and a project, which all runs share.
    pub fn has_own_limit(&self) -> bool {
        self.run.has_limit(BudgetScope::Request)
    }

    /// Returns where a further run of the session begins.
    pub fn numbering(&self) -> Numbering {
        self.run.numbering()
    }

    /// Returns the snapshot of a live session; `None` for one of one prompt.
    pub fn snapshot(&self) -> Option<SessionSnapshot> {
        let live = self.live.as_ref()?;
        let plan = self.run.plan();
        let mut snapshot = SessionSnapshot {
            session: plan.session.clone(),
            head: self.run.last_seq(),
            state: self.state(),
            reason: self.run.reason(),
            provider: plan.provider.clone(),
            native_session: None,
            model: self.run.model().map(str::to_owned),
            permission: self.run.permission(),
            control: live.control,
            turn: if live.has_process() && self.run.has_open_turn() {
                Some(self.run.last_turn())
            } else {
                None
            },
            last_turn: None,
            has_process: live.has_process(),
            approvals: Vec::new(),
            questions: Vec::new(),
            queue: live.queues.waiting(),
            offered: live.queues.offered().to_vec(),
            options: Vec::new(),
        };
        live.view.describe(&mut snapshot);
        Some(snapshot)
    }
}
