//! Directives: the commands that a prompt or a script can give the agent, one on each line.
//!
//! In a prompt, lines that begin with `practice:` are directives and the others are ignored, so a script can be part of
//! a longer text. In a file or in `PRACTICE_SCRIPT` every line is one; there the word may be left out, and `#` begins a comment.

mod values;

use std::time::Duration;

use crate::children::Trait;
use crate::signals::{HEARD, HostOrder};

/// A directive, as the help shows it.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its form.
    pub(crate) usage: &'static str,
    /// Its effect.
    pub(crate) about: &'static str,
    /// An example that parses; a test checks it.
    #[cfg_attr(not(test), expect(dead_code, reason = "an example for readers, and for the tests"))]
    pub(crate) example: &'static str,
}

const fn known(usage: &'static str, example: &'static str, about: &'static str) -> Known {
    Known { usage, about, example }
}

/// Every directive. The word at the beginning of the form is its name.
pub(crate) const DIRECTIVES: &[Known] = &[
    known("say TEXT", "say Hello", "says a message"),
    known("think TEXT", "think \"first this\\nthen that\"", "prints thinking"),
    known("delta COUNT x LENGTH", "delta 20000 x 40", "prints this many deltas of this many letters"),
    known("tool read FILE", "tool read notes.md", "reads a file"),
    known("tool edit FILE TEXT", "tool edit notes.md \"one more line\"", "adds a line to a file"),
    known("tool edit FILE OLD NEW", "tool edit notes.md \"old\" \"new\"", "replaces a text in a file"),
    known("tool write FILE TEXT", "tool write notes.md \"all of it\"", "writes a file"),
    known("tool run COMMAND", "tool run wc -l notes.md", "runs a command in a shell"),
    known("asks", "asks", "from here on, requests a missing permission; no response is a denial"),
    known(
        "question TEXT [CHOICE...]",
        "question \"Which colour?\" red \"dark blue\"",
        "asks the user, with --format acp, and says the answer; otherwise, and without an answer, says that there is none",
    ),
    known("task", "task", "plays the short task that a prompt without directives plays"),
    known("show", "show", "prints, as JSON, its arguments, prompt and environment"),
    known("result", "result", "completes the turn; without it, the end of the script does"),
    known("next-prompt", "next-prompt", "the steps behind it are for the session's next prompt"),
    known("no-result", "no-result", "does not complete the turn at the end"),
    known("second-result", "second-result", "completes the turn twice"),
    known("fail STATUS TEXT", "fail 429 slow down", "ends the turn with an error of the model's server"),
    known("init again", "init again", "starts the session once more"),
    known(
        "message-between-deltas",
        "message-between-deltas",
        "prints a whole message between deltas of another",
    ),
    known("unknown-type", "unknown-type", "prints a line of a type that the dialect does not have"),
    known("line TEXT", "line {not json", "prints a line unchanged"),
    known("bytes HEX...", "bytes ff fe 00 0a", "prints bytes, and no end of line"),
    known("long-line SIZE", "long-line 2MB", "prints a message in one line of this size"),
    known("long-line SIZE garbage", "long-line 50MB garbage", "prints a line of this size that is not JSON"),
    known("half-line", "half-line", "prints the first half of a line"),
    known("stderr TEXT", "stderr \"a warning\"", "prints a line on standard error"),
    known("flood stdout SIZE", "flood stdout 500MB", "prints this much, in deltas of 1000 letters"),
    known("flood stderr SIZE", "flood stderr 10MB", "prints this much on standard error"),
    known("close-stdout", "close-stdout", "closes standard output and goes on"),
    known("sleep TIME", "sleep 2s", "waits"),
    known("silent", "silent", "prints nothing any more"),
    known("silent TIME", "silent 500ms", "prints nothing for this long"),
    known("hang", "hang", "hangs; after `result`, it has answered and does not exit"),
    known("pace X", "pace 0.5", "prints at this pace from here on"),
    known("read-stdin", "read-stdin", "reads standard input to its end, if that has not happened"),
    known(
        "never-read-stdin",
        "never-read-stdin",
        "does not read it (in a script only: a prompt comes through it)",
    ),
    known("answer-early", "answer-early", "in the first 64 KiB of a prompt: does not read the rest of it"),
    known(
        "ignore ORDER...",
        "ignore sigterm cancel",
        "ignores sigterm, sigint, sighup, and with --format acp cancel, steer, set and eof (the end of its input)",
    ),
    known(
        "child TRAIT... [SECONDS]",
        "child setsid holds-stdout 600",
        "leaves a process: plain, sleep, setsid, daemon, holds-stdout, ignores-sigterm",
    ),
    known(
        "launcher-exits",
        "launcher-exits",
        "a child plays the script, while the first process exits at once",
    ),
    known("exit CODE", "exit 3", "exits at once, with this code"),
    known("kill-self SIGNAL", "kill-self 9", "sends itself a signal, by number or name"),
    known("crash", "crash", "aborts"),
];

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Think(String),
    Deltas { count: u64, length: usize },
    Tool(ToolStep),
    Asks,
    Question { text: String, choices: Vec<String> },
    Task,
    Show,
    Result,
    NoResult,
    SecondResult,
    Fail { status: u16, message: String },
    InitAgain,
    MessageBetweenDeltas,
    UnknownType,
    Line(String),
    Bytes(Vec<u8>),
    LongLine { size: usize, garbage: bool },
    HalfLine,
    Stderr(String),
    FloodStdout(u64),
    FloodStderr(u64),
    CloseStdout,
    Sleep(Duration),
    Hang,
    Pace(f64),
    ReadStdin,
    NeverReadStdin,
    AnswerEarly,
    Ignore(Vec<HostOrder>),
    Child { traits: Vec<Trait>, seconds: u64 },
    LauncherExits,
    NextPrompt,
    Exit(u8),
    KillSelf(i32),
    Crash,
}

