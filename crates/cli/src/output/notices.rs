//! Desktop notices through the terminal that shows a run, where the machine has no program for them.

use bowline::attention::{Alert, AlertFinder, Attention};
use bowline::detect::Surroundings;
use bowline_protocol::Event;

use super::sink::Sink;

/// Finds the events that a person should know of.
#[derive(Debug)]
pub(crate) struct TerminalNotices {
    attention: Attention,
    finder: AlertFinder,
    variables: Surroundings,
}

impl TerminalNotices {
    /// For a run of one prompt.
    pub(crate) fn of_task(attention: &Attention) -> Self {
        Self {
            attention: attention.clone(),
            finder: AlertFinder::of_task(),
            variables: Surroundings::from_env(),
        }
    }

    /// Returns the texts to show for a batch of events.
    fn batch(&mut self, events: &[Event]) -> Vec<String> {
        let alerts = self.finder.batch(events);
        alerts.iter().filter_map(|alert| self.text(alert)).collect()
    }

    /// Returns the text to show at the end.
    fn finish(&mut self) -> Option<String> {
        let last = self.finder.finish();
        last.and_then(|alert| self.text(&alert))
    }

    fn text(&self, alert: &Alert) -> Option<String> {
        self.attention.wants_terminal(alert.event, &self.variables).then(|| alert.summary.clone())
    }
}

impl Sink {
    /// Shows desktop notices through the terminal.
    pub(crate) fn notify(&mut self, notices: TerminalNotices) {
        self.notices = Some(notices);
    }

    pub(super) fn show_notices(&mut self, events: &[Event]) {
        let texts = self.notices.as_mut().map(|notices| notices.batch(events));
        texts.into_iter().flatten().for_each(|text| self.ui.borrow_mut().notice(&text));
    }

    pub(super) fn show_last_notice(&mut self) {
        if let Some(text) = self.notices.as_mut().and_then(TerminalNotices::finish) {
            self.ui.borrow_mut().notice(&text);
        }
    }
}
