//! Requests of the agent on their way to a decision: decided, written down, synced, and only then sent.
//!
//! ```text
//!                ┌─ by the mode, once links are ──┐
//!                │  followed, where they matter   │
//! approval_asked ┼─ by a person, or its deadline ─┼─> approval_decided, Sync ──synced──> the dialect sends it
//!                │                                │                       └─ the process ends first: never sent
//!                ├─ the run is being stopped ─────┘
//!                └─ withdrawn by the agent, or left open by the end of the process: decided as `withdrawn`
//! ```
//!
//! No watchdog and no budget counts the time in which a person is waited for.
//!
//! An agent never acts on a decision that a crash could lose.

use std::collections::VecDeque;
use std::sync::Arc;

use bowline_protocol::kinds::{ApprovalDecided, Level, Notice};
use bowline_protocol::{
    ApprovalCategory, ApprovalId, Decider, Decision, EnforcedBy, Kind, Millis, OrderRefused, PermissionMode,
    Receipt, Timestamp,
};
use bowline_providers::conversation::Conversation;
use bowline_providers::dialect::{ActionDoer, ApprovalAnswer, DecisionRequest, Sent, UnnumberedEvent};

use super::child_starts::ChildStart;
use super::host::HostWorkId;
use super::judging::JudgedSubject;
use super::reasons::wants;
use super::refusals::{decider_name, only};
use super::values::{Approver, SyncId};
use super::{Now, Run, RunAction, RunPhase, RunStep};
use crate::approvals::{RealPlace, decide_by_mode, depends_on_links, is_offered, is_open_to_a_person};
use crate::policy::PolicyRules;

/// How many open approvals are remembered, so that an agent which only asks cannot fill the memory.
const OPEN_AT_MOST: usize = 1024;

/// How many decisions are remembered for a second decider.
const RECENT_AT_MOST: usize = 256;

/// The approvals of one process.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    /// Asked, and not decided, with the side that holds the action back.
    open: Vec<(ApprovalId, EnforcedBy)>,
    /// The files whose edit by the agent was allowed in this turn, as the agent named them.
    granted: Vec<String>,
    /// Open, and waiting for a person.
    waiting: Vec<WaitingRequest>,
    /// Open, and held until the host has followed the links in its paths.
    resolving: Vec<(HostWorkId, DecisionRequest)>,
    /// Held until the host has the policies and the facts of a judgement.
    pub(super) judging: Vec<(HostWorkId, JudgedSubject)>,
    /// The events about requests that are being judged.
    pub(super) unjudged: Vec<UnnumberedEvent>,
    /// The policies of the last judgement. The outer `None` stands for no judgement so far, the inner one for policies that could not
    /// be read.
    pub(super) policies: Option<Option<Arc<[PolicyRules]>>>,
    /// Since when a person is waited for without a pause.
    waiting_since: Option<Millis>,
    /// Decided, and not sent: the journal is being synced.
    held: VecDeque<HeldDecision>,
    /// The last decisions of the session, so that a second decider learns who was first.
    recent: VecDeque<(ApprovalId, Decider)>,
}

/// A request that waits for a person.
#[derive(Debug)]
struct WaitingRequest {
    request: DecisionRequest,
    until: Option<Millis>,
    /// The order that the decision answers, if no dialect sends it.
    start: Option<ChildStart>,
}

/// A decision that waits for the sync of its event.
#[derive(Debug)]
struct HeldDecision {
    sync: SyncId,
    approval: ApprovalId,
    answer: ApprovalAnswer,
    by: Decider,
    start: Option<ChildStart>,
}

impl Approvals {
    pub(super) fn asked(&mut self, approval: &ApprovalId, enforced_by: EnforcedBy) {
        if self.open.len() < OPEN_AT_MOST {
            self.open.push((approval.clone(), enforced_by));
        }
    }

    /// Returns whether a request is over: the output that made it has withdrawn it, too.
    fn is_over(&self, approval: &ApprovalId) -> bool {
        self.open.len() < OPEN_AT_MOST && !self.open.iter().any(|(open, _)| open == approval)
    }

