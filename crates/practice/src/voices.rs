//! How the agent speaks: one voice for each dialect.
//!
//! A voice says what happens in the form in which one real program was recorded to say it. It decides nothing.

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
    /// Well.
    Done,
    /// The model's server refused.
    Error { status: u16, message: String },
    /// There were as many answers as are allowed.
    MaxTurns(u64),
    /// It costs more than is allowed.
    MaxCost(f64),
}

impl Ending {
    /// Returns what went wrong, in words.
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
    /// By the signal, as if nobody had caught it.
    Signal,
}

/// A dialect that the agent speaks. Calls come in an order that makes sense: a block is opened before it has pieces.
pub(crate) trait Voice: Send {
    /// Begins the session.
    fn begin(&mut self, stage: &mut Stage);
    /// Begins a text.
    fn open(&mut self, block: Block, stage: &mut Stage);
    /// Says a piece of it.
    fn delta(&mut self, text: &str, stage: &mut Stage);
    /// Ends it.
    fn close(&mut self, stage: &mut Stage);
    /// Uses a tool.
    fn call(&mut self, call: &Call, stage: &mut Stage);
    /// Asks whether a tool may be used, and returns the name of the question; nothing in a dialect that has none.
    fn ask(&mut self, _call: &Call, _stage: &mut Stage) -> Option<String> {
        None
    }
    /// Tells what came of it.
    fn outcome(&mut self, call: &Call, outcome: &Outcome, stage: &mut Stage);
    /// Says a message that is whole, whatever else is open.
    fn whole(&mut self, text: &str, stage: &mut Stage);
    /// Ends the turn.
    fn end(&mut self, ending: &Ending, stage: &mut Stage);
    /// Ends because of a signal.
    fn part(&mut self, signal: i32, stage: &mut Stage) -> Parting;

    /// Returns the exit code that goes with an end.
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
    }
}

/// Returns the end that most programs have after a signal that they caught.
pub(crate) fn usual(signal: i32) -> Parting {
    Parting::Code(128 + signal)
}
