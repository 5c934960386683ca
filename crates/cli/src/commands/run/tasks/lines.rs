//! The file of `run --tasks`: JSON lines, each a task. A mistake anywhere is an error with file, line and column, before an agent starts.
//!
//! This module knows the form of the file. `plan` compares each line with the command line, because a file may come with a repository.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use bowline::NAME_LIMIT;
use bowline_protocol::TaskSpec;
use clap::ValueEnum as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::request::{PermissionArg, TimeLimit, limit};
use crate::commands::task_file;
use crate::error::{CommandError, Fault};

/// The maximum size of the file.
const LONGEST_FILE: usize = 64 * 1024 * 1024;

/// The maximum length of a line.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// The maximum number of tasks.
const MOST_TASKS: usize = 10_000;

/// The maximum length of an id. It stands before each line about its task.
const LONGEST_ID: usize = 64;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A value, and the column in which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) column: usize,
}

/// A task of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskLine {
    /// The number of its line, from 1 on.
    pub(super) line: usize,
    /// Its own id, else the number of its line.
    pub(super) id: String,
    pub(super) prompt: String,
    /// The label, else the title.
    pub(super) label: Option<String>,
    pub(super) cwd: Option<Placed<PathBuf>>,
    pub(super) provider: Option<Placed<String>>,
    pub(super) model: Option<Placed<String>>,
    pub(super) effort: Option<String>,
    pub(super) permission: Option<Placed<PermissionArg>>,
    pub(super) timeout: Option<Placed<TimeLimit>>,
}

/// The tasks of a file.
#[derive(Debug)]
pub(super) struct TaskList {
    /// The name of the file in messages.
    pub(super) file: String,
    pub(super) tasks: Vec<TaskLine>,
}

/// A mistake in a line.
#[derive(Debug, PartialEq, Eq)]
struct LineProblem {
    column: usize,
    problem: String,
    hint: Option<String>,
}

/// Reads a file; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<TaskList, CommandError> {
    let is_stdin = path == Path::new("-");
    let file = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| {
        CommandError::new(Fault::Usage, format!("could not read the tasks of {file}")).caused_by(error)
    };
    let bytes = if is_stdin {
        bounded(std::io::stdin().lock()).map_err(failed)?
    } else {
        // Check before opening: opening a pipe blocks until it has a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(CommandError::new(Fault::Usage, format!("`--tasks {file}` is not a regular file"))
                .hint("pipe the tasks in: `--tasks -` reads standard input"));
        }
        bounded(std::fs::File::open(path).map_err(failed)?).map_err(failed)?
    };
    if bytes.len() > LONGEST_FILE {
        let message = format!("{file} is larger than {} MiB", LONGEST_FILE / (1024 * 1024));
        return Err(CommandError::new(Fault::Usage, message).hint("split it, or check the path"));
    }
    parse(file, &bytes)
}

fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed distinguishes a file of exactly that size from a larger one.
    source.take(LONGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses all lines.
fn parse(file: String, bytes: &[u8]) -> Result<TaskList, CommandError> {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let (mut tasks, mut lines_of) = (Vec::new(), HashMap::new());
    for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let wrong = |problem: LineProblem| error_at(&file, line, problem);
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        if tasks.len() == MOST_TASKS {
            let problem = format!("the file has more than {MOST_TASKS} tasks");
            return Err(wrong(LineProblem { column: 1, problem, hint: Some("split it".to_owned()) }));
        }
        let (task, at) = task(line, bytes).map_err(wrong)?;
        if let Some(other) = lines_of.insert(task.id.clone(), line) {
            let problem = format!("the id `{}` is already used in line {other}", task.id);
            let hint = Some(
                "give each task an `id` of its own; without one, it is the number of its line".to_owned(),
            );
            return Err(wrong(LineProblem { column: at, problem, hint }));
        }
        tasks.push(task);
    }
    if tasks.is_empty() {
        return Err(CommandError::new(Fault::Usage, format!("{file} has no tasks"))
            .hint("write one JSON object on each line: {\"prompt\": \"…\"}"));
    }
    Ok(TaskList { file, tasks })
}

/// Makes the error of a place in the file.
fn error_at(file: &str, line: usize, LineProblem { column, problem, hint }: LineProblem) -> CommandError {
    CommandError::new(Fault::Usage, format!("{file}:{line}:{column}: {problem}")).maybe_hint(hint)
}

impl TaskList {
    /// Returns the place of a line, as compilers write it.
    pub(super) fn place(&self, task: &TaskLine) -> String {
        format!("{}:{}", self.file, task.line)
    }

    /// Makes the error of a value.
    pub(super) fn error<T>(&self, task: &TaskLine, at: &Placed<T>, problem: String) -> CommandError {
        error_at(&self.file, task.line, LineProblem { column: at.column, problem, hint: None })
    }
}

