//! Repairs the journal of a killed runner, and reports what is missing.
//!
//! Raw bytes are never cut. The repair cuts half-written parts from `events.jsonl` and `io.index`, and adds a `gap` event. An open
//! turn ends as truncated, with its usage, an open approval is denied, and the session ends as lost, so that every guarantee about
//! events holds for a repaired journal, too. A second repair changes nothing. If the repair itself is killed, the next one reports
//! again: once too often, never once too few.

use std::fs::File;
use std::path::Path;

use bowline_engine::SessionOptions;
use bowline_protocol::kinds::{
    ApprovalDecided, ControlMode, EndReason, Gap, Outcome, ProcessLeaked, PromptRemoval, PromptRemoved,
    QuestionAnswered, ResumeAnswer, SessionEnded, SessionState, TurnEnded,
};
use bowline_protocol::{
    ApprovalId, Category, Code, Decider, Decision, EnforcedBy, Event, EventWriter, FORMAT_VERSION, Failure,
    Kind, LastTurn, NativeSessionId, QuestionId, RawFile, RawSpan, SessionId, Source, TaskId, Timestamp,
    ToolId, UsageSource,
};
use bowline_providers::usage;

use super::append::{Append, create_private};
use super::index::{self, IndexRecord, LONGEST};
use super::lock::Lock;
use super::prompts::PromptsOnFile;
use super::stint::{LOST, is_stint_start};
use super::{
    EVENTS_FILE, INDEX_FILE, Index, JournalEnd, JournalError, RAW_FILES, Reader, SessionMeta, meta, raw_name,
    raw_path, slot_of, unfinished, update_meta,
};

/// The file for complete lines that are invalid.
const DAMAGED_FILE: &str = "events.jsonl.damaged";

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// The number of bytes cut from `events.jsonl`.
    pub cut_events: u64,
    /// The number of complete lines among them. They are copied to a file beside it.
    pub cut_lines: u64,
    /// The number of bytes cut from `io.index`.
    pub cut_index: u64,
    /// Raw bytes that the index or an event refers to and that were not on file. They are zeros now.
    pub missing: Vec<RawSpan>,
    /// Raw bytes without a record. They have one now, with the time of the repair.
    pub unindexed: Vec<RawSpan>,
    /// The events that were added.
    pub appended: Vec<Event>,
}

