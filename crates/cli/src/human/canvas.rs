//! Two streams that may be one terminal: where the cursor is, and the status line that is gone before anything else is
//! printed. What is printed is decided elsewhere.

use bowline_providers::ansi;

use super::markdown::{Markdown, Page};
use super::words::{self, Glyphs};

/// Standard output and standard error, as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) stdout: Surface,
    pub(crate) stderr: Surface,
    /// Whether both are one file or pipe, as in a log.
    pub(crate) one_file: bool,
    /// Whether standard error is a terminal and standard output a pipe, whose reader may print to the same terminal
    /// (`| cat`, `| tee`), at a moment that we do not know.
    pub(crate) piped: bool,
}

impl Screen {
    /// Neither is a terminal.
    pub(crate) const PIPES: Self =
        Self { stdout: Surface::PIPE, stderr: Surface::PIPE, one_file: false, piped: false };
}

/// One stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Whether a person reads it.
    pub(crate) tty: bool,
    /// Whether colours are understood and wanted.
    pub(crate) colour: bool,
    /// Whether the terminal can erase a line; a dumb one cannot.
    pub(crate) erases: bool,
    /// How many columns it has.
    pub(crate) width: u16,
    /// Whether the answer is rendered as Markdown.
    pub(crate) renders: bool,
}

impl Surface {
    /// A file, a pipe, or nothing.
    pub(crate) const PIPE: Self =
        Self { tty: false, colour: false, erases: false, width: 80, renders: false };

    /// Makes a terminal. `term` is the value of `TERM`; `colour` is what the command line and `NO_COLOR` say.
    pub(crate) fn terminal(width: u16, term: Option<&str>, colour: bool) -> Self {
        let smart = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        Self { tty: true, colour: colour && smart, erases: smart, width: width.max(1), renders: false }
    }

    /// Lets the answer be rendered as Markdown, unless the terminal is too dumb for it.
    pub(crate) fn rendering(self) -> Self {
        Self { renders: self.erases, ..self }
    }
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Stdout,
    Stderr,
}

/// Bytes for one of the two streams. The order of pieces is the order in which they are to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) to: To,
    pub(crate) bytes: Vec<u8>,
}

/// How a part of a line looks. Never the only carrier of a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Red => Some("31"),
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
        }
    }
}

/// One line for standard error, in parts. Its text is harmless and has no line end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    parts: Vec<(Paint, String)>,
}

impl Line {
    pub(super) fn of(paint: Paint, text: impl Into<String>) -> Self {
        Self::default().and(paint, text)
    }

    pub(super) fn and(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.parts.push((paint, text.into()));
        self
    }

    /// Cuts the line to so many columns. The last part is the outcome and gets its share of the room.
    pub(super) fn cut(mut self, columns: usize, glyphs: Glyphs) -> Self {
        let width =
            |parts: &[(Paint, String)]| parts.iter().map(|(_, text)| words::width(text)).sum::<usize>();
        if width(&self.parts) <= columns {
            return self;
        }
        let last = if self.parts.len() > 1 { self.parts.pop() } else { None };
        // Whichever is shorter than half of the room leaves the rest to the other.
        let last = last.map(|(paint, text)| {
            let room = columns - width(&self.parts).min(columns.div_ceil(2));
            (paint, words::cut(&text, room, glyphs))
        });
        let mut room = columns - last.as_ref().map_or(0, |(_, text)| words::width(text));
        for (_, text) in &mut self.parts {
            *text = words::cut(text, room, glyphs);
            room = room.saturating_sub(words::width(text));
        }
        self.parts.extend(last);
        self
    }

    /// Returns the text without its looks.
    pub(super) fn words(&self) -> String {
        self.render(false)
    }

    fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for (paint, text) in &self.parts {
            match paint.code().filter(|_| colour && !text.is_empty()) {
                Some(code) => out.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
                None => out.push_str(text),
            }
        }
        out
    }
}

/// What is on the screen for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// A line of its own. Text that did not end its line is ended for it.
    Line(Line),
    /// The same, only where the cursor already is at the beginning of a line; else the spinner behind the text.
    Spinner { line: Line, picture: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Line(Line),
    Behind(&'static str),
}

/// What was printed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    Text,
    Line,
}

