//! The practice agent as a program of its own, for tests that want it without the rest of Bowline.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_practice::main(std::env::args_os().skip(1))
}
