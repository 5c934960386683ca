//! Two streams that may share a terminal: tracks the cursor, and erases the status line before anything else is printed.

use bowline_providers::ansi;

use super::line::PaintedLine;
use super::markdown::{Markdown, MarkdownPage};
use super::rendered::page;
use super::words::{self, Glyphs};

/// The properties of standard output and standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) stdout: Surface,
    pub(crate) stderr: Surface,
    /// Whether both are the same file or pipe, as in a log.
    pub(crate) one_file: bool,
    /// Whether standard error is a terminal and standard output a pipe. Its reader (`| cat`, `| tee`) may print to the same
    /// terminal at any time.
    pub(crate) piped: bool,
}

impl Screen {
    /// Both are pipes.
    pub(crate) const PIPES: Self =
        Self { stdout: Surface::PIPE, stderr: Surface::PIPE, one_file: false, piped: false };
}

/// The properties of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Whether it is a terminal.
    pub(crate) tty: bool,
    /// Whether colours are supported and enabled.
    pub(crate) colour: bool,
    /// Whether the terminal can erase a line; a dumb terminal cannot.
    pub(crate) erases: bool,
    /// The number of columns.
    pub(crate) width: u16,
    /// Whether the answer is rendered as Markdown.
    pub(crate) renders: bool,
}

impl Surface {
    /// A file, a pipe, or nothing.
    pub(crate) const PIPE: Self =
        Self { tty: false, colour: false, erases: false, width: 80, renders: false };

    /// Makes a terminal. `term` is the value of `TERM`; `colour` is whether colour is allowed.
    pub(crate) fn terminal(width: u16, term: Option<&str>, colour: bool) -> Self {
        let smart = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        Self { tty: true, colour: colour && smart, erases: smart, width: width.max(1), renders: false }
    }

    /// Enables Markdown rendering, unless the terminal is dumb.
    pub(crate) fn rendering(self) -> Self {
        Self { renders: self.erases, ..self }
    }
}

/// The stream that bytes go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceStream {
    Stdout,
    Stderr,
}

/// Bytes for one of the two streams. Pieces must be written in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputPiece {
    pub(crate) to: PieceStream,
    pub(crate) bytes: Vec<u8>,
}

