//! Standard output: what was asked for, and nothing else.

use std::io::{self, IsTerminal, Write};

use bowline_providers::ansi;

use crate::error::{CommandError, Fault};

/// Standard output. Text is made harmless when a terminal shows it, and left as it is in a pipe.
#[derive(Debug)]
pub(crate) struct Stdout {
    out: io::BufWriter<io::Stdout>,
    terminal: bool,
}

impl Stdout {
    pub(crate) fn new() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        Self { out: io::BufWriter::with_capacity(64 * 1024, out), terminal }
    }

    /// Prints text.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), CommandError> {
        let text = if self.terminal { ansi::harmless(text) } else { text.into() };
        self.out.write_all(text.as_bytes()).map_err(failed)
    }

    /// Makes sure that what was printed is seen.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.out.flush().map_err(failed)
    }
}

fn failed(error: io::Error) -> CommandError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CommandError::new(Fault::ClosedPipe, "");
    }
    CommandError::new(Fault::Internal, "could not write to standard output").caused_by(error)
}
