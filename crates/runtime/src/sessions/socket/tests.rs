//! Clients and the runner's side over real sockets, with a fake in place of the session's owner.

mod builds;
mod place;
mod requests;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_process::ancestry::SocketPeer;
use bowline_protocol::kinds::{ControlMode, SessionState};
use bowline_protocol::{
    ApprovalVerdict, Json, OrderRefused, PromptId, Receipt, SessionId, SessionOrder, SessionSnapshot,
    WhenBusy,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::client::{ConnectError, ConnectionEnd, OrderError, SocketClient};
use super::lines::{LineVersions, VERSIONS};
use super::place::SocketPlaces;
use super::rights::{ClientRights, PeerJudge};
use super::server::{ControlSocket, IncomingOrder, ServedSession, SessionRequest, serve};
use crate::sessions::journal::{Home, SessionMeta};
use crate::system::clock;

/// As long as a loaded machine may need.
const LONG: Duration = Duration::from_secs(30);

/// Gives full rights until it is told otherwise.
#[derive(Debug, Default)]
struct SwitchedJudge {
    watch_only: AtomicBool,
    own_agent: AtomicBool,
}

impl PeerJudge for SwitchedJudge {
    fn rights(&self, _: &SocketPeer) -> ClientRights {
        match self.watch_only.load(Ordering::Relaxed) {
            true => ClientRights::Watch { why: "a test".to_owned() },
            false => ClientRights::Full,
        }
    }

    fn is_own_agent(&self, _: &SocketPeer) -> bool {
        self.own_agent.load(Ordering::Relaxed)
    }
}

/// A runner with a socket, and nothing that answers.
struct FakeRunner {
    _place: tempfile::TempDir,
    home: Home,
    session: SessionId,
    places: SocketPlaces,
    path: PathBuf,
    judge: Arc<SwitchedJudge>,
    requests: mpsc::Receiver<SessionRequest>,
    head: watch::Sender<u64>,
    served: JoinHandle<()>,
}

impl FakeRunner {
    fn start() -> Self {
        Self::speaking(VERSIONS)
    }

    fn speaking(versions: LineVersions) -> Self {
        let place = tempfile::tempdir().unwrap();
        let runtime = place.path().join("run");
        std::fs::DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        let home = Home::at(place.path().join("home"));
        let session = SessionId::from("s-20261115-083000123-000g40zz");
        let dir = home.session_dir(&session).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let meta = SessionMeta::new(session.clone(), "practice", clock::wall());
        std::fs::write(dir.join("session.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
        let places = SocketPlaces::at(&runtime, &place.path().join("shared"));
        let socket = ControlSocket::bind(places.clone(), home.clone(), session.clone()).unwrap();
        let path = socket.path().to_owned();
        let (requests_sender, requests) = mpsc::channel(64);
        let (head, head_receiver) = watch::channel(7);
        let judge = Arc::new(SwitchedJudge::default());
        let served = ServedSession {
            session: session.clone(),
            requests: requests_sender,
            head: head_receiver,
            judge: judge.clone(),
            versions,
        };
        let served = tokio::spawn(serve(socket, served));
        Self { _place: place, home, session, places, path, judge, requests, head, served }
    }

    async fn client(&self) -> SocketClient {
        SocketClient::connect_in(&self.home, &self.session, &self.places).await.unwrap()
    }

    async fn next_order(&mut self) -> IncomingOrder {
        match within(self.requests.recv()).await {
            Some(SessionRequest::Order(order)) => order,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the stint. Returns when the socket is gone.
    async fn end(self) -> (Home, SessionId, SocketPlaces, PathBuf, tempfile::TempDir) {
        let Self { _place, home, session, places, path, requests, head, served, .. } = self;
        drop((requests, head));
        within(served).await.unwrap();
        (home, session, places, path, _place)
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("in time")
}

fn prompt(text: &str) -> SessionOrder {
    SessionOrder::Prompt {
        text: text.to_owned(),
        attachments: Vec::new(),
        when_busy: WhenBusy::Queue,
        from: None,
    }
}

fn snapshot(session: &SessionId) -> SessionSnapshot {
    SessionSnapshot {
        session: session.clone(),
        head: 7,
        reason: None,
        state: SessionState::Idle,
        provider: "practice".to_owned(),
        native_session: None,
        model: None,
        permission: None,
        control: ControlMode::AgentLed,
        turn: None,
        last_turn: None,
        has_process: true,
        approvals: Vec::new(),
        questions: Vec::new(),
        queue: Vec::new(),
        offered: Vec::new(),
        options: Vec::new(),
    }
}

#[tokio::test]
async fn orders_are_answered_in_any_order_and_arrive_in_theirs() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    assert_eq!((client.session(), client.rights()), (&runner.session, ClientRights::Full));
    let (one, two) = (client.sender(), client.sender());
    let first = tokio::spawn(async move { one.order(prompt("first")).await });
    let first_order = runner.next_order().await;
    assert_eq!(first_order.order, prompt("first"));
    assert!(first_order.from.to_string().starts_with("bowline 0."), "{}", first_order.from);
    assert!(first_order.from.to_string().ends_with(&format!("(pid {})", std::process::id())));
    let second = tokio::spawn(async move { two.order(SessionOrder::Interrupt).await });
    let second_order = runner.next_order().await;
    second_order.reply.send(Err(OrderRefused::TurnOver)).unwrap();
    assert!(matches!(within(second).await.unwrap(), Err(OrderError::Refused(OrderRefused::TurnOver))));
    let receipt = Receipt::Queued { prompt: PromptId::from("p1"), ahead: 2, held: false };
    first_order.reply.send(Ok(receipt.clone())).unwrap();
    assert_eq!(within(first).await.unwrap().unwrap(), receipt);
}

#[tokio::test]
async fn the_input_of_an_approval_arrives_to_the_letter() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let input = Json::parse(r#"{"b":1,"a":123456789012345678901234567890,"b":2}"#).unwrap();
    let verdict = ApprovalVerdict::Allow { input: Some(input) };
    let order = SessionOrder::Decide { approval: None, verdict };
    let (sender, sent) = (client.sender(), order.clone());
    tokio::spawn(async move { sender.order(sent).await });
    assert_eq!(runner.next_order().await.order, order);
}

#[tokio::test]
async fn a_snapshot_is_returned() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let expected = snapshot(&runner.session);
    let asked = tokio::spawn(async move { client.snapshot().await });
    let Some(SessionRequest::Snapshot(request)) = within(runner.requests.recv()).await else {
        panic!("a snapshot is requested");
    };
    request.reply.send(expected.clone()).unwrap();
    assert_eq!(within(asked).await.unwrap().unwrap(), expected);
}

#[tokio::test]
async fn a_watcher_sees_the_newest_head_and_the_end() {
    let runner = FakeRunner::start();
    let client = runner.client().await;
    // Moved between the `hello` and the request to watch.
    runner.head.send_replace(8);
    let mut head = client.watch().await.unwrap();
    within(head.wait_for(|seq| *seq == 8)).await.unwrap();
    for seq in 9..=5000 {
        runner.head.send_replace(seq);
    }
    within(head.wait_for(|seq| *seq == 5000)).await.unwrap();
    assert_eq!(client.end(), None);
    runner.head.send_replace(5001);
    let (home, session, places, path, _place) = runner.end().await;
    // The last events are not missed.
    within(async { while head.changed().await.is_ok() {} }).await;
    assert_eq!((*head.borrow(), client.end()), (5001, Some(ConnectionEnd::StintOver)));
    assert!(matches!(client.order(SessionOrder::Interrupt).await, Err(OrderError::Over)));
    assert!(!path.exists(), "the socket is removed");
    let error = SocketClient::connect_in(&home, &session, &places).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotRunning { state: SessionState::Created, .. }), "{error:?}");
}

#[tokio::test]
async fn open_orders_are_answered_at_the_end() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let open = tokio::spawn(async move { client.order(prompt("late")).await });
    let order = runner.next_order().await;
    let ending = runner.end();
    drop(order);
    within(ending).await;
    assert!(matches!(within(open).await.unwrap(), Err(OrderError::Refused(OrderRefused::Stopping))));
}

#[tokio::test]
async fn a_client_that_leaves_changes_nothing() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let sender = client.sender();
    let lost = tokio::spawn(async move { sender.order(prompt("mine")).await });
    let order = runner.next_order().await;
    lost.abort();
    drop(client);
    // The order goes on, and its answer goes nowhere.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let _: Result<(), _> = order.reply.send(Ok(Receipt::Done));
    let next = runner.client().await;
    let served = tokio::spawn(async move { next.order(SessionOrder::Compact).await });
    runner.next_order().await.reply.send(Ok(Receipt::Done)).unwrap();
    assert_eq!(within(served).await.unwrap().unwrap(), Receipt::Done);
}

