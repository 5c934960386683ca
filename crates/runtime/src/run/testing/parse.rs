//! From the text of a script to its steps. An error names the place of the wrong part.

use std::fmt;
use std::time::Duration;

use bowline_protocol::Exit;
use bowline_providers::dialects;
use serde_json::{Map, Value, json};

use super::host_call::{CallForm, HostCall};
use super::kept_steps::KeptReader;
use super::{OnStop, Parts, Play, Step};

/// The dialect of the shorthands.
const SHORTHAND: &str = "pi-events";

/// The two-way protocol of processes that take many prompts.
const KEPT: &str = "acp";

/// A problem of a script: its place, and the expected part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct ScriptError {
    /// Where: `step 3 of steps`, say. Steps are counted from 1.
    pub place: String,
    /// The expected part.
    pub expected: String,
    /// The part that was found.
    pub found: String,
}

const STEPS: &str = "a step: an object with one of say, think, tool, result, fail, stdout, stdout_text, stderr, \
                     wait_ms, hang, exit, signal";

const FIELDS: &[&str] = &["steps", "prompts", "retry", "on_stop", "dialect", "session", "model"];

/// Reads a script.
pub(super) fn parts(text: &str) -> Result<Parts, ScriptError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ScriptError {
        place: format!("line {}, column {}", error.line(), error.column()),
        expected: "JSON".to_owned(),
        found: error.to_string(),
    })?;
    let whole = ScriptPosition::new("the script");
    let script = whole.object(&value)?;
    if let Some(key) = script.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(whole.wrong(format!("only the fields {}", FIELDS.join(", ")), format!("`{key}`")));
    }
    if let Some(prompts) = script.get("prompts") {
        return kept(&whole, script, prompts);
    }
    let dialect = match script.get("dialect") {
        None => SHORTHAND,
        Some(name) => ScriptPosition::new("dialect").text(name)?,
    };
    let dialect = dialects::by_name(dialect).ok_or_else(|| {
        let known: Vec<&str> = dialects::ALL.iter().map(|entry| entry.name).collect();
        ScriptPosition::new("dialect").wrong(format!("one of {}", known.join(", ")), format!("`{dialect}`"))
    })?;
    let mut reader = ScriptReader { dialect: dialect.name, script, number: 0, begun: false };
    let steps = match script.get("steps") {
        Some(steps) => reader.list("steps", steps)?,
        None => return Err(whole.wrong("a list `steps`, or a list `prompts`", "neither")),
    };
    let stopped = ScriptReader { number: 1_000, ..reader };
    reader = ScriptReader { number: 0, begun: false, ..reader };
    let retry = script.get("retry").map(|steps| reader.list("retry", steps)).transpose()?;
    let on_stop = on_stop(script, |steps| { stopped }.list("on_stop", steps))?;
    Ok(Parts { dialect, play: Play::Process { steps, retry }, on_stop })
}

/// Reads the script of a process that takes many prompts.
fn kept(whole: &ScriptPosition, script: &Map<String, Value>, prompts: &Value) -> Result<Parts, ScriptError> {
    if let Some(key) = ["steps", "retry", "dialect"].into_iter().find(|key| script.contains_key(*key)) {
        let expected = "`prompts` without `steps`, `retry` and `dialect`";
        return Err(whole.wrong(expected, format!("`{key}`")));
    }
    let optional = |key: &str| script.get(key).map(|it| ScriptPosition::new(key).text(it)).transpose();
    let session = optional("session")?.map(str::to_owned);
    let model = optional("model")?.unwrap_or("scripted").to_owned();
    let mut reader = KeptReader::default();
    let prompts = reader.prompts(prompts)?;
    let on_stop = on_stop(script, |steps| reader.steps("on_stop", steps))?;
    let dialect = dialects::by_name(KEPT).expect("the dialect of kept processes is on the list");
    Ok(Parts { dialect, play: Play::Kept { prompts, session, model }, on_stop })
}

