//! The only writer to the standard streams: messages on standard error, the requested output on standard output.
//!
//! No other module writes to a standard stream or queries the terminal; a tidy test checks it. [`Ui`] prints messages, [`Stdout`] the
//! requested output, `tables` lays out columns, `terminal` knows width, colour and characters, `keyboard` reads single keys. Messages contain names
//! and texts of agents, projects and clients, so this module escapes control sequences, and not its callers.
//!
//! The renderer of a run (`human`) makes bytes and writes nothing; `output` writes them through this module.

pub(crate) mod keyboard;
pub(crate) mod panic;
mod stdout;
pub(crate) mod tables;
pub(crate) mod terminal;

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use bowline_providers::ansi;

use crate::error::CommandError;
use crate::human::wrapped_lines;
pub(crate) use stdout::{FULL, Stdout, closed_by_its_reader, object};

/// Erases the line that the cursor is in.
const ERASE: &str = "\r\x1b[K";

/// Standard error. On a terminal, messages wrap at words; in a pipe, each one stays one line.
pub(crate) struct Ui {
    stderr: Box<dyn Write>,
    terminal: bool,
    /// The last lines, if they are a drawing, which the next message replaces.
    drawn: Vec<String>,
}

impl fmt::Debug for Ui {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ui").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

impl Ui {
    /// Opens our own standard error.
    pub(crate) fn new() -> Self {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        Self::over(Box::new(stderr), terminal)
    }

    pub(crate) fn over(stderr: Box<dyn Write>, terminal: bool) -> Self {
        Self { stderr, terminal, drawn: Vec::new() }
    }

    /// Returns whether standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints what the command does or has done.
    pub(crate) fn status(&mut self, text: &str) {
        self.message("", text);
    }

    /// Prints a problem that does not stop the command.
    pub(crate) fn warning(&mut self, text: &str) {
        self.message("warning: ", text);
    }

    /// Prints the command or setting that fixes a problem.
    pub(crate) fn hint(&mut self, text: &str) {
        self.message("hint: ", text);
    }

    /// Prints the error of a command: message, causes and hints. Some errors only carry an exit code and print nothing.
    pub(crate) fn error(&mut self, error: &CommandError) {
        if let Some(text) = error.text() {
            self.lines(&text);
        }
    }

    /// Prints a question. The cursor stays behind it, for the answer.
    pub(crate) fn question(&mut self, text: &str) {
        self.lines(&ansi::harmless(text));
    }

    /// Rings the bell of a terminal: a request of the agent waits for the person.
    pub(crate) fn bell(&mut self) {
        if self.terminal {
            self.write(b"\x07");
        }
    }

    /// Shows a desktop notice through the terminal, if it may know how. The text is one harmless line.
    pub(crate) fn notice(&mut self, text: &str) {
        if self.terminal
            && let Some(sequence) = terminal::notice_sequence(text)
        {
            self.write(sequence.as_bytes());
        }
    }

    /// Prints lines that are harmless already. On a terminal, each wraps at words.
    pub(crate) fn lines(&mut self, text: &str) {
        self.erase();
        if self.terminal {
            self.write(wrapped_lines(text, usize::from(terminal::width())).as_bytes());
        } else {
            self.write(text.as_bytes());
        }
    }

    /// Prints a line of the log. It never wraps, so that a search finds all of it.
    pub(crate) fn log(&mut self, text: &str) {
        self.erase();
        self.write(format!("{}\n", one_line(text)).as_bytes());
    }

    /// Draws a line that the next message or drawing replaces. The text is harmless and fits the width; it may have colour.
    pub(crate) fn draw(&mut self, line: &str) {
        self.erase();
        self.write(line.as_bytes());
        self.drawn = vec![line.to_owned()];
    }

    /// Draws lines that the next message or drawing replaces. Each is harmless and fits the width; all fit the height.
    pub(crate) fn draw_lines(&mut self, lines: Vec<String>) {
        // The same drawing again only flickers on slow terminals.
        if lines == self.drawn {
            return;
        }
        let mut text = above(self.drawn.len());
        // Every line replaces the old one in its place, so that no moment shows an empty screen.
        text.push_str(&lines.join("\x1b[K\n"));
        text.push_str("\x1b[J");
        self.write(text.as_bytes());
        self.drawn = lines;
    }

    /// Erases the drawing.
    pub(crate) fn erase(&mut self) {
        match std::mem::take(&mut self.drawn).len() {
            0 => {}
            1 => self.write(ERASE.as_bytes()),
            rows => self.write((above(rows) + "\x1b[J").as_bytes()),
        }
    }

    /// Writes bytes of the renderer, which has made them harmless and knows where its own cursor is.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // If standard error is closed, there is no place to report that. The result of the command does not depend on it.
        let _ = self.stderr.write_all(bytes).and_then(|()| self.stderr.flush());
    }

    fn message(&mut self, label: &str, text: &str) {
        self.lines(&format!("{label}{}\n", one_line(text)));
    }
}

/// Moves the cursor to the beginning of the first of these rows. It is in the last one.
fn above(rows: usize) -> String {
    match rows {
        0 | 1 => "\r".to_owned(),
        rows => format!("\r\x1b[{}A", rows - 1),
    }
}

/// Puts a harmless text on one line: a name in a message must not forge another line of our output.
fn one_line(text: &str) -> String {
    ansi::harmless(text).trim_end().replace('\n', " ")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::error::Fault;

    /// A stream that keeps what is written.
    #[derive(Clone, Default)]
    pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("a lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("a lock").clone()).expect("text")
        }
    }

    fn written(print: impl FnOnce(&mut Ui)) -> String {
        let stream = Shared::default();
        print(&mut Ui::over(Box::new(stream.clone()), false));
        stream.text()
    }

    #[test]
    fn a_message_is_one_harmless_line() {
        let hostile = "a\x1b[2Jb\nerror: forged\n";
        assert_eq!(written(|ui| ui.warning(hostile)), "warning: a␛[2Jb error: forged\n");
        assert_eq!(written(|ui| ui.hint(hostile)), "hint: a␛[2Jb error: forged\n");
        assert_eq!(written(|ui| ui.status(hostile)), "a␛[2Jb error: forged\n");
        assert_eq!(written(|ui| ui.log(hostile)), "a␛[2Jb error: forged\n");
    }

    #[test]
    fn an_error_that_was_reported_is_not_printed_again() {
        let error = CommandError::new(Fault::Usage, "no").hint("try `y`");
        assert_eq!(written(|ui| ui.error(&error)), "error: no\nhint: try `y`\n");
        assert_eq!(written(|ui| ui.error(&CommandError::told(1))), "");
    }

    #[test]
    fn a_drawing_of_several_lines_is_replaced_in_its_place() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let text = written(|ui| {
            ui.draw_lines(lines(&["a 1 s", "b 1 s"]));
            ui.draw_lines(lines(&["a 1 s", "b 1 s"]));
            ui.draw_lines(lines(&["a 2 s", "b 2 s", "c"]));
            ui.status("done");
            ui.status("all");
        });
        let expected =
            "\ra 1 s\x1b[K\nb 1 s\x1b[J\r\x1b[1Aa 2 s\x1b[K\nb 2 s\x1b[K\nc\x1b[J\r\x1b[2A\x1b[Jdone\nall\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_message_replaces_a_drawing_once() {
        let text = written(|ui| {
            ui.draw("50 %");
            ui.draw("51 %");
            ui.status("a");
            ui.status("b");
        });
        assert_eq!(text, "50 %\r\x1b[K51 %\r\x1b[Ka\nb\n");
    }
}
