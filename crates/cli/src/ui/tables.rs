//! Tables: fitted to the terminal that shows them, plain columns in a pipe.
//!
//! A pipe gets one line for each row with every column, so that scripts can rely on the form. A terminal gets lines that fit
//! its width: cells wrap inside their column, and columns without any value are left out. Cells come from files and other
//! programs: no text causes a panic, and none reaches the terminal as a control sequence.

use bowline_providers::ansi::harmless;
use unicode_width::UnicodeWidthChar as _;

/// The blanks between two columns.
const GAP: usize = 2;

/// The minimum width of a column that wraps.
const NARROWEST: usize = 8;

/// The maximum padding; a longer cell only makes its own row longer.
const PADDED: usize = 100;

/// The maximum width of a cell on a terminal. `--json` has all of it.
const SHOWN: usize = 400;

/// The destination of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A file or another program.
    Pipe,
    /// A terminal with this many columns.
    Terminal { width: usize, colour: bool },
}

/// The colour of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
    Faint,
    Head,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Warning => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Faint => "\x1b[2m",
            Self::Head => "\x1b[1m",
        }
    }
}

impl Layout {
    /// Colours a text that is harmless already.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        match self {
            Self::Terminal { colour: true, .. } if tone != Tone::Plain && !text.is_empty() => {
                format!("{}{text}\x1b[0m", tone.code())
            }
            Self::Terminal { .. } | Self::Pipe => text.to_owned(),
        }
    }

    /// Wraps a paragraph and indents its lines. In a pipe it stays one line.
    pub(crate) fn paragraph(self, indent: usize, text: &str) -> String {
        let text = in_one_line(text);
        let lines = match self {
            Self::Pipe => vec![text],
            Self::Terminal { width, .. } => wrap(&text, width.saturating_sub(indent).max(NARROWEST)),
        };
        lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
    }
}

/// A table: a line of headings, and rows.
#[derive(Debug)]
pub(crate) struct TextTable<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
    whole: &'static [usize],
    indent: usize,
    tone: Option<(usize, CellTone)>,
}

/// Chooses the colour of a cell by its text.
type CellTone = fn(&str) -> Tone;

impl<const N: usize> TextTable<N> {
    /// Makes a table of harmless cells, each one line.
    pub(crate) fn new(head: [&'static str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        let rows = rows.into_iter().map(|row| row.map(|cell| in_one_line(&cell))).collect();
        Self { head, rows, whole: &[], indent: 0, tone: None }
    }

    /// Never wraps these columns, because people copy their values.
    pub(crate) fn whole(mut self, columns: &'static [usize]) -> Self {
        self.whole = columns;
        self
    }

    /// Indents each line.
    pub(crate) fn indent(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    /// Colours the cells of one column.
    pub(crate) fn tone(mut self, column: usize, tone: fn(&str) -> Tone) -> Self {
        self.tone = Some((column, tone));
        self
    }

    /// Formats the table.
    pub(crate) fn render(mut self, layout: Layout) -> String {
        if layout != Layout::Pipe {
            self.rows.iter_mut().flatten().for_each(|cell| cut(cell, SHOWN));
        }
        let widths = self.widths(layout);
        let head = self.head.map(str::to_owned);
        let mut text = lines(&head, &widths, self.indent, layout, |_| Tone::Head);
        for row in &self.rows {
            let tone = |column: usize| match self.tone {
                Some((painted, tone)) if painted == column => tone(&row[column]),
                Some(_) | None => Tone::Plain,
            };
            text.push_str(&lines(row, &widths, self.indent, layout, tone));
        }
        text
    }

    /// Returns the width of each column; 0 leaves it out.
    fn widths(&self, layout: Layout) -> [usize; N] {
        let mut widths = [0; N];
        for (column, width) in widths.iter_mut().enumerate() {
            let cells = self.rows.iter().map(|row| columns(&row[column]));
            let widest = cells.max().unwrap_or(0);
            let has_values = widest > 0 || layout == Layout::Pipe;
            *width = if has_values { widest.max(columns(self.head[column])) } else { 0 };
        }
        if let Layout::Terminal { width, .. } = layout {
            let shown = widths.iter().filter(|width| **width > 0).count();
            let room = width.saturating_sub(self.indent + GAP * shown.saturating_sub(1));
            // Break words only if the lines would not fit otherwise.
            let narrowest =
                |column: usize, floor: usize| if self.whole.contains(&column) { usize::MAX } else { floor };
            let words = self.longest_words();
            shrink(&mut widths, &std::array::from_fn(|column| narrowest(column, words[column])), room);
            shrink(&mut widths, &std::array::from_fn(|column| narrowest(column, NARROWEST)), room);
        } else {
            widths.iter_mut().for_each(|width| *width = (*width).min(PADDED));
        }
        widths
    }

    /// Returns the width of the longest word of each column, at least the minimum width.
    fn longest_words(&self) -> [usize; N] {
        std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].as_str()).chain([self.head[column]]);
            let words = cells.flat_map(|cell| cell.split(' ').map(columns));
            words.max().unwrap_or(0).max(NARROWEST)
        })
    }
}