/// Reads the reaction to a request to stop.
fn on_stop(
    script: &Map<String, Value>,
    read: impl FnOnce(&Value) -> Result<Vec<Step>, ScriptError>,
) -> Result<OnStop, ScriptError> {
    match script.get("on_stop") {
        None => Ok(OnStop::Obey),
        Some(Value::String(word)) if word == "obey" => Ok(OnStop::Obey),
        Some(Value::String(word)) if word == "ignore" => Ok(OnStop::Ignore),
        Some(steps @ Value::Array(_)) => read(steps).map(OnStop::Play),
        Some(other) => {
            let expected = "\"obey\", \"ignore\" or a list of steps";
            Err(ScriptPosition::new("on_stop").wrong(expected, found(other)))
        }
    }
}

/// Where something stands.
#[derive(Clone)]
pub(super) struct ScriptPosition(pub(super) String);

impl ScriptPosition {
    pub(super) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn field(&self, name: &str) -> Self {
        Self(format!("`{name}` in {self}"))
    }

    pub(super) fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> ScriptError {
        ScriptError { place: self.0.clone(), expected: expected.into(), found: found.into() }
    }

    pub(super) fn object<'a>(&self, value: &'a Value) -> Result<&'a Map<String, Value>, ScriptError> {
        value.as_object().ok_or_else(|| self.wrong("an object", found(value)))
    }

    pub(super) fn text<'a>(&self, value: &'a Value) -> Result<&'a str, ScriptError> {
        value.as_str().ok_or_else(|| self.wrong("a text", found(value)))
    }

    pub(super) fn count(&self, value: &Value) -> Result<u64, ScriptError> {
        value.as_u64().ok_or_else(|| self.wrong("a whole number from 0 on", found(value)))
    }

    fn number(&self, value: &Value) -> Result<i32, ScriptError> {
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| self.wrong("a whole number", found(value)))
    }

    /// Refuses fields that the parser does not know: they are mistakes.
    pub(super) fn only(&self, object: &Map<String, Value>, known: &[&str]) -> Result<(), ScriptError> {
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(self.wrong(format!("only the fields {}", known.join(", ")), format!("`{key}`"))),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ScriptPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names what is there, briefly.
pub(super) fn found(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        format!("`{text}`")
    } else {
        format!("`{}…`", text.chars().take(60).collect::<String>())
    }
}

/// Reads a list of steps: `read` reads each, and adds what it stands for.
pub(super) fn steps_of(
    name: &str,
    value: &Value,
    mut read: impl FnMut(&ScriptPosition, &Value, &mut Vec<Step>) -> Result<(), ScriptError>,
) -> Result<Vec<Step>, ScriptError> {
    let list =
        value.as_array().ok_or_else(|| ScriptPosition::new(name).wrong("a list of steps", found(value)))?;
    let mut steps = Vec::new();
    for (step, number) in list.iter().zip(1..) {
        read(&ScriptPosition(format!("step {number} of {name}")), step, &mut steps)?;
    }
    Ok(steps)
}

/// Returns the word, the value and the place of a step that the caller reads. Adds a plain step, and returns nothing then.
pub(super) fn own_step<'a>(
    place: &ScriptPosition,
    step: &'a Value,
    expected: &str,
    out: &mut Vec<Step>,
) -> Result<Option<(&'a str, &'a Value, ScriptPosition)>, ScriptError> {
    let one = step.as_object().filter(|step| step.len() == 1).and_then(|step| step.iter().next());
    let Some((word, value)) = one else { return Err(place.wrong(expected, found(step))) };
    let inner = place.field(word);
    if let Some(step) = plain(word, &inner, value)? {
        out.push(step);
        return Ok(None);
    }
    Ok(Some((word, value, inner)))
}

/// Reads a step that is the same in every dialect; none if it is another one.
fn plain(word: &str, inner: &ScriptPosition, value: &Value) -> Result<Option<Step>, ScriptError> {
    Ok(Some(match word {
        "stdout" => {
            inner.object(value)?;
            line(value)
        }
        "stdout_text" => Step::Stdout(inner.text(value)?.as_bytes().to_vec()),
        "stderr" => Step::Stderr(inner.text(value)?.as_bytes().to_vec()),
        "wait_ms" => Step::Wait(Duration::from_millis(inner.count(value)?)),
        "hang" if *value == Value::Bool(true) => Step::Hang,
        "hang" => return Err(inner.wrong("true", found(value))),
        "exit" => Step::Exit(Exit::Code(inner.number(value)?)),
        "signal" => Step::Exit(Exit::Signal(inner.number(value)?)),
        _ => return Ok(None),
    }))
}

