//! The names of all sessions of a data home, in one file: a session that is named by its label must not cost reading ten thousand
//! descriptions.
//!
//! The descriptions (`session.json`) are the truth. A kept name counts only while its description has the same time and size, so no
//! writer has to know this file, and a wrong or missing file costs time only. Readers write it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bowline_protocol::SessionId;
use serde::{Deserialize, Serialize};

use super::journal::{Home, JournalError, SessionMeta};
use super::resolve::SessionName;
use crate::system::host;

/// The file below the data home.
const FILE: &str = "cache/session-names.json";

/// So many new names are worth writing the file.
const WORTH_WRITING: usize = 64;

/// A description that changed so recently may change again without another time stamp: the clock of a file system ticks every
/// few milliseconds.
const RECENT_NS: i128 = 2_000_000_000;

/// The names of a session as its description had them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptName {
    id: SessionId,
    /// Time of the last change of the description and its size. `None` for one that must be read anew.
    stamp: Option<DescriptionStamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// The state of a description by which a change is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DescriptionStamp {
    seconds: i64,
    nanos: i64,
    bytes: u64,
    inode: u64,
}

/// Returns the names of all sessions that can be read, oldest first.
pub(crate) fn names(home: &Home) -> Result<Vec<SessionName>, JournalError> {
    let dirs = home.session_dirs()?;
    let path = home.path().join(FILE);
    let kept = read(&path);
    let (mut all, mut fresh) = (Vec::with_capacity(dirs.len()), 0);
    for dir in &dirs {
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
        let stamp = stamp(dir);
        let known = kept.get(name).filter(|known| known.stamp.is_some() && known.stamp == stamp);
        if let Some(known) = known {
            all.push(known.clone());
            continue;
        }
        match SessionMeta::read(dir) {
            Ok(meta) => {
                fresh += 1;
                let stamp = stamp.filter(DescriptionStamp::is_settled);
                all.push(KeptName { id: meta.id, stamp, key: meta.key, label: meta.label });
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a session is left out");
            }
        }
    }
    if fresh >= WORTH_WRITING {
        write(&path, &all);
    }
    Ok(all.into_iter().map(|kept| SessionName { id: kept.id, key: kept.key, label: kept.label }).collect())
}

/// Returns the id of the newest session that can be read. Ids begin with the time.
pub(crate) fn newest(home: &Home) -> Result<Option<SessionId>, JournalError> {
    let dirs = home.session_dirs()?;
    Ok(dirs.iter().rev().find_map(|dir| Some(SessionMeta::read(dir).ok()?.id)))
}

/// Returns whether there is a session with this id that can be read.
pub(crate) fn has(home: &Home, id: &SessionId) -> bool {
    home.session_dir(id).is_ok_and(|dir| SessionMeta::read(&dir).is_ok())
}

impl DescriptionStamp {
    fn is_settled(&self) -> bool {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let now = i128::from(crate::system::clock::wall().as_millis()) * 1_000_000;
        now - nanos(self.seconds, self.nanos) > RECENT_NS
    }
}

fn stamp(dir: &Path) -> Option<DescriptionStamp> {
    let file = std::fs::metadata(dir.join("session.json")).ok()?;
    Some(DescriptionStamp {
        seconds: file.mtime(),
        nanos: file.mtime_nsec(),
        bytes: file.size(),
        // A description is replaced, not written in place.
        inode: file.ino(),
    })
}

/// Reads the file. One that is missing or damaged counts as empty.
fn read(path: &Path) -> BTreeMap<String, KeptName> {
    let text = std::fs::read(path).unwrap_or_default();
    let kept: Vec<KeptName> = serde_json::from_slice(&text).unwrap_or_default();
    kept.into_iter().map(|kept| (kept.id.as_str().to_owned(), kept)).collect()
}

/// Writes the file. Without it the next reader takes longer.
fn write(path: &Path, all: &[KeptName]) {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let text = serde_json::to_vec(all).map_err(std::io::Error::from);
    let written = made.and(text).and_then(|text| host::replace_file(path, &text));
    if let Err(error) = written {
        let error = &error as &dyn std::error::Error;
        tracing::debug!(path = %path.display(), error, "could not keep the names of the sessions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(home: &Home, id: &str, label: &str) {
        let dir = home.session_dir(&id.into()).unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let mut meta = SessionMeta::new(id.into(), "an-agent", crate::system::clock::wall());
        meta.label = Some(label.to_owned());
        let path = dir.join("session.json");
        std::fs::write(&path, serde_json::to_vec(&meta).unwrap()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000)).unwrap();
    }

    fn labels(home: &Home) -> Vec<String> {
        names(home).unwrap().into_iter().filter_map(|name| name.label).collect()
    }

    #[test]
    fn a_kept_name_counts_while_its_description_is_the_same() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path());
        for at in 100..100 + WORTH_WRITING {
            describe(&home, &format!("s-{at}"), &format!("label-{at}"));
        }
        let read = labels(&home);
        let file = place.path().join(FILE);
        let kept = std::fs::read_to_string(&file).expect("it was worth writing");
        // Proof that the file is used: a name that only the file has.
        std::fs::write(&file, kept.replace("label-100", "kept-100")).unwrap();
        assert_eq!(labels(&home)[0], "kept-100");
        // Another size and another file.
        describe(&home, "s-100", "another label");
        assert_eq!(labels(&home)[0], "another label");
        std::fs::remove_file(home.session_dir(&"s-101".into()).unwrap().join("session.json")).unwrap();
        assert_eq!(labels(&home).len(), WORTH_WRITING - 1);
        std::fs::write(&file, "not JSON").unwrap();
        assert_eq!(labels(&home)[1..], read[2..]);
    }

    #[test]
    fn a_description_that_changed_a_moment_ago_is_read_again() {
        let at = |seconds: i64| DescriptionStamp { seconds, nanos: 0, bytes: 1, inode: 1 };
        let now = crate::system::clock::wall().as_millis() / 1000;
        assert!(at(now - 10).is_settled());
        assert!(!at(now).is_settled());
        assert!(!at(now + 100).is_settled(), "a clock that was set back");
    }
}
