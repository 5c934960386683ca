//! `compat.toml`: the last certified version of each program. It is compiled in, and read at run time.

use std::fmt::Write as _;

use super::Report;

/// Returns the file.
pub(super) fn file(reports: &[Report]) -> (&'static str, String) {
    let mut text = String::from(
        "# The last version of each program that passed the whole contract suite. Written by `cargo xtask certify --write`;\n\
         # read at run time: another version gives one quiet line with the command that checks it.\n",
    );
    for report in reports.iter().filter(|report| report.suite == "full") {
        if let Some(version) = &report.version {
            let _ = write!(text, "\n[{}]\nversion = \"{version}\"\n", report.provider);
        }
    }
    ("crates/providers/src/compat.toml", text)
}