/// A tool to run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolStep {
    Read(String),
    Append { file: String, text: String },
    Replace { file: String, old: String, new: String },
    Write { file: String, text: String },
    Run(String),
}

/// Parses the directives of a prompt. A prompt without any gives an empty list.
pub(crate) fn of_prompt(prompt: &str) -> Result<Vec<Step>, String> {
    prompt.lines().filter_map(directive).map(step).collect()
}

/// Reads a script.
pub(crate) fn of_script(script: &str) -> Result<Vec<Step>, String> {
    let lines = script.lines().map(|line| directive(line).unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(step).collect()
}

/// Returns the part of a script for a prompt with this many before it in its session. Behind the last part the first one follows.
pub(crate) fn part(steps: Vec<Step>, earlier: u64) -> Vec<Step> {
    let mut parts = vec![Vec::new()];
    for step in steps {
        match parts.last_mut() {
            Some(last) if step != Step::NextPrompt => last.push(step),
            Some(_) | None => parts.push(Vec::new()),
        }
    }
    let place = usize::try_from(earlier % parts.len() as u64).unwrap_or(0);
    parts.swap_remove(place)
}

/// Returns whether the beginning of a prompt means that the rest must not be read. Its last line may be incomplete.
pub(crate) fn answers_early(beginning: &str) -> bool {
    beginning.lines().filter_map(directive).any(|text| text == "answer-early")
}

/// Returns the text behind `practice:`.
fn directive(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("practice:").map(str::trim)
}

fn step(text: &str) -> Result<Step, String> {
    parse(text).map_err(|why| format!("bad directive `practice: {text}`: {why}"))
}

fn parse(text: &str) -> Result<Step, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    Ok(match name {
        "say" => Step::Say(values::text(rest)?),
        "think" => Step::Think(values::text(rest)?),
        "delta" => {
            let (count, length) = rest.split_once('x').ok_or("the form is `delta COUNT x LENGTH`")?;
            Step::Deltas { count: values::number(count)?, length: values::number(length)? }
        }
        "tool" => Step::Tool(tool(rest)?),
        "question" => {
            let mut words = values::words(rest)?.into_iter();
            let text = words.next().ok_or("it needs a text; put quotes around text with spaces")?;
            Step::Question { text, choices: words.collect() }
        }
        "fail" => {
            let (status, message) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let message = if message.is_empty() { String::new() } else { values::text(message)? };
            Step::Fail { status: values::number(status)?, message }
        }
        "init" if rest == "again" => Step::InitAgain,
        "line" => Step::Line(rest.to_owned()),
        "bytes" => Step::Bytes(values::hex(rest)?),
        "long-line" => {
            let (size, garbage) = match rest.split_once(char::is_whitespace) {
                None => (rest, false),
                Some((size, "garbage")) => (size, true),
                Some((_, other)) => return Err(format!("`{other}` is not `garbage`")),
            };
            let size = usize::try_from(values::size(size)?).map_err(|_| "that is too long")?;
            Step::LongLine { size, garbage }
        }
        "stderr" => Step::Stderr(values::text(rest)?),
        "flood" => match rest.split_once(char::is_whitespace) {
            Some(("stdout", size)) => Step::FloodStdout(values::size(size)?),
            Some(("stderr", size)) => Step::FloodStderr(values::size(size)?),
            _ => return Err("the form is `flood stdout SIZE` or `flood stderr SIZE`".to_owned()),
        },
        "sleep" => Step::Sleep(values::time(rest)?),
        "silent" if !rest.is_empty() => Step::Sleep(values::time(rest)?),
        "pace" => Step::Pace(values::pace(rest)?),
        "ignore" => ignore(rest)?,
        "child" => child(rest)?,
        "exit" => Step::Exit(values::number(rest)?),
        "kill-self" => Step::KillSelf(values::signal(rest)?),
        _ if !rest.is_empty() && bare(name).is_some() => return Err(format!("`{name}` takes no argument")),
        _ => bare(name).ok_or_else(|| "unknown name or form; --help lists the directives".to_owned())?,
    })
}

