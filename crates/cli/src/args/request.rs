//! What is asked of an agent, in the words of the command line: the arguments that `bowline run` and `bowline route` share.
//! One list, so that the one can be put in the place of the other.

use std::path::PathBuf;

use bowline::Json;
use bowline_protocol::Millis;
use clap::ValueEnum;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// What the agent is to do; `-` reads it from standard input. With both, standard input follows the prompt, and its
    /// end is waited for unless it is a terminal
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Which agent (`bowline providers` lists them); `auto` lets the router choose, `a,b` asks both side by side, with one
    /// budget for both. Without it, that of the session which is resumed, else BOWLINE_PROVIDER
    #[arg(long, short = 'p', value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// An executable provider instead of an agent: a program that answers `generate`, `stream` and `health`
    #[arg(long, value_name = "PATH", help_heading = AGENT)]
    pub(crate) executable: Option<PathBuf>,

    /// Native argument for the agent's program, passed on as it is; repeatable. Refused if Bowline passes the same option
    /// itself. Example: `--agent-arg=--permission-mode=plan`
    #[arg(long, value_name = "ARG", allow_hyphen_values = true, help_heading = AGENT)]
    pub(crate) agent_arg: Vec<String>,

    /// Output format of the agent's program, by its name in `bowline providers`. Default: the best one that the
    /// installed program has
    #[arg(long, value_name = "NAME", help_heading = AGENT, conflicts_with = "no_stream")]
    pub(crate) format: Option<String>,

    /// A setting that only this agent understands; JSON, or else a text
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, help_heading = AGENT)]
    pub(crate) set: Vec<(String, Json)>,

    /// What sort of model is wanted: fast, capable, codegen, long-context, agentic, cheap, or a word of the configuration
    #[arg(long, value_name = "HINT", value_parser = hint, help_heading = ROUTE)]
    pub(crate) hint: Option<String>,

    /// How often an agent is asked again after a failure that allows it; 2 where the router chooses, else 0
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true, help_heading = ROUTE)]
    pub(crate) retries: Option<u32>,

    /// When another agent is asked after a failure: `next` where the failure allows it, `any` after every one, `none`
    #[arg(long, value_name = "RULE", value_parser = fallback, help_heading = ROUTE)]
    pub(crate) fallback: Option<bowline::Fallback>,

    /// Wait for a limit that is used up, however long that takes
    #[arg(long, help_heading = ROUTE)]
    pub(crate) wait_for_limit: bool,

    /// Retry and fall back also after a tool ran, or may have run: its work may be done twice
    #[arg(long, help_heading = ROUTE)]
    pub(crate) repeat_tools: bool,

    /// When to send the prompt again without streaming, if the stream ends without a result: `untouched` (default) only if
    /// the program provably did nothing with it, `before-tools` if no tool was reported, `always`, `never`
    #[arg(long, value_name = "RULE", value_parser = stream_fallback, help_heading = ROUTE)]
    pub(crate) stream_fallback: Option<bowline::StreamFallback>,

    /// The account of the agent: a profile of the settings (`bowline config show`)
    #[arg(long, value_name = "NAME", help_heading = AGENT, conflicts_with = "executable")]
    pub(crate) profile: Option<String>,

    /// The program to run instead of the one on PATH
    #[arg(long, value_name = "PATH", help_heading = AGENT)]
    pub(crate) binary: Option<PathBuf>,

    /// The model; without an agent, the one whose model it is is asked
    #[arg(long, short = 'm', value_name = "NAME", help_heading = AGENT)]
    pub(crate) model: Option<String>,

    /// How much the model is to think, in the agent's words
    #[arg(long, value_name = "LEVEL", help_heading = AGENT)]
    pub(crate) effort: Option<String>,

    /// Work in this directory
    #[arg(long, short = 'C', value_name = "DIR", help_heading = WORK)]
    pub(crate) cwd: Option<PathBuf>,

    /// A further directory that the agent may use
    #[arg(long, value_name = "DIR", help_heading = WORK)]
    pub(crate) add_dir: Vec<PathBuf>,

    /// An image that goes with the prompt
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) image: Vec<PathBuf>,

    /// Replace the agent's system prompt
    #[arg(long, value_name = "TEXT", help_heading = WORK)]
    pub(crate) system: Option<String>,

    /// Add to the agent's system prompt
    #[arg(long, value_name = "TEXT", help_heading = WORK)]
    pub(crate) append_system: Option<String>,

    /// Hold the answer to the JSON Schema in this file; one that does not satisfy it is an error (exit code 1)
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) schema: Option<PathBuf>,

    /// MCP servers, in the form of `{"mcpServers": {…}}`
    #[arg(long, value_name = "FILE", help_heading = WORK)]
    pub(crate) mcp_config: Vec<PathBuf>,

    /// What the agent may do without being asked. Nobody can be asked here, so `ask`, the default, refuses what needs asking
    #[arg(long, value_name = "MODE", help_heading = LIMITS)]
    pub(crate) permission: Option<Permission>,

    /// Allow a tool by name
    #[arg(long, value_name = "TOOL", help_heading = LIMITS)]
    pub(crate) allow_tool: Vec<String>,

    /// Refuse a tool by name
    #[arg(long, value_name = "TOOL", help_heading = LIMITS)]
    pub(crate) deny_tool: Vec<String>,

    /// Answer without any tool
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_tools: bool,

    /// The most turns that the agent may take
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_turns: Option<u32>,

    /// The most that it may cost, in US dollars: watched while it runs, as often as the agent reports
    #[arg(long, value_name = "USD", allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_cost: Option<f64>,

    /// The most tokens that it may use
    #[arg(long, value_name = "N", value_parser = count::<u64>, allow_negative_numbers = true, help_heading = LIMITS)]
    pub(crate) max_tokens: Option<u64>,

    /// The longest that it may work, such as 90s or 10m, over all attempts and the waits between them; the answer so far is kept, and the exit code is 5
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = LIMITS)]
    pub(crate) max_time: Option<std::time::Duration>,

    /// Longest time for an attempt, such as 90s or 10m; `none` for no limit, which is the default (executable providers: 120s,
    /// entries of the router: their own). The look at the files before the start counts, waiting for standard input does not
    #[arg(long, value_name = "TIME", value_parser = limit, help_heading = LIMITS)]
    pub(crate) timeout: Option<Limit>,

    /// Longest silence of the agent, such as 90s or 10m, from the start on; `none` for no limit. The default is the provider's:
    /// 5m for most, 1m to 2m before the first output, 1h while a tool runs. A longer one of these counts while a tool runs
    #[arg(long, value_name = "TIME", value_parser = limit, help_heading = LIMITS)]
    pub(crate) idle_timeout: Option<Limit>,

    /// Go on with an earlier session: by the name that a run of ours told at its end, or by the agent's own
    #[arg(long, value_name = "ID", conflicts_with = "continue_latest", help_heading = SESSION)]
    pub(crate) resume: Option<String>,

    /// Go on with the agent's last session in the directory
    #[arg(long = "continue", help_heading = SESSION)]
    pub(crate) continue_latest: bool,

    /// Leave no trace: neither in the agent's history nor in our journal
    #[arg(long, help_heading = SESSION)]
    pub(crate) ephemeral: bool,

    /// A key of your own, by which sessions are found (`bowline sessions --key`) and ended together (`bowline stop --key`)
    #[arg(long, value_name = "KEY", value_parser = key, help_heading = SESSION)]
    pub(crate) key: Option<String>,

    /// A word of your own for this session, shown wherever it is listed
    #[arg(long, value_name = "TEXT", value_parser = label, help_heading = SESSION)]
    pub(crate) label: Option<String>,

    /// Set a variable of the agent's environment; NAME alone passes ours on
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable, help_heading = AGENT)]
    pub(crate) env: Vec<(String, String)>,

    /// Ignore your settings for the agent
    #[arg(long, help_heading = AGENT)]
    pub(crate) isolate: bool,

    /// Run the agent in this container, by `docker exec`
    #[arg(long, value_name = "CONTAINER", help_heading = AGENT)]
    pub(crate) docker: Option<String>,

    /// Ask for the result in one piece instead of a stream
    #[arg(long, help_heading = AGENT)]
    pub(crate) no_stream: bool,
}

