//! Messages to a chat while a turn runs.

use std::fmt;
use std::time::Duration;

use bowline_protocol::{Event, Kind, Source, Timestamp};
use bowline_providers::chat::{Coalescer, CommentaryFilter, Limits, Passed};
use bowline_providers::dialect::Commentary;

use crate::run::error::Error;
use crate::run::turn::Turn;
use crate::system::clock;

type OnText<'a> = Box<dyn FnMut(&str) + Send + 'a>;
type OnStatus<'a> = Box<dyn FnMut(Option<&str>) + Send + 'a>;

/// The callbacks for messages while a turn runs. Callbacks should be quick: the next event waits for them.
#[derive(Default)]
pub struct Callbacks<'a> {
    text: Option<OnText<'a>>,
    tool: Option<OnText<'a>>,
    status: Option<OnStatus<'a>>,
}

impl fmt::Debug for Callbacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl<'a> Callbacks<'a> {
    /// Creates a set without callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Is called with new text of the answer. Words that only accompany the work are left out; the journal has them.
    #[must_use]
    pub fn on_text_delta(mut self, callback: impl FnMut(&str) + Send + 'a) -> Self {
        self.text = Some(Box::new(callback));
        self
    }

    /// Is called with the name of each tool that begins.
    #[must_use]
    pub fn on_tool_activity(mut self, callback: impl FnMut(&str) + Send + 'a) -> Self {
        self.tool = Some(Box::new(callback));
        self
    }

    /// Is called when the agent is busy with something of its own, such as `compacting`, and with nothing when that is
    /// over.
    #[must_use]
    pub fn on_system_status(mut self, callback: impl FnMut(Option<&str>) + Send + 'a) -> Self {
        self.status = Some(Box::new(callback));
        self
    }

    fn text(&mut self, text: Option<String>) {
        if let (Some(callback), Some(text)) = (&mut self.text, text) {
            callback(&text);
        }
    }
}

/// Shows a turn to the callbacks.
pub(super) struct Show<'a> {
    callbacks: Callbacks<'a>,
    filter: Option<CommentaryFilter>,
    portions: Option<Coalescer>,
    /// Whether the request was sent again: what it says now is the response, not a continuation of what was shown.
    again: bool,
}

impl<'a> Show<'a> {
    pub(super) fn new(callbacks: Callbacks<'a>, portions: Option<Limits>, commentary: Commentary) -> Self {
        let filter = match commentary {
            Commentary::Told => None,
            // Only what follows tells, so words wait for it.
            Commentary::AskedForTools | Commentary::BeforeTools | Commentary::AllButLast => {
                Some(CommentaryFilter::new(None))
            }
        };
        Self { callbacks, filter, portions: portions.map(Coalescer::new), again: false }
    }

    /// Shows everything until the turn is over.
    pub(super) async fn watch(mut self, turn: &mut Turn) -> Result<(), Error> {
        loop {
            let due = self.portions.as_ref().and_then(Coalescer::deadline);
            // Events first: text that is ready joins the portion before the portion is sent.
            let event = tokio::select! {
                biased;
                event = turn.try_next() => event?,
                () = until(due) => {
                    // Told by its own time: the timer has waited that long.
                    let portion = self.portions.as_mut().zip(due).and_then(|(portions, due)| portions.tick(due));
                    self.callbacks.text(portion);
                    continue;
                }
            };
            let Some(event) = event else { break };
            let passed = match &mut self.filter {
                Some(filter) => filter.push(event),
                None => vec![Passed { event, commentary: false }],
            };
            for Passed { event, commentary } in passed {
                self.show(&event, commentary);
            }
        }
        let held = self.filter.as_mut().map(CommentaryFilter::flush).unwrap_or_default();
        for Passed { event, commentary } in held {
            self.show(&event, commentary);
        }
        self.flush();
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a chat is told of few kinds")]
    fn show(&mut self, event: &Event, commentary: bool) {
        match &event.kind {
            Kind::TextDelta(delta) if delta.parent.is_none() && !commentary && !self.again => {
                self.say(&delta.text, event.at);
            }
            Kind::ToolStarted(tool) if tool.parent.is_none() => {
                // Earlier text is shown first.
                self.flush();
                if let Some(callback) = &mut self.callbacks.tool {
                    callback(&tool.name);
                }
            }
            Kind::Status(status) => self.status(status.status.as_deref()),
            Kind::ContextCompacted(compacted) => {
                tracing::info!(tokens_before = compacted.tokens_before, "the context was compacted");
                self.status(None);
            }
            Kind::FallbackTaken(_) => self.begin_again(),
            Kind::Retrying(_) if event.source == Source::Bowline => self.begin_again(),
            Kind::TurnEnded(_) => self.flush(),
            _ => {}
        }
    }

    /// The request is sent again: what was shown of it is not shown twice.
    fn begin_again(&mut self) {
        self.flush();
        self.again = true;
    }

    fn say(&mut self, text: &str, at: Timestamp) {
        let ready = match &mut self.portions {
            Some(portions) => portions.feed(text, at),
            None => Some(text.to_owned()),
        };
        self.callbacks.text(ready);
    }

    fn flush(&mut self) {
        let rest = self.portions.as_mut().and_then(Coalescer::flush);
        self.callbacks.text(rest);
    }

    fn status(&mut self, status: Option<&str>) {
        if let Some(callback) = &mut self.callbacks.status {
            callback(status);
        }
    }
}

/// Waits until then, or for ever.
async fn until(due: Option<Timestamp>) {
    match due {
        Some(due) => tokio::time::sleep(Duration::from_millis(due.since(clock::wall()).0)).await,
        None => std::future::pending().await,
    }
}