#[tokio::test]
async fn rights_are_checked_for_every_order() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    runner.judge.watch_only.store(true, Ordering::Relaxed);
    let Err(OrderError::Refused(OrderRefused::Forbidden { reason })) = client.order(prompt("x")).await else {
        panic!("it may only watch");
    };
    assert_eq!(reason, "a test");
    let later = runner.client().await;
    assert_eq!(later.rights(), ClientRights::Watch { why: "a test".to_owned() });
    // It may watch, and read the state.
    let mut head = later.watch().await.unwrap();
    runner.head.send_replace(9);
    within(head.wait_for(|seq| *seq == 9)).await.unwrap();
    let expected = snapshot(&runner.session);
    let asked = tokio::spawn(async move { later.snapshot().await });
    match within(runner.requests.recv()).await {
        Some(SessionRequest::Snapshot(request)) => request.reply.send(expected.clone()).unwrap(),
        other => panic!("no order came through: {other:?}"),
    }
    assert_eq!(within(asked).await.unwrap().unwrap(), expected);
}

/// A client that writes what it likes.
struct RawClient {
    from: BufReader<UnixStream>,
}

impl RawClient {
    async fn connect(runner: &FakeRunner) -> Self {
        Self { from: BufReader::new(UnixStream::connect(&runner.path).await.unwrap()) }
    }

