//! The library against real processes. The test binary is executed again as keeper and as another host.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod accounts;
mod capabilities;
mod detect;
mod doors;
mod embedding;
mod executables;
mod guide;
mod host_tools;
mod keys;
mod many;
mod quiet;
mod readers;
mod support;

use std::process::ExitCode;

/// Not a `main` of its own making, but what embedders write: the runtime has its worker threads before anything else begins.
#[tokio::main]
async fn main() -> ExitCode {
    embedding::begin();
    if let Some(code) = embedding::run_if_asked().await {
        return code;
    }
    // Tests make runtimes of their own, which a thread of a runtime may not.
    std::thread::spawn(tests).join().unwrap_or(ExitCode::FAILURE)
}

fn tests() -> ExitCode {
    if let Some(code) = keys::run_if_asked() {
        return code;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let mut trials = doors::trials();
    trials.extend(embedding::trials());
    trials.extend(detect::trials());
    trials.extend(accounts::trials());
    trials.extend(capabilities::trials());
    trials.extend(executables::trials());
    trials.extend(readers::trials());
    trials.extend(keys::trials());
    trials.extend(many::trials());
    trials.extend(quiet::trials());
    trials.extend(guide::trials());
    trials.extend(host_tools::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}
