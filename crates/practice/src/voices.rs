//! The output formats of the agent: one voice for each dialect.
//!
//! A voice writes what happens in the form in which one real program was recorded. It decides nothing.

pub(crate) mod acp;
mod claude;
mod claude_result;
mod codex;
mod gemini;
mod pi;
mod text;

use crate::options::Format;
use crate::stage::Stage;
use crate::tools::{Call, Outcome};

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Text,
    Thinking,
}

/// How a turn ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// Completed.
    Done,
    /// The model's server returned an error.
    Error { status: u16, message: String },
    /// The limit of answers was reached.
    MaxTurns(u64),
    /// The limit of cost was exceeded.
    MaxCost(f64),
}

impl Ending {
    /// Returns the failure, in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Done => String::new(),
            Self::Error { status, message } if message.is_empty() => format!("the server answered {status}"),
            Self::Error { message, .. } => message.clone(),
            Self::MaxTurns(turns) => format!("Reached maximum number of turns ({turns})"),
            Self::MaxCost(cost) => format!("Reached maximum budget (${cost})"),
        }
    }
}

/// How the process ends after a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// With this exit code.
    Code(i32),
    /// By the signal, as without a handler.
    Signal,
}

/// A dialect that the agent prints. A block is opened before it has pieces.
pub(crate) trait Voice: Send {
    /// Starts the session.
    fn begin(&mut self, stage: &mut Stage);
    /// Starts a text.
    fn open(&mut self, block: Block, stage: &mut Stage);
    /// Writes a piece of it.
    fn delta(&mut self, text: &str, stage: &mut Stage);
    /// Ends it.
    fn close(&mut self, stage: &mut Stage);
    /// Starts a tool.
    fn call(&mut self, call: &Call, stage: &mut Stage);
    /// Requests permission for a tool, and returns the id of the request; none in a dialect without such requests.
    fn ask(&mut self, _call: &Call, _stage: &mut Stage) -> Option<String> {
        None
    }
    /// Asks the user, in a dialect of hosts that can answer.
    fn question(&mut self, _text: &str, _choices: &[String], _stage: &mut Stage) {}
    /// Withdraws the request that is open, in a dialect that can.
    fn withdraw(&mut self, _stage: &mut Stage) {}
    /// Reports that a tool begins to run, in a dialect that does.
    fn starts(&mut self, _call: &Call, _stage: &mut Stage) {}
    /// Writes the result of a tool.
    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage);
    /// Writes a whole message, whatever else is open.
    fn whole(&mut self, text: &str, stage: &mut Stage);
    /// Ends the turn.
    fn end(&mut self, ending: &Ending, stage: &mut Stage);
    /// Ends the turn because the host cancelled it, in a dialect whose hosts can.
    fn cancelled(&mut self, _stage: &mut Stage) {}
    /// Ends because of a signal.
    fn part(&mut self, signal: i32, stage: &mut Stage) -> Parting;

    /// Returns the exit code of an end.
    fn code(&self, ending: &Ending) -> u8 {
        match ending {
            Ending::Done => 0,
            Ending::Error { .. } | Ending::MaxTurns(_) | Ending::MaxCost(_) => 1,
        }
    }
}

/// Returns the voice for a format.
pub(crate) fn of(format: Format) -> Box<dyn Voice> {
    match format {
        Format::StreamJson => Box::new(claude::Claude::lines()),
        Format::Json => Box::new(claude::Claude::document()),
        Format::Text => Box::new(text::Text::default()),
        Format::Codex => Box::new(codex::Codex::default()),
        Format::Gemini => Box::new(gemini::Gemini::default()),
        Format::Pi => Box::new(pi::Pi::default()),
        Format::Acp => Box::new(acp::AcpVoice::default()),
    }
}

/// Returns the end that most programs have after a signal that they handle.
pub(crate) fn usual(signal: i32) -> Parting {
    Parting::Code(128 + signal)
}
