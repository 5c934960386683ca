//! A kit for executable providers: implement [`Provider`], call [`main`], and the program handles `generate`, `stream`,
//! `health` and `--version` of the CLI provider protocol.
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
//! The provider emits its text piece by piece for both commands: for `stream` each piece is a chunk at once, for `generate`
//! the kit joins them. A failure is an [`Error`]; the kit writes it to standard error and to `error` of the response, and the
//! exit code is 1. Exit code 2 is an invalid request or command line.

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

/// A provider: the behaviour of the program.
pub trait Provider {
    /// Returns its name, which every response has.
    fn name(&self) -> &str;

    /// Returns its version, for `--version`.
    fn version(&self) -> &str {
        "0.1.0"
    }

    /// Accepts an argument before the command word. By default every argument is unknown.
    fn argument(&mut self, argument: &str) -> Result<(), Error> {
        Err(Error::new(format!("unknown argument `{argument}`")))
    }

    /// Answers a request: emits the text in any number of pieces, and returns how the answer ended.
    fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error>;

    /// Returns a word or two if the provider is healthy, otherwise the reason. The caller waits five seconds.
    fn health(&self) -> Result<String, Error>;
}

/// How an answer ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The model that answered.
    pub model: String,
    /// The tokens of the prompt, if known.
    pub input_tokens: Option<u64>,
    /// The tokens of the answer, if known.
    pub output_tokens: Option<u64>,
    /// Why it ended.
    pub finish: Finish,
    /// Tools that the host should run: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    pub tool_calls: Vec<Value>,
    /// Additional data for the caller.
    pub metadata: Map<String, Value>,
}

impl Done {
    /// Reports that a model completed its answer.
    pub fn by(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete.
    #[default]
    Stop,
    /// It reached its limit of tokens.
    Length,
    /// A tool has to run.
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

/// Why there is no answer, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
    /// The reader of the output is gone.
    gone: bool,
}

impl Error {
    /// Creates an error from a sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), gone: false }
    }

    /// The reader of the output is gone.
    fn gone() -> Self {
        Self { message: "the reader of the answer is gone".to_owned(), gone: true }
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
