//! Reads the prompt: from the argument, standard input, or both.
//!
//! Standard input is read to its end unless it is a terminal, as other tools in a pipeline do: half a prompt is worse than a
//! wait. So the command also waits for a pipe that was left open by mistake. After a second it prints a notice and the fix.

use std::io::{IsTerminal, Read};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::error::{CommandError, Fault};
use crate::ui::Ui;

/// How long standard input may be silent before the notice.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The notice, and its hint.
const WAITING: &str = "waiting for the end of standard input, which is part of the prompt";
const WAITING_HINT: &str = "if the prompt is complete, start the command with `</dev/null`";

/// The maximum length of a prompt. An endless input must not fill the memory.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Returns the prompt.
pub(crate) fn prompt(argument: Option<&str>) -> Result<String, CommandError> {
    let stdin = std::io::stdin();
    let argument = match argument {
        Some("-") => None,
        Some(text) => Some(text),
        None if stdin.is_terminal() => return Err(none()),
        None => None,
    };
    let Some(text) = argument else { return whole(read()?) };
    if stdin.is_terminal() {
        return whole(text.to_owned());
    }
    if !speaks()? {
        let mut ui = Ui::new();
        ui.status(WAITING);
        ui.hint(WAITING_HINT);
    }
    let input = read()?;
    // `</dev/null` and an empty pipe add nothing to the prompt.
    if input.trim().is_empty() {
        return whole(text.to_owned());
    }
    whole(format!("{text}\n\n{input}"))
}

/// Returns the prompt that is piped in, for a command that needs none. Standard input that is open and silent is not waited for: a command
/// in a script inherits one that never ends.
pub(crate) fn piped() -> Result<Option<String>, CommandError> {
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    if !speaks()? {
        let mut ui = Ui::new();
        ui.status("standard input is silent, and is not read");
        ui.hint("`-` as the prompt waits for it; `</dev/null` leaves it out");
        return Ok(None);
    }
    Ok(Some(read()?).filter(|text| !text.trim().is_empty()))
}

fn whole(prompt: String) -> Result<String, CommandError> {
    if prompt.trim().is_empty() { Err(none()) } else { Ok(prompt) }
}

fn none() -> CommandError {
    CommandError::new(Fault::Usage, "there is no prompt")
        .hint("give it as an argument, in quotes, or pipe it in")
}

/// Returns whether standard input has data or ends within [`PATIENCE`].
fn speaks() -> Result<bool, CommandError> {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    // poll(2) also returns for a closed writer (POLLHUP) and for a file at its end, so `</dev/null` does not wait.
    let ready = poll(&mut fds, Some(&PATIENCE)).map_err(|error| {
        CommandError::new(Fault::Internal, "could not read standard input").caused_by(error)
    })?;
    Ok(ready > 0)
}

fn read() -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        // One byte more than allowed distinguishes a prompt of exactly that length from a longer one.
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::new(Fault::Usage, "could not read standard input").caused_by(error))?;
    if bytes.len() as u64 > LONGEST {
        let message = format!("the prompt on standard input is longer than {} MiB", LONGEST / (1024 * 1024));
        return Err(CommandError::new(Fault::Usage, message)
            .hint("write it to a file and name the file in the prompt"));
    }
    String::from_utf8(bytes).map_err(|error| {
        CommandError::new(Fault::Usage, "the prompt on standard input is not UTF-8")
            .caused_by(error.utf8_error())
            .hint("convert it first, for example with `iconv -t UTF-8`")
    })
}
