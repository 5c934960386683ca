//! The processes of a live session: when one is planned, what it reports, and what follows its end.

use bowline_protocol::kinds::{
    ControlMode, EndReason, Level, Notice, Outcome, PromptQueue, PromptRemoval, SessionState,
};
use bowline_protocol::{AckGap, Failure, Kind, Millis, OrderRefused, PromptId, Receipt};
use bowline_providers::dialect::{Acknowledgement, HostPrompt, Sent};

use super::acks::{AckedOrder, LateOrder, UnackedSteer};
use super::queue::{AnswerNow, removed};
use super::{LifeRequest, PlannedPrompt, Session, SessionStage};
use crate::run::reasons;
use crate::run::{LifeReport, Now, OrderId, RunAction, RunEnd, RunInput, RunPlan, RunStep};

impl Session {
    /// Acts on everything that an input has changed: reports of the process, its end, the queue, and the view.
    pub(super) fn settle(&mut self, events: usize, now: Now, step: &mut RunStep) {
        let mut seen = events;
        loop {
            // Turns first: the end of a process must find the queue as its last turn left it.
            self.watch_turns(&mut seen, now, step);
            let reported = self.handle_reports(now, step);
            if !reported && self.send_next(None, now, step).is_none() && seen == step.events.len() {
                return;
            }
        }
    }

    /// Folds new events into the view, and returns the queue after a turn that did not complete.
    fn watch_turns(&mut self, seen: &mut usize, now: Now, step: &mut RunStep) {
        while *seen < step.events.len() {
            let (run, live) = self.parts();
            let event = &step.events[*seen];
            *seen += 1;
            live.view.fold(event);
            if let Kind::TurnEnded(ended) = &event.kind
                && ended.outcome != Outcome::Completed
            {
                live.queues.return_after(run, now, step);
            }
        }
    }

    /// Returns whether there were reports.
    fn handle_reports(&mut self, now: Now, step: &mut RunStep) -> bool {
        let reports = self.run.take_reports();
        let any = !reports.is_empty();
        for report in reports {
            let (run, live) = self.parts();
            match report {
                LifeReport::Acknowledged(acknowledgement) => self.acknowledged(acknowledgement, now, step),
                LifeReport::Read(prompt) => live.queues.read(&prompt, run, now, step),
                LifeReport::Lost(prompt) => self.steer_lost(&prompt, now, step),
                LifeReport::Over(ended) => self.life_over(*ended, now, step),
            }
        }
        any
    }

    /// Handles a steer that the agent dropped, or did not fetch before its turn ended.
    fn steer_lost(&mut self, prompt: &PromptId, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        let Some((order, steer)) = live.acks.take_steer(prompt) else {
            return live.queues.lost(prompt, run, now, step);
        };
        self.keep_steer(steer, now, step);
        step.actions.push(RunAction::Answer(order, not_acknowledged(AckGap::TurnOver)));
    }

    /// Keeps the text of a steer that was not acknowledged: it is the next prompt. If its turn did not complete it is only offered,
    /// like every prompt that waits then.
    pub(super) fn keep_steer(&mut self, steer: UnackedSteer, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        let UnackedSteer { prompt, turn, from } = steer;
        // Of the turns before the last one the outcome is not known any more.
        let is_over = live.view.last_turn().filter(|last| last.turn >= turn);
        let completed = is_over.is_none_or(|last| last.turn == turn && last.outcome == Outcome::Completed);
        if completed || live.queues.is_interrupting() {
            live.queues.push(PromptQueue::Session, prompt, from, run, now, step);
        } else {
            live.queues.offer_steer(prompt, from, run, now, step);
        }
    }

    fn acknowledged(&mut self, acknowledgement: Acknowledgement, now: Now, step: &mut RunStep) {
        let Acknowledgement { token, result } = acknowledgement;
        let (run, live) = self.parts();
        match (live.acks.take_late(token), &result) {
            // The prompt waits in the queue. If the agent has it after all, it must not be sent twice.
            (Some(LateOrder::Steer(late)), Ok(())) => return live.queues.read(&late, run, now, step),
            (Some(LateOrder::Option(order, change)), Ok(())) => {
                return self.option_acknowledged(order, &change, now, step);
            }
            (Some(LateOrder::Option(_, change)), Err(reason)) => {
                return self.option_unconfirmed(&change, Some(reason), now, step);
            }
            (Some(LateOrder::Steer(_)), Err(_)) => return,
            (None, _) => {}
        }
        // An interrupt is acknowledged too, and no order waits for that.
        let Some(pending) = live.acks.take(token) else { return };
        let rejected = result.err().map(|reason| OrderRefused::Rejected { reason });
        let answer = match (pending.what, rejected) {
            (AckedOrder::Steer(UnackedSteer { prompt, turn, from }), None) => {
                let id = prompt.id.clone();
                live.queues.push(PromptQueue::Agent, prompt, from, run, now, step);
                Ok(Receipt::Steered { prompt: id, turn })
            }
            (AckedOrder::Steer(steer), Some(refused)) => {
                run.forget_steer(&steer.prompt.id, now, step);
                Err(refused)
            }
            (AckedOrder::TakeBack(prompt), None) => {
                run.forget_steer(&prompt, now, step);
                live.queues.taken_back(&prompt, run, now, step);
                Ok(Receipt::Done)
            }
            (AckedOrder::Option(change), None) => {
                self.option_acknowledged(pending.order, &change, now, step);
                Ok(Receipt::Done)
            }
            (AckedOrder::Option(_), Some(refused)) => {
                self.option_rejected(pending.order, now, step);
                Err(refused)
            }
            (AckedOrder::Compact, None) => Ok(Receipt::Done),
            (AckedOrder::TakeBack(_) | AckedOrder::Compact, Some(refused)) => Err(refused),
        };
        step.actions.push(RunAction::Answer(pending.order, answer));
    }

