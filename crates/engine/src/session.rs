//! A session: many turns, over one process after the other.
//!
//! ```text
//!            prompt             planned                    the process ends
//!  no process ────> planning ────────────> living (a `Run`) ───────────────> no process
//!      │                │                    │ stop
//!      └────── stop ────┴────────────────────┴──────────> over
//! ```
//!
//! A [`Run`] is the life of one process. The session owns what outlives it: the queue of prompts, the options, who leads, and the
//! answers that are due to orders. `bowline run` is a session of one prompt ([`Session::of_one_prompt`]), whose inputs go straight
//! to its only run.
//!
//! The state of a session is computed from its parts and never set.

mod acks;
mod lives;
mod options;
mod queue;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_protocol::kinds::{ControlMode, ControlModeChanged, EndReason, SessionState};
use bowline_protocol::{
    AckGap, Failure, Kind, LastTurn, Millis, OrderRefused, PermissionMode, PromptId, QueuedPrompt, Receipt,
    SessionOrder,
};
use bowline_providers::dialect::HostPrompt;

use self::acks::{AckedOrder, PendingAcks};
use self::lives::not_acknowledged;
use self::options::PermissionModes;
use self::queue::PromptQueues;
pub use self::snapshot::SessionView;
use crate::budget::SpendSum;
use crate::run::reasons;
use crate::run::{
    Now, OrderId, ResumeTarget, Run, RunAction, RunCommand, RunEnd, RunInput, RunPlan, RunStep,
};

/// A session of one or of many prompts.
#[derive(Debug)]
pub struct Session {
    run: Run,
    live: Option<Box<LiveState>>,
}

/// The needs of a live session besides the plan of its first process.
#[derive(Clone, Debug, Default)]
pub struct LivePlan {
    /// After how long an idle process is ended. `None` keeps it: its agent cannot resume the session, or the caller wants that.
    pub idle: Option<Millis>,
    /// Prompts that an earlier runner accepted and did not send.
    pub offered: Vec<QueuedPrompt>,
    /// The side that leads.
    pub control: ControlMode,
    /// The native session to go on with, or to fork. None begins one.
    pub resume: Option<ResumeTarget>,
    /// The last turn of an earlier runner.
    pub last_turn: Option<LastTurn>,
}

/// The request for the plan of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeRequest {
    /// Its first prompt.
    pub prompt: HostPrompt,
    /// The native session to resume, or to fork as long as no process has reported the fork. None begins one.
    pub resume: Option<ResumeTarget>,
    /// The options that were changed.
    pub options: SessionOptions,
}

/// The options of a session that were changed while it lived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// The model.
    pub model: Option<String>,
    /// The effort.
    pub effort: Option<String>,
    /// The permission mode.
    pub permission: Option<PermissionMode>,
}

/// The state of a live session besides its process.
#[derive(Debug)]
struct LiveState {
    stage: SessionStage,
    idle: Option<Millis>,
    queues: PromptQueues,
    acks: PendingAcks,
    options: SessionOptions,
    modes: PermissionModes,
    control: ControlMode,
    view: SessionView,
    /// The end of the last process, with what all processes left behind.
    last_end: Option<RunEnd>,
    /// An error on our side that ends the session.
    trouble: Option<Failure>,
    /// The number of the last prompt.
    last_prompt: u64,
    /// Why there is no process, if there is none.
    no_process: String,
    /// How long the process was idle that is being ended for that.
    was_idle_for: Option<Millis>,
}

/// Whether there is a process.
#[derive(Debug)]
enum SessionStage {
    /// Before the first input.
    New,
    /// The next prompt starts a process.
    NoProcess,
    /// The host makes the plan of a process for this prompt.
    Planning(PlannedPrompt),
    /// The run goes on.
    Living,
    /// A stop was ordered. The process is being ended.
    Stopping,
    Over,
}

/// The prompt of a process that is being planned.
#[derive(Debug)]
struct PlannedPrompt {
    prompt: HostPrompt,
    /// The order that it came with. It is answered when the number of its turn is certain.
    order: Option<OrderId>,
}

impl PlannedPrompt {
    /// Answers its order: the prompt goes back to the queue.
    fn answer_queued(&self, ahead: u32, step: &mut RunStep) {
        if let Some(order) = self.order {
            let receipt = Receipt::Queued { prompt: self.prompt.id.clone(), ahead, held: false };
            step.actions.push(RunAction::Answer(order, Ok(receipt)));
        }
    }
}

