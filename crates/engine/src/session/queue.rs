//! Prompts on their way to the agent: accepted, queued, sent, taken back, and kept for a later runner.
//!
//! Every accepted prompt ends exactly once: its turn begins, the agent reads it, it is dequeued, or it is returned. The journal is
//! the queue on file: `prompt_queued` has the text, `prompt_removed` the reason. A prompt that was returned is offered, and never
//! sent by itself.

use std::collections::{BTreeMap, VecDeque};

use bowline_protocol::kinds::{ControlMode, PromptQueue, PromptQueued, PromptRemoval, PromptRemoved};
use bowline_protocol::{Kind, OrderRefused, PromptId, QueuedPrompt, Receipt, WhenBusy};
use bowline_providers::dialect::{HostPrompt, Sent};

use super::acks::{AckedOrder, UnackedSteer};
use super::{Session, SessionStage};
use crate::run::{Now, OrderId, Run, RunStep};

/// How many prompts may wait.
const WAITING_AT_MOST: usize = 64;

/// The prompts of a live session that no turn has yet.
#[derive(Debug)]
pub(super) struct PromptQueues {
    /// Waiting for the end of the turn.
    waiting: VecDeque<HostPrompt>,
    /// At the agent, which has not read them.
    at_agent: Vec<HostPrompt>,
    /// Returned, for a caller to send or to dequeue.
    offered: Vec<QueuedPrompt>,
    /// The prompt that interrupted a turn. It comes next whatever the turn's outcome is, also while a person leads.
    interrupting: Option<PromptId>,
}

impl PromptQueues {
    pub(super) fn new(offered: Vec<QueuedPrompt>) -> Self {
        Self { waiting: VecDeque::new(), at_agent: Vec::new(), offered, interrupting: None }
    }

    /// Returns the prompts that wait, those at the agent first.
    pub(super) fn waiting(&self) -> Vec<QueuedPrompt> {
        let of = |queue: PromptQueue| move |it: &HostPrompt| queued_prompt(it.clone(), queue);
        let at_agent = self.at_agent.iter().map(of(PromptQueue::Agent));
        at_agent.chain(self.waiting.iter().map(of(PromptQueue::Session))).collect()
    }

