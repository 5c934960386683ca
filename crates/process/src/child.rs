//! A child and its streams: all of them served at once, each read bounded, nothing decided.
//!
//! `Child::next` polls the reports of the owner, both outputs and the input in turn, and gives the first thing that
//! happened. It keeps no state outside the child, so a call that is dropped loses nothing. As long as nobody calls
//! it, nothing is read, and the pipes hold the agent back.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::happening::{Guarantee, Happening, Scope, Signal};
use crate::owner::{Answer, Owner};
use crate::streams::Streams;

/// A started program and what it started. Dropping it ends all of it.
pub struct Child {
    pid: u32,
    owner: Arc<dyn Owner>,
    reports: UnboundedReceiver<Happening>,
    wishes: UnboundedReceiver<Wish>,
    control: Control,
    streams: Streams,
    /// Whose turn it is to be asked first, so that a flood on one stream does not hide the others.
    turn: u8,
}

/// What a `Control` wants of a child's streams.
#[derive(Debug)]
pub(crate) enum Wish {
    Write(Vec<u8>),
    CloseStdin,
    Resize { rows: u16, cols: u16 },
}

impl Child {
    pub(crate) fn new(
        pid: u32,
        owner: Arc<dyn Owner>,
        reports: UnboundedReceiver<Happening>,
        streams: Streams,
    ) -> Self {
        let (sender, wishes) = tokio::sync::mpsc::unbounded_channel();
        let control = Control { owner: Arc::downgrade(&owner), wishes: sender };
        Self { pid, owner, reports, wishes, control, streams, turn: 0 }
    }

    /// Returns the process id of the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns how sure the end of this tree is.
    pub fn guarantee(&self) -> Guarantee {
        self.owner.guarantee()
    }

    /// Returns a handle to act on the child while somebody else waits for what happens.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits for the next thing that happens; never ends when nothing more can.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Happening {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next thing that happens.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        // Wishes are not happenings, and come first: they change what the streams do.
        while let Poll::Ready(Some(wish)) = self.wishes.poll_recv(context) {
            self.streams.obey(wish);
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

    fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<Happening> {
        match ready!(self.reports.poll_recv(context)) {
            Some(happening) => Poll::Ready(happening),
            // Its owner is gone, and has told all that it will.
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.pid).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// Acts on a child from anywhere. When the child is dropped or gone, there is nothing to act on, and nothing is done.
#[derive(Clone)]
pub struct Control {
    owner: std::sync::Weak<dyn Owner>,
    wishes: UnboundedSender<Wish>,
}

impl Control {
    /// Sends a signal to the program or to its whole tree.
    pub fn signal(&self, signal: Signal, scope: Scope) {
        if let Some(owner) = self.owner.upgrade() {
            owner.signal(signal, scope);
        }
    }

    /// Sends SIGKILL to the whole tree until nothing is left of it. `Exited` follows, but no `Swept`.
    pub fn kill_tree(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.end(Duration::ZERO, Answer::NotWanted);
        }
    }

    /// Ends what there is of the tree: SIGTERM, after the grace SIGKILL, until nothing is left; then `Swept` follows.
    ///
    /// Usually called after `Exited`, for what outlived the program; before it, the program is ended as well. Several
    /// calls before the answer get one answer, and the shortest grace counts.
    pub fn sweep(&self, grace: Duration) {
        if let Some(owner) = self.owner.upgrade() {
            owner.end(grace, Answer::Wanted);
        }
    }

    /// Queues bytes for standard input, behind those that wait already. `StdinWritten` tells what really went out.
    ///
    /// After `StdinClosed` there is nobody to write to, and the bytes are dropped.
    pub fn write(&self, bytes: Vec<u8>) {
        self.wish(Wish::Write(bytes));
    }

    /// Closes standard input when everything queued is written. `StdinClosed` follows.
    pub fn close_stdin(&self) {
        self.wish(Wish::CloseStdin);
    }

    /// Gives the terminal another size; without one, does nothing.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.wish(Wish::Resize { rows, cols });
    }

    fn wish(&self, wish: Wish) {
        // The receiver is gone only with the child.
        let _: Result<(), _> = self.wishes.send(wish);
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("owner", &self.owner.upgrade()).finish_non_exhaustive()
    }
}
