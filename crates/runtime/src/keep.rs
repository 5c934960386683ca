//! What was found out and is good for a while: a small file for each answer, replaced as a whole.
//!
//! A file that cannot be read as what it should be is as good as none, and so is one of another form. That an answer
//! could not be kept is no reason to fail: then it is asked for again.

use std::path::PathBuf;
use std::time::Duration;

use bowline_protocol::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::detect::{Ask, Surroundings};
use crate::host;

/// The version of the form.
const FORM: u32 = 1;

/// A directory of answers about one subject.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    dir: PathBuf,
    /// Whether what is kept is passed over.
    anew: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    v: u32,
    /// The whole key: two may share the name of a file.
    key: String,
    at: Timestamp,
    value: T,
}

impl Keep {
    /// Keeps answers about a subject where these surroundings say.
    pub(crate) fn of(surroundings: &Surroundings, subject: &str) -> Option<Self> {
        surroundings.cache_dir().map(|dir| Self { dir: dir.join(subject), anew: false })
    }

    /// Keeps answers as somebody who asks wants it: not at all, or without giving any that is there already.
    pub(crate) fn with(ask: &Ask, surroundings: &Surroundings, subject: &str) -> Option<Self> {
        let anew = ask.cache.as_ref()?.is_anew();
        Some(Self { anew, ..Self::of(surroundings, subject)? })
    }

    /// Returns an answer that is not older than `good_for`, and when it was given.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        key: &str,
        good_for: Duration,
        now: Timestamp,
    ) -> Option<(T, Timestamp)> {
        if self.anew { None } else { self.last(key, good_for, now) }
    }

    /// Returns the same, also to somebody who wanted to know it anew and was not told.
    pub(crate) fn last<T: DeserializeOwned>(
        &self,
        key: &str,
        good_for: Duration,
        now: Timestamp,
    ) -> Option<(T, Timestamp)> {
        let text = std::fs::read(self.file(key)).ok()?;
        let kept: Kept<T> = serde_json::from_slice(&text).ok()?;
        // What comes from the future was written by a clock that was wrong.
        let age = u64::try_from(now.as_millis().checked_sub(kept.at.as_millis())?).ok()?;
        let good = kept.v == FORM && kept.key == key && Duration::from_millis(age) < good_for;
        good.then_some((kept.value, kept.at))
    }

    /// Keeps an answer.
    pub(crate) fn put<T: Serialize>(&self, key: &str, value: &T, now: Timestamp) {
        let kept = Kept { v: FORM, key: key.to_owned(), at: now, value };
        let path = self.file(key);
        let written = serde_json::to_vec(&kept)
            .map_err(std::io::Error::from)
            .and_then(|text| host::replace_file(&path, &text));
        if let Err(error) = written {
            let path = path.display();
            tracing::warn!(%path, error = &error as &dyn std::error::Error, "an answer could not be kept");
        }
    }

    /// A name that a person can read, and a number that tells keys apart (FNV-1a).
    fn file(&self, key: &str) -> PathBuf {
        let readable: String =
            key.chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '-').collect();
        let number = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.dir.join(format!("{readable}-{number:016x}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_good_for_a_while_and_for_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().as_os_str();
        let keep = Keep::of(&Surroundings::of([("BOWLINE_HOME", home)]), "things").unwrap();
        let (minute, at) = (Duration::from_secs(60), Timestamp::from_seconds);
        assert_eq!(keep.get::<u32>("a", minute, at(0)), None);
        keep.put("a", &1_u32, at(100));
        assert_eq!(keep.get::<u32>("a", minute, at(159)), Some((1, at(100))));
        assert_eq!(keep.get::<u32>("a", minute, at(160)), None, "too old");
        assert_eq!(keep.get::<u32>("a", minute, at(99)), None, "from the future");
        assert_eq!(keep.get::<u32>("a b", minute, at(100)), None, "another key");
        assert_eq!(keep.get::<String>("a", minute, at(100)), None, "of another form");
        std::fs::write(keep.file("a"), "{\"v\":1").unwrap();
        assert_eq!(keep.get::<u32>("a", minute, at(100)), None, "damaged");
        keep.put("a", &2_u32, at(100));
        assert_eq!(keep.get::<u32>("a", minute, at(100)), Some((2, at(100))));
        assert_eq!(std::fs::read_dir(&keep.dir).unwrap().count(), 1, "nothing is left behind");
    }
}
