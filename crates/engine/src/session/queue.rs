//! Prompts on their way to the agent: accepted, queued, sent, taken back, and kept for a later runner.
//!
//! Every accepted prompt ends exactly once: its turn begins, the agent reads it, it is dequeued, or it is returned. The journal is
//! the queue on file: `prompt_queued` has the text, `prompt_removed` the reason. A prompt that was returned is offered, and never
//! sent by itself.

use std::collections::VecDeque;

use bowline_protocol::kinds::{PromptQueue, PromptQueued, PromptRemoval, PromptRemoved};
use bowline_protocol::{Kind, OrderRefused, PromptId, QueuedPrompt, Receipt, WhenBusy};
use bowline_providers::dialect::{HostPrompt, Sent};

use super::acks::AckedOrder;
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
    /// The prompt that interrupted a turn, and comes next whatever the turn's outcome is.
    interrupting: bool,
}

impl PromptQueues {
    pub(super) fn new(offered: Vec<QueuedPrompt>) -> Self {
        Self { waiting: VecDeque::new(), at_agent: Vec::new(), offered, interrupting: false }
    }

    /// Returns the prompts that wait, those at the agent first.
    pub(super) fn waiting(&self) -> Vec<QueuedPrompt> {
        let of = |queue: PromptQueue| {
            move |it: &HostPrompt| QueuedPrompt { id: it.id.clone(), text: it.text.clone(), queue }
        };
        let at_agent = self.at_agent.iter().map(of(PromptQueue::Agent));
        at_agent.chain(self.waiting.iter().map(of(PromptQueue::Session))).collect()
    }

