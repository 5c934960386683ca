//! `grok-cli`: role lines, among them texts of the program itself with the assistant's role.
//!
//! Errors are printed as an assistant's message, with exit code 0; a signal is answered with a line that is no JSON, also
//! with exit code 0. The form of the lines is that of `role-lines`, whose reader does the rest.

use std::collections::HashMap;

use bowline_protocol::kinds::{FileOperation, Phase, TextRetracted, ToolKind, UnrecognizedReason};
use bowline_protocol::{Code, Exit, Kind};
use serde_json::Value;

use crate::decode::{Cause, End};
use crate::dialect::{Dialect, Input, Output};
use crate::dialects::roles::{self, RoleLine};
use crate::dialects::text_dedup::MessageNames;
use crate::dialects::{api_error, content, tools};
use crate::failure::Report;
use crate::lenient;

/// How many files that are being changed are remembered.
const RUNNING_EDITS: usize = 1024;

/// Reads the output of grok-cli.
#[derive(Debug, Default)]
pub(crate) struct GrokCli {
    names: MessageNames,
    /// Whether the last line was the prompt.
    after_prompt: bool,
    /// Whether the program reported a request to stop.
    stopped: bool,
    /// The number of the assistant's messages, and the last of them if it may be the report of a crash.
    messages: u64,
    crash: Option<String>,
    /// The files that running tools change, by the id of the call.
    edits: HashMap<String, String>,
}

/// Texts of the program itself in place of the model's.
enum GrokText<'a> {
    /// The request failed.
    Failed(&'a str),
    /// The limit of rounds was reached.
    TooManyRounds,
    /// The model called tools without a text.
    Filler,
    /// The model's own text.
    Model,
}

impl Dialect for GrokCli {
    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            // Said for SIGINT and SIGTERM alike.
            Input::Line(line) if line.trim() == "Gracefully shutting down..." => {
                self.stopped = true;
                out.quiet();
            }
            Input::Line(line) => {
                lenient::each_object(line, out, |object: RoleLine, out| self.object(line, object, out))
            }
            Input::Stderr(_) | Input::Sent(_) => {}
            Input::Eof(end) => self.end(end, out),
        }
    }
}

impl GrokCli {
    fn object(&mut self, raw: &str, mut line: RoleLine, out: &mut Output<'_>) {
        let mut phase = Phase::Final;
        let after_prompt = std::mem::replace(&mut self.after_prompt, line.role == "user");
        if line.role == "assistant" {
            let text = content::text_of(&line.content).unwrap_or_default();
            let calls = line.tool_calls.as_array().is_some_and(|calls| !calls.is_empty());
            match words(&text, after_prompt, calls) {
                // 0.0.34 prints a failed request as the assistant's text and exits with 0: the text is the only sign.
                GrokText::Failed(error) => return out.failed(&api_error::report(error)),
                GrokText::TooManyRounds => {
                    return out.failed(&Report { code: Some(Code::MaxTurns), ..Report::of(text) });
                }
                GrokText::Filler => line.content = Value::Null,
                GrokText::Model => {}
            }
            if calls {
                phase = Phase::Commentary;
            }
            self.messages += 1;
            // Only a suspicion: a model may begin its answer like this. The exit code decides at the end.
            self.crash = text.strip_prefix("Error: ").map(str::to_owned);
            self.remember_edits(&line);
        }
        if !roles::message(&line, phase, &mut self.names, out) {
            return out.unrecognized(UnrecognizedReason::UnknownType, raw, line.role.as_str());
        }
        if line.role == "tool" {
            self.touched(&line, out);
        }
    }

    fn remember_edits(&mut self, line: &RoleLine) {
        for call in line.tool_calls.as_array().into_iter().flatten() {
            let function = call.get("function").unwrap_or(call);
            let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            let is_edit = text(function, "name").is_some_and(|name| tools::kind_of(&name) == ToolKind::Edit);
            let arguments = text(function, "arguments").and_then(|arguments| lenient::value(&arguments));
            let path = arguments
                .and_then(|arguments| text(&arguments, "path").or_else(|| text(&arguments, "file_path")));
            if let (true, Some(id), Some(path)) = (is_edit, text(call, "id"), path)
                && self.edits.len() < RUNNING_EDITS
            {
                self.edits.insert(id, path);
            }
        }
    }

    /// Emits a changed file. The wire does not mark failures, but only a change is answered with its diff.
    fn touched(&mut self, line: &RoleLine, out: &mut Output<'_>) {
        let Some(path) = line.tool_call_id.as_str().and_then(|id| self.edits.remove(id)) else { return };
        let output = content::text_of(&line.content).unwrap_or_default();
        if let Some(at) = output.find("--- a/") {
            out.emit(tools::touched(&path, FileOperation::Write));
            out.emit(tools::diff(&output[at..], None, None));
        }
    }

    fn end(&mut self, end: &End, out: &mut Output<'_>) {
        if end.cause != Cause::Exited {
            return;
        }
        let failed = end.exit.is_some_and(|exit| !Exit::is_success(exit));
        match self.crash.take() {
            // An exception outside of a request is printed as `Error: …`, with exit code 1.
            Some(error) if failed => {
                let message = format!("m{}", self.messages).into();
                out.emit(Kind::TextRetracted(TextRetracted { message, from_block: 0 }));
                out.failed(&api_error::report(&error));
            }
            // 0.0.34 exits with 0 after SIGTERM: only its line on stdout shows that it was stopped.
            Some(_) | None if self.stopped => out.cancelled(),
            Some(_) | None => {}
        }
    }
}

fn words(text: &str, after_prompt: bool, calls: bool) -> GrokText<'_> {
    const FAILED: &str = "Sorry, I encountered an error: ";
    const API: &str = "Grok API error: ";
    if let Some(error) = text.strip_prefix(FAILED).filter(|_| !calls) {
        // A model may print the same after its tools, but only the program names its API.
        if let Some(api) = error.strip_prefix(API) {
            return GrokText::Failed(api);
        }
        if after_prompt {
            return GrokText::Failed(error);
        }
    }
    match text {
        "Maximum tool execution rounds reached. Stopping to prevent infinite loops." => {
            GrokText::TooManyRounds
        }
        "Using tools to help you..." if calls => GrokText::Filler,
        _ => GrokText::Model,
    }
}
