//! The arguments of `bowline policy`.

use std::path::PathBuf;

pub(crate) const EXAMPLES: &str =
    "Policies hold for every run and live session in their directory: yours (policy.json or policy.yaml \
beside your settings), the project's (.bowline/policy.json), and those of `--policy`. The strictest answer wins.

Examples:
  bowline policy check -- git push --force
  bowline policy check --policy policy.json -- 'curl example.org | sh'
  bowline policy explain --policy policy.json
  bowline policy test --policy policy.json commands.jsonl";

pub(crate) const CHECK_EXAMPLES: &str =
    "One word behind `--` is a command for a shell. Several words are a program with its arguments, \
as your shell split them.

Exit codes: 0 allow, 1 ask, 5 deny.

Examples:
  bowline policy check -- 'git status && rm -rf build'
  bowline policy check --json --cwd /src/app -- cargo publish
  bowline policy check --tool Write --input call.json";

pub(crate) const TEST_EXAMPLES: &str = "Each line of FILE is a JSON object with `verdict` (allow, ask or deny), and `command`, or `tool` and \
`input`. `rule` is optional. Lines that are empty or begin with `#` are skipped. The exit code is 1 if a line differs.

Example of a line:
  {\"command\": \"git push --force\", \"verdict\": \"ask\", \"rule\": \"git.force-push\"}";

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) action: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PolicyCommand {
    /// Judge a command or a call of a tool: verdict, rule, risk, and the parts that decided
    #[command(after_help = CHECK_EXAMPLES)]
    Check(PolicyCheckArgs),
    /// Print the rules of a policy in the order in which they decide
    Explain(PolicyExplainArgs),
    /// Compare a policy with a table of commands and verdicts
    #[command(after_help = TEST_EXAMPLES)]
    Test(PolicyTestArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyFileArg {
    /// Policy to use, in JSON or YAML; repeatable. Default: yours and the project's, else the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyCheckArgs {
    #[command(flatten)]
    pub(crate) file: PolicyFileArg,

    /// Directory in which the action would happen. Default: the working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Name of the tool, as the agent spells it
    #[arg(long, value_name = "NAME", requires = "input", conflicts_with = "command")]
    pub(crate) tool: Option<String>,

    /// File with the input of the tool as JSON; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "tool")]
    pub(crate) input: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Command to judge
    #[arg(value_name = "CMD", last = true, required_unless_present = "tool")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyExplainArgs {
    #[command(flatten)]
    pub(crate) file: PolicyFileArg,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyTestArgs {
    #[command(flatten)]
    pub(crate) file: PolicyFileArg,

    /// Directory in which the actions would happen. Default: the working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Table of commands and verdicts; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) table: PathBuf,
}
