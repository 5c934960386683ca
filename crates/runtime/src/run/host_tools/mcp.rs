//! The Model Context Protocol, as far as a server with nothing but tools has it: from a JSON-RPC message to its response.
//!
//! A client may speak any version of the protocol that has the transport "streamable HTTP" and begins with `initialize`. Not here: the
//! transport, which is [`super::server`].

use std::sync::{Arc, Mutex, PoisonError};

use bowline_protocol::Json;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::{CallResult, HostTool, SERVER};

/// The known versions of the protocol, the newest first. They do not differ in the messages of tools.
pub(super) const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// How many calls run at once; further ones wait.
pub(super) const CALLS: usize = 16;

/// Errors of JSON-RPC.
pub(super) const NOT_JSON: i64 = -32700;
pub(super) const INVALID: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const WRONG_PARAMETERS: i64 = -32602;
const CANCELLED: i64 = -32000;

/// The tools of a run, and the calls that are running.
#[derive(Debug)]
pub(super) struct ToolDesk {
    tools: Vec<HostTool>,
    permits: Semaphore,
    running: Mutex<Vec<RunningCall>>,
}

/// A call that its client may cancel.
#[derive(Debug)]
struct RunningCall {
    /// The connection of the client, by the id that `initialize` gave it, and the client's id of the request.
    key: CallKey,
    cancelled: Arc<Notify>,
}

type CallKey = (Option<String>, Value);

/// A tool as the list has it.
#[derive(Serialize)]
struct ListedTool<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(rename = "inputSchema")]
    schema: &'a Json,
}

/// The response to a JSON-RPC request: its result or its error.
type Response = Result<Value, (i64, String)>;

impl ToolDesk {
    pub(super) fn new(tools: &[HostTool]) -> Self {
        Self { tools: tools.to_vec(), permits: Semaphore::new(CALLS), running: Mutex::default() }
    }

    /// Returns the response to a message, or to all messages of a batch; none if it asks for none.
    pub(super) async fn answer(&self, client: Option<&str>, message: Value) -> Option<Value> {
        let Value::Array(batch) = message else { return self.one(client, message).await };
        if batch.is_empty() {
            return Some(error(&Value::Null, INVALID, "the batch is empty"));
        }
        let mut responses = Vec::new();
        for message in batch {
            responses.extend(self.one(client, message).await);
        }
        (!responses.is_empty()).then_some(Value::Array(responses))
    }

    async fn one(&self, client: Option<&str>, mut message: Value) -> Option<Value> {
        if message["jsonrpc"] != "2.0" {
            return Some(error(&Value::Null, INVALID, "this is not a message of JSON-RPC 2.0"));
        }
        // A response of the client: this server sends no requests.
        let method = message["method"].as_str()?.to_owned();
        let params = message["params"].take();
        let id = match message.get("id") {
            None => {
                self.notified(client, &method, &params);
                return None;
            }
            Some(id) if id.is_string() || id.is_number() => id.clone(),
            Some(_) => return Some(error(&Value::Null, INVALID, "the id is neither a text nor a number")),
        };
        let response = match method.as_str() {
            "initialize" => Ok(introduction(&params)),
            "ping" => Ok(json!({})),
            "tools/list" => self.list(),
            "tools/call" => self.call(client, &id, params).await,
            _ => Err((UNKNOWN_METHOD, format!("this server has no method `{method}`"))),
        };
        Some(match response {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => error(&id, code, &message),
        })
    }

    fn notified(&self, client: Option<&str>, method: &str, params: &Value) {
        if method != "notifications/cancelled" {
            return;
        }
        let key = (client.map(str::to_owned), params["requestId"].clone());
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().filter(|call| call.key == key).for_each(|call| call.cancelled.notify_one());
    }

    fn list(&self) -> Response {
        let listed = |tool: &HostTool| {
            let HostTool { name, description, schema, .. } = tool;
            serde_json::to_value(ListedTool { name, description, schema })
        };
        let tools: Result<Vec<Value>, _> = self.tools.iter().map(listed).collect();
        tools.map(|tools| json!({ "tools": tools })).map_err(|error| (INVALID, error.to_string()))
    }

    async fn call(&self, client: Option<&str>, id: &Value, mut params: Value) -> Response {
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return Err((WRONG_PARAMETERS, format!("there is no tool `{name}`")));
        };
        let input = match params["arguments"].take() {
            Value::Null => json!({}),
            input @ Value::Object(_) => input,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err((WRONG_PARAMETERS, "the arguments are not an object".to_owned()));
            }
        };
        let input = Json::of(&input).map_err(|error| (WRONG_PARAMETERS, error.to_string()))?;
        let call = self.register((client.map(str::to_owned), id.clone()));
        let result = tokio::select! {
            biased;
            () = call.cancelled.notified() => return Err((CANCELLED, "the call was cancelled".to_owned())),
            result = self.run(tool, input) => result,
        };
        let (text, failed) = match result {
            Ok(text) => (text, false),
            Err(error) => (error.to_string(), true),
        };
        tracing::debug!(tool = name, failed, bytes = text.len(), "a tool of the host was called");
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": failed }))
    }

    async fn run(&self, tool: &HostTool, input: Json) -> CallResult {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await?;
        tool.run(input).await
    }

    fn register(&self, key: CallKey) -> Registered<'_> {
        let cancelled = Arc::new(Notify::new());
        let call = RunningCall { key, cancelled: cancelled.clone() };
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        Registered { desk: self, cancelled }
    }
}

/// A call on the list of running ones. Dropping it takes the call off the list.
struct Registered<'a> {
    desk: &'a ToolDesk,
    cancelled: Arc<Notify>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut running = self.desk.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|call| !Arc::ptr_eq(&call.cancelled, &self.cancelled));
    }
}

fn introduction(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|known| *known == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": SERVER, "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Writes an error response.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