impl Session {
    /// Creates a session of one prompt.
    pub fn of_one_prompt(plan: RunPlan) -> Self {
        Self { run: Run::new(plan), live: None }
    }

    /// Creates a live session. The plan is that of its first process, which starts at once if the plan has a prompt.
    pub fn live(plan: RunPlan, live: LivePlan) -> Self {
        let LivePlan { idle, offered, control, resume, last_turn } = live;
        let view = SessionView::new(resume, last_turn);
        let no_process = if last_turn.is_some() { reasons::NO_FURTHER_PROMPT } else { reasons::NO_PROMPT };
        let state = LiveState {
            stage: SessionStage::New,
            idle,
            queues: PromptQueues::new(offered),
            acks: PendingAcks::default(),
            options: SessionOptions::default(),
            modes: PermissionModes::default(),
            control,
            view,
            last_end: None,
            trouble: None,
            last_prompt: 0,
            no_process: no_process.to_owned(),
            was_idle_for: None,
        };
        Self { run: Run::new(plan), live: Some(Box::new(state)) }
    }

    /// Handles one input, and adds the resulting events and actions to the step.
    #[inline]
    pub fn handle(&mut self, input: RunInput<'_>, now: Now, step: &mut RunStep) {
        if self.live.is_some() {
            self.handle_live(input, now, step);
        } else {
            self.run.handle(input, now, step);
        }
    }

    /// Returns when [`RunInput::Timer`] is due, as time since the session began.
    pub fn deadline(&self) -> Option<Millis> {
        let Some(live) = &self.live else { return self.run.deadline() };
        let process = if live.has_process() { self.run.deadline() } else { None };
        process.into_iter().chain(live.acks.deadline()).chain(self.idle_deadline()).min()
    }

    /// Returns the usage of the session so far.
    pub fn spent(&self) -> SpendSum {
        self.run.spent()
    }

    /// Returns the model that answers, if the agent or the plan has named it.
    pub fn model(&self) -> Option<&str> {
        self.run.model()
    }

    /// Returns whether the session is over.
    pub fn is_over(&self) -> bool {
        match &self.live {
            None => self.run.is_over(),
            Some(live) => matches!(live.stage, SessionStage::Over),
        }
    }

    /// Returns the state, computed from the parts.
    pub fn state(&self) -> SessionState {
        let Some(live) = &self.live else { return self.run.announced() };
        match &live.stage {
            SessionStage::New => SessionState::Created,
            SessionStage::NoProcess if live.control == ControlMode::HumanLed => SessionState::PausedByHuman,
            SessionStage::NoProcess => SessionState::Idle,
            SessionStage::Planning(_) => SessionState::Preparing,
            SessionStage::Stopping => SessionState::Stopping,
            SessionStage::Living | SessionStage::Over => self.run.announced(),
        }
    }

    #[cfg(test)]
    pub(crate) fn process(&self) -> &Run {
        &self.run
    }

    fn handle_live(&mut self, input: RunInput<'_>, now: Now, step: &mut RunStep) {
        let events = step.events.len();
        match input {
            RunInput::Begin => self.begin(now, step),
            RunInput::Order { order, what, images } => self.order(order, what, images, now, step),
            RunInput::Planned(plan) => self.planned(plan, now, step),
            RunInput::Command(command) => self.stop(command, now, step),
            RunInput::Trouble(failure) => self.trouble(failure, now, step),
            RunInput::Timer => self.timer(now, step),
            RunInput::Remark(_) | RunInput::Others(_) | RunInput::Before(_) => {
                self.run.handle(input, now, step)
            }
            RunInput::Prepared(_)
            | RunInput::Spawned { .. }
            | RunInput::SpawnFailed(_)
            | RunInput::Stdout(_)
            | RunInput::Stderr(_)
            | RunInput::StdoutClosed
            | RunInput::StderrClosed
            | RunInput::Exited(_)
            | RunInput::Swept(_)
            | RunInput::Files(_)
            | RunInput::Replanned(_)
            | RunInput::Overdue(_)
            | RunInput::Synced(_)
            | RunInput::Host(..) => {
                if self.parts().1.has_process() {
                    self.run.handle(input, now, step);
                }
            }
        }
        self.settle(events, now, step);
    }