    pub(super) fn offered(&self) -> &[QueuedPrompt] {
        &self.offered
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> u32 {
        self.waiting.len() as u32
    }

    fn is_full(&self) -> bool {
        self.waiting.len() + self.at_agent.len() >= WAITING_AT_MOST
    }

    /// Takes the next prompt.
    pub(super) fn next(&mut self) -> Option<HostPrompt> {
        self.interrupting = None;
        self.waiting.pop_front()
    }

    /// Puts a prompt before all others.
    pub(super) fn put_first(&mut self, prompt: HostPrompt) {
        self.waiting.push_front(prompt);
    }

    /// Adds a prompt to a queue. One that the agent queues is a steer.
    pub(super) fn push(
        &mut self,
        queue: PromptQueue,
        prompt: HostPrompt,
        from: Option<String>,
        run: &mut Run,
        now: Now,
        step: &mut RunStep,
    ) {
        queued(run, &prompt, queue, from, now, step);
        match queue {
            PromptQueue::Session => self.waiting.push_back(prompt),
            PromptQueue::Agent => self.at_agent.push(prompt),
        }
    }

    /// Returns whether a prompt interrupted the turn and comes next.
    pub(super) fn is_interrupting(&self) -> bool {
        self.interrupting.is_some()
    }

    /// Offers a steer that the agent may have read.
    pub(super) fn offer_steer(
        &mut self,
        prompt: HostPrompt,
        from: Option<String>,
        run: &mut Run,
        now: Now,
        step: &mut RunStep,
    ) {
        queued(run, &prompt, PromptQueue::Agent, from, now, step);
        self.offer(prompt, PromptQueue::Agent, run, now, step);
    }

    /// Removes a prompt that the agent has read.
    pub(super) fn read(&mut self, prompt: &PromptId, run: &mut Run, now: Now, step: &mut RunStep) {
        let known = self.at_agent.len() + self.waiting.len() + self.offered.len();
        self.at_agent.retain(|it| it.id != *prompt);
        // The agent may read a steer whose acknowledgement came too late, or not at all.
        self.waiting.retain(|it| it.id != *prompt);
        self.offered.retain(|it| it.id != *prompt);
        if self.at_agent.len() + self.waiting.len() + self.offered.len() < known {
            removed(run, prompt, PromptRemoval::Sent, now, step);
        }
    }

    /// Removes a prompt that was taken back from the agent.
    pub(super) fn taken_back(&mut self, prompt: &PromptId, run: &mut Run, now: Now, step: &mut RunStep) {
        let known = self.at_agent.len();
        self.at_agent.retain(|it| it.id != *prompt);
        if self.at_agent.len() < known {
            removed(run, prompt, PromptRemoval::Dequeued, now, step);
        }
    }

    /// Returns a steer that the agent dropped: the caller may send it again.
    pub(super) fn lost(&mut self, prompt: &PromptId, run: &mut Run, now: Now, step: &mut RunStep) {
        if let Some(place) = self.at_agent.iter().position(|it| it.id == *prompt) {
            let prompt = self.at_agent.remove(place);
            self.offer(prompt, PromptQueue::Agent, run, now, step);
        }
    }

    /// Returns all steers: the process that had them is gone.
    pub(super) fn return_steers(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        for prompt in std::mem::take(&mut self.at_agent) {
            self.offer(prompt, PromptQueue::Agent, run, now, step);
        }
    }

    /// Returns all prompts that wait: nothing is sent by itself after a turn that did not complete. A prompt that interrupted the
    /// turn stays.
    pub(super) fn return_after(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        if self.interrupting.is_none() {
            self.return_waiting(run, now, step);
        }
    }

    /// Returns everything.
    pub(super) fn return_all(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        self.interrupting = None;
        self.return_waiting(run, now, step);
    }

    fn return_waiting(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        for prompt in std::mem::take(&mut self.waiting) {
            self.offer(prompt, PromptQueue::Session, run, now, step);
        }
    }

    fn offer(&mut self, prompt: HostPrompt, queue: PromptQueue, run: &mut Run, now: Now, step: &mut RunStep) {
        removed(run, &prompt.id, PromptRemoval::Returned, now, step);
        self.offered.push(queued_prompt(prompt, queue));
        self.offered.sort_by_key(QueuedPrompt::age_key);
    }
}

/// Describes a prompt that waits. The contents of its images are left out: a later runner does not have them, either.
fn queued_prompt(prompt: HostPrompt, queue: PromptQueue) -> QueuedPrompt {
    let HostPrompt { id, text, attachments, images: _ } = prompt;
    QueuedPrompt { id, text, attachments, queue }
}

fn queued(
    run: &mut Run,
    prompt: &HostPrompt,
    queue: PromptQueue,
    from: Option<String>,
    now: Now,
    step: &mut RunStep,
) {
    let (id, text, attachments) = (prompt.id.clone(), prompt.text.clone(), prompt.attachments.clone());
    let kind = Kind::PromptQueued(PromptQueued { id, text, attachments, queue, from });
    run.emit_for_session(kind, now, step);
}

pub(super) fn removed(run: &mut Run, prompt: &PromptId, reason: PromptRemoval, now: Now, step: &mut RunStep) {
    let removed = PromptRemoved { id: prompt.clone(), reason };
    run.emit_for_session(Kind::PromptRemoved(removed), now, step);
}

/// A prompt with its order and its sender.
struct OrderedPrompt {
    order: OrderId,
    prompt: HostPrompt,
    from: Option<String>,
}

/// The answer to an order, if it is known at once.
pub(super) type AnswerNow = Result<Option<Receipt>, OrderRefused>;

impl Session {
    /// Handles a prompt of the caller.
    pub(super) fn prompt_order(
        &mut self,
        order: OrderId,
        prompt: HostPrompt,
        when_busy: WhenBusy,
        from: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
            return Err(OrderRefused::Rejected { reason: "the prompt is empty".to_owned() });
        }
        let (run, live) = self.parts();
        let is_at_rest = match &live.stage {
            SessionStage::Stopping | SessionStage::Over | SessionStage::New => {
                return Err(OrderRefused::Stopping);
            }
            SessionStage::NoProcess => true,
            SessionStage::Living => run.can_prompt(),
            SessionStage::Planning(_) => false,
        };
        let is_led = live.control == ControlMode::HumanLed;
        let begins_a_turn = !matches!(when_busy, WhenBusy::Steer);
        if let Some(reason) = run.out_of_budget_because().filter(|_| begins_a_turn) {
            return Err(OrderRefused::OutOfBudget { reason });
        }
        match when_busy {
            // Also while a person leads, and before all prompts that wait.
            WhenBusy::Now if is_at_rest => self.begin_turn(OrderedPrompt { order, prompt, from }, now, step),
            // A text such as "and skip the tests" makes no prompt. The caller has it, and can send it as one.
            WhenBusy::Steer if is_at_rest => Err(OrderRefused::TurnOver),
            WhenBusy::Queue | WhenBusy::Refuse if is_at_rest && !is_led && live.queues.is_empty() => {
                self.begin_turn(OrderedPrompt { order, prompt, from }, now, step)
            }
            WhenBusy::Refuse if is_at_rest && is_led => Err(OrderRefused::PersonLeads),
            WhenBusy::Refuse => Err(OrderRefused::Busy),
            WhenBusy::Queue | WhenBusy::Now | WhenBusy::Steer if live.queues.is_full() => {
                Err(OrderRefused::QueueFull { limit: WAITING_AT_MOST as u32 })
            }
            WhenBusy::Queue => {
                let receipt = live.queued_receipt(prompt.id.clone());
                live.queues.push(PromptQueue::Session, prompt, from, run, now, step);
                Ok(Some(receipt))
            }
            WhenBusy::Now => self.prompt_now(OrderedPrompt { order, prompt, from }, now, step),
            WhenBusy::Steer => self.steer_order(OrderedPrompt { order, prompt, from }, now, step),
        }
    }

