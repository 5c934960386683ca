//! A live session for other processes: its control socket, and the handle of a session whose runner is another process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_protocol::{
    Attachment, OrderRefused, Receipt, SessionId, SessionOrder, SessionSnapshot, WhenBusy,
};
use bowline_providers::invocation::is_image;
use tokio::sync::{mpsc, watch};

use super::{EventWatch, LiveSession};
use crate::run::error::Error;
use crate::sessions::control::{AnsweredOrder, Control, RunOrder};
use crate::sessions::journal::Home;
use crate::sessions::socket::client::{ConnectError, ConnectionEnd, OrderError, OrderSender, SocketClient};
use crate::sessions::socket::place::SocketPlaces;
use crate::sessions::socket::rights::{ClientRights, TreeJudge};
use crate::sessions::socket::server::{
    ControlSocket, IncomingOrder, ServedSession, SessionRequest, SnapshotRequest, serve,
};
use crate::system::host;
use crate::system::surroundings::Surroundings;

/// How many requests of clients may wait.
const REQUESTS: usize = 64;

/// The largest image that a client may send with a prompt.
const LARGEST_IMAGE: u64 = 32 << 20;

impl LiveSession {
    /// Serves the session on its control socket, until it is over: other processes can watch it and send orders. Returns the path of the
    /// socket. A process inside the tree of an agent may only watch.
    ///
    /// # Errors
    ///
    /// The socket could not be made.
    pub fn serve(&self) -> Result<PathBuf, Error> {
        let guarantee = host::supervisor()?.guarantee();
        let home = self.home();
        let places = SocketPlaces::of(&Surroundings::from_env());
        let socket = ControlSocket::bind(places, home, self.id.clone())?;
        let path = socket.path().to_owned();
        let (requests, mut inbox) = mpsc::channel(REQUESTS);
        let served = ServedSession {
            session: self.id.clone(),
            requests,
            head: self.head.clone(),
            judge: Arc::new(TreeJudge { guarantee }),
        };
        tokio::spawn(serve(socket, served));
        let (control, cwd) = (self.control.clone(), self.cwd.clone());
        tokio::spawn(async move {
            while let Some(request) = inbox.recv().await {
                pass_on(request, &control, &cwd).await;
            }
        });
        Ok(path)
    }

    fn home(&self) -> Home {
        // `<home>/sessions/<id>`. Without a journal there is nothing that others could watch, but orders work.
        let home = self.dir.as_deref().and_then(Path::parent).and_then(Path::parent);
        Home::at(home.unwrap_or(Path::new("/")))
    }
}

/// Passes a request of a client on to the session, with its sender and the contents of images.
async fn pass_on(request: SessionRequest, control: &Control, cwd: &Path) {
    match request {
        SessionRequest::Snapshot(SnapshotRequest { reply }) => control.send(RunOrder::Snapshot(reply)),
        SessionRequest::Order(IncomingOrder { mut order, from, reply: answer }) => {
            let mut images = BTreeMap::new();
            if let SessionOrder::Prompt { attachments, from: sender, .. } = &mut order {
                sender.get_or_insert_with(|| from.to_string());
                match images_of(attachments, cwd).await {
                    Ok(read) => images = read,
                    Err(reason) => {
                        // The client may be gone.
                        let _ = answer.send(Err(OrderRefused::Rejected { reason }));
                        return;
                    }
                }
            }
            control.send(RunOrder::Order(Box::new(AnsweredOrder { what: order, images, answer })));
        }
    }
}

/// Reads the images of a prompt.
async fn images_of(files: &[Attachment], cwd: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let images: Vec<(String, PathBuf)> = files
        .iter()
        .filter(|file| is_image(file))
        .map(|file| (file.path.clone(), cwd.join(&file.path)))
        .collect();
    if images.is_empty() {
        return Ok(BTreeMap::new());
    }
    let read = move || -> Result<BTreeMap<String, Vec<u8>>, String> {
        let mut contents = BTreeMap::new();
        for (name, path) in images {
            let failed =
                |error: std::io::Error| format!("could not read the image `{}`: {error}", path.display());
            if std::fs::metadata(&path).map_err(failed)?.len() <= LARGEST_IMAGE {
                contents.insert(name, std::fs::read(&path).map_err(failed)?);
            }
        }
        Ok(contents)
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| Err("the runner is shutting down".to_owned()))
}

/// Connects to a session of another process, by its id.
///
/// # Errors
///
/// No runner has the session open, or it cannot be reached.
pub async fn attach(home: &Home, session: &SessionId) -> Result<AttachedSession, ConnectError> {
    let client = SocketClient::connect_from_env(home, session).await?;
    let head = client.watch().await.map_err(|_| ConnectError::Silent)?;
    Ok(AttachedSession { orders: client.sender(), client, head, home: home.clone() })
}

/// A live session whose runner is another process. Dropping it changes nothing for the session.
#[derive(Debug)]
pub struct AttachedSession {
    client: SocketClient,
    orders: OrderSender,
    head: watch::Receiver<u64>,
    home: Home,
}

impl AttachedSession {
    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        self.client.session()
    }

    /// Returns what this process may do. Inside the tree of an agent it may only watch.
    pub fn rights(&self) -> ClientRights {
        self.client.rights()
    }

    /// Returns a sender of orders, which other tasks can use.
    pub fn orders(&self) -> OrderSender {
        self.orders.clone()
    }

    /// Gives an order, and waits for its receipt.
    ///
    /// # Errors
    ///
    /// The order was refused, or the connection ended first.
    pub async fn order(&self, order: SessionOrder) -> Result<Receipt, OrderError> {
        self.orders.order(order).await
    }

    /// Sends a prompt.
    ///
    /// # Errors
    ///
    /// As those of [`Self::order`].
    pub async fn send(&self, text: impl Into<String>, when_busy: WhenBusy) -> Result<Receipt, OrderError> {
        let (text, attachments, from) = (text.into(), Vec::new(), None);
        self.order(SessionOrder::Prompt { text, attachments, when_busy, from }).await
    }

    /// Returns the state, the queue, and what waits for a person.
    ///
    /// # Errors
    ///
    /// The connection ended first.
    pub async fn snapshot(&self) -> Result<SessionSnapshot, OrderError> {
        self.orders.snapshot().await
    }

    /// Returns the number of the last event, and wakes its holder when there are more. It closes when the runner ends.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.head.clone()
    }

    /// Returns the events from a number on, and then the new ones as they come. It ends with the runner.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn watch_from(&self, seq: u64) -> Result<EventWatch, Error> {
        let dir = self.home.session_dir(self.id())?;
        EventWatch::open(&dir, seq, self.head.clone(), None)
    }

    /// Returns how the connection ended, if it did.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.client.end()
    }
}
