//! The host's ends of a child's streams in an async runtime: reading, and the queue of bytes to write.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use rustix::buffer::spare_capacity;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::stdio::{self, HostEnds};
use crate::child::StreamCommand;
use crate::child_event::ChildEvent;
use crate::command::Stdin;

/// The most bytes of one event and of one write. Larger pieces would leave the CPU cache before they are decoded.
const CHUNK: usize = 16 * 1024;
/// The pieces of one read from a child that prints fast: as many bytes as a pipe holds. Each read of a full pipe wakes
/// the writer, which costs more than the read itself.
const PIECES: usize = 4;
/// Ctrl-D: ends the input on a terminal.
const END_OF_INPUT: u8 = 4;

/// The streams of one child.
#[derive(Debug)]
pub(crate) struct ChildStreams {
    stdout: Option<OutputStream>,
    stderr: Option<OutputStream>,
    stdin: StdinQueue,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    /// Events that are ready to be returned.
    pending: VecDeque<ChildEvent>,
}

/// One output stream of a child.
#[derive(Debug)]
struct OutputStream {
    from: Arc<AsyncFd<OwnedFd>>,
    kind: StreamKind,
    next_read: ReadSize,
    /// The pieces of the last read that are still to be returned.
    pieces: VecDeque<Vec<u8>>,
}

/// How much the next read asks for, by what the last one brought.
#[derive(Clone, Copy, Debug)]
enum ReadSize {
    /// At most a chunk, through a buffer on the stack: most agents print little at a time, and hundreds wait together.
    Little,
    /// At most a chunk, into a buffer of its own.
    Chunk,
    /// As much as a pipe holds, into several buffers.
    Pipe,
}

#[derive(Debug)]
struct StdinQueue {
    to: Option<Arc<AsyncFd<OwnedFd>>>,
    queue: VecDeque<Vec<u8>>,
    /// How many bytes of the first queue entry are written.
    written: usize,
    close: bool,
    /// The last byte that was written.
    last: Option<u8>,
}

impl ChildStreams {
    /// Registers the host's ends with the runtime.
    pub(crate) fn new(ours: HostEnds, stdin: Stdin) -> io::Result<Self> {
        let (to, stdout, stderr, terminal) = match ours {
            HostEnds::Pipes { stdin, stdout, stderr } => (
                stdin.map(|stdin| register(stdin, Interest::WRITABLE)).transpose()?,
                register(stdout, Interest::READABLE)?,
                Some(register(stderr, Interest::READABLE)?),
                None,
            ),
            HostEnds::Terminal { master } => {
                let master = register(master, Interest::READABLE | Interest::WRITABLE)?;
                let to = (stdin != Stdin::Null).then(|| master.clone());
                (to, master.clone(), None, Some(master))
            }
        };
        let (queue, close) = match stdin {
            Stdin::Null | Stdin::Owned => (VecDeque::new(), false),
            Stdin::Bytes(bytes) => (VecDeque::from([bytes]), true),
        };
        let kind = if terminal.is_some() { StreamKind::Terminal } else { StreamKind::Pipe };
        let mut streams = Self {
            stdout: Some(OutputStream::new(stdout, kind)),
            stderr: stderr.map(|stderr| OutputStream::new(stderr, StreamKind::Pipe)),
            stdin: StdinQueue { to, queue, written: 0, close: false, last: None },
            terminal,
            pending: VecDeque::new(),
        };
        if close {
            // Not `close: true` above: on a terminal this command also adds Ctrl-D to the queue.
            streams.execute(StreamCommand::CloseStdin);
        }
        Ok(streams)
    }

    pub(crate) fn execute(&mut self, command: StreamCommand) {
        match command {
            StreamCommand::Write(bytes) if self.stdin.to.is_some() && !self.stdin.close => {
                self.stdin.queue.push_back(bytes)
            }
            // The pipe has no reader. `StdinClosed` has reported that, or follows from closing.
            StreamCommand::Write(_) => {}
            StreamCommand::CloseStdin => {
                if self.stdin.to.is_some() && !self.stdin.close && self.terminal.is_some() {
                    // Ctrl-D ends the input only at the beginning of a line. Elsewhere the first one only passes on the partial
                    // line, and a second one ends the input.
                    let last = self.stdin.queue.iter().rev().find_map(|bytes| bytes.last().copied());
                    let at_start = last.or(self.stdin.last).is_none_or(|last| last == b'\n');
                    let ends = if at_start { vec![END_OF_INPUT] } else { vec![END_OF_INPUT; 2] };
                    self.stdin.queue.push_back(ends);
                }
                self.stdin.close = true;
            }
            StreamCommand::Resize { rows, cols } => {
                if let Some(terminal) = &self.terminal {
                    // It fails only when the child's end is closed, which `StdoutClosed` reports.
                    let _: io::Result<()> = stdio::resize(terminal.get_ref(), rows, cols);
                }
            }
        }
    }

    pub(crate) fn poll_stdout(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
        let Some(stdout) = &mut self.stdout else { return Poll::Pending };
        let bytes = ready!(stdout.poll_read(context));
        Poll::Ready(match &bytes[..] {
            [] => {
                self.stdout = None;
                // A terminal is one descriptor for all three streams, so its end is the end of each.
                if self.terminal.take().is_some() {
                    self.pending.push_back(ChildEvent::StderrClosed);
                    if self.stdin.to.take().is_some() {
                        self.pending.push_back(ChildEvent::StdinClosed { broken: true });
                    }
                }
                ChildEvent::StdoutClosed
            }
            [..] => ChildEvent::Stdout { bytes, at: now() },
        })
    }