const ROUTE: &str = "Choosing, retrying, falling back";
const AGENT: &str = "The agent";
const WORK: &str = "The work";
const LIMITS: &str = "Permissions and limits";
const SESSION: &str = "The session";

/// What an agent may do without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permission {
    /// Look, and change nothing
    Read,
    /// Ask first
    Ask,
    /// Change files; ask for the rest
    Edit,
    /// Anything
    Yolo,
}

/// A limit of time, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Of(std::time::Duration),
}

pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit::None);
    }
    let plain = text.parse::<u32>().ok().map(|seconds| Millis(u64::from(seconds) * 1000));
    plain
        .or_else(|| text.parse().ok())
        .filter(|span| span.0 > 0)
        .map(|span| Limit::Of(std::time::Duration::from_millis(span.0)))
        .ok_or_else(|| "a time such as 90s, 10m or 1h30m, or `none`, is wanted".to_owned())
}

pub(crate) fn key(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("a key has at least one character".to_owned()),
        false => short(text),
    }
}

fn label(text: &str) -> Result<String, String> {
    short(text)
}

/// Takes a name of at most as many bytes as the library takes.
fn short(text: &str) -> Result<String, String> {
    match text.len() {
        bytes if bytes > bowline::NAME_LIMIT => {
            Err(format!("at most {} bytes are allowed, and it has {bytes}", bowline::NAME_LIMIT))
        }
        _ => Ok(text.to_owned()),
    }
}

