//! The keyboard of the terminal, while a question is open: single keys, without echo and without Enter.
//!
//! Line mode is off only between [`Keyboard::open`] and its drop. A panic and an exit by a signal restore it, too ([`restore`]); after
//! SIGKILL the shell does, or `stty sane`. Ctrl-C and Ctrl-Z keep their meaning.
//!
//! A thread reads, and polls a pipe whose other end tells it to end. Standard input is not made non-blocking for the async runtime:
//! the shell has the same open file, and would inherit the flag.

use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Stdin};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp,
    tcsetattr,
};
use rustix::time::Timespec;
use tokio::sync::mpsc;

use crate::error::{CommandError, Fault};

/// How often the reader checks whether this process is in the foreground.
const CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// The size of one read. A key is one byte, a function key a few; a pasted text has many.
const AT_ONCE: usize = 4096;

/// The modes of the terminal to return to.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Input of the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyInput {
    /// The bytes of one read.
    Bytes(Vec<u8>),
    /// The terminal is gone.
    Closed,
}

/// The keyboard, in single-key mode. Dropping it restores the terminal and releases standard input.
#[derive(Debug)]
pub(crate) struct Keyboard {
    input: mpsc::UnboundedReceiver<KeyInput>,
    /// Closing it ends the reader.
    running: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Switches the terminal to single keys.
    pub(crate) fn open() -> Result<Self, CommandError> {
        Self::start().map_err(|error| {
            CommandError::new(Fault::Internal, "could not read the keyboard")
                .caused_by(error)
                .hint("with `--no-ask` Bowline asks no questions")
        })
    }

    fn start() -> io::Result<Self> {
        let stdin = io::stdin();
        let (stopped, running) = io::pipe()?;
        let (keys, input) = mpsc::unbounded_channel();
        *lock() = Some(tcgetattr(&stdin)?);
        // From here on, dropping this value restores the terminal.
        let mut keyboard = Self { input, running: Some(running), reader: None };
        if !in_background(&stdin) {
            single_keys(&stdin)?;
        }
        keyboard.flush();
        let reader = std::thread::Builder::new().name("keyboard".to_owned());
        keyboard.reader = Some(reader.spawn(move || read(&stdin, &stopped, &keys))?);
        Ok(keyboard)
    }

    /// Waits for input. Cancel safe.
    pub(crate) async fn next(&mut self) -> KeyInput {
        self.input.recv().await.unwrap_or(KeyInput::Closed)
    }

    /// Drops what was typed up to now: it was meant for something else.
    pub(crate) fn flush(&mut self) {
        forget_typed();
        while self.input.try_recv().is_ok() {}
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(reader) = self.reader.take() {
            // The reader ends by itself: the pipe wakes it, and it reads only what is there.
            let _ = reader.join();
        }
        restore();
    }
}

/// Restores the terminal, if a keyboard is open.
pub(crate) fn restore() {
    let Some(before) = lock().take() else { return };
    let stdin = io::stdin();
    // In the background the terminal belongs to the shell, which has set its own modes; SIGTTOU would stop this process.
    if !in_background(&stdin) {
        // The terminal may be gone.
        let _ = tcsetattr(&stdin, OptionalActions::Now, &before);
    }
}

/// Drops what was typed on standard input and not read, also the beginning of a line.
pub(crate) fn forget_typed() {
    let stdin = io::stdin();
    if stdin.is_terminal() && !in_background(&stdin) {
        // A terminal that is gone has no input, and the reader reports it.
        let _ = tcflush(&stdin, QueueSelector::IFlush);
    }
}

/// Returns whether a person at this terminal can be asked now.
pub(crate) fn is_there() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && !in_background(&stdin)
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    // The value is whole at every moment.
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether another job has the terminal. A terminal that does not control this process has no jobs (ENOTTY).
fn in_background(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|foreground| foreground != rustix::process::getpgrp())
}

/// Turns off lines and echo. Signals of keys stay on.
fn single_keys(terminal: &impl AsFd) -> io::Result<()> {
    let mut modes = tcgetattr(terminal)?;
    if !modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO) {
        return Ok(());
    }
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    // A read does not wait: between the poll and the read, the typed bytes may be dropped.
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    // SIGQUIT would end this process without restoring the terminal. 0 is `_POSIX_VDISABLE` on Linux.
    modes.special_codes[SpecialCodeIndex::VQUIT] = 0;
    Ok(tcsetattr(terminal, OptionalActions::Now, &modes)?)
}

/// Reads keys until the other end of the pipe is closed.
fn read(stdin: &Stdin, stopped: &PipeReader, keys: &mpsc::UnboundedSender<KeyInput>) {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        let background = in_background(stdin);
        // After Ctrl-Z and `fg`, the terminal has the modes of the shell.
        if !background && single_keys(stdin).is_err() {
            let _ = keys.send(KeyInput::Closed);
            return;
        }
        let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
        if !background {
            // In the background, a read would stop this process (SIGTTIN).
            fds.push(PollFd::new(stdin, PollFlags::IN));
        }
        match poll(&mut fds, Some(&CHECK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        let Some(events) = fds.get(1).map(PollFd::revents).filter(|events| !events.is_empty()) else {
            continue;
        };
        let input = match rustix::io::read(stdin, &mut *buffer) {
            Err(Errno::INTR) => continue,
            Ok(0) if events == PollFlags::IN => continue,
            // EIO: the terminal hung up.
            Ok(0) | Err(_) => KeyInput::Closed,
            Ok(length) => KeyInput::Bytes(buffer[..length].to_vec()),
        };
        let closed = input == KeyInput::Closed;
        // The receiver may be gone.
        if keys.send(input).is_err() || closed {
            return;
        }
    }
}
