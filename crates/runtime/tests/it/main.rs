//! The library against real processes. The test binary is executed again as keeper and as another host.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod accounts;
mod detect;
mod doors;
mod executables;
mod keys;
mod many;
mod quiet;
mod readers;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline::init();
    if let Some(code) = keys::run_if_asked() {
        return code;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let mut trials = doors::trials();
    trials.extend(detect::trials());
    trials.extend(accounts::trials());
    trials.extend(executables::trials());
    trials.extend(readers::trials());
    trials.extend(keys::trials());
    trials.extend(many::trials());
    trials.extend(quiet::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}