    pub(crate) fn poll_stderr(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
        if let Some(event) = self.pending.pop_front() {
            return Poll::Ready(event);
        }
        let Some(stderr) = &mut self.stderr else { return Poll::Pending };
        let bytes = ready!(stderr.poll_read(context));
        Poll::Ready(match &bytes[..] {
            [] => {
                self.stderr = None;
                ChildEvent::StderrClosed
            }
            [..] => ChildEvent::Stderr { bytes, at: now() },
        })
    }

    pub(crate) fn poll_stdin(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
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
                    // Report only the bytes that the pipe took: the journal's record of stdin must match what the agent can
                    // read.
                    let piece = piece[..written].to_vec();
                    self.stdin.written += written;
                    self.stdin.last = piece.last().copied();
                    ChildEvent::StdinWritten(piece)
                }
                None => {
                    self.stdin.to = None;
                    self.stdin.queue.clear();
                    ChildEvent::StdinClosed { broken: true }
                }
            });
        }
        if self.stdin.close {
            self.stdin.to = None;
            return Poll::Ready(ChildEvent::StdinClosed { broken: false });
        }
        // Nothing to write. Still notice when the reader closes its end: a protocol that waits for a reply needs to know.
        self.poll_broken(context)
    }

    fn poll_broken(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
        // A terminal reports its end on the reading side.
        let Some(to) = self.stdin.to.as_ref().filter(|_| self.terminal.is_none()) else {
            return Poll::Pending;
        };
        while let Ok(mut guard) = ready!(to.poll_write_ready(context)) {
            // A pipe without a reader is in the error state; a pipe with space is only ready.
            if guard.ready().is_write_closed() {
                break;
            }
            // A pipe with space stays ready. Without this the loop would spin.
            guard.clear_ready();
        }
        self.stdin.to = None;
        Poll::Ready(ChildEvent::StdinClosed { broken: true })
    }
}

/// Registers a descriptor with the runtime.
#[expect(
    unsafe_code,
    reason = "the runtime relies on the descriptor staying open, which the type does not promise"
)]
pub(crate) fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
    // SAFETY: an `OwnedFd` keeps its number and stays open until it is dropped, with the registration.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(Arc::new(registered?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamKind {
    Pipe,
    Terminal,
}

impl OutputStream {
    fn new(from: Arc<AsyncFd<OwnedFd>>, kind: StreamKind) -> Self {
        Self { from, kind, next_read: ReadSize::Little, pieces: VecDeque::new() }
    }

    /// Returns the next bytes, at most a chunk; an empty result is the end. A terminal returns EIO when its last user is
    /// gone.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(piece);
        }
        loop {
            let Ok(mut guard) = ready!(self.from.poll_read_ready(context)) else {
                return Poll::Ready(Vec::new());
            };
            let (size, pieces) = (self.next_read, &mut self.pieces);
            match guard.try_io(|from| read(from.get_ref(), size, pieces)) {
                Ok(Ok((first, total))) => {
                    let asked = match size {
                        ReadSize::Little | ReadSize::Chunk => CHUNK,
                        ReadSize::Pipe => PIECES * CHUNK,
                    };
                    // A pipe that returns less than requested is empty, and the kernel announces new bytes. So clear the
                    // readiness now and save the read that would only return `WouldBlock`. A terminal returns one of its
                    // buffers at a time, so its short read proves nothing.
                    if self.kind == StreamKind::Pipe && (1..asked).contains(&total) {
                        guard.clear_ready();
                    }
                    // A full read means that the child prints fast, so the next read asks for all that a pipe holds.
                    self.next_read = match total {
                        CHUNK.. => ReadSize::Pipe,
                        total if total > CHUNK / 2 => ReadSize::Chunk,
                        _ => ReadSize::Little,
                    };
                    return Poll::Ready(first);
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // Any other error of a pipe or a terminal would repeat on the next read.
                Ok(Err(_)) => return Poll::Ready(Vec::new()),
                Err(_would_block) => {}
            }
        }
    }
}

/// Reads once. Returns the first piece and the number of all bytes; the other pieces go to `rest`.
fn read(from: &OwnedFd, size: ReadSize, rest: &mut VecDeque<Vec<u8>>) -> io::Result<(Vec<u8>, usize)> {
    match size {
        ReadSize::Little => {
            let mut room = [const { MaybeUninit::<u8>::uninit() }; CHUNK];
            let (bytes, _) = rustix::io::read(from, &mut room)?;
            Ok((bytes.to_vec(), bytes.len()))
        }
        ReadSize::Chunk => {
            // The kernel writes the bytes, so the buffer is not zeroed first.
            let mut bytes = Vec::with_capacity(CHUNK);
            let total = rustix::io::read(from, spare_capacity(&mut bytes))?;
            Ok((bytes, total))
        }
        ReadSize::Pipe => {
            let mut pieces: [Vec<u8>; PIECES] = std::array::from_fn(|_| vec![0; CHUNK]);
            let total = {
                let mut slices = pieces.each_mut().map(|piece| IoSliceMut::new(piece));
                rustix::io::readv(from, &mut slices)?
            };
            let mut left = total;
            for piece in &mut pieces {
                piece.truncate(left);
                left -= piece.len();
            }
            let [first, others @ ..] = pieces;
            rest.extend(others.into_iter().filter(|piece| !piece.is_empty()));
            Ok((first, total))
        }
    }
}

/// Writes the bytes that fit; `None` when the pipe has no reader.
fn poll_write(to: &AsyncFd<OwnedFd>, bytes: &[u8], context: &mut Context<'_>) -> Poll<Option<usize>> {
    loop {
        // Try first: the check for a closed pipe may have consumed the runtime's readiness.
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
