//! The agent that `bench run` measures with: prints lines as Claude Code does, as fast or as slowly as it is told.
//!
//! A program of its own, and a small one: how long a program takes to come to its `main` depends on its size.

mod live;

use std::io::{BufRead, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The variable that says what to play: `deltas N`, `bytes N`, `paced N MICROS`, `items N` (as Codex does), `hello`, `live`
/// (its prompts say the rest), or `reader`, a bare host program that starts this one with `hello` and reads its lines.
const PART: &str = "BENCH_AGENT";

fn main() -> ExitCode {
    let started = nanos();
    let part = std::env::vars().find(|(name, _)| name == PART).map(|(_, value)| value).unwrap_or_default();
    let words: Vec<&str> = part.split(' ').collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(0_u64);
    let mut out = BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let played = (|| -> std::io::Result<()> {
        if words[0] == "reader" {
            return reader();
        }
        if words[0] == "items" {
            return items(&mut out, number(1));
        }
        if words[0] == "live" {
            return live::talk(&mut out);
        }
        writeln!(
            out,
            r#"{{"type":"system","subtype":"init","session_id":"b","model":"m","cwd":"{started}"}}"#
        )?;
        match words[0] {
            "deltas" => {
                for _ in 0..number(1) {
                    delta(&mut out, "twelve words of text, more or less, as one piece of an answer")?;
                }
            }
            "bytes" => {
                // Lines of a tool's output, which is what long streams are made of.
                let piece = "x".repeat(2000);
                for _ in 0..number(1) / 2300 {
                    delta(&mut out, &piece)?;
                }
            }
            "paced" => {
                for _ in 0..number(1) {
                    delta(&mut out, &nanos().to_string())?;
                    out.flush()?;
                    std::thread::sleep(Duration::from_micros(number(2)));
                }
            }
            _ => delta(&mut out, "Hello, world")?,
        }
        writeln!(
            out,
            r#"{{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"b"}}"#
        )?;
        out.flush()
    })();
    if played.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Starts an agent and reads it, as the smallest host program does that is of any use.
#[expect(clippy::disallowed_methods, reason = "this is what a bare host costs")]
fn reader() -> std::io::Result<()> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    let mut child = std::process::Command::new(std::env::current_exe()?)
        .env(PART, "hello")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let from = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    let mut ended = false;
    for line in std::io::BufReader::new(from).lines() {
        ended |= serde_json::from_str::<Line<'_>>(&line?)?.kind == "result";
    }
    let done = ended && child.wait()?.success();
    if done { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

/// Whole messages, each an item of its own.
fn items(out: &mut impl Write, count: u64) -> std::io::Result<()> {
    writeln!(out, r#"{{"type":"thread.started","thread_id":"t"}}"#)?;
    writeln!(out, r#"{{"type":"turn.started"}}"#)?;
    for item in 0..count {
        writeln!(
            out,
            r#"{{"type":"item.completed","item":{{"id":"item_{item}","type":"agent_message","text":"twelve words of text, more or less, as one message of an answer"}}}}"#
        )?;
    }
    writeln!(
        out,
        r#"{{"type":"turn.completed","usage":{{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}}}"#
    )?;
    out.flush()
}

pub(crate) fn delta(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    writeln!(
        out,
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"6f0c6f3e-5b6a-4c57-9f3f-6f0c6f3e5b6a","parent_tool_use_id":null,"uuid":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed","api_message_id":"msg_01"}}"#
    )
}

/// The time since some moment, the same for all processes.
pub(crate) fn nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
