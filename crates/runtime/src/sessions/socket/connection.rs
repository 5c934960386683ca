//! One client of the control socket: a reader that passes requests on, and a writer of answers and new heads.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bowline_process::ancestry::SocketPeer;
use bowline_protocol::{OrderRefused, SessionOrder};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::build::ProgramBuild;
use super::lines::{
    BadLine, ClientCall, ClientHello, EmptyObject, HelloLine, LINE_LIMIT, LineErrorCode, LineVersions,
    ReadLine, ServerHello, ServerLine, encode, read_line,
};
use super::rights::{ClientRights, PeerJudge};
use super::server::{
    ClientSlot, HandOverRequest, IncomingOrder, OrderSource, ServedSession, SessionRequest, SnapshotRequest,
};

/// How long a client may take to introduce itself.
const HELLO: Duration = Duration::from_secs(10);

/// The most requests of a client that wait for their answers. Then the reader waits, and the client with it.
const OPEN_REQUESTS: usize = 16;

/// The pause between two heads: an agent that prints fast moves the head a thousand times a second.
const HEAD_PAUSE: Duration = Duration::from_millis(5);

/// The most letters of a client's name.
const NAME_LIMIT: usize = 64;

/// A client that was accepted.
#[derive(Debug)]
pub(super) struct ClientConnection<J> {
    pub(super) stream: UnixStream,
    pub(super) peer: SocketPeer,
    /// Held until the connection ends.
    pub(super) slot: ClientSlot,
    pub(super) served: ServedSession<J>,
    /// Closed at the end of the stint.
    pub(super) over: watch::Receiver<()>,
}

/// A message from the reader to the writer.
#[derive(Debug)]
enum Outgoing {
    Line(Box<ServerLine>),
    /// The client wants to know about new events from now on.
    Watch,
}

impl Outgoing {
    fn line(line: ServerLine) -> Self {
        Self::Line(Box::new(line))
    }
}

/// Serves a client until it leaves or the stint is over.
pub(super) async fn run<J: PeerJudge>(connection: ClientConnection<J>) {
    if let Err(error) = talk(connection).await {
        // The client has gone. Its orders are carried out.
        tracing::debug!(error = &error as &dyn std::error::Error, "a client was lost");
    }
}

