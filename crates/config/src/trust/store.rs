//! The pins on disk: one file per directory, in the user's configuration directory, readable by its owner alone.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bowline::settings::ConfigError;
use bowline::trust::{TooManyFiles, hash_of};

use super::{TrustRecord, foreign_owner};
use crate::Places;

/// The directory of the pins, beside the user's settings.
const STORE: &str = "trusted";

/// The version of the form of a record.
const FORM: u32 = 1;

/// Why trust could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no configuration directory.
    #[error("there is no directory for the pins: neither HOME nor XDG_CONFIG_HOME is set")]
    NoHome,
    /// The project's directory cannot be found.
    #[error("could not find the directory of the project")]
    NoProject,
    /// A file is not the user's.
    #[error("`{path}` belongs to another user (uid {uid})", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// A file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be pinned.
    #[error("could not pin `{path}`", path = path.display())]
    Unpinnable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There are too many files.
    #[error(transparent)]
    TooMany(#[from] TooManyFiles),
    /// The pins could not be written or removed.
    #[error("could not change `{path}`", path = path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Where the pins are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustStore {
    dir: Option<PathBuf>,
}

impl TrustStore {
    /// Finds the pins of the user of these places.
    pub fn of(places: &Places) -> Self {
        Self { dir: places.user.as_ref().map(|user| user.join(STORE)) }
    }

    /// Returns the pins of a directory. A file that another user could have written has no pins in it.
    pub fn read(&self, directory: &Path) -> Option<TrustRecord> {
        let (path, directory) = self.place(directory)?;
        let file = std::fs::File::open(path).ok()?;
        // fstat(2) of the open file, not stat(2) of the path: the path may lead to another file a moment later.
        let meta = file.metadata().ok()?;
        // With 0o022 another user of the group, or any user, could have added pins.
        if !meta.is_file() || foreign_owner(&meta).is_some() || meta.mode() & 0o022 != 0 {
            return None;
        }
        let record: TrustRecord = serde_json::from_reader(std::io::BufReader::new(file)).ok()?;
        // The file's name is a hash of the directory. The record has to agree, so that a copied file pins nothing.
        (record.v == FORM && record.directory == directory).then_some(record)
    }

    /// Pins files of a directory, and forgets what was pinned there before.
    pub fn pin(
        &self,
        directory: &Path,
        files: impl IntoIterator<Item = (PathBuf, String)>,
    ) -> Result<(), TrustError> {
        let store = self.dir.as_ref().ok_or(TrustError::NoHome)?;
        let (path, directory) = self.place(directory).ok_or(TrustError::NoProject)?;
        let record = TrustRecord { v: FORM, directory, files: files.into_iter().collect() };
        let failed = |source| TrustError::Store { path: path.clone(), source };
        let text = serde_json::to_vec_pretty(&record).map_err(|error| failed(error.into()))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(store).map_err(failed)?;
        // A reader sees the old pins or the new ones, never a part.
        // The process id keeps two `bowline trust` apart that run at once. The last rename(2) wins.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        // fsync(2) before rename(2): after a power failure the new name must not lead to an empty file.
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|error| {
            // The half-written file has no pins of any directory.
            let _ = std::fs::remove_file(&new);
            failed(error)
        })
    }

    /// Forgets the pins of a directory. Returns whether there were any.
    pub fn remove(&self, directory: &Path) -> Result<bool, TrustError> {
        let (path, _) = self.place(directory).ok_or(TrustError::NoHome)?;
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TrustError::Store { path, source }),
        }
    }

    /// Returns the file with the pins of a directory, and the directory without symbolic links.
    fn place(&self, directory: &Path) -> Option<(PathBuf, PathBuf)> {
        use std::os::unix::ffi::OsStrExt as _;
        let directory = std::fs::canonicalize(directory).ok()?;
        let name = hash_of(directory.as_os_str().as_bytes());
        Some((self.dir.as_ref()?.join(format!("{name}.json")), directory))
    }
}
