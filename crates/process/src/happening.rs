//! What is told about a child, and what may be done to it.

use std::fmt;
use std::time::SystemTime;

/// One thing that happened to a child.
///
/// The end of the output, the end of the program and the end of its tree are three things and come in any order: a
/// program may close its output and live on, and a grandchild may hold the output open after the program is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The child wrote to standard output (or to its terminal): at most 64 KiB.
    Stdout {
        /// What was read.
        bytes: Vec<u8>,
        /// When it was read.
        at: SystemTime,
    },
    /// The child wrote to standard error: at most 64 KiB.
    Stderr {
        /// What was read.
        bytes: Vec<u8>,
        /// When it was read.
        at: SystemTime,
    },
    /// Nobody can write to standard output any more.
    StdoutClosed,
    /// Nobody can write to standard error any more. On a terminal this comes with `StdoutClosed`.
    StderrClosed,
    /// These bytes went into the child's standard input (into the pipe; whether it reads them is its own affair).
    StdinWritten(Vec<u8>),
    /// Standard input is closed; nothing more can be written. Not told where there never was one (`Stdin::Null`).
    StdinClosed {
        /// The other side closed it first: what was not written yet is lost.
        broken: bool,
    },
    /// The program itself ended. Its tree may live on.
    Exited(Exit),
    /// A sweep is done.
    Swept {
        /// What had outlived the program, or was ended with it: at most 256 of them.
        ended: Vec<Survivor>,
        /// What could not be ended and is alive (another user's, or stuck in the kernel): at most 256 of them.
        survivors: Vec<Survivor>,
    },
    /// The keeper died. What could be found of the tree is being ended; `Exited` and `Swept` follow.
    KeeperLost,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by the signal with this number.
    Signal(i32),
    /// It is gone and nobody could tell how: its keeper was lost first.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown end"),
        }
    }
}

/// A process that belongs, or belonged, to a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its command line, or its name where that cannot be read; cut after 256 bytes.
    pub command: String,
    /// It got SIGKILL: it had not ended within the grace of a sweep, or there was none.
    pub killed: bool,
}

/// The signals that a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, what Ctrl-C sends.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
    /// SIGQUIT.
    Quit,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
}

/// Whom a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The program alone.
    Leader,
    /// The program and all that it started.
    Tree,
}

/// How sure it is that nothing of a tree is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// The process group, and on Linux what carries the marker: the weakest.
    Group,
    /// A keeper that inherits every orphan.
    Subreaper,
    /// A keeper, and a cgroup of its own for every tree: the strongest.
    Cgroup,
}

impl Guarantee {
    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Subreaper => "subreaper",
            Self::Cgroup => "cgroup",
        }
    }

    /// Returns a sentence that says what is promised and what is not.
    pub fn about(self) -> &'static str {
        match self {
            Self::Group if cfg!(target_os = "linux") => {
                "process group and environment marker: a process that leaves its group and clears its environment escapes, \
                 and when this program is killed only the agents themselves end with it, not what they started"
            }
            Self::Group => {
                "process group: a process that leaves its group escapes, and when this program is killed nothing is ended"
            }
            Self::Subreaper => {
                "a keeper inherits every orphan and ends all of them, also when this program is killed; \
                 if the keeper is killed as well, a process that clears its environment escapes"
            }
            Self::Cgroup => {
                "every tree has a cgroup that the kernel ends as a whole, also when this program or its keeper is killed; \
                 only a process that is allowed to move itself to another cgroup leaves it, and the keeper still inherits that one"
            }
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
