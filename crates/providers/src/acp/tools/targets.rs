//! The planned action of a tool, as far as the agent has reported it: a permission request need not repeat it.

use std::collections::VecDeque;

use bowline_protocol::{ApprovalOption, OptionEffect};
use serde_json::Value;

use super::super::approvals;
use crate::dialect::{ActionDoer, DecisionRequest, RequestedAct};

/// How many tools are remembered.
const LIMIT: usize = 256;

/// The planned action of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolTarget {
    id: String,
    /// The protocol's kind of tool.
    kind: String,
    /// The files that it names.
    paths: Vec<String>,
    /// Its title: with Gemini, the command of a shell.
    title: String,
    /// The agent's name of the tool, if it reports one.
    name: String,
    /// Its input, if the agent reports one.
    input: Option<Value>,
}

impl ToolTarget {
    /// Returns the request to decide whether it may run.
    pub(crate) fn request(&self, id: &Value, options: &[ApprovalOption]) -> DecisionRequest {
        let (category, risk) = approvals::weigh(&self.kind);
        DecisionRequest {
            approval: approvals::approval(&id.to_string()),
            category,
            risk,
            paths: Some(self.paths.clone()),
            offers: options.iter().filter(|it| is_offer(it)).map(|option| option.effect).collect(),
            changeable: false,
            carries_message: false,
            doer: ActionDoer::Agent,
            acts: self.acts(),
        }
    }

    /// Returns what the tool would do, as far as the agent has reported it.
    fn acts(&self) -> Vec<RequestedAct> {
        let has = |key: &str| self.input.as_ref().is_some_and(|input| input.get(key).is_some());
        let paths = self.paths.iter().cloned();
        let mut acts: Vec<RequestedAct> = match self.kind.as_str() {
            "edit" | "delete" | "move" => paths.map(RequestedAct::Write).collect(),
            "read" | "search" => paths.map(RequestedAct::Read).collect(),
            // Gemini reports no input; its title is the command and nothing else (0.61.0).
            "execute" if !has("command") && !has("cmd") && !self.title.is_empty() => {
                vec![RequestedAct::Shell(self.title.clone())]
            }
            _ => Vec::new(),
        };
        // An execution without a command, or an edit without files, stays undescribed: its name alone says nothing.
        let described = !acts.is_empty() || !matches!(self.kind.as_str(), "edit" | "delete" | "move");
        if let Some(input) = self.input.clone().filter(|_| described) {
            let name = if self.name.is_empty() { self.title.clone() } else { self.name.clone() };
            acts.push(RequestedAct::Tool { name, input });
        }
        acts
    }
}

/// Returns whether the caller may choose an answer.
fn is_offer(option: &ApprovalOption) -> bool {
    option.effect != OptionEffect::AllowAlways || approvals::lasts_for_the_session(option)
}

/// The tools that were spoken of.
#[derive(Debug, Default)]
pub(crate) struct ToolTargets {
    known: VecDeque<ToolTarget>,
}

impl ToolTargets {
    /// Handles an update of a tool.
    pub(crate) fn hear(&mut self, call: &Value) {
        let string = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(id) = string(call, "toolCallId") else { return };
        let place = self.known.iter().position(|target| target.id == id);
        let mut target = place.and_then(|place| self.known.remove(place)).unwrap_or_default();
        target.id = id;
        if let Some(kind) = string(call, "kind") {
            target.kind = kind;
        }
        if let Some(title) = string(call, "title") {
            target.title = title;
        }
        let meta = call.get("_meta").unwrap_or(&Value::Null);
        if let Some(name) = string(call, "name").or_else(|| string(meta, "toolName")) {
            target.name = name;
        }
        let lists = ["locations", "content"].iter().filter_map(|key| call.get(key)?.as_array()).flatten();
        let named = lists.filter_map(|entry| string(entry, "path"));
        let input = call.get("rawInput").unwrap_or(&Value::Null);
        let given = ["file_path", "filePath", "path", "abs_path"].iter().filter_map(|key| string(input, key));
        if !input.is_null() {
            target.input = Some(input.clone());
        }
        for path in named.chain(given) {
            if !target.paths.contains(&path) && target.paths.len() < LIMIT {
                target.paths.push(path);
            }
        }
        if self.known.len() == LIMIT {
            self.known.pop_front();
        }
        self.known.push_back(target);
    }

    /// Returns what is known of a tool.
    pub(crate) fn of(&self, call: &Value) -> ToolTarget {
        let id = call.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
        self.known.iter().find(|target| target.id == id).cloned().unwrap_or_default()
    }
}
