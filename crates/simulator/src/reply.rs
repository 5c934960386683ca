//! Builds the answer from a step and a request: replaces names, selects tools, splits text into deltas.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::apis::{self, Answer, ConversationItem, Input, ParsedRequest, Tool, ToolCall};
use crate::scenario::names::{self, NUMBER, TextPiece};
use crate::scenario::{Call, CallForm, Reply, ReplyText, Scenario, StopReason, USUAL, Usage};

/// The size of a delta in characters, unless the scenario splits the text itself.
const DELTA: usize = 24;

/// The usage of a side request.
pub(crate) const SIDE_USAGE: Usage =
    Usage { input: 7, output: 3, cache_read: 0, cache_write: 0, reasoning: 0 };

/// The values of `{name}` in the texts of a scenario.
#[derive(Debug, Default)]
pub(crate) struct TextValues(BTreeMap<String, String>);

impl TextValues {
    /// Collects the names: those of the request, then those of the scenario, then those of the marker.
    pub(crate) fn of(scenario: &Scenario, marked: &BTreeMap<String, String>, asked: &ParsedRequest) -> Self {
        let users: Vec<&str> = users(asked).collect();
        let mut names = BTreeMap::new();
        let mut give = |name: &str, value: String| names.insert(name.to_owned(), value);
        give("first-user", users.first().copied().unwrap_or_default().to_owned());
        give("last-user", users.last().copied().unwrap_or_default().to_owned());
        give("system", asked.system.clone());
        give(
            "schema",
            asked.schema.as_ref().map(|schema| apis::fill(schema).to_string()).unwrap_or_default(),
        );
        give("cwd", cwd(asked).unwrap_or_else(|| ".".to_owned()));
        // Values of the scenario may contain names of the request, but not each other.
        let of_request = Self(names);
        let written: Vec<(String, String)> =
            scenario.values.iter().map(|(name, value)| (name.clone(), of_request.put(value, None))).collect();
        let mut names = of_request.0;
        names.extend(written);
        names.extend(marked.clone());
        Self(names)
    }

    /// Replaces the names in a text.
    fn put(&self, text: &str, number: Option<u32>) -> String {
        let mut out = String::with_capacity(text.len());
        for piece in names::pieces(text) {
            match piece {
                TextPiece::Plain(text) => out.push_str(text),
                TextPiece::Name(name) => match (number, self.0.get(name)) {
                    (Some(number), _) if name == NUMBER => out.push_str(&number.to_string()),
                    (_, Some(value)) => out.push_str(value),
                    // A scenario has no such name; this text is our own, such as JSON from a schema.
                    (_, None) => out.extend(["{", name, "}"]),
                },
            }
        }
        out
    }
}

/// Returns the user's own words. Programs add tagged remarks to the user's messages: they do not count.
pub(crate) fn users(asked: &ParsedRequest) -> impl Iterator<Item = &str> {
    let texts = asked.said.iter().filter_map(|said| match said {
        ConversationItem::User(text) => Some(own(text)),
        ConversationItem::Model | ConversationItem::Tool => None,
    });
    texts.filter(|text| !text.is_empty())
}

/// Removes tagged remarks from both ends of a text.
pub(crate) fn own(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(rest) = behind_tag(text) {
        text = rest.trim_start();
    }
    while let Some(rest) = before_tag(text) {
        text = rest.trim_end();
    }
    text
}

fn is_tag(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
}

fn behind_tag(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let name = &inside[..inside.find(['>', ' '])?];
    let close = format!("</{name}>");
    is_tag(name).then(|| text.find(&close).map(|at| &text[at + close.len()..]))?
}

fn before_tag(text: &str) -> Option<&str> {
    let inside = text.strip_suffix('>')?;
    let name = &inside[inside.rfind("</")? + 2..];
    is_tag(name).then(|| text.rfind(&format!("<{name}")).map(|at| &text[..at]))?
}

/// Finds the working directory of a program. All programs send it to the model, each in its own words.
fn cwd(asked: &ParsedRequest) -> Option<String> {
    const WORDS: &[&str] = &[
        "<cwd>",
        "working directory:",
        "working directory is:",
        "current directory:",
        "current working directory:",
        "workspace directory:",
        "workspace root folder:",
        "workspace directories:",
        "in the directory:",
    ];
    let users = asked.said.iter().filter_map(|said| match said {
        ConversationItem::User(text) => Some(text.as_str()),
        ConversationItem::Model | ConversationItem::Tool => None,
    });
    for text in std::iter::once(asked.system.as_str()).chain(users) {
        // ASCII only: `to_lowercase` can change the length of a text, and the offsets are used in the original.
        let lower = text.to_ascii_lowercase();
        for (at, words) in WORDS.iter().flat_map(|words| lower.match_indices(words)) {
            let behind = text[at + words.len()..].trim_start_matches([' ', '`', '*', '"', '\n', '-']);
            let path: &str = behind.split(['\n', '<', '`', '"']).next().unwrap_or_default().trim();
            if path.starts_with('/') {
                return Some(path.trim_end_matches(['.', ',']).to_owned());
            }
        }
    }
    None
}

