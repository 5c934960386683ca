//! The arguments of `bowline simulate`.

use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  bowline simulate
  bowline simulate --print-env NAME --home /tmp/fresh-home
  bowline simulate --scenario mine.toml --ledger requests.jsonl
  bowline simulate --check mine.toml

The first line on standard output is the address; standard error has a line for each request. A prompt picks a scenario with \
    `[[name]]`, an address with `/r/name` in front of the path. Ctrl-C ends it. docs/simulator.md has the rest.";

/// Where it listens unless told otherwise.
pub(crate) const PORT: u16 = 8484;

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// Where to listen, if not on 127.0.0.1; an address that others can reach lets them in
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "port")]
    pub(crate) listen: Option<SocketAddr>,

    /// The port on 127.0.0.1, 8484 unless given; 0 is any free one
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,

    /// A scenario beside the built-in ones; one of the same name stands in for the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Vec<PathBuf>,

    /// Append a line of JSON for each request to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,

    /// Print what points a provider's program at a simulator, as lines for a shell, and end
    #[arg(long, value_name = "PROVIDER", conflicts_with_all = ["scenario", "ledger"])]
    pub(crate) print_env: Option<String>,

    /// With --print-env: write the program's files below this directory, and make it the home directory
    #[arg(long, value_name = "DIR", requires = "print_env")]
    pub(crate) home: Option<PathBuf>,

    /// With --print-env: the route to put into the address; it names the client, and may pick a scenario
    #[arg(long, value_name = "NAME", requires = "print_env")]
    pub(crate) route: Option<String>,

    /// List the scenarios, and end
    #[arg(long, conflicts_with_all = ["print_env", "check"])]
    pub(crate) list: bool,

    /// Read a scenario, say what is wrong with it, and end
    #[arg(long, value_name = "FILE", conflicts_with = "print_env")]
    pub(crate) check: Vec<PathBuf>,
}
