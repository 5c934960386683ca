//! Prints the end of a run: why there is no complete answer, denials, changed files, and the footer.

use bowline_protocol::kinds::Outcome;

use super::line::{Paint, PaintedLine};
use super::remarks::RemarkLevel;
use super::{DetailLevel, OutputPiece, Renderer, RunSummary, footer, words};

impl Renderer {
    /// Prints the outcome.
    pub(crate) fn finish(&mut self, summary: &RunSummary) -> Vec<OutputPiece> {
        self.busy.ended = true;
        self.canvas.status(None);
        self.speech.end(self.options.glyphs, &mut self.canvas);
        self.abandon_calls();
        let failure = match self.tally.outcome {
            Some(Outcome::Cancelled | Outcome::Completed) => None,
            Some(Outcome::Failed | Outcome::Truncated) | None => self.tally.trouble(),
        };
        if let Some(failure) = &failure {
            self.suspended.retain(|suspended| !suspended.is_told_by(failure));
        }
        self.resume();
        self.canvas.blank();
        if let Some(failure) = failure {
            // A warning with the same text is printed above.
            let message = words::one_line(&failure.message);
            let cause = Some(format!("caused by: {message}")).filter(|_| self.warned.contains(&message));
            let text = footer::failure(&failure, summary.now, &self.options);
            for line in text.lines().filter(|line| Some(*line) != cause.as_deref()) {
                self.labelled(line);
            }
        } else if let Some(ending) = footer::ending(&self.tally, self.speech.said_anything()) {
            self.say(RemarkLevel::Always, &PaintedLine::of(Paint::Yellow, ending));
        }
        for line in self.refusals.lines() {
            self.labelled(&line);
        }
        self.say_account(summary);
        self.canvas.take()
    }

    /// Returns the line of the footer.
    pub(crate) fn footer(&self, summary: &RunSummary, columns: usize) -> String {
        let footer = footer::RunFooter {
            provider: self.who.as_deref(),
            retries: self.retries,
            cached: self.options.detail >= DetailLevel::Verbose,
        };
        footer.line(summary, &self.tally, columns, self.options.glyphs)
    }

    fn say_account(&mut self, summary: &RunSummary) {
        let glyphs = self.options.glyphs;
        for line in self.files.lines(self.options.cwd.as_deref(), glyphs.ellipsis()) {
            self.say(RemarkLevel::Usual, &PaintedLine::of(Paint::Plain, line));
        }
        let stderr = self.canvas.screen().stderr;
        let columns = if stderr.tty { usize::from(stderr.width) } else { usize::MAX };
        let line = self.footer(summary, columns);
        self.say(RemarkLevel::Usual, &PaintedLine::of(Paint::Dim, line));
        if let Some(journal) = &summary.journal {
            let text = format!("journal {}", words::one_line(journal));
            self.say(RemarkLevel::Verbose, &PaintedLine::of(Paint::Dim, text));
        }
    }
}
