//! Tool calls: one line each, with its subject and outcome.

use bowline_protocol::kinds::{ToolFinished, ToolKind, ToolStarted, ToolStatus, ToolUpdated};
use bowline_protocol::{Excerpt, Json, Timestamp, ToolId};
use serde_json::Value;

use super::line::{Paint, PaintedLine};
use super::tool_details::EditChange;
use super::words::{self, Glyphs};

/// The maximum width of a reason in the line of a call.
const REASON: usize = 100;

/// The arguments that can be the subject of a call, in order of preference.
const TELLING: [&str; 19] = [
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "command",
    "cmd",
    "changes",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "skill",
    "title",
    "dir_path",
    "directory",
    "file",
    "text",
];

/// The open calls.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    open: Vec<ToolCall>,
}

/// One tool call.
#[derive(Clone, Debug)]
pub(super) struct ToolCall {
    id: ToolId,
    name: String,
    pub(super) kind: ToolKind,
    subject: String,
    title: String,
    nested: bool,
    started: Timestamp,
    /// The arguments so far.
    input: Option<Json>,
    /// The beginning of arguments that are too long for an event.
    head: Option<Excerpt>,
    /// The end of its output so far.
    tail: String,
}

/// The maximum size of the kept output of an open call.
const TAIL: usize = 8 * 1024;

impl ToolCall {
    /// Returns the arguments.
    pub(super) fn arguments(&self) -> Option<Value> {
        self.input.as_ref()?.read().ok()
    }

    /// Returns the beginning of arguments that are too long for an event.
    pub(super) fn input_head(&self) -> Option<&Excerpt> {
        self.head.as_ref()
    }

    /// Returns the change of an edit, if its arguments contain it.
    pub(super) fn change(&self) -> Option<EditChange> {
        if self.kind == ToolKind::Edit { EditChange::of(&self.arguments()?) } else { None }
    }

    /// Returns the output of the call, or its end.
    pub(super) fn output<'a>(&'a self, end: &'a ToolFinished) -> &'a str {
        match &end.output {
            // The event has only the beginning of a long output; the end is more useful.
            Some(output) if output.is_cut() && !self.tail.is_empty() => &self.tail,
            Some(output) => &output.text,
            None => &self.tail,
        }
    }

    fn printed(&mut self, text: &str) {
        self.tail.push_str(text);
        // Cut at twice the size, so that not every piece of output moves the rest of the text.
        if self.tail.len() > 2 * TAIL {
            let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL);
            self.tail.drain(..from);
        }
    }

    /// Returns the agent's name of the tool.
    pub(super) fn tool(&self) -> &str {
        &self.name
    }

    /// Returns `Some` if the subject is a path outside the working directory, with the directory if it is known. Paths below
    /// the working directory were shortened.
    pub(super) fn outside(&self) -> Option<Option<&str>> {
        let path = &self.subject;
        if path.starts_with("../") {
            return Some(None);
        }
        let (dir, _) = path.strip_prefix('/').map(|_| path)?.rsplit_once('/')?;
        // Never suggest to add the root directory.
        Some(Some(dir).filter(|dir| !dir.is_empty()))
    }

    /// Returns the file, the command, or whatever else the call is about.
    pub(super) fn subject(&self) -> &str {
        if self.subject.is_empty() { &self.title } else { &self.subject }
    }

    /// Returns the tool and the subject.
    pub(super) fn label(&self) -> String {
        let name = words::one_line(&self.name);
        let subject = self.subject();
        let repeats = subject.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(&name));
        if subject.is_empty() {
            name
        } else if repeats {
            subject.to_owned()
        } else {
            format!("{name} {subject}")
        }
    }

    /// Returns the time since the start.
    pub(super) fn age(&self, now: Timestamp) -> String {
        words::whole_seconds(now.since(self.started))
    }

    /// Returns the line of the ended call.
    pub(super) fn ended(&self, end: &ToolFinished, at: Timestamp, glyphs: Glyphs) -> PaintedLine {
        let took = at.since(self.started);
        let change = self.change().filter(|_| end.status == ToolStatus::Completed).map(|it| it.counts());
        let took = (took.0 >= 100).then(|| took.to_string());
        let figures: Vec<String> = change.into_iter().chain(took).collect();
        let took = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join(", ")) };
        let exit = end.exit_code.filter(|code| *code != 0).map(|code| format!(": exit {code}"));
        let (paint, glyph, outcome) = match end.status {
            ToolStatus::Completed => (Paint::Green, glyphs.done(), exit.unwrap_or_default() + &took),
            ToolStatus::Failed => {
                let why = exit.unwrap_or_else(|| reason(end, glyphs));
                (Paint::Red, glyphs.failed(), why + &took)
            }
            ToolStatus::Denied => (Paint::Yellow, glyphs.refused(), ": refused".to_owned()),
            ToolStatus::Cancelled => (Paint::Yellow, glyphs.refused(), format!(": stopped{took}")),
        };
        self.line(paint, glyph).and(Paint::Dim, outcome)
    }

    /// Returns the line of a call without a reported end.
    pub(super) fn abandoned(&self, glyphs: Glyphs) -> PaintedLine {
        self.line(Paint::Yellow, glyphs.refused()).and(Paint::Dim, ": did not finish")
    }

    fn line(&self, paint: Paint, glyph: &str) -> PaintedLine {
        let indent = if self.nested { "  " } else { "" };
        PaintedLine::of(paint, format!("{indent}{glyph} ")).and(Paint::Plain, self.label())
    }
}

