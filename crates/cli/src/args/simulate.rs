//! The arguments of `bowline simulate`.

use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  bowline simulate
  bowline simulate --print-env NAME --home /tmp/fresh-home
  bowline simulate --scenario mine.toml --ledger requests.jsonl
  bowline simulate --check mine.toml

Prints its address as the first line on standard output, and a line for each request on standard error. A prompt selects a \
    scenario with `[[name]]`, an address with `/r/name` in front of the path. Press Ctrl-C to stop. docs/simulator.md has the \
    details.";

/// The default port.
pub(crate) const PORT: u16 = 8484;

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// Address to listen on. Default: 127.0.0.1. Other machines can connect to an address that they can reach
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "port")]
    pub(crate) listen: Option<SocketAddr>,

    /// Port on 127.0.0.1; 0 takes any free one. Default: 8484
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,

    /// Add a scenario; it replaces a built-in one of the same name; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Vec<PathBuf>,

    /// Append each request to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,

    /// Print shell commands that point a provider's program at the simulator, and exit
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["scenario", "ledger"])]
    pub(crate) print_env: Option<String>,

    /// With `--print-env`: use this directory as the home directory and write the program's files there
    #[arg(long, value_name = "DIR", requires = "print_env")]
    pub(crate) home: Option<PathBuf>,

    /// With `--print-env`: route in the address; it names the client and can select a scenario
    #[arg(long, value_name = "NAME", requires = "print_env")]
    pub(crate) route: Option<String>,

    /// List the scenarios and exit
    #[arg(long, conflicts_with_all = ["print_env", "check"])]
    pub(crate) list: bool,

    /// Check a scenario file, print its errors and exit; repeatable
    #[arg(long, value_name = "FILE", conflicts_with = "print_env")]
    pub(crate) check: Vec<PathBuf>,
}
