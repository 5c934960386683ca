//! The build of a program, so that a client knows a runner that is older than itself.

use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use bowline_providers::probe::Version;
use serde::{Deserialize, Serialize};

/// The build of a program that speaks the socket's lines. All of it is the other side's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramBuild {
    version: String,
    /// When its file was written, in seconds since 1970. Two builds of one version differ in it; a package manager may give all files one
    /// time, and then the version alone decides.
    #[serde(default)]
    built: u64,
}

impl ProgramBuild {
    /// Returns the build of this process.
    pub(crate) fn own() -> &'static Self {
        static OWN: OnceLock<ProgramBuild> = OnceLock::new();
        OWN.get_or_init(|| {
            // The link leads to the file that was started, also when another one has its path by now (proc_pid_exe(5)).
            let written = std::fs::metadata("/proc/self/exe").and_then(|file| file.modified()).ok();
            let built = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            Self {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                built: built.map_or(0, |built| built.as_secs()),
            }
        })
    }

    /// Returns whether another build is newer. One with a version that cannot be read is not.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        match (Version::parse(&self.version), Version::parse(&other.version)) {
            (Some(own), Some(other)) if own < other => true,
            (Some(own), Some(theirs)) if own == theirs => self.built < other.built,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(version: &str, built: u64) -> ProgramBuild {
        ProgramBuild { version: version.to_owned(), built }
    }

    #[test]
    fn the_version_decides_and_then_the_file() {
        let now = build("0.9.0", 50);
        for (other, is_older) in [
            (build("0.10.0", 40), true),
            (build("0.9.0", 51), true),
            (build("0.9.0", 50), false),
            (build("0.9.0", 49), false),
            (build("0.8.9", 60), false),
            (build("0.9.0-rc.1", 60), false),
            (build("nightly", 60), false),
            (build("", 60), false),
        ] {
            assert_eq!(now.is_older_than(&other), is_older, "{other:?}");
        }
        assert!(!build("nightly", 1).is_older_than(&now));
    }

    #[test]
    fn two_processes_of_one_file_are_of_one_build() {
        let own = ProgramBuild::own();
        assert!(own.built > 0 && !own.is_older_than(own));
    }
}
