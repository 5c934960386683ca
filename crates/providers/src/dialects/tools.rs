//! Tool calls as several dialects speak of them.

use bowline_protocol::kinds::{ToolFinished, ToolKind, ToolOwner, ToolStarted, ToolStatus};
use bowline_protocol::{Excerpt, Json, Kind, ToolId};
use serde_json::Value;

/// Makes the start of a tool call that the program runs itself.
pub(crate) fn started(id: &str, name: &str, input: Option<&Value>) -> Kind {
    called(id, name, input, ToolOwner::Cli)
}

/// Makes the start of a tool call.
pub(crate) fn called(id: &str, name: &str, input: Option<&Value>, owner: ToolOwner) -> Kind {
    let text = input.filter(|input| !input.is_null()).map(Value::to_string);
    let (input, input_head) = match text {
        Some(text) if text.len() <= Excerpt::LIMIT => (Json::parse(&text).ok(), None),
        Some(text) => (None, Some(Excerpt::of(&text))),
        None => (None, None),
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

/// Guesses what sort of tool a name stands for. Names differ in case and separators only.
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
