//! How the output of a program ended.

use bowline_protocol::Exit;

/// Why the output ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The program ended by itself, or another process killed it.
    #[default]
    Exited,
    /// Our caller stopped it.
    Cancelled,
    /// Our deadline stopped it.
    TimedOut,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The exit code or signal; unknown counts as code 0.
    pub exit: Option<Exit>,
    /// Why.
    pub cause: Cause,
}
