//! The live table of `bowline run --tasks`: rows in, lines out that fit the terminal.
//!
//! Pure, like the renderer of a run. The caller draws the lines again when they change.

use bowline_protocol::Millis;

use super::line::{Paint, PaintedLine};
use super::words::{self, Glyphs};

/// The blanks between two columns.
const GAP: usize = 2;

/// The maximum width of a name: the last column needs room too.
const WIDEST_NAME: usize = 24;

/// The minimum width of the last column. Below it, other columns are left out.
const NARROWEST: usize = 16;

/// The width below which the last column is left out too.
const UNREADABLE: usize = 8;

/// The number of columns before the last one.
const COLUMNS: usize = 5;

/// The headings of the columns.
const HEAD: [&str; COLUMNS] = ["TASK", "STATE", "PROVIDER", "TIME", "COST"];

/// The columns in the order in which they are left out.
const LEFT_OUT: [usize; 3] = [4, 2, 3];

/// The state of a task in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Waiting,
    Running,
    Completed,
    Failed,
    Cancelled,
    /// The output ended before the answer was complete.
    Truncated,
    /// It was not started: the budget was used up, or the command was stopped.
    NotBegun,
}

impl TaskState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Truncated => "truncated",
            Self::NotBegun => "not begun",
        }
    }

    fn paint(self) -> Paint {
        match self {
            Self::Waiting | Self::NotBegun => Paint::Dim,
            Self::Running => Paint::Plain,
            Self::Completed => Paint::Green,
            Self::Failed | Self::Truncated => Paint::Red,
            Self::Cancelled => Paint::Yellow,
        }
    }

    /// Returns the place of a row if not all fit: the lowest are shown.
    fn rank(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Failed | Self::Truncated | Self::Cancelled => 1,
            Self::Waiting => 2,
            Self::Completed | Self::NotBegun => 3,
        }
    }
}

/// A task of the table. Its texts may be of a file or an agent.
#[derive(Clone, Debug)]
pub(crate) struct TaskRow<'a> {
    pub(crate) id: &'a str,
    pub(crate) state: TaskState,
    pub(crate) provider: Option<&'a str>,
    /// The time so far, or that it took.
    pub(crate) took: Option<Millis>,
    pub(crate) cost: Option<f64>,
    /// The last action, or why the task failed.
    pub(crate) action: String,
}

/// The terminal of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableScreen {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) glyphs: Glyphs,
    pub(crate) colour: bool,
}

/// Formats the table: a heading, the rows that fit, and the counts.
pub(crate) fn task_table(rows: &[TaskRow<'_>], last: &str, screen: TableScreen) -> Vec<String> {
    let TableScreen { height, glyphs, colour, .. } = screen;
    // Leave the last column and the last row free: some terminals wrap or scroll as soon as they are filled.
    let width = screen.width.saturating_sub(1);
    let most = height.saturating_sub(1).max(1);
    // A heading and the counts need a line each; a terminal of two rows shows the counts alone.
    let shown = chosen(rows, most.saturating_sub(2));
    let mut lines = Vec::with_capacity(shown.len() + 2);
    if !shown.is_empty() {
        let cells: Vec<[String; COLUMNS]> = shown.iter().map(|row| cells(row, glyphs)).collect();
        let widths = widths(&cells, width);
        let head = HEAD.map(|cell| (Paint::Dim, cell.to_owned()));
        lines.push(line(head, (Paint::Dim, "LAST ACTION"), &widths, width, glyphs));
        for (row, cells) in shown.iter().zip(cells) {
            let [id, state, provider, time, cost] = cells;
            let paint = row.state.paint();
            let cells = [
                (Paint::Plain, id),
                (paint, state),
                (Paint::Plain, provider),
                (Paint::Plain, time),
                (Paint::Plain, cost),
            ];
            lines.push(line(cells, (Paint::Plain, &words::one_line(&row.action)), &widths, width, glyphs));
        }
    }
    let counts = match rows.len() {
        all if all > shown.len() && !shown.is_empty() => {
            format!("{last}{}{} of {all} shown", glyphs.dot(), shown.len())
        }
        _ => last.to_owned(),
    };
    lines.push(PaintedLine::of(Paint::Dim, words::cut(&counts, width, glyphs)));
    lines.iter().map(|line| line.render(colour)).collect()
}

/// Returns the rows to show, in their order.
fn chosen<'r, 'a>(rows: &'r [TaskRow<'a>], most: usize) -> Vec<&'r TaskRow<'a>> {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    // Stable: among those of a rank, the first of the file.
    places.sort_by_key(|place| rows[*place].state.rank());
    places.truncate(most);
    places.sort_unstable();
    places.into_iter().map(|place| &rows[place]).collect()
}

fn cells(row: &TaskRow<'_>, glyphs: Glyphs) -> [String; COLUMNS] {
    let name = |name: &str| words::cut(&words::one_line(name), WIDEST_NAME, glyphs);
    [
        name(row.id),
        row.state.word().to_owned(),
        row.provider.map(name).unwrap_or_default(),
        row.took.map(words::whole_seconds).unwrap_or_default(),
        row.cost.and_then(words::money).unwrap_or_default(),
    ]
}