/// The two streams.
#[derive(Debug)]
pub(super) struct Canvas {
    screen: Screen,
    glyphs: Glyphs,
    pieces: Vec<Piece>,
    stdout_column: usize,
    stderr_column: usize,
    shown: Option<Shown>,
    last: Last,
    /// The end of the answer that has no line end yet and waits for it, where a reader may print to our terminal.
    part: String,
    /// Whether any of the answer went out.
    answered: bool,
    /// The answer on a terminal that it is rendered for.
    markdown: Markdown,
}

/// The longest part of a line that waits for its end.
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
            last: Last::Nothing,
            part: String::new(),
            answered: false,
            markdown: Markdown::default(),
        }
    }

    /// Returns what is to be written, and forgets it.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Takes the new width of the terminal.
    pub(super) fn resize(&mut self, width: u16) {
        self.screen.stdout.width = width.max(1);
        self.screen.stderr.width = width.max(1);
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
        if self.shared() && self.last == Last::Line {
            self.push(To::Stderr, "\n");
        }
        if self.screen.stdout.tty {
            self.push(To::Stdout, &ansi::harmless(text));
        } else {
            self.push(To::Stdout, text);
        }
        if self.screen.stdout.tty {
            self.last = Last::Text;
        }
    }

    /// Prints text of the answer in whole lines: the reader prints them whenever it likes, and nothing of ours may stand in
    /// the line that it prints to.
    fn text_for_a_reader(&mut self, text: &str) {
        self.part.push_str(text);
        let end = match self.part.rfind('\n') {
            Some(end) => end + 1,
            None if self.part.len() > LONGEST_PART => self.part.len(),
            None => return,
        };
        let rest = self.part.split_off(end);
        let lines = std::mem::replace(&mut self.part, rest);
        self.erase();
        self.answered = true;
        self.push(To::Stdout, &lines);
    }

    /// Prints whole lines of the rendered answer.
    fn rendered(&mut self, lines: &str) {
        if lines.is_empty() {
            return;
        }
        self.erase();
        if self.shared() && self.last == Last::Line {
            self.push(To::Stderr, "\n");
        }
        self.push(To::Stdout, lines);
        self.last = Last::Text;
    }

    /// Prints what of the rendered answer waits for the end of its block.
    fn flush_markdown(&mut self) {
        let rest = self.markdown.flush(self.page());
        self.rendered(&rest);
    }

    fn page(&self) -> Page {
        let Surface { width, colour, .. } = self.screen.stdout;
        // A page that is much wider is hard to read; the last column stays free.
        let width = usize::from(width).saturating_sub(1).clamp(10, 100);
        Page { width, colour, bullet: self.glyphs.bullet(), bar: self.glyphs.bar() }
    }

    /// Ends the line of the answer, if there is one to end.
    pub(super) fn end_text_line(&mut self) {
        self.flush_markdown();
        if self.stdout_column > 0 || !self.part.is_empty() {
            self.erase();
            self.answered = true;
            let line = std::mem::take(&mut self.part) + "\n";
            self.push(To::Stdout, &line);
        }
    }

    /// A message is complete. Where a reader may print it to our terminal, it gets the end of its last line now.
    pub(super) fn end_message(&mut self) {
        if self.screen.piped {
            self.end_text_line();
        }
    }

    /// Prints a line to standard error. On a terminal it begins where a line begins, apart from the answer.
    pub(super) fn line(&mut self, line: &Line) {
        self.flush_markdown();
        self.erase();
        self.leave_text();
        let rendered = line.render(self.screen.stderr.colour) + "\n";
        self.push(To::Stderr, &rendered);
        self.last = Last::Line;
    }

    /// Prints an empty line to standard error, unless nothing was printed yet or one is due anyway.
    pub(super) fn blank(&mut self) {
        let apart = self.last == Last::Line || (self.screen.piped && self.answered);
        if apart && self.screen.stderr.tty {
            self.erase();
            self.push(To::Stderr, "\n");
        }
    }

    /// Shows what is going on, until something is printed. Where lines cannot be erased, nothing is shown.
    pub(super) fn status(&mut self, status: Option<Status>) {
        if !self.screen.stderr.tty || !self.screen.stderr.erases {
            return;
        }
        // From the first line of the answer on, its reader may be printing.
        if self.screen.piped && self.answered {
            return;
        }
        let wanted = match status {
            None => None,
            Some(Status::Line(line)) => {
                self.flush_markdown();
                if !matches!(self.shown, Some(Shown::Line(_))) {
                    self.erase();
                    self.leave_text();
                }
                Some(Shown::Line(line))
            }
            Some(Status::Spinner { line, .. }) if self.column() == 0 => Some(Shown::Line(line)),
            Some(Status::Spinner { picture, .. }) => {
                // Room for the blank, the picture, and a character whose width we got wrong.
                let room = self.column() + 4 <= usize::from(self.screen.stderr.width);
                room.then_some(Shown::Behind(picture))
            }
        };
        if wanted == self.shown {
            return;
        }
        self.erase();
        match &wanted {
            None => {}
            Some(Shown::Line(line)) => {
                // The last column stays free: some terminals begin a new line when it is filled.
                let columns = usize::from(self.screen.stderr.width).saturating_sub(1);
                let line = line.clone().cut(columns, self.glyphs).render(self.screen.stderr.colour);
                self.push_raw(To::Stderr, &line);
            }
            Some(Shown::Behind(picture)) => self.push_raw(To::Stderr, &format!(" {picture}")),
        }
        self.shown = wanted;
    }

    /// Takes the status away.
    fn erase(&mut self) {
        match self.shown.take() {
            None => {}
            Some(Shown::Line(_)) => self.push_raw(To::Stderr, "\r\x1b[K"),
            Some(Shown::Behind(_)) => self.push_raw(To::Stderr, "\x08\x08\x1b[K"),
        }
    }

    /// Ends a line of the answer on a shared terminal, and leaves an empty one; in a shared file, ends it.
    fn leave_text(&mut self) {
        if self.screen.piped && self.stdout_column > 0 {
            // Of a line that was too long to wait for its end, the beginning may be on the screen.
            return self.push_raw(To::Stderr, "\n");
        }
        if self.screen.one_file && self.stdout_column > 0 {
            self.push_raw(To::Stderr, "\n");
            self.stdout_column = 0;
            return;
        }
        if !self.shared() || self.last != Last::Text {
            return;
        }
        let gap = if self.column() > 0 { "\n\n" } else { "\n" };
        self.push(To::Stderr, gap);
        self.last = Last::Line;
    }

    /// Says whether both streams end on one terminal.
    fn shared(&self) -> bool {
        self.screen.stdout.tty && self.screen.stderr.tty
    }

    /// Where the cursor of the terminal behind standard error is.
    fn column(&self) -> usize {
        if self.shared() { self.stdout_column } else { self.stderr_column }
    }

    /// Writes harmless text and follows the cursor.
    fn push(&mut self, to: To, text: &str) {
        let shared = self.shared();
        let (surface, column) = match to {
            To::Stdout => (self.screen.stdout, &mut self.stdout_column),
            To::Stderr if shared => (self.screen.stderr, &mut self.stdout_column),
            To::Stderr => (self.screen.stderr, &mut self.stderr_column),
        };
        *column = advance(*column, text, usize::from(surface.width));
        self.push_raw(to, text);
    }

    fn push_raw(&mut self, to: To, text: &str) {
        match self.pieces.last_mut() {
            Some(piece) if piece.to == to => piece.bytes.extend_from_slice(text.as_bytes()),
            _ => self.pieces.push(Piece { to, bytes: text.as_bytes().to_vec() }),
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
            'm' if escape => escape = false,
            _ if escape => {}
            '\t' => column = (column / 8 * 8 + 8).min(width.saturating_sub(1)),
            c => {
                let wide = words::char_width(c);
                column = if column + wide > width { wide } else { column + wide };
            }
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_outcome_of_a_cut_line_stays() {
        let line = Line::of(Paint::Plain, "x ")
            .and(Paint::Plain, "Bash make everything")
            .and(Paint::Red, ": exit 1");
        assert_eq!(line.clone().cut(20, Glyphs::Unicode).render(false), "x Bash make…: exit 1");
        assert_eq!(line.clone().cut(40, Glyphs::Unicode).render(false), "x Bash make everything: exit 1");
        assert_eq!(line.cut(7, Glyphs::Unicode).render(false), "x Ba…:…");
    }
}
