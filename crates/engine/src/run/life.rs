//! A process that takes more than one prompt: further prompts, steers, interrupts, options, and its idle time.
//!
//! ```text
//!               ready                    prompt
//!  spawning ───────────> turn is open <───────────── idle ──(the session closes it)──> exits
//!                          │   ^  │                   ^
//!                    steer └───┘  │ turn ended        │
//!                                 └───────────────────┘
//!  interrupt: the agent's own request; without effect for 10 s, the stop ladder ends the process
//! ```
//!
//! The session decides which prompt is sent and when. It is not here that prompts wait.

use bowline_protocol::kinds::{FilesTouched, Level, Notice, SessionState, TouchSource, TouchedFile};
use bowline_protocol::{Category, Code, Failure, Kind, Millis, OrderRefused, PromptId};
use bowline_providers::dialect::{Acknowledgement, HostPrompt, OptionPermission, Sent};

use super::ladder::{StopCause, StopLadder};
use super::questions::OpenQuestions;
use super::request_ids::RequestIds;
use super::values::{Lifetime, Numbering};
use super::watch::Watchdogs;
use super::{AgentProcess, Now, Run, RunEnd, RunPhase, RunPlan, RunStep};

/// How long an interrupt may take to end the turn. After that the stop ladder ends the process.
const INTERRUPT_PATIENCE: Millis = Millis(10_000);

/// The facts about a process of a live session.
#[derive(Debug, Default)]
pub(super) struct LifeState {
    /// Whether the client takes prompts: the native session is open.
    ready: bool,
    /// Whether the process waits for a prompt, and since when.
    idle_since: Option<Millis>,
    /// When an interrupt of the running turn has to have had its effect.
    interrupted_until: Option<Millis>,
    /// Until when the files that the last turn changed are waited for. The next turn begins after that.
    looking_until: Option<Millis>,
    pub(super) questions: OpenQuestions,
    /// Whether a person leads, so that no clock runs.
    pub(super) human_led: bool,
    /// The state that was announced last.
    announced: Option<SessionState>,
    /// Its reason.
    reason: Option<String>,
    /// Steers that the agent has and has not read.
    unread: Vec<PromptId>,
    reports: Vec<LifeReport>,
}

/// A report of a process to its session that is no event.
#[derive(Debug)]
pub(crate) enum LifeReport {
    /// The agent accepted or rejected what was sent.
    Acknowledged(Acknowledgement),
    /// The agent reads a steer.
    Read(PromptId),
    /// The agent dropped a steer that it had acknowledged.
    Lost(PromptId),
    /// The process and its tree are gone, and its last turn is judged.
    Over(Box<RunEnd>),
}

impl LifeState {
    /// Returns since when the process waits for a prompt.
    pub(super) fn idle_since(&self) -> Option<Millis> {
        self.idle_since
    }

    /// Returns when the effect of an interrupt is due.
    pub(super) fn interrupt_deadline(&self) -> Option<Millis> {
        self.interrupted_until
    }

    /// Returns whether a turn was interrupted and has not ended.
    pub(super) fn is_interrupting(&self) -> bool {
        self.interrupted_until.is_some()
    }

    /// Handles the end of a turn. With a time, the caller looks at the files that it changed.
    pub(super) fn turn_ended(&mut self, looking_until: Option<Millis>) {
        self.interrupted_until = None;
        self.looking_until = looking_until;
    }

    /// Returns until when the changed files of the last turn are waited for.
    pub(super) fn looking_until(&self) -> Option<Millis> {
        self.looking_until
    }

    /// Records the state that an event announces.
    pub(super) fn announce(&mut self, state: SessionState, reason: Option<String>) {
        (self.announced, self.reason) = (Some(state), reason);
    }

    /// Returns the reason that the last event of the state gave.
    pub(super) fn announced_reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns whether the client takes prompts.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(super) fn report(&mut self, report: LifeReport) {
        if let LifeReport::Read(prompt) | LifeReport::Lost(prompt) = &report {
            self.unread.retain(|unread| unread != prompt);
        }
        self.reports.push(report);
    }
}

