//! Functions of the embedder as tools of the agent.
//!
//! A [`HostTool`] is a Rust function with a name and the JSON Schema of its input. A run serves the tools of its task to the agent with a
//! small MCP server on 127.0.0.1, under the name `bowline`. The server lives as long as the run. Only a process with its token, which
//! the agent gets, can use it.
//!
//! Bowline emits no events for the calls: the agent reports them as it reports every MCP tool, with its own name for the tool.

mod mcp;
mod proxies;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bowline_protocol::{Json, McpServer, Remedy, Request, RequestField};
use bowline_providers::invocation::{Refusal, Wish};
use bowline_providers::manifest::Manifest;
use bowline_providers::manifest::run::{Flag, RunFlag};

pub(crate) use proxies::past_proxies;
pub(crate) use server::HostServer;

/// The name of the MCP server that serves the tools. Agents make their names of the tools from it.
pub(crate) const SERVER: &str = "bowline";

/// The longest name of a tool, in bytes. The APIs of models take 64, and agents put the name of the server before it.
const LONGEST_NAME: usize = 40;

/// The result of a call: a text for the agent, or an error that the agent reads.
type CallResult = Result<String, Box<dyn std::error::Error + Send + Sync>>;

type CallFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;

/// A function of this program that the agent can call as a tool.
///
/// The agent reads the text that the function returns. An error or a panic is an error of the tool to the agent, which decides how
/// to go on; it does not end the run. A call that is running when the run ends, or that the agent cancels, is dropped.
///
/// The function runs on the tokio runtime of the run. Put blocking work into [`tokio::task::spawn_blocking`].
///
/// ```
/// use bowline::{HostTool, Json};
///
/// #[derive(serde::Deserialize)]
/// struct Place {
///     city: String,
/// }
///
/// let schema = Json::parse(r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#)?;
/// let weather = HostTool::new("weather", "Returns the weather of a city", schema, |input| async move {
///     let place: Place = input.read()?;
///     Ok(format!("It is sunny in {}.", place.city))
/// });
/// let task = bowline::task("What is the weather in Bern?").provider("claude").tool(weather);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct HostTool {
    name: Arc<str>,
    description: Arc<str>,
    schema: Json,
    call: Arc<dyn Fn(Json) -> CallFuture + Send + Sync>,
}

impl HostTool {
    /// Makes a tool of a function. `schema` is the JSON Schema of its input, which is an object. The agent gets the description and the
    /// schema as they are; Bowline checks that the input is an object, and leaves the rest of the schema to the function.
    pub fn new<F>(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        schema: Json,
        call: impl Fn(Json) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let call = Arc::new(move |input| -> CallFuture { Box::pin(call(input)) });
        Self { name: name.into(), description: description.into(), schema, call }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the function. A panic is an error.
    pub(crate) async fn run(&self, input: Json) -> CallResult {
        let call = self.call.clone();
        // Inside the future, because the function may also panic before it returns its future.
        let mut call: CallFuture = Box::pin(async move { call(input).await });
        // Not a task of its own: a task outlives the drop of its handle by a moment.
        std::future::poll_fn(move |context| {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
            // The payload may have anything of this program in it, so the agent does not get it.
            polled.unwrap_or_else(|_| Poll::Ready(Err("the tool failed: it panicked".into())))
        })
        .await
    }
}

impl fmt::Debug for HostTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why the tools of a task cannot be served. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostToolError {
    /// The name of a tool is not one that every model accepts.
    #[error("the tool name `{}` is not 1 to {LONGEST_NAME} letters, digits, `-` and `_`", name.escape_debug())]
    Name {
        /// The name.
        name: String,
    },
    /// Two tools have one name.
    #[error("two tools have the name `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// The schema of a tool does not describe an object.
    #[error("the schema of the tool `{name}` does not have `\"type\": \"object\"`")]
    Schema {
        /// The tool.
        name: String,
    },
    /// The task has an MCP server with the name of Bowline's own.
    #[error("the MCP server `{SERVER}` of the task has the name of the server for its tools")]
    ServerName,
    /// The server could not be started.
    #[error("could not start the server for the tools on 127.0.0.1")]
    Start {
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// Returns the form of the server, for a request that is only checked or shown. Nothing listens at its address.
pub(crate) fn form() -> McpServer {
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer <made for each run>".to_owned())]);
    McpServer::Http { url: "http://127.0.0.1/mcp".to_owned(), headers }
}

/// Starts the server for tools.
pub(crate) async fn serve(tools: &[HostTool]) -> Result<HostServer, HostToolError> {
    HostServer::start(tools).await.map_err(|source| HostToolError::Start { source })
}

/// Checks the tools of a task, and that the name of their server is free among its MCP servers.
pub(crate) fn check(tools: &[HostTool], servers: &BTreeMap<String, McpServer>) -> Result<(), HostToolError> {
    for (place, tool) in tools.iter().enumerate() {
        let name = || tool.name.to_string();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if tool.name.is_empty() || tool.name.len() > LONGEST_NAME || !tool.name.chars().all(plain) {
            return Err(HostToolError::Name { name: name() });
        }
        if tools[..place].iter().any(|other| other.name == tool.name) {
            return Err(HostToolError::SameName { name: name() });
        }
        let schema: Option<serde_json::Value> = tool.schema.read().ok();
        if schema.is_none_or(|schema| schema["type"] != "object") {
            return Err(HostToolError::Schema { name: name() });
        }
    }
    if !tools.is_empty() && servers.contains_key(SERVER) {
        return Err(HostToolError::ServerName);
    }
    Ok(())
}

/// Returns why no program can use the tools of a request.
pub(crate) fn refused(provider: &str, request: &Request, wish: &Wish) -> Option<Refusal> {
    wish.host_server.as_ref()?;
    if request.no_tools {
        let refusal = Refusal::unsupported(provider, RequestField::NoTools, "it contradicts `tools`");
        return Some(refusal.remedies([Remedy::OmitField { field: RequestField::NoTools }]));
    }
    request.docker.as_ref()?;
    let reason = "an agent in a container cannot reach a server on 127.0.0.1 of this machine";
    let refusal = Refusal::unsupported(provider, RequestField::Tools, reason);
    Some(refusal.remedies([Remedy::OmitField { field: RequestField::Docker }]))
}

/// Names the field `tools` in a refusal of MCP servers, if the only one is that of the tools.
pub(crate) fn renamed(
    mut refusal: Refusal,
    manifest: Option<&Manifest>,
    request: &Request,
    wish: &Wish,
) -> Refusal {
    let own = wish.host_server.as_ref().is_some_and(|name| request.mcp_servers.keys().all(|it| it == name));
    if !own || refusal.field != RequestField::McpServers {
        return refusal;
    }
    (refusal.field, refusal.hint) = (RequestField::Tools, None);
    let takes = |format: &&str| {
        let flags = manifest.map(|manifest| manifest.in_format(format));
        flags.is_some_and(|it| it.run.flags.get(&RunFlag::McpConfig).is_some_and(Flag::is_done))
    };
    match manifest.and_then(Manifest::live_format).filter(takes) {
        Some(format) => refusal.remedies([Remedy::set(RequestField::Format.value(format))]),
        None => refusal,
    }
}
