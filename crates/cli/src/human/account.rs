//! The end of a run on the screen: why there is no complete answer, what was refused and changed, and one line with who
//! answered, what it took and how to find it again.

use bowline_protocol::kinds::Outcome;

use super::canvas::{Line, Paint};
use super::remarks::Weight;
use super::{Detail, Piece, Renderer, Summary, footer, words};

impl Renderer {
    /// Shows how it ended.
    pub(crate) fn finish(&mut self, summary: &Summary) -> Vec<Piece> {
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
            // A warning with the same words stands above.
            let message = words::one_line(&failure.message);
            let cause = Some(format!("caused by: {message}")).filter(|_| self.warned.contains(&message));
            let text = footer::failure(&failure, summary.now, &self.options);
            for line in text.lines().filter(|line| Some(*line) != cause.as_deref()) {
                self.labelled(line);
            }
        } else if let Some(ending) = footer::ending(&self.tally, self.speech.said_anything()) {
            self.say(Weight::Always, &Line::of(Paint::Yellow, ending));
        }
        for line in self.refusals.lines() {
            self.labelled(&line);
        }
        self.say_account(summary);
        self.canvas.take()
    }

    /// Returns the one line of the footer.
    pub(crate) fn footer(&self, summary: &Summary, columns: usize) -> String {
        let footer = footer::Footer {
            provider: self.who.as_deref(),
            retries: self.retries,
            cached: self.options.detail >= Detail::Verbose,
        };
        footer.line(summary, &self.tally, columns, self.options.glyphs)
    }

    fn say_account(&mut self, summary: &Summary) {
        let glyphs = self.options.glyphs;
        for line in self.files.lines(self.options.cwd.as_deref(), glyphs.ellipsis()) {
            self.say(Weight::Usual, &Line::of(Paint::Plain, line));
        }
        let stderr = self.canvas.screen().stderr;
        let columns = if stderr.tty && self.options.detail <= Detail::Usual {
            usize::from(stderr.width)
        } else {
            usize::MAX
        };
        let line = self.footer(summary, columns);
        self.say(Weight::Usual, &Line::of(Paint::Dim, line));
        if let Some(journal) = &summary.journal {
            let text = format!("journal {}", words::one_line(journal));
            self.say(Weight::Verbose, &Line::of(Paint::Dim, text));
        }
    }
}
