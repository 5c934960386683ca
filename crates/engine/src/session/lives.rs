//! The processes of a live session: when one is planned, what it reports, and what follows its end.

use bowline_protocol::kinds::{
    ControlMode, EndReason, Level, Notice, OptionState, OptionsChanged, Outcome, SessionState,
};
use bowline_protocol::{Failure, Kind, Millis, OrderRefused, PermissionMode, PromptId, Receipt};
use bowline_providers::dialect::{Acknowledgement, Sent};

use super::acks::AckedOrder;
use super::queue::AnswerNow;
use super::{LifeRequest, Session, SessionStage};
use crate::run::{LifeReport, Now, OrderId, RunAction, RunEnd, RunInput, RunPlan, RunStep};

impl Session {
    /// Acts on everything that an input has changed: reports of the process, its end, the queue, and the view.
    pub(super) fn settle(&mut self, events: usize, now: Now, step: &mut RunStep) {
        let mut seen = events;
        loop {
            // Turns first: the end of a process must find the queue as its last turn left it.
            self.watch_turns(&mut seen, now, step);
            let reported = self.handle_reports(now, step);
            if !reported && !self.send_next(now, step) && seen == step.events.len() {
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
        let Some((order, prompt)) = live.acks.take_steer(prompt) else {
            return live.queues.lost(prompt, run, now, step);
        };
        live.queues.keep(prompt, run, now, step);
        // Nothing is sent by itself after a turn that did not complete.
        if live.view.last_turn().is_some_and(|last| last.outcome != Outcome::Completed) {
            live.queues.return_after(run, now, step);
        }
        step.actions.push(RunAction::Answer(order, Err(OrderRefused::NotAcknowledged)));
    }

    fn acknowledged(&mut self, acknowledgement: Acknowledgement, now: Now, step: &mut RunStep) {
        let Acknowledgement { token, result } = acknowledgement;
        let (run, live) = self.parts();
        if let Some(late) = live.acks.take_late(token) {
            // The prompt waits in the queue. If the agent has it after all, it must not be sent twice.
            if result.is_ok() {
                live.queues.read(&late, run, now, step);
            }
            return;
        }
        // An interrupt is acknowledged too, and no order waits for that.
        let Some(pending) = live.acks.take(token) else { return };
        let rejected = result.err().map(|reason| OrderRefused::Rejected { reason });
        let answer = match (pending.what, rejected) {
            (AckedOrder::Steer { prompt, turn, from }, None) => {
                let id = prompt.id.clone();
                live.queues.at_agent(prompt, from, run, now, step);
                Ok(Receipt::Steered { prompt: id, turn })
            }
            (AckedOrder::Steer { prompt, .. }, Some(refused)) => {
                run.forget_steer(&prompt.id, now, step);
                Err(refused)
            }
            (AckedOrder::TakeBack(prompt), None) => {
                run.forget_steer(&prompt, now, step);
                live.queues.taken_back(&prompt, run, now, step);
                Ok(Receipt::Done)
            }
            (AckedOrder::Option { option, value, permission }, None) => {
                self.option_set(&option, &value, permission, now, step);
                Ok(Receipt::Done)
            }
            (AckedOrder::Compact, None) => Ok(Receipt::Done),
            (AckedOrder::TakeBack(_) | AckedOrder::Option { .. } | AckedOrder::Compact, Some(refused)) => {
                Err(refused)
            }
        };
        step.actions.push(RunAction::Answer(pending.order, answer));
    }

    /// Sends the next prompt of the queue if the agent can take it. Returns whether it did.
    fn send_next(&mut self, now: Now, step: &mut RunStep) -> bool {
        let (run, live) = self.parts();
        if live.queues.is_empty() || live.control == ControlMode::HumanLed {
            return false;
        }
        match live.stage {
            SessionStage::NoProcess => {
                self.plan_next(now, step);
                true
            }
            SessionStage::Living if run.can_prompt() => {
                let Some(prompt) = live.queues.next(run, now, step) else { return false };
                run.next_prompt(&prompt, now, step);
                true
            }
            SessionStage::Living
            | SessionStage::New
            | SessionStage::Planning(_)
            | SessionStage::Stopping
            | SessionStage::Over => false,
        }
    }

    /// Asks the host for the plan of a process for the next prompt.
    pub(super) fn plan_next(&mut self, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        let Some(prompt) = live.queues.next_to_plan() else { return };
        let request = LifeRequest {
            prompt: prompt.clone(),
            resume: live.view.native().cloned(),
            options: live.options.clone(),
        };
        if request.resume.is_none() && live.view.last_turn().is_some() {
            let text = "the agent never named its session, so a new conversation begins".to_owned();
            let code = Some("no_native_session".to_owned());
            let notice = Notice { level: Level::Warn, text, code };
            run.emit_for_session(Kind::Notice(notice), now, step);
        }
        live.stage = SessionStage::Planning(prompt);
        run.change_state(SessionState::Preparing, None, now, step);
        step.actions.push(RunAction::Plan(Box::new(request)));
    }

    /// Begins the process of a plan.
    pub(super) fn planned(&mut self, plan: Result<Box<RunPlan>, Box<Failure>>, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        let prompt = match std::mem::replace(&mut live.stage, SessionStage::Living) {
            SessionStage::Planning(prompt) => prompt,
            // Stopped or interrupted meanwhile.
            other @ (SessionStage::New
            | SessionStage::NoProcess
            | SessionStage::Living
            | SessionStage::Stopping
            | SessionStage::Over) => {
                live.stage = other;
                return;
            }
        };
        live.queues.put_back(prompt);
        let Some(prompt) = live.queues.next(run, now, step) else { return };
        match plan {
            Ok(plan) => {
                run.next_life(*plan);
                run.handle(RunInput::Begin, now, step);
            }
            Err(failure) => run.fail_unplanned(&prompt, *failure, now, step),
        }
    }

    /// Handles the end of a process.
    fn life_over(&mut self, mut ended: RunEnd, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        for (order, prompt) in live.acks.process_gone() {
            if let Some(prompt) = prompt {
                live.queues.keep(prompt, run, now, step);
            }
            step.actions.push(RunAction::Answer(order, Err(OrderRefused::NotAcknowledged)));
        }
        live.queues.return_steers(run, now, step);
        if let Some(before) = live.last_end.take() {
            ended.survivors.splice(0..0, before.survivors);
            ended.left_behind.splice(0..0, before.left_behind);
            ended.killed.splice(0..0, before.killed);
        }
        let reason = ended.reason;
        let is_stopping = matches!(live.stage, SessionStage::Stopping);
        live.last_end = Some(ended);
        if is_stopping {
            live.queues.return_all(run, now, step);
            let reason = if live.trouble.is_some() { reason } else { EndReason::Stopped };
            return self.finish(reason, now, step);
        }
        live.stage = SessionStage::NoProcess;
        let state = self.state();
        self.run.change_state(state, None, now, step);
    }

    /// Returns when an idle process is ended.
    pub(super) fn idle_deadline(&self) -> Option<Millis> {
        let live = self.live.as_ref()?;
        let is_paused = live.control == ControlMode::HumanLed;
        let since =
            self.run.idle_since().filter(|_| matches!(live.stage, SessionStage::Living) && !is_paused)?;
        // A process that cannot be resumed would take its conversation with it.
        live.view.native()?;
        Some(since.plus(live.idle?))
    }

    /// Ends a process that was idle for too long.
    pub(super) fn close_idle(&mut self, now: Now, step: &mut RunStep) {
        let text =
            "the agent was idle, so its process is ended; the next prompt resumes the session".to_owned();
        let notice = Notice { level: Level::Info, text, code: Some("idle".to_owned()) };
        self.run.emit_for_session(Kind::Notice(notice), now, step);
        self.run.close_idle(now, step);
    }

    /// Changes an option of the agent: at once if it can do that while it runs, else from its next process on.
    pub(super) fn set_option(
        &mut self,
        order: OrderId,
        option: &str,
        value: &str,
        now: Now,
        step: &mut RunStep,
    ) -> AnswerNow {
        let permission = match option {
            "permission" => Some(mode_of(value)?),
            _ => None,
        };
        let (run, live) = self.parts();
        let is_ours = matches!(option, "model" | "effort" | "permission");
        if live.has_process() && run.is_kept_alive() {
            return match run.set_option(option, value, now, step) {
                Sent::Done => {
                    self.option_set(option, value, permission, now, step);
                    Ok(Some(Receipt::Done))
                }
                Sent::Awaiting(token) => {
                    let (option, value) = (option.to_owned(), value.to_owned());
                    live.acks.wait(token, order, AckedOrder::Option { option, value, permission }, now.up);
                    Ok(None)
                }
                Sent::Cannot(reason) => Err(OrderRefused::Unsupported { reason: reason.to_owned() }),
            };
        }
        if !is_ours {
            let reason =
                format!("`{option}` is an option of the running agent, and its process is not running");
            return Err(OrderRefused::Unsupported { reason });
        }
        self.option_set(option, value, permission, now, step);
        Ok(Some(Receipt::Done))
    }

    /// Remembers an option for the next process, and reports it.
    fn option_set(
        &mut self,
        option: &str,
        value: &str,
        permission: Option<PermissionMode>,
        now: Now,
        step: &mut RunStep,
    ) {
        let (run, live) = self.parts();
        match option {
            "model" => live.options.model = Some(value.to_owned()),
            "effort" => live.options.effort = Some(value.to_owned()),
            _ => {}
        }
        if let Some(mode) = permission {
            live.options.permission = Some(mode);
            run.set_permission(mode);
        }
        let state =
            OptionState { id: option.to_owned(), choices: Vec::new(), current: Some(value.to_owned()) };
        run.emit_for_session(Kind::OptionsChanged(OptionsChanged { options: vec![state] }), now, step);
    }

    pub(super) fn compact(&mut self, order: OrderId, now: Now, step: &mut RunStep) -> AnswerNow {
        let (run, live) = self.parts();
        if !matches!(live.stage, SessionStage::Living) {
            let reason = "the agent's process is not running; send a prompt first".to_owned();
            return Err(OrderRefused::Unsupported { reason });
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

/// Reads a permission mode of an order.
fn mode_of(value: &str) -> Result<PermissionMode, OrderRefused> {
    PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == value).ok_or_else(|| {
        let reason = format!("`{value}` is no permission mode; there are read, ask, edit and yolo");
        OrderRefused::Rejected { reason }
    })
}