    /// The run and the live state. Only live sessions come here.
    fn parts(&mut self) -> (&mut Run, &mut LiveState) {
        (&mut self.run, self.live.as_mut().expect("only a live session gets here"))
    }

    fn begin(&mut self, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        if !matches!(live.stage, SessionStage::New) {
            return;
        }
        run.emit_session_started(now, step);
        if live.control == ControlMode::HumanLed {
            run.set_human_led(true, now, step);
        }
        if run.plan().prompt.is_some() {
            live.stage = SessionStage::Living;
            run.handle(RunInput::Begin, now, step);
        } else {
            live.stage = SessionStage::NoProcess;
            // The plan at hand is never started, and its notices are about the session.
            for notice in run.plan().notices.clone() {
                run.emit_for_session(Kind::Notice(notice), now, step);
            }
            self.rest(now, step);
        }
    }

    /// Carries out an order, and answers it at once, or when the agent has acknowledged it.
    fn order(
        &mut self,
        order: OrderId,
        what: SessionOrder,
        images: BTreeMap<String, Vec<u8>>,
        now: Now,
        step: &mut RunStep,
    ) {
        let (run, live) = self.parts();
        if matches!(live.stage, SessionStage::Over | SessionStage::New) {
            return step.actions.push(RunAction::Answer(order, Err(OrderRefused::Stopping)));
        }
        let result = match what {
            SessionOrder::Prompt { text, attachments, when_busy, from } => {
                let number = live.next_prompt_number(run.last_seq());
                let id = PromptId::from(format!("p{number}"));
                let prompt = HostPrompt { id, text, attachments, images };
                let answer = self.prompt_order(order, prompt, when_busy, from, now, step);
                if answer.is_ok() {
                    self.parts().1.last_prompt = number;
                }
                answer
            }
            SessionOrder::SendOffered { prompt } => self.send_offered(order, &prompt, images, now, step),
            SessionOrder::Dequeue { prompt } => self.dequeue(order, prompt, now, step),
            SessionOrder::SetOption { option, value } => self.set_option(order, option, value, now, step),
            SessionOrder::SetControl { mode } => {
                self.set_control(mode, now, step);
                Ok(Some(Receipt::Done))
            }
            SessionOrder::Compact => self.compact(order, now, step),
            SessionOrder::Start { child } if live.has_process() => {
                run.ask_to_start(order, &child, now, step).map(|()| None)
            }
            SessionOrder::Start { .. } => {
                Err(OrderRefused::Forbidden { reason: "the agent has no process that could ask".to_owned() })
            }
            SessionOrder::Stop => {
                self.stop(RunCommand::Cancel, now, step);
                Ok(Some(Receipt::Done))
            }
            SessionOrder::Kill => {
                self.stop(RunCommand::Kill, now, step);
                Ok(Some(Receipt::Done))
            }
            SessionOrder::Interrupt => self.interrupt(now, step).map(|()| Some(Receipt::Done)),
            SessionOrder::Decide { .. } | SessionOrder::Reply { .. } => {
                if live.has_process() {
                    run.order(what, now, step).map(Some)
                } else {
                    Err(OrderRefused::Unknown { what: "open approval or question".to_owned() })
                }
            }
        };
        // Without a result, the answer waits for the agent.
        if let Some(result) = result.transpose() {
            step.actions.push(RunAction::Answer(order, result));
        }
    }

    fn set_control(&mut self, mode: ControlMode, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        if live.control == mode {
            return;
        }
        live.control = mode;
        run.emit_for_session(Kind::ControlModeChanged(ControlModeChanged { mode }), now, step);
        run.set_human_led(mode == ControlMode::HumanLed, now, step);
        if matches!(live.stage, SessionStage::NoProcess) {
            self.rest(now, step);
        }
    }

    /// Ends the stint.
    fn stop(&mut self, command: RunCommand, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        match std::mem::replace(&mut live.stage, SessionStage::Stopping) {
            SessionStage::Living | SessionStage::Stopping => {
                live.queues.return_all(run, now, step);
                run.handle(RunInput::Command(command), now, step);
                // A process that has exited already announces no stop.
                if run.announced() != SessionState::Stopping {
                    run.change_state(
                        SessionState::Stopping,
                        Some(reasons::STOP_ORDERED.to_owned()),
                        now,
                        step,
                    );
                }
            }
            SessionStage::Planning(planned) => {
                planned.answer_queued(0, step);
                live.queues.put_first(planned.prompt);
                live.queues.return_all(run, now, step);
                self.finish(EndReason::Stopped, now, step);
            }
            SessionStage::New | SessionStage::NoProcess => {
                live.queues.return_all(run, now, step);
                self.finish(EndReason::Stopped, now, step);
            }
            SessionStage::Over => live.stage = SessionStage::Over,
        }
    }

