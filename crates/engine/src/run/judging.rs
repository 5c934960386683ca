//! Requests of the agent, and tools at their gates, on their way past the policies.
//!
//! ```text
//! gate ─────┐                      ┌─ allow: the program goes on by its own rules
//!           ├─ facts, from the host ┼─ ask: the program has to ask, or the request waits for a person
//! request ──┘  policies, links      └─ deny: decided, synced, then sent
//! ```
//!
//! The event `approval_asked` is held until then, so that it has the ruling, and a request that policies decide never waits for a person.
//!
//! The host reads the policies again for each judgement, so a change holds from the next one on. A policy that cannot be read
//! denies. A gate is not a request: nothing is written about a tool that passes it.

use bowline_protocol::kinds::{Level, Notice};
use bowline_protocol::{ApprovalId, Decider, Kind, OptionEffect, PolicyVerdict};
use bowline_providers::conversation::ToolGating;
use bowline_providers::dialect::{
    ApprovalAnswer, DecisionRequest, GateAnswer, RequestedAct, Sent, ToolGate, UnnumberedEvent,
};

use super::decisions::Approvals;
use super::host::{ActFacts, HostWork, HostWorkId};
use super::values::Approver;
use super::{Now, Run, RunPhase, RunStep};
use crate::approvals::{PolicyRuling, RuledDecision, decide_by_policy, ruling_of, unreadable};

/// The subject of a judgement.
#[derive(Debug)]
pub(super) enum JudgedSubject {
    /// A request of the agent that waits for a decision.
    Request(DecisionRequest),
    /// A tool that waits at its gate.
    Gate(Box<ToolGate>),
}

impl JudgedSubject {
    fn acts(&self) -> &[RequestedAct] {
        match self {
            Self::Request(request) => &request.acts,
            Self::Gate(gate) => &gate.acts,
        }
    }

    fn files(&self) -> Vec<String> {
        match self {
            Self::Request(request) => request.paths.clone().unwrap_or_default(),
            Self::Gate(gate) => gate.asked.paths.clone(),
        }
    }

    /// Returns whether it is about this approval.
    pub(super) fn is(&self, approval: &ApprovalId) -> bool {
        match self {
            Self::Request(request) => request.approval == *approval,
            Self::Gate(_) => false,
        }
    }
}

impl Approvals {
    /// Holds something until the host has what a judgement of it needs.
    pub(super) fn judges(&mut self, work: HostWorkId, subject: JudgedSubject) {
        self.judging.push((work, subject));
    }

    /// Returns what a piece of the host's work was for, unless it is decided.
    pub(super) fn judged(&mut self, work: HostWorkId) -> Option<JudgedSubject> {
        let place = self.judging.iter().position(|(held, _)| *held == work)?;
        Some(self.judging.remove(place).1)
    }

    /// Returns whether the event about a request is held until it is judged.
    pub(super) fn is_held_back(&self, approval: &ApprovalId) -> bool {
        let is_it = |draft: &UnnumberedEvent| matches!(&draft.kind, Kind::ApprovalAsked(asked) if asked.id == *approval);
        self.unjudged.iter().any(is_it)
    }
}

impl Run {
    /// Returns whether policies judge what this process does.
    pub(super) fn is_policed(&self) -> bool {
        self.conversation().is_some_and(|talk| talk.gated == ToolGating::On)
    }

    /// Handles tools that wait at their gates.
    pub(super) fn at_gates(&mut self, gates: Vec<ToolGate>, now: Now, step: &mut RunStep) {
        for gate in gates {
            // While the program is being stopped, it may begin nothing new.
            if self.ladder.is_some() {
                self.deny_at_gate(gate, None, "the turn is being stopped".to_owned(), now, step);
            } else {
                self.ask_for_facts(JudgedSubject::Gate(Box::new(gate)), step);
            }
        }
    }

    /// Has a request judged. It cannot be allowed for the rest of the session: an agent that no longer asks is no longer judged.
    pub(super) fn judge_request(&mut self, mut request: DecisionRequest, step: &mut RunStep) {
        if request.offers.is_empty() {
            // An empty list stands for all answers.
            request.offers = vec![OptionEffect::AllowOnce, OptionEffect::RejectOnce];
        }
        request.offers.retain(|effect| *effect != OptionEffect::AllowAlways);
        self.ask_for_facts(JudgedSubject::Request(request), step);
    }

    /// Has the host look up what a judgement needs, and holds the subject until then.
    pub(super) fn ask_for_facts(&mut self, subject: JudgedSubject, step: &mut RunStep) {
        let roots = self.conversation().map(|talk| talk.directories()).unwrap_or_default();
        let (acts, files) = (subject.acts().to_vec(), subject.files());
        let work = self.give_work(HostWork::Judge { acts, files, roots }, step);
        self.approvals.judges(work, subject);
    }

    /// Judges what a piece of the host's work was for.
    pub(super) fn judged(&mut self, work: HostWorkId, facts: &ActFacts, now: Now, step: &mut RunStep) {
        // Without its process, a request is left open, and the end of the attempt decides it as withdrawn.
        let subject = self.approvals.judged(work).filter(|_| self.phase == RunPhase::Running);
        let Some(subject) = subject else { return };
        self.policy_changed(facts, now, step);
        let ruling = match &facts.policies {
            Ok(policies) => ruling_of(policies, subject.acts(), &facts.workspace),
            Err(why) => unreadable(why),
        };
        match subject {
            JudgedSubject::Request(request) => self.request_judged(request, &ruling, facts, now, step),
            JudgedSubject::Gate(gate) => self.gate_judged(*gate, &ruling, now, step),
        }
        self.update_state(now, step);
    }