    /// Begins a turn of a session that is at rest.
    fn begin_turn(&mut self, ordered: OrderedPrompt, now: Now, step: &mut RunStep) -> AnswerNow {
        let OrderedPrompt { order, prompt, from } = ordered;
        let (run, live) = self.parts();
        if matches!(live.stage, SessionStage::NoProcess) {
            queued(run, &prompt, PromptQueue::Session, from, now, step);
            self.plan(prompt, Some(order), now, step);
            return Ok(None);
        }
        let receipt = Receipt::Started { prompt: prompt.id.clone(), turn: run.next_turn() };
        run.next_prompt(&prompt, now, step);
        Ok(Some(receipt))
    }

    /// Interrupts the turn, and sends the prompt before all others.
    fn prompt_now(&mut self, ordered: OrderedPrompt, now: Now, step: &mut RunStep) -> AnswerNow {
        let OrderedPrompt { order, prompt, from } = ordered;
        let (run, live) = self.parts();
        queued(run, &prompt, PromptQueue::Session, from, now, step);
        if let Some(planned) = live.take_planned() {
            // No turn of it has begun, so it follows. The plan at hand is about it, so the host makes another one.
            planned.answer_queued(1, step);
            live.queues.put_first(planned.prompt);
            self.plan(prompt, Some(order), now, step);
            return Ok(None);
        }
        let id = prompt.id.clone();
        live.queues.interrupting = Some(id.clone());
        live.queues.put_first(prompt);
        match run.interrupt(now, step) {
            // A turn that is over or whose process is being ended needs no interrupt: the prompt is next anyway.
            Ok(()) | Err(OrderRefused::TurnOver | OrderRefused::Stopping) => {
                Ok(Some(Receipt::Queued { prompt: id, ahead: 0, held: false }))
            }
            Err(other) => Err(other),
        }
    }

