//! The router, the doctor and `acp:<command>` on real programs, which talk to the simulator: what they promise, as a person
//! would see it, and as the ledger of the requests says.
//!
//! `cargo xtask certify` names a file with the programs in `BOWLINE_REAL_PROGRAMS`; without it there is nothing to try.
//! This process has no network but loopback and an empty environment, and neither has anything that it starts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod breaker;
mod budget;
mod commands;
mod doctor;
mod failures;
mod place;
mod seen;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use bowline_certify::seclusion::{self, NetworkAccess};
use libtest_mimic::{Arguments, Trial};

use crate::place::Programs;

/// Names the file with the programs.
const PROGRAMS: &str = "BOWLINE_REAL_PROGRAMS";

/// How many cases are tried at once: two of them wait for half a minute and do nothing.
const AT_ONCE: usize = 4;

#[expect(clippy::disallowed_methods, reason = "a test process is an edge, and this is how xtask reaches it")]
fn programs() -> Option<OsString> {
    std::env::var_os(PROGRAMS).filter(|file| !file.is_empty())
}

fn say(line: &str) {
    // The port may have no listener any more.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn main() -> ExitCode {
    let file = programs();
    // There is no other thread yet. The command finds its keeper in itself, and needs nothing of ours.
    let (network, why_open) = seclusion::enter(&["PATH", "TMPDIR", "RUST_BACKTRACE", "NO_COLOR"], &[]);
    let mut arguments = Arguments::from_args();
    let Some(file) = file else {
        if !arguments.list {
            say(&format!(
                "routes: skipped, because {PROGRAMS} is not set: `cargo xtask certify --routes` sets it"
            ));
        }
        return libtest_mimic::run(&arguments, Vec::new()).exit_code();
    };
    if let Some(why) = why_open {
        say(&format!(
            "routes: the programs are not cut off from the network ({why}); their settings keep them"
        ));
    }
    arguments.test_threads.get_or_insert(AT_ONCE);
    let programs = Arc::new(Programs::read(&file, network));
    let mut trials = Vec::new();
    breaker::trials(&programs, &mut trials);
    budget::trials(&programs, &mut trials);
    failures::trials(&programs, &mut trials);
    commands::trials(&programs, &mut trials);
    doctor::trials(&programs, &mut trials);
    let conclusion = libtest_mimic::run(&arguments, trials);
    if network == NetworkAccess::Loopback {
        let left = seclusion::attempts_to_leave().expect("the kernel counts them");
        if left > 0 {
            say(&format!("routes: something tried {left} times to reach what is not this machine"));
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

/// Makes a case: a function that panics where a promise is broken.
fn trial(
    name: impl Into<String>,
    programs: &Arc<Programs>,
    body: impl FnOnce(&Programs, &str) + Send + 'static,
) -> Trial {
    let (name, programs) = (name.into(), Arc::clone(programs));
    let folder = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    Trial::test(name, move || {
        body(&programs, &folder);
        // What a red case left stays; that of a green one is of no use.
        Ok(std::fs::remove_dir_all(place::folder(&folder))?)
    })
}
