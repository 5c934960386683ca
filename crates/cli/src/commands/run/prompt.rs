//! Where the prompt comes from: the argument, standard input, or both.
//!
//! Standard input that is no terminal is read to its end, as every other tool in a pipeline does: whoever is slow to write
//! has something to say, and half a prompt is worse than a wait. The price is that a pipe which somebody left open is
//! waited for; after a second the command says so, and what closes it.

use std::io::{IsTerminal, Read, Write as _};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::error::{CommandError, Fault};

/// How long standard input may be silent before we say that we wait for it.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What is said when it was silent for that long.
const WAITING: &str = "waiting for the end of standard input, which is a part of the prompt\n\
    hint: if nothing is meant to come, start the command with `</dev/null`\n";

/// The longest prompt that is taken in. Something that never ends must not fill the memory.
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
        // Nothing can be done about a standard error that does not take the message.
        let _ = std::io::stderr().write_all(WAITING.as_bytes());
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
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::new(Fault::Usage, "could not read standard input").caused_by(error))?;
    if bytes.len() as u64 > LONGEST {
        let message = format!("the prompt on standard input is longer than {} MiB", LONGEST / (1024 * 1024));
        return Err(
            CommandError::new(Fault::Usage, message).hint("put it into a file, and say where that is")
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        CommandError::new(Fault::Usage, "the prompt on standard input is not UTF-8")
            .caused_by(error.utf8_error())
            .hint("convert it first, for example with `iconv -t UTF-8`")
    })
}
