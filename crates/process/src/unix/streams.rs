//! Our side of a child's streams, in a runtime: what is read, and what waits to be written.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use rustix::buffer::spare_capacity;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::stdio::{self, Ours};
use crate::child::Wish;
use crate::command::Stdin;
use crate::happening::Happening;

/// The most that one read or one write moves.
const CHUNK: usize = 64 * 1024;
/// What a read has room for until one fills it: most agents say little at a time, and there may be hundreds of them.
const FIRST_CHUNK: usize = 4 * 1024;
/// Ctrl-D: how input ends on a terminal.
const END_OF_INPUT: u8 = 4;

/// The streams of one child.
#[derive(Debug)]
pub(crate) struct Streams {
    stdout: Option<Arc<AsyncFd<OwnedFd>>>,
    stderr: Option<Arc<AsyncFd<OwnedFd>>>,
    stdin: Input,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    /// What is to be told without anything to wait for.
    pending: VecDeque<Happening>,
    buffer: ReadBuffer,
}

/// Room for what is read.
#[derive(Debug)]
struct ReadBuffer {
    /// Empty between reads. Never zeroed: the kernel writes what is read.
    bytes: Vec<u8>,
    /// How much room the next read gets.
    room: usize,
}

impl ReadBuffer {
    fn new() -> Self {
        Self { bytes: Vec::new(), room: FIRST_CHUNK }
    }

    /// Returns what was read, as long as it is; empty at the end of the stream.
    fn take(&mut self) -> Vec<u8> {
        let read = self.bytes.len();
        if read >= self.room {
            self.room = CHUNK;
        }
        if read > self.room / 2 {
            // Hand the room on instead of copying what is in it.
            return std::mem::take(&mut self.bytes);
        }
        let copy = self.bytes.as_slice().to_vec();
        self.bytes.clear();
        copy
    }
}

#[derive(Debug)]
struct Input {
    to: Option<Arc<AsyncFd<OwnedFd>>>,
    queue: VecDeque<Vec<u8>>,
    /// How much of the first in the queue is written.
    written: usize,
    close: bool,
    /// The last byte that was written.
    last: Option<u8>,
}

impl Streams {
    /// Takes our side into the runtime.
    pub(crate) fn new(ours: Ours, stdin: Stdin) -> io::Result<Self> {
        let (to, stdout, stderr, terminal) = match ours {
            Ours::Pipes { stdin, stdout, stderr } => (
                stdin.map(|stdin| register(stdin, Interest::WRITABLE)).transpose()?,
                register(stdout, Interest::READABLE)?,
                Some(register(stderr, Interest::READABLE)?),
                None,
            ),
            Ours::Terminal { master } => {
                let master = register(master, Interest::READABLE | Interest::WRITABLE)?;
                let to = (stdin != Stdin::Null).then(|| master.clone());
                (to, master.clone(), None, Some(master))
            }
        };
        let (queue, close) = match stdin {
            Stdin::Null | Stdin::Owned => (VecDeque::new(), false),
            Stdin::Bytes(bytes) => (VecDeque::from([bytes]), true),
        };
        let mut streams = Self {
            stdout: Some(stdout),
            stderr,
            stdin: Input { to, queue, written: 0, close: false, last: None },
            terminal,
            pending: VecDeque::new(),
            buffer: ReadBuffer::new(),
        };
        if close {
            streams.obey(Wish::CloseStdin);
        }
        Ok(streams)
    }

    pub(crate) fn obey(&mut self, wish: Wish) {
        match wish {
            Wish::Write(bytes) if self.stdin.to.is_some() && !self.stdin.close => {
                self.stdin.queue.push_back(bytes)
            }
            // Nobody is there to read it; that was told with `StdinClosed`, or follows from closing.
            Wish::Write(_) => {}
            Wish::CloseStdin => {
                if self.stdin.to.is_some() && !self.stdin.close && self.terminal.is_some() {
                    // The character ends the input only at the beginning of a line; elsewhere it only hands over
                    // the line so far, and a second one ends.
                    let last = self.stdin.queue.iter().rev().find_map(|bytes| bytes.last().copied());
                    let at_start = last.or(self.stdin.last).is_none_or(|last| last == b'\n');
                    let ends = if at_start { vec![END_OF_INPUT] } else { vec![END_OF_INPUT; 2] };
                    self.stdin.queue.push_back(ends);
                }
                self.stdin.close = true;
            }
            Wish::Resize { rows, cols } => {
                if let Some(terminal) = &self.terminal {
                    // It fails only when the other side is gone, which is told as `StdoutClosed`.
                    let _: io::Result<()> = stdio::resize(terminal.get_ref(), rows, cols);
                }
            }
        }
    }

