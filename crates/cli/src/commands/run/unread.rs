//! Output of a run that cannot be written, because its reader closed the pipe or the disk is full.
//!
//! The agent is stopped then: its caller would never see what it does. For a table a closed pipe is no failure
//! (`bowline providers | head -1`). For a run it is one: what the agent was doing may be half done.

use bowline::kinds::Outcome;
use bowline::{Record, SessionId};

use super::{Stopped, exit_code};
use crate::error::{CommandError, Fault};

/// Reports that the agents of these sessions were stopped, because their output cannot be written.
pub(super) fn stopped(error: CommandError, sessions: &[SessionId]) -> CommandError {
    let agents = if sessions.len() == 1 { "the agent was" } else { "the agents were" };
    let error = if error.is_closed_pipe() {
        let message = format!("the reader of standard output closed it; {agents} stopped");
        CommandError::new(Fault::ReaderGone, message)
    } else {
        error.hint(format!("{agents} stopped"))
    };
    pointed_to(error, sessions)
}

/// Reports that the output of a run that had ended by itself was not printed to its end.
pub(super) fn unfinished(error: CommandError, record: &Record, kept: bool) -> CommandError {
    let outcome = match record.outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Truncated => "truncated",
    };
    let error = if error.is_closed_pipe() {
        let fault = match exit_code(record, Stopped::No) {
            0 => Fault::ReaderGone,
            code => Fault::AgentFailed(code),
        };
        let message = format!("the reader of standard output closed it; the agent had ended ({outcome})");
        CommandError::new(fault, message)
    } else {
        error.hint(format!("the agent had ended ({outcome})"))
    };
    pointed_to(error, if kept { std::slice::from_ref(&record.session) } else { &[] })
}

fn pointed_to(error: CommandError, sessions: &[SessionId]) -> CommandError {
    sessions.iter().fold(error, |error, session| {
        error.hint(format!(
            "session {session}: its journal has what the agent did, `--resume {session}` goes on"
        ))
    })
}
