//! The data home: the place and the names of sessions.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bowline_protocol::{SessionId, Timestamp};

use super::append::create_private_dir;
use super::lock::Lock;
use super::{HomeProblem, JournalError, SessionMeta, unfinished};
use crate::system::surroundings::Surroundings;

/// The directory of the data home with the abort marks of keys.
pub(crate) const ABORTS_DIR: &str = "aborts";

/// The directory of the data home with what ended runs spent, a file for each month.
pub(crate) const SPENDING_DIR: &str = "spending";

/// The directory of the data home with what current runs have spent so far.
pub(crate) const SPENDING_NOW_DIR: &str = "spending-now";

/// The directory in which Bowline keeps its sessions and its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Uses this directory. The first session creates it.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Finds the directory from the environment: `BOWLINE_HOME`, else `bowline` in the XDG data directory.
    pub fn from_env() -> Result<Self, JournalError> {
        Self::of(&Surroundings::from_env())
    }

    /// Finds the directory by these variables. Relative paths in the XDG variables count as unset, as the XDG specification
    /// requires.
    pub fn of(surroundings: &Surroundings) -> Result<Self, JournalError> {
        let set = surroundings.get("BOWLINE_HOME").map(PathBuf::from);
        set.or_else(|| surroundings.path("XDG_DATA_HOME").map(|data| data.join("bowline")))
            .or_else(|| surroundings.home().map(|home| home.join(".local/share/bowline")))
            .map(Self::at)
            .ok_or(JournalError::NoHome)
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Checks that other users cannot change its content.
    ///
    /// Sessions name processes that are signalled, and the router remembers there which programs to run. So an existing home must
    /// belong to this user, also where that is root, and no other user may write in it. A missing one is created that way. The
    /// directory above it does not matter: other users can replace the home where they may write there, but not by one that
    /// belongs to this user.
    pub fn check(&self) -> Result<(), JournalError> {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        let refused =
            |problem: HomeProblem| Err(JournalError::UnsafeHome { path: self.root.clone(), problem });
        // A home that cannot be checked cannot be used either, and its use reports the error.
        // Another user's link decides where the home is; one of root's is the administrator's.
        let Ok(itself) = std::fs::symlink_metadata(&self.root) else { return Ok(()) };
        if itself.is_symlink() && itself.uid() != own && itself.uid() != 0 {
            return refused(HomeProblem::Owner { owner: itself.uid(), own });
        }
        let Ok(home) = std::fs::metadata(&self.root) else { return Ok(()) };
        if home.uid() != own {
            return refused(HomeProblem::Owner { owner: home.uid(), own });
        }
        match home.mode() & 0o022 {
            0 => Ok(()),
            _ => refused(HomeProblem::Writable { mode: home.mode() & 0o7777 }),
        }
    }

    /// Returns the directory that holds the sessions.
    pub fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// Returns the directories that Bowline makes in it.
    pub(crate) fn own_dirs(&self) -> [PathBuf; 6] {
        let own = [unfinished::OPEN_DIR, ABORTS_DIR, SPENDING_DIR, SPENDING_NOW_DIR, "cache"];
        let [open, aborts, spent, now, cache] = own.map(|name| self.root.join(name));
        [self.sessions_dir(), open, aborts, spent, now, cache]
    }

    /// Returns the directory of a session, whether it exists or not.
    pub fn session_dir(&self, id: &SessionId) -> Result<PathBuf, JournalError> {
        let text = id.as_str();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        // A leading dot would allow `..`, and it marks a session that is being removed (`.removed-...`).
        if text.is_empty() || text.starts_with('.') || text.len() > 128 || !text.bytes().all(plain) {
            return Err(JournalError::BadId { id: text.to_owned() });
        }
        Ok(self.sessions_dir().join(text))
    }

    /// Creates the id of a new session, with random bytes of the system.
    pub fn new_id(&self, now: Timestamp) -> Result<SessionId, JournalError> {
        let path = Path::new("/dev/urandom");
        let mut random = [0; 5];
        let read = File::open(path).and_then(|mut source| source.read_exact(&mut random));
        read.map_err(|error| JournalError::read("read", path, error))?;
        Ok(new_session_id(now, random))
    }

    /// Lists the sessions in the order of their names, which is the order of their start.
    ///
    /// A directory that cannot be read as a session is an `Err` in the list, and does not end it.
    pub fn sessions(&self) -> Result<Sessions, JournalError> {
        self.check()?;
        let dir = self.sessions_dir();
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Sessions { dirs: Vec::new().into_iter() });
            }
            Err(error) => return Err(JournalError::read("list", &dir, error)),
        };
        let mut dirs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| JournalError::read("list", &dir, error))?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            // A removal that was interrupted leaves `.removed-...`.
            if is_dir && !entry.file_name().as_encoded_bytes().starts_with(b".") {
                dirs.push(entry.path());
            }
        }
        dirs.sort_unstable();
        Ok(Sessions { dirs: dirs.into_iter() })
    }

    /// Lists the directories of the sessions whose runners live.
    ///
    /// Checks the lock of the sessions that are marked as unfinished: a handful among thousands. A home without marks was created
    /// by an older version or by hand, and then it checks all sessions.
    pub(crate) fn live_dirs(&self) -> Result<Vec<PathBuf>, JournalError> {
        let marked = match unfinished::has_marks(self) {
            true => unfinished::dirs(self)?,
            false => self.sessions()?.dirs.collect(),
        };
        let mut live = Vec::new();
        for dir in marked {
            if Lock::is_taken(&dir)? {
                live.push(dir);
            }
        }
        Ok(live)
    }

    /// Lists the directories of all sessions, whether they can be read or not, in the order of their names.
    pub(crate) fn session_dirs(&self) -> Result<Vec<PathBuf>, JournalError> {
        Ok(self.sessions()?.dirs.collect())
    }

    /// Creates the directory of a new session, and missing directories above it.
    pub(super) fn create_session_dir(&self, id: &SessionId) -> Result<PathBuf, JournalError> {
        let dir = self.session_dir(id)?;
        self.check()?;
        let sessions = self.sessions_dir();
        // Try first: the directories above nearly always exist.
        for attempt in [CreateAttempt::First, CreateAttempt::Second] {
            match create_private_dir(&dir) {
                Ok(()) => return Ok(dir),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(JournalError::Exists { path: dir });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt == CreateAttempt::First => {
                    if let Some(above) = self.root.parent() {
                        let made = std::fs::create_dir_all(above);
                        made.map_err(|error| JournalError::io("create", above, error))?;
                    }
                    ensure_private_dir(&self.root)?;
                    ensure_private_dir(&sessions)?;
                }
                Err(error) => return Err(JournalError::io("create", &dir, error)),
            }
        }
        unreachable!("the second attempt returns whatever comes of it")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CreateAttempt {
    First,
    Second,
}

fn ensure_private_dir(path: &Path) -> Result<(), JournalError> {
    match create_private_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(JournalError::io("create", path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Creates the id of a session. It sorts by time, and the random part separates sessions of the same millisecond.
///
/// ```
/// let now = "2026-11-15T08:30:00.123Z".parse().expect("a time");
/// assert_eq!(bowline::journal::new_session_id(now, [0, 1, 2, 3, 255]).as_str(), "s-20261115-083000123-000g40zz");
/// ```
pub fn new_session_id(now: Timestamp, random: [u8; 5]) -> SessionId {
    /// Crockford's alphabet: no letters that look like digits.
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bits = random.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let tail: String =
        (0..8).rev().map(|place| char::from(ALPHABET[(bits >> (place * 5) & 31) as usize])).collect();
    let instant = jiff::Timestamp::from_millisecond(now.as_millis())
        .expect("our timestamps are in the range of the calendar")
        .to_zoned(jiff::tz::TimeZone::UTC);
    SessionId::from(format!("s-{}-{tail}", instant.strftime("%Y%m%d-%H%M%S%3f")))
}

/// The sessions of a home, one after the other.
#[derive(Debug)]
pub struct Sessions {
    dirs: std::vec::IntoIter<PathBuf>,
}

/// A session in a list.
#[derive(Clone, Debug)]
pub struct SessionEntry {
    /// Its directory.
    pub dir: PathBuf,
    /// Its metadata.
    pub meta: SessionMeta,
}

impl SessionEntry {
    /// Returns whether the session's runner lives.
    pub fn is_live(&self) -> Result<bool, JournalError> {
        Lock::is_taken(&self.dir)
    }
}

impl Iterator for Sessions {
    type Item = Result<SessionEntry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let dir = self.dirs.next()?;
        Some(SessionMeta::read(&dir).map(|meta| SessionEntry { dir, meta }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.dirs.size_hint()
    }
}

impl DoubleEndedIterator for Sessions {
    fn next_back(&mut self) -> Option<Self::Item> {
        let dir = self.dirs.next_back()?;
        Some(SessionMeta::read(&dir).map(|meta| SessionEntry { dir, meta }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_others_can_change_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("home");
        let home = Home::at(&path);
        let id = SessionId::from("s-1");
        assert!(home.check().is_ok(), "one that is missing is made");
        std::fs::create_dir(&path).unwrap();
        for (mode, expected) in
            [(0o700, true), (0o755, true), (0o775, false), (0o777, false), (0o1777, false)]
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(home.check().is_ok(), expected, "{mode:o}");
            assert_eq!(home.sessions().is_ok(), expected, "{mode:o}");
        }
        let error = home.create_session_dir(&id).unwrap_err();
        assert!(error.to_string().ends_with("other users may write in it (mode 1777)"), "{error}");
        assert_eq!(error.hint().unwrap(), format!("chmod 700 {}", path.display()));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(Home::at(&link).check().is_ok());
        if !rustix::process::geteuid().is_root() {
            bowline_testkit::skip(
                "a_home_that_others_can_change_is_refused",
                "only root can give a directory away",
            );
            return;
        }
        // Root does not use a home that another user could change either.
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(Home::at(&link).check().is_err());
        chown(&path, Some(65534), None).unwrap();
        let error = home.check().unwrap_err();
        assert!(
            error.to_string().ends_with("it belongs to user 65534, and this process is user 0"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("BOWLINE_HOME"));
    }

    #[test]
    fn the_environment_says_where_the_home_is() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(
                Home::of(&Surroundings::of(set.iter().copied())).ok(),
                expected.map(Home::at),
                "{set:?}"
            );
        };
        check(&[("HOME", "/h")], Some("/h/.local/share/bowline"));
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], Some("/d/bowline"));
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "relative")], Some("/h/.local/share/bowline"));
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d"), ("BOWLINE_HOME", "/b")], Some("/b"));
        check(&[("HOME", "/h"), ("BOWLINE_HOME", "")], Some("/h/.local/share/bowline"));
        check(&[("HOME", "")], None);
    }
}
