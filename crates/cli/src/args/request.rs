//! The arguments that `bowline run` and `bowline route` share: the request to an agent. Both take one list, so that `route` explains
//! any `run` command line.

use std::path::PathBuf;

use bowline::Json;
use bowline_protocol::Millis;
use clap::ValueEnum;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Task for the agent; `-` reads it from standard input. With a prompt and piped input, the input is appended to the
    /// prompt; Bowline waits for its end
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Provider to run (`bowline providers` lists them); `auto` lets the router choose, `a,b` runs both in parallel with one
    /// shared budget. Default: the provider of the resumed session, else BOWLINE_PROVIDER
    #[arg(long, short = 'p', value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// Run the executable provider at this path instead of an agent: a program that implements `generate`, `stream`
    /// and `health`
    #[arg(long, value_name = "PATH", help_heading = AGENT)]
    pub(crate) executable: Option<PathBuf>,

    /// Native argument for the agent's program, passed through unchanged; repeatable. Rejected if Bowline sets the same
    /// option itself. Example: `--agent-arg=--permission-mode=plan`
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = AGENT)]
    pub(crate) agent_arg: Vec<String>,

    /// Output format of the agent's program, as listed by `bowline providers`. Default: the best one that the
    /// installed program supports
    #[arg(long, value_name = "NAME", help_heading = AGENT, conflicts_with = "no_stream")]
    pub(crate) format: Option<String>,

    /// Provider-specific setting; the value is JSON, else text; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = AGENT)]
    pub(crate) set: Vec<(String, Json)>,

    /// Kind of model: fast, capable, codegen, long-context, agentic, cheap, or a hint of your configuration
    #[arg(long, value_name = "HINT", value_parser = hint, help_heading = ROUTE)]
    pub(crate) hint: Option<String>,

    /// Number of retries after a failure that allows a retry. Default: 2 if the router chooses, else 0
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true, help_heading = ROUTE)]
    pub(crate) retries: Option<u32>,

    /// When to fall back to another provider after a failure: `next` if the failure allows it, `any` after every failure,
    /// `none` never
    #[arg(long, value_name = "RULE", value_parser = fallback, help_heading = ROUTE)]
    pub(crate) fallback: Option<bowline::Fallback>,

    /// Wait until an exhausted usage limit resets, however long that takes
    #[arg(long, help_heading = ROUTE)]
    pub(crate) wait_for_limit: bool,

    /// Retry and fall back even if a tool ran or may have run; its work may happen twice
    #[arg(long, help_heading = ROUTE)]
    pub(crate) repeat_tools: bool,

    /// When to resend the prompt without streaming if the stream ends without a result: `untouched` (default) only if the
    /// program provably did not process it, `before-tools` if it reported no tool call, `always`, `never`
    #[arg(long, value_name = "RULE", value_parser = stream_fallback, help_heading = ROUTE)]
    pub(crate) stream_fallback: Option<bowline::StreamFallback>,

    /// Account to use: a profile of your settings (`bowline config show` lists profiles)
    #[arg(long, value_name = "NAME", help_heading = AGENT, conflicts_with = "executable")]
    pub(crate) profile: Option<String>,

    /// Program to run instead of the one on PATH
    #[arg(long, value_name = "PATH", help_heading = AGENT)]
    pub(crate) binary: Option<PathBuf>,

    /// Model to use. Without `--provider`, Bowline picks the provider that offers it
    #[arg(long, short = 'm', value_name = "NAME", help_heading = AGENT)]
    pub(crate) model: Option<String>,

    /// Reasoning effort, as the agent names it, such as low or high
    #[arg(long, value_name = "LEVEL", help_heading = AGENT)]
    pub(crate) effort: Option<String>,

    /// Work in this directory
    #[arg(long, short = 'C', value_name = "DIR", help_heading = WORK)]
    pub(crate) cwd: Option<PathBuf>,

    /// Additional directory that the agent may use; repeatable
    #[arg(long, value_name = "DIR", help_heading = WORK)]
    pub(crate) add_dir: Vec<PathBuf>,

    /// Image to attach to the prompt; repeatable
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) image: Vec<PathBuf>,

    /// Replace the agent's system prompt
    #[arg(long, value_name = "TEXT", help_heading = WORK)]
    pub(crate) system: Option<String>,

    /// Append to the agent's system prompt
    #[arg(long, value_name = "TEXT", help_heading = WORK)]
    pub(crate) append_system: Option<String>,

    /// Require an answer that is valid against the JSON Schema in this file; otherwise exit with code 1
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) schema: Option<PathBuf>,

    /// File with MCP servers, in the form `{"mcpServers": {…}}`; repeatable
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) mcp_config: Vec<PathBuf>,

    /// Policy that judges what the agent does, in JSON or YAML; repeatable, beside those of the user and the project. The
    /// strictest answer wins. A program that does not ask in any of its formats is refused
    #[arg(long, value_name = "FILE", help_heading = LIMITS)]
    pub(crate) policy: Vec<PathBuf>,

    /// Actions that the agent may take without approval. Default: `ask`. `bowline run` on a terminal asks you
    /// about the others, where the agent can ask; elsewhere they are denied
    #[arg(long, value_name = "MODE", help_heading = LIMITS)]
    pub(crate) permission: Option<PermissionArg>,

    /// Allow a tool by name; repeatable
    #[arg(long, value_name = "TOOL", help_heading = LIMITS)]
    pub(crate) allow_tool: Vec<String>,

    /// Deny a tool by name; repeatable
    #[arg(long, value_name = "TOOL", help_heading = LIMITS)]
    pub(crate) deny_tool: Vec<String>,

    /// Disable all tools
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_tools: bool,

    /// Maximum number of turns of the agent
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_turns: Option<u32>,

    /// Maximum cost in US dollars, checked whenever the agent reports its usage
    #[arg(long, value_name = "USD", allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_cost: Option<f64>,

    /// Maximum number of tokens
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_tokens: Option<u64>,

    /// Maximum total time, such as 90s or 10m, over all attempts and the waits between them. Keeps the answer so far and
    /// exits with code 5
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = LIMITS)]
    pub(crate) max_time: Option<std::time::Duration>,

    /// Maximum time for one attempt, such as 90s or 10m. Default: `none` (executable providers: 120s, entries of the router:
    /// their own). Includes the scan of the files before the start, not the wait for standard input
    #[arg(long, value_name = "TIME", value_parser = limit, help_heading = LIMITS)]
    pub(crate) timeout: Option<TimeLimit>,

    /// Maximum time without output from the agent, such as 90s or 10m; `none` for no limit. The provider sets the default: 5m
    /// for most, 1m to 2m before the first output, 1h while a tool runs. Your limit applies while a tool runs only if it is longer
    #[arg(long, value_name = "TIME", value_parser = limit, help_heading = LIMITS)]
    pub(crate) idle_timeout: Option<TimeLimit>,

    /// Resume a session: its id or a part of it, its name or key, `@last`, or the agent's own id. A Bowline session keeps its id
    /// and its journal
    #[arg(long, value_name = "ID", conflicts_with = "continue_latest", help_heading = SESSION)]
    pub(crate) resume: Option<String>,

    /// Resume the agent's latest session in this directory; without a provider, the latest session of Bowline there
    #[arg(long = "continue", help_heading = SESSION)]
    pub(crate) continue_latest: bool,

    /// Keep no record of the session in the agent's history or in Bowline's journal
    #[arg(long, help_heading = SESSION)]
    pub(crate) ephemeral: bool,

    /// Key of your choice, to find sessions (`bowline sessions --key`) and stop them together (`bowline stop --key`)
    #[arg(long, value_name = "KEY", value_parser = key, help_heading = SESSION)]
    pub(crate) key: Option<String>,

    /// Label of your choice, shown in lists of sessions
    #[arg(long, value_name = "TEXT", value_parser = label, help_heading = SESSION)]
    pub(crate) label: Option<String>,

    /// Set an environment variable of the agent; NAME alone copies it from your environment; repeatable
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable, help_heading = AGENT)]
    pub(crate) env: Vec<(String, String)>,

    /// Make the agent ignore your settings for it
    #[arg(long, help_heading = AGENT)]
    pub(crate) isolate: bool,

    /// Run the agent in this container, with `docker exec`
    #[arg(long, value_name = "CONTAINER", help_heading = AGENT)]
    pub(crate) docker: Option<String>,

    /// Request one complete result instead of a stream
    #[arg(long, help_heading = AGENT)]
    pub(crate) no_stream: bool,
}

