//! The contract of a dialect: the part that knows the output format of one program.
//!
//! A dialect receives one line at a time and returns events. It cannot fail: a line that it does not understand
//! is an event too. It reports the ends of turns and decides nothing else about them. [`crate::decode`] tracks the turns, so
//! that "every turn ends once" and "every message is finished" hold for every dialect alike.

use std::fmt;

use bowline_protocol::{ApprovalId, Kind, PermissionMode, PromptId, QuestionId, RawSpan, Source};
use serde::{Deserialize, Serialize};

use super::End;
pub use super::decision::{
    ActionDoer, ApprovalAnswer, DecisionRequest, GateAnswer, QuestionReply, RequestedAct, ToolGate,
};
pub use super::host_request::{
    HostAnswer, HostCall, HostProblem, HostProblemKind, HostRequest, HostToken, TerminalCommand, TerminalName,
};
pub use super::order::{AckToken, Acknowledgement, HostPrompt, OptionPermission, Sent};
pub use super::output::Output;

/// Reads, and in two-way formats writes, the format of one program.
///
/// Every method but `handle` sends something to the program. A dialect without the words for it keeps the default.
pub trait Dialect: fmt::Debug + Send {
    /// Handles the next piece of output.
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>);

    /// Sends the first message: the program runs. The client opens or resumes the native session, and reports with
    /// `Output::ready` that it takes prompts.
    fn open(&mut self, _out: &mut Output<'_>) {}

    /// Sends a prompt that begins a turn. The caller calls it only between turns, when the client is ready.
    fn prompt(&mut self, _prompt: &HostPrompt, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format takes one prompt for each process")
    }

    /// Sends a prompt into the running turn. The acknowledgement means that the agent has it; `Output::prompt_read` reports
    /// that it reads it.
    fn steer(&mut self, _prompt: &HostPrompt, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this agent cannot be steered")
    }

    /// Takes back a prompt that was sent with [`Dialect::steer`] and that the agent has not read.
    fn take_back(&mut self, _prompt: &PromptId, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this agent does not give a prompt back")
    }

    /// Sends the program's own request to stop the turn. The turn ends by a verdict of the program.
    fn interrupt(&mut self, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format cannot interrupt a turn")
    }

    /// Sends the decision on a request that the dialect reported with `Output::awaits_decision`.
    fn decide(&mut self, _approval: &ApprovalId, _answer: &ApprovalAnswer, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format takes no decisions")
    }

    /// Lets a tool pass its gate, which the dialect reported with `Output::at_gate`. A denial goes through [`Dialect::decide`].
    fn pass_gate(&mut self, _gate: &ApprovalId, _answer: &GateAnswer, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format has no gates")
    }

    /// Sends the reply to a question that the dialect reported with `Output::awaits_reply`.
    fn reply(&mut self, _question: &QuestionId, _reply: &QuestionReply, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format takes no replies")
    }

    /// Sends the result of a request that the dialect reported with `Output::asks_host`.
    fn host_done(
        &mut self,
        _token: HostToken,
        _result: &Result<HostAnswer, HostProblem>,
        _out: &mut Output<'_>,
    ) -> Sent {
        Sent::Cannot("this format has no requests for its host")
    }

    /// Changes an option of the session: `model`, `effort`, `permission` (one of our modes), or one of the agent's own.
    fn set_option(&mut self, _option: &str, _value: &str, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this format cannot change options while it runs")
    }

    /// Returns what a change of one of the agent's own options does to its permissions, while the engine decides by `current`.
    fn option_permission(&self, _option: &str, _value: &str, _current: PermissionMode) -> OptionPermission {
        OptionPermission::Unchanged
    }

    /// Asks the agent to compact its context. The caller calls it only between turns. A turn may follow.
    fn compact(&mut self, _out: &mut Output<'_>) -> Sent {
        Sent::Cannot("this agent does not compact on request")
    }

    /// Ends the conversation: the program exits by itself afterwards.
    fn close(&mut self, out: &mut Output<'_>) {
        out.hang_up();
    }
}