fn count<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "a whole number such as 3 is wanted".to_owned())
}

pub(crate) fn span(text: &str) -> Result<std::time::Duration, String> {
    match limit(text) {
        Ok(Limit::Of(span)) => Ok(span),
        Ok(Limit::None) | Err(_) => Err("a time such as 90s, 10m or 1h30m is wanted".to_owned()),
    }
}

fn fallback(text: &str) -> Result<bowline::Fallback, String> {
    let found = bowline::Fallback::ALL.into_iter().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| "`next`, `any` or `none` is wanted".to_owned())
}

fn stream_fallback(text: &str) -> Result<bowline::StreamFallback, String> {
    let found = bowline::StreamFallback::ALL.into_iter().find(|rule| rule.as_str() == text);
    found.ok_or_else(|| "`untouched`, `before-tools`, `always` or `never` is wanted".to_owned())
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        None if !text.is_empty() => {
            let value = host_variable(text)
                .ok_or_else(|| format!("`{text}` is not set here; {text}=VALUE sets it"))?;
            Ok((text.to_owned(), value))
        }
        Some(_) | None => Err("NAME=VALUE, or NAME, is wanted".to_owned()),
    }
}

/// Returns a variable of ours.
#[expect(clippy::disallowed_methods, reason = "the arguments are an edge at which the environment is read")]
pub(crate) fn host_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn hint(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a word such as fast or capable is wanted".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn setting(text: &str) -> Result<(String, Json), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let json = Json::parse(value).or_else(|_| Json::of(&value)).map_err(|error| error.to_string())?;
            Ok((name.to_owned(), json))
        }
        Some(_) | None => Err("NAME=VALUE is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2 min", 120)] {
            assert_eq!(limit(text), Ok(Limit::Of(Duration::from_secs(seconds))), "{text}");
        }
        assert_eq!(limit("none"), Ok(Limit::None));
        for text in ["", "0", "-5s", "soon", "5 parsecs"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_variable_has_a_name() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("=b").is_err());
        assert_eq!(
            variable("NOBODY_SETS_THIS"),
            Err("`NOBODY_SETS_THIS` is not set here; NOBODY_SETS_THIS=VALUE sets it".to_owned())
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
