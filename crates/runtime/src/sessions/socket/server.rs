//! The runner's side of the control socket: accepts clients and passes their requests to the owner of the session.
//!
//! No client delays the owner: each connection has its own task, which alone waits for its client, and a bounded queue. The
//! number of the last event is a value that a slow client reads late, not a queue.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_process::ancestry::SocketPeer;
use bowline_process::path_watch::PathWatch;
use bowline_protocol::{OrderRefused, Receipt, SessionId, SessionOrder, SessionSnapshot};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{self, ClientConnection};
use super::lines::{LineErrorCode, LineVersions, ServerLine, encode};
use super::place::{BoundSocket, SocketError, SocketPlaces};
use super::rights::{ClientRights, PeerJudge};
use crate::sessions::journal::Home;

/// The most clients at once.
const CLIENTS: usize = 64;

/// The most of them that may only watch: the processes of an agent must not keep the user out.
const WATCH_ONLY_CLIENTS: usize = 16;

/// How often the runner checks that its socket still has its path, in case the kernel did not report it.
const CHECK: Duration = Duration::from_secs(60);

/// The pause between two binds: an agent that replaces the socket again and again must not keep the runner busy.
const BIND_PAUSE: Duration = Duration::from_millis(100);

/// The pause after an error of `accept`, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How long clients may take to read their last lines at the end of the stint.
const FAREWELL: Duration = Duration::from_secs(1);

/// A request of a client, for the owner of the session.
#[derive(Debug)]
pub(crate) enum SessionRequest {
    /// Carry out an order.
    Order(IncomingOrder),
    /// Report the state of the session.
    Snapshot(SnapshotRequest),
    /// Hand the session over to a runner of a newer program.
    HandOver(HandOverRequest),
}

/// An order of a client. Dropping `reply` answers that the session is over.
#[derive(Debug)]
pub(crate) struct IncomingOrder {
    pub(crate) order: SessionOrder,
    pub(crate) from: OrderSource,
    pub(crate) reply: oneshot::Sender<Result<Receipt, OrderRefused>>,
}

/// A request of a client that may give orders, and that is of a newer build. Dropping `reply` answers that the session is over.
#[derive(Debug)]
pub(crate) struct HandOverRequest {
    /// The client's program, as the kernel names it.
    pub(crate) program: PathBuf,
    pub(crate) reply: oneshot::Sender<Result<Receipt, OrderRefused>>,
}

/// A request for a snapshot. Dropping `reply` answers that the session is over.
#[derive(Debug)]
pub(crate) struct SnapshotRequest {
    pub(crate) reply: oneshot::Sender<SessionSnapshot>,
}

/// The client that gave an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderSource {
    /// Its program, as it named itself. Untrusted; has no control characters and at most 64 letters.
    pub(crate) program: String,
    /// Its process id.
    pub(crate) pid: Option<u32>,
}

impl fmt::Display for OrderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = if self.program.is_empty() { "a client" } else { &self.program };
        match self.pid {
            Some(pid) => write!(f, "{program} (pid {pid})"),
            None => f.write_str(program),
        }
    }
}

/// The session that a socket serves.
#[derive(Debug)]
pub(crate) struct ServedSession<J> {
    pub(crate) session: SessionId,
    /// Takes the requests, in the order in which each client sent them.
    pub(crate) requests: mpsc::Sender<SessionRequest>,
    /// The number of the last public event. Dropping its sender ends the service.
    pub(crate) head: watch::Receiver<u64>,
    /// Decides what a client may do.
    pub(crate) judge: Arc<J>,
    /// The versions of the lines that this side speaks.
    pub(crate) versions: LineVersions,
}

impl<J> Clone for ServedSession<J> {
    fn clone(&self) -> Self {
        Self {
            session: self.session.clone(),
            requests: self.requests.clone(),
            head: self.head.clone(),
            judge: self.judge.clone(),
            versions: self.versions,
        }
    }
}

/// A control socket that listens. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    // Before the listener, so that no client finds a path without a listener.
    bound: BoundSocket,
    listener: UnixListener,
    /// None if the system has no watch left; the check every minute is then all.
    watch: Option<PathWatch>,
    places: SocketPlaces,
    home: Home,
    session: SessionId,
}

impl ControlSocket {
    /// Binds the socket of a session, whose journal this process has locked. Needs a tokio runtime with IO.
    pub(crate) fn bind(places: SocketPlaces, home: Home, session: SessionId) -> Result<Self, SocketError> {
        let (bound, listener) = bind(&places, &home, &session)?;
        let watch = watch_of(&bound);
        Ok(Self { bound, listener, watch, places, home, session })
    }

