//! The steps of a process that takes many prompts, from the text of a script to the updates of its protocol.

use serde_json::{Map, Value, json};

use super::Step;
use super::host_call::{CallForm, HostCall};
use super::kept::KeptStep;
use super::parse::{ScriptError, ScriptPosition, found, is_host_call, own_step, steps_of};

const STEPS: &str = "a step: an object with one of say, think, tool, ask, question, steered, result, fail, stdout, stdout_text, \
                     stderr, wait_ms, hang, exit, signal";

/// Reads the lists of steps.
#[derive(Debug, Default)]
pub(super) struct KeptReader {
    /// How many messages and tools there were.
    number: u32,
}

impl KeptReader {
    /// Reads the lists of steps, one for each prompt.
    pub(super) fn prompts(&mut self, value: &Value) -> Result<Vec<Vec<Step>>, ScriptError> {
        let place = ScriptPosition::new("prompts");
        let expected = "a list with a list of steps for each prompt";
        let lists = value.as_array().filter(|lists| !lists.is_empty());
        let lists = lists.ok_or_else(|| place.wrong(expected, found(value)))?;
        let mut prompts = Vec::new();
        for (list, number) in lists.iter().zip(1..) {
            let name = format!("prompt {number}");
            let steps = self.steps(&name, list)?;
            // Without an end, the turn would run until a time limit.
            if !steps.last().is_some_and(ends) {
                let expected = "result, fail, hang, exit or signal as its last step";
                return Err(ScriptPosition::new(&name).wrong(expected, found(list)));
            }
            prompts.push(steps);
        }
        Ok(prompts)
    }

    /// Reads a list of steps.
    pub(super) fn steps(&mut self, name: &str, value: &Value) -> Result<Vec<Step>, ScriptError> {
        steps_of(name, value, |place, step, out| self.step(place, step, out))
    }

    fn step(&mut self, place: &ScriptPosition, step: &Value, out: &mut Vec<Step>) -> Result<(), ScriptError> {
        let Some((word, value, inner)) = own_step(place, step, STEPS, out)? else { return Ok(()) };
        match word {
            "say" => {
                let pieces: Result<Vec<&str>, _> = match value.as_array() {
                    Some(pieces) => pieces.iter().map(|piece| inner.text(piece)).collect(),
                    None => inner.text(value).map(|text| vec![text]),
                };
                self.speak("agent_message_chunk", &pieces?, out);
            }
            "think" => self.speak("agent_thought_chunk", &[inner.text(value)?], out),
            "tool" => self.tool(&inner, value, out)?,
            "ask" => out.push(self.ask(place, &inner, value)?),
            "question" => out.push(self.question(place, &inner, value)?),
            "steered" if *value == Value::Bool(true) => out.push(kept(KeptStep::Steered)),
            "steered" => return Err(inner.wrong("true", found(value))),
            "result" => out.push(result(&inner, value)?),
            "fail" => {
                let result = Err(inner.text(value)?.to_owned());
                out.push(kept(KeptStep::End { result, cost_usd: None }));
            }
            _ => return Err(place.wrong(STEPS, found(step))),
        }
        Ok(())
    }

    fn speak(&mut self, update: &str, pieces: &[&str], out: &mut Vec<Step>) {
        self.number += 1;
        let message = format!("message-{}", self.number);
        out.extend(pieces.iter().map(|piece| {
            let content = json!({"type": "text", "text": piece});
            let update = json!({"sessionUpdate": update, "content": content, "messageId": message});
            kept(KeptStep::Update(update))
        }));
    }

    /// Reads a tool: its name, and the update that plans it.
    fn call(
        &mut self,
        place: &ScriptPosition,
        tool: &Map<String, Value>,
        known: &[&str],
    ) -> Result<(String, String, Value), ScriptError> {
        place.only(tool, known)?;
        let name = match tool.get("name") {
            Some(name) => place.field("name").text(name)?,
            None => return Err(place.wrong("the tool's `name`", found(&Value::Object(tool.clone())))),
        };
        self.number += 1;
        let id = format!("tool-{}", self.number);
        let input = tool.get("input").cloned().unwrap_or_else(|| json!({}));
        let path = ["path", "file_path"].iter().find_map(|key| input[key].as_str());
        let command = input["command"].as_str();
        let title = match (command, path) {
            (Some(command), _) => command.to_owned(),
            (None, Some(path)) => format!("{name} {path}"),
            (None, None) => name.to_owned(),
        };
        let kind = match name.to_ascii_lowercase().as_str() {
            _ if command.is_some() => "execute",
            "read" => "read",
            "write" | "edit" => "edit",
            _ => "other",
        };
        let locations: Vec<Value> = path.map(|path| json!({"path": path})).into_iter().collect();
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "name": name, "kind": kind,
            "status": "pending", "rawInput": input, "locations": locations});
        Ok((name.to_owned(), id, call))
    }

    fn tool(
        &mut self,
        place: &ScriptPosition,
        value: &Value,
        out: &mut Vec<Step>,
    ) -> Result<(), ScriptError> {
        let tool = place.object(value)?;
        let (name, id, call) = self.call(place, tool, &["name", "input", "output", "error", "host"])?;
        let input = call["rawInput"].clone();
        out.push(kept(KeptStep::Update(call)));
        if is_host_call(place, tool)? {
            out.push(Step::Host(Box::new(HostCall { name, input, id, form: CallForm::Kept })));
        } else if let Some(output) = tool.get("output") {
            let failed = tool.get("error").is_some_and(|failed| *failed == Value::Bool(true));
            out.push(ended(&id, place.field("output").text(output)?, failed));
        }
        Ok(())
    }

    /// Reads a request for a permission. By default the tool runs if it is allowed, and the steps behind it follow either way.
    fn ask(
        &mut self,
        step: &ScriptPosition,
        place: &ScriptPosition,
        value: &Value,
    ) -> Result<Step, ScriptError> {
        let tool = place.object(value)?;
        let (name, id, call) = self.call(place, tool, &["name", "input", "output", "allowed", "denied"])?;
        let output = tool.get("output").map_or(Ok(""), |output| place.field("output").text(output))?;
        let mut follows = |key: &str, first: Step| -> Result<Vec<Step>, ScriptError> {
            let mut steps = vec![first];
            if let Some(list) = tool.get(key) {
                steps.extend(self.steps(&format!("`{key}` in {step}"), list)?);
            }
            Ok(steps)
        };
        let allowed = follows("allowed", ended(&id, output, false))?;
        let denied = follows("denied", ended(&id, "the permission was denied", true))?;
        Ok(kept(KeptStep::Ask { name, call, allowed, denied }))
    }
}

