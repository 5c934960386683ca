//! The arguments of `bowline run`.

use super::request::RequestArgs;

pub(crate) const EXAMPLES: &str = "Examples:
  bowline run --provider NAME \"Explain this repository\"
  git diff | bowline run --provider NAME \"Review this change\"
  bowline run --provider NAME --permission edit \"Fix the failing test\"
  bowline run --provider auto --hint fast --max-cost 0.50 \"Summarise this\"
  bowline run -p NAME -o json --no-tools \"Name this branch\" | jq -r .text

The answer goes to standard output, everything else to standard error. Ctrl-C stops politely and keeps the answer so far; a \
    second Ctrl-C kills the agent. A complete answer stays complete, whatever comes later. One more Ctrl-C after a second exits \
    at once with code 130. BOWLINE_LOG=info|debug logs what goes on inside.";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "human", help = output_help())]
    pub(crate) output: String,

    /// Show what would be started, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Show more: thinking, sub-agents, retries, output of tools; twice for their input and every event
    #[arg(long, short = 'v', action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Show the answer, warnings and errors only: no progress, no tool calls, no footer
    #[arg(long, short = 'q', conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

fn output_help() -> String {
    let names: Vec<&str> = crate::output::sink::Format::names().collect();
    format!("What to print: {}", names.join(", "))
}