/// Returns the reason of a failed call: the first line of its output.
fn reason(end: &ToolFinished, glyphs: Glyphs) -> String {
    let text = end.output.as_ref().map_or("", |output| output.text.as_str());
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(": {}", words::cut(&words::one_line(line), REASON, glyphs)),
        None => ": failed".to_owned(),
    }
}

impl OpenCalls {
    /// Returns the latest open call, and the number of the other open calls.
    pub(super) fn running(&self) -> Option<(&ToolCall, usize)> {
        self.open.last().map(|call| (call, self.open.len() - 1))
    }

    /// Finds an open call.
    pub(super) fn find(&self, id: &ToolId) -> Option<&ToolCall> {
        self.open.iter().find(|call| call.id == *id)
    }

    /// Records the start of a call.
    pub(super) fn started(&mut self, tool: &ToolStarted, at: Timestamp, cwd: Option<&str>) {
        let head = || tool.input_head.as_ref().and_then(|head| from_head(&head.text, cwd));
        let subject = tool.input.as_ref().and_then(|input| subject(input, cwd)).or_else(head);
        let call = ToolCall {
            id: tool.id.clone(),
            name: tool.name.clone(),
            kind: tool.kind,
            subject: subject.unwrap_or_default(),
            title: String::new(),
            nested: tool.parent.is_some(),
            started: at,
            input: tool.input.clone(),
            head: tool.input_head.clone(),
            tail: String::new(),
        };
        match self.open.iter_mut().find(|open| open.id == tool.id) {
            // Reported again, with more details.
            Some(open) => {
                let subject = if call.subject.is_empty() { open.subject.clone() } else { call.subject };
                let (input, tail) = (call.input.or(open.input.take()), std::mem::take(&mut open.tail));
                let head = call.head.or(open.head.take());
                *open = ToolCall {
                    subject,
                    started: open.started,
                    title: open.title.clone(),
                    input,
                    head,
                    tail,
                    ..call
                };
            }
            None => self.open.push(call),
        }
    }

    /// Records an update of a call.
    pub(super) fn updated(&mut self, update: &ToolUpdated, cwd: Option<&str>) {
        let Some(call) = self.open.iter_mut().find(|call| call.id == update.id) else { return };
        if let Some(subject) = update.input.as_ref().and_then(|input| subject(input, cwd)) {
            call.subject = subject;
        }
        if update.input.is_some() {
            call.input.clone_from(&update.input);
        }
        if let Some(output) = &update.output_delta {
            call.printed(&output.text);
        }
        if let Some(title) = &update.title {
            call.title = words::one_line(title);
        }
    }

    /// Removes an ended call and returns it.
    pub(super) fn finished(&mut self, id: &ToolId) -> Option<ToolCall> {
        let place = self.open.iter().position(|call| call.id == *id)?;
        Some(self.open.remove(place))
    }

    /// Removes the calls that never ended and returns them.
    pub(super) fn abandon(&mut self) -> Vec<ToolCall> {
        std::mem::take(&mut self.open)
    }
}

