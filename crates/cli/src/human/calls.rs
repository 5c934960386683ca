//! Tool calls: one line each, with what it is about and how it ended.

use bowline_protocol::kinds::{ToolFinished, ToolKind, ToolStarted, ToolStatus, ToolUpdated};
use bowline_protocol::{Json, Timestamp, ToolId};
use serde_json::Value;

use super::canvas::{Line, Paint};
use super::words::{self, Glyphs};
use super::work::Change;

/// The most columns of a reason in the line of a call.
const REASON: usize = 100;

/// The arguments that say what a call is about, in the order in which they are looked for.
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

/// The calls that have not ended.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Call>,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    id: ToolId,
    name: String,
    pub(super) kind: ToolKind,
    subject: String,
    title: String,
    nested: bool,
    started: Timestamp,
    /// The arguments, as far as they are known.
    input: Option<Json>,
    /// The end of what it has printed so far.
    tail: String,
}

/// The most of what a call prints that is kept until it ends.
const TAIL: usize = 8 * 1024;

impl Call {
    /// Returns the arguments.
    pub(super) fn arguments(&self) -> Option<Value> {
        self.input.as_ref()?.read().ok()
    }

    /// Returns what the call changes, if it is an edit whose arguments say so.
    pub(super) fn change(&self) -> Option<Change> {
        if self.kind == ToolKind::Edit { Change::of(&self.arguments()?) } else { None }
    }

    /// Returns what the call printed, or the end of it.
    pub(super) fn output<'a>(&'a self, end: &'a ToolFinished) -> &'a str {
        match &end.output {
            // The beginning of a long output does not say how it ended.
            Some(output) if output.is_cut() && !self.tail.is_empty() => &self.tail,
            Some(output) => &output.text,
            None => &self.tail,
        }
    }

    fn printed(&mut self, text: &str) {
        self.tail.push_str(text);
        if self.tail.len() > 2 * TAIL {
            let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL);
            self.tail.drain(..from);
        }
    }

    /// Returns the tool, as the agent names it.
    pub(super) fn tool(&self) -> &str {
        &self.name
    }

    /// Says whether the call is about a path outside the working directory, and if it can be told, in which directory. Paths
    /// below the working directory were shortened.
    pub(super) fn outside(&self) -> Option<Option<&str>> {
        let path = &self.subject;
        if path.starts_with("../") {
            return Some(None);
        }
        let (dir, _) = path.strip_prefix('/').map(|_| path)?.rsplit_once('/')?;
        // Nobody is told to let an agent into everything.
        Some(Some(dir).filter(|dir| !dir.is_empty()))
    }

    /// Returns the tool and what the call is about.
    pub(super) fn label(&self) -> String {
        let name = words::one_line(&self.name);
        let subject = if self.subject.is_empty() { &self.title } else { &self.subject };
        let repeats = subject.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(&name));
        if subject.is_empty() {
            name
        } else if repeats {
            subject.clone()
        } else {
            format!("{name} {subject}")
        }
    }

    /// Returns how long it has been running.
    pub(super) fn age(&self, now: Timestamp) -> String {
        words::whole_seconds(now.since(self.started))
    }

    /// Returns the line of the ended call.
    pub(super) fn ended(&self, end: &ToolFinished, at: Timestamp, glyphs: Glyphs) -> Line {
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

    /// Returns the line of a call whose end was never told.
    pub(super) fn abandoned(&self, glyphs: Glyphs) -> Line {
        self.line(Paint::Yellow, glyphs.refused()).and(Paint::Dim, ": had not ended")
    }

    fn line(&self, paint: Paint, glyph: &str) -> Line {
        let indent = if self.nested { "  " } else { "" };
        Line::of(paint, format!("{indent}{glyph} ")).and(Paint::Plain, self.label())
    }
}

/// Says why a call failed, from what it gave back.
fn reason(end: &ToolFinished, glyphs: Glyphs) -> String {
    let text = end.output.as_ref().map_or("", |output| output.text.as_str());
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(": {}", words::cut(&words::one_line(line), REASON, glyphs)),
        None => ": failed".to_owned(),
    }
}

impl Calls {
    /// Returns the call that began last and has not ended, and how many run beside it.
    pub(super) fn running(&self) -> Option<(&Call, usize)> {
        self.open.last().map(|call| (call, self.open.len() - 1))
    }

    /// Finds an open call.
    pub(super) fn find(&self, id: &ToolId) -> Option<&Call> {
        self.open.iter().find(|call| call.id == *id)
    }

    /// Takes the beginning of a call.
    pub(super) fn started(&mut self, tool: &ToolStarted, at: Timestamp, cwd: Option<&str>) {
        let head = || tool.input_head.as_ref().and_then(|head| from_head(&head.text, cwd));
        let subject = tool.input.as_ref().and_then(|input| subject(input, cwd)).or_else(head);
        let call = Call {
            id: tool.id.clone(),
            name: tool.name.clone(),
            kind: tool.kind,
            subject: subject.unwrap_or_default(),
            title: String::new(),
            nested: tool.parent.is_some(),
            started: at,
            input: tool.input.clone(),
            tail: String::new(),
        };
        match self.open.iter_mut().find(|open| open.id == tool.id) {
            // Told a second time, with more.
            Some(open) => {
                let subject = if call.subject.is_empty() { open.subject.clone() } else { call.subject };
                let (input, tail) = (call.input.or(open.input.take()), std::mem::take(&mut open.tail));
                *open =
                    Call { subject, started: open.started, title: open.title.clone(), input, tail, ..call };
            }
            None => self.open.push(call),
        }
    }

    /// Takes what became known about a call.
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

    /// Takes the end of a call and returns the call.
    pub(super) fn finished(&mut self, id: &ToolId) -> Option<Call> {
        let place = self.open.iter().position(|call| call.id == *id)?;
        Some(self.open.remove(place))
    }

    /// Returns the calls that never ended, and forgets them.
    pub(super) fn abandon(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.open)
    }
}

/// Finds what a call is about in its arguments.
fn subject(input: &Json, cwd: Option<&str>) -> Option<String> {
    let arguments: Value = input.read().ok()?;
    TELLING.iter().filter_map(|key| arguments.get(key)).find_map(|value| said(value, cwd))
}

/// Finds what a call is about in the beginning of arguments that were too long to carry.
fn from_head(head: &str, cwd: Option<&str>) -> Option<String> {
    TELLING.iter().find_map(|key| {
        let (_, rest) = head.split_once(&format!("\"{key}\""))?;
        let value = rest.trim_start().strip_prefix(':')?;
        let text = serde_json::Deserializer::from_str(value).into_iter::<String>().next()?.ok()?;
        said(&Value::String(text), cwd)
    })
}

/// Writes an argument in one line: a path from the working directory, a command without the shell around it.
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
        // A change of several files: a list of objects with a path each, or an object with the paths as keys.
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

/// Takes the shell away that some agents put around every command.
fn bare_command(text: &str) -> Option<&str> {
    let (shell, rest) = text.split_once(" -lc '").or_else(|| text.split_once(" -c '"))?;
    let script = rest.strip_suffix('\'')?;
    (shell.ends_with("sh") && !shell.contains(' ') && !script.contains('\'')).then_some(script)
}

/// Writes a path from the working directory, if it lies below.
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
