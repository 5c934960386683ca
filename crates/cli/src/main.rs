//! The `bowline` command: a table of contents. Each command has a file in `commands`.

mod args;
mod commands;
mod error;
mod output;
mod suggest;
mod time;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::error::CommandError;
use crate::output::Stdout;

fn main() -> ExitCode {
    let result = match Args::try_parse() {
        Ok(args) => run(args),
        Err(error) => error::usage(&error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn run(args: Args) -> Result<(), CommandError> {
    let mut stdout = Stdout::new();
    let result = match args.command {
        Command::Decode(args) => commands::decode::run(&args, &mut stdout),
        Command::Classify(args) => commands::classify::run(&args, &mut stdout),
        Command::Providers(args) => commands::tables::providers(&args, &mut stdout),
        Command::Dialects(args) => commands::tables::dialects(&args, &mut stdout),
    };
    result.and_then(|()| stdout.flush())
}
