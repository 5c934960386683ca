//! The cases for executable providers, and how to test them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bowline_process::ExitStatus;
use serde_json::{Value, json};

use super::call::{CallOutput, ExecutableSubject};
use crate::case_failure::{CaseFailure, CaseVerdict, hold, short};

/// The time limit of a rejection.
const REFUSAL: Duration = Duration::from_secs(10);

/// The time limit of `health`.
const HEALTH: Duration = Duration::from_secs(5);

/// Below this, a stream cannot be distinguished from a fast answer.
const QUICK: Duration = Duration::from_secs(1);

type ExecutableTrial<'a> = Pin<Box<dyn Future<Output = CaseVerdict> + Send + 'a>>;

/// One promise of an executable provider.
pub struct ExecutableCase {
    /// The name, for `--only` and for reports.
    pub name: &'static str,
    /// The promise, in a sentence.
    pub about: &'static str,
    /// The command that it tests.
    pub(super) of: &'static str,
    pub(super) body: for<'a> fn(&'a ExecutableSubject) -> ExecutableTrial<'a>,
}

impl std::fmt::Debug for ExecutableCase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutableCase").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! cases {
    ($($name:literal of $of:literal, $about:literal, $body:ident;)+) => {
        const ALL: &[ExecutableCase] =
            &[$(ExecutableCase { name: $name, of: $of, about: $about, body: |subject| Box::pin($body(subject)) }),+];
    };
}

cases! {
    "generate" of "generate", "`generate` returns one object with every required field", generate;
    "stream" of "stream", "`stream` returns chunks with every required field", stream;
    "streams" of "stream", "chunks arrive while the answer is generated, not all at its end", streams;
    "content-delta" of "stream", "`content` of every chunk is the sum of the `delta`s so far", content_delta;
    "done-once" of "stream", "exactly one chunk is `done`, and it is the last", done_once;
    "health" of "health", "`health` exits with 0 within five seconds", health;
    "version" of "--version", "`--version` prints the version", version;
    "unknown-command" of "generate", "an unknown command is rejected, with a reason", unknown_command;
    "bad-json" of "generate", "a request that is not JSON is rejected, with a reason", bad_json;
    "empty-prompt" of "generate", "an empty prompt is answered, or rejected with a reason", empty_prompt;
    "unicode" of "generate", "a prompt with letters of many scripts is answered in UTF-8", unicode;
    "large-prompt" of "generate", "a prompt of one megabyte is read to its end", large_prompt;
    "context" of "generate", "context, settings, metadata and hints are accepted", context;
    "unknown-fields" of "generate", "unknown fields are ignored", unknown_fields;
    "ends-when-asked" of "generate", "the program exits within two seconds of SIGTERM", ends_when_asked;
    "leaves-nothing" of "generate", "no process outlives a call", leaves_nothing;
}

/// Returns every case, in the order of reports.
pub fn all() -> impl Iterator<Item = &'static ExecutableCase> {
    ALL.iter()
}

