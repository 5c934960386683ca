//! The bare reader: what a careful person writes who needs only the text. A pipe, lines, typed serde.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

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

/// Reads all that an agent says, and gives each text to somebody.
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
    let before = clock::cpu();
    let mut children: Vec<Child> = (0..agents).map(|_| spawn("paced 400 50000")).collect::<Result<_>>()?;
    let threads: Vec<_> = children
        .iter_mut()
        .filter_map(|child| child.stdout.take())
        .map(|out| std::thread::spawn(move || read(out, drop).unwrap_or(0)))
        .collect();
    let mut lines = 0;
    for thread in threads {
        lines += thread.join().unwrap_or(0);
    }
    let spent = clock::cpu() - before;
    for mut child in children {
        child.wait()?;
    }
    anyhow::ensure!(lines >= agents * 400, "lines are missing: {lines}");
    crate::host::tell(spent.as_secs_f64())
}
