//! `cargo xtask`: the developer's commands. [`xtask::args`] lists them; each has a module.

use std::process::ExitCode;

use clap::Parser;
use xtask::args::{Args, Command};
use xtask::{
    bench, captures, certify, check, dist, fuzz, mutants, real_clis, report, schema, survey, test, tidy,
};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Tidy => tidy::run(),
        Command::Survey => {
            survey::run();
            Ok(())
        }
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Dist => dist::run(),
        Command::Schema => schema::run(),
        Command::ImportCaptures { from } => captures::import(&from),
        Command::Vocabulary => captures::vocabulary(),
        Command::Certify(args) => certify::run(&args),
        Command::RealClis { latest } => real_clis::run(latest),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::error(&error);
            ExitCode::FAILURE
        }
    }
}
