//! The parameters of our requests and responses, and the content of prompts.

use bowline_protocol::{Attachment, McpServer};
use serde_json::{Value, json};

use crate::base64;
use crate::conversation::Conversation;
use crate::dialect::HostPrompt;
use crate::invocation::image_type;
use crate::manifest::run::HostOffer;

/// Returns whether an agent has a capability of sessions. It is an object, `{}` included; `null` means that it is missing.
pub(super) fn is_able(agent: &Value, what: &str) -> bool {
    agent.pointer(&format!("/agentCapabilities/sessionCapabilities/{what}")).is_some_and(|it| !it.is_null())
}

/// Returns what an agent lacks for the parameters of a session. It would leave them out without an error.
pub(super) fn lack(agent: &Value, talk: &Conversation) -> Option<&'static str> {
    if !talk.add_dirs.is_empty() && !is_able(agent, "additionalDirectories") {
        return Some("the agent does not support additional directories");
    }
    let over_http = talk.mcp_servers.values().any(|server| matches!(server, McpServer::Http { .. }));
    let takes_http = agent.pointer("/agentCapabilities/mcpCapabilities/http").and_then(Value::as_bool);
    (over_http && takes_http != Some(true)).then_some("the agent does not support MCP servers over HTTP")
}

/// The version of the protocol that is spoken.
pub(super) const PROTOCOL: u64 = 1;

/// How images go with a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageForm {
    Contents,
    Links,
}

/// Returns the blocks of a prompt.
pub(super) fn blocks(talk: &Conversation, prompt: &HostPrompt, images: ImageForm) -> Vec<Value> {
    let text = json!({ "type": "text", "text": prompt.text });
    let files = prompt.attachments.iter().map(|file| attached(talk, prompt, file, images));
    std::iter::once(text).chain(files).collect()
}

/// Writes a file that goes with the prompt: an image where the agent takes one, else a link, which every agent has to
/// understand.
fn attached(talk: &Conversation, prompt: &HostPrompt, file: &Attachment, images: ImageForm) -> Value {
    if let (Some(bytes), Some(kind), ImageForm::Contents) =
        (prompt.images.get(&file.path), image_type(file), images)
    {
        return json!({ "type": "image", "mimeType": kind, "data": base64::encode(bytes) });
    }
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    let uri = format!("file://{}", talk.absolute(&file.path));
    let mut link = json!({ "type": "resource_link", "uri": uri, "name": name });
    if let Some(kind) = &file.media_type {
        link["mimeType"] = json!(kind);
    }
    link
}

/// Our name, and what we offer: files and terminals only where the manifest says so, because the agent has its own; forms where a
/// caller fills them in.
pub(in super::super) fn introduction(talk: &Conversation) -> Value {
    let files = talk.host_files == HostOffer::Offered;
    let terminals = talk.host_terminals == HostOffer::Offered;
    let mut introduction = json!({
        "protocolVersion": PROTOCOL,
        // Offering `fs` breaks Gemini 0.61.0: it reads a new file through us first, and fails to write it after "not found".
        "clientCapabilities": { "fs": { "readTextFile": files, "writeTextFile": files }, "terminal": terminals },
        "clientInfo": { "name": "bowline", "title": "Bowline", "version": env!("CARGO_PKG_VERSION") },
    });
    // Only where questions are answered: claude-agent-acp 0.99.1 withholds its tool for questions from other clients. No pages of
    // the web (`url`): nothing opens them.
    if talk.answers_questions {
        introduction["clientCapabilities"]["elicitation"] = json!({ "form": {} });
    }
    introduction
}

pub(super) fn server(name: &str, server: &McpServer) -> Value {
    let pairs = |pairs: &std::collections::BTreeMap<String, String>| -> Vec<Value> {
        pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
    };
    match server {
        McpServer::Stdio { command, args, env } => {
            json!({ "name": name, "command": command, "args": args, "env": pairs(env) })
        }
        McpServer::Http { url, headers } => {
            json!({ "type": "http", "name": name, "url": url, "headers": pairs(headers) })
        }
    }
}
