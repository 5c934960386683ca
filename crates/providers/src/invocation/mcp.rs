//! MCP servers in the forms that the programs read.

use std::collections::BTreeMap;

use bowline_protocol::McpServer;
use serde_json::{Map, Value, json};

use super::environment;
use crate::manifest::run::McpForm;

/// The servers of a request.
pub(super) type Servers = BTreeMap<String, McpServer>;

/// Further fields of the entry of one server: how the program is told to allow its tools.
#[derive(Clone, Copy)]
pub(super) struct OwnEntry<'a> {
    /// The server.
    pub(super) name: &'a str,
    /// The fields.
    pub(super) fields: &'a BTreeMap<String, Value>,
}

/// Returns the further fields of a server.
fn fields_of<'a>(own: Option<OwnEntry<'a>>, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    own.filter(|own| own.name == name).into_iter().flat_map(|own| own.fields)
}

/// Writes the servers as one JSON document.
pub(super) fn document(form: McpForm, servers: &Servers, own: Option<OwnEntry<'_>>) -> String {
    let entry = |(name, server): (&String, &McpServer)| {
        let mut fields = entry(form, server);
        fields.extend(fields_of(own, name).map(|(key, value)| (key.clone(), value.clone())));
        (name.clone(), Value::Object(fields))
    };
    let all: Map<String, Value> = servers.iter().map(entry).collect();
    let document = match form {
        McpForm::LocalOrRemote => Value::Object(all),
        McpForm::Typed | McpForm::TypedWithTools | McpForm::HttpUrl | McpForm::TomlOverrides => {
            json!({ "mcpServers": all })
        }
    };
    document.to_string()
}

fn entry(form: McpForm, server: &McpServer) -> Map<String, Value> {
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
    fields
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
pub(super) fn overrides(servers: &Servers, own: Option<OwnEntry<'_>>) -> Result<Overrides, String> {
    let mut all = Overrides { values: Vec::new(), env: BTreeMap::new() };
    for (place, (name, server)) in servers.iter().enumerate() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(format!("the server's name `{name}` may contain only letters, digits, `-` and `_`"));
        }
        let mut put = |key: &str, value: String| all.values.push(format!("mcp_servers.{name}.{key}={value}"));
        for (key, value) in fields_of(own, name) {
            put(key, value.as_str().map_or_else(|| value.to_string(), toml_text));
        }
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
                            "two servers set different values for the variable `{variable}`"
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

/// Returns the values of a request's servers that are to be masked: all variables and headers, and what arguments and
/// addresses call a key, a token or a password.
pub(super) fn secrets(servers: &Servers) -> Vec<String> {
    let values = |server: &McpServer| -> Vec<String> {
        let (map, named) = match server {
            McpServer::Stdio { args, env, .. } => (env, in_arguments(args)),
            McpServer::Http { url, headers } => (headers, in_address(url)),
        };
        let all =
            map.values().flat_map(|value| [Some(&**value), behind_scheme(value)]).flatten().chain(named);
        all.filter(|value| is_maskable(value)).map(str::to_owned).collect()
    };
    servers.values().flat_map(values).collect()
}

/// Returns the credentials of a header such as `Bearer VALUE`: a program may print them without the scheme.
fn behind_scheme(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.split_once(' ')?;
    ["bearer", "basic", "token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| credentials.trim())
}

/// `--api-key VALUE` and `--api-key=VALUE`.
fn in_arguments(args: &[String]) -> Vec<&str> {
    let next = args.iter().skip(1).map(|arg| Some(arg.as_str())).chain([None]);
    let named = args.iter().zip(next).filter_map(|(arg, next)| {
        let flag = arg.starts_with('-').then(|| arg.trim_start_matches('-'))?;
        let (name, value) = flag.split_once('=').map_or((flag, next), |(name, value)| (name, Some(value)));
        value.filter(|_| is_named_secret(name))
    });
    named.collect()
}

/// `https://user:VALUE@host/?key=VALUE` and `https://VALUE@host`.
fn in_address(url: &str) -> Vec<&str> {
    let address = url.split_once('?').map_or(url, |(address, _)| address);
    let host = address.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    // A user name without a password is often a token, as in addresses of variables.
    let user =
        host.rsplit_once('@').map(|(user, _)| user.split_once(':').map_or(user, |(_, password)| password));
    user.into_iter().chain(in_query(url)).collect()
}

/// Returns the parameters of an address that are called a key, a token or a password: `?key=VALUE`.
pub(super) fn in_query(url: &str) -> Vec<&str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| is_named_secret(name)).map(|(_, value)| value).collect()
}

/// Returns whether a flag or a parameter has the name of a secret, as variables have.
fn is_named_secret(name: &str) -> bool {
    environment::looks_secret(&format!("_{}", name.replace('-', "_")))
}

/// Returns whether a value can be masked: `1` or `true` is not a secret, and masking it would spoil every text that has it.
pub(super) fn is_maskable(value: &str) -> bool {
    value.len() >= 8
}

/// Writes a text as a TOML string: a JSON string is one, except for the one control character that JSON allows.
pub(super) fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn toml_list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| toml_text(text)).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_where_they_are_named() {
        let stdio = |args: &[&str]| McpServer::Stdio {
            command: "x".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::from([("NAME".to_owned(), "of a variable".to_owned())]),
        };
        let http = |url: &str| McpServer::Http { url: url.to_owned(), headers: BTreeMap::new() };
        let check = |server: McpServer, expected: &[&str]| {
            assert_eq!(secrets(&BTreeMap::from([("one".to_owned(), server)])), expected);
        };
        check(stdio(&["--api-key", "12345678", "--verbose"]), &["of a variable", "12345678"]);
        check(stdio(&["--token=12345678=", "-y", "12345679"]), &["of a variable", "12345678="]);
        check(stdio(&["--key", "1", "token", "12345678", "--password"]), &["of a variable"]);
        check(
            http("https://me:12345678@host/mcp?page=12345677&access_token=12345679#key=1"),
            &["12345678", "12345679"],
        );
        check(http("https://12345678@host/mcp"), &["12345678"]);
        check(http("https://host:12345678/key=12345678"), &[]);
        let headers = |value: &str| McpServer::Http {
            url: "https://host".to_owned(),
            headers: BTreeMap::from([("Authorization".to_owned(), value.to_owned())]),
        };
        check(headers("Bearer 12345678"), &["Bearer 12345678", "12345678"]);
        check(headers("no scheme 12345678"), &["no scheme 12345678"]);
    }
}
