//! The results of `bowline certify` on this machine, kept for as long as provider, version and Bowline stay the same.
//!
//! The versions that Bowline's own release was certified with are compiled in. A newer program is certified by its user:
//! the result of a whole suite, green or red, lies in the data home, and `bowline doctor` and the footer of a run go by it.

use std::path::PathBuf;

use bowline_protocol::Timestamp;
use bowline_providers::probe::Version;
use serde::{Deserialize, Serialize};

use crate::sessions::journal::Home;
use crate::system::host;

/// The most that a certificate may hold, in bytes: what is longer was written by something else.
const LONGEST: u64 = 1024 * 1024;

/// The result of a whole contract suite for one version of a provider's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The provider.
    pub provider: String,
    /// The version of its program.
    pub version: String,
    /// The version of Bowline that certified it.
    pub bowline: String,
    /// When that was.
    pub at: Timestamp,
    /// The cases that failed.
    pub failed: Vec<String>,
}

impl Certificate {
    /// Describes a suite that this Bowline ran to its end.
    pub fn new(provider: &str, version: &str, at: Timestamp, failed: Vec<String>) -> Self {
        let bowline = env!("CARGO_PKG_VERSION").to_owned();
        Self { provider: provider.to_owned(), version: version.to_owned(), bowline, at, failed }
    }

    /// Returns whether no case failed.
    pub fn holds(&self) -> bool {
        self.failed.is_empty()
    }

    /// Keeps it in a data home, in the place of an earlier one for the same provider.
    pub fn keep(&self, home: &Home) -> std::io::Result<()> {
        let text = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        host::replace_file(&file(home, &self.provider), &text)
    }

    /// Returns what this Bowline found about a version of a provider's program. An unreadable file counts as absent.
    pub fn read(home: &Home, provider: &str, version: &str) -> Option<Self> {
        let path = file(home, provider);
        if std::fs::metadata(&path).ok()?.len() > LONGEST {
            return None;
        }
        let kept: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let same = |one: &str, other: &str| {
            one == other || Version::parse(one).is_some_and(|one| Some(one) == Version::parse(other))
        };
        let current = kept.bowline == env!("CARGO_PKG_VERSION") && kept.provider == provider;
        (current && same(&kept.version, version)).then_some(kept)
    }

    /// Returns the same from the user's data home.
    pub fn find(provider: &str, version: &str) -> Option<Self> {
        Self::read(&Home::from_env().ok()?, provider, version)
    }
}

/// A provider's name is part of a path: only what a manifest may be called is taken as it is.
fn file(home: &Home, provider: &str) -> PathBuf {
    let name: String = provider
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' })
        .collect();
    home.path().join("certified").join(format!("{name}.json"))
}

#[cfg(test)]
mod tests;
