//! Questions of the agent: open until a person replies, the agent withdraws them, or their process ends. Each ends exactly once.

use bowline_protocol::kinds::{QuestionAnswered, QuestionAsked};
use bowline_protocol::{Excerpt, Kind, OrderRefused, QuestionId};
use bowline_providers::dialect::{QuestionReply, Sent};

use super::values::Approver;
use super::{Now, Run, RunPhase, RunStep};

/// How many questions wait for a person. An agent that only asks must not fill the memory.
const WAITING_AT_MOST: usize = 64;

/// How many questions without an answer are remembered.
const UNANSWERED_AT_MOST: usize = 1024;

/// How much of a question is shown as the reason of the state, in bytes.
const LINE_AT_MOST: usize = 200;

/// The questions of one process.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions {
    /// Asked, and not answered.
    unanswered: Vec<QuestionId>,
    /// The first line of the last questions, for the reason of the state.
    texts: Vec<(QuestionId, String)>,
    /// Those of them that wait for a person.
    waiting: Vec<QuestionId>,
}

impl OpenQuestions {
    /// Returns whether a question waits for a person.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether a question is over: the output that asked it has withdrawn it, too.
    fn is_over(&self, question: &QuestionId) -> bool {
        self.unanswered.len() < UNANSWERED_AT_MOST && !self.unanswered.contains(question)
    }

    /// Handles the event of a question.
    pub(super) fn asked(&mut self, asked: &QuestionAsked) {
        if self.unanswered.len() < UNANSWERED_AT_MOST {
            self.unanswered.push(asked.id.clone());
        }
        if self.texts.len() < WAITING_AT_MOST {
            let line = asked.text.trim().lines().next().unwrap_or_default();
            self.texts.push((asked.id.clone(), Excerpt::with_limit(line, LINE_AT_MOST).text));
        }
    }

    /// Returns what is asked.
    pub(super) fn reason(&self) -> Option<String> {
        let first = self.waiting.first()?;
        let text = self.texts.iter().find(|(id, _)| id == first).map_or("the agent asks", |(_, text)| text);
        let more = self.waiting.len() - 1;
        let more = if more == 0 { String::new() } else { format!("; {more} more wait") };
        Some(format!("question {first}: {text}{more}"))
    }

    /// Handles that a question is answered, or withdrawn by the agent.
    pub(super) fn answered(&mut self, question: &QuestionId) {
        self.unanswered.retain(|open| open != question);
        self.waiting.retain(|open| open != question);
        self.texts.retain(|(open, _)| open != question);
    }
}

impl Run {
    /// Ends a question under whose id the agent asks another one. The agent takes only one reply, and that is about the new one.
    pub(super) fn supersede_question(&mut self, asked: &QuestionAsked, now: Now, step: &mut RunStep) {
        let before = self.ids.question(&asked.id);
        if self.life.questions.unanswered.contains(&before) {
            self.end_question(before, now, step);
        }
    }

    /// Sends the reply to a question of the agent.
    pub(super) fn reply(
        &mut self,
        question: &QuestionId,
        reply: &QuestionReply,
        now: Now,
        step: &mut RunStep,
    ) -> Result<(), OrderRefused> {
        let unknown = || OrderRefused::Unknown { what: format!("open question `{question}`") };
        if self.phase != RunPhase::Running || !self.life.questions.waiting.contains(question) {
            return Err(unknown());
        }
        // Before the dialect reports the answer, which removes the question.
        let native = self.ids.native_question(question).ok_or_else(unknown)?;
        let sent = self.decoder.reply(&native, reply, &self.moment, &mut self.drafts);
        if let Sent::Cannot(reason) = sent {
            return Err(OrderRefused::Unsupported { reason: reason.to_owned() });
        }
        // An agent may take one response for several questions, and report the answers with the last one.
        self.life.questions.waiting.retain(|open| open != question);
        self.spoke(now, step);
        Ok(())
    }

    /// Returns the questions that wait for a person.
    pub(super) fn waiting_questions(&self) -> &[QuestionId] {
        &self.life.questions.waiting
    }

    /// Handles questions that the client leaves to the caller: they wait for a person, or are dismissed.
    pub(super) fn asked(&mut self, questions: Vec<QuestionId>, now: Now, step: &mut RunStep) {
        for question in questions {
            if self.life.questions.is_over(&question) {
                continue;
            }
            let waits = matches!(self.plan.approver, Approver::Person { .. })
                && self.ladder.is_none()
                && self.life.questions.waiting.len() < WAITING_AT_MOST;
            if waits {
                self.life.questions.waiting.push(question);
            } else {
                // An agent must not wait for an answer that cannot come.
                self.dismiss(&question);
                self.spoke(now, step);
            }
        }
        self.update_state(now, step);
    }

    /// Dismisses the questions that wait for a person, because the turn or the process is being stopped.
    pub(super) fn dismiss_questions(&mut self, now: Now, step: &mut RunStep) {
        for question in std::mem::take(&mut self.life.questions.waiting) {
            self.dismiss(&question);
        }
        self.spoke(now, step);
    }

    /// Dismisses a question, unless the agent has used its id for another one since.
    fn dismiss(&mut self, question: &QuestionId) {
        if let Some(native) = self.ids.native_question(question) {
            self.decoder.reply(&native, &QuestionReply::Dismissed, &self.moment, &mut self.drafts);
        }
    }

    /// Ends the questions that the process left open, as unanswered.
    pub(super) fn withdraw_questions(&mut self, now: Now, step: &mut RunStep) {
        for id in self.life.questions.unanswered.clone() {
            self.end_question(id, now, step);
        }
        self.update_state(now, step);
    }

    fn end_question(&mut self, id: QuestionId, now: Now, step: &mut RunStep) {
        self.life.questions.answered(&id);
        self.emit(Kind::QuestionAnswered(QuestionAnswered { id, answers: Vec::new() }), now, step);
    }
}
