//! The arguments of `bowline provide`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::request::{Limit, Permission, limit};

pub(crate) const EXAMPLES: &str = "Examples:
  echo '{\"prompt\":\"What is 2+2?\"}' | bowline provide NAME generate
  printf '#!/bin/sh\\nexec bowline provide NAME \"$@\"\\n' >my-provider

What was said before and the system prompt are put before the prompt, as text. Temperature and the like are the agent's own \
    business: the answer's metadata says so.";

#[derive(Debug, clap::Args)]
pub(crate) struct ProvideArgs {
    /// Which agent (`bowline providers` lists them)
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: String,

    /// What is asked of it; a JSON request is read from standard input
    #[arg(value_name = "COMMAND")]
    pub(crate) command: ProvideCommand,

    /// The program to run instead of the one on PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,

    /// The model, unless the request names one
    #[arg(long, short = 'm', value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Work in this directory
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// What the agent may do without being asked. Nobody can be asked here, so `ask` refuses what needs asking
    #[arg(long, value_name = "MODE", default_value = "ask")]
    pub(crate) permission: Permission,

    /// The longest that an answer may take, such as 90s or 10m; `none` for no limit
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub(crate) timeout: Option<Limit>,
}

/// A command of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProvideCommand {
    /// Answer in one piece
    Generate,
    /// Answer in chunks
    Stream,
    /// Say whether the agent is there
    Health,
}
