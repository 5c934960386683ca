//! The abort mark of a key: a caller ended its sessions, also if there were none.
//!
//! A file for each key in `aborts` under the data home. The directory also announces marks: each new mark changes its time
//! stamp, which runners check.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sessions::journal::{ABORTS_DIR, Abort, Home, JournalError};
use crate::system::host;

/// The longest part of a key in a file name.
const LONGEST: usize = 120;

/// The content of a mark. It has the whole key, because the file name may have only a part of it.
#[derive(Serialize, Deserialize)]
struct Mark {
    key: String,
    abort: Abort,
}

/// Returns the directory of marks.
pub(crate) fn board(home: &Home) -> PathBuf {
    home.path().join(ABORTS_DIR)
}

fn path(home: &Home, key: &str) -> PathBuf {
    board(home).join(name(key))
}

/// Returns the file name of a key. Characters other than plain ones become `%xx`. A long name is cut, and ends with a hash of
/// the whole key.
fn name(key: &str) -> String {
    let mut name = String::from("key-");
    for byte in key.bytes() {
        if name.len() > LONGEST {
            // FNV-1a: short, and stable between versions.
            let sum = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            return format!("{name}~{sum:016x}");
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name
}

/// Marks a key, and announces it.
pub(super) fn set(home: &Home, key: &str, abort: &Abort) -> Result<(), JournalError> {
    let path = path(home, key);
    let mark = Mark { key: key.to_owned(), abort: abort.clone() };
    let text = serde_json::to_vec(&mark).map_err(|error| io_error("write", &path, error.into()))?;
    // Replace the file, so that the time stamp of the directory changes each time.
    // The process id in the name: two processes must not write to the same new file.
    let new = path.with_extension(format!("{}-new", std::process::id()));
    host::private_dir(&board(home)).map_err(|error| io_error("create", &board(home), error))?;
    host::private_file(&new, &text).map_err(|error| io_error("write", &new, error))?;
    match std::fs::rename(&new, &path) {
        // Another thread of this process was faster with the same mark.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| io_error("replace", &path, error)),
    }
}

/// Returns whether a key is marked.
pub(super) fn is_set(home: &Home, key: &str) -> Result<bool, JournalError> {
    let path = path(home, key);
    match std::fs::read(&path) {
        // A mark that cannot be parsed still counts as a mark.
        Ok(text) => Ok(serde_json::from_slice::<Mark>(&text).map_or(true, |mark| mark.key == key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("read", &path, error)),
    }
}

/// Removes the mark of a key.
pub(super) fn clear(home: &Home, key: &str) -> Result<(), JournalError> {
    let path = path(home, key);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Announces that there are marks on sessions, without marking a key.
pub(super) fn announce(home: &Home) -> Result<(), JournalError> {
    let board = board(home);
    host::private_dir(&board).map_err(|error| io_error("create", &board, error))?;
    // Creating and removing a file changes the time stamp of the directory. That is the announcement.
    let path = board.join(format!("look-{}", std::process::id()));
    host::private_file(&path, b"").map_err(|error| io_error("write", &path, error))?;
    std::fs::remove_file(&path).map_err(|error| io_error("remove", &path, error))
}

fn io_error(doing: &'static str, path: &std::path::Path, source: io::Error) -> JournalError {
    JournalError::Io { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_name_of_its_own() {
        assert_eq!(name("chat-42"), "key-chat-42");
        assert_eq!(name("../a b"), "key-%2e%2e%2fa%20b");
        assert_eq!(name(""), "key-");
        let (long, longer) = (name(&"x".repeat(500)), name(&"x".repeat(501)));
        assert_ne!(long, longer);
        assert!(long.len() < 255 && !long.contains('.'), "{long}");
    }
}
