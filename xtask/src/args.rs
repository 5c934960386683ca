//! The commands and their flags. The tidy tests compare the documents with this list.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// The developer's commands of Bowline.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check one change: format, lints, tidy rules, and the tests of what changed and of what depends on it
    Check(Check),
    /// Run everything that must pass: format, lints, tests, documentation, wasm, licences, fuzzing
    Test(Test),
    /// Run the tidy rules alone
    Tidy,
    /// Print the figures of the source tree: names, words, sizes and cycles between modules
    Survey,
    /// Build and run the fuzz targets
    Fuzz(Fuzz),
    /// Change the decisions of the engine one at a time, and see whether its own tests notice; takes several hours without a file
    Mutants(Mutants),
    /// Measure the cost of decoding, of a run, or of `bowline doctor`
    Bench(Bench),
    /// Build the archive of a release in target/dist: a static program, manual page, completions, licences and checksums
    Dist,
    /// Write docs/schema/bowline.schema.json
    Schema,
    /// Sort recordings of real programs and copy them into fixtures/
    ImportCaptures {
        /// The folder with the recordings: a folder for each program, a folder in it for each case
        from: PathBuf,
    },
    /// Write the fields and values of each program, from the recordings
    Vocabulary,
    /// Run the contract suite on the pinned programs, and prove that the suite can fail
    Certify(Certify),
    /// Install the real programs that the contract suite is run against, outside the checkout
    RealClis {
        /// The newest of each, and not the pinned version
        #[arg(long)]
        latest: bool,
    },
}

/// The flags of `check`.
#[derive(Debug, Default, clap::Args)]
pub struct Check {
    /// Compare with this commit [default: HEAD, or HEAD~1 where nothing has changed since HEAD]
    #[arg(long, value_name = "COMMIT")]
    pub since: Option<String>,
}

/// The flags of `test`.
#[derive(Debug, Default, clap::Args)]
pub struct Test {
    /// How long to fuzz, in all [default: 300 when CI is set, else 20]
    #[arg(long, value_name = "N")]
    pub fuzz_seconds: Option<u64>,
}

/// The flags of `certify`.
#[derive(Debug, Default, clap::Args)]
pub struct Certify {
    /// The only providers to certify; all that are pinned unless some are named
    pub provider: Vec<String>,
    /// The newest of each, and not the pinned version
    #[arg(long)]
    pub latest: bool,
    /// Write compat.toml and docs/compatibility.md instead of comparing them
    #[arg(long)]
    pub write: bool,
    /// Take the reports of the last run for compat.toml and docs/compatibility.md, and run nothing
    #[arg(long)]
    pub reports: bool,
    /// Run the negative controls and nothing else
    #[arg(long, conflicts_with_all = ["write", "reports", "provider"])]
    pub controls: bool,
    /// Try the router and the doctor on the programs and nothing else
    #[arg(long, conflicts_with_all = ["write", "reports", "provider", "controls"])]
    pub routes: bool,
}

/// The flags of `fuzz`.
#[derive(Debug, clap::Args)]
pub struct Fuzz {
    /// How long to fuzz, in all
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// The target; all of them unless one is named
    pub target: Option<String>,
}

/// The flags of `mutants`.
#[derive(Debug, clap::Args)]
pub struct Mutants {
    /// The only files to change, such as crates/engine/src/budget.rs; all of the engine unless some are named
    pub file: Vec<PathBuf>,
}

/// The flags of `bench`.
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// What to measure
    #[command(subcommand)]
    pub subject: Subject,
}

/// The subjects of measurements.
#[derive(Debug, Subcommand)]
pub enum Subject {
    /// From bytes to events, beside bare parsing of the same bytes
    Decode {
        /// The length of each stream
        #[arg(long, value_name = "N", default_value_t = 100)]
        mb: usize,
    },
    /// `bowline doctor` on all real programs, beside the time that they need to print their versions
    Doctor {
        /// How often
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: usize,
    },
    /// Live sessions: memory and wake-ups of an idle runner, how fast a decision and an event arrive
    Live,
    /// A run from the call to the record, beside a bare reader of the same agent
    Run {
        /// How many deltas the agent prints
        #[arg(long, value_name = "N", default_value_t = 200_000)]
        deltas: usize,
    },
}
