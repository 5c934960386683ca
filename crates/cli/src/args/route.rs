//! The arguments of `bowline route`.

use std::path::PathBuf;

pub(crate) const EXAMPLES: &str =
    "Nobody is asked. The answer is the one that `bowline run` with the same words would go by.

Examples:
  bowline route --hint fast --explain
  bowline route --model NAME --json";

#[derive(Debug, clap::Args)]
pub(crate) struct RouteArgs {
    /// What sort of model is wanted
    #[arg(long, value_name = "HINT", value_parser = super::run::hint)]
    pub(crate) hint: Option<String>,

    /// Which model is wanted
    #[arg(long, short = 'm', value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Which agent, if not the router's choice
    #[arg(long, short = 'p', value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// The directory that the run would be in
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Say a word on every candidate
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
