//! Fields and types in a program's output that no recording of it has.
//!
//! A new release shows here first, while everything still decodes. Each provider's folder has a `vocabulary.txt`, written
//! by `cargo xtask vocabulary` from the recordings; a [`Watch`] compares. It looks at every field of every line, so it
//! is for `decode` and for certifying, not for the hot path.
//!
//! A path names a field by the types around it: `assistant.message.content[]<tool_use>.name`. Values are never part of
//! it, and what lies below an opaque field (a tool's arguments, a map by model) is the model's business, not the
//! program's.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use crate::lenient;

/// Fields whose content is not the program's own.
const OPAQUE: [&str; 30] = [
    "_meta",
    "answers",
    "args",
    "arguments",
    "config",
    "configOptions",
    "content_filters",
    "data_schema",
    "details",
    "env",
    "headers",
    "input",
    "inputSchema",
    "metadata",
    "modelUsage",
    "model_usage_since_last_result",
    "models",
    "parameters",
    "partialResult",
    "properties",
    "rawInput",
    "rawOutput",
    "responseBody",
    "responseHeaders",
    "result",
    "schema",
    "structured_output",
    "tool_input",
    "tool_use_result",
    "updatedInput",
];

/// The deepest field that is looked at.
const DEPTH: usize = 8;

/// The most different paths that are remembered.
const MOST: usize = 1000;

/// Compares a program's output with its vocabulary.
#[derive(Debug)]
pub struct Watch {
    known: HashSet<&'static str>,
    novel: BTreeMap<String, u64>,
    /// Lines that are no JSON by themselves: together they may be a document.
    document: String,
}

/// The longest document that is put together.
const LONGEST_DOCUMENT: usize = 1024 * 1024;

impl Watch {
    /// Makes a watch with the text of a `vocabulary.txt`.
    pub fn new(vocabulary: &'static str) -> Self {
        Self { known: vocabulary.lines().collect(), novel: BTreeMap::new(), document: String::new() }
    }

    /// Handles a line.
    pub fn line(&mut self, line: &str) {
        if !self.look(line) && self.document.len() + line.len() < LONGEST_DOCUMENT {
            self.document.push_str(line);
            self.document.push('\n');
        }
    }

    /// Handles the end of the output, and returns what was never seen before.
    pub fn finish(&mut self) -> &BTreeMap<String, u64> {
        let document = std::mem::take(&mut self.document);
        self.look(&document);
        &self.novel
    }

    /// Looks at a text. Returns whether it is JSON.
    fn look(&mut self, text: &str) -> bool {
        let Some(value) = lenient::value(text.trim()).filter(|value| value.is_object() || value.is_array())
        else {
            return false;
        };
        each_path(&value, &mut |path| {
            if self.known.contains(path) {
                return;
            }
            if let Some(count) = self.novel.get_mut(path) {
                *count += 1;
            } else if self.novel.len() < MOST {
                self.novel.insert(path.to_owned(), 1);
            }
        });
        true
    }
}

/// Gives the path of every field of a line or document to `take`.
pub fn each_path(value: &Value, take: &mut dyn FnMut(&str)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| each_path(value, take)),
        Value::Object(object) => {
            let root = root(object);
            take(&root);
            fields(object, &root, 0, take);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names an object at the top: by its type and subtype, its method, its role, or as an answer.
fn root(object: &Map<String, Value>) -> String {
    let string = |key: &str| object.get(key).and_then(Value::as_str);
    match (string("type"), string("subtype"), string("method"), string("role")) {
        (Some(kind), Some(subtype), ..) => format!("{kind}/{subtype}"),
        (Some(kind), None, ..) => kind.to_owned(),
        (None, _, Some(method), _) => method.to_owned(),
        (None, _, None, Some(role)) => format!("role/{role}"),
        (None, _, None, None) => "object".to_owned(),
    }
}

fn fields(object: &Map<String, Value>, path: &str, depth: usize, take: &mut dyn FnMut(&str)) {
    if depth == DEPTH {
        return;
    }
    for (key, value) in object {
        let path = format!("{path}.{}", plain(key));
        take(&path);
        if !OPAQUE.contains(&key.as_str()) {
            below(value, &path, depth, take);
        }
    }
}

fn below(value: &Value, path: &str, depth: usize, take: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(object) => {
            let kind = object.get("type").or_else(|| object.get("sessionUpdate")).and_then(Value::as_str);
            let path = kind.map_or_else(|| path.to_owned(), |kind| format!("{path}<{kind}>"));
            if kind.is_some() {
                take(&path);
            }
            fields(object, &path, depth + 1, take);
        }
        Value::Array(values) => {
            values.iter().for_each(|value| below(value, &format!("{path}[]"), depth, take))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A key that is a name of something outside (an id, a path, a question) stands for all of its sort.
fn plain(key: &str) -> &str {
    let word = key.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '$')
        || key.len() < 24 && is_word(key);
    if word { key } else { "*" }
}

/// Returns whether a key looks like a field's name: letters, then digits at most at the ends of words.
fn is_word(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && key.chars().filter(char::is_ascii_digit).count() <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let mut paths = Vec::new();
        each_path(&serde_json::from_str(text).expect("JSON"), &mut |path| paths.push(path.to_owned()));
        paths
    }

    #[test]
    fn a_path_names_types_and_no_values() {
        let line = r#"{"type":"system","subtype":"init","tools":["a"],"m":{"c":[{"type":"text","text":"x"}]},"input":{"secret":1}}"#;
        assert_eq!(
            paths(line),
            [
                "system/init",
                "system/init.input",
                "system/init.m",
                "system/init.m.c",
                "system/init.m.c[]<text>",
                "system/init.m.c[]<text>.text",
                "system/init.m.c[]<text>.type",
                "system/init.subtype",
                "system/init.tools",
                "system/init.type",
            ]
        );
        assert_eq!(paths(r#"{"jsonrpc":"2.0","method":"x/y"}"#)[0], "x/y");
        assert_eq!(paths(r#"{"/a/b":1}"#), ["object", "object.*"]);
    }

    #[test]
    fn what_is_new_is_counted() {
        let mut watch = Watch::new("a\na.type\na.x");
        watch.line(r#"{"type":"a","x":1}"#);
        assert!(watch.finish().is_empty());
        watch.line(r#"{"type":"a","y":1}"#);
        watch.line(r#"{"type":"a","y":2}"#);
        watch.line("no JSON");
        assert_eq!(watch.finish().clone(), BTreeMap::from([("a.y".to_owned(), 2)]));
    }

    #[test]
    fn a_document_over_several_lines_is_looked_at_too() {
        let mut watch = Watch::new("a\na.type");
        ["{", "\"type\": \"a\",", "\"z\": 1", "}"].iter().for_each(|line| watch.line(line));
        assert_eq!(watch.finish().keys().collect::<Vec<_>>(), ["a.z"]);
    }
}