    /// Ends the stint because of an error on our side.
    fn trouble(&mut self, failure: Failure, now: Now, step: &mut RunStep) {
        let (run, live) = self.parts();
        live.trouble.get_or_insert_with(|| failure.clone());
        if matches!(live.stage, SessionStage::Living | SessionStage::Stopping) {
            live.stage = SessionStage::Stopping;
            let why = failure.message.clone();
            run.handle(RunInput::Trouble(failure), now, step);
            if run.announced() != SessionState::Stopping {
                run.change_state(SessionState::Stopping, Some(why), now, step);
            }
        } else {
            self.stop(RunCommand::Kill, now, step);
        }
    }

    fn interrupt(&mut self, now: Now, step: &mut RunStep) -> Result<(), OrderRefused> {
        let (run, live) = self.parts();
        match &live.stage {
            SessionStage::Living => run.interrupt(now, step),
            SessionStage::Planning(_) => {
                // The turn has not begun, so the prompt goes back.
                if let Some(planned) = live.take_planned() {
                    planned.answer_queued(0, step);
                    live.queues.put_first(planned.prompt);
                }
                live.queues.return_all(run, now, step);
                reasons::NOT_PLANNED.clone_into(&mut live.no_process);
                self.rest(now, step);
                Ok(())
            }
            SessionStage::NoProcess | SessionStage::New => Err(OrderRefused::TurnOver),
            SessionStage::Stopping | SessionStage::Over => Err(OrderRefused::Stopping),
        }
    }

    fn timer(&mut self, now: Now, step: &mut RunStep) {
        let idle = self.idle_deadline().is_some_and(|at| now.up >= at);
        for (order, what) in self.parts().1.acks.expired(now.up) {
            match what {
                AckedOrder::Steer(steer) => {
                    // Some agents fetch steers only after a batch of tools. A steer that was not fetched is taken back, so that it is not sent twice.
                    let _ = self.run.take_back(&steer.prompt.id, now, step);
                    self.run.forget_steer(&steer.prompt.id, now, step);
                    self.keep_steer(steer, now, step);
                }
                AckedOrder::Option(change) => self.option_unconfirmed(&change, None, now, step),
                AckedOrder::TakeBack(_) | AckedOrder::Compact => {}
            }
            step.actions.push(RunAction::Answer(order, not_acknowledged(AckGap::TimedOut)));
        }
        let (_, live) = self.parts();
        if idle {
            self.close_idle(now, step);
        } else if live.has_process() && self.run.deadline().is_some_and(|at| now.up >= at) {
            self.run.handle(RunInput::Timer, now, step);
        }
    }
}

impl LiveState {
    fn has_process(&self) -> bool {
        matches!(self.stage, SessionStage::Living | SessionStage::Stopping)
    }

    /// Returns the number of the next prompt: that of the next event, if no prompt has it. A steer has no event before the agent
    /// acknowledges it, and a prompt of an earlier stint may have any number.
    fn next_prompt_number(&self, last_seq: u64) -> u64 {
        let mut number = last_seq.max(self.last_prompt) + 1;
        while self.queues.offered().iter().any(|it| it.id.as_str() == format!("p{number}")) {
            number += 1;
        }
        number
    }

    /// Takes the prompt of a process that is being planned. Without it, the plan is not used.
    fn take_planned(&mut self) -> Option<PlannedPrompt> {
        match std::mem::replace(&mut self.stage, SessionStage::NoProcess) {
            SessionStage::Planning(planned) => Some(planned),
            other @ (SessionStage::New
            | SessionStage::NoProcess
            | SessionStage::Living
            | SessionStage::Stopping
            | SessionStage::Over) => {
                self.stage = other;
                None
            }
        }
    }

    /// Returns the receipt of a prompt that is about to be queued as the last one.
    fn queued_receipt(&self, prompt: PromptId) -> Receipt {
        let held = self.control == ControlMode::HumanLed;
        Receipt::Queued { prompt, ahead: self.queues.len(), held }
    }
}
