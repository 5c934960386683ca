//! The output of the program on its way through a run: decoded, numbered, and answered on standard input.

use bowline_protocol::Kind;
use bowline_providers::dialect::{ClientOutput, UnnumberedEvent};

use super::ladder::StopCause;
use super::state::RunState;
use super::{DRAIN, LifeReport, Now, PATIENCE, Run, RunAction, RunPhase, RunStep};

impl Run {
    pub(super) fn output(&mut self, bytes: &[u8], now: Now, step: &mut RunStep) {
        self.watch.stdout_seen(now.up);
        // Output restarts the wait, up to `at_most`: a descendant that prints forever must not delay the end.
        if let RunPhase::Draining { until, at_most } = &mut self.phase {
            *until = now.up.plus(DRAIN).min(*at_most);
        }
        let mut rest = bytes;
        while let Some((part, after)) = cut_after_lines(rest) {
            self.decoder.stdout(part, &self.moment, &mut self.drafts);
            // Only number here. `emit_decoded` checks the budget and the tools once, behind the last part.
            self.number_drafts(now, step);
            rest = after;
        }
        self.decoder.stdout(rest, &self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.state.stdout_bytes += bytes.len() as u64;
        // The dialect may have answered a request in these bytes, or wait for a decision.
        self.take_client_output(now, step);
        self.hang_up_after_the_answer(now, step);
    }

    /// Passes the dialect's bytes on to the program's standard input, decides its requests, and sends the first prompt when the
    /// client is ready.
    pub(super) fn take_client_output(&mut self, now: Now, step: &mut RunStep) {
        let ClientOutput {
            bytes,
            last,
            prompt,
            ready,
            requests,
            gates,
            host,
            questions,
            acknowledged,
            read,
            lost,
        } = self.decoder.take_client_output();
        // From here on the attempt is no longer `Footprint::PromptNotSent`.
        self.state.prompted |= prompt;
        if !bytes.is_empty() {
            step.actions.push(RunAction::Write(bytes));
        }
        let requests = requests.into_iter().map(|mut request| {
            request.approval = self.ids.approval(&request.approval);
            request
        });
        self.decide(requests.collect(), now, step);
        self.at_gates(gates, now, step);
        self.call_host(host, step);
        let questions = questions.iter().map(|question| self.ids.question(question)).collect();
        self.asked(questions, now, step);
        acknowledged.into_iter().for_each(|it| self.life.report(LifeReport::Acknowledged(it)));
        let is_settled = !read.is_empty() || !lost.is_empty();
        read.into_iter().for_each(|prompt| self.life.report(LifeReport::Read(prompt)));
        lost.into_iter().for_each(|prompt| self.life.report(LifeReport::Lost(prompt)));
        if is_settled {
            // The same bytes may have ended the turn. An unread steer then was all that kept the process from being idle.
            self.update_state(now, step);
        }
        if last && !self.hung_up {
            self.hung_up = true;
            step.actions.push(RunAction::CloseStdin);
        }
        if ready {
            self.client_ready();
            self.send_first_prompt(now, step);
        }
    }

    /// Sends the first prompt: the native session is open.
    fn send_first_prompt(&mut self, now: Now, step: &mut RunStep) {
        let Some(conversation) = &self.plan.attempts[self.attempt].conversation else { return };
        let prompt = conversation.first_prompt(self.plan.prompt_id.clone());
        // The turn is open already: it begins before the process does.
        self.decoder.send_prompt(&prompt, &self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.take_client_output(now, step);
    }

    /// Ends the conversation when the turn is over, if this process answers one prompt.
    fn hang_up_after_the_answer(&mut self, now: Now, step: &mut RunStep) {
        if self.is_kept()
            || self.hung_up
            || !self.uses_protocol()
            || !self.state.prompted
            || self.decoder.open_turn().is_some()
        {
            return;
        }
        self.decoder.close(&self.moment, &mut self.drafts);
        self.take_client_output(now, step);
    }

    pub(super) fn stderr(&mut self, bytes: &[u8], now: Now, step: &mut RunStep) {
        // Standard error counts as well: some programs report their retries only there.
        self.watch.sign_of_life(now.up);
        self.decoder.stderr(bytes, &self.moment, &mut self.drafts);
        self.emit_decoded(now, step);
        self.state.add_stderr(bytes);
    }

    /// Handles a closed pipe.
    pub(super) fn closed(&mut self, now: Now, step: &mut RunStep) {
        if !self.process.is_closed() {
            if self.process.stdout_closed && self.phase == RunPhase::Running {
                // The program cannot print anything more, so it gets no more time than after its answer.
                self.watch.finished(now.up);
            }
            return;
        }
        match self.phase {
            RunPhase::Draining { .. } => self.sweep(now, step),
            RunPhase::Closing { .. } => self.look_at_files(now, step),
            // A program can close both streams and live on. It cannot answer any more.
            RunPhase::Running => self.watch.finished(now.up),
            RunPhase::New
            | RunPhase::Waiting { .. }
            | RunPhase::Preparing { .. }
            | RunPhase::Spawning
            | RunPhase::Sweeping { .. }
            | RunPhase::Looking { .. }
            | RunPhase::Replanning { .. }
            | RunPhase::Over => {}
        }
    }

    /// Numbers the decoder's events, and acts on them as a whole.
    pub(super) fn emit_decoded(&mut self, now: Now, step: &mut RunStep) {
        self.number_drafts(now, step);
        // The agent may have withdrawn a request that waited for a person, or ended a turn.
        self.update_state(now, step);
        // A tool or a background task may be silent for long.
        self.watch.in_tool(self.decoder.running_tools() > 0 || self.decoder.has_left_tasks());
        self.check_budget(now, step);
    }

    /// Numbers the decoder's events, and takes note of those that matter for the run.
    #[expect(clippy::wildcard_enum_match_arm, reason = "`RunState` handles the other kinds")]
    fn number_drafts(&mut self, now: Now, step: &mut RunStep) {
        // Taken out of `self`, because `emit` and `stop` below borrow all of it.
        let mut drafts = std::mem::take(&mut self.drafts);
        // Before the loop: `turn_ended` adds up the usage that this sets.
        self.keep_counted_usage(&mut drafts);
        for mut draft in drafts.drain(..) {
            if let Kind::QuestionAsked(asked) = &draft.kind {
                self.supersede_question(asked, now, step);
            }
            self.ids.rename(&mut draft.kind);
            match &mut draft.kind {
                Kind::UsageReported(report) => self.guard.reported(report),
                Kind::TurnEnded(ended) => {
                    self.approvals.turn_ended();
                    self.guard.turn_ended(ended);
                    self.fail_for_budget(ended, now, step);
                }
                Kind::ApprovalDecided(decided) if self.approvals.is_held(&decided.id) => continue,
                // The request was withdrawn, or its tool has run, before it was judged.
                Kind::ApprovalDecided(decided) => {
                    let approval = decided.id.clone();
                    self.release(&approval, None, now, step);
                }
                _ => {}
            }
            if let Some(draft) = self.hold_asked(draft) {
                self.number_draft(draft, now, step);
            }
        }
        // Keep the buffer for the next piece.
        self.drafts = drafts;
    }

    /// Numbers one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these kinds change what the run does")]
    pub(super) fn number_draft(&mut self, mut draft: UnnumberedEvent, now: Now, step: &mut RunStep) {
        if let Kind::ApprovalAsked(asked) = &mut draft.kind {
            asked.deadline = self.approval_deadline(now).or(asked.deadline.take());
        }
        // The reason is in the ladder while the stop goes on. `judge` then moves it to `self.why`.
        let interrupted = self.life.is_interrupting().then_some(&StopCause::Cancelled);
        let why = self.ladder.as_ref().map(|ladder| &ladder.why).or(self.why.as_ref()).or(interrupted);
        // A live session computes its state. That of the agent does not know what waits for a person.
        let is_state = matches!(draft.kind, Kind::SessionStateChanged(_));
        if !self.state.accept(&mut draft, why) || (is_state && self.plan.lifetime.is_live()) {
            return;
        }
        step.durable |= RunState::is_durable(&draft.kind);
        // The decoder may be several turns ahead of this event, so the event itself decides.
        match &draft.kind {
            Kind::TurnEnded(_) if self.is_kept() => {
                let looks = self.plan.files && self.phase == RunPhase::Running && self.ladder.is_none();
                if looks {
                    step.actions.push(RunAction::LookAtFiles);
                }
                self.life.turn_ended(looks.then(|| now.up.plus(PATIENCE)));
            }
            Kind::TurnEnded(ended) if ended.running_tasks.is_empty() => self.watch.finished(now.up),
            Kind::TurnStarted(_) | Kind::TurnEnded(_) => self.watch.answer_reopened(),
            Kind::QuestionAsked(asked) => self.life.questions.asked(asked),
            Kind::QuestionAnswered(answered) => self.life.questions.answered(&answered.id),
            Kind::ApprovalAsked(asked) => self.approvals.asked(&asked.id, asked.enforced_by),
            Kind::ApprovalDecided(decided) => {
                self.approvals.decided(&decided.id);
                self.approvals.remember(&decided.id, decided.by);
            }
            _ => {}
        }
        step.events.push(self.state.number_draft(draft, now.wall));
        if let Some(answer) = self.state.resume_answer() {
            let rejected = self.state.wrong_session();
            self.emit(Kind::ResumeAnswered(answer), now, step);
            if let Some(failure) = rejected {
                self.stop(StopCause::Trouble(Box::new(failure)), now, step);
            }
        }
    }
}

/// The bytes after which decoded events are numbered. The events of more bytes would leave the CPU's first cache before
/// they are numbered.
const PART: usize = 4 * 1024;

/// Cuts a part off the output, behind the end of a line, so that no line has to be joined again. `None` if the output is
/// short, or one line is longer than a part.
pub(super) fn cut_after_lines(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.get(..PART)?.iter().rposition(|byte| *byte == b'\n')?;
    bytes.split_at_checked(end + 1)
}
