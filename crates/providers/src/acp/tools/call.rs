//! One tool call: what is known of it, and how that becomes events.

use bowline_protocol::kinds::{
    FileOperation, ToolKind, ToolOwner, ToolStarted, ToolStatus, ToolUpdated, TouchedFile,
};
use bowline_protocol::{Excerpt, Json, Kind, ToolId};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::wire::{AcpToolCall, tree};
use super::diffs::AcpFileChanges;
use crate::dialect::Output;
use crate::dialects::text_dedup::{TextSoFar, WholeText};
use crate::dialects::tools;

/// The maximum number of reported files of one call.
pub(crate) const FILES: usize = 256;

/// A tool call.
#[derive(Debug)]
pub(crate) struct AcpToolCallState {
    pub(crate) kind: ToolKind,
    /// The order in which calls began.
    pub(crate) number: usize,
    pub(crate) state: ToolCallPhase,
    /// The outcome if it fails or never ends: it was denied.
    pub(crate) refused: Option<ToolStatus>,
    pub(crate) title: Option<Box<str>>,
    pub(crate) input: Option<Value>,
    pub(crate) files: Vec<TouchedFile>,
    pub(crate) diff_told: bool,
    /// The last reported change, for the person who decides about it.
    planned: Option<Excerpt>,
    pub(crate) locations: Vec<String>,
    pub(crate) said: TextSoFar,
    pub(crate) output: String,
    pub(crate) output_bytes: u64,
    pub(crate) exit_code: Option<i32>,
    pub(crate) terminal: Option<Box<str>>,
}

/// What a call is about to do.
#[derive(Debug, Default)]
pub(crate) struct PlannedAction {
    /// The files that it names.
    pub(crate) paths: Vec<String>,
    /// The change of files.
    pub(crate) diff: Option<Excerpt>,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolCallPhase {
    Pending,
    Running,
    Ended,
}

impl AcpToolCallState {
    pub(crate) fn begin(
        id: &str,
        update: &AcpToolCall<'_>,
        meta: &Value,
        parent: Option<&ToolId>,
        number: usize,
        out: &mut Output<'_>,
    ) -> Self {
        let name = name_of(id, update, meta);
        let kind = kind_of(update.kind.or_empty(), name);
        let raw = update.raw_input.filter(|raw| !is_empty(raw));
        let (input, input_head) = tools::carried(raw.map(RawValue::get));
        out.emit(Kind::ToolStarted(ToolStarted {
            id: ToolId::from(id),
            name: name.to_owned(),
            kind,
            owner: ToolOwner::Cli,
            input,
            input_head,
            parent: parent.cloned(),
        }));
        Self {
            kind,
            number,
            state: ToolCallPhase::Pending,
            refused: None,
            title: Some(name.into()),
            input: raw.filter(|raw| raw.get().len() <= Excerpt::LIMIT).map(|raw| tree(Some(raw))),
            files: Vec::new(),
            diff_told: false,
            planned: None,
            locations: Vec::new(),
            said: TextSoFar::default(),
            output: String::new(),
            output_bytes: 0,
            exit_code: None,
            terminal: None,
        }
    }

    pub(crate) fn retitle(&mut self, id: &ToolId, title: Option<&str>, out: &mut Output<'_>) {
        if let Some(title) = title.filter(|title| self.title.as_deref() != Some(*title)) {
            self.title = Some(title.into());
            let title = Some(Excerpt::with_limit(title, 1024).text);
            out.emit(Kind::ToolUpdated(ToolUpdated { title, ..nothing_new(id) }));
        }
    }

