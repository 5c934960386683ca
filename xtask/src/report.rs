//! Messages of xtask, all on standard error; standard output belongs to the commands that it runs.

use std::io::Write;

/// Prints one line.
pub fn line(text: impl std::fmt::Display) {
    // Nothing can be done about a closed standard error, and nothing is lost.
    _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints an error and its causes.
pub fn error(error: &anyhow::Error) {
    line(format_args!("error: {error}"));
    for cause in error.chain().skip(1) {
        line(format_args!("caused by: {cause}"));
    }
}