/// A temporary status on the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StatusDisplay {
    /// A status on its own line. An unfinished line of text is ended first.
    Line(PaintedLine),
    /// A status on its own line if the cursor is at the beginning of a line; else only the spinner after the text.
    Spinner { line: PaintedLine, picture: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShownStatus {
    Line(PaintedLine),
    Behind(&'static str),
}

/// The kind of the last output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastOutput {
    Nothing,
    Text,
    Line,
}

/// The two streams.
#[derive(Debug)]
pub(super) struct Canvas {
    screen: Screen,
    glyphs: Glyphs,
    pieces: Vec<OutputPiece>,
    stdout_column: usize,
    stderr_column: usize,
    shown: Option<ShownStatus>,
    /// The number of writes that stay on the screen.
    printed: u64,
    last: LastOutput,
    /// The unfinished last line of the answer, held back if a reader may print to our terminal.
    part: String,
    /// Whether a part of the answer was printed.
    answered: bool,
    /// The Markdown renderer of the answer.
    markdown: Markdown,
}

/// The maximum length of an unfinished line that is held back.
const LONGEST_PART: usize = 64 * 1024;

impl Canvas {
    pub(super) fn new(screen: Screen, glyphs: Glyphs) -> Self {
        Self {
            screen,
            glyphs,
            pieces: Vec::new(),
            stdout_column: 0,
            stderr_column: 0,
            shown: None,
            printed: 0,
            last: LastOutput::Nothing,
            part: String::new(),
            answered: false,
            markdown: Markdown::default(),
        }
    }

    /// Returns the pieces to write, and clears them.
    pub(super) fn take(&mut self) -> Vec<OutputPiece> {
        std::mem::take(&mut self.pieces)
    }

    /// Sets the new width of the terminal.
    pub(super) fn resize(&mut self, width: u16) {
        self.screen.stdout.width = width.max(1);
        self.screen.stderr.width = width.max(1);
    }

    /// Returns a number that grows with everything that is printed, but not with a status.
    pub(super) fn printed(&self) -> u64 {
        self.printed
    }

    pub(super) fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Prints text of the answer.
    pub(super) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.screen.piped {
            return self.text_for_a_reader(text);
        }
        if self.screen.stdout.renders {
            let ready = self.markdown.push(text, self.page());
            return self.rendered(&ready);
        }
        self.erase();
        if self.shared() && self.last == LastOutput::Line {
            self.push(PieceStream::Stderr, "\n");
        }
        if self.screen.stdout.tty {
            self.push(PieceStream::Stdout, &ansi::harmless(text));
        } else {
            self.push(PieceStream::Stdout, text);
        }
        if self.screen.stdout.tty {
            self.last = LastOutput::Text;
        }
    }

    /// Prints text of the answer in whole lines. Its reader may print at any time, and our status must not be on the line that
    /// it prints to.
    fn text_for_a_reader(&mut self, text: &str) {
        self.part.push_str(text);
        let end = match self.part.rfind('\n') {
            Some(end) => end + 1,
            // A text without line ends must not fill the memory.
            None if self.part.len() > LONGEST_PART => self.part.len(),
            None => return,
        };
        let rest = self.part.split_off(end);
        let lines = std::mem::replace(&mut self.part, rest);
        self.erase();
        self.answered = true;
        self.push(PieceStream::Stdout, &lines);
    }

    /// Prints whole lines of the rendered answer.
    fn rendered(&mut self, lines: &str) {
        if lines.is_empty() {
            return;
        }
        self.erase();
        if self.shared() && self.last == LastOutput::Line {
            self.push(PieceStream::Stderr, "\n");
        }
        self.push(PieceStream::Stdout, lines);
        self.last = LastOutput::Text;
    }

    /// Prints the unfinished block of the answer, because something else is printed next.
    fn pause_markdown(&mut self) {
        let rest = self.markdown.pause(self.page());
        self.rendered(&rest);
    }

    /// Prints all of the answer: its text has ended, so that a table in it is complete.
    pub(super) fn end_block(&mut self) {
        let rest = self.markdown.flush(self.page());
        self.rendered(&rest);
    }

    fn page(&self) -> MarkdownPage {
        page(self.screen.stdout, self.glyphs)
    }

    /// Ends the last line of the answer, if it is unfinished.
    pub(super) fn end_text_line(&mut self) {
        self.end_block();
        if self.stdout_column > 0 || !self.part.is_empty() {
            self.erase();
            self.answered = true;
            let line = std::mem::take(&mut self.part) + "\n";
            self.push(PieceStream::Stdout, &line);
        }
    }

    /// Ends a message. If a reader may print it to our terminal, ends its last line too.
    pub(super) fn end_message(&mut self) {
        if self.screen.piped {
            self.end_text_line();
        }
    }

    /// Prints a line to standard error. On a terminal it is separated from the answer.
    pub(super) fn line(&mut self, line: &PaintedLine) {
        self.pause_markdown();
        self.erase();
        self.leave_text();
        let Surface { tty, colour, width, .. } = self.screen.stderr;
        let lines = if tty { line.clone().wrap(usize::from(width)) } else { vec![line.clone()] };
        for line in lines {
            self.push(PieceStream::Stderr, &(line.render(colour) + "\n"));
        }
        self.last = LastOutput::Line;
    }

    /// Prints an empty line to standard error, if the last output was a line.
    pub(super) fn blank(&mut self) {
        let apart = self.last == LastOutput::Line || (self.screen.piped && self.answered);
        if apart && self.screen.stderr.tty {
            self.erase();
            self.push(PieceStream::Stderr, "\n");
        }
    }

    /// Shows a status until something is printed. Shows nothing if the terminal cannot erase lines.
    pub(super) fn status(&mut self, status: Option<StatusDisplay>) {
        if !self.screen.stderr.tty || !self.screen.stderr.erases {
            return;
        }
        // After the first line of the answer, its reader may be printing.
        if self.screen.piped && self.answered {
            return;
        }
        let wanted = match status {
            None => None,
            Some(StatusDisplay::Line(line)) => {
                self.pause_markdown();
                if !matches!(self.shown, Some(ShownStatus::Line(_))) {
                    self.erase();
                    self.leave_text();
                }
                Some(ShownStatus::Line(line))
            }
            Some(StatusDisplay::Spinner { line, .. }) if self.column() == 0 => Some(ShownStatus::Line(line)),
            Some(StatusDisplay::Spinner { picture, .. }) => {
                // Space for the blank, the spinner, and one column of error in the width of a character.
                let room = self.column() + 4 <= usize::from(self.screen.stderr.width);
                room.then_some(ShownStatus::Behind(picture))
            }
        };
        // A redraw of the same status flickers on slow terminals.
        if wanted == self.shown {
            return;
        }
        self.erase();
        match &wanted {
            None => {}
            Some(ShownStatus::Line(line)) => {
                // Leave the last column free: some terminals wrap as soon as it is filled.
                let columns = usize::from(self.screen.stderr.width).saturating_sub(1);
                let line = line.clone().cut(columns, self.glyphs).render(self.screen.stderr.colour);
                // Not `push`: the column stays that of the text, where `erase` puts the cursor back.
                self.push_raw(PieceStream::Stderr, &line);
            }
            Some(ShownStatus::Behind(picture)) => self.push_raw(PieceStream::Stderr, &format!(" {picture}")),
        }
        self.shown = wanted;
    }

    /// Erases the status.
    fn erase(&mut self) {
        match self.shown.take() {
            None => {}
            Some(ShownStatus::Line(_)) => self.push_raw(PieceStream::Stderr, "\r\x1b[K"),
            // Two backspaces: over the spinner and the blank before it.
            Some(ShownStatus::Behind(_)) => self.push_raw(PieceStream::Stderr, "\x08\x08\x1b[K"),
        }
    }

    /// Ends the line of the answer: on a shared terminal with an empty line after it, in a shared file without.
    fn leave_text(&mut self) {
        if self.screen.piped && self.stdout_column > 0 {
            // The beginning of an overlong line may be on the screen.
            return self.push_raw(PieceStream::Stderr, "\n");
        }
        if self.screen.one_file && self.stdout_column > 0 {
            self.push_raw(PieceStream::Stderr, "\n");
            self.stdout_column = 0;
            return;
        }
        if !self.shared() || self.last != LastOutput::Text {
            return;
        }
        let gap = if self.column() > 0 { "\n\n" } else { "\n" };
        self.push(PieceStream::Stderr, gap);
        self.last = LastOutput::Line;
    }

    /// Returns whether both streams share a terminal.
    fn shared(&self) -> bool {
        self.screen.stdout.tty && self.screen.stderr.tty
    }

    /// Returns the cursor column of the terminal of standard error.
    fn column(&self) -> usize {
        if self.shared() { self.stdout_column } else { self.stderr_column }
    }

    /// Writes harmless text and updates the cursor.
    fn push(&mut self, to: PieceStream, text: &str) {
        self.printed += 1;
        let shared = self.shared();
        let (surface, column) = match to {
            PieceStream::Stdout => (self.screen.stdout, &mut self.stdout_column),
            // One terminal has one cursor, so both streams share a column.
            PieceStream::Stderr if shared => (self.screen.stderr, &mut self.stdout_column),
            PieceStream::Stderr => (self.screen.stderr, &mut self.stderr_column),
        };
        *column = advance(*column, text, usize::from(surface.width));
        self.push_raw(to, text);
    }

    fn push_raw(&mut self, to: PieceStream, text: &str) {
        match self.pieces.last_mut() {
            Some(piece) if piece.to == to => piece.bytes.extend_from_slice(text.as_bytes()),
            _ => self.pieces.push(OutputPiece { to, bytes: text.as_bytes().to_vec() }),
        }
    }
}

