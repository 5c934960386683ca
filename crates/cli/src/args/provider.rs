//! The arguments of `bowline provider`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, clap::Args)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Create an executable provider from a template
    New(NewArgs),
    /// Check the health of a provider; the timeout is five seconds
    Health(HealthArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Name of the provider
    pub(crate) name: String,

    /// Language of the template
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: TemplateLanguage,

    /// Directory to write to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Rust only: use the crate `bowline-provider` of this Bowline checkout; the crate is not on the registry yet
    #[arg(long, value_name = "DIR")]
    pub(crate) kit: Option<PathBuf>,
}

/// A language of the templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateLanguage {
    /// Uses the crate `bowline-provider`
    Rust,
    /// Uses the standard library of Python 3
    Python,
    /// Uses POSIX shell and awk
    Sh,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// Provider to check (`bowline providers` lists them)
    #[arg(value_name = "NAME", required_unless_present = "executable")]
    pub(crate) name: Option<String>,

    /// Check the executable provider at this path
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) executable: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
