//! A client of a session's control socket.
//!
//! Two tasks own the connection. Orders can be in flight at the same time, from any clone of the [`OrderSender`], while the head is
//! watched. Events are read from the journal; [`SocketClient::watch`] only reports that there are new ones.

mod errors;
mod unanswered;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_process::ancestry::SocketPeer;
use bowline_process::check_runtime;
use bowline_protocol::{Receipt, SessionId, SessionOrder, SessionSnapshot};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot, watch};

use super::build::ProgramBuild;
use super::lines::{
    ClientCall, ClientHello, HelloLine, LINE_LIMIT, LineError, LineErrorCode, LineVersions, ReadLine,
    ServerHello, ServerLine, VERSIONS, encode, read_line,
};
use super::place::{SocketError, SocketPlaces, check_dir};
use super::rights::{ClientRights, distrust};
use crate::sessions::journal::{Home, JournalError, SessionMeta, is_live};
use crate::system::surroundings::Surroundings;
pub use errors::{ConnectError, OrderError};

/// How long a runner may take to reply to the first line. A runner that another process stopped does not reply.
const HELLO: Duration = Duration::from_secs(10);

/// The lines that may wait for the runner to read them.
const LINES: usize = 16;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The stint is over: the runner ended the session's agent and itself.
    StintOver,
    /// The runner was killed, or the connection broke.
    Lost,
}

/// A connection to the runner of a session. Dropping it, and all its senders, ends the connection; the session goes on.
#[derive(Debug)]
pub struct SocketClient {
    sender: OrderSender,
    hello: ServerHello,
    head: watch::Receiver<u64>,
}

/// Sends orders over the connection of a [`SocketClient`].
#[derive(Clone, Debug)]
pub struct OrderSender {
    lines: mpsc::Sender<Vec<u8>>,
    calls: Arc<Mutex<OpenCalls>>,
}

#[derive(Debug, Default)]
struct OpenCalls {
    last_id: u64,
    open: HashMap<u64, OpenCall>,
    end: Option<ConnectionEnd>,
}

/// The way back to the caller.
#[derive(Debug)]
enum OpenCall {
    Order(oneshot::Sender<Result<Receipt, OrderError>>),
    Snapshot(oneshot::Sender<Result<SessionSnapshot, OrderError>>),
}

impl SocketClient {
    /// Connects to the runner of a session. Needs a tokio runtime with timers and IO.
    pub async fn connect(
        home: &Home,
        session: &SessionId,
        surroundings: &Surroundings,
    ) -> Result<Self, ConnectError> {
        Self::connect_in(home, session, &SocketPlaces::of(surroundings)).await
    }

    /// Connects to the runner of a session by the variables of this process.
    pub async fn connect_from_env(home: &Home, session: &SessionId) -> Result<Self, ConnectError> {
        Self::connect(home, session, &Surroundings::from_env()).await
    }

    pub(super) async fn connect_in(
        home: &Home,
        session: &SessionId,
        places: &SocketPlaces,
    ) -> Result<Self, ConnectError> {
        match Self::connect_speaking(VERSIONS, home, session, places).await {
            // A runner that accepts no list of versions, such as the first ones.
            Err(ConnectError::Version { runner, .. }) if VERSIONS.has(runner) => {
                let versions = LineVersions { oldest: runner, newest: runner };
                Self::connect_speaking(versions, home, session, places).await
            }
            met => met,
        }
    }

