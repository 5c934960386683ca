//! Tables: aligned columns that fit the width of the terminal.
//!
//! A table that fits is drawn with one line for each row. A wider one gets narrower columns with wrapped cells. If that would
//! break words, or leave columns of a few letters, each row becomes a block of `header: value` lines.
//!
//! Deliberately absent: boxes. They cost two columns for each cell, and a table without them can be copied.

use pulldown_cmark::Alignment;

use super::MarkdownPage;
use super::lines::{BOLD, DIM, Part, StyledLine, broken, cut, painted, widths};
use crate::human::words;

/// The gap between two columns.
const GAP: usize = 2;

/// The minimum width of a narrowed column.
const NARROWEST: usize = 10;

/// The indentation of the further lines of a value in a block.
const INDENT: usize = 2;

/// The separator of a name and its value in a block.
const NAME_END: &str = ": ";

/// The character for `<br>` inside a cell.
pub(super) const LINE_END: &str = "\n";

/// A table that is being read.
#[derive(Debug, Default)]
pub(super) struct MarkdownTable {
    alignments: Vec<Alignment>,
    /// The rows; the first one is the header.
    rows: Vec<Vec<Vec<Part>>>,
}

impl MarkdownTable {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    /// Begins a row.
    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Adds a cell to the last row.
    pub(super) fn cell(&mut self, parts: Vec<Part>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(parts);
        }
    }

    /// Draws the table, with a prefix before each line. Stops at the maximum size.
    pub(super) fn draw(&self, prefix: &str, page: MarkdownPage, longest: usize, out: &mut String) {
        let room = page.columns.saturating_sub(words::width(prefix));
        match self.columns(room) {
            Some(columns) => self.aligned(&columns, prefix, page, longest, out),
            None => self.blocks(prefix, room, page, longest, out),
        }
    }

    /// Returns the width of each column; `None` if they do not fit.
    fn columns(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let (mut whole, mut least) = (vec![0; count], vec![0; count]);
        for (place, cell) in self.rows.iter().flat_map(|row| row.iter().take(count).enumerate()) {
            for line in cell_lines(cell) {
                let (width, longest_word) = widths(line);
                whole[place] = width.max(whole[place]);
                least[place] = width.min(longest_word.max(NARROWEST)).max(least[place]);
            }
        }
        let room = room.checked_sub(GAP * count.saturating_sub(1))?;
        let mut left = room.checked_sub(least.iter().sum())?;
        // Widen each column that is too narrow by one until the width is used up, so that narrow columns get all they need.
        let mut columns = least;
        while left > 0 {
            let mut wanting: Vec<usize> =
                (0..count).filter(|place| columns[*place] < whole[*place]).collect();
            if wanting.is_empty() {
                break;
            }
            wanting.sort_by_key(|place| columns[*place]);
            for place in wanting.into_iter().take(left) {
                columns[place] += 1;
                left -= 1;
            }
        }
        Some(columns)
    }

    /// Draws rows side by side.
    fn aligned(&self, columns: &[usize], prefix: &str, page: MarkdownPage, longest: usize, out: &mut String) {
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<StyledLine>> = columns
                .iter()
                .enumerate()
                .map(|(place, width)| {
                    let cell = row.get(place).map(Vec::as_slice).unwrap_or_default();
                    cell_lines(cell).flat_map(|line| broken(line, *width, *width)).collect()
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                if out.len() > longest {
                    return;
                }
                out.push_str(prefix);
                // Write blanks only before the next text, so that no line ends with a blank.
                let mut blanks = 0;
                for (place, cell) in cells.iter().enumerate() {
                    let empty = StyledLine::default();
                    let text = cell.get(line).unwrap_or(&empty);
                    let spare = columns[place].saturating_sub(text.width);
                    let before = match self.alignments[place] {
                        Alignment::Right => spare,
                        Alignment::Center => spare / 2,
                        Alignment::Left | Alignment::None => 0,
                    };
                    if text.width > 0 {
                        out.push_str(&" ".repeat(blanks + before));
                        text.paint(page.colour, out);
                        blanks = spare - before;
                    } else {
                        blanks += spare;
                    }
                    blanks += GAP;
                }
                out.push('\n');
            }
            if number == 0 {
                let rules: Vec<String> = columns.iter().map(|width| page.rule.repeat(*width)).collect();
                out.push_str(prefix);
                out.push_str(&painted(&rules.join(&" ".repeat(GAP)), &[DIM], page.colour));
                out.push('\n');
            }
        }
    }

    /// Draws each row as lines of `header: value`, with an empty line between rows.
    ///
    /// A name that is longer than a line is cut, because each row repeats it. The whole header is then printed first.
    fn blocks(&self, prefix: &str, room: usize, page: MarkdownPage, longest: usize, out: &mut String) {
        let Some((header, rows)) = self.rows.split_first() else { return };
        let name_room = room.saturating_sub(NAME_END.len()).max(1);
        let cut_names: Vec<_> = header.iter().map(|name| cut(name, name_room, page.ellipsis)).collect();
        let names: Vec<Option<Vec<Part>>> = header
            .iter()
            .zip(&cut_names)
            .map(|(name, shorter)| {
                let mut parts = shorter.as_ref().unwrap_or(name).clone();
                parts.push((NAME_END.to_owned(), vec![BOLD]));
                (widths(name).0 > 0).then_some(parts)
            })
            .collect();
        // A table without rows has only its header.
        let whole_header = rows.is_empty() || cut_names.iter().any(Option::is_some);
        let header_rows = if whole_header { std::slice::from_ref(header) } else { &[] };
        let unnamed = header_rows.iter().map(|row| (row, [].as_slice()));
        let named = rows.iter().map(|row| (row, names.as_slice()));
        let mut first = true;
        for (row, names) in unnamed.chain(named) {
            let values = row.iter().enumerate().filter(|(_, cell)| widths(cell).0 > 0);
            let mut begun = false;
            for (place, cell) in values {
                if !begun && !first {
                    out.push_str(prefix.trim_end());
                    out.push('\n');
                }
                (begun, first) = (true, false);
                let mut parts: Vec<Part> = names.get(place).cloned().flatten().unwrap_or_default();
                parts.extend(cell.iter().cloned());
                let rest = room.saturating_sub(INDENT).max(1);
                for (number, line) in broken(&parts, room.max(1), rest).into_iter().enumerate() {
                    if out.len() > longest {
                        return;
                    }
                    out.push_str(prefix);
                    out.push_str(&" ".repeat(if number == 0 { 0 } else { INDENT }));
                    line.paint(page.colour, out);
                    out.push('\n');
                }
            }
        }
    }
}

/// Splits a cell at its line ends.
fn cell_lines(cell: &[Part]) -> impl Iterator<Item = &[Part]> {
    cell.split(|(text, _)| text == LINE_END)
}