    /// Leaves a request to a person.
    pub(super) fn wait(
        &mut self,
        request: DecisionRequest,
        until: Option<Millis>,
        start: Option<ChildStart>,
    ) {
        self.waiting.push(WaitingRequest { request, until, start });
    }

    /// Returns how many requests to start a session wait for a person.
    pub(super) fn waiting_starts(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.start.is_some()).count()
    }

    /// Handles that an approval is decided.
    pub(super) fn decided(&mut self, approval: &ApprovalId) {
        if let Some(place) = self.open.iter().position(|(open, _)| open == approval) {
            self.open.remove(place);
        }
        self.waiting.retain(|waiting| waiting.request.approval != *approval);
        self.resolving.retain(|(_, request)| request.approval != *approval);
        self.judging.retain(|(_, subject)| !subject.is(approval));
    }

    /// Holds a request until the host has followed the links in its paths.
    pub(super) fn resolves(&mut self, work: HostWorkId, request: DecisionRequest) {
        self.resolving.push((work, request));
    }

    /// Returns the request that a piece of the host's work was for, unless it is decided.
    pub(super) fn resolved(&mut self, work: HostWorkId) -> Option<DecisionRequest> {
        let place = self.resolving.iter().position(|(held, _)| *held == work)?;
        Some(self.resolving.remove(place).1)
    }

    /// Remembers an edit that the agent may do, so that the same edit by the host is not asked about again.
    pub(super) fn grant(&mut self, request: &DecisionRequest, answer: &ApprovalAnswer) {
        let is_edit = request.category == ApprovalCategory::Edit && request.doer == ActionDoer::Agent;
        if !is_edit || matches!(answer, ApprovalAnswer::Deny { .. }) || self.granted.len() >= OPEN_AT_MOST {
            return;
        }
        self.granted.extend(request.paths.iter().flatten().cloned());
    }

    /// Returns whether the files of a request were allowed to the agent in this turn, and the host does the edit for it.
    fn is_granted(&self, request: &DecisionRequest) -> bool {
        let mut paths = request.paths.iter().flatten().peekable();
        request.doer == ActionDoer::Host
            && paths.peek().is_some()
            && paths.all(|path| self.granted.contains(path))
    }

    /// Forgets the edits of a turn that has ended.
    pub(super) fn turn_ended(&mut self) {
        self.granted.clear();
    }

    /// Remembers a decision for a second decider.
    pub(super) fn remember(&mut self, approval: &ApprovalId, by: Decider) {
        if self.recent.len() == RECENT_AT_MOST {
            self.recent.pop_front();
        }
        self.recent.push_back((approval.clone(), by));
    }

    /// Forgets what was open with a process that is gone.
    pub(super) fn next_life(&mut self) {
        let recent = std::mem::take(&mut self.recent);
        let policies = self.policies.take();
        *self = Self { recent, policies, ..Self::default() };
    }

    /// Returns whether a person is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the requests that wait for a person: their ids, and what the agent wants.
    pub(super) fn waiting_for(&self) -> impl Iterator<Item = (&ApprovalId, &'static str)> {
        self.waiting.iter().map(|WaitingRequest { request, start, .. }| {
            let wants = if start.is_some() { "to start a session" } else { wants(request.category) };
            (&request.approval, wants)
        })
    }

    /// Returns when the first request is denied because no decision came.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.waiting.iter().filter_map(|waiting| waiting.until).min()
    }

    /// Returns whether the run has decided an approval and not sent the decision yet. If the agent then withdraws the request, that
    /// is no second decision.
    pub(super) fn is_held(&self, approval: &ApprovalId) -> bool {
        self.held.iter().any(|held| held.approval == *approval)
    }
}

impl Run {
    /// Returns the approvals that wait for a person.
    pub(crate) fn waiting_approvals(&self) -> impl Iterator<Item = &ApprovalId> {
        self.approvals.waiting.iter().map(|waiting| &waiting.request.approval)
    }

    /// Returns the conversation of the process, if a protocol carries it.
    pub(super) fn conversation(&self) -> Option<&Conversation> {
        self.plan.attempts[self.attempt].conversation.as_deref()
    }

