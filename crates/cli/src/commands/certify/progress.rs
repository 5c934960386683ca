//! The progress of the suite: a bar on a terminal, a line for each case elsewhere.

use std::io::Write;

use bowline_certify::{CaseStatus, ReportCell, SuiteProgress};
use bowline_providers::ansi;

use crate::ui::terminal;

/// The width of the bar.
const WIDTH: usize = 24;

/// Shows the progress on standard error.
#[derive(Debug)]
pub(super) struct ProgressBar {
    terminal: bool,
    all: usize,
    done: usize,
    red: usize,
    trying: Vec<&'static str>,
    shown: bool,
}

impl ProgressBar {
    pub(super) fn new(terminal: bool) -> Self {
        Self { terminal, all: 0, done: 0, red: 0, trying: Vec::new(), shown: false }
    }

    pub(super) fn tell(&mut self, news: &SuiteProgress<'_>) {
        match news {
            SuiteProgress::Begun(all) => self.all = *all,
            SuiteProgress::Trying(case) => self.trying.push(case),
            SuiteProgress::Done(cell) => self.done(cell),
        }
        if self.terminal {
            self.clear();
            say(&self.draw(usize::from(terminal::width())));
            self.shown = true;
        }
    }

    fn done(&mut self, cell: &ReportCell) {
        self.done += 1;
        self.red += usize::from(cell.status == CaseStatus::Red);
        self.trying.retain(|case| *case != cell.case);
        if !self.terminal {
            let (status, took) = (cell.status.as_str(), super::matrix::seconds(cell.took_ms));
            self.line(&format!("{}/{} {}: {status}{took}", self.done, self.all, cell.case));
        }
    }

    fn draw(&self, width: usize) -> String {
        let full = (WIDTH * self.done).checked_div(self.all).unwrap_or(WIDTH);
        let red = if self.red > 0 { format!(", {} red", self.red) } else { String::new() };
        let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(WIDTH - full));
        let line = format!("{bar} {}/{}{red}  {}", self.done, self.all, self.trying.join(", "));
        // Leave the last column free: some terminals wrap as soon as it is filled.
        line.chars().take(width.saturating_sub(1)).collect()
    }

    /// Prints a line above the bar.
    pub(super) fn line(&mut self, text: &str) {
        self.clear();
        say(&format!("{text}\n"));
    }

    /// Erases the bar.
    pub(super) fn clear(&mut self) {
        if self.shown {
            // Carriage return, erase to the end of the line.
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
            self.shown = false;
        }
    }
}

/// Prints to standard error. If it is closed, there is no place to report that.
pub(super) fn say(text: &str) {
    let _ = std::io::stderr().write_all(ansi::harmless(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_fits() {
        let mut bar = ProgressBar { all: 4, done: 1, red: 1, ..ProgressBar::new(true) };
        bar.trying = vec!["text", "usage"];
        assert_eq!(bar.draw(80), "[######..................] 1/4, 1 red  text, usage");
        assert_eq!(bar.draw(10), "[######..");
    }
}
