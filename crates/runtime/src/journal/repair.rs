//! Puts in order what a runner left behind that was killed, and says what is missing.
//!
//! Raw bytes are the truth and are never cut. What was being written when the end came is cut from `events.jsonl` and
//! `io.index`; a `gap` event says so. A turn that was open ends as truncated, with what it had used, an approval that was open is denied, and the
//! session ends as lost, so that every promise about events holds for a journal that has been repaired, too. Repairing twice
//! changes nothing the second time. If the repair itself is killed, the next one reports again: once too often, never once
//! too few.

use std::fs::File;
use std::path::Path;

use bowline_protocol::kinds::{
    ApprovalDecided, EndReason, Gap, Outcome, ProcessLeaked, SessionEnded, SessionState, TurnEnded,
};
use bowline_protocol::{
    ApprovalId, Category, Code, Decider, Decision, EnforcedBy, Event, EventWriter, FORMAT_VERSION, Failure,
    Kind, NativeSessionId, RawFile, RawSpan, SessionId, Source, TaskId, Timestamp, ToolId, UsageSource,
};
use bowline_providers::usage;

use super::append::{Append, create_private};
use super::index::{self, LONGEST, Record};
use super::lock::Lock;
use super::{
    EVENTS_FILE, INDEX_FILE, Index, JournalError, RAW_FILES, Reader, SessionMeta, meta, raw_name, raw_path,
    slot_of, unfinished, update_meta,
};

/// Where the lines go that were complete and made no sense, should that ever happen.
const DAMAGED_FILE: &str = "events.jsonl.damaged";

/// What a repair found and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// How many bytes were cut from `events.jsonl`.
    pub cut_events: u64,
    /// How many complete lines are among them. They are kept in a file beside it.
    pub cut_lines: u64,
    /// How many bytes were cut from `io.index`.
    pub cut_index: u64,
    /// Raw bytes that the index or an event speaks of and that were not on file. They read as zeros now.
    pub missing: Vec<RawSpan>,
    /// Raw bytes without a record. They have one now, with the time of the repair.
    pub unindexed: Vec<RawSpan>,
    /// The events that were added.
    pub appended: Vec<Event>,
}

impl Repaired {
    /// Says whether something was lost or out of order; if so, the first event that was added is a `gap`.
    pub fn has_gap(&self) -> bool {
        self.cut_events > 0 || self.cut_index > 0 || !self.missing.is_empty() || !self.unindexed.is_empty()
    }

    fn gap(&self) -> Gap {
        let mut said = Vec::new();
        let span =
            |span: &RawSpan| format!("bytes {} to {} of {}", span.start, span.end, raw_name(span.file));
        if self.cut_events > 0 {
            said.push(format!(
                "{} bytes that are no whole events were cut from {EVENTS_FILE}",
                self.cut_events
            ));
        }
        if self.cut_index > 0 {
            said.push(format!(
                "{} bytes that are no whole records were cut from {INDEX_FILE}",
                self.cut_index
            ));
        }
        said.extend(self.missing.iter().map(|lost| format!("{} are lost and read as zeros", span(lost))));
        said.extend(self.unindexed.iter().map(|known| format!("the time of {} is not known", span(known))));
        let lost: u64 = self.missing.iter().map(|lost| lost.end - lost.start).sum();
        let bytes = self.cut_events + self.cut_index + lost;
        Gap {
            events: (self.cut_lines > 0).then_some(self.cut_lines),
            bytes: (bytes > 0).then_some(bytes),
            reason: format!("the runner was lost: {}", said.join("; ")),
        }
    }
}

/// Puts a session's directory in order. Refuses while its runner lives.
pub fn repair(dir: &Path, now: Timestamp) -> Result<Repaired, JournalError> {
    repair_leaving(dir, now, Vec::new(), |_| ())
}

