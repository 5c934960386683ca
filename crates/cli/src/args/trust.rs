//! The arguments of `bowline trust`.

pub(crate) const EXAMPLES: &str =
    "A project's files come with its repository. Untrusted files can only restrict and order your own providers; Bowline ignores \
entries that name a program, a variable, an address or an account. With `--permission read` or `ask`, agents do not run the \
repository's hooks, MCP servers and plugins either.

`bowline trust` prints what the files would run and pins their content (SHA-256), and the programs inside the project that \
they name. A changed file is untrusted again. An agent cannot trust files: inside a session, only `--show` works.

Examples:
  bowline trust --show
  bowline trust
  bowline trust --remove";

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// Print what the files would run and whether they are trusted; change nothing
    #[arg(long, conflicts_with = "remove")]
    pub(crate) show: bool,

    /// Withdraw the trust
    #[arg(long)]
    pub(crate) remove: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