/// Returns the directive that is a single word.
fn bare(name: &str) -> Option<Step> {
    Some(match name {
        "asks" => Step::Asks,
        "task" => Step::Task,
        "show" => Step::Show,
        "result" => Step::Result,
        "no-result" => Step::NoResult,
        "second-result" => Step::SecondResult,
        "message-between-deltas" => Step::MessageBetweenDeltas,
        "unknown-type" => Step::UnknownType,
        "half-line" => Step::HalfLine,
        "close-stdout" => Step::CloseStdout,
        "silent" | "hang" => Step::Hang,
        "read-stdin" => Step::ReadStdin,
        "never-read-stdin" => Step::NeverReadStdin,
        "answer-early" => Step::AnswerEarly,
        "launcher-exits" => Step::LauncherExits,
        "next-prompt" => Step::NextPrompt,
        "crash" => Step::Crash,
        _ => return None,
    })
}

fn tool(text: &str) -> Result<ToolStep, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if name == "run" && !rest.trim().is_empty() {
        return Ok(ToolStep::Run(rest.trim().to_owned()));
    }
    let mut words = values::words(rest)?.into_iter();
    let step = match (name, words.next(), words.next(), words.next()) {
        ("read", Some(file), None, None) => ToolStep::Read(file),
        ("edit", Some(file), Some(text), None) => ToolStep::Append { file, text },
        ("edit", Some(file), Some(old), Some(new)) => ToolStep::Replace { file, old, new },
        ("write", Some(file), Some(text), None) => ToolStep::Write { file, text },
        _ => {
            return Err("it is `read FILE`, `edit FILE TEXT`, `edit FILE OLD NEW`, `write FILE TEXT` or \
                        `run COMMAND`; put quotes around what has spaces"
                .to_owned());
        }
    };
    if words.next().is_some() {
        return Err("there is one word too many; put quotes around text with spaces".to_owned());
    }
    Ok(step)
}

fn ignore(text: &str) -> Result<Step, String> {
    let orders = text.split_whitespace().map(values::order).collect::<Result<Vec<_>, _>>()?;
    let can = |order: &HostOrder| match order {
        HostOrder::Signal(signal) => HEARD.contains(signal),
        HostOrder::Cancel | HostOrder::Steer | HostOrder::Set | HostOrder::EndOfInput => true,
    };
    if orders.is_empty() || !orders.iter().all(can) {
        return Err("it can ignore sigterm, sigint, sighup, cancel, steer, set and eof".to_owned());
    }
    Ok(Step::Ignore(orders))
}

fn child(text: &str) -> Result<Step, String> {
    let mut seconds = 600;
    let mut traits = Vec::new();
    for word in text.split_whitespace() {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            seconds = values::number(word)?;
        } else {
            traits.push(Trait::parse(word)?);
        }
    }
    if traits.is_empty() {
        return Err(
            "it needs one of plain, sleep, setsid, daemon, holds-stdout or ignores-sigterm".to_owned()
        );
    }
    Ok(Step::Child { traits, seconds })
}

#[cfg(test)]
mod tests;