    fn steer_order(&mut self, ordered: OrderedPrompt, now: Now, step: &mut RunStep) -> AnswerNow {
        let OrderedPrompt { order, prompt, from } = ordered;
        let (run, live) = self.parts();
        if !matches!(live.stage, SessionStage::Living) {
            let reason = "the agent is starting".to_owned();
            return Err(OrderRefused::NotSteerable { reason });
        }
        // The turn is over, and the next one has not begun: the files that it changed are read, or the process ends.
        if !run.has_open_turn() {
            return Err(OrderRefused::TurnOver);
        }
        let (turn, id) = (run.last_turn(), prompt.id.clone());
        match run.steer(&prompt, now, step) {
            Sent::Done => {
                live.queues.push(PromptQueue::Agent, prompt, from, run, now, step);
                Ok(Some(Receipt::Steered { prompt: id, turn }))
            }
            Sent::Awaiting(token) => {
                let steer = UnackedSteer { prompt, turn, from };
                live.acks.wait(token, order, AckedOrder::Steer(steer), now.up);
                Ok(None)
            }
            Sent::Cannot(reason) => Err(OrderRefused::NotSteerable { reason: reason.to_owned() }),
        }
    }

    /// Sends a prompt that was returned, with the contents of its images.
    pub(super) fn send_offered(
        &mut self,
        order: OrderId,
        prompt: &PromptId,
        images: BTreeMap<String, Vec<u8>>,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        let (run, live) = self.parts();
        if matches!(live.stage, SessionStage::Stopping | SessionStage::Over | SessionStage::New) {
            return Err(OrderRefused::Stopping);
        }
        let Some(place) = live.queues.offered.iter().position(|it| it.id == *prompt) else {
            return Err(OrderRefused::Unknown { what: format!("offered prompt `{prompt}`") });
        };
        if let Some(reason) = run.out_of_budget_because() {
            return Err(OrderRefused::OutOfBudget { reason });
        }
        if live.queues.is_full() {
            return Err(OrderRefused::QueueFull { limit: WAITING_AT_MOST as u32 });
        }
        let QueuedPrompt { id, text, attachments, queue: _ } = live.queues.offered.remove(place);
        let receipt = live.queued_receipt(id.clone());
        let prompt = HostPrompt { id, text, attachments, images };
        live.queues.push(PromptQueue::Session, prompt, None, run, now, step);
        // It begins at once if the session is at rest. It goes through the queue, or a later runner would offer it again.
        Ok(self.send_next(Some(order), now, step).unwrap_or(Some(receipt)))
    }

    /// Takes a prompt back that the agent has not read.
    pub(super) fn dequeue(
        &mut self,
        order: OrderId,
        prompt: Option<PromptId>,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        let (run, live) = self.parts();
        let queues = &mut live.queues;
        // Never one that is offered: its caller may believe it sent, and would not miss it.
        let last = || queues.waiting.back().or(queues.at_agent.last()).map(|it| it.id.clone());
        let Some(id) = prompt.or_else(last) else {
            return Err(OrderRefused::Unknown { what: "queued prompt".to_owned() });
        };
        if let Some(place) = queues.waiting.iter().position(|it| it.id == id) {
            queues.waiting.remove(place);
            queues.interrupting.take_if(|interrupting| *interrupting == id);
            removed(run, &id, PromptRemoval::Dequeued, now, step);
            return Ok(Some(Receipt::Done));
        }
        if let Some(place) = queues.offered.iter().position(|it| it.id == id) {
            queues.offered.remove(place);
            removed(run, &id, PromptRemoval::Dequeued, now, step);
            return Ok(Some(Receipt::Done));
        }
        if !queues.at_agent.iter().any(|it| it.id == id) {
            return Err(OrderRefused::Unknown { what: format!("queued prompt `{id}`") });
        }
        match run.take_back(&id, now, step) {
            Sent::Done => {
                run.forget_steer(&id, now, step);
                queues.taken_back(&id, run, now, step);
                Ok(Some(Receipt::Done))
            }
            Sent::Awaiting(token) => {
                live.acks.wait(token, order, AckedOrder::TakeBack(id), now.up);
                Ok(None)
            }
            Sent::Cannot(reason) => Err(OrderRefused::Unsupported { reason: reason.to_owned() }),
        }
    }
}
