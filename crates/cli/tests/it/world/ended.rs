//! The end of a call: exit code, standard output and standard error, with the checks that tests make on them.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// When that was seen.
    pub(crate) at: jiff::Timestamp,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "signal {:?}, {self:#?}", self.status.signal());
        self
    }

    /// Checks that standard error has these texts.
    #[track_caller]
    pub(crate) fn tells(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is missing in standard error:\n{}", self.stderr);
        }
        self
    }

    /// Checks that standard output has these texts.
    #[track_caller]
    pub(crate) fn prints(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stdout.contains(text), "`{text}` is missing in standard output:\n{}", self.stdout);
        }
        self
    }

    /// Returns the one JSON object that was printed.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Shows all of it, for snapshots.
    pub(crate) fn show(&self) -> String {
        let code = self.status.code().unwrap_or(-1);
        format!("exit {code}\n--- stdout\n{}--- stderr\n{}", self.stdout, self.stderr)
    }
}
