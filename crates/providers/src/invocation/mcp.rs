//! MCP servers in the forms that the programs want.

use std::collections::BTreeMap;

use bowline_protocol::McpServer;
use serde_json::{Map, Value, json};

use crate::manifest::run::McpForm;

/// The servers of a request.
pub(super) type Servers = BTreeMap<String, McpServer>;

/// Writes the servers as one JSON document.
pub(super) fn document(form: McpForm, servers: &Servers) -> String {
    let all: Map<String, Value> =
        servers.iter().map(|(name, server)| (name.clone(), entry(form, server))).collect();
    let document = match form {
        McpForm::LocalOrRemote => Value::Object(all),
        McpForm::Typed | McpForm::TypedWithTools | McpForm::HttpUrl | McpForm::TomlOverrides => {
            json!({ "mcpServers": all })
        }
    };
    document.to_string()
}

fn entry(form: McpForm, server: &McpServer) -> Value {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    match (server, form) {
        (McpServer::Stdio { command, args, env }, McpForm::LocalOrRemote) => {
            put("type", "local".into());
            let whole: Vec<&String> = std::iter::once(command).chain(args).collect();
            put("command", json!(whole));
            put("environment", json!(env));
            put("enabled", true.into());
        }
        (McpServer::Http { url, headers }, McpForm::LocalOrRemote) => {
            put("type", "remote".into());
            put("url", json!(url));
            put("headers", json!(headers));
            put("enabled", true.into());
        }
        (
            McpServer::Stdio { command, args, env },
            McpForm::Typed | McpForm::TypedWithTools | McpForm::HttpUrl | McpForm::TomlOverrides,
        ) => {
            if form != McpForm::HttpUrl {
                put("type", "stdio".into());
            }
            put("command", json!(command));
            put("args", json!(args));
            put("env", json!(env));
        }
        (
            McpServer::Http { url, headers },
            McpForm::Typed | McpForm::TypedWithTools | McpForm::HttpUrl | McpForm::TomlOverrides,
        ) => {
            if form == McpForm::HttpUrl {
                put("httpUrl", json!(url));
            } else {
                put("type", "http".into());
                put("url", json!(url));
            }
            put("headers", json!(headers));
        }
    }
    if form == McpForm::TypedWithTools {
        put("tools", json!(["*"]));
    }
    Value::Object(fields)
}

/// Servers as overrides of a TOML configuration, and the variables that carry their secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overrides {
    /// `key=value`, one override each.
    pub(super) values: Vec<String>,
    /// Variables to set, because the overrides name them.
    pub(super) env: BTreeMap<String, String>,
}

/// Writes the servers as overrides. Arguments can be read by every user of the machine, so that the values of variables
/// and headers go through the agent's own environment and only their names stand among the arguments.
pub(super) fn overrides(servers: &Servers) -> Result<Overrides, String> {
    let mut all = Overrides { values: Vec::new(), env: BTreeMap::new() };
    for (place, (name, server)) in servers.iter().enumerate() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(format!("the server's name `{name}` may have letters, digits, `-` and `_` only"));
        }
        let mut put = |key: &str, value: String| all.values.push(format!("mcp_servers.{name}.{key}={value}"));
        match server {
            McpServer::Stdio { command, args, env } => {
                put("command", toml_text(command));
                if !args.is_empty() {
                    put("args", toml_list(args));
                }
                if !env.is_empty() {
                    put("env_vars", toml_list(env.keys()));
                }
                for (variable, value) in env {
                    let before = all.env.insert(variable.clone(), value.clone());
                    if before.is_some_and(|before| before != *value) {
                        return Err(format!(
                            "two servers want different values of the variable `{variable}`"
                        ));
                    }
                }
            }
            McpServer::Http { url, headers } => {
                put("url", toml_text(url));
                let mut pairs = Vec::new();
                for (number, (header, value)) in headers.iter().enumerate() {
                    let variable = format!("BOWLINE_MCP_HEADER_{place}_{number}");
                    pairs.push(format!("{}={}", toml_text(header), toml_text(&variable)));
                    all.env.insert(variable, value.clone());
                }
                if !pairs.is_empty() {
                    put("env_http_headers", format!("{{{}}}", pairs.join(",")));
                }
            }
        }
    }
    Ok(all)
}

/// Returns the values of a request's servers that are to be masked.
pub(super) fn secrets(servers: &Servers) -> Vec<String> {
    let values = |server: &McpServer| -> Vec<String> {
        let (McpServer::Stdio { env: map, .. } | McpServer::Http { headers: map, .. }) = server;
        map.values().filter(|value| is_maskable(value)).cloned().collect()
    };
    servers.values().flat_map(values).collect()
}

/// Says whether a value can be masked: `1` or `true` is no secret, and to mask it would spoil every text that has it.
pub(super) fn is_maskable(value: &str) -> bool {
    value.len() >= 8
}

/// Writes a text as a TOML string: a JSON string is one, but for the one control character that JSON lets pass.
pub(super) fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn toml_list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| toml_text(text)).collect();
    format!("[{}]", texts.join(","))
}
