//! Reads MCP servers from configuration files, in the form that other programs use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bowline::McpServer;

use super::request;
use crate::error::{CommandError, Fault};

/// One server of a file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct McpEntry {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    disabled: bool,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    // One agent has this key for a server with streamable HTTP.
    #[serde(alias = "httpUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(serde::Deserialize)]
struct McpFile {
    // `servers` is the key of VS Code's `mcp.json`.
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, McpEntry>,
}

/// Reads the servers of all files. Each name must be unique.
pub(super) fn servers(paths: &[PathBuf]) -> Result<Vec<(String, McpServer)>, CommandError> {
    let mut all = Vec::new();
    let mut seen: BTreeMap<String, &Path> = BTreeMap::new();
    for path in paths {
        for (name, server) in of_file(path)? {
            if let Some(other) = seen.insert(name.clone(), path) {
                let (one, two) = (other.display(), path.display());
                let message = format!("the MCP server `{name}` is defined in `{one}` and in `{two}`");
                return Err(CommandError::new(Fault::Usage, message).hint("rename one of them"));
            }
            all.push((name, server));
        }
    }
    Ok(all)
}

fn of_file(path: &Path) -> Result<Vec<(String, McpServer)>, CommandError> {
    let wrong = |message: String| {
        CommandError::new(Fault::Usage, message)
            .hint(r#"write `{"mcpServers": {"name": {"command": "…", "args": […]}}}`, or `"url"` instead of `"command"`"#)
    };
    let servers: McpFile = serde_json::from_str(&request::read(path, "--mcp-config")?).map_err(|error| {
        wrong(format!("`--mcp-config {}` does not define MCP servers", path.display())).caused_by(error)
    })?;
    let server = |(name, server): (String, McpEntry)| match (server.command, server.url) {
        _ if name.trim().is_empty() => {
            Err(wrong(format!("an MCP server in `--mcp-config {}` has no name", path.display())))
        }
        _ if !matches!(server.kind.as_deref(), None | Some("stdio" | "http" | "streamable-http")) => {
            let kind = server.kind.unwrap_or_default();
            Err(wrong(format!("the MCP server `{name}` has the unknown type `{kind}`; use stdio or http")))
        }
        (Some(command), None) => Ok((name, McpServer::Stdio { command, args: server.args, env: server.env })),
        (None, Some(url)) => Ok((name, McpServer::Http { url, headers: server.headers })),
        _ => Err(wrong(format!("the MCP server `{name}` needs either a command or a url"))),
    };
    servers.servers.into_iter().filter(|(_, server)| !server.disabled).map(server).collect()
}