impl Repaired {
    /// Returns whether something was lost. If so, the first added event is a `gap`.
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

/// Repairs a session's directory. Fails while its runner lives.
pub fn repair(dir: &Path, now: Timestamp) -> Result<Repaired, JournalError> {
    // Before the lock, which creates a file: a directory of a newer version is left as it is.
    SessionMeta::read(dir)?;
    let Some(lock) = Lock::hold(dir)? else { return Err(JournalError::NoSession { path: dir.to_owned() }) };
    repair_leaving(dir, &lock, now, Vec::new(), |_| ())
}

/// The same under a lock that the caller holds, for a session with processes that could not be ended. `last` runs before the
/// session counts as over.
pub(crate) fn repair_leaving(
    dir: &Path,
    lock: &Lock,
    now: Timestamp,
    leaked: Vec<ProcessLeaked>,
    last: impl FnOnce(&SessionMeta),
) -> Result<Repaired, JournalError> {
    repair_locked(dir, lock, now, leaked, last).map(|end| end.repaired)
}

/// Repairs a directory, and returns where its journal ends.
pub(super) fn repair_locked(
    dir: &Path,
    _lock: &Lock,
    now: Timestamp,
    leaked: Vec<ProcessLeaked>,
    last: impl FnOnce(&SessionMeta),
) -> Result<JournalEnd, JournalError> {
    // Under the lock: until it was free, its runner may have written.
    let meta = SessionMeta::read(dir)?;
    let mut events = Append::open(dir.join(EVENTS_FILE))?;
    let mut index = Append::open(dir.join(INDEX_FILE))?;
    let told = JournalSummary::read(dir)?;
    let (understood, indexed) = read_index(dir)?;
    let mut report = Repaired {
        cut_events: events.len() - told.end,
        cut_lines: told.cut_lines,
        cut_index: index.len() - understood,
        ..Repaired::default()
    };
    let raw_lens = compare_raw(dir, indexed, told.spans, &mut report)?;
    let (was_open, end, unwritten) = (!told.ended, told.end, told.unwritten());
    let next_turn = told.turn.map_or(1, |turn| turn.saturating_add(1));
    let (offered, control, last_turn) = (told.prompts.offered(), told.control, told.last_turn());
    let (mut reason, last_seq) = (told.reason, told.last_seq);
    let gap = report.has_gap().then(|| report.gap());
    report.appended = told.endings(&meta.id, now, gap, leaked);

    // Write the `gap` first: if this process is killed too, the next repair reports it again instead of not at all.
    if report.cut_lines > 0 {
        keep_damaged(dir, end)?;
    }
    if report.cut_events > 0 || !report.appended.is_empty() {
        events.replace_tail(end, &lines(&report.appended)?)?;
    }
    // Zeros in the place of the lost bytes keep every later offset valid.
    for lost in &report.missing {
        Append::open(raw_path(dir, lost.file))?.cut(lost.end)?;
    }
    let records = new_records(understood, &report.unindexed, now);
    if report.cut_index > 0 || !records.is_empty() {
        index.replace_tail(understood, &records)?;
    }
    // The runner may have been killed between its last event and the state.
    let mut native_session = meta.native_session.clone();
    if was_open || !meta::is_final(meta.state) {
        native_session = update_meta(dir, |meta| unwritten.write(meta))?.native_session;
    }
    // Before the mark is removed: if this process is killed here, the next repair runs `last` again.
    last(&meta);
    unfinished::unmark(dir)?;
    if report.has_gap() || was_open {
        for (file, path) in [events.take_dirty(), index.take_dirty()].into_iter().flatten() {
            file.sync_data().map_err(|error| JournalError::io("sync", &path, error))?;
        }
        meta::sync_dir(dir)?;
    }
    if was_open && !report.appended.is_empty() {
        reason = Some(EndReason::Lost);
    }
    let next_seq = last_seq + report.appended.len() as u64 + 1;
    Ok(JournalEnd {
        next_seq,
        next_turn,
        native_session,
        reason,
        last_turn,
        offered,
        control,
        repaired: report,
        raw_lens,
    })
}

/// Reads the description of a session, with what its events have and `session.json` does not have yet: a runner writes the agent's
/// own id and the changed options at its end, and a killed one never.
pub(crate) fn current_meta(dir: &Path) -> Result<SessionMeta, JournalError> {
    let mut meta = SessionMeta::read(dir)?;
    if meta.native_session.is_none() || !meta::is_final(meta.state) {
        JournalSummary::read(dir)?.unwritten().write(&mut meta);
    }
    Ok(meta)
}

/// The facts about a session that its events have, and `session.json` does not have yet.
struct UnwrittenMeta {
    state: SessionState,
    native: Option<NativeSessionId>,
    version: Option<String>,
    changed: SessionOptions,
}

impl UnwrittenMeta {
    fn write(self, meta: &mut SessionMeta) {
        meta.state = self.state;
        meta.changed_options(&self.changed);
        meta.note_native(self.native);
        meta.provider_version = self.version.or(meta.provider_version.take());
    }
}

/// A summary of the valid events on file.
#[derive(Debug, Default)]
pub(super) struct JournalSummary {
    /// The end of the last valid event.
    end: u64,
    /// The number of complete lines behind it.
    cut_lines: u64,
    last_seq: u64,
    turn: Option<u32>,
    turn_is_open: bool,
    /// The last turn that ended.
    last_turn: Option<LastTurn>,
    /// The reported usage of the open turn, and the length of its text.
    count: usage::UsageCount,
    said_chars: u64,
    ended: bool,
    /// How the last stint that ended did so.
    reason: Option<EndReason>,
    /// The last reported state.
    state: Option<SessionState>,
    /// The agent's own session id.
    native: Option<NativeSessionId>,
    /// The same before the last stint.
    native_before: Option<NativeSessionId>,
    /// The version that the program reported, else the known one.
    version: Option<String>,
    approvals: Vec<ApprovalId>,
    questions: Vec<QuestionId>,
    pub(super) prompts: PromptsOnFile,
    /// The side that leads, also over stints.
    pub(super) control: ControlMode,
    /// The options that were changed in the last stint.
    changed: SessionOptions,
    tools: Vec<ToolId>,
    tasks: Vec<TaskId>,
    /// The end of the last span of an event, for each raw file.
    spans: [u64; RAW_FILES.len()],
}

impl JournalSummary {
    pub(super) fn read(dir: &Path) -> Result<Self, JournalError> {
        let mut reader = Reader::open(dir)?;
        let mut told = Self::default();
        while let Some(line) = reader.next_line()? {
            match serde_json::from_slice::<Event>(line) {
                // An event out of order is as invalid as a broken line: `Reader::seek` relies on rising numbers.
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
        if is_stint_start(&event) {
            // Another process of the agent: nothing that an earlier stint left open is its own.
            (self.ended, self.turn_is_open, self.count) = (false, false, usage::UsageCount::default());
            self.native_before.clone_from(&self.native);
            // `session.json` has those of the earlier stints.
            self.changed = SessionOptions::default();
            self.approvals.clear();
            self.questions.clear();
            self.tools.clear();
            self.tasks.clear();
        }
        self.last_seq = event.seq;
        self.changed.note(&event);
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
            Kind::TurnEnded(ended) => {
                self.turn_is_open = false;
                self.last_turn = self.turn.map(|turn| LastTurn { turn, outcome: ended.outcome });
                self.count.end();
            }
            Kind::UsageReported(report) => self.count.report(&report),
            Kind::TextDelta(delta) => self.said_chars += delta.text.chars().count() as u64,
            Kind::SessionEnded(ended) => (self.ended, self.reason) = (true, Some(ended.reason)),
            Kind::SessionStateChanged(changed) => self.state = Some(changed.state),
            Kind::SessionStarted(started) => {
                self.native = started.native_session.or(self.native.take());
                self.version = started.version.or(self.version.take());
            }
            // The agent began another session than that of the earlier stints. Theirs is still the one to resume.
            Kind::ResumeAnswered(resumed) if resumed.answer == ResumeAnswer::Rejected => {
                self.native = self.native_before.clone().or(self.native.take());
            }
            Kind::ApprovalAsked(asked) => self.approvals.push(asked.id),
            Kind::ApprovalDecided(decided) => self.approvals.retain(|id| *id != decided.id),
            Kind::QuestionAsked(asked) => self.questions.push(asked.id),
            Kind::QuestionAnswered(answered) => self.questions.retain(|id| *id != answered.id),
            Kind::ControlModeChanged(changed) => self.control = changed.mode,
            Kind::PromptQueued(queued) => self.prompts.queued(queued),
            Kind::PromptRemoved(removed) => self.prompts.removed(&removed),
            Kind::ToolStarted(tool) => self.tools.push(tool.id),
            Kind::ToolFinished(tool) => self.tools.retain(|id| *id != tool.id),
            Kind::BackgroundTaskStarted(task) => self.tasks.push(task.id),
            Kind::BackgroundTaskEnded(task) => self.tasks.retain(|id| *id != task.id),
            _ => {}
        }
    }

    /// Returns the last turn. One that is open ends with its runner.
    fn last_turn(&self) -> Option<LastTurn> {
        let open = self.turn.filter(|_| self.turn_is_open);
        open.map(|turn| LastTurn { turn, outcome: Outcome::Truncated }).or(self.last_turn)
    }

    /// Returns the facts that a killed runner did not write to `session.json`.
    fn unwritten(&self) -> UnwrittenMeta {
        let (native, version) = (self.native.clone(), self.version.clone());
        UnwrittenMeta { state: self.final_state(), native, version, changed: self.changed.clone() }
    }

    /// Returns the final state of the session.
    fn final_state(&self) -> SessionState {
        match self.state {
            // The runner may have been killed between this state and the end of the session.
            Some(SessionState::Completed) if self.ended => SessionState::Completed,
            _ => SessionState::Failed,
        }
    }

    /// Returns the events that close open turns, tools and approvals.
    pub(super) fn endings(
        self,
        session: &SessionId,
        now: Timestamp,
        gap: Option<Gap>,
        leaked: Vec<ProcessLeaked>,
    ) -> Vec<Event> {
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
        let unanswered = |id| Kind::QuestionAnswered(QuestionAnswered { id, answers: Vec::new() });
        kinds.extend(self.questions.into_iter().map(unanswered));
        if !self.ended {
            kinds.extend(leaked.into_iter().map(Kind::ProcessLeaked));
        }
        if self.turn_is_open {
            let mut used = self.count.usage().filter(|usage| usage.total() > 0);
            // A killed run has spent money too. Without a report of usage, estimate it from the text.
            if used.is_none() && self.said_chars > 0 {
                let estimated = usage::estimate(0, self.said_chars);
                used = Some(estimated);
                let spent =
                    usage::TurnSpending { usage: estimated, source: UsageSource::Estimated, cost_usd: None };
                kinds.push(Kind::UsageReported(spent.of_turn()));
            }
            kinds.push(Kind::TurnEnded(TurnEnded {
                outcome: Outcome::Truncated,
                stop: None,
                failure: Some(Box::new(Failure::new(Category::Unknown, Code::Truncated, LOST))),
                usage: used,
                cost_usd: self.count.cost_usd(),
                num_turns: None,
                running_tools: self.tools,
                running_tasks: self.tasks,
            }));
        }
        let returned = |id| Kind::PromptRemoved(PromptRemoved { id, reason: PromptRemoval::Returned });
        kinds.extend(self.prompts.unreturned().into_iter().map(returned));
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

/// Compares the raw files with the index and the events, and returns their lengths after the repair.
fn compare_raw(
    dir: &Path,
    indexed: [u64; RAW_FILES.len()],
    spans: [u64; RAW_FILES.len()],
    report: &mut Repaired,
) -> Result<[u64; RAW_FILES.len()], JournalError> {
    let mut raw_lens = [0; RAW_FILES.len()];
    for file in RAW_FILES {
        let (len, indexed) = (raw_len(dir, file)?, indexed[slot_of(file)]);
        let raw_len = &mut raw_lens[slot_of(file)];
        let needed = indexed.max(spans[slot_of(file)]);
        if needed > len {
            report.missing.push(RawSpan { file, start: len, end: needed });
        }
        *raw_len = len.max(needed);
        if len.max(needed) > indexed {
            report.unindexed.push(RawSpan { file, start: indexed, end: len.max(needed) });
        }
    }
    Ok(raw_lens)
}

/// Reads the valid part of the index, and how many bytes of each raw file it covers.
fn read_index(dir: &Path) -> Result<(u64, [u64; RAW_FILES.len()]), JournalError> {
    let mut index = Index::open(dir)?;
    let mut covered = [0; RAW_FILES.len()];
    loop {
        let understood = index.understood();
        match index.next_record() {
            // Records of a file follow each other without a hole. One that does not is invalid.
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

/// Returns the records to append to the valid part of the index.
fn new_records(understood: u64, unindexed: &[RawSpan], now: Timestamp) -> Vec<u8> {
    let mut out = Vec::new();
    if understood == 0 {
        out.extend_from_slice(&index::header());
    }
    for span in unindexed {
        for start in (span.start..span.end).step_by(LONGEST) {
            let span = RawSpan { file: span.file, start, end: span.end.min(start + LONGEST as u64) };
            let micros = now.as_millis().saturating_mul(1000);
            out.extend_from_slice(&IndexRecord { micros, span, recovered: true }.encode());
        }
    }
    out
}

/// Copies complete but invalid lines to a separate file, before they are cut.
fn keep_damaged(dir: &Path, from: u64) -> Result<(), JournalError> {
    use std::io::{Seek, SeekFrom};
    let (source, target) = (dir.join(EVENTS_FILE), dir.join(DAMAGED_FILE));
    let mut input = File::open(&source).map_err(|error| JournalError::read("open", &source, error))?;
    let sought = input.seek(SeekFrom::Start(from));
    sought.map_err(|error| JournalError::read("read", &source, error))?;
    let mut output = create_private(&target)?;
    // On disk before the caller cuts these lines from the journal.
    let copied = std::io::copy(&mut input, &mut output).and_then(|_| output.sync_all());
    copied.map_err(|error| JournalError::io("write", &target, error))
}
