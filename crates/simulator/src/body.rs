//! The response body: a list of pieces with pauses between them, and an end that can be a failure.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::ledger::{OpenEntry, RequestOutcome};

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnding {
    /// Normally.
    Good,
    /// The connection is closed before the end.
    Cut,
    /// Nothing more is sent, and the connection stays open.
    Hang,
}

/// A piece, and the pause before it.
#[derive(Clone, Debug)]
pub(crate) struct BodyPiece {
    pub(crate) pause: Duration,
    pub(crate) bytes: Bytes,
}

impl BodyPiece {
    pub(crate) fn now(bytes: impl Into<Bytes>) -> Self {
        Self { pause: Duration::ZERO, bytes: bytes.into() }
    }
}

/// How many pieces may wait for the socket. One, so that the progress of the client is known.
const AHEAD: usize = 1;

/// A body that a task of its own feeds, so that pauses and hangs block no other request.
#[derive(Debug)]
pub(crate) struct PacedBody {
    pieces: mpsc::Receiver<Result<Bytes, BrokenOff>>,
    /// The announced length. A body that is cut announces more than it sends.
    announced: Option<u64>,
    /// The number of pieces that were taken, for the feeding task.
    taken: Arc<AtomicUsize>,
}

/// The error with which the simulator breaks the response off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenOff {
    /// By closing the connection.
    Closed,
    /// By resetting it.
    Reset,
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the scenario breaks the answer off")
    }
}

impl std::error::Error for BrokenOff {}

impl PacedBody {
    /// Starts to send pieces. `whole` is the length to announce if the response is one document.
    pub(crate) fn send(
        pieces: Vec<BodyPiece>,
        ending: BodyEnding,
        whole: Option<u64>,
        ticket: OpenEntry,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let taken = Arc::new(AtomicUsize::new(0));
        tokio::spawn(feed(pieces, ending, sender, Arc::clone(&taken), ticket));
        Self { pieces: receiver, announced: whole, taken }
    }

    /// Sends a text that is not in the ledger.
    pub(crate) fn whole(text: String) -> Self {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let announced = Some(text.len() as u64);
        // The channel has capacity for one.
        let _ = sender.try_send(Ok(text.into()));
        Self { pieces: receiver, announced, taken: Arc::default() }
    }
}

async fn feed(
    pieces: Vec<BodyPiece>,
    ending: BodyEnding,
    sender: mpsc::Sender<Result<Bytes, BrokenOff>>,
    taken: Arc<AtomicUsize>,
    ticket: OpenEntry,
) {
    let all = pieces.len();
    for piece in pieces {
        if !piece.pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(piece.pause) => {}
                // The client has left; dropping the ticket records that.
                () = sender.closed() => return,
            }
        }
        // hyper has dropped the body, because the client left. Dropping the ticket records that.
        if sender.send(Ok(piece.bytes)).await.is_err() {
            return;
        }
    }
    match ending {
        // There is capacity again when the last piece is on its way. A client that knows the length takes it and leaves.
        BodyEnding::Good => {
            if sender.reserve().await.is_ok() || taken.load(Ordering::Acquire) == all {
                ticket.end(RequestOutcome::Sent);
            }
        }
        BodyEnding::Cut => {
            // Record it first: a client may read the ledger as soon as its connection is closed.
            ticket.end(RequestOutcome::BrokenOff);
            // Whether the client is still there does not matter any more.
            let _ = sender.send(Err(BrokenOff::Closed)).await;
        }
        // Until the client closes the connection.
        BodyEnding::Hang => sender.closed().await,
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let piece = self.pieces.poll_recv(context);
        if matches!(piece, Poll::Ready(Some(Ok(_)))) {
            // Pairs with the `Acquire` load in `feed`.
            self.taken.fetch_add(1, Ordering::Release);
        }
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