    /// Handles the arguments as they are now. Claude Code sends them again from the beginning after they were complete;
    /// arguments that say less than those before are not told.
    pub(crate) fn arguments(&mut self, id: &ToolId, raw: Option<&RawValue>, out: &mut Output<'_>) {
        let Some(raw) = raw.filter(|raw| !is_empty(raw) && raw.get().len() <= Excerpt::LIMIT) else { return };
        let input = tree(Some(raw));
        if self.input.as_ref().is_some_and(|known| says_no_more(known, &input)) {
            return;
        }
        self.input = Some(input);
        let input = Some(Json::from_raw(raw.to_owned()));
        out.emit(Kind::ToolUpdated(ToolUpdated { input, ..nothing_new(id) }));
    }

    pub(crate) fn locate(&mut self, locations: &Value) {
        let paths =
            locations.as_array().into_iter().flatten().filter_map(|place| place.get("path")?.as_str());
        let paths: Vec<String> = paths.take(FILES).map(str::to_owned).collect();
        if !paths.is_empty() {
            self.locations = paths;
        }
    }

    pub(crate) fn plan(&self) -> PlannedAction {
        let mut paths = self.locations.clone();
        for file in &self.files {
            if !paths.contains(&file.path) {
                paths.push(file.path.clone());
            }
        }
        PlannedAction { paths, diff: self.planned.clone() }
    }

    pub(crate) fn content(
        &mut self,
        id: &ToolId,
        content: &Value,
        status: Option<ToolStatus>,
        out: &mut Output<'_>,
    ) {
        let mut changes = AcpFileChanges::default();
        let mut text = String::new();
        for item in content.as_array().into_iter().flatten() {
            match item.get("type").and_then(Value::as_str) {
                Some("diff") => changes.add(item),
                Some("terminal") => {
                    self.terminal = item.get("terminalId").and_then(Value::as_str).map(Into::into);
                }
                Some("content") => {
                    let inner =
                        item.pointer("/content/text").or_else(|| item.pointer("/content/resource/text"));
                    text.push_str(inner.and_then(Value::as_str).unwrap_or_default());
                }
                Some(_) | None => {}
            }
        }
        if !changes.is_empty() {
            self.planned = Some(changes.diff());
            if !std::mem::replace(&mut self.diff_told, true) {
                out.emit(changes.event());
            }
            changes.files.truncate(FILES);
            self.files = changes.files;
        }
        // Before a tool runs, its content shows the planned action.
        if !text.is_empty() && (self.state == ToolCallPhase::Running || status.is_some()) {
            match status {
                None => self.printed_so_far(id, &text, out),
                Some(_) => self.keep(&text),
            }
        }
    }

    /// Takes terminal output that Codex and Claude Code send in `_meta`, piece by piece.
    pub(crate) fn terminal(
        &mut self,
        id: &ToolId,
        meta: &Value,
        status: Option<ToolStatus>,
        out: &mut Output<'_>,
    ) {
        let piece = ["/terminal_output_delta/data", "/terminal_output/data"];
        if let Some(piece) =
            piece.iter().find_map(|path| meta.pointer(path)?.as_str()).filter(|piece| !piece.is_empty())
        {
            self.said.add(piece);
            self.append(piece);
            if status.is_none() {
                out.emit(Kind::ToolUpdated(ToolUpdated {
                    output_delta: Some(Excerpt::of(piece)),
                    ..nothing_new(id)
                }));
            }
        }
        let exit = meta.pointer("/terminal_exit/exit_code").and_then(Value::as_i64);
        self.exit_code = exit.and_then(|code| i32::try_from(code).ok()).or(self.exit_code);
    }

    /// Handles all of the output so far, and emits the new part.
    pub(crate) fn printed_so_far(&mut self, id: &ToolId, text: &str, out: &mut Output<'_>) {
        let new = match self.said.compare(text) {
            WholeText::Known => return,
            WholeText::Adds(new) => new,
            WholeText::Differs => {
                self.said = TextSoFar::default();
                text
            }
        };
        self.said.add(new);
        self.keep(text);
        out.emit(Kind::ToolUpdated(ToolUpdated { output_delta: Some(Excerpt::of(new)), ..nothing_new(id) }));
    }