impl RequestArgs {
    /// The options that only `run` and `route` can honour: a live session has one provider, retries nothing by itself, returns no
    /// single answer, and needs a record by which other processes find it.
    pub(crate) const RUN_ONLY: [&'static str; 8] = [
        "hint",
        "retries",
        "fallback",
        "wait_for_limit",
        "repeat_tools",
        "stream_fallback",
        "schema",
        "ephemeral",
    ];

    /// Returns the flags that were given of [`Self::RUN_ONLY`].
    pub(crate) fn run_only(&self) -> Vec<String> {
        let given = [
            self.hint.is_some(),
            self.retries.is_some(),
            self.fallback.is_some(),
            self.wait_for_limit,
            self.repeat_tools,
            self.stream_fallback.is_some(),
            self.schema.is_some(),
            self.ephemeral,
        ];
        let all = Self::RUN_ONLY.iter().zip(given).filter(|(_, given)| *given);
        all.map(|(id, _)| format!("--{}", id.replace('_', "-"))).collect()
    }
}

const ROUTE: &str = "Routing, retries and fallback";
const AGENT: &str = "Agent options";
const WORK: &str = "Task options";
pub(super) const LIMITS: &str = "Permissions and limits";
const SESSION: &str = "Session options";

/// Actions that an agent may take without approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionArg {
    /// Read only
    Read,
    /// Ask for approval first
    Ask,
    /// Change files; ask before everything else
    Edit,
    /// Do anything without asking
    Yolo,
}

