//! The arguments of `bowline sessions` and `bowline stop`.

pub(crate) const SESSIONS_EXAMPLES: &str = "Examples:
  bowline sessions
  bowline sessions --key chat-42
  bowline sessions --all --json
  bowline sessions remove s-20261115-083000123-000g40zz";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<SessionsAction>,

    /// Those with this key only, which `run --key` gave them
    #[arg(long, value_name = "KEY", value_parser = super::request::key)]
    pub(crate) key: Option<String>,

    /// Also those that are over, and how they ended
    #[arg(long)]
    pub(crate) all: bool,

    /// List at most so many, the newest first; 0 lists all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done with sessions, other than to list them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SessionsAction {
    /// Remove sessions that are over or damaged, with their journals
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Sessions to remove, as `bowline sessions --all` names them
    #[arg(value_name = "ID", required = true)]
    pub(crate) sessions: Vec<String>,
}

pub(crate) const STOP_EXAMPLES: &str = "The command that runs a session is asked first, and cancels the agent politely: the \
    answer so far is kept. After five seconds it is ended, with all that the agent started. The beginning or the end of an id \
    is enough where only one session has it.

Examples:
  bowline stop s-20261115-083000123-000g40zz
  bowline stop --key chat-42
  bowline stop --all

Exit code 1 if a session could not be ended, 2 if there is no such session or it is over.";

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(crate) struct StopArgs {
    /// The sessions, as `bowline sessions` and the end of a run name them
    #[arg(value_name = "ID", group = "which")]
    pub(crate) sessions: Vec<String>,

    /// All with this key, which `run --key` gave them
    #[arg(long, value_name = "KEY", value_parser = super::request::key, group = "which")]
    pub(crate) key: Option<String>,

    /// All that run
    #[arg(long, group = "which")]
    pub(crate) all: bool,
}
