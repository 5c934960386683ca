//! The whole of what an event carries only the beginning of, decoded again from the raw output.

use bowline_protocol::{Event, Excerpt, Kind, RawSpan, Timestamp, ToolId};
use bowline_providers::decode::Decoder;
use bowline_providers::dialects::{self, DialectEntry};
use bowline_providers::moment::Moment;

use super::reader::seq_of;
use super::{JournalError, Reader};

/// How much of the raw output is read at a time.
const PIECE: u64 = 1 << 20;

impl Reader {
    /// Returns the whole output of a tool, of an event that carries only the beginning of it.
    ///
    /// Events carry at most 32 KiB of the output of a tool ([`Task::excerpt_limit`](crate::Task::excerpt_limit)). This call
    /// reads the raw output that the event came from, and decodes it again without a limit. It returns nothing for an
    /// event that has no output of a tool, and for a session of a version that did not record the dialect. It reads files, so it blocks; a session of 100 MB takes up to a second.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use bowline::Kind;
    /// use bowline::journal::Reader;
    ///
    /// # let world = bowline::testing::world();
    /// # let tool = serde_json::json!({"tool": {"name": "bash", "input": {}, "output": "x".repeat(100_000)}});
    /// # let steps = serde_json::json!({"steps": [tool, {"say": "a"}, {"result": {}}]});
    /// # let task = world.task("Run the tests").provider("pi").script(bowline::testing::script(&steps.to_string()));
    /// let record = task.run().await?;
    /// let mut reader = Reader::open(record.journal.as_ref().unwrap())?;
    /// while let Some(event) = reader.next_event()? {
    ///     if let Kind::ToolFinished(tool) = &event.kind {
    ///         assert!(tool.output.as_ref().is_some_and(|output| output.is_cut()));
    ///         let output = reader.tool_output(&event)?.unwrap();
    /// #       assert_eq!(output.len(), 100_000);
    ///     }
    /// }
    /// # Ok::<(), bowline::Error>(()) }).unwrap();
    /// ```
    pub fn tool_output(&self, event: &Event) -> Result<Option<String>, JournalError> {
        let Some((id, head)) = output_of(&event.kind) else { return Ok(None) };
        let Some(span) = event.raw.filter(|_| head.is_cut()) else { return Ok(Some(head.text.clone())) };
        let Some(OutputStart { dialect, start }) = self.origin(event.seq)? else { return Ok(None) };
        let is_end = matches!(event.kind, Kind::ToolFinished(_));
        if is_end {
            // Most programs print the whole output in one line, and it can be read without those before it.
            let line = self.raw(span)?;
            let wanted = |kind: &Kind, _: Option<RawSpan>| is_end_of(kind, id, head.bytes);
            if let Some(text) = decode(dialect, std::iter::once(Ok(line)), wanted)? {
                return Ok(Some(text));
            }
        }
        // Other dialects need all that the process printed before: what is new in an update, say.
        let starts = std::iter::successors(Some(start), |start| Some(start + PIECE))
            .take_while(|start| *start < span.end);
        let pieces = starts
            .map(|start| self.raw(RawSpan { file: span.file, start, end: span.end.min(start + PIECE) }));
        decode(dialect, pieces, |kind, raw| {
            // The decoder counts from the first byte that it is given.
            let same_place =
                raw.is_some_and(|raw| (start + raw.start, start + raw.end) == (span.start, span.end));
            same_place && output_of(kind).is_some_and(|(found, _)| found == id)
        })
    }

    /// Finds the process that printed what an event came from: the last one that was started before it.
    fn origin(&self, seq: u64) -> Result<Option<OutputStart>, JournalError> {
        let (mut reader, mut spawned) = (Self::open(&self.dir)?, None);
        while let Some(line) = reader.next_line()? {
            if seq_of(line).is_some_and(|found| found >= seq) {
                break;
            }
            // Few lines are of this kind, and only those are read in full.
            if memchr::memmem::find(line, b"\"process_spawned\"").is_some()
                && let Ok(Event { kind: Kind::ProcessSpawned(process), .. }) = serde_json::from_slice(line)
            {
                spawned = Some(process);
            }
        }
        let start = spawned.as_ref().map_or(0, |process| process.raw_start);
        let dialect = match spawned.and_then(|process| process.dialect) {
            Some(name) => dialects::by_name(&name),
            // A process of an earlier version does not name it. The provider's name is no substitute: a user's manifest may have
            // taken the name of a built-in one, with another dialect.
            None => self.meta()?.dialect.as_deref().and_then(dialects::by_name),
        };
        Ok(dialect.map(|dialect| OutputStart { dialect, start }))
    }
}

/// Where the output of a process begins, and how it is decoded.
struct OutputStart {
    dialect: &'static DialectEntry,
    start: u64,
}

/// Decodes raw output without a limit until an event comes that is wanted, and returns the output that it carries.
fn decode(
    dialect: &'static DialectEntry,
    pieces: impl Iterator<Item = Result<Vec<u8>, JournalError>>,
    wanted: impl Fn(&Kind, Option<RawSpan>) -> bool,
) -> Result<Option<String>, JournalError> {
    let (mut decoder, now, mut drafts) = (Decoder::new(dialect), Moment::utc(Timestamp::EPOCH), Vec::new());
    // The span of an event ends before the end of its line.
    for piece in pieces.chain(std::iter::once(Ok(b"\n".to_vec()))) {
        let piece = piece?;
        Excerpt::scoped(usize::MAX, || decoder.stdout(&piece, &now, &mut drafts));
        let found = drafts.drain(..).find(|draft| wanted(&draft.kind, draft.raw));
        if let Some(draft) = found {
            return Ok(output_of(&draft.kind).map(|(_, output)| output.text.clone()));
        }
    }
    Ok(None)
}

/// Returns whether an event is the end of a tool's call, with all of its output.
fn is_end_of(kind: &Kind, id: &ToolId, bytes: u64) -> bool {
    let is_end = matches!(kind, Kind::ToolFinished(_));
    is_end && output_of(kind).is_some_and(|(found, output)| found == id && output.text.len() as u64 == bytes)
}

/// Returns the output of a tool that an event carries.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other kind carries the output of a tool")]
pub(super) fn output_of(kind: &Kind) -> Option<(&ToolId, &Excerpt)> {
    match kind {
        Kind::ToolFinished(tool) => Some((&tool.id, tool.output.as_ref()?)),
        Kind::ToolUpdated(tool) => Some((&tool.id, tool.output_delta.as_ref()?)),
        _ => None,
    }
}
