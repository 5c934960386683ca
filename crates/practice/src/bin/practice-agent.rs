//! The practice agent as a separate program, for tests without the rest of Bowline.

use std::process::ExitCode;

fn main() -> ExitCode {
    bowline_practice::main(std::env::args_os().skip(1))
}