/// A piece of output. Bytes that are not UTF-8 have been replaced by U+FFFD.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A line of standard output without its end, or the data of one server-sent event, or, for
    /// [`Framing::Document`], everything.
    Line(&'a str),
    /// A line of standard error without its end.
    Stderr(&'a str),
    /// A line that was written to the program's standard input, without its end. Two-way dialects need it to know
    /// what an answer answers.
    Sent(&'a str),
    /// There will be no more: this is how the program ended.
    Eof(&'a End),
}

/// How a dialect's output is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// At line ends.
    Lines,
    /// At line ends, where runs of `data:` lines are server-sent events.
    LinesOrEvents,
    /// Not at all: the dialect gets everything at once, at the end.
    Document,
}

/// Which shape a program's output has, as far as we know.
///
/// Many programs print the same things as lines of JSON, as one JSON document or as plain text, by their arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Unknown: the output decides.
    #[default]
    Unknown,
    /// Lines of JSON.
    Lines,
    /// One JSON document.
    Document,
    /// Plain text.
    Text,
}

/// How an answer is separated from the text that accompanies the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commentary {
    /// Only messages that the program marks, if any. The lines of Gemini and ACP do not show which messages ended in a
    /// tool call (Gemini's JSON document has only the text after the last tool), and the
    /// specifications' own formats have no field for it.
    Told,
    /// A message that the program reports as asking for tools, as soon as more text follows. Without more text it is
    /// the answer: a program may stop after its tools.
    AskedForTools,
    /// Text before a tool call: the program's own result leaves it out.
    BeforeTools,
    /// Every message but the last: the program gives only that one as its answer.
    AllButLast,
}

/// When the lines of a dialect show that the program works. It decides what silence proves about a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutput {
    /// A line before the first model call, and one for each step as it happens. No line means no model call.
    Announced,
    /// A line for each step as it happens, and none before the model answers. No line means no tool call, but a model
    /// call may be under way.
    Immediate,
    /// Perhaps only at the end, or never: the program may buffer its output, or not report its tools.
    Late,
}

/// How a turn ends in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// By something that the program prints. Without it, exit code 0 is not a success.
    Event,
    /// By the end of the output and exit code 0.
    Eof,
}

impl Terminal {
    /// Returns the name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Eof => "eof",
        }
    }
}

/// An event without a number.
#[derive(Clone, Debug, PartialEq)]
pub struct UnnumberedEvent {
    /// The turn, counted from 1 within this decoder.
    pub turn: Option<u32>,
    /// The source of the event.
    pub source: Source,
    /// The bytes it was read from.
    pub raw: Option<RawSpan>,
    /// The event itself.
    pub kind: Kind,
}

/// Output of a two-way dialect for its host: bytes to write to the program, and reports that are no events.
#[derive(Debug, Default, PartialEq)]
pub struct ClientOutput {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether these are the last ones: then its standard input is closed.
    pub last: bool,
    /// Whether a prompt is among them.
    pub prompt: bool,
    /// Whether the client has become ready to take prompts.
    pub ready: bool,
    /// Requests of the agent that wait for a decision.
    pub requests: Vec<DecisionRequest>,
    /// Tools that wait at their gates.
    pub gates: Vec<ToolGate>,
    /// Requests of the agent that the host carries out now. Those that need a decision have it.
    pub host: Vec<HostRequest>,
    /// Questions of the agent that wait for a reply.
    pub questions: Vec<QuestionId>,
    /// Acknowledgements of the agent.
    pub acknowledged: Vec<Acknowledgement>,
    /// Steers that the agent has read.
    pub read: Vec<PromptId>,
    /// Steers that the agent will not read any more: their turn ended first. An acknowledgement that is still awaited does not
    /// come. Each steer ends once: rejected, taken back, read or lost.
    pub lost: Vec<PromptId>,
}
