//! Input of commands: a file or standard input, and the end of an agent's process.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use bowline_protocol::Exit;

use crate::args::EndingArgs;
use crate::error::{CommandError, Fault};
use crate::ui::Ui;

/// Something to read, and its name for error messages.
pub(crate) struct InputSource {
    reader: Box<dyn Read>,
    name: String,
}

/// Opens a file, or standard input for `-` or nothing.
pub(crate) fn open(path: Option<&Path>) -> Result<InputSource, CommandError> {
    match path {
        Some(path) if path != Path::new("-") => {
            let name = format!("`{}`", path.display());
            match File::open(path) {
                Ok(file) => Ok(InputSource { reader: Box::new(file), name }),
                Err(error) => {
                    Err(CommandError::new(Fault::Usage, format!("could not open {name}")).caused_by(error))
                }
            }
        }
        _ => {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                // A command that waits in silence looks like one that hangs.
                Ui::new().status("reading standard input; press Ctrl-D to end it");
            }
            Ok(InputSource { reader: Box::new(stdin.lock()), name: "standard input".to_owned() })
        }
    }
}

impl InputSource {
    /// Gives everything to `take`, in pieces as they come.
    pub(crate) fn each_chunk(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&buffer[..length])?,
                // A signal interrupted read(2) before it had any data (EINTR).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let message = format!("could not read {}", self.name);
                    return Err(CommandError::new(Fault::Usage, message).caused_by(error));
                }
            }
        }
    }
}

/// Returns how the agent's process ended, as the arguments say.
pub(crate) fn exit(args: &EndingArgs) -> Result<Option<Exit>, CommandError> {
    match (&args.signal, args.exit_code) {
        (Some(name), _) => signal(name).map(|number| Some(Exit::Signal(number))).ok_or_else(|| {
            CommandError::new(Fault::Usage, format!("there is no signal `{name}`"))
                .hint("write it as TERM, SIGTERM or 15")
        }),
        // Recorders write the end by a signal as a negative exit code.
        (None, Some(code)) if code < 0 => Ok(Some(Exit::Signal(code.saturating_neg()))),
        (None, code) => Ok(code.map(Exit::Code)),
    }
}

/// The signals that end programs, by number from 1.
const SIGNALS: [&str; 15] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM",
];

fn signal(name: &str) -> Option<i32> {
    if let Ok(number) = name.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let place = SIGNALS.iter().position(|known| *known == bare)?;
    i32::try_from(place + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in
            [("TERM", Some(15)), ("sigkill", Some(9)), ("2", Some(2)), ("0", None), ("X", None)]
        {
            assert_eq!(signal(text), number, "{text}");
        }
    }
}