impl Run {
    /// Returns whether the process takes many prompts.
    pub(super) fn is_kept(&self) -> bool {
        self.plan.lifetime == Lifetime::Kept
    }

    /// Handles that the client takes prompts.
    pub(super) fn client_ready(&mut self) {
        self.life.ready = true;
    }

    /// Prepares the machine for the next process of its session. Numbers, budget and control mode go on.
    pub(crate) fn next_life(&mut self, plan: RunPlan) {
        self.decoder = Self::decoder(&plan, 0);
        self.state.next_life(plan.resume.clone());
        self.watch = Watchdogs::new(plan.attempts[0].limits);
        self.plan = plan;
        self.phase = RunPhase::New;
        self.attempt = 0;
        self.drafts.clear();
        (self.ladder, self.why) = (None, None);
        (self.process, self.hung_up) = (AgentProcess::default(), false);
        (self.no_more, self.by_help) = (false, false);
        self.rule = crate::fallback::StreamRule::Result;
        self.counted = None;
        self.guard.next_turn();
        self.ids = RequestIds::after(self.state.last_seq());
        self.approvals.next_life();
        let LifeState { human_led, announced, reason, .. } = std::mem::take(&mut self.life);
        self.life = LifeState { human_led, announced, reason, ..LifeState::default() };
    }

    /// Ends the turn of a prompt whose process could not be planned, as failed.
    pub(crate) fn fail_unplanned(
        &mut self,
        prompt: &HostPrompt,
        failure: Failure,
        now: Now,
        step: &mut RunStep,
    ) {
        let plan = RunPlan {
            prompt: Some(prompt.text.clone()),
            prompt_id: prompt.id.clone(),
            notices: Vec::new(),
            opening: Vec::new(),
            ..self.plan.clone()
        };
        self.next_life(plan);
        self.phase = RunPhase::Spawning;
        self.decoder.prompt(&prompt.text, &mut self.drafts);
        self.emit_decoded(now, step);
        self.ladder = Some(StopLadder::over(StopCause::Trouble(Box::new(failure))));
        self.judge(now, step);
    }

    /// Returns whether the process takes a prompt now.
    pub(crate) fn can_prompt(&self) -> bool {
        self.is_kept()
            && self.phase == RunPhase::Running
            && self.life.ready
            && self.ladder.is_none()
            && !self.hung_up
            && !self.process.stdout_closed
            && !self.has_lasting_turn()
            && self.life.looking_until.is_none()
            && !self.decoder.has_left_tasks()
            && self.life.unread.is_empty()
    }

    /// Returns whether a turn is open.
    pub(crate) fn has_open_turn(&self) -> bool {
        self.phase != RunPhase::Over && self.has_lasting_turn()
    }

    /// Returns whether a turn is open that the agent will end. Some agents print text outside of any prompt, and never tell when
    /// that is over.
    fn has_lasting_turn(&self) -> bool {
        self.decoder.open_turn().is_some() && !self.decoder.is_open_ended()
    }

    /// Returns whether the process takes options and prompts while it lives.
    pub(crate) fn is_kept_alive(&self) -> bool {
        self.is_kept() && self.phase == RunPhase::Running
    }

    /// Returns the plan of the process.
    pub(crate) fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Returns the state that was announced last.
    pub(crate) fn announced(&self) -> SessionState {
        self.life.announced.unwrap_or(SessionState::Created)
    }