    pub(crate) fn poll_stdout(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        let Some(from) = &self.stdout else { return Poll::Pending };
        let kind = if self.terminal.is_some() { Kind::Terminal } else { Kind::Pipe };
        ready!(poll_read(from, kind, &mut self.buffer, context));
        let bytes = self.buffer.take();
        Poll::Ready(match &bytes[..] {
            [] => {
                self.stdout = None;
                if self.terminal.take().is_some() {
                    self.pending.push_back(Happening::StderrClosed);
                    if self.stdin.to.take().is_some() {
                        self.pending.push_back(Happening::StdinClosed { broken: true });
                    }
                }
                Happening::StdoutClosed
            }
            [..] => Happening::Stdout { bytes, at: now() },
        })
    }

    pub(crate) fn poll_stderr(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        if let Some(happening) = self.pending.pop_front() {
            return Poll::Ready(happening);
        }
        let Some(from) = &self.stderr else { return Poll::Pending };
        ready!(poll_read(from, Kind::Pipe, &mut self.buffer, context));
        let bytes = self.buffer.take();
        Poll::Ready(match &bytes[..] {
            [] => {
                self.stderr = None;
                Happening::StderrClosed
            }
            [..] => Happening::Stderr { bytes, at: now() },
        })
    }

    pub(crate) fn poll_stdin(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        let Some(to) = &self.stdin.to else { return Poll::Pending };
        while let Some(first) = self.stdin.queue.front() {
            let rest = &first[self.stdin.written..];
            if rest.is_empty() {
                self.stdin.queue.pop_front();
                self.stdin.written = 0;
                continue;
            }
            let piece = &rest[..rest.len().min(CHUNK)];
            return Poll::Ready(match ready!(poll_write(to, piece, context)) {
                Some(written) => {
                    let piece = piece[..written].to_vec();
                    self.stdin.written += written;
                    self.stdin.last = piece.last().copied();
                    Happening::StdinWritten(piece)
                }
                None => {
                    self.stdin.to = None;
                    self.stdin.queue.clear();
                    Happening::StdinClosed { broken: true }
                }
            });
        }
        if self.stdin.close {
            self.stdin.to = None;
            return Poll::Ready(Happening::StdinClosed { broken: false });
        }
        // Nothing to write: still notice that the other side went away, which a waiting protocol wants to know.
        self.poll_broken(context)
    }

    fn poll_broken(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        // The end of a terminal shows at its reading side.
        let Some(to) = self.stdin.to.as_ref().filter(|_| self.terminal.is_none()) else {
            return Poll::Pending;
        };
        while let Ok(mut guard) = ready!(to.poll_write_ready(context)) {
            // A pipe without a reader is in error; one with room is only ready.
            if guard.ready().is_write_closed() {
                break;
            }
            guard.clear_ready();
        }
        self.stdin.to = None;
        Poll::Ready(Happening::StdinClosed { broken: true })
    }
}

/// Gives a descriptor to the runtime.
#[expect(
    unsafe_code,
    reason = "the runtime relies on the descriptor staying open, which the type does not promise"
)]
pub(crate) fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
    // SAFETY: an `OwnedFd` keeps its number and stays open until it is dropped, with the registration.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(Arc::new(registered?))
}

/// What is read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    Terminal,
}

/// Reads what there is into an empty buffer; nothing is the end. A terminal says EIO when its last user is gone.
fn poll_read(
    from: &AsyncFd<OwnedFd>,
    kind: Kind,
    buffer: &mut ReadBuffer,
    context: &mut Context<'_>,
) -> Poll<()> {
    let ReadBuffer { bytes, room } = buffer;
    if bytes.capacity() < *room {
        *bytes = Vec::with_capacity(*room);
    }
    loop {
        let Ok(mut guard) = ready!(from.poll_read_ready(context)) else { return Poll::Ready(()) };
        match guard.try_io(|from| Ok(rustix::io::read(from.get_ref(), spare_capacity(bytes))?)) {
            Ok(Ok(read)) => {
                // A pipe that gives less than it was asked for is empty, and whatever comes next is announced anew: the
                // read that would only say so is spared. A terminal gives what one of its buffers holds.
                if kind == Kind::Pipe && (1..bytes.capacity()).contains(&read) {
                    guard.clear_ready();
                }
                return Poll::Ready(());
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            // There is no other error on a pipe or a terminal that a later read would not repeat.
            Ok(Err(_)) => return Poll::Ready(()),
            Err(_would_block) => {}
        }
    }
}

/// Writes what fits; `None` when nobody can read it any more.
fn poll_write(to: &AsyncFd<OwnedFd>, bytes: &[u8], context: &mut Context<'_>) -> Poll<Option<usize>> {
    loop {
        // Try first: what the runtime knows about readiness may have been used up by the watch for a closed pipe.
        match super::pipe_signal::without(|| Ok(rustix::io::write(to.get_ref(), bytes)?)) {
            Ok(written) => return Poll::Ready(Some(written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let Ok(mut guard) = ready!(to.poll_write_ready(context)) else { return Poll::Ready(None) };
                guard.clear_ready();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Poll::Ready(None),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the only clock of a chunk: it is stamped when it is read")]
fn now() -> SystemTime {
    SystemTime::now()
}
