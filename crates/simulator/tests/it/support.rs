//! A minimal HTTP client, and requests in the form of each API.

use std::time::Duration;

use bowline_simulator::{LedgerEntry, RequestOutcome, Scenario, Simulator, SimulatorOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time limit of every step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a simulator with the built-in scenarios.
pub(crate) async fn simulator() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.expect("it starts")
}

/// Starts a simulator with a scenario called `mine`.
pub(crate) async fn with(text: &str) -> Simulator {
    let scenario = Scenario::parse("mine", "mine.toml", text).expect("a good scenario");
    let options = SimulatorOptions { scenarios: vec![scenario], ..SimulatorOptions::default() };
    Simulator::start(options).await.expect("it starts")
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// Whether the body reached its announced end.
    pub(crate) whole: bool,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the JSON data of server-sent events.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// Returns the JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

/// Sends a request, and does not wait for a response.
pub(crate) async fn send(
    simulator: &Simulator,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(simulator.address()).await.expect("it listens");
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nhost: simulator\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("it reads");
    stream.write_all(body).await.expect("it reads");
    stream
}

/// Reads until the end of the connection. An empty response is none.
pub(crate) async fn receive(mut stream: TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    // The limit is on each read: a long answer may take any time on a busy machine, if it goes on. A connection that is broken
    // off may be reset; the bytes before that count.
    while tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes))
        .await
        .expect("bytes in time")
        .unwrap_or(0)
        > 0
    {}
    if bytes.is_empty() {
        return None;
    }
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("headers");
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body = &bytes[split + 4..];
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let (body, whole) = if find("transfer-encoding").as_deref() == Some("chunked") {
        unchunked(body)
    } else {
        let announced: usize =
            find("content-length").and_then(|length| length.parse().ok()).expect("a length");
        (body.to_vec(), body.len() == announced)
    };
    Some(Reply { status, headers, body: String::from_utf8_lossy(&body).into_owned(), whole })
}

fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return (out, false) };
        let size =
            std::str::from_utf8(&bytes[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(size) = size else { return (out, false) };
        bytes = &bytes[end + 2..];
        if size == 0 {
            return (out, true);
        }
        if bytes.len() < size + 2 {
            out.extend_from_slice(&bytes[..size.min(bytes.len())]);
            return (out, false);
        }
        out.extend_from_slice(&bytes[..size]);
        bytes = &bytes[size + 2..];
    }
}

/// Sends JSON and reads the answer.
pub(crate) async fn post(simulator: &Simulator, path: &str, body: &Value) -> Reply {
    post_with(simulator, path, &[], body).await
}

