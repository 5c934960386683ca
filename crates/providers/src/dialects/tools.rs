//! Tool calls in the forms that several dialects share.

use bowline_protocol::kinds::{
    DiffAvailable, FileOperation, FilesTouched, ToolFinished, ToolKind, ToolOwner, ToolStarted, ToolStatus,
    TouchSource, TouchedFile,
};
use bowline_protocol::{Excerpt, Json, Kind, ToolId};
use serde_json::Value;

use crate::dialect::Output;
use crate::lenient;

/// Returns what an event carries of the arguments of a call: all of them, or the beginning of long ones.
pub(crate) fn carried(input: Option<&str>) -> (Option<Json>, Option<Excerpt>) {
    match input {
        Some(text) if text.len() <= Excerpt::LIMIT => (Json::parse(text).ok(), None),
        Some(text) => (None, Some(Excerpt::of(text))),
        None => (None, None),
    }
}

/// Makes the start of a tool call that the program runs itself.
pub(crate) fn started(id: &str, name: &str, input: Option<&Value>) -> Kind {
    called(id, name, input, ToolOwner::Cli)
}

/// Makes the start of a tool call.
pub(crate) fn called(id: &str, name: &str, input: Option<&Value>, owner: ToolOwner) -> Kind {
    let text = input.filter(|input| !input.is_null()).map(Value::to_string);
    written(id, name, text.as_deref(), owner)
}

/// Makes the start of a tool call whose arguments are JSON as the agent wrote it.
pub(crate) fn written(id: &str, name: &str, input: Option<&str>, owner: ToolOwner) -> Kind {
    let (input, input_head) = match input {
        // The host must have all of the arguments.
        Some(text) if owner == ToolOwner::Host => (Json::parse(text).ok(), None),
        input => carried(input),
    };
    Kind::ToolStarted(ToolStarted {
        id: ToolId::from(id),
        name: name.to_owned(),
        kind: kind_of(name),
        owner,
        input,
        input_head,
        parent: None,
    })
}

/// Makes the end of a tool call.
pub(crate) fn finished(id: &str, status: ToolStatus, output: Option<&str>) -> Kind {
    Kind::ToolFinished(ToolFinished {
        id: ToolId::from(id),
        status,
        output: output.map(Excerpt::of),
        exit_code: None,
    })
}

/// Returns how a tool call ended, if the program reports only whether it failed.
pub(crate) fn status(failed: bool) -> ToolStatus {
    if failed { ToolStatus::Failed } else { ToolStatus::Completed }
}

/// Emits the tool calls of an assistant's message, in the form of the model APIs: `[{"id", "function": {…}}]`.
pub(crate) fn calls(calls: &Value, owner: ToolOwner, out: &mut Output<'_>) {
    for call in calls.as_array().into_iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Value::as_str).unwrap_or("tool");
        let id = call.get("id").and_then(Value::as_str).unwrap_or(name);
        // Arguments come as JSON or as JSON in a string.
        let written = function.get("arguments").and_then(Value::as_str).and_then(lenient::value);
        out.emit(called(id, name, written.as_ref().or_else(|| function.get("arguments")), owner));
    }
}

/// Makes the event of a changed file.
pub(crate) fn touched(path: &str, operation: FileOperation) -> Kind {
    let file = TouchedFile { path: path.to_owned(), operation };
    Kind::FilesTouched(FilesTouched { seen_by: TouchSource::Agent, files: vec![file], room: None })
}

/// Makes the event of a diff.
pub(crate) fn diff(diff: &str, lines_added: Option<u64>, lines_removed: Option<u64>) -> Kind {
    Kind::DiffAvailable(DiffAvailable {
        summary: None,
        files_changed: None,
        lines_added,
        lines_removed,
        diff: Some(Excerpt::of(diff)),
    })
}

/// Guesses the category of a tool from its name. Names differ in case and separators only.
pub(crate) fn kind_of(name: &str) -> ToolKind {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "read" | "readfile" | "readmanyfiles" | "view" | "viewfile" | "notebookread" | "ls" | "list"
        | "listdirectory" | "listdir" => ToolKind::Read,
        "edit" | "multiedit" | "write" | "writefile" | "editfile" | "replace" | "strreplace"
        | "strreplaceeditor" | "createfile" | "create" | "applypatch" | "patch" | "notebookedit"
        | "filechange" => ToolKind::Edit,
        "delete" | "deletefile" | "remove" => ToolKind::Delete,
        "move" | "movefile" | "rename" => ToolKind::Move,
        "grep" | "glob" | "search" | "searchfiles" | "searchfilecontent" | "find" | "codesearch" => {
            ToolKind::Search
        }
        "bash" | "shell" | "sh" | "exec" | "execute" | "runshellcommand" | "runcommand" | "command"
        | "commandexecution" | "localshell" | "terminal" | "powershell" => ToolKind::Execute,
        "think" | "todowrite" | "todolist" | "updateplan" | "plan" | "writetodos" => ToolKind::Think,
        "webfetch" | "fetch" | "websearch" | "googlewebsearch" | "browse" => ToolKind::Fetch,
        "task" | "agent" | "subagent" | "delegate" => ToolKind::Agent,
        "exitplanmode" | "enterplanmode" | "switchmode" => ToolKind::SwitchMode,
        _ => ToolKind::Other,
    }
}
