//! The items of a turn, except text and thoughts: tools, plans, warnings, compaction.
//!
//! The ids of items repeat: `exec` counts from `item_0` in every process, and `app-server` takes the ids that the model
//! gave, which a model may give again. Each call gets an id of its own here.

pub(super) mod legacy;
pub(super) mod parts;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use bowline_protocol::kinds::{
    CompactTrigger, Level, Notice, Status, ToolFinished, ToolKind, ToolOwner, ToolStarted, ToolStatus,
    UserOrigin,
};
use bowline_protocol::{Excerpt, Json, Kind, ToolId};

use self::parts::{compacted, files, input, output, plan, status, tool, touched, user_message};
use super::wire::{CodexItemText, Item, part};
use crate::dialect::Output;
use crate::dialects::loose_json::{List, LooseText, Maybe};
use crate::dialects::text_dedup::fingerprint;

/// How many ids are remembered.
const REMEMBERED: usize = 4096;

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodexToolStep {
    Started,
    Updated,
    Completed,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// The work of a tool.
    Tool,
    /// Something else that we know.
    Known,
    /// Of a type that we do not know.
    Unknown,
}

/// The calls of tools.
#[derive(Debug, Default)]
pub(super) struct CodexToolCalls {
    open: BTreeMap<Box<str>, ToolId>,
    /// How often each id was used, by its hash.
    uses: BTreeMap<u64, u32>,
    /// Which call made each thread of a sub-agent.
    spawned: BTreeMap<Box<str>, ToolId>,
    /// The ids of the calls that the session's own thread began in this turn.
    begun: Vec<Box<str>>,
    /// Whether the client ordered a compaction, which is a turn without a prompt.
    pub(super) compaction_ordered: bool,
}

/// A call that begins.
#[derive(Debug)]
pub(super) struct CodexToolCall<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) kind: ToolKind,
    pub(super) owner: ToolOwner,
    pub(super) input: Option<Json>,
}

impl<'a> CodexToolCall<'a> {
    /// Makes a call of a tool that Codex runs itself.
    pub(super) fn new(name: impl Into<Cow<'a, str>>, kind: ToolKind, input: Option<Json>) -> Self {
        Self { name: name.into(), kind, owner: ToolOwner::Cli, input }
    }
}

impl CodexToolCalls {
    /// Handles an item.
    pub(super) fn item(
        &mut self,
        step: CodexToolStep,
        item: &Item<'_>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) -> Was {
        if let Some((name, kind)) = tool(item) {
            out.quiet();
            let id = item.id.get().unwrap_or("item");
            if !self.open.contains_key(id) {
                // Some items are reported only when they are complete.
                let owner = if item.type_name.get() == Some("dynamicToolCall") {
                    ToolOwner::Host
                } else {
                    ToolOwner::Cli
                };
                self.begin(id, CodexToolCall { name, kind, owner, input: input(item) }, parent, out);
            }
            self.tool(step, id, kind, item, out);
            return Was::Tool;
        }
        match item.type_name.or_empty() {
            "todo_list" | "todoList" => plan(item.items, out),
            // Not an error of the turn: a warning about settings, models or the transport.
            "error" => out.emit(Kind::Notice(Notice {
                level: Level::Warn,
                text: Excerpt::with_limit(item.message.or_empty(), 4096).text,
                code: None,
            })),
            "contextCompaction" | "context_compaction" => match step {
                CodexToolStep::Started => {
                    out.emit(Kind::Status(Status { status: Some("compacting".to_owned()) }))
                }
                CodexToolStep::Updated => out.quiet(),
                CodexToolStep::Completed => {
                    out.emit(Kind::Status(Status { status: None }));
                    out.emit(compacted(self.compaction()));
                }
            },
            "userMessage" | "user_message" => match step {
                CodexToolStep::Completed => user_message(item, out),
                CodexToolStep::Started | CodexToolStep::Updated => out.quiet(),
            },
            "enteredReviewMode" if step == CodexToolStep::Completed => {
                out.emit(Kind::Status(Status { status: Some("reviewing".to_owned()) }));
            }
            "exitedReviewMode" if step == CodexToolStep::Completed => {
                out.emit(Kind::Status(Status { status: None }))
            }
            // An addition of a hook to the conversation, in the user's name.
            "hookPrompt" if step == CodexToolStep::Completed => {
                let texts = part::<List<Maybe<CodexItemText<'_>>>>(item.content);
                let text = texts
                    .0
                    .iter()
                    .filter_map(|part| Some(part.0.as_ref()?.text.or_empty()))
                    .collect::<String>();
                out.user(UserOrigin::Synthetic, &text, parent);
            }
            // The beginnings of those, and what sub-agents' own items tell in full.
            "enteredReviewMode" | "exitedReviewMode" | "hookPrompt" | "subAgentActivity" => out.quiet(),
            _ => return Was::Unknown,
        }
        Was::Known
    }

