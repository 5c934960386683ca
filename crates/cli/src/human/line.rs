//! One line for standard error: its parts and their styles, cut or wrapped to the width of a terminal.

use super::words::{self, Glyphs};

/// The style of a part of a line. It never carries a meaning alone.
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
pub(super) struct PaintedLine {
    parts: Vec<(Paint, String)>,
}

impl PaintedLine {
    pub(super) fn of(paint: Paint, text: impl Into<String>) -> Self {
        Self::default().and(paint, text)
    }

    pub(super) fn and(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.parts.push((paint, text.into()));
        self
    }

    /// Cuts the line to a width. The last part is the outcome and gets its share of the width.
    pub(super) fn cut(mut self, columns: usize, glyphs: Glyphs) -> Self {
        let width =
            |parts: &[(Paint, String)]| parts.iter().map(|(_, text)| words::width(text)).sum::<usize>();
        if width(&self.parts) <= columns {
            return self;
        }
        let last = if self.parts.len() > 1 { self.parts.pop() } else { None };
        // If one side needs less than half of the width, the other gets the rest.
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

    /// Returns the text without styles.
    pub(super) fn words(&self) -> String {
        self.render(false)
    }

    /// Wraps the line at words.
    pub(super) fn wrap(self, columns: usize) -> Vec<Self> {
        let text = self.words();
        let indent = words::hanging(&text, columns);
        let (mut lines, mut line) = (Vec::new(), Self::default());
        let mut gaps = words::breaks(&text, columns, indent).into_iter().peekable();
        // A gap may extend into the next part.
        let (mut begins, mut skipped) = (0, 0);
        for (paint, part) in self.parts {
            let ends = begins + part.len();
            let mut from = skipped.clamp(begins, ends);
            while let Some(gap) = gaps.next_if(|gap| gap.start < ends) {
                line = line.and(paint, &part[from - begins..gap.start - begins]);
                let next = Self::of(Paint::Plain, " ".repeat(indent));
                lines.push(std::mem::replace(&mut line, next));
                (from, skipped) = (gap.end.min(ends), gap.end);
            }
            line = line.and(paint, &part[from - begins..]);
            begins = ends;
        }
        lines.push(line);
        lines
    }

    pub(super) fn render(&self, colour: bool) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_line_keeps_its_looks() {
        let line = PaintedLine::of(Paint::Red, "error: ")
            .and(Paint::Plain, "one two ")
            .and(Paint::Dim, "three four");
        let lines: Vec<String> = line.clone().wrap(16).iter().map(|line| line.render(true)).collect();
        assert_eq!(lines, ["\x1b[31merror: \x1b[0mone two", "  \x1b[2mthree four\x1b[0m"]);
        assert_eq!(line.clone().wrap(80), [line]);
    }

    #[test]
    fn the_outcome_of_a_cut_line_stays() {
        let line = PaintedLine::of(Paint::Plain, "x ")
            .and(Paint::Plain, "Bash make everything")
            .and(Paint::Red, ": exit 1");
        assert_eq!(line.clone().cut(20, Glyphs::Unicode).render(false), "x Bash make…: exit 1");
        assert_eq!(line.clone().cut(40, Glyphs::Unicode).render(false), "x Bash make everything: exit 1");
        assert_eq!(line.cut(7, Glyphs::Unicode).render(false), "x Ba…:…");
    }
}
