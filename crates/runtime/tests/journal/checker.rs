//! A second reader of the session directory, written from its documentation and with no code of the journal.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

const HEADER: &[u8] = b"BOWLNIDX\x01\0\0\0\x20\0\0\0";

/// What a session's directory says, after everything that must hold was found to hold.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) events: usize,
    pub(crate) gaps: Vec<String>,
    /// How many bytes of each stream the index covers.
    pub(crate) indexed: BTreeMap<&'static str, u64>,
    /// How many records have no time of their own.
    pub(crate) recovered: usize,
}

/// What has been seen of a session's events so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    last_seq: u64,
    turns_open: i64,
    pub(crate) ended: u64,
    /// How often a runner went on behind another one.
    pub(crate) resumed: u64,
    pub(crate) gaps: Vec<String>,
    /// How far the spans reach in stdout.
    pub(crate) reach: u64,
}

impl Story {
    /// Reads one line, without its end.
    pub(crate) fn line(&mut self, line: &[u8], stdout: &[u8]) -> Result<(), String> {
        let event: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let seq = event["seq"].as_u64().ok_or("no number")?;
        if seq != self.last_seq + 1 {
            return Err(format!("{seq} comes after {}", self.last_seq));
        }
        self.last_seq = seq;
        match event["kind"]["type"].as_str().ok_or("no type")? {
            "turn_started" => self.turns_open += 1,
            "turn_ended" => self.turns_open -= 1,
            "session_ended" => self.ended += 1,
            "session_started" if event["source"] == "bowline" && self.last_seq > 1 => self.resumed += 1,
            "gap" => self.gaps.push(event["kind"]["reason"].as_str().ok_or("no reason")?.to_owned()),
            _ => {}
        }
        if !(0..=1).contains(&self.turns_open) {
            return Err(format!("{} turns are open at {seq}", self.turns_open));
        }
        if let Some(raw) = event.get("raw") {
            let (start, end) =
                (raw["start"].as_u64().ok_or("no start")?, raw["end"].as_u64().ok_or("no end")?);
            self.reach = self.reach.max(end);
            let bytes =
                stdout.get(start as usize..end as usize).ok_or(format!("{start}..{end} is not there"))?;
            let text = event["kind"]["text"].as_str().ok_or("no text")?;
            // What was lost and filled reads as zeros.
            let same =
                bytes.iter().zip(text.as_bytes()).all(|(on_file, said)| on_file == said || *on_file == 0);
            if bytes.len() != text.len() || !same {
                return Err(format!("event {seq} does not say what its bytes say"));
            }
        }
        Ok(())
    }

    /// Returns whether everything that began has ended.
    pub(crate) fn is_over(&self) -> Result<(), String> {
        if self.turns_open != 0 {
            return Err("a turn is open".to_owned());
        }
        if self.ended != self.resumed + 1 {
            Err(format!("the session ended {} times", self.ended))
        } else {
            Ok(())
        }
    }
}

/// Reads records and says how far each stream is covered. The header is left out.
pub(crate) fn records(
    bytes: &[u8],
    covered: &mut BTreeMap<&'static str, u64>,
    recovered: &mut usize,
) -> Result<(), String> {
    if !bytes.len().is_multiple_of(32) {
        return Err(format!("{} bytes are no whole number of records", bytes.len()));
    }
    for record in bytes.chunks(32) {
        let number = |from: usize, len: usize| {
            record[from..from + len].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let mut sum: u32 = 0x811c_9dc5;
        for byte in &record[..28] {
            sum = (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
        if number(28, 4) != u64::from(sum) {
            return Err("a wrong checksum".to_owned());
        }
        let stream = match record[20] {
            1 => "stdout.raw",
            2 => "stderr.raw",
            3 => "stdin.raw",
            4 => "pty.raw",
            other => return Err(format!("stream {other}")),
        };
        *recovered += usize::from(record[21]);
        let end = covered.entry(stream).or_default();
        if *end != number(8, 8) {
            return Err(format!("{stream}: a record for {} comes after {end}", number(8, 8)));
        }
        *end += number(16, 4);
    }
    Ok(())
}

/// Checks a session that is over, whole.
pub(crate) fn check(dir: &Path) -> Result<Checked, String> {
    let file = |name: &str| std::fs::read(dir.join(name)).unwrap_or_default();
    let stdout = file("stdout.raw");
    let mut story = Story::default();
    let events = file("events.jsonl");
    let mut count = 0;
    for line in events.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").ok_or("the last line has no end")?;
        story.line(line, &stdout)?;
        count += 1;
    }
    story.is_over()?;
    let index = file("io.index");
    if !index.starts_with(HEADER) {
        return Err("the index has no header".to_owned());
    }
    let mut checked = Checked { events: count, gaps: story.gaps, ..Checked::default() };
    records(&index[32..], &mut checked.indexed, &mut checked.recovered)?;
    for name in ["stdout.raw", "stderr.raw", "stdin.raw", "pty.raw"] {
        let (len, indexed) = (file(name).len() as u64, checked.indexed.get(name).copied().unwrap_or(0));
        if len != indexed {
            return Err(format!("{name} has {len} bytes, the index knows {indexed}"));
        }
    }
    Ok(checked)
}