async fn talk<J: PeerJudge>(connection: ClientConnection<J>) -> io::Result<()> {
    let ClientConnection { stream, peer, slot: _slot, served, mut over } = connection;
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let (version, client) = match tokio::time::timeout(HELLO, hello(&mut from, served.versions)).await {
        Ok(Ok(Some(Ok(client)))) => client,
        Ok(Ok(Some(Err(refusal)))) => return to.write_all(&encode(&refusal)).await,
        // It left, or it does not speak.
        Ok(Ok(None)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    };
    let head = *served.head.borrow();
    let hello = ServerHello::new(version, served.session.clone(), head, served.judge.rights(&peer));
    to.write_all(&encode(&ServerLine { hello: Some(hello), ..ServerLine::default() })).await?;
    let (answers, queue) = mpsc::channel(OPEN_REQUESTS);
    let letters = client.program.chars().filter(|letter| !letter.is_control());
    let source = OrderSource { program: letters.take(NAME_LIMIT).collect(), pid: peer.pid() };
    let is_newer = client.build.is_some_and(|client| ProgramBuild::own().is_older_than(&client));
    let writer = write(to, queue, served.head.clone());
    let reader = RequestReader { peer, source, is_newer, served, answers, open: JoinSet::new() };
    // The reader ends first: when it drops `answers`, the writer writes the rest and ends. A writer that fails ends both.
    let read = async {
        reader.read(&mut from, &mut over).await?;
        // Wait for the writer, which returns the result.
        std::future::pending().await
    };
    tokio::select! {
        written = writer => written,
        failed = read => failed,
    }
}

/// Reads the first line. Returns the version that both sides speak and the client, or the line that refuses the client; none if it left.
async fn hello(
    from: &mut BufReader<OwnedReadHalf>,
    versions: LineVersions,
) -> io::Result<Option<Result<(u32, ClientHello), ServerLine>>> {
    let line = match read_line(from).await? {
        ReadLine::Line(line) => line,
        ReadLine::TooLong => return Ok(Some(Err(too_long()))),
        ReadLine::End => return Ok(None),
    };
    let hello = match serde_json::from_slice::<HelloLine>(&line) {
        Ok(HelloLine { hello }) => hello,
        Err(error) => {
            let message = format!("the first line is not a `hello`: {error}");
            return Ok(Some(Err(ServerLine::error(None, LineErrorCode::BadLine, message))));
        }
    };
    let Some(version) = versions.common(hello.versions()) else {
        let own = versions.newest;
        let message = format!("this runner speaks version {own}, and the client version {}", hello.version);
        return Ok(Some(Err(ServerLine::other_version(own, message))));
    };
    Ok(Some(Ok((version, hello))))
}

fn too_long() -> ServerLine {
    let message = format!("a line has more than {LINE_LIMIT} bytes");
    ServerLine::error(None, LineErrorCode::TooLong, message)
}

struct RequestReader<J> {
    peer: SocketPeer,
    source: OrderSource,
    /// Whether the client says that it is of a newer build than this program.
    is_newer: bool,
    served: ServedSession<J>,
    answers: mpsc::Sender<Outgoing>,
    /// Requests that wait for their answers. They go on if the client leaves.
    open: JoinSet<()>,
}

impl<J: PeerJudge> RequestReader<J> {
    /// Passes requests on until the client leaves or the stint is over, then waits for the open answers.
    async fn read(
        mut self,
        from: &mut BufReader<OwnedReadHalf>,
        over: &mut watch::Receiver<()>,
    ) -> io::Result<()> {
        loop {
            let line = tokio::select! {
                line = read_line(from) => line?,
                // Its sender is only ever dropped. The line that was being read is lost with the connection.
                _ = over.changed() => break,
            };
            let outgoing = match line {
                ReadLine::Line(line) => match ClientCall::read(&line) {
                    Ok(call) => self.pass_on(call).await,
                    Err(BadLine { id, message }) => {
                        Some(Outgoing::line(ServerLine::error(id, LineErrorCode::BadLine, message)))
                    }
                },
                ReadLine::TooLong => {
                    self.put(Outgoing::line(too_long())).await;
                    break;
                }
                ReadLine::End => break,
            };
            if let Some(outgoing) = outgoing {
                self.put(outgoing).await;
            }
            while self.open.len() >= OPEN_REQUESTS {
                self.open.join_next().await;
            }
            // Frees the memory of requests that were answered.
            while self.open.try_join_next().is_some() {}
        }
        while self.open.join_next().await.is_some() {}
        Ok(())
    }

    async fn put(&self, outgoing: Outgoing) {
        // It fails when the writer has ended, which ends the connection.
        let _: Result<(), _> = self.answers.send(outgoing).await;
    }

    /// Passes a request to the owner of the session. Returns the answer if it is known at once.
    async fn pass_on(&mut self, call: ClientCall) -> Option<Outgoing> {
        match call {
            ClientCall::Watch => Some(Outgoing::Watch),
            ClientCall::Snapshot { id } => {
                let (reply, answer) = oneshot::channel();
                self.send(SessionRequest::Snapshot(SnapshotRequest { reply })).await;
                self.await_answer(async move {
                    match answer.await {
                        Ok(snapshot) => ServerLine {
                            id: Some(id),
                            snapshot: Some(Box::new(snapshot)),
                            ..ServerLine::default()
                        },
                        Err(_) => ServerLine::answer(id, Err(OrderRefused::Stopping)),
                    }
                });
                None
            }
            ClientCall::HandOver { id } => {
                let program = match self.successor() {
                    Ok(program) => program,
                    Err(refused) => return Some(Outgoing::line(ServerLine::answer(id, Err(refused)))),
                };
                let (reply, answer) = oneshot::channel();
                self.send(SessionRequest::HandOver(HandOverRequest { program, reply })).await;
                self.await_answer(async move {
                    ServerLine::answer(id, answer.await.unwrap_or(Err(OrderRefused::Stopping)))
                });
                None
            }
            ClientCall::Order { id, order } => {
                // For each order: the process may have executed another program, or exited and left its socket to a child.
                let judge = &self.served.judge;
                // An agent may ask its own runner for another session, because a person decides that.
                let may_ask = matches!(order, SessionOrder::Start { .. }) && judge.is_own_agent(&self.peer);
                if let ClientRights::Watch { why } = judge.rights(&self.peer)
                    && !may_ask
                {
                    let refused = Err(OrderRefused::Forbidden { reason: why });
                    return Some(Outgoing::line(ServerLine::answer(id, refused)));
                }
                let (reply, answer) = oneshot::channel();
                let from = self.source.clone();
                // Before the next line is read, so that orders arrive in the order in which the client sent them.
                self.send(SessionRequest::Order(IncomingOrder { order, from, reply })).await;
                self.await_answer(async move {
                    ServerLine::answer(id, answer.await.unwrap_or(Err(OrderRefused::Stopping)))
                });
                None
            }
        }
    }

    /// Returns the program that takes the session over: the client's, as the kernel names it, because a path that a client sends may be
    /// anything.
    fn successor(&self) -> Result<PathBuf, OrderRefused> {
        if let ClientRights::Watch { why } = self.served.judge.rights(&self.peer) {
            return Err(OrderRefused::Forbidden { reason: why });
        }
        let impossible = |reason| OrderRefused::Unsupported { reason };
        if !self.is_newer {
            return Err(impossible("the client is not newer than the runner".to_owned()));
        }
        let program = self.peer.program();
        program.map_err(|error| impossible(format!("the client's program cannot be started: {error}")))
    }

    async fn send(&self, request: SessionRequest) {
        // It fails at the end of the stint. The request is dropped, and its answer is then that the session is over.
        let _: Result<(), _> = self.served.requests.send(request).await;
    }

    fn await_answer(&mut self, answer: impl Future<Output = ServerLine> + Send + 'static) {
        let answers = self.answers.clone();
        self.open.spawn(async move {
            // It fails when the client has gone.
            let _: Result<(), _> = answers.send(Outgoing::line(answer.await)).await;
        });
    }
}

/// Writes answers, and heads to a client that watches. Ends when the reader has ended and all is written.
async fn write(
    mut to: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Outgoing>,
    mut head: watch::Receiver<u64>,
) -> io::Result<()> {
    let (mut watches, mut closed) = (false, false);
    let mut next_head = Instant::now();
    loop {
        tokio::select! {
            biased;
            outgoing = queue.recv() => match outgoing {
                Some(Outgoing::Line(line)) => to.write_all(&limited(&line)).await?,
                Some(Outgoing::Watch) => {
                    watches = true;
                    // The client may have missed events since its `hello`.
                    head.mark_changed();
                }
                None => break,
            },
            changed = moved(&mut head, next_head), if watches && !closed => match changed {
                Ok(seq) => {
                    to.write_all(&encode(&head_line(seq))).await?;
                    next_head = Instant::now() + HEAD_PAUSE;
                }
                Err(_) => closed = true,
            },
        }
    }
    match head.has_changed() {
        // The client left.
        Ok(_) => return Ok(()),
        Err(_) if watches => {
            // A closed channel does not report whether its last value was seen.
            let seq = *head.borrow();
            to.write_all(&encode(&head_line(seq))).await?;
        }
        Err(_) => {}
    }
    to.write_all(&encode(&ServerLine { end: Some(EmptyObject {}), ..ServerLine::default() })).await
}

/// Waits for the next head, at the earliest at this time.
async fn moved(head: &mut watch::Receiver<u64>, at: Instant) -> Result<u64, watch::error::RecvError> {
    tokio::time::sleep_until(at).await;
    head.changed().await?;
    Ok(*head.borrow_and_update())
}

fn head_line(seq: u64) -> ServerLine {
    ServerLine { head: Some(seq), ..ServerLine::default() }
}

/// Returns a line as bytes. A client does not read one above the limit.
fn limited(line: &ServerLine) -> Vec<u8> {
    let bytes = encode(line);
    if bytes.len() <= LINE_LIMIT {
        return bytes;
    }
    let message = format!("the answer has more than {LINE_LIMIT} bytes");
    encode(&ServerLine::error(line.id, LineErrorCode::TooLong, message))
}
