//! The bare reader: the code that a careful person writes for the text alone. A pipe, lines, typed serde.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::clock;

/// A line, as far as it matters.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    event: Option<Inner<'a>>,
    #[serde(borrow)]
    session_id: Option<std::borrow::Cow<'a, str>>,
}

/// A line with an item, as far as it matters.
#[derive(Deserialize)]
struct ItemLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    item: Option<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    text: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Inner<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    index: Option<u32>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// Starts an agent without Bowline.
#[expect(clippy::disallowed_methods, reason = "this is what a plain spawn costs")]
pub(crate) fn spawn(part: &str) -> Result<Child> {
    Command::new(crate::agent()?)
        .env(crate::PART, part)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start the agent")
}

/// Reads the whole output of an agent, and passes each text to a callback.
pub(crate) fn read(from: impl Read, mut each: impl FnMut(String)) -> Result<usize> {
    let mut reader = BufReader::with_capacity(64 * 1024, from);
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(count);
        }
        let parsed: Line<'_> = serde_json::from_slice(&line)?;
        count += usize::from(parsed.kind == "stream_event" && parsed.session_id.is_some());
        let text = parsed.event.filter(|event| event.index.is_some()).and_then(|event| event.delta?.text);
        if let Some(text) = text {
            each(text.into_owned());
        }
    }
}

/// Reads so many items and returns what it cost.
pub(crate) fn cost_of_items(items: usize) -> Result<f64> {
    let mut child = spawn(&format!("items {items}"))?;
    let mut reader = BufReader::with_capacity(64 * 1024, child.stdout.take().context("no pipe")?);
    let before = clock::cpu();
    let (mut line, mut count) = (Vec::new(), 0);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let parsed: ItemLine<'_> = serde_json::from_slice(&line)?;
        let said = parsed.item.filter(|item| !item.id.is_empty() && item.kind == "agent_message");
        let text = said.and_then(|item| item.text).map(std::borrow::Cow::into_owned);
        count += usize::from(parsed.kind == "item.completed" && std::hint::black_box(text).is_some());
    }
    let spent = clock::cpu() - before;
    child.wait()?;
    anyhow::ensure!(count == items, "items are missing: {count}");
    Ok(spent.as_secs_f64())
}

/// Reads so many deltas and returns what it cost.
pub(crate) fn cost(deltas: usize) -> Result<f64> {
    let mut child = spawn(&format!("deltas {deltas}"))?;
    let out = child.stdout.take().context("no pipe")?;
    let before = clock::cpu();
    let mut bytes = 0;
    read(out, |text| bytes += text.len())?;
    let spent = clock::cpu() - before;
    child.wait()?;
    anyhow::ensure!(bytes > 0, "nothing was read");
    Ok(spent.as_secs_f64())
}

/// Reads many agents at once, each in a thread, and returns what it cost.
pub(crate) fn alone(agents: usize) -> Result<()> {
    let spent = many(agents, |_, out| read(out, drop))?;
    crate::host::tell(spent)
}

/// The same with a copy on disk, as a journal needs it: the bytes before they are looked at, then the text, each
/// by one write into a file of its own.
pub(crate) fn keeping(agents: usize) -> Result<()> {
    let (dir, _) = crate::host::home()?;
    let spent = many(agents, |agent, out| keep(out, &dir, agent))?;
    std::fs::remove_dir_all(dir)?;
    crate::host::tell(spent)
}

fn keep(out: impl Read, dir: &Path, agent: usize) -> Result<usize> {
    let raw = File::create_new(dir.join(format!("{agent}.raw")))?;
    let mut texts = File::create_new(dir.join(format!("{agent}.texts")))?;
    let mut written = Ok(());
    let count = read(Kept { out, raw }, |text| {
        if written.is_ok() {
            written = texts.write_all(text.as_bytes());
        }
    })?;
    written?;
    Ok(count)
}

/// A reader that keeps what it reads.
struct Kept<R> {
    out: R,
    raw: File,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.out.read(room)?;
        self.raw.write_all(&room[..count])?;
        Ok(count)
    }
}

fn many(agents: usize, read: impl Fn(usize, ChildStdout) -> Result<usize> + Sync) -> Result<f64> {
    let before = clock::cpu();
    let mut children: Vec<Child> = (0..agents).map(|_| spawn("paced 400 50000")).collect::<Result<_>>()?;
    let outs: Vec<ChildStdout> = children.iter_mut().filter_map(|child| child.stdout.take()).collect();
    let read = &read;
    let lines = std::thread::scope(|scope| {
        let threads: Vec<_> =
            outs.into_iter().enumerate().map(|(agent, out)| scope.spawn(move || read(agent, out))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?)
            .sum::<Result<usize>>()
    })?;
    let spent = clock::cpu() - before;
    for mut child in children {
        child.wait()?;
    }
    anyhow::ensure!(lines >= agents * 400, "lines are missing: {lines}");
    Ok(spent.as_secs_f64())
}