/// Turns steps into what is printed.
struct ScriptReader<'a> {
    dialect: &'a str,
    script: &'a Map<String, Value>,
    /// How many messages and tools there were.
    number: u32,
    /// Whether the session was announced.
    begun: bool,
}

impl ScriptReader<'_> {
    fn list(&mut self, name: &str, value: &Value) -> Result<Vec<Step>, ScriptError> {
        steps_of(name, value, |place, step, out| self.step(place, step, out))
    }

    fn step(&mut self, place: &ScriptPosition, step: &Value, out: &mut Vec<Step>) -> Result<(), ScriptError> {
        let Some((word, value, inner)) = own_step(place, step, STEPS, out)? else { return Ok(()) };
        match word {
            "say" | "think" | "tool" | "result" | "fail" => {
                if self.dialect != SHORTHAND {
                    let found = format!("a script in the dialect `{}`", self.dialect);
                    let expected = format!("the dialect `{SHORTHAND}`, or a line as `stdout`");
                    return Err(inner.wrong(expected, found));
                }
                self.begin(out)?;
                match word {
                    "say" => self.say(&inner, value, out)?,
                    "think" => self.think(inner.text(value)?, out),
                    "tool" => self.tool(&inner, value, out)?,
                    "result" => self.result(&inner, value, out)?,
                    _ => self.fail(&inner, value, out)?,
                }
            }
            _ => return Err(place.wrong(STEPS, found(step))),
        }
        Ok(())
    }

    /// Announces the session, once.
    fn begin(&mut self, out: &mut Vec<Step>) -> Result<(), ScriptError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let id = match self.script.get("session") {
            Some(id) => ScriptPosition::new("session").text(id)?,
            None => "scripted",
        };
        out.push(line(&json!({"type": "session", "id": id})));
        Ok(())
    }

    fn model(&self) -> Result<&str, ScriptError> {
        self.script.get("model").map_or(Ok("scripted"), |model| ScriptPosition::new("model").text(model))
    }

    fn say(&mut self, place: &ScriptPosition, value: &Value, out: &mut Vec<Step>) -> Result<(), ScriptError> {
        let pieces: Vec<&str> = match value {
            Value::String(text) => vec![text],
            Value::Array(pieces) => pieces.iter().map(|piece| place.text(piece)).collect::<Result<_, _>>()?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                return Err(place.wrong("a text or a list of texts", found(value)));
            }
        };
        out.push(line(&json!({"type": "message_start", "message": {"role": "assistant"}})));
        for piece in &pieces {
            let event = json!({"type": "text_delta", "contentIndex": 0, "delta": piece});
            out.push(line(&json!({"type": "message_update", "assistantMessageEvent": event})));
        }
        let content = json!([{"type": "text", "text": pieces.concat()}]);
        // Whether it was the last word is said by what follows.
        let message =
            json!({"role": "assistant", "content": content, "model": self.model()?, "stopReason": "toolUse"});
        out.push(line(&json!({"type": "message_end", "message": message})));
        Ok(())
    }

    fn think(&mut self, text: &str, out: &mut Vec<Step>) {
        out.push(line(&json!({"type": "message_start", "message": {"role": "assistant"}})));
        let event = json!({"type": "thinking_delta", "contentIndex": 0, "delta": text});
        out.push(line(&json!({"type": "message_update", "assistantMessageEvent": event})));
        let content = json!([{"type": "thinking", "thinking": text}]);
        let message = json!({"role": "assistant", "content": content, "stopReason": "toolUse"});
        out.push(line(&json!({"type": "message_end", "message": message})));
    }

    fn tool(
        &mut self,
        place: &ScriptPosition,
        value: &Value,
        out: &mut Vec<Step>,
    ) -> Result<(), ScriptError> {
        let tool = place.object(value)?;
        place.only(tool, &["name", "input", "output", "error", "host"])?;
        let name = match tool.get("name") {
            Some(name) => place.field("name").text(name)?,
            None => return Err(place.wrong("the tool's `name`", found(value))),
        };
        self.number += 1;
        let id = format!("tool-{}", self.number);
        let input = tool.get("input").cloned().unwrap_or_else(|| json!({}));
        let start =
            json!({"type": "tool_execution_start", "toolCallId": id, "toolName": name, "args": input});
        out.push(line(&start));
        if is_host_call(place, tool)? {
            let name = name.to_owned();
            out.push(Step::Host(Box::new(HostCall { name, input, id, form: CallForm::Shorthand })));
        } else if let Some(output) = tool.get("output") {
            let output = place.field("output").text(output)?;
            let failed = tool.get("error").is_some_and(|failed| *failed == Value::Bool(true));
            out.push(ended(&id, name, output, failed));
        }
        Ok(())
    }

    fn result(
        &mut self,
        place: &ScriptPosition,
        value: &Value,
        out: &mut Vec<Step>,
    ) -> Result<(), ScriptError> {
        let result = place.object(value)?;
        place.only(result, &["usage", "cost_usd", "stop"])?;
        let mut message =
            json!({"role": "assistant", "content": [], "model": self.model()?, "stopReason": "stop"});
        match result.get("stop").map(|stop| place.field("stop").text(stop)).transpose()? {
            None | Some("end_turn") => {}
            Some("max_tokens") => message["stopReason"] = json!("length"),
            Some(other) => {
                return Err(place.field("stop").wrong("end_turn or max_tokens", format!("`{other}`")));
            }
        }
        if let Some(usage) = result.get("usage") {
            let place = place.field("usage");
            let usage = place.object(usage)?;
            place.only(usage, &["input", "output", "cache_read", "cache_write"])?;
            let count = |key: &str| usage.get(key).map_or(Ok(0), |count| place.field(key).count(count));
            let cost = result.get("cost_usd").cloned().unwrap_or(Value::Null);
            message["usage"] = json!({"input": count("input")?, "output": count("output")?,
                "cacheRead": count("cache_read")?, "cacheWrite": count("cache_write")?, "cost": {"total": cost}});
        }
        out.push(line(&json!({"type": "message_end", "message": message})));
        out.push(line(&json!({"type": "agent_end"})));
        Ok(())
    }

    fn fail(
        &mut self,
        place: &ScriptPosition,
        value: &Value,
        out: &mut Vec<Step>,
    ) -> Result<(), ScriptError> {
        let text = place.text(value)?;
        let message =
            json!({"role": "assistant", "content": [], "stopReason": "error", "errorMessage": text});
        out.push(line(&json!({"type": "message_end", "message": message})));
        out.push(line(&json!({"type": "agent_end"})));
        Ok(())
    }
}

/// Returns whether a tool is a call of a tool of the task, whose output is not in the script.
pub(super) fn is_host_call(place: &ScriptPosition, tool: &Map<String, Value>) -> Result<bool, ScriptError> {
    let Some(host) = tool.get("host") else { return Ok(false) };
    if *host != Value::Bool(true) {
        return Err(place.field("host").wrong("true", found(host)));
    }
    match ["output", "error"].into_iter().find(|key| tool.contains_key(*key)) {
        Some(key) => Err(place.wrong("`host` without `output` and `error`", format!("`{key}`"))),
        None => Ok(true),
    }
}

/// Makes the end of a tool.
pub(super) fn ended(id: &str, name: &str, output: &str, failed: bool) -> Step {
    let result = json!({"content": [{"type": "text", "text": output}]});
    line(&json!({"type": "tool_execution_end", "toolCallId": id, "toolName": name,
        "result": result, "isError": failed}))
}

/// Makes a line of JSON.
pub(super) fn line(value: &Value) -> Step {
    Step::Stdout(format!("{value}\n").into_bytes())
}