    /// Sends the next prompt of the queue if the agent can take it, with the order that it came with. Returns the receipt if it did so:
    /// none while a process is planned, which answers the order later.
    pub(super) fn send_next(
        &mut self,
        order: Option<OrderId>,
        now: Now,
        step: &mut RunStep,
    ) -> Option<Option<Receipt>> {
        let (run, live) = self.parts();
        // A person who leads sends prompts. The queue waits, without the prompt that the person has interrupted a turn with.
        if live.control == ControlMode::HumanLed && !live.queues.is_interrupting() {
            return None;
        }
        let rests = match live.stage {
            SessionStage::NoProcess => true,
            SessionStage::Living => run.can_prompt(),
            SessionStage::New | SessionStage::Planning(_) | SessionStage::Stopping | SessionStage::Over => {
                false
            }
        };
        if rests
            && !live.queues.is_empty()
            && let Some(why) = run.out_of_budget_because()
        {
            let text = format!("{why}; the prompts that wait are not sent");
            let code = Some("budget_exceeded".to_owned());
            run.emit_for_session(Kind::Notice(Notice { level: Level::Warn, text, code }), now, step);
            live.queues.return_all(run, now, step);
            return None;
        }
        match live.stage {
            SessionStage::NoProcess => {
                let prompt = live.queues.next()?;
                self.plan(prompt, order, now, step);
                Some(None)
            }
            SessionStage::Living if run.can_prompt() => {
                let prompt = live.queues.next()?;
                let receipt = Receipt::Started { prompt: prompt.id.clone(), turn: run.next_turn() };
                removed(run, &prompt.id, PromptRemoval::Sent, now, step);
                run.next_prompt(&prompt, now, step);
                Some(Some(receipt))
            }
            SessionStage::Living
            | SessionStage::New
            | SessionStage::Planning(_)
            | SessionStage::Stopping
            | SessionStage::Over => None,
        }
    }

    /// Asks the host for the plan of a process for a prompt, which stays in the queue on file until then.
    pub(super) fn plan(&mut self, prompt: HostPrompt, order: Option<OrderId>, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        let request =
            LifeRequest { prompt: prompt.clone(), resume: live.view.resume(), options: live.options.clone() };
        if request.resume.is_none() && live.view.last_turn().is_some() {
            let text = "the agent never named its session, so a new conversation begins".to_owned();
            let code = Some("no_native_session".to_owned());
            let notice = Notice { level: Level::Warn, text, code };
            run.emit_for_session(Kind::Notice(notice), now, step);
        }
        let reason = format!("prepares a process for prompt {}", prompt.id);
        live.stage = SessionStage::Planning(PlannedPrompt { prompt, order });
        run.change_state(SessionState::Preparing, Some(reason), now, step);
        step.actions.push(RunAction::Plan(Box::new(request)));
    }

    /// Begins the process of a plan.
    pub(super) fn planned(&mut self, plan: Result<Box<RunPlan>, Box<Failure>>, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        // Stopped or interrupted meanwhile.
        let Some(PlannedPrompt { prompt, order }) = live.take_planned() else { return };
        live.stage = SessionStage::Living;
        let turn = run.next_turn();
        removed(run, &prompt.id, PromptRemoval::Sent, now, step);
        let id = prompt.id.clone();
        match plan {
            Ok(plan) => {
                run.next_life(*plan);
                run.handle(RunInput::Begin, now, step);
            }
            Err(failure) => run.fail_unplanned(&prompt, *failure, now, step),
        }
        if let Some(order) = order {
            step.actions.push(RunAction::Answer(order, Ok(Receipt::Started { prompt: id, turn })));
        }
    }