/// Narrows the widest column that is above its minimum, until all fit or all are at their minimum.
fn shrink<const N: usize>(widths: &mut [usize; N], floors: &[usize; N], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let wide = widths.iter_mut().zip(floors).filter(|(width, floor)| **width > **floor);
        match wide.map(|(width, _)| width).max() {
            Some(widest) => *widest -= 1,
            None => return,
        }
    }
}

/// Formats one row: as many lines as its longest cell needs on a terminal, one in a pipe. A column of width 0 is left out.
pub(crate) fn lines<const N: usize>(
    cells: &[String; N],
    widths: &[usize; N],
    indent: usize,
    layout: Layout,
    tone: impl Fn(usize) -> Tone,
) -> String {
    let parts: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| match layout {
            Layout::Pipe => vec![cell.clone()],
            Layout::Terminal { .. } if *width == 0 => Vec::new(),
            Layout::Terminal { .. } => wrap(cell, *width),
        })
        .collect();
    let height = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..height {
        let mut drawn = " ".repeat(indent);
        // Write blanks only before the next text, so that no line ends with a blank.
        let mut owed = 0;
        for (column, width) in widths.iter().enumerate() {
            if *width == 0 && layout != Layout::Pipe {
                continue;
            }
            let part = parts[column].get(line).map_or("", String::as_str);
            if !part.is_empty() {
                drawn.push_str(&" ".repeat(owed));
                drawn.push_str(&layout.paint(tone(column), part));
                owed = 0;
            }
            owed += width.saturating_sub(columns(part)) + GAP;
        }
        text.push_str(drawn.trim_end());
        text.push('\n');
    }
    text
}

/// Makes one harmless line of a text.
pub(crate) fn in_one_line(text: &str) -> String {
    harmless(text).replace(['\n', '\r', '\t'], " ").trim_end().to_owned()
}

/// Counts the columns of a text, character by character as most terminals do.
fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts a text that has more columns than these.
fn cut(text: &mut String, most: usize) {
    if columns(text) <= most {
        return;
    }
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > most.saturating_sub(3)
    });
    if let Some((at, _)) = end {
        text.truncate(at);
        text.push_str("...");
    }
}

