//! The conversation: messages, text, thinking, plans and questions.

use super::{part, words};
use crate::{MessageId, QuestionId, ToolId};

part! {
    /// The conversation got a message on the user's side.
    pub struct UserMessage {
        /// The author.
        pub origin: UserOrigin,
        /// The text, or its first part.
        pub text: String,
        /// How many bytes the whole text has, when it is longer than what is carried here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
        /// The tool call of the sub-agent that it was addressed to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<ToolId>,
    }

    /// The agent said a piece of text. The pieces of one message join with nothing between them.
    pub struct TextDelta {
        /// The message that it belongs to.
        pub message: MessageId,
        /// The block inside the message.
        pub block: u32,
        /// The piece.
        pub text: String,
        /// The tool call of the sub-agent that said it; absent for the agent itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<ToolId>,
    }

    /// Text that was said before is no longer part of the answer.
    pub struct TextRetracted {
        /// The message.
        pub message: MessageId,
        /// The first block that is retracted; those after it go too.
        pub from_block: u32,
    }

    /// A message is complete. Every message that has text is finished once, before its turn ends.
    pub struct MessageFinished {
        /// The message.
        pub message: MessageId,
        /// Whether it is part of the answer.
        pub phase: Phase,
        /// The model that wrote it, where the agent tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
    }

    /// The agent thought a piece of text.
    pub struct ThinkingDelta {
        /// The message that it belongs to.
        pub message: MessageId,
        /// The block inside the message.
        pub block: u32,
        /// The piece.
        pub text: String,
        /// The tool call of the sub-agent that thought it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<ToolId>,
    }

    /// The agent's plan is now this. Each update is the whole plan.
    pub struct PlanUpdated {
        /// The steps in order.
        pub steps: Vec<PlanStep>,
    }

    /// One step of a plan.
    pub struct PlanStep {
        /// The task of this step.
        pub text: String,
        /// How far it is.
        pub status: StepStatus,
    }

    /// The agent asks the user something.
    pub struct QuestionAsked {
        /// The question's id.
        pub id: QuestionId,
        /// The question.
        pub text: String,
        /// Answers that the agent offers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub choices: Vec<String>,
        /// Whether several choices may be taken.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub several: bool,
    }

    /// A question was answered.
    pub struct QuestionAnswered {
        /// The question's id.
        pub id: QuestionId,
        /// The answers; none when the question was dismissed.
        pub answers: Vec<String>,
    }
}

words! {
    /// The author of a message on the user's side.
    pub enum UserOrigin {
        /// A person, or the program that speaks for one.
        Human,
        /// The agent itself, in the user's name.
        Synthetic,
        /// An earlier turn: the agent repeats a message that it received.
        Replayed,
    }

    /// Whether a message is part of the answer.
    pub enum Phase {
        /// It accompanies the work and is not the answer.
        Commentary,
        /// It is the answer, or nothing says that it is not.
        Final,
    }

    /// How far a step of a plan is.
    pub enum StepStatus {
        /// Not begun.
        Pending,
        /// Begun.
        InProgress,
        /// Done.
        Completed,
        /// Given up.
        Cancelled,
    }
}
