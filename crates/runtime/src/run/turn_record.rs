//! The record of one turn, made of its events: of a session's journal, or of a watch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_engine::budget;
use bowline_protocol::kinds::{Outcome, StopReason, TouchedFile};
use bowline_protocol::{Event, Failure, Kind, SessionId, Source, Timestamp, Usage, UsageSource};
use bowline_providers::prices::Row;
use bowline_providers::views::{Digest, Refused};

use crate::run::error::Error;
use crate::sessions::journal::Reader;

/// The result of one turn of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnRecord {
    /// The session.
    pub session: SessionId,
    /// The number of the turn.
    pub turn: u32,
    /// The number of its first event.
    pub first_seq: u64,
    /// The number of its last event.
    pub last_seq: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, if it did not end well.
    pub failure: Option<Failure>,
    /// Why the model stopped, if the agent reports it.
    pub stop: Option<StopReason>,
    /// The answer: the text of the turn's messages without commentary. Nothing if it is above 2 MiB and comes from a watch;
    /// [`LiveSession::turn_record`](crate::LiveSession::turn_record) reads the whole one from the journal.
    pub text: Option<String>,
    /// The model that the agent reported; else the requested one.
    pub model: Option<String>,
    /// The usage in normal form.
    pub usage: Option<Usage>,
    /// Where that usage comes from.
    pub usage_source: Option<UsageSource>,
    /// The cost in US dollars, if the agent reports it.
    pub cost_usd: Option<f64>,
    /// The cost in US dollars, as the agent reports it or else by the price list; `None` if the model is not in it.
    pub cost: Option<f64>,
    /// The files that were changed.
    pub files: Vec<TouchedFile>,
    /// The denied actions of the agent.
    pub refused: Vec<Refused>,
    /// How many tool calls there were.
    pub tools: u64,
    /// How long it took, the time in which the agent waited for a person included.
    pub took: Duration,
}

impl TurnRecord {
    /// Returns whether the turn completed.
    pub fn is_completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// Reads a turn from the journal of its session, with the whole answer. None if the journal has no end of such a turn.
    pub(crate) fn read(dir: &Path, turn: u32, prices: &Arc<[Row]>) -> Result<Option<Self>, Error> {
        let mut reader = Reader::open(dir)?;
        let mut recorder =
            TurnRecorder { only: Some(turn), prices: prices.clone(), ..TurnRecorder::default() };
        while let Some(event) = reader.next_event()? {
            if let Some(record) = recorder.event(&event) {
                return Ok(Some(record));
            }
        }
        // The turn has ended, and nothing followed yet.
        Ok(recorder.finish())
    }
}

/// Makes the records of turns from the events of a session, in their order, from any reader or watch.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let world = bowline::testing::world();
/// # world.provider("claude", bowline::testing::says("Done."));
/// # let session = bowline::session("claude").with(|task| world.prepare(task)).open().await?;
/// let mut watch = session.watch_from(1)?;
/// session.send("Fix the parser").await?;
/// let mut recorder = bowline::TurnRecorder::default();
/// while let Some(event) = watch.next().await? {
///     if let Some(turn) = recorder.event(&event) {
///         println!("turn {}: {:?}, {:?} USD, {:?}", turn.turn, turn.outcome, turn.cost, turn.text);
///         # assert_eq!(turn.text.as_deref(), Some("Done."));
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct TurnRecorder {
    prices: Arc<[Row]>,
    /// The start of the session by the agent, which names the model of all its turns.
    started: Option<Event>,
    turn: Option<OpenTurn>,
    /// The only turn that is wanted, with its whole text.
    only: Option<u32>,
}

/// A turn that began.
#[derive(Debug)]
struct OpenTurn {
    session: SessionId,
    number: u32,
    first_seq: u64,
    last_seq: u64,
    began: Timestamp,
    ended: Option<Timestamp>,
    digest: Digest,
}

impl TurnRecorder {
    /// Sets the user's own prices, which come before the price list.
    #[must_use]
    pub fn prices(mut self, prices: impl Into<Arc<[Row]>>) -> Self {
        self.prices = prices.into();
        self
    }

    /// Takes an event. Returns the record of a turn with the event that follows its end: the changed files of a turn are reported
    /// behind it, so a record is complete when the state of the session changes, the next turn begins, or the session ends.
    pub fn event(&mut self, event: &Event) -> Option<TurnRecord> {
        let follows = matches!(
            event.kind,
            Kind::SessionStateChanged(_)
                | Kind::TurnStarted(_)
                | Kind::SessionEnded(_)
                | Kind::SessionStarted(_)
        );
        let record = if follows { self.finish() } else { None };
        if matches!(event.kind, Kind::SessionStarted(_)) && event.source == Source::Agent {
            self.started = Some(event.clone());
        } else if matches!(event.kind, Kind::TurnStarted(_)) {
            self.begin(event);
        }
        if let Some(turn) = &mut self.turn {
            turn.digest.event(event);
            turn.last_seq = event.seq;
            if matches!(event.kind, Kind::TurnEnded(_)) {
                turn.ended = Some(event.at);
            }
        }
        record
    }

    fn begin(&mut self, event: &Event) {
        let Some(number) = event.turn.filter(|number| self.only.is_none_or(|only| only == *number)) else {
            self.turn = None;
            return;
        };
        let mut digest = if self.only.is_some() { Digest::unlimited() } else { Digest::default() };
        self.started.iter().for_each(|started| digest.event(started));
        self.turn = Some(OpenTurn {
            session: event.session.clone(),
            number,
            first_seq: event.seq,
            last_seq: event.seq,
            began: event.at,
            ended: None,
            digest,
        });
    }

    /// Returns the record of a turn that has ended, if nothing followed its end yet. A turn that runs has none.
    pub fn finish(&mut self) -> Option<TurnRecord> {
        let turn = self.turn.take_if(|turn| turn.ended.is_some())?;
        let OpenTurn { session, number, first_seq, last_seq, began, ended, digest } = turn;
        let took = ended.unwrap_or(began).since(began);
        let cost = digest.usage().and_then(|usage| {
            let estimated = digest.usage_source() == Some(UsageSource::Estimated);
            budget::sum(usage, digest.cost_usd(), estimated, digest.model(), &self.prices).cost
        });
        Some(TurnRecord {
            session,
            turn: number,
            first_seq,
            last_seq,
            outcome: digest.outcome()?,
            failure: digest.failure().cloned(),
            stop: digest.stop(),
            text: digest.text(),
            model: digest.model().map(str::to_owned),
            usage: digest.usage(),
            usage_source: digest.usage_source(),
            cost_usd: digest.cost_usd(),
            cost: cost.or(digest.cost_usd()),
            files: digest.files(),
            refused: digest.refused(),
            tools: digest.tools(),
            took: Duration::from_millis(took.0),
        })
    }
}
