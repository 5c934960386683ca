//! The snapshot of a session as its journal has it: of a session without a runner, and of a run that takes no orders.

use std::path::Path;

use bowline_engine::SessionView;
use bowline_protocol::kinds::{EndReason, SessionState};
use bowline_protocol::{Event, Kind, PermissionMode, SessionSnapshot, Timestamp};

use super::repair::{JournalSummary, current_meta};
use super::stint::LOST;
use super::{JournalError, Lock, Reader};

/// Reads the snapshot of a session from its journal. It is as new as the last event; a live runner knows more.
///
/// If the runner was killed, the snapshot is that which [`repair`](super::repair) would leave: its turn is truncated, nothing is open,
/// and the prompts that waited are offered. Writes nothing.
///
/// ```
/// use bowline::journal::{Home, Options, SessionMeta, Writer, snapshot};
/// use bowline::kinds::SessionState;
///
/// # let dir = tempfile::tempdir().unwrap();
/// let now = "2026-11-15T08:30:00.123Z".parse().expect("a time");
/// let home = Home::at(dir.path());
/// let writer = Writer::create(&home, SessionMeta::new("s-1".into(), "claude", now), Options::default())?;
/// let dir = writer.dir().to_owned();
/// drop(writer); // killed
/// assert_eq!(snapshot(&dir)?.state, SessionState::Failed);
/// # Ok::<(), bowline::journal::JournalError>(())
/// ```
pub fn snapshot(dir: &Path) -> Result<SessionSnapshot, JournalError> {
    // Before the events: a runner that ends in between has written them all.
    let is_live = Lock::is_taken(dir)?;
    let meta = current_meta(dir)?;
    let mut facts = JournalFacts::default();
    let mut reader = Reader::open(dir)?;
    loop {
        match reader.next_event() {
            Ok(Some(event)) => facts.fold(&event),
            // A killed runner may leave half a line. A repair cuts off what is behind it.
            Ok(None) | Err(JournalError::Damaged { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    let summary = JournalSummary::read(dir)?;
    let (offered, control) = (summary.prompts.offered(), summary.control);
    if !is_live {
        // The time is not shown.
        for event in summary.endings(&meta.id, Timestamp::EPOCH, None, Vec::new()) {
            facts.fold(&event);
        }
    }
    let JournalFacts { view, head, state, reason, model, turn, has_process, is_lost } = facts;
    let state = if is_live { state.unwrap_or(meta.state) } else { meta.state };
    let mut snapshot = SessionSnapshot {
        session: meta.id,
        head,
        state,
        reason: if is_lost { Some(LOST.to_owned()) } else { reason },
        provider: meta.provider,
        native_session: None,
        model,
        permission: meta.resume.map(|options| options.permission.unwrap_or(PermissionMode::Ask)),
        control,
        turn: turn.filter(|_| is_live),
        last_turn: None,
        has_process: has_process && is_live,
        approvals: Vec::new(),
        questions: Vec::new(),
        queue: Vec::new(),
        offered,
        options: Vec::new(),
    };
    view.describe(&mut snapshot);
    snapshot.native_session = meta.native_session.or(snapshot.native_session.take());
    Ok(snapshot)
}

/// The facts of a journal.
#[derive(Debug, Default)]
struct JournalFacts {
    view: SessionView,
    head: u64,
    state: Option<SessionState>,
    /// The reason of that state.
    reason: Option<String>,
    model: Option<String>,
    /// The open turn.
    turn: Option<u32>,
    has_process: bool,
    /// Whether the last stint ended with its runner.
    is_lost: bool,
}

impl JournalFacts {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most kinds do not change a snapshot")]
    fn fold(&mut self, event: &Event) {
        self.head = event.seq;
        self.view.fold(event);
        match &event.kind {
            Kind::SessionStateChanged(changed) => {
                (self.state, self.reason) = (Some(changed.state), changed.reason.clone());
            }
            Kind::SessionStarted(started) => {
                self.is_lost = false;
                self.model = started.model.clone().or(self.model.take());
            }
            Kind::ModelChanged(changed) => self.model = Some(changed.model.clone()),
            Kind::TurnStarted(_) => self.turn = event.turn,
            Kind::TurnEnded(_) => self.turn = None,
            Kind::ProcessSpawned(_) => self.has_process = true,
            Kind::ProcessReaped(_) => self.has_process = false,
            Kind::SessionEnded(ended) => self.is_lost = ended.reason == EndReason::Lost,
            _ => {}
        }
    }
}
