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
    /// Show the settings and the files that set them
    Show {
        /// Include settings without a value, with a description of each
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print one setting
    Get {
        /// Name of the setting, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Change one setting; keep the comments in the file
    Set {
        /// Name of the setting, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
        /// New value
        #[arg(value_name = "VALUE")]
        value: String,
        /// Change the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
    /// Remove one setting from the file
    Unset {
        /// Name of the setting, such as run.provider
        #[arg(value_name = "KEY")]
        key: String,
        /// Change the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Do not prompt
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,

    /// Write the project's file instead of yours
    #[arg(long)]
    pub(crate) project: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}