    /// Handles the end of a process.
    fn life_over(&mut self, mut ended: RunEnd, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        for (order, steer) in live.acks.process_gone() {
            // The process may have read it: most agents resume with a message that they never answered. So it is not sent again.
            if let Some(UnackedSteer { prompt, from, .. }) = steer {
                live.queues.offer_steer(prompt, from, run, now, step);
            }
            step.actions.push(RunAction::Answer(order, not_acknowledged(AckGap::ProcessOver)));
        }
        live.modes.process_gone();
        live.queues.return_steers(run, now, step);
        if let Some(before) = live.last_end.take() {
            ended.survivors.splice(0..0, before.survivors);
            ended.left_behind.splice(0..0, before.left_behind);
            ended.killed.splice(0..0, before.killed);
        }
        let reason = ended.reason;
        let no_process = reasons::no_process(&ended, live.was_idle_for.take());
        let is_stopping = matches!(live.stage, SessionStage::Stopping);
        live.last_end = Some(ended);
        if is_stopping {
            live.queues.return_all(run, now, step);
            let reason = if live.trouble.is_some() { reason } else { EndReason::Stopped };
            return self.finish(reason, now, step);
        }
        live.stage = SessionStage::NoProcess;
        live.no_process = no_process;
        self.rest(now, step);
    }

    /// Announces that there is no process.
    pub(super) fn rest(&mut self, now: Now, step: &mut RunStep) {
        let state = self.state();
        let (run, live) = self.parts();
        let reason = match live.control {
            ControlMode::HumanLed => reasons::PERSON_LEADS,
            ControlMode::AgentLed | ControlMode::Delegated => live.no_process.as_str(),
        };
        let reason = reason.to_owned();
        run.change_state(state, Some(reason), now, step);
    }

    /// Emits the end of the stint, and ends the session for the caller.
    pub(super) fn finish(&mut self, reason: EndReason, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        live.stage = SessionStage::Over;
        for (order, result) in live.acks.abandon() {
            step.actions.push(RunAction::Answer(order, result));
        }
        let outcome = match (&live.trouble, live.view.last_turn()) {
            (Some(_), _) => Outcome::Failed,
            (None, Some(last)) => last.outcome,
            (None, None) => Outcome::Completed,
        };
        let mut end = live.last_end.take().unwrap_or_else(|| RunEnd::without_process(outcome, reason));
        end.outcome = outcome;
        end.failure = live.trouble.take().or(end.failure);
        end.reason = reason;
        // The stint ended as it was asked to. How its turns ended is in their events.
        let ended = if end.failure.is_some() { outcome } else { Outcome::Completed };
        run.emit_session_ended(ended, end.exit, reason, end.failure.as_ref(), now, step);
        step.actions.push(RunAction::Done(Box::new(end)));
    }

    /// Returns when an idle process is ended.
    pub(super) fn idle_deadline(&self) -> Option<Millis> {
        let live = self.live.as_ref()?;
        let is_paused = live.control == ControlMode::HumanLed;
        let since =
            self.run.idle_since().filter(|_| matches!(live.stage, SessionStage::Living) && !is_paused)?;
        // A request to start a session may wait for a person while no turn runs.
        if self.run.waiting_approvals().next().is_some() {
            return None;
        }
        // A process that cannot be resumed would take its conversation with it.
        live.view.native()?;
        Some(since.plus(live.idle?))
    }

    /// Ends a process that was idle for too long.
    pub(super) fn close_idle(&mut self, now: Now, step: &mut RunStep) {
        let text =
            "the agent was idle, so its process is ended; the next prompt resumes the session".to_owned();
        let notice = Notice { level: Level::Info, text, code: Some("idle".to_owned()) };
        let (run, live) = self.parts();
        live.was_idle_for = live.idle;
        run.emit_for_session(Kind::Notice(notice), now, step);
        run.close_idle(now, step);
    }

    pub(super) fn compact(&mut self, order: OrderId, now: Now, step: &mut RunStep) -> AnswerNow {
        let (run, live) = self.parts();
        if !matches!(live.stage, SessionStage::Living) {
            let reason = "the agent's process is not running; send a prompt first".to_owned();
            return Err(OrderRefused::Unsupported { reason });
        }
        if let Some(reason) = run.out_of_budget_because() {
            return Err(OrderRefused::OutOfBudget { reason });
        }
        match run.compact(now, step) {
            Sent::Done => Ok(Some(Receipt::Done)),
            Sent::Awaiting(token) => {
                live.acks.wait(token, order, AckedOrder::Compact, now.up);
                Ok(None)
            }
            Sent::Cannot(reason) => Err(OrderRefused::Unsupported { reason: reason.to_owned() }),
        }
    }
}

/// The answer to an order that the agent did not acknowledge.
pub(super) fn not_acknowledged(why: AckGap) -> Result<Receipt, OrderRefused> {
    Err(OrderRefused::NotAcknowledged { why })
}