/// The same, for a session of which somebody is left who could not be ended. `last` is what else is done before the session
/// counts as over, while nobody else can do it.
pub(crate) fn repair_leaving(
    dir: &Path,
    now: Timestamp,
    leaked: Vec<ProcessLeaked>,
    last: impl FnOnce(&SessionMeta),
) -> Result<Repaired, JournalError> {
    let meta = SessionMeta::read(dir)?;
    let mut events = Append::open(dir.join(EVENTS_FILE))?;
    let _lock = Lock::take(dir, &events)?;
    // It may have grown until the lock was free.
    events.measure()?;
    let mut index = Append::open(dir.join(INDEX_FILE))?;
    let told = Told::read(dir)?;
    let (understood, indexed) = read_index(dir)?;
    let mut report = Repaired {
        cut_events: events.len() - told.end,
        cut_lines: told.cut_lines,
        cut_index: index.len() - understood,
        ..Repaired::default()
    };
    for file in RAW_FILES {
        let (len, indexed) = (raw_len(dir, file)?, indexed[slot_of(file)]);
        let needed = indexed.max(told.spans[slot_of(file)]);
        if needed > len {
            report.missing.push(RawSpan { file, start: len, end: needed });
        }
        if len.max(needed) > indexed {
            report.unindexed.push(RawSpan { file, start: indexed, end: len.max(needed) });
        }
    }
    let (was_open, end, state) = (!told.ended, told.end, told.final_state());
    let (native, version) = (told.native.clone(), told.version.clone());
    let gap = report.has_gap().then(|| report.gap());
    report.appended = told.endings(&meta.id, now, gap, leaked);

    // The account of what is missing comes first: if this process is killed too, it is given again rather than not at all.
    if report.cut_lines > 0 {
        keep_damaged(dir, end)?;
    }
    if report.cut_events > 0 || !report.appended.is_empty() {
        events.replace_tail(end, &lines(&report.appended)?)?;
    }
    for lost in &report.missing {
        Append::open(raw_path(dir, lost.file))?.cut(lost.end)?;
    }
    let records = new_records(understood, &report.unindexed, now);
    if report.cut_index > 0 || !records.is_empty() {
        index.replace_tail(understood, &records)?;
    }
    // The runner may have been killed between its last event and the state.
    if was_open || !meta::is_final(meta.state) {
        update_meta(dir, |meta| {
            meta.state = state;
            meta.native_session = native.or(meta.native_session.take());
            meta.provider_version = version.or(meta.provider_version.take());
        })?;
    }
    last(&meta);
    unfinished::unmark(dir)?;
    if report.has_gap() || was_open {
        for (file, path) in [events.take_dirty(), index.take_dirty()].into_iter().flatten() {
            file.sync_data().map_err(|error| JournalError::io("sync", &path, error))?;
        }
        meta::sync_dir(dir)?;
    }
    Ok(report)
}

/// What the events on file say, as far as they make sense.
#[derive(Debug, Default)]
struct Told {
    /// Where the last event that follows from the others ends.
    end: u64,
    /// How many complete lines there are behind it.
    cut_lines: u64,
    last_seq: u64,
    turn: Option<u32>,
    turn_is_open: bool,
    /// What the open turn used, as far as it was told, and what it said.
    count: usage::Count,
    said_chars: u64,
    ended: bool,
    /// The last state that was told.
    state: Option<SessionState>,
    /// The agent's own name for the session.
    native: Option<NativeSessionId>,
    /// The version that it says it has, else the one that it was known to have.
    version: Option<String>,
    approvals: Vec<ApprovalId>,
    tools: Vec<ToolId>,
    tasks: Vec<TaskId>,
    /// How far the spans of events reach, for each raw file.
    spans: [u64; RAW_FILES.len()],
}

impl Told {
    fn read(dir: &Path) -> Result<Self, JournalError> {
        let mut reader = Reader::open(dir)?;
        let mut told = Self::default();
        while let Some(line) = reader.next_line()? {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) if event.seq == told.last_seq + 1 => told.take(event),
                Ok(_) | Err(_) => {
                    told.cut_lines = 1;
                    break;
                }
            }
            told.end = reader.position();
        }
        while told.cut_lines > 0 && reader.next_line()?.is_some() {
            told.cut_lines += 1;
        }
        Ok(told)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only what begins and ends something matters here")]
    fn take(&mut self, event: Event) {
        self.last_seq = event.seq;
        self.turn = event.turn.or(self.turn);
        if let Some(span) = event.raw {
            let end = &mut self.spans[slot_of(span.file)];
            *end = span.end.max(*end);
        }
        match event.kind {
            Kind::TurnStarted(_) => {
                (self.turn_is_open, self.ended, self.said_chars) = (true, false, 0);
                self.count.begin();
            }
            Kind::TurnEnded(_) => {
                self.turn_is_open = false;
                self.count.end();
            }
            Kind::UsageReported(report) => self.count.report(&report),
            Kind::TextDelta(delta) => self.said_chars += delta.text.chars().count() as u64,
            Kind::SessionEnded(_) => self.ended = true,
            Kind::SessionStateChanged(changed) => self.state = Some(changed.state),
            Kind::SessionStarted(started) => {
                self.native = started.native_session.or(self.native.take());
                self.version = started.version.or(self.version.take());
            }
            Kind::ApprovalAsked(asked) => self.approvals.push(asked.id),
            Kind::ApprovalDecided(decided) => self.approvals.retain(|id| *id != decided.id),
            Kind::ToolStarted(tool) => self.tools.push(tool.id),
            Kind::ToolFinished(tool) => self.tools.retain(|id| *id != tool.id),
            Kind::BackgroundTaskStarted(task) => self.tasks.push(task.id),
            Kind::BackgroundTaskEnded(task) => self.tasks.retain(|id| *id != task.id),
            _ => {}
        }
    }

    /// Returns the state that the session has when nothing of it is open.
    fn final_state(&self) -> SessionState {
        match self.state {
            Some(SessionState::Completed) if self.ended => SessionState::Completed,
            _ => SessionState::Failed,
        }
    }

    /// Returns the events that end what is open.
    fn endings(
        self,
        session: &SessionId,
        now: Timestamp,
        gap: Option<Gap>,
        leaked: Vec<ProcessLeaked>,
    ) -> Vec<Event> {
        const LOST: &str = "the process that ran the session was lost";
        let mut kinds: Vec<Kind> = gap.map(Kind::Gap).into_iter().collect();
        kinds.extend(self.approvals.into_iter().map(|id| {
            Kind::ApprovalDecided(ApprovalDecided {
                id,
                decision: Decision::Deny,
                by: Decider::ClientLost,
                rule: None,
                reason: Some(LOST.to_owned()),
                changed_input: None,
                enforced_by: EnforcedBy::Agent,
            })
        }));
        if !self.ended {
            kinds.extend(leaked.into_iter().map(Kind::ProcessLeaked));
        }
        if self.turn_is_open {
            let mut used = self.count.usage().filter(|usage| usage.total() > 0);
            if used.is_none() && self.said_chars > 0 {
                let estimated = usage::estimate(0, self.said_chars);
                used = Some(estimated);
                let spent = usage::Spent { usage: estimated, source: UsageSource::Estimated, cost_usd: None };
                kinds.push(Kind::UsageReported(spent.of_turn()));
            }
            kinds.push(Kind::TurnEnded(TurnEnded {
                outcome: Outcome::Truncated,
                stop: None,
                failure: Some(Box::new(Failure::new(Category::Unknown, Code::Truncated, LOST))),
                usage: used,
                cost_usd: self.count.cost_usd(),
                running_tools: self.tools,
                running_tasks: self.tasks,
            }));
        }
        if !self.ended {
            kinds.push(Kind::SessionEnded(SessionEnded { exit: None, reason: EndReason::Lost }));
        }
        let (turn, numbers) = (self.turn, self.last_seq + 1..);
        let event = |(kind, seq)| Event {
            v: FORMAT_VERSION,
            seq,
            at: now,
            session: session.clone(),
            turn,
            source: Source::Bowline,
            raw: None,
            kind,
        };
        kinds.into_iter().zip(numbers).map(event).collect()
    }
}

