//! The tools that pi runs.

use std::collections::HashMap;

use bowline_protocol::Kind;
use bowline_protocol::kinds::{FileOperation, ToolKind, ToolOwner, ToolStatus};
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{Args, PiLine, ToolResult};
use crate::dialect::Output;
use crate::dialects::speech::ToolOutputs;
use crate::dialects::{content, loose_json, tools};

/// How many files that are being changed are remembered.
const RUNNING_EDITS: usize = 1024;

/// State of the running tools.
#[derive(Debug, Default)]
pub(super) struct Tools {
    outputs: ToolOutputs,
    /// The files that running tools change, by the id of the call.
    edits: HashMap<String, String>,
}

impl Tools {
    pub(super) fn start(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        let (id, name) = (id(line), line.tool_name.text().unwrap_or("tool"));
        out.incomplete_at_eof();
        if tools::kind_of(name) == ToolKind::Edit {
            let args: Args<'_> = loose_json::part(line.args);
            if self.edits.len() < RUNNING_EDITS {
                self.edits.extend(args.path.string().map(|path| (id.to_owned(), path)));
            }
        }
        out.emit(tools::written(id, name, line.args.map(RawValue::get), ToolOwner::Cli));
    }

    /// Handles the output so far: it is cumulative.
    pub(super) fn update(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        self.outputs.update(id(line), &text(line.partial_result).unwrap_or_default(), out);
    }

    /// Handles the end of a tool. `failure` is what an error means.
    pub(super) fn end(&mut self, line: &PiLine<'_>, failure: ToolStatus, out: &mut Output<'_>) {
        let id = id(line);
        self.outputs.end(id);
        let edited = self.edits.remove(id);
        // No denied calls: pi has no permissions, every tool runs (0.87.1).
        let failed = line.is_error.truth() == Some(true);
        let status = if failed { failure } else { ToolStatus::Completed };
        out.emit(tools::finished(id, status, text(line.result).as_deref()));
        let Some(path) = edited.filter(|_| !failed) else { return };
        // The program does not report whether the file is new.
        out.emit(tools::touched(&path, FileOperation::Write));
        let result: ToolResult<'_> = loose_json::part(line.result);
        let details = result.details.0;
        if let Some(patch) = details.patch.text().or(details.diff.text()) {
            out.emit(patch_available(patch));
        }
    }
}

fn patch_available(patch: &str) -> Kind {
    tools::diff(patch, None, None)
}

fn id<'a>(line: &'a PiLine<'_>) -> &'a str {
    line.tool_call_id.text().unwrap_or("tool")
}

/// Returns the text of a result: `{"content":[{"type":"text","text":…}]}`, or a bare string.
fn text(result: Option<&RawValue>) -> Option<String> {
    let raw = result?;
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return Some(text);
    }
    let result: ToolResult<'_> = loose_json::part(Some(raw));
    content::text_of(&loose_json::part::<Value>(result.content))
}
