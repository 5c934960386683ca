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
    /// Write the beginning of an executable provider
    New(NewArgs),
    /// Ask a provider whether it is well; it has five seconds
    Health(HealthArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Its name
    pub(crate) name: String,

    /// The language
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Lang,

    /// Where it is written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Rust: take the crate `bowline-provider` from this checkout of Bowline instead of the registry, where it is not yet
    #[arg(long, value_name = "DIR")]
    pub(crate) kit: Option<PathBuf>,
}

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// With the crate `bowline-provider`
    Rust,
    /// With the standard library of Python 3
    Python,
    /// With POSIX shell and awk
    Sh,
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