    pub(super) fn offered(&self) -> &[QueuedPrompt] {
        &self.offered
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn is_full(&self) -> bool {
        self.waiting.len() + self.at_agent.len() >= WAITING_AT_MOST
    }

    /// Takes the next prompt.
    pub(super) fn next(&mut self, run: &mut Run, now: Now, step: &mut RunStep) -> Option<HostPrompt> {
        let prompt = self.waiting.pop_front()?;
        self.interrupting = false;
        removed(run, &prompt.id, PromptRemoval::Sent, now, step);
        Some(prompt)
    }

    /// Takes the next prompt for a process that is being planned. It leaves the queue when the process begins.
    pub(super) fn next_to_plan(&mut self) -> Option<HostPrompt> {
        self.interrupting = false;
        self.waiting.pop_front()
    }

    /// Puts a prompt back whose process was not planned.
    pub(super) fn put_back(&mut self, prompt: HostPrompt) {
        self.waiting.push_front(prompt);
    }

    /// Adds a prompt to the queue.
    pub(super) fn push(
        &mut self,
        prompt: HostPrompt,
        from: Option<String>,
        run: &mut Run,
        now: Now,
        step: &mut RunStep,
    ) {
        queued(run, &prompt, PromptQueue::Session, from, now, step);
        self.waiting.push_back(prompt);
    }

    /// Keeps the text of a steer that the agent did not acknowledge.
    pub(super) fn keep(&mut self, prompt: HostPrompt, run: &mut Run, now: Now, step: &mut RunStep) {
        self.push(prompt, None, run, now, step);
    }

    /// Records that the agent has a steer.
    pub(super) fn at_agent(
        &mut self,
        prompt: HostPrompt,
        from: Option<String>,
        run: &mut Run,
        now: Now,
        step: &mut RunStep,
    ) {
        queued(run, &prompt, PromptQueue::Agent, from, now, step);
        self.at_agent.push(prompt);
    }

    /// Removes a prompt that the agent has read.
    pub(super) fn read(&mut self, prompt: &PromptId, run: &mut Run, now: Now, step: &mut RunStep) {
        let known = self.at_agent.len() + self.waiting.len();
        self.at_agent.retain(|it| it.id != *prompt);
        // The agent may read a steer whose acknowledgement came too late.
        self.waiting.retain(|it| it.id != *prompt);
        if self.at_agent.len() + self.waiting.len() < known {
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
        if !self.interrupting {
            self.return_waiting(run, now, step);
        }
    }

    /// Returns everything.
    pub(super) fn return_all(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        self.interrupting = false;
        self.return_waiting(run, now, step);
    }

    fn return_waiting(&mut self, run: &mut Run, now: Now, step: &mut RunStep) {
        for prompt in std::mem::take(&mut self.waiting) {
            self.offer(prompt, PromptQueue::Session, run, now, step);
        }
    }

    fn offer(&mut self, prompt: HostPrompt, queue: PromptQueue, run: &mut Run, now: Now, step: &mut RunStep) {
        removed(run, &prompt.id, PromptRemoval::Returned, now, step);
        self.offered.push(QueuedPrompt { id: prompt.id, text: prompt.text, queue });
    }
}

fn queued(
    run: &mut Run,
    prompt: &HostPrompt,
    queue: PromptQueue,
    from: Option<String>,
    now: Now,
    step: &mut RunStep,
) {
    let (id, text) = (prompt.id.clone(), prompt.text.clone());
    run.emit_for_session(Kind::PromptQueued(PromptQueued { id, text, queue, from }), now, step);
}

fn removed(run: &mut Run, prompt: &PromptId, reason: PromptRemoval, now: Now, step: &mut RunStep) {
    let removed = PromptRemoved { id: prompt.clone(), reason };
    run.emit_for_session(Kind::PromptRemoved(removed), now, step);
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
        let id = prompt.id.clone();
        match &live.stage {
            SessionStage::Stopping | SessionStage::Over | SessionStage::New => {
                return Err(OrderRefused::Stopping);
            }
            SessionStage::NoProcess => {
                let turn = run.next_turn();
                live.queues.push(prompt, from, run, now, step);
                self.plan_next(now, step);
                return Ok(Some(Receipt::Started { prompt: id, turn }));
            }
            SessionStage::Living if run.can_prompt() && live.queues.is_empty() => {
                let turn = run.next_turn();
                run.next_prompt(&prompt, now, step);
                return Ok(Some(Receipt::Started { prompt: id, turn }));
            }
            SessionStage::Living | SessionStage::Planning(_) => {}
        }
        if live.queues.is_full() && when_busy != WhenBusy::Refuse {
            return Err(OrderRefused::QueueFull { limit: WAITING_AT_MOST as u32 });
        }
        match when_busy {
            WhenBusy::Refuse => Err(OrderRefused::Busy),
            WhenBusy::Queue => {
                let ahead = live.queues.waiting.len() as u32;
                live.queues.push(prompt, from, run, now, step);
                Ok(Some(Receipt::Queued { prompt: id, ahead }))
            }
            WhenBusy::Now => self.prompt_now(prompt, from, now, step).map(Some),
            WhenBusy::Steer => self.steer_order(order, prompt, from, now, step),
        }
    }

    /// Interrupts the turn, and sends the prompt before all others.
    fn prompt_now(
        &mut self,
        prompt: HostPrompt,
        from: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) -> Result<Receipt, OrderRefused> {
        let id = prompt.id.clone();
        let (run, live) = self.parts();
        queued(run, &prompt, PromptQueue::Session, from, now, step);
        live.queues.waiting.push_front(prompt);
        live.queues.interrupting = true;
        // A process that is only being planned, or whose turn is over, sends it next anyway.
        if matches!(live.stage, SessionStage::Living) {
            match run.interrupt(now, step) {
                Ok(()) | Err(OrderRefused::TurnOver | OrderRefused::Stopping) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(Receipt::Queued { prompt: id, ahead: 0 })
    }

    fn steer_order(
        &mut self,
        order: OrderId,
        prompt: HostPrompt,
        from: Option<String>,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        let (run, live) = self.parts();
        if !matches!(live.stage, SessionStage::Living) || !run.has_open_turn() {
            let reason = "the agent is starting".to_owned();
            return Err(OrderRefused::NotSteerable { reason });
        }
        let (turn, id) = (run.last_turn(), prompt.id.clone());
        match run.steer(&prompt, now, step) {
            Sent::Done => {
                live.queues.at_agent(prompt, from, run, now, step);
                Ok(Some(Receipt::Steered { prompt: id, turn }))
            }
            Sent::Awaiting(token) => {
                live.acks.wait(token, order, AckedOrder::Steer { prompt, turn, from }, now.up);
                Ok(None)
            }
            Sent::Cannot(reason) => Err(OrderRefused::NotSteerable { reason: reason.to_owned() }),
        }
    }

    /// Sends a prompt that was returned.
    pub(super) fn send_offered(
        &mut self,
        prompt: &PromptId,
        now: Now,
        step: &mut RunStep,
    ) -> Result<Receipt, OrderRefused> {
        let (run, live) = self.parts();
        if matches!(live.stage, SessionStage::Stopping | SessionStage::Over | SessionStage::New) {
            return Err(OrderRefused::Stopping);
        }
        let Some(place) = live.queues.offered.iter().position(|it| it.id == *prompt) else {
            return Err(OrderRefused::Unknown { what: format!("offered prompt `{prompt}`") });
        };
        let QueuedPrompt { id, text, .. } = live.queues.offered.remove(place);
        let ahead = live.queues.waiting.len() as u32;
        live.queues.push(HostPrompt::of(id.clone(), text), None, run, now, step);
        // `settle` sends it at once if the session is idle.
        Ok(Receipt::Queued { prompt: id, ahead })
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
        let last = || {
            let waiting = queues.waiting.back().or(queues.at_agent.last()).map(|it| it.id.clone());
            waiting.or_else(|| queues.offered.last().map(|it| it.id.clone()))
        };
        let Some(id) = prompt.or_else(last) else {
            return Err(OrderRefused::Unknown { what: "queued prompt".to_owned() });
        };
        if let Some(place) = queues.waiting.iter().position(|it| it.id == id) {
            queues.waiting.remove(place);
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