    fn tool(&mut self, step: CodexToolStep, id: &str, kind: ToolKind, item: &Item<'_>, out: &mut Output<'_>) {
        if kind == ToolKind::Agent
            && let Some(call) = self.open.get(id).cloned()
        {
            for receiver in &part::<List<LooseText<'_>>>(item.receiver_thread_ids).0 {
                self.spawned(receiver.or_empty(), &call);
            }
        }
        // A background command that outlives the turn has no `item.completed` (0.166.0): it stays open.
        if step == CodexToolStep::Completed {
            let status = status(item);
            self.finish(id, status, output(item), item.exit_code.0, out);
            if status == ToolStatus::Completed {
                touched(files(item.changes), out);
            }
        }
    }

    /// A call begins; nothing if it runs already.
    pub(super) fn start(
        &mut self,
        id: &str,
        call: CodexToolCall<'_>,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        // The item and the request `item/tool/call` announce the same call.
        if !self.open.contains_key(id) {
            self.begin(id, call, parent, out);
        }
    }

    fn begin(&mut self, id: &str, call: CodexToolCall<'_>, parent: Option<&ToolId>, out: &mut Output<'_>) {
        let name = self.name(id);
        self.open.insert(id.into(), name.clone());
        if parent.is_none() && self.begun.len() < REMEMBERED {
            self.begun.push(id.into());
        }
        let (input, input_head) = match call.input {
            Some(input) if input.as_str().len() > Excerpt::LIMIT => (None, Some(Excerpt::of(input.as_str()))),
            input => (input, None),
        };
        out.emit(Kind::ToolStarted(ToolStarted {
            id: name,
            name: call.name.into_owned(),
            kind: call.kind,
            owner: call.owner,
            input,
            input_head,
            parent: parent.cloned(),
        }));
    }

    /// A call ends; nothing if it does not run.
    pub(super) fn finish(
        &mut self,
        id: &str,
        status: ToolStatus,
        output: Option<Excerpt>,
        exit_code: Option<i64>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        if let Some(id) = self.open.remove(id) {
            let exit_code = exit_code.and_then(|code| i32::try_from(code).ok());
            out.emit(Kind::ToolFinished(ToolFinished { id, status, output, exit_code }));
        }
    }

    /// Returns the reason of a compaction that happens now.
    pub(super) fn compaction(&self) -> CompactTrigger {
        if self.compaction_ordered { CompactTrigger::Manual } else { CompactTrigger::Auto }
    }

    /// The turn was interrupted: Codex stops its tools and reports no end of them (0.166.0).
    pub(super) fn interrupted(&mut self, out: &mut Output<'_>) {
        for id in std::mem::take(&mut self.begun) {
            self.finish(&id, ToolStatus::Cancelled, None, None, out);
        }
    }

    /// A turn begins.
    pub(super) fn turn(&mut self) {
        self.begun.clear();
    }

    /// Returns the call that runs under an id of Codex's.
    pub(super) fn running(&self, id: &str) -> Option<&ToolId> {
        self.open.get(id)
    }

    /// Returns the call that made the thread of a sub-agent.
    pub(super) fn maker(&self, thread: &str) -> Option<&ToolId> {
        self.spawned.get(thread)
    }

    fn spawned(&mut self, thread: &str, call: &ToolId) {
        if self.spawned.len() < REMEMBERED && !self.spawned.contains_key(thread) {
            self.spawned.insert(thread.into(), call.clone());
        }
    }

    /// Makes an id that no other call has.
    fn name(&mut self, id: &str) -> ToolId {
        if self.uses.len() >= REMEMBERED {
            // Ids may repeat after this, which is better than memory that grows with the session.
            self.uses.clear();
        }
        if self.open.len() >= REMEMBERED {
            // Codex never reports the end of commands in the background.
            self.open.clear();
        }
        let uses = self.uses.entry(fingerprint(id)).or_default();
        *uses += 1;
        if *uses == 1 {
            return ToolId::from(id);
        }
        let mut name = String::with_capacity(id.len() + 11);
        name.push_str(id);
        name.push('~');
        // Writing to a string cannot fail.
        let _ = write!(name, "{uses}");
        ToolId::from(name)
    }
}
