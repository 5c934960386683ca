//! Where the prompt comes from: the argument, standard input, or both.

use std::io::{IsTerminal, Read, Write as _};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::error::{CommandError, Fault};

/// How long standard input may be silent when there is a prompt already. Some callers leave a pipe open for ever.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What is said when it was silent for that long.
const IGNORED: &str = "warning: nothing came on standard input for 1 s; only the argument is the prompt\n\
    hint: close it with `</dev/null`, or give the whole prompt on it, with `-` as the argument\n";

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
        // Whoever pipes something in that takes a while to begin has to know that it was not waited for. Nothing can be
        // done about a standard error that does not take the message.
        let _ = std::io::stderr().write_all(IGNORED.as_bytes());
        return whole(text.to_owned());
    }
    let input = read()?;
    if input.trim().is_empty() {
        return whole(text.to_owned());
    }
    whole(format!("{text}\n\n{input}"))
}

fn whole(prompt: String) -> Result<String, CommandError> {
    if prompt.trim().is_empty() { Err(none()) } else { Ok(prompt) }
}

fn none() -> CommandError {
    CommandError::new(Fault::Usage, "there is no prompt")
        .hint("say what is to be done: `bowline run \"…\"`, or pipe it in")
}

/// Says whether anything comes on standard input, its end included.
fn speaks() -> Result<bool, CommandError> {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let ready = poll(&mut fds, Some(&PATIENCE)).map_err(|error| {
        CommandError::new(Fault::Internal, "could not read standard input").caused_by(error)
    })?;
    Ok(ready > 0)
}

fn read() -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::new(Fault::Usage, "could not read standard input").caused_by(error))?;
    String::from_utf8(bytes).map_err(|error| {
        CommandError::new(Fault::Usage, "the prompt on standard input is not UTF-8")
            .caused_by(error.utf8_error())
            .hint("convert it first, for example with `iconv -t UTF-8`")
    })
}