/// Builds an answer.
pub(crate) fn answer(
    reply: &Reply,
    names: &TextValues,
    asked: &ParsedRequest,
    number: u64,
    at: i64,
) -> Answer {
    let mut deltas = match &reply.say {
        ReplyText::Nothing => Vec::new(),
        ReplyText::Deltas(deltas) => deltas.iter().map(|delta| names.put(delta, None)).collect(),
        ReplyText::Text { text, repeat } => {
            cut(&(1..=*repeat).map(|number| names.put(text, Some(number))).collect::<String>())
        }
    };
    let mut calls = Vec::new();
    for call in &reply.calls {
        match choose(call, asked) {
            Some((form, tool)) => calls.push(called(form, tool, names, number, calls.len())),
            None => deltas.extend(cut(&names.put(call.otherwise.as_deref().unwrap_or_default(), None))),
        }
    }
    let stop = reply.stop.unwrap_or(if calls.is_empty() { StopReason::End } else { StopReason::Tools });
    Answer {
        number,
        model: asked.model.clone().unwrap_or_else(|| "simulated".to_owned()),
        at,
        think: reply.think.as_ref().map(|think| names.put(think, None)),
        deltas,
        calls,
        stop,
        usage: reply.usage.unwrap_or(USUAL),
    }
}

/// Builds the short answer of a side request.
pub(crate) fn side_answer(asked: &ParsedRequest, number: u64, at: i64) -> Answer {
    let text = match &asked.schema {
        Some(schema) => apis::fill(schema).to_string(),
        None => "A simulated conversation".to_owned(),
    };
    let reply = Reply { say: ReplyText::Deltas(vec![text]), usage: Some(SIDE_USAGE), ..Reply::default() };
    answer(&reply, &TextValues::default(), asked, number, at)
}

fn cut(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(DELTA).map(|piece| piece.iter().collect()).collect()
}

/// Selects the form whose tool is offered. Without one, the first is called anyway, as models do, unless there is
/// a text to send instead.
fn choose<'a>(call: &'a Call, asked: &'a ParsedRequest) -> Option<(&'a CallForm, Option<&'a Tool>)> {
    let offered = |form: &'a CallForm| {
        let tool = asked.tools.iter().find(|tool| tool.name == form.tool)?;
        Some((form, Some(tool)))
    };
    match call.forms.iter().find_map(offered) {
        Some(found) => Some(found),
        None if call.otherwise.is_some() => None,
        None => call.forms.first().map(|form| (form, None)),
    }
}

fn called(form: &CallForm, tool: Option<&Tool>, names: &TextValues, number: u64, index: usize) -> ToolCall {
    let schema = tool.and_then(|tool| tool.schema.as_ref());
    let input = match (&form.text, &form.input) {
        (Some(text), _) => {
            let text = names.put(text, None);
            match (tool, schema.and_then(only_text)) {
                // A program may offer the same tool as a function with one field for the text.
                (Some(Tool { takes_text: false, .. }), Some(field)) => {
                    Input::Json(Value::Object(Map::from_iter([(field, text.into())])))
                }
                _ => Input::Text(text),
            }
        }
        (None, Some(table)) => Input::Json(Value::Object(fields(table, schema, names))),
        (None, None) => Input::Json(schema.map_or_else(|| serde_json::json!({}), apis::fill)),
    };
    ToolCall {
        id: format!("sim{number:06}x{index}"),
        tool: form.tool.clone(),
        namespace: match tool {
            Some(tool) => tool.namespace.clone(),
            None => form.namespace.clone(),
        },
        input,
    }
}

/// Finds the field of a tool that takes nothing but a text.
fn only_text(schema: &Value) -> Option<String> {
    let properties = schema["properties"].as_object()?;
    let mut texts = properties.iter().filter(|(_, field)| field["type"] == "string");
    texts.next().map(|(name, _)| name.clone())
}

/// Builds the input of a call. Programs give the same tool different fields, and some reject unknown ones, so
/// only fields of the tool's schema are sent.
fn fields(table: &toml::Table, schema: Option<&Value>, names: &TextValues) -> Map<String, Value> {
    let known = schema.and_then(|schema| schema["properties"].as_object());
    let wanted = table.iter().filter(|(name, _)| known.is_none_or(|known| known.contains_key(*name)));
    wanted.map(|(name, value)| (name.clone(), json(value, names))).collect()
}

fn json(value: &toml::Value, names: &TextValues) -> Value {
    match value {
        toml::Value::String(text) => names.put(text, None).into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(yes) => (*yes).into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => values.iter().map(|value| json(value, names)).collect(),
        toml::Value::Table(table) => Value::Object(fields(table, None, names)),
    }
}

#[cfg(test)]
mod tests;
