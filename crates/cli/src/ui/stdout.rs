//! Standard output: the requested output, and nothing else.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use bowline_providers::ansi;
use bowline_providers::views::View;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use tokio::sync::oneshot;

use super::tables::Layout;
use super::terminal;
use crate::error::{CommandError, Fault};

/// The size of the write buffer, in bytes.
pub(crate) const FULL: usize = 64 * 1024;

/// Returns a channel that ends when the reader of standard output has closed its pipe. Without a pipe it never ends.
///
/// A command that prints seldom would notice it only with its next line. A thread waits for it, which costs nothing while it waits.
pub(crate) fn closed_by_its_reader() -> oneshot::Receiver<()> {
    let (open, closed) = oneshot::channel();
    std::thread::spawn(move || {
        let out = io::stdout();
        // Without a wanted event, `poll` returns only for an error, which is how a pipe reports that its reader is gone (poll(2)).
        let mut pipe = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut pipe, None) == Err(Errno::INTR) {}
        if !pipe[0].revents().contains(PollFlags::ERR) {
            std::mem::forget(open);
        }
    });
    closed
}

/// Standard output. On a terminal, control sequences in the text are made harmless; a pipe gets the text unchanged.
pub(crate) struct Stdout {
    out: io::BufWriter<Box<dyn Write>>,
    terminal: bool,
}

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl Stdout {
    pub(crate) fn new() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        Self::over(Box::new(out), terminal)
    }

    pub(crate) fn over(out: Box<dyn Write>, terminal: bool) -> Self {
        Self { out: io::BufWriter::with_capacity(FULL, out), terminal }
    }

    /// Prints text. On a terminal, JSON stays valid: control characters become JSON escapes.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), CommandError> {
        let text = match self.terminal {
            false => text.into(),
            true if is_json(text) => ansi::harmless_json(text),
            true => ansi::harmless(text),
        };
        self.out.write_all(text.as_bytes()).map_err(failed)
    }

    /// Prints the end of a view.
    pub(crate) fn print_end(&mut self, view: &mut dyn View) -> Result<(), CommandError> {
        if self.terminal {
            // The text has to be whole before its control characters can be made harmless.
            let mut text = String::new();
            view.finish(&mut text);
            self.print(&text)?;
        } else {
            view.write_end(&mut self.out).map_err(failed)?;
        }
        self.flush()
    }

    /// Prints a value as a line of JSON. In a pipe, the text is streamed and not held in memory.
    pub(crate) fn print_object(&mut self, value: &impl Serialize) -> Result<(), CommandError> {
        if self.terminal {
            self.print(&object(value)?)?;
        } else {
            serde_json::to_writer(&mut self.out, value).map_err(|error| failed(error.into()))?;
            self.out.write_all(b"\n").map_err(failed)?;
        }
        self.flush()
    }

    /// Returns the layout for tables.
    pub(crate) fn layout(&self) -> Layout {
        if self.terminal {
            Layout::Terminal { width: terminal::stdout_width(), colour: terminal::has_colour() }
        } else {
            Layout::Pipe
        }
    }

    /// Prints the text of a [`Layout`]: it is harmless, and may have colour.
    pub(crate) fn print_laid_out(&mut self, text: &str) -> Result<(), CommandError> {
        self.out.write_all(text.as_bytes()).map_err(failed)
    }

    /// Prints bytes of the renderer, which has made them harmless.
    pub(crate) fn print_ready(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.out.write_all(bytes).map_err(failed)
    }

    /// Writes the buffer.
    pub(crate) fn flush(&mut self) -> Result<(), CommandError> {
        self.out.flush().map_err(failed)
    }
}

/// Returns a record as a line of JSON.
pub(crate) fn object(record: &impl Serialize) -> Result<String, CommandError> {
    let object = serde_json::to_string(record).map_err(|error| {
        CommandError::new(Fault::Internal, "could not write the record of the run").caused_by(error)
    })?;
    Ok(object + "\n")
}

/// Returns whether a text is one or several JSON values.
fn is_json(text: &str) -> bool {
    // The first character decides for most texts.
    text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::Deserializer::from_str(text)
            .into_iter::<serde::de::IgnoredAny>()
            .all(|value| value.is_ok())
}

fn failed(error: io::Error) -> CommandError {
    // Rust programs ignore SIGPIPE, so a reader that has left shows up as EPIPE (write(2)).
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CommandError::new(Fault::ClosedPipe, "");
    }
    // A full disk, a quota, a device that rejects writes: the caller chose the destination, so this is not an internal error.
    CommandError::new(Fault::Configuration, "could not write to standard output").caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_from_text() {
        for json in ["{}", "[1,\n2]\n", "{\"a\":1}\n{\"b\":2}\n", "\"text\"\n"] {
            assert!(is_json(json), "{json}");
        }
        for text in ["", "a text", "{not json}", "{} and more", "[x] done", "\"quoted\" text"] {
            assert!(!is_json(text) || text.is_empty(), "{text}");
        }
    }
}
