//! A live session for other processes: its control socket, and the handle of a session whose runner is another process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use bowline_protocol::{
    Attachment, Event, OrderRefused, PromptId, Receipt, SessionId, SessionOrder, SessionSnapshot, WhenBusy,
};
use bowline_providers::invocation::is_image;
use tokio::sync::{mpsc, watch};

use super::LiveSession;
use super::children::{ChildStarts, NoChildren, StartChild};
use super::successor::SuccessorSlot;
use crate::run::approval::Approval;
use crate::run::error::Error;
use crate::run::turn_record::TurnRecord;
use crate::run::watch::{EventWatch, WatchedRun, WatchedRuns};
use crate::sessions::control::{AnsweredOrder, Control, RunOrder};
use crate::sessions::journal::Home;
use crate::sessions::resolve::resolve_in;
use crate::sessions::socket::client::{ConnectError, ConnectionEnd, OrderError, OrderSender, SocketClient};
use crate::sessions::socket::lines::VERSIONS;
use crate::sessions::socket::place::SocketPlaces;
use crate::sessions::socket::rights::{ClientRights, TreeJudge};
use crate::sessions::socket::server::{
    ControlSocket, IncomingOrder, ServedSession, SessionRequest, SnapshotRequest, serve,
};
use crate::system::host;

/// How many requests of clients may wait.
const REQUESTS: usize = 64;

/// The most bytes that the images of a prompt may have together.
const LARGEST_IMAGES: u64 = 32 << 20;

impl LiveSession {
    /// Serves the session on its control socket, until it is over: other processes can watch it and send orders. Returns the path of the
    /// socket. A process inside the tree of an agent may only watch.
    ///
    /// # Errors
    ///
    /// The socket could not be made.
    pub fn serve(&self) -> Result<PathBuf, Error> {
        self.serve_with(NoChildren)
    }

    /// The same, for a program that can start further sessions: a process of the agent may ask for one, and a person decides.
    ///
    /// # Errors
    ///
    /// The socket could not be made.
    pub fn serve_with(&self, starter: impl StartChild) -> Result<PathBuf, Error> {
        let guarantee = host::supervisor()?.guarantee();
        let home = self.home();
        let places = SocketPlaces::of(&self.variables);
        let socket = ControlSocket::bind(places, home, self.id().clone())?;
        let path = socket.path().to_owned();
        let (requests, mut inbox) = mpsc::channel(REQUESTS);
        let served = ServedSession {
            session: self.id().clone(),
            requests,
            head: self.head(),
            judge: Arc::new(TreeJudge { guarantee }),
            versions: VERSIONS,
        };
        let service = tokio::spawn(serve(socket, served));
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
        let (control, cwd) = (self.control.clone(), self.cwd.clone());
        let owner =
            SessionOwner { control, cwd, children: ChildStarts::by(starter), successor: self.successor() };
        tokio::spawn(async move {
            while let Some(request) = inbox.recv().await {
                owner.take(request).await;
            }
        });
        Ok(path)
    }

    fn home(&self) -> Home {
        // `<home>/sessions/<id>`. Without a journal there is nothing that others could watch, but orders work.
        let home = self.dir().and_then(Path::parent).and_then(Path::parent);
        Home::at(home.unwrap_or(Path::new("/")))
    }
}

/// The owner of a session that is served, for the requests of its clients.
struct SessionOwner<S> {
    control: Control,
    cwd: PathBuf,
    children: Arc<ChildStarts<S>>,
    successor: SuccessorSlot,
}

impl<S: StartChild> SessionOwner<S> {
    /// Passes a request of a client on to the session, with its sender and the contents of images.
    async fn take(&self, request: SessionRequest) {
        let Self { control, cwd, children, successor } = self;
        match request {
            SessionRequest::Snapshot(SnapshotRequest { reply }) => control.send(RunOrder::Snapshot(reply)),
            // In turn with the others, so that no prompt of this client is lost behind it.
            SessionRequest::HandOver(request) => successor.hand_over(request, control, children).await,
            SessionRequest::Order(IncomingOrder {
                order: SessionOrder::Start { child },
                reply: answer,
                ..
            }) => {
                let (control, children) = (control.clone(), children.clone());
                // A person may take hours to decide, and other orders must not wait for that.
                tokio::spawn(async move {
                    // The client may be gone.
                    let _ = answer.send(children.start(child, control).await);
                });
            }
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
                if let SessionOrder::SendOffered { prompt } = &order {
                    match offered_images(prompt, control, cwd).await {
                        Ok(read) => images = read,
                        Err(reason) => {
                            // The client may be gone.
                            let _ = answer.send(Err(OrderRefused::Unsupported { reason }));
                            return;
                        }
                    }
                }
                control.send(RunOrder::Order(Box::new(AnsweredOrder { what: order, images, answer })));
            }
        }
    }
}