impl KeptReader {
    /// Reads a question. The steps behind it follow either way.
    fn question(
        &mut self,
        step: &ScriptPosition,
        place: &ScriptPosition,
        value: &Value,
    ) -> Result<Step, ScriptError> {
        let question = place.object(value)?;
        place.only(question, &["text", "choices", "answered", "dismissed"])?;
        let text = match question.get("text") {
            Some(text) => place.field("text").text(text)?.to_owned(),
            None => return Err(place.wrong("the question's `text`", found(value))),
        };
        let list = question.get("choices").map(|list| {
            let field = place.field("choices");
            let list = list.as_array().ok_or_else(|| field.wrong("a list of texts", found(list)))?;
            list.iter().map(|choice| field.text(choice).map(str::to_owned)).collect()
        });
        let mut follows = |key: &str| match question.get(key) {
            Some(list) => self.steps(&format!("`{key}` in {step}"), list),
            None => Ok(Vec::new()),
        };
        let (answered, dismissed) = (follows("answered")?, follows("dismissed")?);
        Ok(kept(KeptStep::Question {
            text,
            choices: list.transpose()?.unwrap_or_default(),
            answered,
            dismissed,
        }))
    }
}

fn kept(step: KeptStep) -> Step {
    Step::Kept(Box::new(step))
}

/// Makes the end of a tool.
pub(super) fn ended(id: &str, output: &str, failed: bool) -> Step {
    let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
    let status = if failed { "failed" } else { "completed" };
    let update =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content});
    kept(KeptStep::Update(update))
}

/// Returns whether a step ends its prompt, or the process.
fn ends(step: &Step) -> bool {
    match step {
        Step::Hang | Step::Exit(_) => true,
        Step::Kept(step) => matches!(**step, KeptStep::End { .. }),
        Step::Stdout(_) | Step::Stderr(_) | Step::Wait(_) | Step::Host(_) => false,
    }
}

fn result(place: &ScriptPosition, value: &Value) -> Result<Step, ScriptError> {
    let result = place.object(value)?;
    place.only(result, &["usage", "cost_usd", "stop"])?;
    let stop = match result.get("stop").map(|stop| place.field("stop").text(stop)).transpose()? {
        None | Some("end_turn") => "end_turn",
        Some("max_tokens") => "max_tokens",
        Some(other) => {
            return Err(place.field("stop").wrong("end_turn or max_tokens", format!("`{other}`")));
        }
    };
    let mut answer = json!({"stopReason": stop});
    if let Some(usage) = result.get("usage") {
        let place = place.field("usage");
        let usage = place.object(usage)?;
        place.only(usage, &["input", "output", "cache_read", "cache_write"])?;
        let count = |key: &str| usage.get(key).map_or(Ok(0), |count| place.field(key).count(count));
        let counts = [count("input")?, count("output")?, count("cache_read")?, count("cache_write")?];
        let [input, output, read, written] = counts;
        answer["usage"] = json!({"inputTokens": input, "outputTokens": output, "cachedReadTokens": read,
            "cachedWriteTokens": written, "totalTokens": counts.iter().sum::<u64>()});
    }
    let cost_usd = match result.get("cost_usd") {
        None => None,
        // The protocol reports a cost beside tokens only, so this one would be lost.
        Some(_) if !result.contains_key("usage") => {
            return Err(place.wrong("`usage` beside `cost_usd`", found(value)));
        }
        Some(cost) => {
            let wrong = || place.field("cost_usd").wrong("a number of dollars", found(cost));
            Some(cost.as_f64().ok_or_else(wrong)?)
        }
    };
    Ok(kept(KeptStep::End { result: Ok(answer), cost_usd }))
}