    pub(super) async fn connect_speaking(
        versions: LineVersions,
        home: &Home,
        session: &SessionId,
        places: &SocketPlaces,
    ) -> Result<Self, ConnectError> {
        check_runtime()?;
        let (mut impostor, mut unsafe_dir) = (None, None);
        for path in places.candidates(home, session) {
            let stream = match open(&path).await {
                Ok(Some(stream)) => stream,
                Ok(None) => continue,
                // A runner passes over a directory that is not safe, too.
                Err(error @ ConnectError::Socket(_)) => {
                    unsafe_dir = unsafe_dir.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match Self::introduce(stream, home, session, versions).await {
                // The runner may listen in the other directory.
                Err(error @ ConnectError::NotRunner { .. }) => impostor = impostor.or(Some(error)),
                met => return met,
            }
        }
        if let Some(error) = impostor {
            return Err(error);
        }
        match (unsafe_dir, unreachable_session(home, session)?) {
            // A session that is over has no socket anywhere.
            (None, error) | (Some(_), error @ ConnectError::NotRunning { .. }) => Err(error),
            (Some(error), _) => Err(error),
        }
    }

    /// Exchanges the first lines.
    async fn introduce(
        stream: UnixStream,
        home: &Home,
        session: &SessionId,
        versions: LineVersions,
    ) -> Result<Self, ConnectError> {
        let peer = SocketPeer::of(stream.as_fd()).map_err(ConnectError::Io)?;
        if !peer.is_same_user() {
            return Err(ConnectError::OtherUser { session: session.clone(), user: peer.user() });
        }
        let not_runner =
            |reason| ConnectError::NotRunner { session: session.clone(), pid: peer.pid(), reason };
        // Before the first byte: an agent can remove the socket and bind one of its own, which has the same user.
        let recorded = SessionMeta::read(&home.session_dir(session)?)?.runner.map(|runner| runner.pid);
        if let Some(reason) = distrust(&peer, recorded) {
            return Err(not_runner(reason));
        }
        let (from, mut to) = stream.into_split();
        let mut from = BufReader::new(from);
        let line = encode(&HelloLine { hello: own_hello(versions) });
        let exchange = async {
            // A runner that refuses the connection may have closed it already. Its reason is read below.
            let written = to.write_all(&line).await;
            match read_line(&mut from).await? {
                ReadLine::Line(line) => Ok(serde_json::from_slice::<ServerLine>(&line)?),
                ReadLine::TooLong => Err(io::ErrorKind::InvalidData.into()),
                ReadLine::End => Err(written.err().unwrap_or(io::ErrorKind::UnexpectedEof.into())),
            }
        };
        let reply = tokio::time::timeout(HELLO, exchange).await.map_err(|_| ConnectError::Silent)?;
        let hello = match reply.map_err(ConnectError::Io)? {
            ServerLine { hello: Some(hello), .. } => hello,
            ServerLine { error: Some(LineError { code: LineErrorCode::Version, version, .. }), .. } => {
                return Err(ConnectError::Version { runner: version, client: versions.newest });
            }
            ServerLine { error: Some(error), .. } => {
                return Err(ConnectError::Refused { message: error.message });
            }
            _ => return Err(ConnectError::Refused { message: "it sent no `hello`".to_owned() }),
        };
        if !versions.has(hello.version) {
            return Err(ConnectError::Version { runner: hello.version, client: versions.newest });
        }
        // A link or a rename can lead to the socket of another session.
        if hello.session != *session {
            return Err(not_runner(format!("it serves the session {}", hello.session)));
        }
        let (lines, mut queue) = mpsc::channel::<Vec<u8>>(LINES);
        let (head_sender, head) = watch::channel(hello.head);
        let calls = Arc::new(Mutex::new(OpenCalls::default()));
        tokio::spawn(async move {
            // One task writes, so that the lines of two clones never mix. A line of 8 MiB takes many writes.
            while let Some(line) = queue.recv().await {
                // The reading task notices that the runner is gone, and answers the open calls.
                if to.write_all(&line).await.is_err() {
                    return;
                }
            }
            // All senders are gone. Dropping the writing half ends the connection.
        });
        tokio::spawn(read(from, head_sender, calls.clone()));
        Ok(Self { sender: OrderSender { lines, calls }, hello, head })
    }

    /// Returns the session.
    pub fn session(&self) -> &SessionId {
        &self.hello.session
    }

    /// Returns what this process could do when it connected. The runner checks it again for each order.
    pub fn rights(&self) -> ClientRights {
        self.hello.rights()
    }

    /// Returns whether the runner is of an older build than this program, and can hand the session over.
    pub(crate) fn runner_is_older(&self) -> bool {
        self.hello.build.as_ref().is_some_and(|runner| runner.is_older_than(ProgramBuild::own()))
    }

    /// Has the runner hand the session over to a runner of this program. The connection then ends.
    pub(crate) async fn hand_over(&self) -> Result<Receipt, OrderError> {
        self.sender.answered(|id| ClientCall::HandOver { id }).await
    }

    /// Returns a sender of orders that can be cloned.
    pub fn sender(&self) -> OrderSender {
        self.sender.clone()
    }

    /// Gives an order and waits for its receipt.
    pub async fn order(&self, order: SessionOrder) -> Result<Receipt, OrderError> {
        self.sender.order(order).await
    }

    /// Returns the state of the session.
    pub async fn snapshot(&self) -> Result<SessionSnapshot, OrderError> {
        self.sender.snapshot().await
    }

    /// Returns the number of the last event, and wakes the caller when it moves. It closes when the connection ends;
    /// [`Self::end`] then has the reason.
    pub async fn watch(&self) -> Result<watch::Receiver<u64>, OrderError> {
        self.sender.send(ClientCall::Watch).await?;
        Ok(self.head.clone())
    }

    /// Returns how the connection ended, if it did.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.sender.calls().end
    }
}

impl OrderSender {
    /// Gives an order and waits for its receipt. Dropping the future does not take the order back.
    pub async fn order(&self, order: SessionOrder) -> Result<Receipt, OrderError> {
        self.answered(|id| ClientCall::Order { id, order }).await
    }

    /// Makes a call that is answered by a receipt.
    async fn answered(&self, call: impl FnOnce(u64) -> ClientCall) -> Result<Receipt, OrderError> {
        let (reply, answer) = oneshot::channel();
        let id = self.register(OpenCall::Order(reply))?;
        self.send_call(id, call(id)).await?;
        // The reading task drops the other end only with its own end, after it has answered all calls that it knew.
        answer.await.unwrap_or(Err(OrderError::Lost))
    }