/// Wraps a text at its words; a word that is longer than a line is broken. There is always at least one line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    if columns(text) <= width {
        return vec![text.to_owned()];
    }
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let long = columns(word);
        if used > 0 && used + 1 + long > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, " ");
            used += 1;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            // A character that is wider than the column gets its own line.
            if used > 0 && used + wide > width {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, c.encode_utf8(&mut [0; 4]));
            used += wide;
        }
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NARROW: Layout = Layout::Terminal { width: 40, colour: false };

    fn sample() -> TextTable<4> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned);
        let rows = [
            row(["s-20261115-1", "", "a text of several words that does not fit", "x"]),
            row(["s-2", "", "short", "y"]),
        ];
        TextTable::new(["ID", "KEY", "WHY", "END"], rows).whole(&[0])
    }

    #[test]
    fn a_pipe_has_every_column_and_a_line_for_each_row() {
        insta::assert_snapshot!(sample().render(Layout::Pipe), @r"
        ID            KEY  WHY                                        END
        s-20261115-1       a text of several words that does not fit  x
        s-2                short                                      y
        ");
    }

    #[test]
    fn a_terminal_has_lines_that_fit_and_no_empty_columns() {
        insta::assert_snapshot!(sample().render(NARROW), @r"
        ID            WHY                    END
        s-20261115-1  a text of several      x
                      words that does not
                      fit
        s-2           short                  y
        ");
    }

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let tone = |cell: &str| if cell == "y" { Tone::Good } else { Tone::Bad };
        let colour = Layout::Terminal { width: 80, colour: true };
        let painted = sample().tone(3, tone).render(colour);
        assert!(painted.contains("\x1b[1mID\x1b[0m") && painted.contains("\x1b[32my\x1b[0m"), "{painted:?}");
        for layout in [Layout::Pipe, NARROW] {
            assert!(!sample().tone(3, tone).render(layout).contains('\x1b'));
        }
    }

    #[test]
    fn one_long_cell_neither_pads_the_others_nor_floods_a_terminal() {
        let rows = || [["x".repeat(65_536), "a".to_owned()], ["b".to_owned(), "c".to_owned()]];
        let piped = TextTable::new(["LABEL", "KEY"], rows()).render(Layout::Pipe);
        assert!(piped.lines().last().is_some_and(|line| line.len() < 110), "the others are not padded");
        assert!(piped.contains(&"x".repeat(65_536)), "nothing is lost");
        let shown = TextTable::new(["LABEL", "KEY"], rows()).render(NARROW);
        assert!(shown.lines().count() < 20, "{shown}");
    }

    #[test]
    fn a_paragraph_wraps_behind_its_indent() {
        assert_eq!(Layout::Pipe.paragraph(2, "one two three"), "  one two three\n");
        let narrow = Layout::Terminal { width: 12, colour: false };
        assert_eq!(narrow.paragraph(2, "one two three"), "  one two\n  three\n");
    }

    proptest! {
        /// Labels, keys and paths can be any text: long, wide, empty, with control characters and combining marks.
        #[test]
        fn no_text_makes_a_table_panic_or_reach_a_terminal_raw(
            rows in prop::collection::vec(
                prop::array::uniform3(prop_oneof![
                    ".{0,40}",
                    "[\\x00-\\x1f\\x7f-\\u{9f} a]{0,20}",
                    "[日本語\u{300}\u{200d}👩🏽 ]{0,30}",
                    Just(String::new()),
                    (0usize..70_000).prop_map(|long| "é".repeat(long)),
                ]),
                0..5,
            ),
            width in 0usize..200,
        ) {
            for layout in [Layout::Pipe, Layout::Terminal { width, colour: false }] {
                let table = TextTable::new(["A", "B", "C"], rows.clone()).whole(&[1]).indent(2);
                let text = table.render(layout);
                prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
                if layout == Layout::Pipe {
                    prop_assert_eq!(text.lines().count(), rows.len() + 1);
                } else {
                    let whole = rows.iter().map(|row| columns(&in_one_line(&row[1])).min(SHOWN)).max();
                    let room = width.max(2 + 3 * (NARROWEST + GAP) + whole.unwrap_or(0) + 2);
                    for line in text.lines() {
                        prop_assert!(columns(line) <= room, "{} > {room}: {line:?}", columns(line));
                    }
                }
            }
        }
    }
}