    /// Returns the number of the last event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.state.last_seq()
    }

    /// Returns the last turn that began; 0 before the first.
    pub(crate) fn last_turn(&self) -> u32 {
        self.state.last_turn()
    }

    /// Returns where a further run of the session begins.
    pub(crate) fn numbering(&self) -> Numbering {
        self.state.numbering()
    }

    /// Returns the number of the next turn.
    pub(crate) fn next_turn(&self) -> u32 {
        self.state.next_turn()
    }

    /// Returns since when the process waits for a prompt.
    pub(crate) fn idle_since(&self) -> Option<Millis> {
        self.life.idle_since
    }

    /// Begins a turn with a further prompt. Call it only if [`Self::can_prompt`] allows it.
    pub(crate) fn next_prompt(&mut self, prompt: &HostPrompt, now: Now, step: &mut RunStep) {
        // The time limit is that of a turn.
        self.watch.next_turn(now.up);
        self.guard.next_turn();
        self.plan.prompt = Some(prompt.text.clone());
        self.plan.prompt_id = prompt.id.clone();
        self.decoder.prompt(&prompt.text, &mut self.drafts);
        let sent = self.decoder.send_prompt(prompt, &self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
        if let Sent::Cannot(why) = sent {
            let message = format!("the prompt could not be sent: {why}");
            let failure = Failure::new(Category::Unknown, Code::Unsupported, message);
            self.stop(StopCause::Trouble(Box::new(failure)), now, step);
        }
    }

    /// Sends a prompt into the running turn.
    pub(crate) fn steer(&mut self, prompt: &HostPrompt, now: Now, step: &mut RunStep) -> Sent {
        if self.phase != RunPhase::Running || self.ladder.is_some() {
            return Sent::Cannot("the agent is starting or being stopped");
        }
        if !self.is_kept() {
            return Sent::Cannot("this agent takes one prompt for each process");
        }
        if self.life.is_interrupting() {
            return Sent::Cannot("the turn is being interrupted");
        }
        let sent = self.decoder.steer(prompt, &self.moment, &mut self.drafts);
        if sent.is_sent() {
            self.life.unread.push(prompt.id.clone());
        }
        self.spoke(now, step);
        sent
    }

    /// Forgets a steer that the agent rejected or gave back.
    pub(crate) fn forget_steer(&mut self, prompt: &PromptId, now: Now, step: &mut RunStep) {
        self.life.unread.retain(|unread| unread != prompt);
        self.update_state(now, step);
    }

    /// Takes back a prompt that the agent has not read.
    pub(crate) fn take_back(&mut self, prompt: &PromptId, now: Now, step: &mut RunStep) -> Sent {
        if self.phase != RunPhase::Running {
            return Sent::Cannot("the agent's process is gone");
        }
        let sent = self.decoder.take_back(prompt, &self.moment, &mut self.drafts);
        self.spoke(now, step);
        sent
    }

    /// Changes an option of the running agent.
    pub(crate) fn set_option(&mut self, option: &str, value: &str, now: Now, step: &mut RunStep) -> Sent {
        if self.phase != RunPhase::Running || !self.life.ready || self.ladder.is_some() {
            return Sent::Cannot("the agent is starting or being stopped");
        }
        let sent = self.decoder.set_option(option, value, &self.moment, &mut self.drafts);
        self.spoke(now, step);
        sent
    }

    /// Returns what a change of one of the agent's own options does to its permissions.
    pub(crate) fn option_permission(&self, option: &str, value: &str) -> OptionPermission {
        // A program without a protocol asks for nothing, and has no options.
        let Some(current) = self.permission() else { return OptionPermission::Unchanged };
        self.decoder.option_permission(option, value, current)
    }

    /// Asks the agent to compact its context.
    pub(crate) fn compact(&mut self, now: Now, step: &mut RunStep) -> Sent {
        if !self.can_prompt() {
            return Sent::Cannot("a turn is running, or the agent's process is not ready");
        }
        self.watch.next_turn(now.up);
        let sent = self.decoder.compact(&self.moment, &mut self.drafts);
        self.spoke(now, step);
        sent
    }

    /// Interrupts the running turn: by the agent's own request, or, without one, by ending the process.
    pub(crate) fn interrupt(&mut self, now: Now, step: &mut RunStep) -> Result<(), OrderRefused> {
        if self.ladder.is_some() {
            return Err(OrderRefused::Stopping);
        }
        if self.phase == RunPhase::Running && !self.has_lasting_turn() {
            return Err(OrderRefused::TurnOver);
        }
        // One request for a turn: one agent leaves a second one unanswered, another one cancels the next prompt for it.
        if self.life.is_interrupting() {
            return Ok(());
        }
        let asks = self.is_kept() && self.phase == RunPhase::Running;
        if asks && self.decoder.interrupt(&self.moment, &mut self.drafts).is_sent() {
            self.life.interrupted_until = Some(now.up.plus(INTERRUPT_PATIENCE));
            self.spoke(now, step);
            // Some agents end the turn only when their requests are answered.
            self.deny_for_stop(now, step);
            self.dismiss_questions(now, step);
        } else {
            self.stop(StopCause::Cancelled, now, step);
        }
        Ok(())
    }

    /// Handles the files that the last turn of a kept process changed.
    pub(super) fn turn_files(&mut self, files: Vec<TouchedFile>, now: Now, step: &mut RunStep) {
        if self.life.looking_until.take().is_none() {
            return;
        }
        if !files.is_empty() {
            let touched = FilesTouched { seen_by: TouchSource::Git, files, room: None };
            self.emit(Kind::FilesTouched(touched), now, step);
        }
        self.update_state(now, step);
    }

    /// Gives up the wait for the files of the last turn.
    pub(super) fn files_unknown(&mut self, now: Now, step: &mut RunStep) {
        let text = "git did not report the changed files in time".to_owned();
        self.emit(Kind::Notice(Notice { level: Level::Warn, text, code: None }), now, step);
        self.turn_files(Vec::new(), now, step);
    }

    /// Ends a process that waits for a prompt, politely.
    pub(crate) fn close_idle(&mut self, now: Now, step: &mut RunStep) {
        self.decoder.close(&self.moment, &mut self.drafts);
        self.life.idle_since = None;
        // A program that does not exit within the usual time is ended.
        self.watch.resume(now.up);
        self.watch.finished(now.up);
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    /// Sets whether a person leads. No clock runs then.
    pub(crate) fn set_human_led(&mut self, human_led: bool, now: Now, step: &mut RunStep) {
        self.life.human_led = human_led;
        self.update_state(now, step);
    }

    /// Takes the reports for the session.
    pub(crate) fn take_reports(&mut self) -> Vec<LifeReport> {
        std::mem::take(&mut self.life.reports)
    }

    /// Emits an event of the session.
    pub(crate) fn emit_for_session(&mut self, kind: Kind, now: Now, step: &mut RunStep) {
        self.emit(kind, now, step);
    }

    /// Passes on what the dialect wrote.
    pub(super) fn spoke(&mut self, now: Now, step: &mut RunStep) {
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    /// Announces the state if it has changed. Stops the clocks while a person is waited for or leads, and while the process is idle.
    pub(crate) fn update_state(&mut self, now: Now, step: &mut RunStep) {
        self.update_clocks(now);
        if self.phase != RunPhase::Running {
            return;
        }
        let can_prompt = self.can_prompt();
        match (can_prompt, self.life.idle_since) {
            (true, None) => {
                self.life.idle_since = Some(now.up);
                self.watch.pause();
                self.guard.rests(now.up);
            }
            (false, Some(_)) if self.has_lasting_turn() || self.hung_up => {
                self.life.idle_since = None;
                self.watch.resume(now.up);
                if self.has_lasting_turn() {
                    self.guard.begins(now.up);
                }
            }
            (true, Some(_)) | (false, None | Some(_)) => {}
        }
        // A stop has its own state. A process that lingers after its answer is no stop of the session.
        if self.ladder.is_some() {
            return;
        }
        let state = if self.approvals.is_waiting() {
            SessionState::WaitingForApproval
        } else if self.life.questions.is_waiting() {
            SessionState::WaitingForInput
        } else if self.life.human_led {
            SessionState::PausedByHuman
        } else if can_prompt {
            SessionState::Idle
        } else {
            SessionState::Running
        };
        if self.life.announced != Some(state) {
            let reason = self.reason_of(state);
            self.change_state(state, reason, now, step);
        }
    }
}
