//! Events of a child, the signals it can get, and the guarantees about its end.

use std::fmt;
use std::time::SystemTime;

/// An event of a child.
///
/// The end of the output, the end of the program and the end of its tree are three events, in any order: a program may close
/// its output and keep running, and a grandchild may hold the output open after the program exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildEvent {
    /// The child wrote to standard output or to its terminal: at most 16 KiB in one event.
    Stdout {
        /// The bytes read.
        bytes: Vec<u8>,
        /// When it was read.
        at: SystemTime,
    },
    /// The child wrote to standard error: at most 16 KiB in one event.
    Stderr {
        /// The bytes read.
        bytes: Vec<u8>,
        /// When it was read.
        at: SystemTime,
    },
    /// No process holds standard output open for writing any more.
    StdoutClosed,
    /// No process holds standard error open for writing any more. On a terminal this comes with `StdoutClosed`.
    StderrClosed,
    /// These bytes were written into the child's standard input. The child may not have read them yet.
    StdinWritten(Vec<u8>),
    /// Standard input is closed, and further writes are dropped. Not reported for a child that had no input (`Stdin::Null`).
    StdinClosed {
        /// The child closed its end first. Bytes that were still queued are lost.
        broken: bool,
    },
    /// The program exited. Processes that it started may still run.
    Exited(ExitStatus),
    /// A sweep is done.
    Swept {
        /// The processes that outlived the program, or were ended with it: at most 256 of them.
        ended: Vec<TreeProcess>,
        /// The processes that could not be ended and are alive (another user's, or stuck in the kernel): at most 256 of them.
        survivors: Vec<TreeProcess>,
    },
    /// The keeper died. The host is ending the processes of the tree that it can find; `Exited` and `Swept` follow.
    KeeperLost,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal with this number ended it.
    Signal(i32),
    /// The program is gone and its exit status is unknown, because its keeper died first.
    Unknown,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// A process that belongs, or belonged, to a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeProcess {
    /// Its process id.
    pub pid: u32,
    /// Its command line, or its name where that cannot be read; cut after 256 bytes.
    pub command: String,
    /// It got SIGKILL: it had not ended within the grace of a sweep, or the grace was zero.
    pub killed: bool,
}

/// The signals that a run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, the signal of Ctrl-C.
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

/// The processes that a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalScope {
    /// The program alone.
    Leader,
    /// The program and every process that it started.
    Tree,
}

/// How reliably all processes of a tree are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// The process group, and on Linux also processes with the marker: the weakest.
    Group,
    /// A keeper that inherits every orphan.
    Subreaper,
    /// A keeper, and a cgroup for every tree: the strongest.
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

    /// Returns a sentence about what the guarantee covers and what escapes it.
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
