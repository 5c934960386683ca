//! The arguments of `bowline sessions` and `bowline stop`.

pub(crate) const SESSIONS_EXAMPLES: &str = "Examples:
  bowline sessions
  bowline sessions --watch
  bowline sessions --key chat-42
  bowline sessions --all --json
  bowline sessions remove s-20261115-083000123-000g40zz";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<SessionsAction>,

    /// List only sessions with this key, set by `run --key`
    #[arg(long, value_name = "KEY", value_parser = super::request::key)]
    pub(crate) key: Option<String>,

    /// Include finished sessions and their outcome
    #[arg(long)]
    pub(crate) all: bool,

    /// Maximum number of sessions, newest first; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Show the list again every second, until Ctrl-C; needs a terminal
    #[arg(long, short = 'w', conflicts_with = "json")]
    pub(crate) watch: bool,
}

/// The subcommands of `bowline sessions`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionsAction {
    /// Remove finished or damaged sessions and their journals
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Sessions to remove: an id or a part of it, a name or key, or `@last` (`bowline sessions --all` lists them)
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,
}

pub(crate) const STOP_EXAMPLES: &str = "The process that runs the session cancels the agent and keeps the answer so far. After five \
    seconds, `stop` kills that process and every process that the agent started. `bowline start --resume` resumes a stopped session.

Examples:
  bowline stop fix
  bowline stop s-20261115-083000123-000g40zz
  bowline stop --key chat-42
  bowline stop --all

Exit code 1 if a session could not be stopped, 2 if it does not exist or is finished.";

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct StopArgs {
    /// Sessions to stop: an id or a part of it, a name or key, or `@last` (`bowline sessions` lists them)
    #[arg(value_name = "SESSION", group = "which")]
    pub(crate) sessions: Vec<String>,

    /// Stop all sessions with this key, set by `run --key`
    #[arg(long, value_name = "KEY", value_parser = super::request::key, group = "which")]
    pub(crate) key: Option<String>,

    /// Stop all running sessions
    #[arg(long, group = "which")]
    pub(crate) all: bool,
}