/// Returns the column of the cursor after a text.
fn advance(from: usize, text: &str, width: usize) -> usize {
    let (mut column, last) = match text.rsplit_once('\n') {
        Some((_, last)) => (0, last),
        None => (from, text),
    };
    let mut escape = false;
    for c in last.chars() {
        match c {
            '\x1b' => escape = true,
            // A harmless text has no other sequences than colours, which end with `m`.
            'm' if escape => escape = false,
            _ if escape => {}
            '\t' => column = (column / 8 * 8 + 8).min(width.saturating_sub(1)),
            c => {
                let wide = words::char_width(c);
                // A terminal moves a character that does not fit to the next line as a whole.
                column = if column + wide > width { wide } else { column + wide };
            }
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::human::line::Paint;

    #[test]
    fn the_cursor_is_followed() {
        for (from, text, column) in [
            (0, "abc", 3),
            (3, "abc\n", 0),
            (3, "日本", 7),
            (8, "abc", 1),
            (9, "日", 2),
            (7, "abc", 10),
            (0, "a\tb", 9),
            (0, "\x1b[31mab\x1b[0m", 2),
        ] {
            assert_eq!(advance(from, text, 10), column, "{text:?} from {from}");
        }
    }

    #[test]
    fn a_line_in_between_does_not_tear_a_table() {
        let surface = Surface::terminal(40, Some("xterm"), false);
        let screen = Screen { stdout: surface.rendering(), stderr: surface, ..Screen::PIPES };
        let mut canvas = Canvas::new(screen, Glyphs::Unicode);
        canvas.text("Look:\n\n| a | b |\n|--");
        canvas.line(&PaintedLine::of(Paint::Plain, "warning: slow"));
        canvas.text("-|---|\n| 1 | 2 |");
        canvas.status(Some(StatusDisplay::Line(PaintedLine::of(Paint::Plain, "waits"))));
        canvas.text(" \n| 3 | 4 |");
        canvas.end_block();
        let shown: String =
            canvas.take().iter().map(|piece| String::from_utf8_lossy(&piece.bytes).into_owned()).collect();
        let shown = shown.replace("waits\r\x1b[K", "");
        assert_eq!(shown, "Look:\n\nwarning: slow\n\na  b\n─  ─\n1  2\n3  4\n");
    }
}
