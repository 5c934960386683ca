//! The process crate against real processes. The test binary is executed again as keeper, as host and as agent.

#[cfg(target_os = "linux")]
mod ancestry;
#[cfg(target_os = "linux")]
mod asked;
#[cfg(target_os = "linux")]
mod basics;
#[cfg(target_os = "linux")]
mod detached;
#[cfg(target_os = "linux")]
mod errors;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod play;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod user_commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_process::keeper::run_if_asked();
    #[cfg(target_os = "linux")]
    if let Some(code) = play::run_if_asked() {
        return code;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    #[cfg(target_os = "linux")]
    let trials = [
        ancestry::trials(),
        asked::trials(),
        basics::trials(),
        detached::trials(),
        errors::trials(),
        faults::trials(),
        tree::trials(),
        user_commands::trials(),
    ]
    .concat_trials();
    #[cfg(not(target_os = "linux"))]
    let trials = Vec::new();
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[cfg(target_os = "linux")]
trait Concat {
    fn concat_trials(self) -> Vec<libtest_mimic::Trial>;
}

#[cfg(target_os = "linux")]
impl<const N: usize> Concat for [Vec<libtest_mimic::Trial>; N] {
    fn concat_trials(self) -> Vec<libtest_mimic::Trial> {
        self.into_iter().flatten().collect()
    }
}