/// The fields of a line. Each value keeps its text, whose address gives its column.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLine<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    goal: Option<&'a RawValue>,
    #[serde(borrow)]
    constraints: Option<&'a RawValue>,
    #[serde(borrow)]
    acceptance: Option<&'a RawValue>,
    #[serde(borrow, rename = "roomPath")]
    room_path: Option<&'a RawValue>,
    #[serde(borrow, rename = "branchName")]
    branch_name: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    provider: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    effort: Option<&'a RawValue>,
    #[serde(borrow)]
    permission: Option<&'a RawValue>,
    #[serde(borrow)]
    label: Option<&'a RawValue>,
    #[serde(borrow)]
    timeout: Option<&'a RawValue>,
}

/// The text of a line, in which columns are counted.
#[derive(Clone, Copy)]
struct LineText<'a>(&'a str);

impl<'a> LineText<'a> {
    /// Returns the column of a byte, in characters, from 1 on.
    fn column(self, byte: usize) -> usize {
        self.0[..self.0.floor_char_boundary(byte)].chars().count() + 1
    }

    /// Returns the column of a part of the line.
    fn column_of(self, part: &str) -> usize {
        self.column((part.as_ptr() as usize).saturating_sub(self.0.as_ptr() as usize))
    }

    /// Makes a problem of the place of a value.
    fn at(self, raw: &RawValue, problem: impl Into<String>, hint: Option<String>) -> LineProblem {
        LineProblem { column: self.column_of(raw.get()), problem: problem.into(), hint }
    }

    /// Makes the problem of a line that is no object with these fields.
    fn unreadable(self, error: &serde_json::Error) -> LineProblem {
        let message = error.to_string();
        // The place of the parser is that in the line, not in the file.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let mut byte = self.0.floor_char_boundary(error.column().saturating_sub(1));
        if error.is_data() {
            // An unknown field, or one that is there twice: the parser stands at the end of its name.
            byte = self.0[..byte].rfind('"').unwrap_or(byte);
        }
        LineProblem { column: self.column(byte), problem: message.to_owned(), hint: None }
    }

    /// Reads a value.
    fn typed<T: Deserialize<'a>>(
        self,
        name: &str,
        what: &str,
        raw: Option<&'a RawValue>,
    ) -> Result<Option<Placed<T>>, LineProblem> {
        let Some(raw) = raw else { return Ok(None) };
        let value = serde_json::from_str(raw.get())
            .map_err(|_| self.at(raw, format!("`{name}` must be {what}"), None))?;
        Ok(Some(Placed { value, column: self.column_of(raw.get()) }))
    }

    /// Reads a text that is not blank.
    fn text(self, name: &str, raw: Option<&'a RawValue>) -> Result<Option<Placed<String>>, LineProblem> {
        let Some(text) = self.typed::<String>(name, "a text", raw)? else { return Ok(None) };
        match text.value.trim().is_empty() {
            true => {
                Err(LineProblem { column: text.column, problem: format!("`{name}` is empty"), hint: None })
            }
            false => Ok(Some(text)),
        }
    }
}

impl<'a> LineText<'a> {
    /// Reads a text that becomes an argument of the agent's program. The program could take one with a dash for an option of its own.
    fn argument(self, name: &str, raw: Option<&'a RawValue>) -> Result<Option<Placed<String>>, LineProblem> {
        let text = self.text(name, raw)?;
        match text.as_ref().filter(|text| text.value.trim_start().starts_with('-')) {
            Some(text) => {
                let problem = format!("`{name}` must not begin with a dash");
                Err(LineProblem { column: text.column, problem, hint: None })
            }
            None => Ok(text),
        }
    }
}

/// Parses a line. Returns the task, and the column of its id.
fn task(line: usize, bytes: &[u8]) -> Result<(TaskLine, usize), LineProblem> {
    if bytes.len() > LONGEST_LINE {
        let problem = format!("the line is longer than {} MiB", LONGEST_LINE / (1024 * 1024));
        let hint = Some("write it to a file and name the file in the prompt".to_owned());
        return Err(LineProblem { column: 1, problem, hint });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let problem = "the line is not UTF-8".to_owned();
        LineProblem { column: before.chars().count() + 1, problem, hint: None }
    })?;
    let at = LineText(text);
    let begins = at.column_of(text.trim_start());
    if !text.trim_start().starts_with('{') {
        // Serde reads an array as the fields of a struct in their order.
        let hint = Some("write one JSON object on each line: {\"prompt\": \"…\"}".to_owned());
        return Err(LineProblem {
            column: begins,
            problem: "the line is not a JSON object".to_owned(),
            hint,
        });
    }
    let raw: RawLine<'_> = serde_json::from_str(text).map_err(|error| at.unreadable(&error))?;
    let (prompt, title) = prompt(at, &raw, begins)?;
    let (id, id_column) = id(at, raw.id)?.unwrap_or_else(|| (line.to_string(), begins));
    let label = at.text("label", raw.label)?;
    if let Some(label) = label.as_ref().filter(|label| label.value.len() > NAME_LIMIT) {
        let problem = format!("`label` has more than {NAME_LIMIT} bytes");
        return Err(LineProblem { column: label.column, problem, hint: None });
    }
    // A title may be longer than a label.
    let title = title.map(|mut title| {
        title.truncate(title.floor_char_boundary(NAME_LIMIT));
        title
    });
    let cwd = at.text("cwd", raw.cwd)?;
    let task = TaskLine {
        line,
        id,
        prompt,
        label: label.map(|label| label.value).or(title),
        cwd: cwd.map(|Placed { value, column }| Placed { value: PathBuf::from(value), column }),
        provider: at.text("provider", raw.provider)?,
        model: at.argument("model", raw.model)?,
        effort: at.argument("effort", raw.effort)?.map(|effort| effort.value),
        permission: permission(at, raw.permission)?,
        timeout: timeout(at, raw.timeout)?,
    };
    Ok((task, id_column))
}

