//! The arguments of `bowline provider`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Ask a provider whether it is well; it has five seconds
    Health(HealthArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// The provider (`bowline providers` lists them)
    #[arg(value_name = "NAME", required_unless_present = "executable")]
    pub(crate) name: Option<String>,

    /// An executable provider by its path
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) executable: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
