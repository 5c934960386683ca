//! The arguments of `bowline config`, `init` and `completions`.

use clap::Subcommand;

pub(crate) const EXAMPLES: &str = "Examples:
  bowline config show
  bowline config get run.provider
  bowline config set budget.day.cost 20
  bowline config set --project run.provider auto";

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Show what is set, and where
    Show {
        /// Also what is not set, with what each setting is
        #[arg(long)]
        all: bool,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Print one setting
    Get {
        /// Its name, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Change one setting; comments in the file stay
    Set {
        /// Its name, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
        /// Its value
        #[arg(value_name = "VALUE")]
        value: String,
        /// In the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
    /// Take one setting out of the file
    Unset {
        /// Its name, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
        /// In the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Ask nothing
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,

    /// Write the project's file instead of yours
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}
