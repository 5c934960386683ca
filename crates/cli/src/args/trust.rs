//! The arguments of `bowline trust`.

pub(crate) const EXAMPLES: &str =
    "A project's files come with its repository. Without trust they only narrow and order what you have: entries that name a \
program, a variable, an address or an account are ignored. With `--permission read` or `ask`, agents do not run the \
repository's hooks, MCP servers and plugins either.

`bowline trust` prints what the files would do and pins their content (SHA-256), with the programs inside the project that \
they name. A file that changes is untrusted again. An agent cannot trust: the command refuses to pin inside a session.

Examples:
  bowline trust --show
  bowline trust
  bowline trust --remove";

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// Print what the files would do and whether they are trusted; change nothing
    #[arg(long, conflicts_with = "remove")]
    pub(crate) show: bool,

    /// Withdraw the trust
    #[arg(long)]
    pub(crate) remove: bool,

    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}
