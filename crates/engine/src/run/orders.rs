//! Orders about the process of a run: decisions, answers, interrupts and stops. Orders about prompts are the session's.

use bowline_protocol::{ApprovalVerdict, OrderRefused, QuestionId, Receipt, SessionOrder};
use bowline_providers::dialect::{ApprovalAnswer, QuestionReply};

use super::refusals::only;
use super::{Now, Run, RunCommand, RunStep};

impl Run {
    /// Carries out an order.
    pub(crate) fn order(
        &mut self,
        order: SessionOrder,
        now: Now,
        step: &mut RunStep,
    ) -> Result<Receipt, OrderRefused> {
        match order {
            SessionOrder::Decide { approval, verdict } => {
                self.decided_by_person(approval, answer_of(verdict), now, step)
            }
            SessionOrder::Reply { question, answers } => self.replied(question, answers, now, step),
            SessionOrder::Interrupt => self.interrupt(now, step).map(|()| Receipt::Done),
            SessionOrder::Stop => {
                self.command(RunCommand::Cancel, now, step);
                Ok(Receipt::Done)
            }
            SessionOrder::Kill => {
                self.command(RunCommand::Kill, now, step);
                Ok(Receipt::Done)
            }
            SessionOrder::Prompt { .. }
            | SessionOrder::SendOffered { .. }
            | SessionOrder::Dequeue { .. }
            | SessionOrder::SetOption { .. }
            | SessionOrder::SetControl { .. }
            | SessionOrder::Start { .. }
            | SessionOrder::Compact => Err(OrderRefused::Unsupported {
                reason: "a run of one prompt takes no further prompts and options".to_owned(),
            }),
        }
    }

    /// Sends a person's reply. Without an id it is about the only open question.
    fn replied(
        &mut self,
        question: Option<QuestionId>,
        answers: Vec<String>,
        now: Now,
        step: &mut RunStep,
    ) -> Result<Receipt, OrderRefused> {
        let question = match question {
            Some(question) => question,
            None => only(self.waiting_questions().iter(), "open question")?.clone(),
        };
        let reply =
            if answers.is_empty() { QuestionReply::Dismissed } else { QuestionReply::Answers(answers) };
        self.reply(&question, &reply, now, step).map(|()| Receipt::Done)
    }
}

/// Returns a verdict in the form that dialects send.
fn answer_of(verdict: ApprovalVerdict) -> ApprovalAnswer {
    match verdict {
        ApprovalVerdict::Allow { input: None } => ApprovalAnswer::AllowOnce,
        ApprovalVerdict::Allow { input: Some(input) } => ApprovalAnswer::AllowChanged(input),
        ApprovalVerdict::AllowForSession => ApprovalAnswer::AllowForSession,
        ApprovalVerdict::Deny { message } => ApprovalAnswer::Deny { message },
    }
}