/// Returns the width of each column; 0 leaves it out.
fn widths(cells: &[[String; COLUMNS]], width: usize) -> [usize; COLUMNS] {
    let mut widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let widest = cells.iter().map(|row| words::width(&row[column])).max().unwrap_or(0);
        // A column without any value only takes room.
        if widest == 0 { 0 } else { widest.max(HEAD[column].len()) }
    });
    for column in LEFT_OUT {
        let used: usize = widths.iter().filter(|width| **width > 0).map(|width| width + GAP).sum();
        if used + NARROWEST > width {
            widths[column] = 0;
        }
    }
    widths
}

fn line(
    cells: [(Paint, String); COLUMNS],
    (paint, action): (Paint, &str),
    widths: &[usize; COLUMNS],
    width: usize,
    glyphs: Glyphs,
) -> PaintedLine {
    let (mut line, mut left) = (PaintedLine::default(), width);
    for ((paint, cell), wide) in cells.into_iter().zip(widths).filter(|(_, wide)| **wide > 0) {
        let cell = words::cut(&cell, (*wide).min(left), glyphs);
        let gap = (wide + GAP).saturating_sub(words::width(&cell)).min(left - words::width(&cell));
        left -= words::width(&cell) + gap;
        line = line.and(paint, cell).and(Paint::Plain, " ".repeat(gap));
    }
    if left < UNREADABLE {
        return line;
    }
    line.and(paint, words::cut(action, left, glyphs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row<'a>(id: &'a str, state: TaskState, action: &str) -> TaskRow<'a> {
        let begun = !matches!(state, TaskState::Waiting | TaskState::NotBegun);
        TaskRow {
            id,
            state,
            provider: begun.then_some("knotwork"),
            took: begun.then_some(Millis(62_400)),
            cost: (state == TaskState::Completed).then_some(0.0123),
            action: action.to_owned(),
        }
    }

    fn rows() -> Vec<TaskRow<'static>> {
        vec![
            row("parser", TaskState::Completed, ""),
            row("lexer", TaskState::Failed, "the model's service is overloaded"),
            row("docs", TaskState::Running, "Bash cargo doc --no-deps --all-features (3 s)"),
            row("tests", TaskState::Running, "working (3 s)"),
            row("release", TaskState::Waiting, ""),
        ]
    }

    fn shown(width: usize, height: usize) -> String {
        let screen = TableScreen { width, height, glyphs: Glyphs::Unicode, colour: false };
        let lines = task_table(&rows(), "2 running · 1 waiting", screen);
        lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    #[test]
    fn every_task_has_a_row() {
        insta::assert_snapshot!(shown(80, 24), @r"
        TASK     STATE      PROVIDER  TIME       COST     LAST ACTION
        parser   completed  knotwork  1 min 2 s  $0.0123
        lexer    failed     knotwork  1 min 2 s           the model's service is overl…
        docs     running    knotwork  1 min 2 s           Bash cargo doc --no-deps --a…
        tests    running    knotwork  1 min 2 s           working (3 s)
        release  waiting
        2 running · 1 waiting
        ");
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        insta::assert_snapshot!(shown(50, 24), @r"
        TASK     STATE      TIME       LAST ACTION
        parser   completed  1 min 2 s
        lexer    failed     1 min 2 s  the model's servi…
        docs     running    1 min 2 s  Bash cargo doc --…
        tests    running    1 min 2 s  working (3 s)
        release  waiting
        2 running · 1 waiting
        ");
        insta::assert_snapshot!(shown(24, 24), @r"
        TASK     STATE
        parser   completed
        lexer    failed
        docs     running
        tests    running
        release  waiting
        2 running · 1 waiting
        ");
    }

    #[test]
    fn a_low_terminal_has_the_rows_that_matter() {
        insta::assert_snapshot!(shown(80, 6), @r"
        TASK   STATE    PROVIDER  TIME       LAST ACTION
        lexer  failed   knotwork  1 min 2 s  the model's service is overloaded
        docs   running  knotwork  1 min 2 s  Bash cargo doc --no-deps --all-features (…
        tests  running  knotwork  1 min 2 s  working (3 s)
        2 running · 1 waiting · 3 of 5 shown
        ");
        assert_eq!(shown(80, 2), "2 running · 1 waiting\n");
    }

    #[test]
    fn colour_is_for_states() {
        let screen = TableScreen { width: 80, height: 9, glyphs: Glyphs::Unicode, colour: true };
        let text = task_table(&rows(), "", screen).join("\n");
        assert!(
            text.contains("\x1b[32mcompleted\x1b[0m") && text.contains("\x1b[31mfailed\x1b[0m"),
            "{text:?}"
        );
    }

    proptest! {
        /// Ids come from a file, providers and actions from agents.
        #[test]
        fn no_text_leaves_its_line_or_reaches_a_terminal_raw(
            ids in prop::collection::vec("[\\x00-\\x1f\\x7f-\\u{9f} a日👩🏽\u{300}]{0,60}", 0..9),
            action in ".{0,200}",
            width in 1usize..120,
            height in 1usize..12,
        ) {
            let rows: Vec<TaskRow<'_>> = ids.iter().map(|id| TaskRow {
                provider: Some(id), ..row(id, TaskState::Running, &action)
            }).collect();
            let screen = TableScreen { width, height, glyphs: Glyphs::Unicode, colour: false };
            let lines = task_table(&rows, "1 running", screen);
            prop_assert!(lines.len() <= height.saturating_sub(1).max(1), "{lines:#?}");
            for line in lines {
                prop_assert!(words::width(&line) < width.max(2), "{width}: {line:?}");
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