/// Reads how far the index makes sense, and how many bytes of each raw file it covers.
fn read_index(dir: &Path) -> Result<(u64, [u64; RAW_FILES.len()]), JournalError> {
    let mut index = Index::open(dir)?;
    let mut covered = [0; RAW_FILES.len()];
    loop {
        let understood = index.understood();
        match index.next_record() {
            // Records of a file follow each other without a hole; one that does not is as good as none.
            Ok(Some(record)) if covered[slot_of(record.span.file)] == record.span.start => {
                covered[slot_of(record.span.file)] = record.span.end;
            }
            Ok(None) => return Ok((index.understood(), covered)),
            Ok(Some(_)) | Err(JournalError::Damaged { .. }) => return Ok((understood, covered)),
            Err(other) => return Err(other),
        }
    }
}

fn raw_len(dir: &Path, file: RawFile) -> Result<u64, JournalError> {
    let path = raw_path(dir, file);
    match std::fs::metadata(&path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(JournalError::read("look at", &path, error)),
    }
}

fn lines(events: &[Event]) -> Result<Vec<u8>, JournalError> {
    let (mut writer, mut out) = (EventWriter::default(), Vec::new());
    for event in events {
        let written = writer.write(event, &mut out);
        written.map_err(|source| JournalError::Unwritable { seq: event.seq, source })?;
    }
    Ok(out)
}

/// Returns what has to stand in the index behind what was understood.
fn new_records(understood: u64, unindexed: &[RawSpan], now: Timestamp) -> Vec<u8> {
    let mut out = Vec::new();
    if understood == 0 {
        out.extend_from_slice(&index::header());
    }
    for span in unindexed {
        for start in (span.start..span.end).step_by(LONGEST) {
            let span = RawSpan { file: span.file, start, end: span.end.min(start + LONGEST as u64) };
            let micros = now.as_millis().saturating_mul(1000);
            out.extend_from_slice(&Record { micros, span, recovered: true }.encode());
        }
    }
    out
}

/// Copies complete lines that make no sense to a file of their own, before they are cut.
fn keep_damaged(dir: &Path, from: u64) -> Result<(), JournalError> {
    use std::io::{Seek, SeekFrom};
    let (source, target) = (dir.join(EVENTS_FILE), dir.join(DAMAGED_FILE));
    let mut input = File::open(&source).map_err(|error| JournalError::read("open", &source, error))?;
    let sought = input.seek(SeekFrom::Start(from));
    sought.map_err(|error| JournalError::read("read", &source, error))?;
    let mut output = create_private(&target)?;
    let copied = std::io::copy(&mut input, &mut output).and_then(|_| output.sync_all());
    copied.map_err(|error| JournalError::io("write", &target, error))
}
