//! The server: its address, start and stop.

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::body::BrokenOff;
use crate::ledger::{Ledger, LedgerEntry, LedgerNews};
use crate::pick::AttemptCounts;
use crate::scenario::Scenario;
use crate::serve::{self, ServerState};

/// An address without a listener, to test how a program reacts to a refused connection.
pub const REFUSED: &str = "http://127.0.0.1:1";

/// The options of a simulator.
#[derive(Debug)]
pub struct SimulatorOptions {
    /// The address. Port 0 is any free one.
    pub listen: SocketAddr,
    /// The machines that can reach it.
    pub reach: NetworkReach,
    /// Scenarios besides the built-in ones. One with the same name replaces the built-in one.
    pub scenarios: Vec<Scenario>,
    /// A file for the ledger: one line is appended for each request.
    pub ledger_file: Option<PathBuf>,
    /// The receiver of finished requests.
    pub watcher: Option<mpsc::UnboundedSender<LedgerNews>>,
}

/// The machines that can reach a simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkReach {
    /// This machine only.
    #[default]
    Loopback,
    /// Every machine that can reach the address.
    Anywhere,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            reach: NetworkReach::Loopback,
            scenarios: Vec::new(),
            ledger_file: None,
            watcher: None,
        }
    }
}

/// Why a simulator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Other machines could reach it, and the caller did not allow that.
    #[error("`{0}` can be reached from other machines")]
    NotLoopback(SocketAddr),
    /// The address is in use.
    #[error("port {} of {} is in use", .0.port(), .0.ip())]
    PortInUse(SocketAddr),
    /// It cannot listen there.
    #[error("could not listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file for the ledger cannot be written.
    #[error("could not open the ledger `{}`", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Two scenarios have the same name.
    #[error("two scenarios are called `{0}`")]
    SameName(String),
}

/// A running simulator. Dropping it stops it.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    ledger: Arc<Ledger>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Simulator {
    /// Starts a simulator.
    pub async fn start(options: SimulatorOptions) -> Result<Self, StartError> {
        let SimulatorOptions { listen, reach, scenarios, ledger_file, watcher } = options;
        if reach == NetworkReach::Loopback && !listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(listen));
        }
        let scenarios = together(scenarios)?;
        let file = match ledger_file {
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(&path);
                Some(opened.map_err(|source| StartError::Ledger { path, source })?)
            }
            None => None,
        };
        let listener = TcpListener::bind(listen).await.map_err(|source| not_listening(listen, source))?;
        let address =
            listener.local_addr().map_err(|source| StartError::Listen { address: listen, source })?;
        let ledger = Arc::new(Ledger::new(file, watcher));
        let shared = Arc::new(ServerState {
            scenarios,
            ledger: Arc::clone(&ledger),
            attempts: Mutex::new(AttemptCounts::default()),
        });
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, shared, stopped));
        Ok(Self { address, ledger, stop: Some(stop), serving })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base address for a client. A route names the client in the ledger, and selects the scenario of the same
    /// name; `scenario~anything` does both for several clients of one scenario.
    pub fn base_url(&self, route: Option<&str>) -> String {
        base_url(self.address, route)
    }

    /// Returns the ledger, in the order of the requests.
    pub fn ledger(&self) -> Vec<LedgerEntry> {
        self.ledger.entries()
    }

    /// Returns the entries of one route.
    pub fn ledger_of(&self, route: &str) -> Vec<LedgerEntry> {
        let mut entries = self.ledger.entries();
        entries.retain(|entry| entry.route.as_deref() == Some(route));
        entries
    }

    /// Stops it. Open requests are recorded as stopped.
    pub async fn stop(mut self) {
        // First: the requests that the shutdown drops would otherwise be recorded as clients that left.
        self.ledger.stop();
        drop(self.stop.take());
        // It ends by itself now; a panic in it was printed on standard error.
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.ledger.stop();
        self.serving.abort();
    }
}

/// Returns the base address for a client of a simulator. One that listens on all addresses is reached on loopback.
pub fn base_url(address: SocketAddr, route: Option<&str>) -> String {
    let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let base = SocketAddr::new(ip, address.port());
    match route {
        Some(route) => format!("http://{base}/r/{route}"),
        None => format!("http://{base}"),
    }
}

fn not_listening(address: SocketAddr, source: io::Error) -> StartError {
    if source.kind() == io::ErrorKind::AddrInUse {
        StartError::PortInUse(address)
    } else {
        StartError::Listen { address, source }
    }
}

/// Replaces built-in scenarios by those of the caller with the same name, and appends the others.
fn together(more: Vec<Scenario>) -> Result<Vec<Scenario>, StartError> {
    let mut all = Scenario::built_in();
    let built_in = all.len();
    let mut given: Vec<String> = Vec::new();
    for scenario in more {
        if given.contains(&scenario.name) {
            return Err(StartError::SameName(scenario.name));
        }
        given.push(scenario.name.clone());
        match all[..built_in].iter_mut().find(|known| known.name == scenario.name) {
            Some(known) => *known = scenario,
            None => all.push(scenario),
        }
    }
    Ok(all)
}

async fn serve(listener: TcpListener, shared: Arc<ServerState>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A failed accept is a client that left, or one too many; the next one may succeed.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, Arc::clone(&shared)));
                } else {
                    // Without free descriptors accept(2) fails at once (EMFILE), and the loop would use a whole CPU.
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            // A finished connection has no result.
            Some(_) = connections.join_next() => {}
            _ = &mut stopped => break,
        }
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, shared: Arc<ServerState>) {
    // Deltas are small, and each has to arrive when it is sent. Nagle's algorithm would delay them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve::request(Arc::clone(&shared), request));
    let mut serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error is a client that left or a response that a scenario breaks off. The ledger has both.
    if let Err(error) = (&mut serving).await
        && is_reset(&error)
    {
        // Dropped like this, a socket sends RST instead of FIN. If that fails, it is closed normally.
        let _ = serving.into_parts().io.into_inner().set_zero_linger();
    }
}

/// Returns whether the scenario requires a reset.
fn is_reset(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|it| it.downcast_ref::<BrokenOff>());
    cause == Some(&BrokenOff::Reset)
}
