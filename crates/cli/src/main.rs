//! The `bowline` command: parses the arguments and calls the command, which has a file in `commands`.

mod args;
mod async_runtime;
mod commands;
mod config;
mod error;
mod human;
mod log;
mod output;
mod remedies;
mod resource_limits;
mod signals;
mod suggest;
mod time;
mod ui;
mod usage;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::error::CommandError;
use crate::ui::{Stdout, Ui};

fn main() -> ExitCode {
    // Only commands that run an agent start the keeper; the others do not pay for it.
    bowline::init_lazily();
    let result = match Args::try_parse() {
        Ok(Args { command: Some(Command::PracticeAgent(args)) }) => {
            // Before the panic hook and the log: the practice agent prints in the format of an agent.
            return bowline_practice::main(args.args.into_iter());
        }
        Ok(args) => guarded(args),
        Err(error) => usage::report(&error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Ui::new().error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs a command. Reports a panic in the form of every other error, with exit code 70.
fn guarded(args: Args) -> Result<(), CommandError> {
    std::panic::set_hook(Box::new(ui::panic::report));
    std::panic::catch_unwind(|| run(args))
        .unwrap_or_else(|_| Err(CommandError::told(bowline::exit::INTERNAL)))
}

fn run(args: Args) -> Result<(), CommandError> {
    log::begin()?;
    let mut stdout = Stdout::new();
    let Some(command) = args.command else {
        return commands::shell::help(&mut stdout).and_then(|()| stdout.flush());
    };
    let result = match command {
        Command::Run(args) => commands::run::run(&args, &mut stdout),
        Command::Start(args) => commands::start::run(&args, &mut stdout),
        Command::Attach(args) => commands::attach::run(&args),
        Command::Send(args) => commands::orders::send(&args, &mut stdout),
        Command::Status(args) => commands::orders::status(&args, &mut stdout),
        Command::Approve(args) => commands::decide::approve(&args, &mut stdout),
        Command::Deny(args) => commands::decide::deny(&args, &mut stdout),
        Command::Answer(args) => commands::orders::answer(&args, &mut stdout),
        Command::Interrupt(args) => commands::orders::interrupt(&args, &mut stdout),
        Command::Dequeue(args) => commands::orders::dequeue(&args, &mut stdout),
        Command::Set(args) => commands::orders::set(&args, &mut stdout),
        Command::Compact(args) => commands::orders::compact(&args, &mut stdout),
        Command::Control(args) => commands::orders::control(&args, &mut stdout),
        Command::Wait(args) => commands::wait::run(&args, &mut stdout),
        Command::SessionRunner => commands::start::runner(),
        Command::Route(args) => commands::route::run(&args, &mut stdout),
        Command::Sessions(args) => commands::sessions::run(&args, &mut stdout),
        Command::Stop(args) => commands::sessions::stop(&args, &mut stdout),
        Command::Config(args) => commands::config::run(&args, &mut stdout),
        Command::Init(args) => commands::init::run(&args, &mut stdout),
        Command::Trust(args) => commands::trust::run(&args, &mut stdout),
        Command::Policy(args) => commands::policy::run(&args, &mut stdout),
        Command::Prices(args) => commands::prices::run(&args, &mut stdout),
        Command::Completions(args) => commands::shell::completions(&args, &mut stdout),
        Command::Complete(args) => commands::complete::run(&args, &mut stdout),
        Command::Man => commands::shell::man(&mut stdout),
        Command::Version => commands::shell::version(&mut stdout),
        Command::Demo(args) => commands::demo::run(&args, &mut stdout),
        Command::Decode(args) => commands::decode::run(&args, &mut stdout),
        Command::Classify(args) => commands::classify::run(&args, &mut stdout),
        Command::Simulate(args) => commands::simulate::run(&args, &mut stdout),
        Command::Certify(args) => commands::certify::run(&args, &mut stdout),
        Command::Doctor(args) => commands::doctor::run(&args, &mut stdout),
        Command::Models(args) => commands::models::run(&args, &mut stdout),
        Command::Limits(args) => commands::limits::run(&args, &mut stdout),
        Command::Providers(args) => commands::providers::providers(&args, &mut stdout),
        Command::Provide(args) => commands::provide::run(&args, &mut stdout),
        Command::Provider(args) => commands::provider::run(&args, &mut stdout),
        // `main` handles it: the practice agent has its own exit codes.
        Command::PracticeAgent(_) => Ok(()),
        Command::Dialects(args) => commands::providers::dialects(&args, &mut stdout),
    };
    // A `BufWriter` that is dropped ignores the error of its last write, so flush it here.
    result.and_then(|()| stdout.flush())
}
