//! The arguments of `bowline provide`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::request::{PermissionArg, TimeLimit, limit};

pub(crate) const EXAMPLES: &str = "Examples:
  echo '{\"prompt\":\"What is 2+2?\"}' | bowline provide NAME generate
  printf '#!/bin/sh\\nexec bowline provide NAME \"$@\"\\n' >my-provider

The command puts earlier messages and the system prompt in front of the prompt, as text. It does not pass on sampling \
    options such as temperature; the metadata of the response lists what was left out.";

#[derive(Debug, clap::Args)]
pub(crate) struct ProvideArgs {
    /// Provider to run (`bowline providers` lists them)
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: String,

    /// Protocol command; the JSON request is read from standard input
    #[arg(value_name = "COMMAND")]
    pub(crate) command: ProvideCommand,

    /// Program to run instead of the one on PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,

    /// Model to use if the request names none
    #[arg(long, short = 'm', value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Work in this directory
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Actions that the agent may take without approval. Nothing can be approved during a run, so `ask` denies what needs approval
    #[arg(long, value_name = "MODE", default_value = "ask")]
    pub(crate) permission: PermissionArg,

    /// Stop the agent after this time, such as 90s or 10m; `none` for no limit
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub(crate) timeout: Option<TimeLimit>,
}

/// A command of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProvideCommand {
    /// Return the whole response at once
    Generate,
    /// Return the response in chunks
    Stream,
    /// Report whether the agent is installed
    Health,
}