    /// Returns the state of the session.
    pub async fn snapshot(&self) -> Result<SessionSnapshot, OrderError> {
        let (reply, answer) = oneshot::channel();
        let id = self.register(OpenCall::Snapshot(reply))?;
        self.send_call(id, ClientCall::Snapshot { id }).await?;
        answer.await.unwrap_or(Err(OrderError::Lost))
    }

    fn calls(&self) -> MutexGuard<'_, OpenCalls> {
        // No code under this lock panics in the middle of a change.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a call, before its line is sent: the answer may come at once.
    fn register(&self, call: OpenCall) -> Result<u64, OrderError> {
        let mut calls = self.calls();
        // Under the lock under which the reading task answers all open calls at the end.
        if let Some(end) = calls.end {
            return Err(after(end));
        }
        calls.last_id += 1;
        let id = calls.last_id;
        calls.open.insert(id, call);
        Ok(id)
    }

    async fn send_call(&self, id: u64, call: ClientCall) -> Result<(), OrderError> {
        let sent = self.send(call).await;
        if sent.is_err() {
            self.calls().open.remove(&id);
        }
        sent
    }

    async fn send(&self, call: ClientCall) -> Result<(), OrderError> {
        let line = encode(&call.into_line());
        if line.len() > LINE_LIMIT {
            return Err(OrderError::TooLong { bytes: line.len() });
        }
        let sent = self.lines.send(line).await;
        sent.map_err(|_| after(self.calls().end.unwrap_or(ConnectionEnd::Lost)))
    }
}

/// How this program introduces itself.
fn own_hello(versions: LineVersions) -> ClientHello {
    ClientHello {
        version: versions.newest,
        oldest: Some(versions.oldest).filter(|oldest| *oldest != versions.newest),
        program: format!("bowline {}", env!("CARGO_PKG_VERSION")),
        build: Some(ProgramBuild::own().clone()),
    }
}

fn after(end: ConnectionEnd) -> OrderError {
    match end {
        ConnectionEnd::StintOver => OrderError::Over,
        ConnectionEnd::Lost => OrderError::Lost,
    }
}

/// Connects to a path. None if no process listens there.
async fn open(path: &Path) -> Result<Option<UnixStream>, ConnectError> {
    // Not only the socket: who can replace the file could read the prompts.
    match path.parent().map(check_dir) {
        Some(Err(SocketError::Io { source, .. })) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(())) | None => {}
    }
    match UnixStream::connect(path).await {
        Ok(stream) => Ok(Some(stream)),
        // Missing, or left by a runner that was killed.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(SocketError::io("connect to", path)(error).into()),
    }
}

/// Returns why no process listens for a session.
fn unreachable_session(home: &Home, session: &SessionId) -> Result<ConnectError, JournalError> {
    let dir = home.session_dir(session)?;
    let meta = SessionMeta::read(&dir)?;
    let session = session.clone();
    Ok(match is_live(&dir)? {
        true => ConnectError::NoSocket { session, pid: meta.runner.map(|runner| runner.pid) },
        false => ConnectError::NotRunning { session, state: meta.state },
    })
}

/// Passes the runner's lines on until the connection ends.
async fn read(mut from: BufReader<OwnedReadHalf>, head: watch::Sender<u64>, calls: Arc<Mutex<OpenCalls>>) {
    let lock = || calls.lock().unwrap_or_else(PoisonError::into_inner);
    let mut end = ConnectionEnd::Lost;
    // A line that is too long ends the connection like a broken one: the rest of it is not a line.
    while let Ok(ReadLine::Line(line)) = read_line(&mut from).await {
        let line = match serde_json::from_slice::<ServerLine>(&line) {
            Ok(line) => line,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a line of the runner is skipped");
                continue;
            }
        };
        if line.end.is_some() {
            end = ConnectionEnd::StintOver;
        }
        if let Some(seq) = line.head {
            head.send_replace(seq);
        }
        let call = line.id.and_then(|id| lock().open.remove(&id));
        if let Some(call) = call {
            call.answer(line);
        }
    }
    let open = {
        let mut calls = lock();
        calls.end = Some(end);
        std::mem::take(&mut calls.open)
    };
    for call in open.into_values() {
        call.fail(after(end));
    }
}

impl OpenCall {
    /// Hands an answer to the caller, who may have gone.
    fn answer(self, line: ServerLine) {
        if let Some(error) = line.error {
            return self.fail(OrderError::NotUnderstood { message: error.message });
        }
        if let Some(refused) = line.refused {
            return self.fail(OrderError::Refused(refused));
        }
        let strange = || OrderError::NotUnderstood { message: "the answer is of another sort".to_owned() };
        match self {
            Self::Order(reply) => {
                let _: Result<(), _> = reply.send(line.receipt.ok_or_else(strange));
            }
            Self::Snapshot(reply) => {
                let _: Result<(), _> =
                    reply.send(line.snapshot.map(|snapshot| *snapshot).ok_or_else(strange));
            }
        }
    }

    fn fail(self, error: OrderError) {
        match self {
            Self::Order(reply) => {
                let _: Result<(), _> = reply.send(Err(error));
            }
            Self::Snapshot(reply) => {
                let _: Result<(), _> = reply.send(Err(error));
            }
        }
    }
}
