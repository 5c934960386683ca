//! Models of an Ollama server, over its HTTP API: the kit's own example of a provider.
//!
//! The server is `config.url`, else `OLLAMA_HOST`, else `http://127.0.0.1:11434`. The model is `config.model`, else
//! `OLLAMA_MODEL`. `keep_alive`, `think`, `format` and `options` of `config` go to the server unchanged; other settings
//! are ignored.

mod address;
mod http;

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Done, Error, Finish, Provider, Request, Say};
use address::Address;
use http::Reply;

/// How long the server may be silent in an answer: it may have to load the model first.
const ANSWER: Duration = Duration::from_secs(600);

/// The time limit of the health check. The caller waits five seconds.
const HEALTH: Duration = Duration::from_secs(4);

/// The most bytes to read of an error page.
const PAGE: u64 = 64 * 1024;

/// The settings of `config` that are the server's.
const PASSED_ON: [&str; 3] = ["keep_alive", "think", "format"];

/// The provider.
#[derive(Clone, Debug, Default)]
pub struct Ollama {
    /// The server, in the notation of `OLLAMA_HOST`.
    pub host: Option<String>,
    /// The model, unless the request names one.
    pub model: Option<String>,
}

impl Ollama {
    /// Reads the address of the server from the environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "a provider is a program, and reads its environment here only"
    )]
    pub fn from_env() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self { host: variable("OLLAMA_HOST"), model: variable("OLLAMA_MODEL") }
    }

    fn address(&self, asked: Option<&str>) -> Result<Address, Error> {
        Address::parse(asked.or(self.host.as_deref()).unwrap_or("127.0.0.1"))
    }
}

/// A line of a response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    model: String,
    message: Said,
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    content: String,
    tool_calls: Vec<Call>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call {
    function: Function,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    name: String,
    arguments: Value,
}

impl Provider for Ollama {
    fn name(&self) -> &str {
        "ollama"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error> {
        let Some(model) = request.model().or(self.model.as_deref()) else {
            return Err(Error::new("no model: set `config.model` or OLLAMA_MODEL"));
        };
        let address = self.address(request.setting("url"))?;
        let reply = http::post(&address, "/api/chat", &body(request, model), ANSWER)?;
        let reply = good(reply, &address)?;
        let mut done = Done::by(model);
        for line in BufReader::new(reply.body).lines() {
            let line = line.map_err(|error| {
                Error::new(format!("the answer of Ollama at {address} was cut off: {error}"))
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line).map_err(|error| {
                Error::new(format!("Ollama at {address} sent an invalid response: {error}"))
            })?;
            if let Some(error) = line.error {
                return Err(Error::new(format!("Ollama: {error}")));
            }
            say.text(&line.message.content)?;
            let first = done.tool_calls.len();
            let calls = line.message.tool_calls.into_iter().enumerate();
            done.tool_calls.extend(calls.map(|(index, call)| tool_call(first + index, &call.function)));
            if !line.model.is_empty() {
                done.model = line.model;
            }
            if line.done {
                (done.input_tokens, done.output_tokens) = (line.prompt_eval_count, line.eval_count);
                done.finish = match line.done_reason.as_deref() {
                    _ if !done.tool_calls.is_empty() => Finish::ToolUse,
                    Some("length") => Finish::Length,
                    Some(_) | None => Finish::Stop,
                };
                return Ok(done);
            }
        }
        Err(Error::new(format!("the answer of Ollama at {address} ended too early")))
    }

    fn health(&self) -> Result<String, Error> {
        let address = self.address(None)?;
        let reply = good(http::get(&address, "/api/tags", HEALTH)?, &address)?;
        let list: Value = serde_json::from_reader(reply.body)
            .map_err(|error| Error::new(format!("{address} does not respond like Ollama: {error}")))?;
        let Some(models) = list["models"].as_array() else {
            return Err(Error::new(format!("{address} does not respond like Ollama: it lists no models")));
        };
        Ok(format!("OK: Ollama at {address} has {} models", models.len()))
    }
}

/// Converts a request to the form of `/api/chat`.
fn body(request: &Request, model: &str) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(system) = request.system_prompt.as_deref().filter(|text| !text.is_empty()) {
        messages.push(json!({ "role": "system", "content": system }));
    }
    for message in &request.context {
        let mut said = json!({ "role": message.role, "content": message.content });
        if !message.tool_calls.is_empty() {
            said["tool_calls"] = message.tool_calls.iter().map(theirs).collect();
        }
        messages.push(said);
    }
    messages.push(json!({ "role": "user", "content": request.prompt }));
    let mut options = request.config.get("options").and_then(Value::as_object).cloned().unwrap_or_default();
    let hints = [
        ("num_predict", request.max_tokens.map(Value::from)),
        ("temperature", request.temperature.map(Value::from)),
        ("top_p", request.top_p.map(Value::from)),
    ];
    options.extend(hints.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages.into());
    // `generate` streams too: a server that is silent until its end cannot be distinguished from one that hangs.
    body.insert("stream".into(), true.into());
    if !options.is_empty() {
        body.insert("options".into(), options.into());
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.clone().into());
    }
    for name in PASSED_ON {
        if let Some(value) = request.config.get(name) {
            body.insert(name.into(), value.clone());
        }
    }
    body.into()
}

/// Converts a tool call to Ollama's form, in which arguments are an object and not a string.
fn theirs(call: &Value) -> Value {
    let function = &call["function"];
    let arguments = &function["arguments"];
    let arguments = match arguments.as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| json!({})),
        None => arguments.clone(),
    };
    json!({ "function": { "name": function["name"], "arguments": arguments } })
}

/// Converts a tool call to the protocol's form. Ollama's have no ids.
fn tool_call(index: usize, function: &Function) -> Value {
    json!({
        "id": format!("call_{}", index + 1),
        "type": "function",
        "function": { "name": function.name, "arguments": function.arguments.to_string() },
    })
}

/// Turns every response with an error status into an error.
fn good(reply: Reply, address: &Address) -> Result<Reply, Error> {
    if reply.status == 200 {
        return Ok(reply);
    }
    let mut page = String::new();
    // A partial error message is better than none.
    let _ = reply.body.take(PAGE).read_to_string(&mut page);
    let told = serde_json::from_str::<Line>(&page).ok().and_then(|line| line.error);
    let told = told.unwrap_or_else(|| page.trim().chars().take(500).collect());
    Err(Error::new(format!("Ollama at {address} returned status {}: {told}", reply.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_theirs() {
        let request = Request::parse(
            br#"{"prompt":"now","system_prompt":"sys","max_tokens":9,"temperature":0.5,"tools":[{"type":"function"}],
            "context":[{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}],
            "config":{"keep_alive":"5m","options":{"seed":7},"custom_option":"value","url":"http://x"}}"#,
        )
        .expect("a request");
        assert_eq!(
            body(&request, "m"),
            json!({
                "model": "m", "stream": true, "keep_alive": "5m", "tools": [{"type": "function"}],
                "options": {"seed": 7, "num_predict": 9, "temperature": 0.5},
                "messages": [
                    {"role": "system", "content": "sys"},
                    {"role": "user", "content": "u"},
                    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
                    {"role": "user", "content": "now"},
                ],
            })
        );
    }
}