async fn generate(subject: &ExecutableSubject) -> CaseVerdict {
    let said = subject.generated().await?;
    let answer = answered(said)?;
    let mut wrong = Vec::new();
    for (field, is_good) in [
        ("tokens_used", Value::is_u64 as fn(&Value) -> bool),
        ("model", Value::is_string),
        ("latency", Value::is_u64),
        ("finish_reason", Value::is_string),
        ("provider", Value::is_string),
    ] {
        match answer.get(field) {
            Some(value) if is_good(value) => {}
            Some(value) => wrong.push(format!("`{field}` is {value}, which has the wrong type")),
            None => wrong.push(format!("`{field}` is missing")),
        }
    }
    if answer["content"] == "" {
        wrong.push("`content` is empty, but the prompt was to say hello".to_owned());
    }
    if let Some(reason) =
        answer["finish_reason"].as_str().filter(|it| !["stop", "length", "tool_use"].contains(it))
    {
        wrong.push(format!("`finish_reason` is {reason:?}; it has to be stop, length or tool_use"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.push(format!("the answer: {}", short(&answer.to_string())));
    Err(CaseFailure(wrong))
}

/// A chunk, and when it arrived.
struct Chunk {
    value: Value,
    at: Duration,
}

/// Returns the chunks of the long answer. A line that is not an object ends the test.
async fn chunks(subject: &ExecutableSubject) -> Result<Vec<Chunk>, CaseFailure> {
    let said = subject.streamed().await?;
    ended_well(said)?;
    let text = utf8(&said.stdout)?;
    let mut chunks = Vec::new();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(line).ok().filter(Value::is_object).ok_or_else(|| {
            CaseFailure::new(format_args!("a line of `stream` is not a JSON object: {}", short(line)))
        })?;
        // A chunk has arrived when the last byte of its line has.
        chunks.push(Chunk { value, at: said.when(end - 1) });
    }
    hold(!chunks.is_empty(), || "`stream` printed nothing".to_owned())?;
    Ok(chunks)
}

async fn stream(subject: &ExecutableSubject) -> CaseVerdict {
    for Chunk { value, .. } in chunks(subject).await? {
        let mut wrong = Vec::new();
        for (field, is_good) in [
            ("content", Value::is_string as fn(&Value) -> bool),
            ("delta", Value::is_string),
            ("done", Value::is_boolean),
            ("timestamp", is_time),
        ] {
            match value.get(field) {
                Some(found) if is_good(found) => {}
                Some(found) => wrong.push(format!("`{field}` is {found}, which has the wrong type")),
                None => wrong.push(format!("`{field}` is missing")),
            }
        }
        if let Some(error) = error_of(&value) {
            wrong.push(format!("`error` is {error:?}"));
        }
        if !wrong.is_empty() {
            wrong.push(format!("the chunk: {}", short(&value.to_string())));
            return Err(CaseFailure(wrong));
        }
    }
    Ok(())
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok())
}

async fn streams(subject: &ExecutableSubject) -> CaseVerdict {
    let chunks = chunks(subject).await?;
    let took = subject.streamed().await?.took;
    let with_text: Vec<&Chunk> =
        chunks.iter().filter(|it| it.value["delta"].as_str().is_some_and(|it| !it.is_empty())).collect();
    hold(with_text.len() >= 2, || format!("a long answer arrived in {} chunk with text", with_text.len()))?;
    // The start of the program is not part of the answer.
    let startup = subject.startup().await;
    let (first, took) = (with_text[0].at.saturating_sub(startup), took.saturating_sub(startup));
    // A program that collects its answer prints the first text in the last tenth of the time.
    hold(took < QUICK || first.as_secs_f64() < took.as_secs_f64() * 0.9, || {
        format!(
            "the first text arrived {first:.1?} after the start, the end after {took:.1?}: all text arrived at the end"
        )
    })
}

async fn content_delta(subject: &ExecutableSubject) -> CaseVerdict {
    let mut said = String::new();
    for (number, Chunk { value, .. }) in chunks(subject).await?.iter().enumerate() {
        said.push_str(value["delta"].as_str().unwrap_or_default());
        hold(value["content"] == said.as_str(), || {
            format!(
                "chunk {}: `content` is {}, and the `delta`s so far are {}",
                number + 1,
                short(&value["content"].to_string()),
                short(&said)
            )
        })?;
    }
    Ok(())
}

async fn done_once(subject: &ExecutableSubject) -> CaseVerdict {
    let chunks = chunks(subject).await?;
    let done: Vec<usize> = chunks
        .iter()
        .enumerate()
        .filter(|(_, it)| it.value["done"] == true)
        .map(|(place, _)| place + 1)
        .collect();
    hold(done == [chunks.len()], || match done[..] {
        [] => format!("none of {} chunks is `done`", chunks.len()),
        _ => format!("of {} chunks, these are `done`: {done:?}", chunks.len()),
    })
}

async fn health(subject: &ExecutableSubject) -> CaseVerdict {
    let said = subject.call("health", None, HEALTH).await?;
    ended_well(&said)
}

async fn version(subject: &ExecutableSubject) -> CaseVerdict {
    subject.version().await.map(|_| ())
}

async fn unknown_command(subject: &ExecutableSubject) -> CaseVerdict {
    refused(&subject.call("no-such-command", None, REFUSAL).await?)
}

async fn bad_json(subject: &ExecutableSubject) -> CaseVerdict {
    let words: &[&str] = if subject.streams() { &["generate", "stream"] } else { &["generate"] };
    for word in words {
        let said = subject.call(word, Some("{\"prompt\": \"no end".to_owned()), REFUSAL).await?;
        refused(&said)
            .map_err(|trouble| trouble.and(format_args!("the command was `{}`", subject.written(word))))?;
    }
    Ok(())
}

async fn empty_prompt(subject: &ExecutableSubject) -> CaseVerdict {
    let request = subject.request("")?.to_string();
    answered_or_refused(&subject.call("generate", Some(request), subject.patience).await?)
}

async fn unicode(subject: &ExecutableSubject) -> CaseVerdict {
    let prompt = "Repeat: Ægir, Łódź, Ελλάδα, Русь, עברית, العربية, 漢字, 한국어, 👩🏽‍💻, \"quoted\", back\\slash,\nline,\ttab.";
    let request = subject.request(prompt)?.to_string();
    answered(&subject.call("generate", Some(request), subject.patience).await?).map(|_| ())
}

async fn large_prompt(subject: &ExecutableSubject) -> CaseVerdict {
    let prompt = format!("{}\nHow many words was that, roughly?", "word ".repeat(210_000));
    let request = subject.request(&prompt)?.to_string();
    // The model's context may be too small for it; then the provider has to report that.
    answered_or_refused(&subject.call("generate", Some(request), subject.patience).await?)
}

async fn context(subject: &ExecutableSubject) -> CaseVerdict {
    let mut request = subject.request("And what did I say before that?")?;
    request["system_prompt"] = "Be brief.".into();
    request["context"] = json!([
        { "role": "user", "content": "My name is Ada." },
        { "role": "assistant", "content": "Hello, Ada." },
    ]);
    request["metadata"] = json!({ "task_id": "abc123", "user_id": "user456" });
    request["config"]["custom_option"] = "value".into();
    (request["max_tokens"], request["temperature"], request["top_p"]) = (64.into(), 0.7.into(), 0.9.into());
    answered(&subject.call("generate", Some(request.to_string()), subject.patience).await?).map(|_| ())
}

async fn unknown_fields(subject: &ExecutableSubject) -> CaseVerdict {
    let mut request = subject.request("Say hello.")?;
    request["x_later"] = "a field of a later version".into();
    answered(&subject.call("generate", Some(request.to_string()), subject.patience).await?).map(|_| ())
}

async fn ends_when_asked(subject: &ExecutableSubject) -> CaseVerdict {
    subject.asked_to_end().await
}

async fn leaves_nothing(subject: &ExecutableSubject) -> CaseVerdict {
    subject.generated().await?;
    let left = subject.left();
    hold(left.is_empty(), || {
        let list: Vec<String> = left.iter().map(|it| format!("{} ({})", it.command, it.pid)).collect();
        format!("processes that outlived their call: {}", list.join(", "))
    })
}

fn utf8(bytes: &[u8]) -> Result<&str, CaseFailure> {
    std::str::from_utf8(bytes).map_err(|error| {
        CaseFailure::new(format_args!("standard output is not UTF-8: {error}"))
            .and(format_args!("the bytes are {}", short(&String::from_utf8_lossy(bytes))))
    })
}

/// Returns `error`; absent, null and empty mean success.
fn error_of(answer: &Value) -> Option<&Value> {
    answer.get("error").filter(|error| !error.is_null() && *error != "")
}

fn told(said: &CallOutput) -> CaseFailure {
    CaseFailure::new(format_args!("standard output: {}", short(&String::from_utf8_lossy(&said.stdout))))
        .and(format_args!("standard error: {}", short(&String::from_utf8_lossy(&said.stderr))))
}

pub(super) fn because(what: String, said: &CallOutput) -> CaseFailure {
    let mut trouble = CaseFailure::new(what);
    trouble.0.extend(told(said).0);
    trouble
}

fn ended_well(said: &CallOutput) -> CaseVerdict {
    match said.exit {
        Some(ExitStatus::Code(0)) => Ok(()),
        Some(exit) => Err(because(format!("the program ended with {exit}"), said)),
        None => Err(because("the program did not exit".to_owned(), said)),
    }
}

/// Returns the response of a successful call.
fn answered(said: &CallOutput) -> Result<Value, CaseFailure> {
    ended_well(said)?;
    let text = utf8(&said.stdout)?;
    let answer: Value = serde_json::from_str(text.trim())
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| because("the output is not a JSON object".to_owned(), said))?;
    if let Some(error) = error_of(&answer) {
        return Err(because(format!("`error` is {error}"), said));
    }
    hold(answer["content"].is_string(), || "`content` is not a string".to_owned())
        .map_err(|trouble| because(trouble.0.join(""), said))?;
    Ok(answer)
}

/// Succeeds if the call failed and gave a reason.
pub(super) fn refused(said: &CallOutput) -> CaseVerdict {
    match said.exit {
        Some(ExitStatus::Code(0)) => {
            return Err(because("the program reported success with exit code 0".to_owned(), said));
        }
        Some(ExitStatus::Code(_)) => {}
        Some(ExitStatus::Signal(_) | ExitStatus::Unknown) | None => return ended_well(said),
    }
    let reason = !String::from_utf8_lossy(&said.stderr).trim().is_empty();
    hold(reason, || "standard error has no reason".to_owned())
        .map_err(|trouble| because(trouble.0.join(""), said))
}

/// Succeeds if the call has an answer, or failed with a reason, on standard error or in the response.
fn answered_or_refused(said: &CallOutput) -> CaseVerdict {
    if said.exit == Some(ExitStatus::Code(0)) {
        let answer: Option<Value> = serde_json::from_slice(&said.stdout).ok();
        let explained = answer.as_ref().is_some_and(|answer| error_of(answer).is_some());
        return if explained { Ok(()) } else { answered(said).map(|_| ()) };
    }
    refused(said)
}