/// A time limit of the command line; `none` lifts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    None,
    Of(std::time::Duration),
}

pub(crate) fn limit(text: &str) -> Result<TimeLimit, String> {
    if text == "none" {
        return Ok(TimeLimit::None);
    }
    let plain = text.parse::<u32>().ok().map(|seconds| Millis(u64::from(seconds) * 1000));
    plain
        .or_else(|| text.parse().ok())
        .filter(|span| span.0 > 0)
        .map(|span| TimeLimit::Of(std::time::Duration::from_millis(span.0)))
        .ok_or_else(|| "expected a time such as 90s, 10m or 1h30m, or `none`".to_owned())
}

pub(crate) fn key(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a key needs at least one character".to_owned()),
        false => short(text),
    }
}

fn label(text: &str) -> Result<String, String> {
    short(text)
}

/// Rejects a name that is longer than the library's limit.
fn short(text: &str) -> Result<String, String> {
    match text.len() {
        bytes if bytes > bowline::NAME_LIMIT => {
            Err(format!("{bytes} bytes is too long; the maximum is {} bytes", bowline::NAME_LIMIT))
        }
        _ => Ok(text.to_owned()),
    }
}

fn count<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number such as 3".to_owned())
}

pub(crate) fn span(text: &str) -> Result<std::time::Duration, String> {
    match limit(text) {
        Ok(TimeLimit::Of(span)) => Ok(span),
        Ok(TimeLimit::None) | Err(_) => Err("expected a time such as 90s, 10m or 1h30m".to_owned()),
    }
}

fn fallback(text: &str) -> Result<bowline::Fallback, String> {
    let found = bowline::Fallback::ALL.into_iter().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| "expected `next`, `any` or `none`".to_owned())
}

fn stream_fallback(text: &str) -> Result<bowline::StreamFallback, String> {
    let found = bowline::StreamFallback::ALL.into_iter().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| "expected `untouched`, `before-tools`, `always` or `never`".to_owned())
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        None if !text.is_empty() => {
            let value = host_variable(text)
                .ok_or_else(|| format!("`{text}` is not set in this environment; use {text}=VALUE"))?;
            Ok((text.to_owned(), value))
        }
        Some(_) | None => Err("expected NAME=VALUE or NAME".to_owned()),
    }
}

/// Returns a variable of our own environment.
#[expect(clippy::disallowed_methods, reason = "the arguments are an edge at which the environment is read")]
pub(crate) fn host_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn hint(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("expected a hint such as fast or capable".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn setting(text: &str) -> Result<(String, Json), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let json = Json::parse(value).or_else(|_| Json::of(&value)).map_err(|error| error.to_string())?;
            Ok((name.to_owned(), json))
        }
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2 min", 120)] {
            assert_eq!(limit(text), Ok(TimeLimit::Of(Duration::from_secs(seconds))), "{text}");
        }
        assert_eq!(limit("none"), Ok(TimeLimit::None));
        for text in ["", "0", "-5s", "soon", "5 parsecs"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_variable_has_a_name() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("=b").is_err());
        assert_eq!(
            variable("UNSET_IN_TESTS"),
            Err("`UNSET_IN_TESTS` is not set in this environment; use UNSET_IN_TESTS=VALUE".to_owned())
        );
        assert_eq!(variable("PATH").map(|(name, _)| name), Ok("PATH".to_owned()));
    }

    #[test]
    fn a_setting_is_json_or_a_text() {
        let json = |text: &str| setting(text).map(|(_, value)| value.as_str().to_owned());
        assert_eq!(json("a=1"), Ok("1".to_owned()));
        assert_eq!(json("a={\"b\":[]}"), Ok("{\"b\":[]}".to_owned()));
        assert_eq!(json("a=b=c"), Ok("\"b=c\"".to_owned()));
        assert!(setting("a").is_err());
    }
}