    pub(crate) fn keep(&mut self, text: &str) {
        self.output.clear();
        self.output_bytes = 0;
        self.append(text);
    }

    pub(crate) fn append(&mut self, text: &str) {
        let room = Excerpt::LIMIT.saturating_sub(self.output.len());
        self.output.push_str(&text[..text.floor_char_boundary(room)]);
        self.output_bytes += text.len() as u64;
    }

    pub(crate) fn printed(&self) -> Option<Excerpt> {
        (self.output_bytes > 0).then(|| Excerpt { text: self.output.clone(), bytes: self.output_bytes })
    }

    /// Returns the files that the call touched: those of its diffs, else its locations if they say what happened to
    /// them. The locations of a command are guesses.
    pub(crate) fn touched(&mut self) -> Vec<TouchedFile> {
        if !self.files.is_empty() {
            return std::mem::take(&mut self.files);
        }
        let operation = match self.kind {
            ToolKind::Read => FileOperation::Read,
            ToolKind::Edit => FileOperation::Write,
            ToolKind::Delete => FileOperation::Delete,
            ToolKind::Move => FileOperation::Move,
            ToolKind::Search
            | ToolKind::Execute
            | ToolKind::Think
            | ToolKind::Fetch
            | ToolKind::Agent
            | ToolKind::SwitchMode
            | ToolKind::Other => return Vec::new(),
        };
        std::mem::take(&mut self.locations).into_iter().map(|path| TouchedFile { path, operation }).collect()
    }

    /// Lets go of what only a running call needs.
    pub(crate) fn forget(&mut self) {
        self.input = None;
        self.title = None;
        self.output = String::new();
        self.locations = Vec::new();
        self.files = Vec::new();
    }
}

fn nothing_new(id: &ToolId) -> ToolUpdated {
    ToolUpdated { id: id.clone(), input_delta: None, input: None, output_delta: None, title: None }
}

fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "{}" | "[]" | "\"\"" | "null")
}

/// Returns whether every field of the newer arguments is in the known ones.
fn says_no_more(known: &Value, newer: &Value) -> bool {
    match (known, newer) {
        (Value::Object(known), Value::Object(newer)) => {
            newer.iter().all(|(key, value)| known.get(key) == Some(value))
        }
        (known, newer) => known == newer,
    }
}

/// Returns the tool's name: the field for it, what agents say in `_meta`, the beginning of Gemini's ids, a title that is
/// a word, or the kind. Longer titles say what the call does.
fn name_of<'a>(id: &'a str, update: &'a AcpToolCall<'_>, meta: &'a Value) -> &'a str {
    let in_meta =
        || ["/claudeCode/toolName", "/toolName"].iter().find_map(|path| meta.pointer(path)?.as_str());
    let in_id = || {
        // Gemini 0.61.0 builds its ids as `write_file__call_w1`.
        let (name, _) = id.split_once("__")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        (!name.is_empty() && name.chars().all(is_name)).then_some(name)
    };
    let title = update.title.filled();
    let word = title.filter(|title| !title.contains(char::is_whitespace) && !title.contains('/'));
    let kind = update.kind.filled().filter(|kind| *kind != "other");
    update.name.filled().or_else(in_meta).or_else(in_id).or(word).or(kind).or(title).unwrap_or("tool")
}

fn kind_of(told: &str, name: &str) -> ToolKind {
    let guess = tools::kind_of(name);
    if guess == ToolKind::Agent {
        // The protocol has no field for sub-agents.
        return guess;
    }
    match told {
        "read" => ToolKind::Read,
        "edit" => ToolKind::Edit,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        "search" => ToolKind::Search,
        "execute" => ToolKind::Execute,
        "think" => ToolKind::Think,
        "fetch" => ToolKind::Fetch,
        "switch_mode" => ToolKind::SwitchMode,
        _ => guess,
    }
}
