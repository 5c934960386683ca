//! The progress of the suite: a bar on a terminal, a line for each case elsewhere.

use bowline_certify::{CaseStatus, ReportCell, SuiteProgress};

use crate::ui::{Ui, terminal};

/// The width of the bar.
const WIDTH: usize = 24;

/// Shows the progress on standard error.
#[derive(Debug)]
pub(super) struct ProgressBar {
    ui: Ui,
    all: usize,
    done: usize,
    red: usize,
    trying: Vec<&'static str>,
}

impl ProgressBar {
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, all: 0, done: 0, red: 0, trying: Vec::new() }
    }

    pub(super) fn tell(&mut self, news: &SuiteProgress<'_>) {
        match news {
            SuiteProgress::Begun(all) => self.all = *all,
            SuiteProgress::Trying(case) => self.trying.push(case),
            SuiteProgress::Done(cell) => self.done(cell),
        }
        if self.ui.is_terminal() {
            let bar = self.bar(usize::from(terminal::width()));
            self.ui.draw(&bar);
        }
    }

    fn done(&mut self, cell: &ReportCell) {
        self.done += 1;
        self.red += usize::from(cell.status == CaseStatus::Red);
        self.trying.retain(|case| *case != cell.case);
        if !self.ui.is_terminal() {
            let (status, took) = (cell.status.as_str(), super::matrix::seconds(cell.took_ms));
            let line = format!("{}/{} {}: {status}{took}", self.done, self.all, cell.case);
            self.ui.status(&line);
        }
    }

    fn bar(&self, width: usize) -> String {
        let full = (WIDTH * self.done).checked_div(self.all).unwrap_or(WIDTH);
        let red = if self.red > 0 { format!(", {} red", self.red) } else { String::new() };
        let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(WIDTH - full));
        let line = format!("{bar} {}/{}{red}  {}", self.done, self.all, self.trying.join(", "));
        // Leave the last column free: some terminals wrap as soon as it is filled.
        line.chars().take(width.saturating_sub(1)).collect()
    }

    /// Erases the bar, and returns the stream that it was drawn on.
    pub(super) fn end(mut self) -> Ui {
        self.ui.erase();
        self.ui
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_fits() {
        let mut bar = ProgressBar { all: 4, done: 1, red: 1, ..ProgressBar::new(Ui::new()) };
        bar.trying = vec!["text", "usage"];
        assert_eq!(bar.bar(80), "[######..................] 1/4, 1 red  text, usage");
        assert_eq!(bar.bar(10), "[######..");
    }
}