/// Returns the prompt, and the title if the line has one.
fn prompt(
    at: LineText<'_>,
    raw: &RawLine<'_>,
    begins: usize,
) -> Result<(String, Option<String>), LineProblem> {
    let of_a_task = [raw.title, raw.goal, raw.constraints, raw.acceptance, raw.room_path, raw.branch_name];
    let first = of_a_task.into_iter().flatten().next();
    match (raw.prompt, first) {
        (Some(_), Some(other)) => {
            let problem = "a line has either `prompt`, or `title` and `goal`";
            Err(at.at(other, problem, Some("leave one of them out".to_owned())))
        }
        (Some(_), None) => {
            let text = at.text("prompt", raw.prompt)?;
            Ok((text.map(|text| text.value).unwrap_or_default(), None))
        }
        (None, None) => Err(LineProblem {
            column: begins,
            problem: "the line has no `prompt`".to_owned(),
            hint: Some("write it as {\"prompt\": \"…\"} or {\"title\": \"…\", \"goal\": \"…\"}".to_owned()),
        }),
        (None, Some(first)) => {
            let text = |name: &str, raw| Ok(at.typed::<String>(name, "a text", raw)?.map(|it| it.value));
            let list = |name: &str, raw| {
                let list = at.typed::<Vec<String>>(name, "a list of texts", raw)?;
                Ok(list.map(|it| it.value).unwrap_or_default())
            };
            let spec = TaskSpec {
                title: text("title", raw.title)?.unwrap_or_default(),
                goal: text("goal", raw.goal)?.unwrap_or_default(),
                constraints: list("constraints", raw.constraints)?,
                acceptance: list("acceptance", raw.acceptance)?,
                room_path: text("roomPath", raw.room_path)?,
                branch_name: text("branchName", raw.branch_name)?,
            };
            let task = task_file::of_spec(&spec).map_err(|wrong| {
                at.at(first, format!("the task {}", wrong.problem), Some(wrong.hint.to_owned()))
            })?;
            Ok((task.prompt, Some(task.title)))
        }
    }
}

/// Reads the id: a short text without control characters, or a number.
fn id(at: LineText<'_>, raw: Option<&RawValue>) -> Result<Option<(String, usize)>, LineProblem> {
    let Some(raw) = raw else { return Ok(None) };
    let text = serde_json::from_str::<String>(raw.get())
        .or_else(|_| serde_json::from_str::<i64>(raw.get()).map(|number| number.to_string()));
    let text = text.map_err(|_| at.at(raw, "`id` must be a text or a whole number", None))?;
    if text.trim().is_empty() || text.len() > LONGEST_ID || text.chars().any(char::is_control) {
        let problem = format!("`id` must have 1 to {LONGEST_ID} bytes and no control characters");
        return Err(at.at(raw, problem, None));
    }
    Ok(Some((text, at.column_of(raw.get()))))
}

fn permission(
    at: LineText<'_>,
    raw: Option<&RawValue>,
) -> Result<Option<Placed<PermissionArg>>, LineProblem> {
    let Some(raw) = raw else { return Ok(None) };
    let name = serde_json::from_str::<String>(raw.get()).ok();
    let mode = name.and_then(|name| PermissionArg::from_str(&name, false).ok());
    let mode =
        mode.ok_or_else(|| at.at(raw, "`permission` must be `read`, `ask`, `edit` or `yolo`", None))?;
    Ok(Some(Placed { value: mode, column: at.column_of(raw.get()) }))
}

/// Reads the timeout: a text as for `--timeout`, or a number of seconds.
fn timeout(at: LineText<'_>, raw: Option<&RawValue>) -> Result<Option<Placed<TimeLimit>>, LineProblem> {
    let Some(raw) = raw else { return Ok(None) };
    let text = serde_json::from_str::<String>(raw.get())
        .or_else(|_| serde_json::from_str::<u32>(raw.get()).map(|seconds| seconds.to_string()));
    let time = text.ok().and_then(|text| limit(&text).ok());
    let time = time.ok_or_else(|| {
        at.at(raw, "`timeout` must be a time such as \"90s\" or \"10m\", or \"none\"", None)
    })?;
    Ok(Some(Placed { value: time, column: at.column_of(raw.get()) }))
}

#[cfg(test)]
mod tests;