    async fn introduced(runner: &FakeRunner) -> Self {
        let mut client = Self::connect(runner).await;
        client.write(r#"{"hello":{"version":1,"program":"raw"}}"#).await;
        // The build differs with the time at which the test was compiled.
        let hello = client.read().await.unwrap();
        let (documented, build) = hello.split_once(r#","build":{"version":"0."#).unwrap();
        assert_eq!(
            documented,
            r#"{"hello":{"version":1,"session":"s-20261115-083000123-000g40zz","head":7,"rights":"full""#
        );
        assert!(build.contains(r#"","built":"#) && build.ends_with("}}}"), "{build}");
        client
    }

    async fn write(&mut self, line: &str) {
        self.from.get_mut().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Returns a line, or none at the end.
    async fn read(&mut self) -> Option<String> {
        let mut line = String::new();
        match within(self.from.read_line(&mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }
}

#[tokio::test]
async fn the_lines_are_as_documented() {
    let mut runner = FakeRunner::start();
    let mut client = RawClient::introduced(&runner).await;
    client.write(r#"{"id":1,"order":{"order":"interrupt"}}"#).await;
    runner.next_order().await.reply.send(Ok(Receipt::Done)).unwrap();
    assert_eq!(client.read().await.unwrap(), r#"{"id":1,"receipt":{"receipt":"done"}}"#);
    client.write(r#"{"id":2,"order":{"order":"interrupt"}}"#).await;
    runner.next_order().await.reply.send(Err(OrderRefused::TurnOver)).unwrap();
    assert_eq!(client.read().await.unwrap(), r#"{"id":2,"refused":{"refused":"turn_over"}}"#);
    client.write(r#"{"watch":{}}"#).await;
    assert_eq!(client.read().await.unwrap(), r#"{"head":7}"#);
    runner.head.send_replace(8);
    assert_eq!(client.read().await.unwrap(), r#"{"head":8}"#);
    runner.end().await;
    assert_eq!(client.read().await.unwrap(), r#"{"head":8}"#);
    assert_eq!(client.read().await.unwrap(), r#"{"end":{}}"#);
    assert_eq!(client.read().await, None);
}

#[tokio::test]
async fn a_bad_line_is_answered_and_the_connection_goes_on() {
    let mut runner = FakeRunner::start();
    let mut client = RawClient::introduced(&runner).await;
    for (line, expected) in [
        ("no json", r#"{"error":{"code":"bad_line","#),
        (r#"{"id":3,"order":{"order":"interrupt","x":1}}"#, r#"{"id":3,"error":{"code":"bad_line","#),
        (r#"{"id":4,"order":{"order":"dance"}}"#, r#"{"id":4,"error":{"code":"bad_line","#),
        (r#"{"id":5,"order":{"order":"stop"},"snapshot":{}}"#, r#"{"id":5,"error":{"code":"bad_line","#),
    ] {
        client.write(line).await;
        let answer = client.read().await.unwrap();
        assert!(answer.starts_with(expected), "{line}: {answer}");
    }
    client.write(r#"{"id":6,"order":{"order":"stop"}}"#).await;
    assert_eq!(runner.next_order().await.order, SessionOrder::Stop);
    assert_eq!(client.read().await.unwrap(), r#"{"id":6,"refused":{"refused":"stopping"}}"#);
}

#[tokio::test]
async fn a_client_that_cannot_be_served_gets_the_reason() {
    let runner = FakeRunner::start();
    for (line, expected) in [
        (r#"{"hello":{"version":2,"program":"later","new":1}}"#.to_owned(), r#"{"error":{"code":"version","#),
        (r#"{"id":1,"snapshot":{}}"#.to_owned(), r#"{"error":{"code":"bad_line","#),
    ] {
        let mut client = RawClient::connect(&runner).await;
        client.write(&line).await;
        let answer = client.read().await.unwrap();
        assert!(answer.starts_with(expected), "{line}: {answer}");
        assert!(answer.ends_with(r#""version":1}}"#), "{answer}");
        assert_eq!(client.read().await, None);
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_connection() {
    let runner = FakeRunner::start();
    let mut client = RawClient::introduced(&runner).await;
    let long = vec![b'x'; super::lines::LINE_LIMIT + 2];
    // The runner may stop reading before all is written.
    let _: std::io::Result<()> = client.from.get_mut().write_all(&long).await;
    let answer = client.read().await;
    assert!(answer.is_none_or(|answer| answer.starts_with(r#"{"error":{"code":"too_long","#)));
    let own = runner.client().await;
    let error = own.order(prompt(&"x".repeat(super::lines::LINE_LIMIT))).await.unwrap_err();
    assert!(matches!(error, OrderError::TooLong { .. }), "{error:?}");
}

#[tokio::test]
async fn a_prompt_may_be_big() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let big = prompt(&"x".repeat(7 << 20));
    let sent = big.clone();
    let order = tokio::spawn(async move { client.order(sent).await });
    let received = runner.next_order().await;
    assert!(received.order == big);
    received.reply.send(Ok(Receipt::Done)).unwrap();
    assert_eq!(within(order).await.unwrap().unwrap(), Receipt::Done);
}

#[tokio::test]
async fn a_slow_client_delays_no_other() {
    let mut runner = FakeRunner::start();
    let mut slow = RawClient::introduced(&runner).await;
    slow.write(r#"{"watch":{}}"#).await;
    // It asks and does not read, until its own connection is full.
    let asking = tokio::spawn(async move {
        for id in 0.. {
            let line = format!("{{\"id\":{id},\"unknown\":\"{}\"}}", "x".repeat(1000));
            if slow.from.get_mut().write_all(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = runner.client().await;
    let mut head = client.watch().await.unwrap();
    for seq in 8..=1000 {
        runner.head.send_replace(seq);
    }
    within(head.wait_for(|seq| *seq == 1000)).await.unwrap();
    let order = tokio::spawn(async move { client.order(SessionOrder::Compact).await });
    runner.next_order().await.reply.send(Ok(Receipt::Done)).unwrap();
    assert_eq!(within(order).await.unwrap().unwrap(), Receipt::Done);
    // The end of the stint does not wait for it longer than a second.
    runner.end().await;
    asking.abort();
}

#[tokio::test]
async fn watchers_leave_space_for_the_user() {
    let runner = FakeRunner::start();
    runner.judge.watch_only.store(true, Ordering::Relaxed);
    let mut agents = Vec::new();
    for _ in 0..16 {
        agents.push(runner.client().await);
    }
    let refused = SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await;
    assert!(matches!(refused, Err(ConnectError::Refused { .. })), "{refused:?}");
    runner.judge.watch_only.store(false, Ordering::Relaxed);
    let mut users = Vec::new();
    for _ in 0..48 {
        users.push(runner.client().await);
    }
    let refused = SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await;
    assert!(matches!(refused, Err(ConnectError::Refused { .. })), "{refused:?}");
    // A client that leaves frees its place.
    drop((agents, users));
    within(async {
        while SocketClient::connect_in(&runner.home, &runner.session, &runner.places).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_without_a_socket_is_named() {
    let runner = FakeRunner::start();
    let connect = |id: &str| {
        let id = SessionId::from(id);
        let (home, places) = (runner.home.clone(), runner.places.clone());
        async move { SocketClient::connect_in(&home, &id, &places).await.unwrap_err() }
    };
    assert!(matches!(connect("s-unknown").await, ConnectError::Journal(_)));
    // A runner whose session takes no orders: it holds the lock and has no socket.
    let other = SessionId::from("s-other");
    let dir = runner.home.session_dir(&other).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    let meta = SessionMeta::new(other.clone(), "practice", clock::wall());
    std::fs::write(dir.join("session.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    let not_running = connect("s-other").await;
    assert_eq!(not_running.to_string(), "session s-other is not running");
    let _lock = crate::sessions::journal::hold(&dir).unwrap().unwrap();
    let without = connect("s-other").await;
    assert!(matches!(without, ConnectError::NoSocket { pid: Some(_), .. }), "{without:?}");
}

#[tokio::test]
async fn a_lost_runner_is_reported() {
    let mut runner = FakeRunner::start();
    let client = runner.client().await;
    let mut head = client.watch().await.unwrap();
    let sender = client.sender();
    let order = tokio::spawn(async move { sender.order(prompt("x")).await });
    let _open = runner.next_order().await;
    // As if it was killed: no last line.
    runner.served.abort();
    assert!(matches!(within(order).await.unwrap(), Err(OrderError::Lost)));
    within(async { while head.changed().await.is_ok() {} }).await;
    assert_eq!(client.end(), Some(ConnectionEnd::Lost));
    assert!(matches!(client.snapshot().await, Err(OrderError::Lost)));
}
