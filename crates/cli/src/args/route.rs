//! The arguments of `bowline route`.

use std::time::Duration;

use bowline_protocol::Category;

use super::request::{RequestArgs, span};

pub(crate) const EXAMPLES: &str =
    "No agent is started. The command takes the options of `bowline run` and makes the same \
    decisions; without a provider the router chooses, as with `--provider auto`.

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

    /// Say a word on every candidate, and what would follow each category of failure
    #[arg(long)]
    pub(crate) explain: bool,

    /// Say step by step what would follow this category of failure, such as rate_limit
    #[arg(long, value_name = "CATEGORY", value_parser = category, help_heading = AFTER)]
    pub(crate) after: Option<Category>,

    /// Suppose that a tool had run by then
    #[arg(long, help_heading = AFTER)]
    pub(crate) tool_ran: bool,

    /// Suppose that the agent had said how long to wait, such as 20s or 4h
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = AFTER)]
    pub(crate) retry_after: Option<Duration>,

    /// Print JSON, for programs: all of it
    #[arg(long)]
    pub(crate) json: bool,
}

const PROMPT: &str =
    "What the agent would be told, where its length matters; `-` reads it from standard input";
const PROVIDER: &str =
    "Which agent (`bowline providers` lists them); without it, the router chooses as with `auto`";
const AFTER: &str = "What if an attempt failed";

fn category(text: &str) -> Result<Category, String> {
    // As people may write it: rate-limit, "rate limit".
    let name = text.trim().to_lowercase().replace(['-', ' '], "_");
    let names = Category::ALL.map(Category::as_str);
    Category::ALL.into_iter().find(|it| it.as_str() == name).ok_or_else(|| {
        let meant = bowline::near(&name, names).map(|it| format!("; did you mean `{it}`?"));
        format!("one of {} is wanted{}", names.join(", "), meant.unwrap_or_default())
    })
}
