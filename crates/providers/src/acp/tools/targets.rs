//! The planned action of a tool, as far as the agent has reported it: a permission request need not repeat it.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// How many tools are remembered.
const LIMIT: usize = 256;

/// The planned action of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolTarget {
    id: String,
    /// The protocol's kind of tool.
    pub(crate) kind: String,
    /// The files that it names.
    paths: Vec<String>,
}

impl ToolTarget {
    /// Returns whether it changes files.
    pub(crate) fn is_edit(&self) -> bool {
        matches!(self.kind.as_str(), "edit" | "move")
    }

    /// Returns why the permission mode `edit` does not allow it.
    pub(crate) fn why_not(&self, cwd: &str, more: &[String]) -> Option<&'static str> {
        if self.paths.is_empty() {
            return Some(
                "an edit was refused: the agent named no files (`locations`), so it is not known whether they are in the project",
            );
        }
        (!self.is_within(cwd, more)).then_some("an edit was refused: it names files outside of the project")
    }

    /// Returns whether it names files, and all of them lie below one of these directories.
    pub(crate) fn is_within(&self, cwd: &str, more: &[String]) -> bool {
        let below = |path: &String| {
            let path = settled(&Path::new(cwd).join(path));
            std::iter::once(cwd)
                .chain(more.iter().map(String::as_str))
                .any(|dir| path.starts_with(settled(Path::new(dir))))
        };
        !self.paths.is_empty() && self.paths.iter().all(below)
    }
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
        let lists = ["locations", "content"].iter().filter_map(|key| call.get(key)?.as_array()).flatten();
        let named = lists.filter_map(|entry| string(entry, "path"));
        let input = call.get("rawInput").unwrap_or(&Value::Null);
        let given = ["file_path", "filePath", "path", "abs_path"].iter().filter_map(|key| string(input, key));
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

/// Writes a path without `.` and `..`. Links are not followed: nothing is looked up here.
fn settled(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => path.push(part),
        }
        path
    })
}
