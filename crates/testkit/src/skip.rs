//! Reports tests that cannot run here, instead of letting them pass silently.

use std::io::Write;

/// Reports a skipped test and the reason. Return right after it.
///
/// The test runner hides what a passing test prints, so the line also goes to the file that `cargo xtask test` names
/// in `BOWLINE_SKIPPED_FILE`; that command shows all of them at its end.
pub fn skip(test: &str, reason: &str) {
    let line = format!("{test}: {reason}\n");
    #[expect(
        clippy::disallowed_methods,
        reason = "a test process is an edge, and this is how xtask reaches it"
    )]
    let file = std::env::var_os("BOWLINE_SKIPPED_FILE");
    // A skipped test fails if it cannot report the skip.
    let mut out: Box<dyn Write> = match file {
        Some(file) => {
            Box::new(std::fs::OpenOptions::new().append(true).create(true).open(file).expect("opens"))
        }
        None => Box::new(std::io::stderr()),
    };
    // One write, so that lines of tests that run at once do not mix.
    out.write_all(line.as_bytes()).expect("the note about a skipped test is written");
}
