//! The arguments of `bowline run`.

use std::path::PathBuf;

use super::request::{LIMITS, RequestArgs, span};

pub(crate) const EXAMPLES: &str = "Examples:
  bowline run --provider NAME \"Explain this repository\"
  git diff | bowline run --provider NAME \"Review this change\"
  bowline run --provider NAME --permission edit \"Fix the failing test\"
  bowline run --provider auto --hint fast --max-cost 0.50 \"Summarise this\"
  bowline run -p NAME -o json --no-tools \"Name this branch\" | jq -r .text
  bowline run -p NAME --tasks tasks.jsonl --at-once 2 --max-cost 5

On a terminal Bowline asks before the agent does what `--permission` does not allow: `y` allows it once, `n` denies it, \
    `?` explains all keys.

The answer goes to standard output, everything else to standard error. Ctrl-C cancels the run and keeps the answer so \
    far; a second Ctrl-C kills the agent. A completed answer is kept even if you interrupt afterwards. If output is blocked, press \
    Ctrl-C again after one second to exit with code 130. BOWLINE_LOG=info or BOWLINE_LOG=debug writes a log to standard error.";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "human", help = output_help())]
    pub(crate) output: String,

    /// Print the command that would be run, without running it
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Run many tasks: a file of JSON lines with `prompt`, or `title` and `goal`, and where wanted `id`, `cwd`, `provider`, `model`,
    /// `effort`, `permission`, `label` and `timeout`; `-` reads standard input. `--max-cost` and `--max-tokens` limit all of them
    /// together, and `-p a,b` tries the providers in this order
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_WITH_TASKS, help_heading = TASKS)]
    pub(crate) tasks: Option<PathBuf>,

    /// Maximum number of tasks that run at once. Default: 4
    #[arg(long, value_name = "N", value_parser = at_once, allow_negative_numbers = true, help_heading = TASKS)]
    pub(crate) at_once: Option<usize>,

    /// Deny requests instead of asking on the terminal. Default if there is no terminal, or with `-q`, with CI set, with an output
    /// format for programs, with several providers, or with `--tasks`
    #[arg(long, help_heading = LIMITS)]
    pub(crate) no_ask: bool,

    /// Deny an approval that is not decided within this time, such as 90s or 10m. Default: none. Other time limits pause while a
    /// request waits
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "no_ask", help_heading = LIMITS)]
    pub(crate) approval_deadline: Option<std::time::Duration>,

    /// Show thinking, sub-agents, retries and tool output; twice (`-vv`) also tool input and every event
    #[arg(long, short = 'v', action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Show only the answer, warnings and errors: no progress, tool calls or footer
    #[arg(long, short = 'q', conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

const TASKS: &str = "Many tasks";

/// The options that make sense for one task only.
const NOT_WITH_TASKS: [&str; 5] = ["prompt", "resume", "continue_latest", "dry_run", "approval_deadline"];

/// The largest number of tasks at once: each has a process tree, pipes and a journal.
const MOST_AT_ONCE: usize = 256;

fn at_once(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (1..=MOST_AT_ONCE).contains(number))
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_AT_ONCE}"))
}

pub(crate) fn output_help() -> String {
    let names: Vec<&str> = crate::output::sink::OutputFormat::names().collect();
    format!("Output format: {}", names.join(", "))
}
