//! Writes an executable provider: implement [`Provider`], call [`main`], and the program answers `generate`, `stream`,
//! `health` and `--version` as the CLI provider protocol wants it.
//!
//! ```no_run
//! use bowline_provider::{Done, Error, Provider, Request, Say};
//!
//! struct Echo;
//!
//! impl Provider for Echo {
//!     fn name(&self) -> &str {
//!         "echo"
//!     }
//!     fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error> {
//!         say.text(&format!("You said: {}", request.prompt))?;
//!         Ok(Done::by("echo-1"))
//!     }
//!     fn health(&self) -> Result<String, Error> {
//!         Ok("OK".to_owned())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     bowline_provider::main(&mut Echo)
//! }
//! ```
//!
//! The provider says its text piece by piece, whoever asks: for `stream` each piece is a chunk at once, for `generate`
//! they are put together. What goes wrong is an [`Error`]; it is told on standard error and in the answer's `error`, and the
//! exit code is 1. Exit code 2 is a request or a command line that nobody could answer.

mod clock;
#[doc(hidden)]
pub mod ollama;
mod request;
mod respond;
mod serve;
pub mod templates;

use std::fmt;

use serde_json::{Map, Value};

pub use request::{Message, Request};
pub use respond::Say;
pub use serve::{main, serve};

/// A provider: what the program does.
pub trait Provider {
    /// Returns its name, which every answer carries.
    fn name(&self) -> &str;

    /// Returns its version, for `--version`.
    fn version(&self) -> &str {
        "0.1.0"
    }

    /// Takes an argument that stands before the command word. None is known unless this says so.
    fn argument(&mut self, argument: &str) -> Result<(), Error> {
        Err(Error::new(format!("unknown argument `{argument}`")))
    }

    /// Answers a request: says the text, in as many pieces as it comes, and then how it ended.
    fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error>;

    /// Says that it is well, in a word or two, or why it is not. The caller waits five seconds.
    fn health(&self) -> Result<String, Error>;
}

/// How an answer ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The model that answered.
    pub model: String,
    /// How many tokens the prompt had, if that is known.
    pub input_tokens: Option<u64>,
    /// How many tokens the answer had, if that is known.
    pub output_tokens: Option<u64>,
    /// Why it ended.
    pub finish: Finish,
    /// Tools that the model wants the host to run: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    pub tool_calls: Vec<Value>,
    /// Whatever the caller may want to know besides.
    pub metadata: Map<String, Value>,
}

impl Done {
    /// Says that a model has said all it wanted.
    pub fn by(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    #[default]
    Stop,
    /// It reached its limit of tokens.
    Length,
    /// It wants a tool to be run.
    ToolUse,
}

impl Finish {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolUse => "tool_use",
        }
    }
}

/// Why there is no answer, for the person who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
    /// Nobody reads what is said.
    gone: bool,
}

impl Error {
    /// Makes an error of a sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), gone: false }
    }

    /// Nobody reads what is said any more.
    fn gone() -> Self {
        Self { message: "nobody reads the answer".to_owned(), gone: true }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}