    /// Returns the permission mode by which requests are decided.
    pub(crate) fn permission(&self) -> Option<bowline_protocol::PermissionMode> {
        Some(self.plan.attempts[self.attempt].conversation.as_ref()?.permission)
    }

    /// Sets the permission mode by which requests are decided from now on.
    pub(crate) fn set_permission(&mut self, mode: bowline_protocol::PermissionMode) {
        for conversation in self.plan.attempts.iter_mut().filter_map(|it| it.conversation.as_mut()) {
            conversation.permission = mode;
        }
    }

    /// Returns when a request that is asked now is denied, if it waits for a person.
    pub(super) fn approval_deadline(&self, now: Now) -> Option<Timestamp> {
        let Approver::Person { deadline } = self.plan.approver else { return None };
        let mode = self.plan.attempts[self.attempt].conversation.as_ref()?.permission;
        deadline
            .filter(|_| self.is_policed() || is_open_to_a_person(mode))
            .map(|deadline| now.wall.after(deadline))
    }

    /// Decides requests of the agent, or leaves them to a person.
    pub(super) fn decide(&mut self, mut requests: Vec<DecisionRequest>, now: Now, step: &mut RunStep) {
        requests.retain(|request| {
            self.approvals.is_held_back(&request.approval) || !self.approvals.is_over(&request.approval)
        });
        for request in requests {
            if self.is_policed() && self.ladder.is_none() {
                self.judge_request(request, step);
                continue;
            }
            let talk =
                self.plan.attempts[self.attempt].conversation.as_ref().filter(|_| self.ladder.is_none());
            match talk.filter(|talk| depends_on_links(&request, talk)) {
                Some(talk) => {
                    let roots = talk.directories();
                    self.resolve(request, roots, step);
                }
                None => self.decide_located(request, RealPlace::NotLookedUp, now, step),
            }
        }
        self.update_state(now, step);
    }

    /// Decides one request, or leaves it to a person. The links in its paths have been followed if that matters.
    pub(super) fn decide_located(
        &mut self,
        request: DecisionRequest,
        place: RealPlace,
        now: Now,
        step: &mut RunStep,
    ) {
        // While the program is being stopped, it may begin nothing new. Some agents end a cancelled turn only when all their
        // requests are answered.
        let talk = self.plan.attempts[self.attempt].conversation.as_ref().filter(|_| self.ladder.is_none());
        let Some(talk) = talk else {
            return self.settle(request.approval, ApprovalAnswer::DENY, Decider::Host, None, now, step);
        };
        let mode = talk.permission;
        // `read` promises that nothing is changed, whatever was granted under an earlier mode.
        if mode != PermissionMode::Read && self.approvals.is_granted(&request) {
            let rule = Some("edit_approved".to_owned());
            return self.settle(
                request.approval,
                ApprovalAnswer::AllowOnce,
                Decider::Policy,
                rule,
                now,
                step,
            );
        }
        let decision = decide_by_mode(&request, talk, place);
        if let Approver::Person { deadline } = self.plan.approver
            && decision.answer == ApprovalAnswer::DENY
            && is_open_to_a_person(mode)
        {
            let until = deadline.map(|deadline| now.up.plus(deadline));
            return self.approvals.wait(request, until, None);
        }
        if let Some(text) = decision.notice {
            let notice = Notice { level: Level::Warn, text: text.to_owned(), code: None };
            self.emit(Kind::Notice(notice), now, step);
        }
        let rule = Some(format!("permission_mode:{}", mode.as_str()));
        self.approvals.grant(&request, &decision.answer);
        self.settle(request.approval, decision.answer, Decider::Policy, rule, now, step);
    }