    /// Reports a policy that differs from the one of the judgement before.
    fn policy_changed(&mut self, facts: &ActFacts, now: Now, step: &mut RunStep) {
        let rules = facts.policies.as_ref().ok().map(|set| set.rules.clone());
        let before = self.approvals.policies.replace(rules.clone());
        if before.is_some_and(|before| before != rules) {
            let (level, text) = match &facts.policies {
                Ok(_) => (Level::Info, "the policy has changed; it holds from now on".to_owned()),
                Err(why) => {
                    (Level::Warn, format!("the policy cannot be read, so everything is denied: {why}"))
                }
            };
            let code = Some("policy_changed".to_owned());
            self.emit(Kind::Notice(Notice { level, text, code }), now, step);
        }
    }

    fn gate_judged(&mut self, gate: ToolGate, ruling: &PolicyRuling, now: Now, step: &mut RunStep) {
        let answer = match ruling.verdict {
            PolicyVerdict::Deny => {
                return self.deny_at_gate(gate, Some(ruling), ruling.message(), now, step);
            }
            PolicyVerdict::Ask => GateAnswer::Ask { reason: ruling.message() },
            PolicyVerdict::Allow => GateAnswer::Pass,
        };
        match self.decoder.pass_gate(&gate.asked.id, &answer, &self.moment, &mut self.drafts) {
            // An interrupt has withdrawn the gate with its turn: the tool does not run.
            Sent::Done | Sent::Awaiting(_) | Sent::Cannot(_) => {}
        }
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    fn deny_at_gate(
        &mut self,
        gate: ToolGate,
        ruling: Option<&PolicyRuling>,
        message: String,
        now: Now,
        step: &mut RunStep,
    ) {
        let mut asked = gate.asked;
        if let Some(ruling) = ruling {
            ruling.describe(&mut asked);
        }
        let mut asked = Kind::ApprovalAsked(asked);
        self.ids.rename(&mut asked);
        let Kind::ApprovalAsked(asked) = asked else { return };
        let approval = asked.id.clone();
        self.approvals.asked(&approval, asked.enforced_by);
        self.emit(Kind::ApprovalAsked(asked), now, step);
        let (by, rule) = match ruling {
            Some(ruling) => (Decider::Policy, Some(ruling.name())),
            None => (Decider::Host, None),
        };
        let answer = ApprovalAnswer::Deny { message: Some(message) };
        self.settle(approval, answer, by, rule, now, step);
    }

    fn request_judged(
        &mut self,
        request: DecisionRequest,
        ruling: &PolicyRuling,
        facts: &ActFacts,
        now: Now,
        step: &mut RunStep,
    ) {
        self.release(&request.approval, Some(ruling), now, step);
        let talk = self.conversation().filter(|_| self.ladder.is_none());
        let Some(talk) = talk else {
            return self.settle(request.approval, ApprovalAnswer::DENY, Decider::Host, None, now, step);
        };
        match decide_by_policy(&request, talk, facts.paths.place(), ruling) {
            RuledDecision::Settled(answer) => {
                let answer = for_agent(answer, &request);
                self.approvals.grant(&request, &answer);
                self.settle(request.approval, answer, Decider::Policy, Some(ruling.name()), now, step);
            }
            RuledDecision::ByPerson => {
                let Approver::Person { deadline } = self.plan.approver else {
                    let denial = ApprovalAnswer::Deny { message: Some(ruling.message()) };
                    let answer = for_agent(denial, &request);
                    let rule = Some(ruling.name());
                    return self.settle(request.approval, answer, Decider::Policy, rule, now, step);
                };
                let until = deadline.map(|deadline| now.up.plus(deadline));
                self.approvals.wait(request, until, None);
            }
            RuledDecision::ByMode => self.decide_located(request, facts.paths.place(), now, step),
        }
    }

    /// Holds the event about a request until the policies have judged it. Returns it if no policy does.
    pub(super) fn hold_asked(&mut self, draft: UnnumberedEvent) -> Option<UnnumberedEvent> {
        if !matches!(draft.kind, Kind::ApprovalAsked(_)) || !self.is_policed() {
            return Some(draft);
        }
        self.approvals.unjudged.push(draft);
        None
    }

    /// Emits the event about a request that was held, with its ruling if there is one.
    pub(super) fn release(
        &mut self,
        approval: &ApprovalId,
        ruling: Option<&PolicyRuling>,
        now: Now,
        step: &mut RunStep,
    ) {
        let is_it = |draft: &UnnumberedEvent| matches!(&draft.kind, Kind::ApprovalAsked(asked) if asked.id == *approval);
        let Some(place) = self.approvals.unjudged.iter().position(is_it) else { return };
        let mut draft = self.approvals.unjudged.remove(place);
        if let (Kind::ApprovalAsked(asked), Some(ruling)) = (&mut draft.kind, ruling) {
            ruling.describe(asked);
        }
        self.number_draft(draft, now, step);
    }

    /// Emits the events about all requests that are still held: the process is gone, or is being stopped.
    pub(super) fn release_all(&mut self, now: Now, step: &mut RunStep) {
        for draft in std::mem::take(&mut self.approvals.unjudged) {
            self.number_draft(draft, now, step);
        }
    }
}

/// Leaves out the text of a denial if the protocol does not carry one: the event has the ruling.
fn for_agent(answer: ApprovalAnswer, request: &DecisionRequest) -> ApprovalAnswer {
    match answer {
        ApprovalAnswer::Deny { .. } if !request.carries_message => ApprovalAnswer::DENY,
        ApprovalAnswer::AllowOnce
        | ApprovalAnswer::AllowForSession
        | ApprovalAnswer::AllowChanged(_)
        | ApprovalAnswer::Deny { .. } => answer,
    }
}
