//! A child and its streams. All streams are served at once and every read is bounded; the caller decides everything else.
//!
//! `Child::next` polls the owner's reports, both outputs and the input in turn, and returns the first event. All state is in
//! the child, so dropping a call loses nothing. Nothing is read between calls: a full pipe then blocks the agent.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::ChildStreams;
use crate::child_event::{ChildEvent, Guarantee, Signal, SignalScope};
use crate::owner::{SweptReport, TreeOwner};

/// A started program and every process that it started. Dropping it ends all of them.
pub struct Child {
    pid: u32,
    owner: Arc<dyn TreeOwner>,
    reports: UnboundedReceiver<ChildEvent>,
    commands: UnboundedReceiver<StreamCommand>,
    control: ChildControl,
    streams: ChildStreams,
    /// The source to poll first. It rotates, so that a flood on one stream does not hide the others.
    turn: u8,
}

/// A command from a `ChildControl` to the child's streams.
#[derive(Debug)]
pub(crate) enum StreamCommand {
    Write(Vec<u8>),
    CloseStdin,
    Resize { rows: u16, cols: u16 },
}

impl Child {
    pub(crate) fn new(
        pid: u32,
        owner: Arc<dyn TreeOwner>,
        reports: UnboundedReceiver<ChildEvent>,
        streams: ChildStreams,
    ) -> Self {
        let (sender, commands) = tokio::sync::mpsc::unbounded_channel();
        // Weak: a control that outlives the child must not keep its process tree alive.
        let control = ChildControl { owner: Arc::downgrade(&owner), commands: sender };
        Self { pid, owner, reports, commands, control, streams, turn: 0 }
    }

    /// Returns the process id of the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the guarantee that covers the end of this tree.
    pub fn guarantee(&self) -> Guarantee {
        self.owner.guarantee()
    }

    /// Returns a handle that acts on the child while another task waits for its events.
    pub fn control(&self) -> ChildControl {
        self.control.clone()
    }

    /// Waits for the next event. Never returns when no event can follow.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> ChildEvent {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next event.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
        // Commands come before events, because they change what the streams do.
        while let Poll::Ready(Some(command)) = self.commands.poll_recv(context) {
            self.streams.execute(command);
        }
        self.turn = (self.turn + 1) % 4;
        for source in 0..4 {
            let happened = match (self.turn + source) % 4 {
                0 => self.poll_report(context),
                1 => self.streams.poll_stdout(context),
                2 => self.streams.poll_stderr(context),
                _ => self.streams.poll_stdin(context),
            };
            if happened.is_ready() {
                return happened;
            }
        }
        Poll::Pending
    }

    fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<ChildEvent> {
        match ready!(self.reports.poll_recv(context)) {
            Some(event) => Poll::Ready(event),
            // The owner is gone and has sent all its reports.
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.pid).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Acts on a child from any task. Does nothing when the child is dropped or gone.
#[derive(Clone)]
pub struct ChildControl {
    owner: std::sync::Weak<dyn TreeOwner>,
    commands: UnboundedSender<StreamCommand>,
}

impl ChildControl {
    /// Sends a signal to the program or to its whole tree.
    pub fn signal(&self, signal: Signal, scope: SignalScope) {
        if let Some(owner) = self.owner.upgrade() {
            owner.signal(signal, scope);
        }
    }

    /// Sends SIGKILL to the whole tree until nothing is left of it. `Exited` follows, but no `Swept`.
    pub fn kill_tree(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.end(Duration::ZERO, SweptReport::NotWanted);
        }
    }

    /// Ends the tree: sends SIGTERM, then SIGKILL after the grace, until no process is left. `Swept` follows.
    ///
    /// Callers use it after `Exited`, for processes that outlived the program. Before `Exited` it ends the program as well.
    /// Several calls before the `Swept` event get one event, and the shortest grace applies.
    pub fn sweep(&self, grace: Duration) {
        if let Some(owner) = self.owner.upgrade() {
            owner.end(grace, SweptReport::Wanted);
        }
    }

    /// Queues bytes for standard input, behind the bytes already queued. `StdinWritten` reports the bytes that were written.
    ///
    /// After `StdinClosed` the bytes are dropped: the pipe has no reader.
    pub fn write(&self, bytes: Vec<u8>) {
        self.command(StreamCommand::Write(bytes));
    }

    /// Closes standard input when everything queued is written. `StdinClosed` follows.
    pub fn close_stdin(&self) {
        self.command(StreamCommand::CloseStdin);
    }

    /// Resizes the terminal; does nothing for a child with pipes.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.command(StreamCommand::Resize { rows, cols });
    }

    fn command(&self, command: StreamCommand) {
        // The receiver lives as long as the child. Without a child there is nothing to do.
        let _: Result<(), _> = self.commands.send(command);
    }
}

impl fmt::Debug for ChildControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildControl").field("owner", &self.owner.upgrade()).finish_non_exhaustive()
    }
}