    /// Handles a person's decision. Without an id it is about the only request that waits.
    pub(super) fn decided_by_person(
        &mut self,
        approval: Option<ApprovalId>,
        answer: ApprovalAnswer,
        now: Now,
        step: &mut RunStep,
    ) -> Result<Receipt, OrderRefused> {
        let approval = match approval {
            Some(approval) => approval,
            None => only(self.waiting_approvals(), "open approval")?.clone(),
        };
        let waiting = self.approvals.waiting.iter().find(|waiting| waiting.request.approval == approval);
        match waiting {
            None => Err(match self.approvals.recent.iter().find(|(id, _)| *id == approval) {
                Some((_, by)) => OrderRefused::AlreadyDecided { by: decider_name(*by).to_owned() },
                None => OrderRefused::Unknown { what: format!("open approval `{approval}`") },
            }),
            Some(waiting) if !is_offered(&waiting.request, &answer) => Err(OrderRefused::NotOffered),
            Some(waiting) => {
                let request = waiting.request.clone();
                self.approvals.grant(&request, &answer);
                self.settle(approval, answer, Decider::Human, None, now, step);
                self.update_state(now, step);
                Ok(Receipt::Done)
            }
        }
    }

    /// Denies the requests whose deadline has passed.
    pub(super) fn deny_expired(&mut self, now: Now, step: &mut RunStep) {
        let is_over = |waiting: &WaitingRequest| waiting.until.is_some_and(|until| now.up >= until);
        self.deny_waiting(is_over, Decider::Timeout, now, step);
    }

    /// Denies all requests that wait for a person, because the run is being stopped.
    pub(super) fn deny_for_stop(&mut self, now: Now, step: &mut RunStep) {
        // Some agents end a cancelled turn only when all their requests are answered, so these do not wait for the host either.
        for (_, request) in std::mem::take(&mut self.approvals.resolving) {
            self.settle(request.approval, ApprovalAnswer::DENY, Decider::Host, None, now, step);
        }
        self.release_all(now, step);
        for (_, subject) in std::mem::take(&mut self.approvals.judging) {
            match subject {
                JudgedSubject::Request(request) => {
                    self.settle(request.approval, ApprovalAnswer::DENY, Decider::Host, None, now, step);
                }
                JudgedSubject::Gate(gate) => self.at_gates(vec![*gate], now, step),
            }
        }
        self.deny_waiting(|_| true, Decider::Host, now, step);
    }

    fn deny_waiting(
        &mut self,
        which: impl Fn(&WaitingRequest) -> bool,
        by: Decider,
        now: Now,
        step: &mut RunStep,
    ) {
        let denied = self.approvals.waiting.iter().filter(|waiting| which(waiting));
        let denied: Vec<ApprovalId> = denied.map(|waiting| waiting.request.approval.clone()).collect();
        for approval in denied {
            self.settle(approval, ApprovalAnswer::DENY, by, None, now, step);
        }
        self.update_state(now, step);
    }

    /// Writes a decision down, has it synced, and holds it back until then.
    pub(super) fn settle(
        &mut self,
        approval: ApprovalId,
        answer: ApprovalAnswer,
        by: Decider,
        rule: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) {
        // Before the event, which takes the request from those that wait.
        let waiting = self.approvals.waiting.iter().find(|waiting| waiting.request.approval == approval);
        let start = waiting.and_then(|waiting| waiting.start);
        self.emit_decision(&approval, &answer, by, rule, now, step);
        self.syncs.0 += 1;
        let sync = self.syncs;
        self.approvals.held.push_back(HeldDecision { sync, approval, answer, by, start });
        // A later sync covers the earlier ones of the same step.
        step.actions.retain(|action| !matches!(action, RunAction::Sync(_)));
        step.actions.push(RunAction::Sync(sync));
    }

