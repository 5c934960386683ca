//! The form of every error: what failed, why, and what to try.

use std::fmt::Write as _;

use bowline_providers::ansi;

/// Formats an error: message, causes, hints. The result is safe for a terminal. A cause that only repeats the line above it is
/// left out.
pub(crate) fn error_text(message: &str, causes: &[String], hints: &[String]) -> String {
    let mut text = format!("error: {message}\n");
    let mut above = message;
    for cause in causes {
        if !above.contains(cause.as_str()) {
            let _ = writeln!(text, "caused by: {cause}");
        }
        above = cause;
    }
    for hint in hints {
        let _ = writeln!(text, "hint: {hint}");
    }
    ansi::harmless(&text).into_owned()
}