    /// Returns the path, for a report.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.bound.path()
    }

    /// Binds the socket again if its file is gone or another one: a login manager empties the runtime directory after the last
    /// logout, and an agent can replace the file. Returns whether it did.
    fn restore(&mut self) -> bool {
        if self.bound.is_there() {
            return false;
        }
        match bind(&self.places, &self.home, &self.session) {
            Ok((bound, listener)) => {
                (self.bound, self.listener) = (bound, listener);
                self.watch = watch_of(&self.bound);
                true
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the control socket is gone");
                false
            }
        }
    }

    /// Waits until something happened to the file of the socket. Cancel safe.
    async fn touched(&self, not_before: Instant) {
        // First the pause: a report that was read is lost if this future is dropped.
        tokio::time::sleep_until(not_before).await;
        match &self.watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    }
}

fn watch_of(bound: &BoundSocket) -> Option<PathWatch> {
    let watch = PathWatch::of(bound.path());
    if let Err(error) = &watch {
        tracing::debug!(
            error = error as &dyn std::error::Error,
            "the control socket is checked every minute"
        );
    }
    watch.ok()
}

fn bind(
    places: &SocketPlaces,
    home: &Home,
    session: &SessionId,
) -> Result<(BoundSocket, UnixListener), SocketError> {
    let (bound, listener) = BoundSocket::bind(places, home, session)?;
    // `from_std` expects a nonblocking descriptor. A blocking one would stop the whole thread of the runtime in `accept`.
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let listener = listener.map_err(SocketError::io("listen on", bound.path()))?;
    Ok((bound, listener))
}

/// Serves clients until the sender of `head` is dropped. Then it answers the open requests, ends the connections and removes the
/// socket.
pub(crate) async fn serve<J: PeerJudge>(mut socket: ControlSocket, served: ServedSession<J>) {
    let slots = ClientSlots {
        all: Arc::new(Semaphore::new(CLIENTS)),
        watch_only: Arc::new(Semaphore::new(WATCH_ONLY_CLIENTS)),
    };
    // Dropped at the end, which every connection notices once. `head` would wake all of them for every event.
    let (over, is_over) = watch::channel(());
    let mut clients = JoinSet::new();
    let mut head = served.head.clone();
    let mut check = tokio::time::interval(CHECK);
    // After a pause of the process (SIGSTOP), one check is enough for all that were missed.
    check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut bound_at = Instant::now();
    loop {
        tokio::select! {
            changed = head.changed() => if changed.is_err() {
                break;
            },
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if let Some(client) = admit(stream, &served, &slots, &is_over) {
                        clients.spawn(connection::run(client));
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a client could not connect");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            _ = check.tick() => {
                socket.restore();
            }
            () = socket.touched(bound_at + BIND_PAUSE) => if socket.restore() {
                bound_at = Instant::now();
                // The file may have been replaced before it was watched.
                check.reset_after(BIND_PAUSE);
            },
            // Frees the memory of connections that ended.
            Some(_) = clients.join_next() => {}
        }
    }
    drop(socket);
    drop(over);
    let farewell = async { while clients.join_next().await.is_some() {} };
    if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
        tracing::debug!(clients = clients.len(), "clients that do not read are disconnected");
    }
}

struct ClientSlots {
    all: Arc<Semaphore>,
    watch_only: Arc<Semaphore>,
}

/// A place among the connected clients. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct ClientSlot {
    _all: OwnedSemaphorePermit,
    _watch_only: Option<OwnedSemaphorePermit>,
}

impl ClientSlots {
    fn take(&self, rights: &ClientRights) -> Option<ClientSlot> {
        let watch_only = match rights {
            ClientRights::Full => None,
            ClientRights::Watch { .. } => Some(self.watch_only.clone().try_acquire_owned().ok()?),
        };
        Some(ClientSlot { _all: self.all.clone().try_acquire_owned().ok()?, _watch_only: watch_only })
    }
}

/// Accepts a client if it is this user's and there is space for it.
fn admit<J: PeerJudge>(
    stream: UnixStream,
    served: &ServedSession<J>,
    slots: &ClientSlots,
    over: &watch::Receiver<()>,
) -> Option<ClientConnection<J>> {
    let peer = match SocketPeer::of(stream.as_fd()) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a client without an owner is refused");
            return None;
        }
    };
    if !peer.is_same_user() {
        tracing::warn!(user = peer.user(), "a client of another user is refused");
        return None;
    }
    // The rights of the moment choose the slot. Each order is judged again, so a slot of the wrong kind grants nothing.
    let Some(slot) = slots.take(&served.judge.rights(&peer)) else {
        let message = format!("{CLIENTS} clients are connected");
        let line = encode(&ServerLine::error(None, LineErrorCode::TooManyClients, message));
        // A new socket has space for one line. A client that is gone does not need it.
        let _: io::Result<usize> = stream.try_write(&line);
        return None;
    };
    Some(ClientConnection { stream, peer, slot, served: served.clone(), over: over.clone() })
}