/// Finds the subject of a call in its arguments.
pub(super) fn subject(input: &Json, cwd: Option<&str>) -> Option<String> {
    let arguments: Value = input.read().ok()?;
    TELLING.iter().filter_map(|key| arguments.get(key)).find_map(|value| said(value, cwd))
}

/// Finds the subject of a call in truncated arguments.
fn from_head(head: &str, cwd: Option<&str>) -> Option<String> {
    TELLING.iter().find_map(|key| {
        let (_, rest) = head.split_once(&format!("\"{key}\""))?;
        let value = rest.trim_start().strip_prefix(':')?;
        let text = serde_json::Deserializer::from_str(value).into_iter::<String>().next()?.ok()?;
        said(&Value::String(text), cwd)
    })
}

/// Formats an argument in one line: a relative path, or a command without its shell.
fn said(value: &Value, cwd: Option<&str>) -> Option<String> {
    let text = match value {
        Value::String(text) => bare_command(text).unwrap_or(text).to_owned(),
        Value::Array(parts) if parts.iter().all(Value::is_string) => {
            let words: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, "-c" | "-lc", script] => (*script).to_owned(),
                words => words.join(" "),
            }
        }
        // A change of several files is a list of objects with a path each, or an object with the paths as keys.
        Value::Array(changes) => {
            let path =
                |change: &Value| change.get("path").and_then(Value::as_str).map(|path| short(path, cwd));
            changes.iter().filter_map(path).collect::<Vec<_>>().join(", ")
        }
        Value::Object(changes) => changes.keys().map(|path| short(path, cwd)).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    let line = words::one_line(&short(&text, cwd));
    (!line.is_empty()).then_some(line)
}

/// Removes the shell that some agents wrap around every command.
fn bare_command(text: &str) -> Option<&str> {
    // The captures have commands such as `/bin/bash -lc 'cat README.md'`.
    let (shell, rest) = text.split_once(" -lc '").or_else(|| text.split_once(" -c '"))?;
    let script = rest.strip_suffix('\'')?;
    (shell.ends_with("sh") && !shell.contains(' ') && !script.contains('\'')).then_some(script)
}

/// Makes a path relative to the working directory, if it is below it.
pub(super) fn short(path: &str, cwd: Option<&str>) -> String {
    let below = cwd.filter(|cwd| cwd.len() > 1).and_then(|cwd| path.strip_prefix(cwd)?.strip_prefix('/'));
    below.filter(|rest| !rest.is_empty()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(input: &str) -> Option<String> {
        subject(&Json::parse(input).expect("JSON"), Some("/w"))
    }

    #[test]
    fn arguments_say_what_a_call_is_about() {
        for (input, text) in [
            (r#"{"content":"x","file_path":"/w/src/a.rs"}"#, "src/a.rs"),
            (r#"{"file_path":"/other/a.rs"}"#, "/other/a.rs"),
            (r#"{"command":"npm\n  test","description":"run"}"#, "npm test"),
            (r#"{"command":["/bin/bash","-lc","make all"]}"#, "make all"),
            (r#"{"command":"/bin/bash -lc 'make all'"}"#, "make all"),
            (r#"{"command":"/bin/bash -lc 'echo '\\''a'\\'''"}"#, r"/bin/bash -lc 'echo '\''a'\'''"),
            (r#"{"changes":[{"path":"/w/a"},{"path":"/w/b"}]}"#, "a, b"),
            (r#"{"changes":{"/w/a":{},"/x/b":{}}}"#, "a, /x/b"),
            (r#"{"query":"\u001b[2Jrust"}"#, "␛[2Jrust"),
        ] {
            assert_eq!(about(input).as_deref(), Some(text), "{input}");
        }
        for nothing in ["{}", "[]", r#"{"n":1}"#, r#"{"command":null}"#, r#"{"path":""}"#] {
            assert_eq!(about(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_beginning_of_long_arguments_is_enough() {
        let head = r#"{"file_path": "/w/big.txt", "content": "aaaa"#;
        assert_eq!(from_head(head, Some("/w")).as_deref(), Some("big.txt"));
        assert_eq!(from_head(r#"{"file_path": "/w/cut"#, Some("/w")), None);
    }
}
