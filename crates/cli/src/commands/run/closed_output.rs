//! Errors of a run whose output cannot be written: its reader closed the pipe, or the disk is full.
//!
//! The run then stops the agent, because its caller would not see its work. For a table a closed pipe is not an error
//! (`bowline providers | head -1`). For a run it is: the work may be half done.

use bowline::kinds::Outcome;
use bowline::{Record, SessionId};

use super::follow::exit_code;
use crate::error::{CommandError, Fault};
use crate::signals::StopSignal;

const CLOSED: &str = "the reader of standard output closed it";

/// Reports that the agents of these sessions were stopped, because their output cannot be written.
pub(super) fn stopped(error: CommandError, sessions: &[SessionId]) -> CommandError {
    // Some of several agents may have ended already.
    let agents = if sessions.len() > 1 { "the agents that still ran were" } else { "the agent was" };
    let error = if error.is_closed_pipe() {
        let message = format!("{CLOSED}; {agents} stopped");
        CommandError::new(Fault::ReaderGone, message)
    } else {
        error.hint(format!("{agents} stopped"))
    };
    pointed_to(error, sessions)
}

/// Reports that the reader closed the pipe while no agent ran.
pub(crate) fn beside_the_run(error: CommandError) -> CommandError {
    if error.is_closed_pipe() { CommandError::new(Fault::ReaderGone, CLOSED) } else { error }
}

/// Reports that the output of a run that ended by itself was not printed completely.
pub(super) fn unfinished(error: CommandError, record: &Record, kept: bool) -> CommandError {
    let outcome = match record.outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Truncated => "truncated",
    };
    let error = if error.is_closed_pipe() {
        let fault = match exit_code(record, StopSignal::No) {
            // The agent succeeded, but its answer did not arrive. The exit code is 141: 128 plus SIGPIPE, as a shell has it.
            0 => Fault::ReaderGone,
            code => Fault::AgentFailed(code),
        };
        let message = format!("{CLOSED}; the agent had ended ({outcome})");
        CommandError::new(fault, message)
    } else {
        error.hint(format!("the agent had ended ({outcome})"))
    };
    pointed_to(error, if kept { std::slice::from_ref(&record.session) } else { &[] })
}

fn pointed_to(error: CommandError, sessions: &[SessionId]) -> CommandError {
    sessions.iter().fold(error, |error, session| {
        error.hint(format!(
            "session {session}: the journal has the agent's work; `--resume {session}` continues it"
        ))
    })
}
