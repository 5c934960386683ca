//! Tools of agents, by their names and by the fields of their input.

use bowline_protocol::{ApprovalCategory, Risk};
use serde_json::Value;

use super::{ActJudge, BuiltInRule};
use crate::policy::acts::network;
use crate::policy::pattern;
use crate::policy::shell::{self, CommandInput, Origin, ShellCommand, ShellWord, WorkingDirs};
use crate::policy::verdict::{TextSpan, Verdict};

const UNLISTED: BuiltInRule = BuiltInRule::medium("tool.unlisted", ApprovalCategory::Other);

/// Fields with a command, a path, and an address.
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const PATHS: [&str; 8] =
    ["file_path", "path", "notebook_path", "filePath", "absolute_path", "file", "filename", "abspath"];
const ADDRESSES: [&str; 3] = ["url", "uri", "href"];

/// Fields of tools that change the file in `PATHS`.
const CHANGES: [&str; 10] = [
    "content",
    "contents",
    "new_string",
    "newString",
    "new_source",
    "edits",
    "patch",
    "diff",
    "old_string",
    "new_str",
];

impl ActJudge<'_> {
    /// Judges a call of a tool, and returns the kind of action that it looks like.
    pub(super) fn tool(&mut self, name: &str, input: &Value) -> ApprovalCategory {
        let policies = self.policies;
        for policy in policies {
            for rule in policy.tools.deny.iter().filter(|rule| pattern::matches(&rule.pattern, name)) {
                let reason = format!("`{}` denies the tool `{name}`", rule.pattern);
                let (risk, category) = (Risk::High, ApprovalCategory::Other);
                self.policy_rule(Verdict::Deny, "tool.deny", rule, risk, category, None, reason);
            }
            let allow = &policy.tools.allow;
            if !allow.is_empty() && !allow.iter().any(|rule| pattern::matches(&rule.pattern, name)) {
                let reason = format!("the tool `{name}` is not in the list of tools of {}", policy.source);
                self.ask(&UNLISTED, None, reason);
            }
            for category in &policy.categories {
                for rule in category.tools.iter().filter(|rule| pattern::matches(&rule.pattern, name)) {
                    self.own_category(&category.name, rule, None);
                }
            }
        }
        let mut kind = ApprovalCategory::Other;
        self.fields(input, &mut kind, 0);
        kind
    }

    /// Judges the fields of an input, also those of objects inside it.
    fn fields(&mut self, input: &Value, kind: &mut ApprovalCategory, depth: usize) {
        let dirs = WorkingDirs::at(&self.facts.cwd);
        match input {
            Value::Object(fields) => {
                let changes = fields.keys().any(|key| CHANGES.contains(&key.as_str()));
                for (key, value) in fields {
                    match (key.as_str(), value) {
                        (key, value) if COMMANDS.contains(&key) => {
                            *kind = ApprovalCategory::Shell;
                            self.command_field(value, dirs.clone());
                        }
                        (key, Value::String(path)) if PATHS.contains(&key) => {
                            let word = ShellWord::known(path.as_str(), TextSpan::default());
                            *kind = if changes { ApprovalCategory::Edit } else { ApprovalCategory::Read };
                            if changes {
                                self.write_word(&word, &dirs, None);
                            } else {
                                self.read_word(&word, &dirs, None);
                            }
                        }
                        (key, Value::String(address)) if ADDRESSES.contains(&key) => {
                            *kind = ApprovalCategory::Network;
                            self.host(&network::host_of(address).unwrap_or_default(), None);
                        }
                        // As deep as inputs of tools are.
                        (_, nested @ (Value::Object(_) | Value::Array(_))) if depth < 4 => {
                            self.fields(nested, kind, depth + 1);
                        }
                        _ => {}
                    }
                }
            }
            Value::Array(items) if depth < 4 => {
                items.iter().for_each(|item| self.fields(item, kind, depth + 1));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
        }
    }

    fn command_field(&mut self, value: &Value, dirs: WorkingDirs) {
        match value {
            Value::String(text) => {
                let mut state = self.fresh_state(dirs);
                shell::walk(text, Origin::At(0), &mut state, CommandInput::Inherited, self, 0);
            }
            // Some agents send a program with its arguments instead of a text.
            Value::Array(words) => {
                let words: Vec<String> =
                    words.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect();
                self.program(&words, dirs);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }

    /// Judges a program that is started without a shell. The places in it are those of the words with spaces between them.
    pub(super) fn program(&mut self, words: &[String], dirs: WorkingDirs) {
        let mut from = 0;
        let place = |word: &String| {
            let span = TextSpan { from, to: from + word.len() };
            from = span.to + 1;
            ShellWord::known(word.as_str(), span)
        };
        let words: Vec<ShellWord> = words.iter().map(place).collect();
        let Some(last) = words.last() else { return };
        let span = TextSpan { from: 0, to: last.span.to };
        let input = CommandInput::Inherited;
        self.command(&ShellCommand { words, assigned: Vec::new(), input, dirs, span });
    }
}