    /// Stops and starts the clocks: none of them runs while a person is waited for, or leads.
    pub(super) fn update_clocks(&mut self, now: Now) {
        let waits = self.approvals.is_waiting() || self.life.questions.is_waiting() || self.life.human_led;
        match (waits, self.approvals.waiting_since) {
            (true, None) => self.approvals.waiting_since = Some(now.up),
            (false, Some(since)) => {
                self.approvals.waiting_since = None;
                let waited = Millis(now.up.0.saturating_sub(since.0));
                self.watch.skip(waited, now.up);
                self.guard.skip(waited, now.up);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Returns whether no clock runs, because a person is waited for or leads.
    pub(super) fn waits_for_person(&self) -> bool {
        self.approvals.waiting_since.is_some()
    }

    /// Sends the decisions whose events are on disk now.
    pub(super) fn synced(&mut self, sync: SyncId, now: Now, step: &mut RunStep) {
        // Without its process, a decision stays in the journal only. It is held until the end of the attempt, so that the dialect's
        // report about the open request is no second decision.
        if self.phase != RunPhase::Running {
            return;
        }
        while let Some(held) = self.approvals.held.pop_front_if(|held| held.sync <= sync) {
            if let Some(start) = held.start {
                let answer = self.start_decided(start, &held.answer, held.by);
                step.actions.push(RunAction::Answer(start.order, answer));
                continue;
            }
            let sent = match self.ids.native_approval(&held.approval) {
                Some(native) => {
                    let sent = self.decoder.decide(&native, &held.answer, &self.moment, &mut self.drafts);
                    // The dialect reads its own line as well, and reports the decision in it a second time.
                    self.drafts
                        .retain(|draft| !matches!(&draft.kind, Kind::ApprovalDecided(it) if it.id == native));
                    sent
                }
                None => Sent::Cannot("the agent has used its id for another request since"),
            };
            if let Sent::Cannot(why) = sent {
                let text = format!("the decision on approval {} was not sent: {why}", held.approval);
                self.emit(Kind::Notice(Notice { level: Level::Info, text, code: None }), now, step);
            }
            self.emit_decoded(now, step);
        }
        self.take_client_output(now, step);
    }

    /// Decides what the process left open. It can no longer act on it.
    pub(super) fn withdraw_approvals(&mut self, now: Now, step: &mut RunStep) {
        self.release_all(now, step);
        // Before the events, which take the requests from those that wait.
        let waiting = self.approvals.waiting.iter().filter_map(|waiting| waiting.start);
        let held = self.approvals.held.iter().filter_map(|held| held.start);
        let starts: Vec<ChildStart> = waiting.chain(held).collect();
        for (approval, _) in self.approvals.open.clone() {
            self.emit_decision(&approval, &ApprovalAnswer::DENY, Decider::Withdrawn, None, now, step);
        }
        self.approvals.open.clear();
        // The process that asked is gone: no session is started, also if that was allowed.
        self.approvals.waiting.clear();
        self.approvals.resolving.clear();
        self.approvals.judging.clear();
        self.approvals.held.clear();
        for start in starts {
            step.actions.push(RunAction::Answer(start.order, Err(OrderRefused::Stopping)));
        }
        self.update_state(now, step);
    }

    fn emit_decision(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
        by: Decider,
        rule: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) {
        let waiting = self.approvals.waiting.iter().find(|waiting| waiting.request.approval == *approval);
        // A decision of the policies has a message only where the protocol carries one.
        let carries_message = waiting.is_none_or(|waiting| waiting.request.carries_message);
        let open = self.approvals.open.iter().find(|(open, _)| open == approval);
        let enforced_by = open.map_or(EnforcedBy::Agent, |(_, by)| *by);
        self.approvals.decided(approval);
        self.approvals.remember(approval, by);
        let (decision, reason, changed_input) = match answer {
            ApprovalAnswer::AllowOnce => (Decision::Allow, None, None),
            ApprovalAnswer::AllowForSession => (Decision::AllowAlways, None, None),
            ApprovalAnswer::AllowChanged(input) => (Decision::Allow, None, Some(input.clone())),
            ApprovalAnswer::Deny { message } => {
                (Decision::Deny, message.clone().filter(|_| carries_message), None)
            }
        };
        if let ApprovalAnswer::Deny { message: Some(message) } = answer
            && !carries_message
        {
            // The event has only what the agent gets. The reason is kept for people.
            let text = format!(
                "the protocol of the agent carries no reason of a denial, so it does not get this one: {message}"
            );
            let code = Some("reason_not_sent".to_owned());
            self.emit(Kind::Notice(Notice { level: Level::Info, text, code }), now, step);
        }
        let decided =
            ApprovalDecided { id: approval.clone(), decision, by, rule, reason, changed_input, enforced_by };
        self.emit(Kind::ApprovalDecided(decided), now, step);
    }
}