pub(crate) async fn post_with(
    simulator: &Simulator,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Reply {
    let stream = send(simulator, "POST", path, headers, body.to_string().as_bytes()).await;
    receive(stream).await.expect("an answer")
}

pub(crate) async fn get(simulator: &Simulator, path: &str, headers: &[(&str, &str)]) -> Reply {
    let stream = send(simulator, "GET", path, headers, b"").await;
    receive(stream).await.expect("an answer")
}

/// Waits until the ledger has a finished entry, and returns the last one.
pub(crate) async fn last(simulator: &Simulator) -> LedgerEntry {
    let found = async {
        loop {
            match simulator.ledger().pop() {
                Some(entry) if entry.outcome != RequestOutcome::Open => return entry,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("an entry that is over")
}

/// An API, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Messages,
    Responses,
    Chat,
    Google,
    GoogleArray,
    Ollama,
    OllamaGenerate,
}

pub(crate) const ALL: [Speaks; 7] = [
    Speaks::Messages,
    Speaks::Responses,
    Speaks::Chat,
    Speaks::Google,
    Speaks::GoogleArray,
    Speaks::Ollama,
    Speaks::OllamaGenerate,
];

/// A speaker in a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn<'a> {
    User(&'a str),
    Model(&'a str),
    Call(&'a str),
    Result(&'a str),
}

impl Speaks {
    /// Returns the path of the API.
    pub(crate) fn path(self, stream: bool) -> &'static str {
        match (self, stream) {
            (Self::Messages, _) => "/v1/messages",
            (Self::Responses, _) => "/v1/responses",
            (Self::Chat, _) => "/v1/chat/completions",
            (Self::Google | Self::GoogleArray, false) => "/v1beta/models/m1:generateContent",
            (Self::Google, true) => "/v1beta/models/m1:streamGenerateContent?alt=sse",
            (Self::GoogleArray, true) => "/v1beta/models/m1:streamGenerateContent",
            (Self::Ollama, _) => "/api/chat",
            (Self::OllamaGenerate, _) => "/api/generate",
        }
    }

    /// Builds a request for a conversation, with tools by name.
    pub(crate) fn ask(self, stream: bool, turns: &[Turn<'_>], tools: &[&str]) -> Value {
        let schema = json!({ "type": "object", "properties": {
            "command": { "type": "string" }, "file_path": { "type": "string" }, "content": { "type": "string" },
        } });
        let functions: Vec<Value> = tools
            .iter()
            .map(|name| json!({ "type": "function", "function": { "name": name, "parameters": schema } }))
            .collect();
        match self {
            Self::Messages => json!({
                "model": "m1", "stream": stream, "max_tokens": 1000, "system": "Be brief.",
                "tools": tools.iter().map(|name| json!({ "name": name, "input_schema": schema })).collect::<Vec<_>>(),
                "messages": turns.iter().map(|turn| match turn {
                    Turn::User(text) => json!({ "role": "user", "content": text }),
                    Turn::Model(text) => json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] }),
                    Turn::Call(name) => json!({ "role": "assistant", "content": [
                        { "type": "tool_use", "id": "t1", "name": name, "input": {} }] }),
                    Turn::Result(text) => json!({ "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "t1", "content": text }] }),
                }).collect::<Vec<_>>(),
            }),
            Self::Responses => json!({
                "model": "m1", "stream": stream, "instructions": "Be brief.",
                "tools": tools.iter().map(|name| json!({ "type": "function", "name": name, "parameters": schema }))
                    .collect::<Vec<_>>(),
                "input": turns.iter().map(|turn| match turn {
                    Turn::User(text) => json!({ "type": "message", "role": "user",
                        "content": [{ "type": "input_text", "text": text }] }),
                    Turn::Model(text) => json!({ "type": "message", "role": "assistant",
                        "content": [{ "type": "output_text", "text": text }] }),
                    Turn::Call(name) => json!({ "type": "function_call", "call_id": "t1", "name": name, "arguments": "{}" }),
                    Turn::Result(text) => json!({ "type": "function_call_output", "call_id": "t1", "output": text }),
                }).collect::<Vec<_>>(),
            }),
            Self::Chat | Self::Ollama => {
                let mut messages = vec![json!({ "role": "system", "content": "Be brief." })];
                messages.extend(turns.iter().map(|turn| match turn {
                    Turn::User(text) => json!({ "role": "user", "content": text }),
                    Turn::Model(text) => json!({ "role": "assistant", "content": text }),
                    Turn::Call(name) => json!({ "role": "assistant", "content": "", "tool_calls": [
                        { "id": "t1", "type": "function", "function": { "name": name, "arguments": "{}" } }] }),
                    Turn::Result(text) => json!({ "role": "tool", "tool_call_id": "t1", "content": text }),
                }));
                json!({ "model": "m1", "stream": stream, "tools": functions, "messages": messages })
            }
            Self::Google | Self::GoogleArray => json!({
                "systemInstruction": { "parts": [{ "text": "Be brief." }] },
                "tools": [{ "functionDeclarations": tools.iter()
                    .map(|name| json!({ "name": name, "parametersJsonSchema": schema })).collect::<Vec<_>>() }],
                "contents": turns.iter().map(|turn| match turn {
                    Turn::User(text) => json!({ "role": "user", "parts": [{ "text": text }] }),
                    Turn::Model(text) => json!({ "role": "model", "parts": [{ "text": text }] }),
                    Turn::Call(name) => json!({ "role": "model", "parts": [{ "functionCall": { "name": name, "args": {} } }] }),
                    Turn::Result(text) => json!({ "role": "user", "parts": [
                        { "functionResponse": { "name": "x", "response": { "output": text } } }] }),
                }).collect::<Vec<_>>(),
            }),
            // It takes one prompt and no conversation.
            Self::OllamaGenerate => {
                let last = turns.iter().rev().find_map(|turn| match turn {
                    Turn::User(text) => Some(*text),
                    Turn::Model(_) | Turn::Call(_) | Turn::Result(_) => None,
                });
                json!({ "model": "m1", "stream": stream, "system": "Be brief.", "prompt": last })
            }
        }
    }

    /// Sends a request, and reads the answer.
    pub(crate) async fn say(
        self,
        simulator: &Simulator,
        stream: bool,
        prompt: &str,
        tools: &[&str],
    ) -> Reply {
        post(simulator, self.path(stream), &self.ask(stream, &[Turn::User(prompt)], tools)).await
    }

    /// Returns the text of an answer, in any shape.
    pub(crate) fn text(self, stream: bool, reply: &Reply) -> String {
        let parts: Vec<Value> = match (self, stream) {
            (Self::Ollama | Self::OllamaGenerate, true) => reply.lines(),
            (Self::GoogleArray, true) => reply.json().as_array().cloned().expect("an array"),
            (_, true) => reply.events(),
            (_, false) => vec![reply.json()],
        };
        parts.iter().map(|part| self.piece(stream, part)).collect()
    }

    fn piece(self, stream: bool, part: &Value) -> String {
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spoken = |part: &&Value| part["thought"] != true;
        match (self, stream) {
            (Self::Messages, true) => said(&part["delta"]["text"]),
            (Self::Messages, false) => {
                part["content"].as_array().into_iter().flatten().map(|block| said(&block["text"])).collect()
            }
            (Self::Responses, true) if part["type"] == "response.output_text.delta" => said(&part["delta"]),
            (Self::Responses, true) => String::new(),
            (Self::Responses, false) => part["output"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|item| said(&item["content"][0]["text"]))
                .collect(),
            (Self::Chat, true) => said(&part["choices"][0]["delta"]["content"]),
            (Self::Chat, false) => said(&part["choices"][0]["message"]["content"]),
            (Self::Google | Self::GoogleArray, _) => part["candidates"][0]["content"]["parts"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(spoken)
                .map(|part| said(&part["text"]))
                .collect(),
            (Self::Ollama, _) => said(&part["message"]["content"]),
            (Self::OllamaGenerate, _) => said(&part["response"]),
        }
    }
}

/// Removes the times from an answer, so that it does not change.
pub(crate) fn timeless(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    let keys = ["\"created\":", "\"created_at\":"];
    while let Some((at, key)) = keys.iter().filter_map(|key| Some((rest.find(key)?, key))).min() {
        let end = at + key.len();
        out.push_str(&rest[..end]);
        out.push_str("NOW");
        rest = &rest[end..];
        rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
    }
    out.push_str(rest);
    out
}
