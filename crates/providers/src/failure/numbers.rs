//! Meanings of HTTP statuses, exit codes and signals, where no text gives a better reason.
//!
//! Exit codes of a single program (Gemini's status modulo 256, for example) belong to its dialect, not here.

use bowline_protocol::{Category, Code, Exit};

/// The meaning of a number.
type NumberMeaning = (Category, Code);

/// Returns the meaning of an HTTP status; `None` for those that are no failure.
pub(super) fn status(status: u16) -> Option<NumberMeaning> {
    Some(match status {
        400 | 422 => (Category::Validation, Code::InvalidRequest),
        401 => (Category::Authentication, Code::InvalidCredentials),
        402 => (Category::Quota, Code::Billing),
        403 => (Category::Authentication, Code::Forbidden),
        404 => (Category::NotFound, Code::NotFound),
        408 => (Category::Timeout, Code::TimedOut),
        413 => (Category::Validation, Code::RequestTooLarge),
        429 => (Category::RateLimit, Code::RateLimited),
        // Before the range below. 529 is Anthropic's own status.
        529 => (Category::Server, Code::Overloaded),
        500..=599 => (Category::Server, Code::ServerError),
        _ => return None,
    })
}

/// Returns the meaning of a process's exit; `None` where it has none.
pub(super) fn exit(exit: Exit) -> Option<NumberMeaning> {
    match exit {
        // A Rust program exits with this after a panic.
        Exit::Code(101) => Some((Category::Unknown, Code::Crashed)),
        // A shell exits with these when it may not run, or cannot find, the program.
        Exit::Code(126) => Some((Category::Configuration, Code::BadConfig)),
        Exit::Code(127) => Some((Category::NotFound, Code::NotInstalled)),
        // A shell, and many programs, exit with these after a signal.
        Exit::Code(code @ 129..=159) => signal(code - 128),
        Exit::Code(_) => None,
        Exit::Signal(number) => signal(number),
    }
}

/// Describes how a process ended.
pub(super) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(number) => format!("ended by {}", signal_name(number)),
    }
}

/// Returns the name of a signal, or its number if it does not usually end agents.
pub fn signal_name(number: i32) -> String {
    match SIGNALS.iter().find(|(known, ..)| *known == number) {
        Some((_, name, _)) => (*name).to_owned(),
        None => format!("signal {number}"),
    }
}

/// The signals that end agents, by their Linux numbers.
const SIGNALS: &[(i32, &str, NumberMeaning)] = &[
    (1, "SIGHUP", KILLED),
    (2, "SIGINT", (Category::Unknown, Code::Cancelled)),
    (4, "SIGILL", CRASHED),
    // How V8 dies when its heap is full.
    (5, "SIGTRAP", CRASHED),
    (6, "SIGABRT", CRASHED),
    (7, "SIGBUS", CRASHED),
    (8, "SIGFPE", CRASHED),
    (9, "SIGKILL", KILLED),
    (11, "SIGSEGV", CRASHED),
    (15, "SIGTERM", KILLED),
];

/// The adapter protocol counts SIGTERM and SIGKILL among the timeouts.
const KILLED: NumberMeaning = (Category::Timeout, Code::Killed);
const CRASHED: NumberMeaning = (Category::Unknown, Code::Crashed);

fn signal(number: i32) -> Option<NumberMeaning> {
    SIGNALS.iter().find(|(known, ..)| *known == number).map(|(_, _, meaning)| meaning.clone())
}
