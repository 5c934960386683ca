//! The source of the prompt and the script, and how much of standard input is read.

use std::io::{IsTerminal, Read};

use serde_json::Value;

use crate::options::{Options, variable};
use crate::script::{self, Step};

/// How far into a prompt to look for `answer-early`.
const BEGINNING: usize = 64 * 1024;

/// Where the prompt came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputSource {
    /// An argument, a script, or standard input as a text.
    Text,
    /// A message on standard input, which carries the host's other messages too.
    Protocol,
}

/// The prompt and the script.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) source: InputSource,
    pub(crate) prompt: String,
    /// The script as a text, for another process that plays it.
    pub(crate) script: String,
    pub(crate) steps: Vec<Step>,
    /// How much of standard input was read.
    pub(crate) stdin_bytes: u64,
}

impl Input {
    /// Reads the rest of standard input, unless it carries a protocol.
    pub(super) fn read_rest(&mut self) -> Result<(), String> {
        if self.source == InputSource::Protocol {
            return Ok(());
        }
        let rest = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
            .map_err(|error| format!("could not read standard input: {error}"))?;
        self.stdin_bytes += rest;
        Ok(())
    }
}

/// Reads the script and the prompt according to the options.
pub(super) fn take(options: &Options) -> Result<Input, String> {
    if let Some(script) = script(options)? {
        let steps = script::of_script(&script)?;
        let prompt = options.prompt.clone().unwrap_or_default();
        return Ok(Input { source: InputSource::Text, prompt, script, steps, stdin_bytes: 0 });
    }
    let (prompt, stdin_bytes) = match &options.prompt {
        Some(prompt) => (prompt.clone(), 0),
        None if options.has("never-read-stdin") => (String::new(), 0),
        None => read_prompt()?,
    };
    let steps = script::of_prompt(&prompt)?;
    let script = prompt_script(&prompt);
    Ok(Input { source: InputSource::Text, script, prompt, steps, stdin_bytes })
}

/// Returns the script that the options or the environment name.
pub(crate) fn script(options: &Options) -> Result<Option<String>, String> {
    match options.value("script") {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            read.map(Some).map_err(|error| format!("could not read `{path}`: {error}"))
        }
        None => Ok(variable("PRACTICE_SCRIPT").filter(|script| !script.trim().is_empty())),
    }
}

/// Returns the lines of a prompt that are directives.
fn prompt_script(prompt: &str) -> String {
    let lines: Vec<&str> = prompt.lines().filter(|line| line.trim_start().starts_with("practice:")).collect();
    lines.join("\n")
}

fn read_prompt() -> Result<(String, u64), String> {
    let mut stdin = std::io::stdin().lock();
    // It would wait for input that the person does not expect to type.
    if stdin.is_terminal() {
        return Err("no prompt: give one as an argument or on standard input".to_owned());
    }
    let fault = |error: std::io::Error| format!("could not read the prompt from standard input: {error}");
    let mut bytes = Vec::new();
    let mut early = false;
    // Stop at `answer-early`: the directive leaves the rest of standard input unread.
    while bytes.len() < BEGINNING && !early {
        let mut chunk = vec![0; BEGINNING - bytes.len()];
        let count = stdin.read(&mut chunk).map_err(fault)?;
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&chunk[..count]);
        early = script::answers_early(&String::from_utf8_lossy(&bytes));
    }
    if !early {
        stdin.read_to_end(&mut bytes).map_err(fault)?;
    }
    let count = bytes.len() as u64;
    let prompt = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if prompt.trim().is_empty() {
        return Err("the prompt is empty: give one as an argument or on standard input".to_owned());
    }
    Ok((prompt, count))
}

/// Reads the schema, from a file or the flag itself.
pub(crate) fn schema(options: &Options) -> Result<Option<Value>, String> {
    options.value("schema").map(|given| json("schema", given)).transpose()
}

/// Reads the names of the MCP servers.
pub(crate) fn mcp_servers(options: &Options) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for given in options.values("mcp-config") {
        let config = json("mcp-config", given)?;
        let servers = config["mcpServers"].as_object();
        let servers = servers.ok_or_else(|| format!("--mcp-config {given:?} has no object `mcpServers`"))?;
        names.extend(servers.keys().cloned());
    }
    Ok(names)
}

fn json(flag: &str, given: &str) -> Result<Value, String> {
    let text = if given.trim_start().starts_with('{') {
        given.to_owned()
    } else {
        std::fs::read_to_string(given)
            .map_err(|error| format!("could not read --{flag} `{given}`: {error}"))?
    };
    serde_json::from_str(&text).map_err(|error| format!("--{flag} {given:?} is not JSON: {error}"))
}
