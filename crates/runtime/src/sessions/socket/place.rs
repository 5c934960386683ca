//! The place of a control socket, and the directory that must belong to this user alone.
//!
//! The path follows from the variables, the data home and the session, so a client needs no file to find it. A client and a
//! runner may have different variables (cron sets no `XDG_RUNTIME_DIR`), so a client looks in all places.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use bowline_protocol::SessionId;
use sha2::{Digest, Sha256};

use crate::sessions::journal::Home;
use crate::system::surroundings::Surroundings;

/// The longest path that a socket can be bound to: 108 bytes with the zero behind it (unix(7)).
const PATH_LIMIT: usize = 107;

/// The directories that may have sockets, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketPlaces {
    /// `XDG_RUNTIME_DIR`, or the directory that it usually names.
    runtime: PathBuf,
    /// Whether the variable is set. A runner uses the directory only then, because another program owns it.
    is_set: bool,
    /// The directory that Bowline creates in `/tmp`.
    shared: PathBuf,
}

/// Why a socket cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The directory of sockets could be changed by other users.
    #[error("the directory of sockets `{}` is not safe: {problem}", path.display())]
    UnsafeDir {
        /// The directory.
        path: PathBuf,
        /// The reason.
        problem: DirProblem,
    },
    /// A directory has the path of the socket.
    #[error("`{}` is a directory, and a socket cannot take its place", path.display())]
    NotSocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("could not {doing} `{}`", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// Why a directory is not used for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DirProblem {
    /// It is a link or a file.
    #[error("it is not a directory")]
    NotDir,
    /// It belongs to another user.
    #[error("it belongs to user {owner}, and this process is user {own}")]
    Owner {
        /// The owner.
        owner: u32,
        /// This process's user.
        own: u32,
    },
    /// Other users can enter it.
    #[error("other users may use it (mode {mode:o}); the mode must be 700")]
    Mode {
        /// Its mode.
        mode: u32,
    },
}

impl SocketError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl SocketPlaces {
    /// Finds the directories by these variables.
    pub(crate) fn of(surroundings: &Surroundings) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let set = surroundings.path("XDG_RUNTIME_DIR");
        Self {
            is_set: set.is_some(),
            runtime: set.unwrap_or_else(|| PathBuf::from(format!("/run/user/{user}"))),
            shared: PathBuf::from(format!("/tmp/bowline-{user}")),
        }
    }

    /// Uses these two directories.
    #[cfg(test)]
    pub(crate) fn at(runtime: &Path, shared: &Path) -> Self {
        Self { runtime: runtime.to_owned(), is_set: true, shared: shared.to_owned() }
    }

    /// Returns the paths that the socket of a session may have, in the order in which a client tries them.
    pub(crate) fn candidates(&self, home: &Home, session: &SessionId) -> Vec<PathBuf> {
        let name = socket_name(home, session);
        // Both: a runner without `XDG_RUNTIME_DIR`, such as one of cron, has its socket in `/tmp`.
        let paths = [self.runtime.join("bowline").join(&name), self.shared.join(&name)];
        paths.into_iter().filter(|path| path.as_os_str().len() <= PATH_LIMIT).collect()
    }

    /// Returns the path that a runner binds. Uses the runtime directory if it is this user's.
    fn chosen(&self, home: &Home, session: &SessionId) -> Result<PathBuf, SocketError> {
        let name = socket_name(home, session);
        let preferred = self.runtime.join("bowline");
        // After `su`, the variable may still name the directory of another user.
        let fits = self.is_set
            && preferred.join(&name).as_os_str().len() <= PATH_LIMIT
            && check_dir(&self.runtime).is_ok();
        let dir = if fits { preferred } else { self.shared.clone() };
        // The umask can only take bits away, so no other user can enter the directory at any moment.
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SocketError::io("create", &dir)(error));
            }
            Ok(()) | Err(_) => {}
        }
        check_dir(&dir)?;
        Ok(dir.join(name))
    }
}

/// Returns the file name of a session's socket: the end of the id, to recognise it, and a hash of data home and id.
fn socket_name(home: &Home, session: &SessionId) -> String {
    // Two paths may lead to one home. A missing home has no session.
    let root = std::fs::canonicalize(home.path()).unwrap_or_else(|_| home.path().to_owned());
    let mut hash = Sha256::new();
    hash.update(root.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(session.as_str());
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let id = session.as_str();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let tail: String = id.chars().skip(id.chars().count().saturating_sub(8)).map(plain).collect();
    format!("{tail}-{hash}.sock")
}

/// Checks that a directory is this user's, and that other users cannot enter it.
pub(crate) fn check_dir(path: &Path) -> Result<(), SocketError> {
    let refused = |problem| Err(SocketError::UnsafeDir { path: path.to_owned(), problem });
    // Not `metadata`: in `/tmp`, a link of another user could lead to a directory that passes these checks.
    let found = std::fs::symlink_metadata(path).map_err(SocketError::io("read", path))?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return refused(DirProblem::NotDir);
    }
    if found.uid() != own {
        return refused(DirProblem::Owner { owner: found.uid(), own });
    }
    match found.mode() & 0o7777 {
        mode if mode & 0o077 != 0 => refused(DirProblem::Mode { mode }),
        _ => Ok(()),
    }
}

/// A bound socket. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    path: PathBuf,
    identity: FileIdentity,
}