/// Reads the images of a prompt that is offered. It may be of an earlier runner, so its files may be gone.
async fn offered_images(
    prompt: &PromptId,
    control: &Control,
    cwd: &Path,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let offered = control.snapshot().await.map(|snapshot| snapshot.offered).unwrap_or_default();
    // The session reports a prompt that is not offered.
    let Some(offered) = offered.into_iter().find(|it| it.id == *prompt) else { return Ok(BTreeMap::new()) };
    let paths: Vec<PathBuf> = offered.attachments.iter().map(|file| cwd.join(&file.path)).collect();
    let missing = move || {
        paths.iter().find_map(|path| {
            let error = std::fs::metadata(path).err()?;
            Some(format!(
                "the file `{}` of the prompt cannot be read: {error}; the prompt is still offered",
                path.display()
            ))
        })
    };
    // A file may lie in a directory that answers slowly.
    match tokio::task::spawn_blocking(missing).await {
        Ok(None) => {}
        Ok(Some(missing)) => return Err(missing),
        Err(_) => return Err("the runner is shutting down".to_owned()),
    }
    images_of(&offered.attachments, cwd).await
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
        let mut left = LARGEST_IMAGES;
        for (name, path) in images {
            let failed =
                |why: &dyn std::fmt::Display| format!("could not read the image `{}`: {why}", path.display());
            let image = read_image(&path, left).map_err(|error| failed(&error))?;
            let image = image.ok_or_else(|| {
                failed(&format_args!("the images of a prompt may have {} MiB", LARGEST_IMAGES >> 20))
            })?;
            left -= image.len() as u64;
            contents.insert(name, image);
        }
        Ok(contents)
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| Err("the runner is shutting down".to_owned()))
}

/// Reads a file of at most so many bytes; none if it has more.
fn read_image(path: &Path, at_most: u64) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    // An agent can put a FIFO there: without O_NONBLOCK, `open` waits for a writer, and the orders of all clients behind it.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    // Of the open file, not of the path, which may be another file by now.
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut image = Vec::new();
    // A file can grow while it is read.
    file.take(at_most + 1).read_to_end(&mut image)?;
    Ok((image.len() as u64 <= at_most).then_some(image))
}

/// Connects to a session of another process, by its id or a unique part of it, its name or key, or `@last`. The session is looked for
/// in the user's data home; [`attach_in`] looks in another one.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let session = bowline::attach("thread-42").await?;
/// let mut events = session.watch_from(1)?;
/// while let Some(event) = events.next().await? {
///     if let Some(approval) = session.approval(&event) {
///         approval.deny("ask a colleague first").await?;
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// The name means no session or several, no runner has the session open, or it cannot be reached.
pub async fn attach(name: impl AsRef<str>) -> Result<AttachedSession, ConnectError> {
    attach_in(&Home::from_env()?, name).await
}

/// The same in this data home.
///
/// # Errors
///
/// As those of [`attach`].
pub async fn attach_in(home: &Home, name: impl AsRef<str>) -> Result<AttachedSession, ConnectError> {
    let session = resolve_in(home, name.as_ref())?;
    let client = SocketClient::connect_from_env(home, &session).await?;
    let head = client.watch().await.map_err(|_| ConnectError::Silent)?;
    Ok(AttachedSession { orders: client.sender(), client, head, home: home.clone() })
}

/// A live session whose runner is another process. Dropping it changes nothing for the session.
#[derive(Debug)]
pub struct AttachedSession {
    pub(super) client: SocketClient,
    orders: OrderSender,
    head: watch::Receiver<u64>,
    pub(super) home: Home,
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
        let run = WatchedRun {
            session: self.id().clone(),
            dir: Some(self.home.session_dir(self.id())?),
            first_seq: 1,
            head: self.head.clone(),
            cleanup: None,
        };
        WatchedRuns::one(run).watch_from(seq)
    }

    /// Returns the approval that an event asks for, as a value that decides it over the connection. Dropped, it denies.
    pub fn approval(&self, event: &Event) -> Option<Approval> {
        Approval::over_socket(event, &self.orders)
    }

    /// Returns the record of a turn that has ended; see [`LiveSession::turn_record`].
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn turn_record(&self, turn: u32) -> Result<Option<TurnRecord>, Error> {
        // The runner's settings are not known here.
        TurnRecord::read(&self.home.session_dir(self.id())?, turn, &Arc::default())
    }

    /// Returns how the connection ended, if it did.
    pub fn end(&self) -> Option<ConnectionEnd> {
        self.client.end()
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn image(path: &str) -> Attachment {
        Attachment { path: path.to_owned(), media_type: None }
    }

    #[tokio::test]
    async fn only_regular_files_of_a_limited_size_are_images() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a.png"), "picture").unwrap();
        let read = images_of(&[image("a.png")], dir.path()).await.unwrap();
        assert_eq!(read["a.png"], b"picture");
        mknodat(CWD, at("fifo.png"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::create_dir(at("dir.png")).unwrap();
        let large = std::fs::File::create(at("large.png")).unwrap();
        large.set_len(LARGEST_IMAGES - 3).unwrap();
        for (names, why) in [
            (&["fifo.png"][..], "it is not a regular file"),
            (&["dir.png"], "it is not a regular file"),
            (&["missing.png"], "No such file or directory (os error 2)"),
            // Each of them is small enough.
            (&["a.png", "large.png"], "the images of a prompt may have 32 MiB"),
        ] {
            let images: Vec<Attachment> = names.iter().map(|name| image(name)).collect();
            let read = images_of(&images, dir.path());
            let read = tokio::time::timeout(std::time::Duration::from_secs(30), read).await;
            let last = at(names.last().unwrap());
            let expected = format!("could not read the image `{}`: {why}", last.display());
            assert_eq!(read.expect("it does not wait"), Err(expected));
        }
    }
}
