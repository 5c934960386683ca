//! The arguments of `bowline route`.

use std::time::Duration;

use bowline_protocol::Category;

use super::request::{RequestArgs, span};

pub(crate) const EXAMPLES: &str =
    "Starts no agent. Takes the options of `bowline run` and makes the same decisions. Without a \
    provider, the router chooses, as with `--provider auto`.

Examples:
  bowline route --hint fast --explain
  bowline route --model NAME --json
  bowline route --max-turns 5 --permission edit --explain
  bowline route --after rate_limit --retry-after 4h --wait-for-limit
  bowline route --provider NAME --fallback next --after server --tool-ran";

#[derive(Debug, clap::Args)]
#[command(mut_arg("prompt", |arg| arg.help(PROMPT)), mut_arg("provider", |arg| arg.help(PROVIDER)))]
pub(crate) struct RouteArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Explain every candidate, and what would happen after each failure category
    #[arg(long)]
    pub(crate) explain: bool,

    /// Show step by step what would happen after a failure of this category, such as rate_limit
    #[arg(long, value_name = "CATEGORY", value_parser = category, help_heading = AFTER)]
    pub(crate) after: Option<Category>,

    /// Assume that a tool had run before the failure
    #[arg(long, help_heading = AFTER)]
    pub(crate) tool_ran: bool,

    /// Assume that the agent reported this time to wait, such as 20s or 4h
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = AFTER)]
    pub(crate) retry_after: Option<Duration>,

    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const PROMPT: &str =
    "Task for the agent, if its length matters to the decision; `-` reads it from standard input";
const PROVIDER: &str =
    "Provider to run (`bowline providers` lists them). Default: `auto`, the router chooses";
const AFTER: &str = "Simulated failure";

fn category(text: &str) -> Result<Category, String> {
    // As people may write it: rate-limit, "rate limit".
    let name = text.trim().to_lowercase().replace(['-', ' '], "_");
    let names = Category::ALL.map(Category::as_str);
    Category::ALL.into_iter().find(|it| it.as_str() == name).ok_or_else(|| {
        let meant = bowline::closest_name(&name, names).map(|it| format!("; did you mean `{it}`?"));
        format!("expected one of {}{}", names.join(", "), meant.unwrap_or_default())
    })
}