impl BoundSocket {
    /// Binds the socket of a session, and replaces one that a killed runner left. The caller holds the lock of the session's
    /// journal, so no other runner uses the path, and the directory is Bowline's own.
    pub(crate) fn bind(
        places: &SocketPlaces,
        home: &Home,
        session: &SessionId,
    ) -> Result<(Self, UnixListener), SocketError> {
        let path = places.chosen(home, session)?;
        match std::fs::symlink_metadata(&path) {
            // bind(2) fails on a path that exists, also on the socket of a process that is gone.
            Ok(found) if found.is_dir() => return Err(SocketError::NotSocket { path }),
            // Also a link or another file: an agent that puts one there must not keep the runner from listening.
            Ok(_) => std::fs::remove_file(&path).map_err(SocketError::io("remove", &path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SocketError::io("read", &path)(error)),
        }
        let listener = UnixListener::bind(&path).map_err(SocketError::io("bind", &path))?;
        // Until here the mode depends on the umask. The directory keeps other users out meanwhile.
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, private).map_err(SocketError::io("protect", &path))?;
        let identity = identity(&path).map_err(SocketError::io("read", &path))?;
        Ok((Self { path, identity }, listener))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file still exists. The login manager removes the runtime directory at the end of the user's last login.
    pub(crate) fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|now| now == self.identity)
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the control socket could not be removed"
            );
        }
    }
}

/// Device, inode and time of the last change: another runner may have bound the path after this socket was removed, and the file
/// system may have given the new file the number of the old one.
type FileIdentity = (u64, u64, i64, i64);

fn identity(path: &Path) -> io::Result<FileIdentity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_dir(parent: &Path, name: &str) -> PathBuf {
        let path = parent.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    #[test]
    fn the_name_depends_on_home_and_session() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = |home: &Path, id: &str| socket_name(&Home::at(home), &SessionId::from(id));
        let id = "s-20261115-083000123-000g40zz";
        assert!(name(one.path(), id).starts_with("000g40zz-"));
        assert_eq!(name(one.path(), id).len(), 8 + 1 + 16 + 5);
        assert_ne!(name(one.path(), id), name(two.path(), id));
        assert_ne!(name(one.path(), id), name(one.path(), "s-20261115-083000124-000g40zz"));
        // A link to the home is the same home.
        let link = two.path().join("link");
        std::os::unix::fs::symlink(one.path(), &link).unwrap();
        assert_eq!(name(&link, id), name(one.path(), id));
    }

    #[test]
    fn the_variable_chooses_the_directory() {
        let user = rustix::process::geteuid().as_raw();
        let set = SocketPlaces::of(&Surroundings::of([("XDG_RUNTIME_DIR", "/run/x")]));
        assert_eq!((set.runtime.as_path(), set.is_set), (Path::new("/run/x"), true));
        let unset = SocketPlaces::of(&Surroundings::of([("XDG_RUNTIME_DIR", "relative")]));
        assert_eq!((unset.runtime, unset.is_set), (PathBuf::from(format!("/run/user/{user}")), false));
        assert_eq!(unset.shared, PathBuf::from(format!("/tmp/bowline-{user}")));
    }

    #[test]
    fn a_runner_that_cannot_use_the_runtime_directory_uses_the_other_one() {
        let place = tempfile::tempdir().unwrap();
        let (home, id) = (Home::at(place.path()), SessionId::from("s-1"));
        let shared = place.path().join("shared");
        let chosen = |runtime: &Path| {
            let places = SocketPlaces::at(runtime, &shared);
            let path = places.chosen(&home, &id).unwrap();
            assert!(places.candidates(&home, &id).contains(&path), "a client finds {}", path.display());
            path.parent().unwrap().to_owned()
        };
        let good = private_dir(place.path(), "good");
        assert_eq!(chosen(&good), good.join("bowline"));
        assert_eq!(chosen(&place.path().join("missing")), shared);
        let open = private_dir(place.path(), "open");
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(chosen(&open), shared);
        let long = private_dir(place.path(), &"x".repeat(100));
        assert_eq!(chosen(&long), shared);
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (home, id) = (Home::at(place.path()), SessionId::from("s-1"));
        let shared = place.path().join("shared");
        let places = SocketPlaces::at(&place.path().join("missing"), &shared);
        let problem = || match BoundSocket::bind(&places, &home, &id) {
            Err(SocketError::UnsafeDir { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        let target = private_dir(place.path(), "target");
        std::os::unix::fs::symlink(&target, &shared).unwrap();
        assert_eq!(problem(), DirProblem::NotDir);
        std::fs::remove_file(&shared).unwrap();
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o710)).unwrap();
        assert_eq!(problem(), DirProblem::Mode { mode: 0o710 });
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o700)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&shared, Some(65534), None).unwrap();
            assert_eq!(problem(), DirProblem::Owner { owner: 65534, own: 0 });
        } else {
            bowline_testkit::skip("a_directory_of_another_user_is_refused", "only root can give one away");
        }
    }

    #[test]
    fn a_socket_is_private_replaces_a_stale_one_and_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (home, id) = (Home::at(place.path()), SessionId::from("s-1"));
        let places = SocketPlaces::at(&private_dir(place.path(), "run"), &place.path().join("shared"));
        let (first, listener) = BoundSocket::bind(&places, &home, &id).unwrap();
        let path = first.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // A killed runner does not remove its socket.
        drop(listener);
        assert!(first.is_there());
        // The kernel's clock for files moves a few hundred times a second.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (second, _listener) = BoundSocket::bind(&places, &home, &id).unwrap();
        // The first one is another file now, and leaves the second one alone.
        assert!(!first.is_there());
        drop(first);
        assert!(second.is_there());
        drop(second);
        assert!(!path.exists());
        std::fs::write(&path, "not a socket").unwrap();
        drop(BoundSocket::bind(&places, &home, &id).unwrap());
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(BoundSocket::bind(&places, &home, &id), Err(SocketError::NotSocket { .. })));
    }
}
