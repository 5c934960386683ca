//! A cache of answers that stay valid for a while: a small file for each answer, replaced as a whole.
//!
//! A file that cannot be parsed, or that has another format version, counts as absent. Failing to write an answer is not an
//! error: the program is queried again.

use std::path::PathBuf;
use std::time::Duration;

use bowline_protocol::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agents::detect::Ask;
use crate::system::host;
use crate::system::surroundings::Surroundings;

/// The version of the file format.
const FORM: u32 = 1;

/// A directory of answers about one subject.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCache {
    dir: PathBuf,
    /// Whether to ignore cached answers.
    anew: bool,
}

#[derive(Serialize, Deserialize)]
struct CachedAnswer<T> {
    v: u32,
    /// The whole key, because two keys may share a file name.
    key: String,
    at: Timestamp,
    value: T,
}

impl AnswerCache {
    /// Returns the cache of a subject in the cache directory of these surroundings.
    pub(crate) fn of(surroundings: &Surroundings, subject: &str) -> Option<Self> {
        surroundings.cache_dir().map(|dir| Self { dir: dir.join(subject), anew: false })
    }

    /// Returns the cache as a query wants it: none, or one that ignores cached answers.
    pub(crate) fn with(ask: &Ask, surroundings: &Surroundings, subject: &str) -> Option<Self> {
        let anew = ask.cache.as_ref()?.is_anew();
        Some(Self { anew, ..Self::of(surroundings, subject)? })
    }

    /// Returns an answer that is not older than `good_for`, and its time.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        key: &str,
        good_for: Duration,
        now: Timestamp,
    ) -> Option<(T, Timestamp)> {
        if self.anew { None } else { self.last(key, good_for, now) }
    }

    /// Returns the same, also for a query that ignores cached answers and then failed.
    pub(crate) fn last<T: DeserializeOwned>(
        &self,
        key: &str,
        good_for: Duration,
        now: Timestamp,
    ) -> Option<(T, Timestamp)> {
        let text = std::fs::read(self.file(key)).ok()?;
        let kept: CachedAnswer<T> = serde_json::from_slice(&text).ok()?;
        // An answer from the future was written with a wrong clock.
        let age = u64::try_from(now.as_millis().checked_sub(kept.at.as_millis())?).ok()?;
        let good = kept.v == FORM && kept.key == key && Duration::from_millis(age) < good_for;
        good.then_some((kept.value, kept.at))
    }

    /// Writes an answer.
    pub(crate) fn put<T: Serialize>(&self, key: &str, value: &T, now: Timestamp) {
        let kept = CachedAnswer { v: FORM, key: key.to_owned(), at: now, value };
        let path = self.file(key);
        let written = serde_json::to_vec(&kept)
            .map_err(std::io::Error::from)
            .and_then(|text| host::replace_file(&path, &text));
        if let Err(error) = written {
            let path = path.display();
            tracing::warn!(%path, error = &error as &dyn std::error::Error, "an answer could not be kept");
        }
    }

    /// Returns the file of a key: a readable name and a hash (FNV-1a).
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
        let cache = AnswerCache::of(&Surroundings::of([("BOWLINE_HOME", home)]), "things").unwrap();
        let (minute, at) = (Duration::from_secs(60), Timestamp::from_seconds);
        assert_eq!(cache.get::<u32>("a", minute, at(0)), None);
        cache.put("a", &1_u32, at(100));
        assert_eq!(cache.get::<u32>("a", minute, at(159)), Some((1, at(100))));
        assert_eq!(cache.get::<u32>("a", minute, at(160)), None, "too old");
        assert_eq!(cache.get::<u32>("a", minute, at(99)), None, "from the future");
        assert_eq!(cache.get::<u32>("a b", minute, at(100)), None, "another key");
        assert_eq!(cache.get::<String>("a", minute, at(100)), None, "of another form");
        std::fs::write(cache.file("a"), "{\"v\":1").unwrap();
        assert_eq!(cache.get::<u32>("a", minute, at(100)), None, "damaged");
        cache.put("a", &2_u32, at(100));
        assert_eq!(cache.get::<u32>("a", minute, at(100)), Some((2, at(100))));
        assert_eq!(std::fs::read_dir(&cache.dir).unwrap().count(), 1, "nothing is left behind");
    }
}
