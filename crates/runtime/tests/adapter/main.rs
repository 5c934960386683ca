//! The contract of the provider adapters specification (004, section 9): the same tests for every kind of provider.
//!
//! This binary is also the practice agent: the tests start it with `practice-agent` as its first argument.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod contract;
mod subjects;

use std::process::ExitCode;

use libtest_mimic::Trial;

use crate::contract::CASES;
use crate::subjects::{KINDS, Subject};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().and_then(|word| word.into_string().ok()).as_deref() {
        Some(bowline_practice::COMMAND) => return bowline_practice::main(arguments),
        // As `bowline --version`, whose part the practice agent is.
        Some("--version") => return version(),
        _ => bowline::init(),
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let mut trials = Vec::new();
    for kind in KINDS {
        for (name, case) in CASES {
            trials.push(Trial::test(format!("{}::{name}", kind.name()), move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(case(Subject::new(*kind)));
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[expect(clippy::print_stdout, reason = "a program prints")]
fn version() -> ExitCode {
    println!("bowline {}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}
