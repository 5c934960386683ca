//! Why a client did not reach a session, and why an order has no receipt.

use std::io;

use bowline_process::RuntimeGap;
use bowline_protocol::kinds::SessionState;
use bowline_protocol::{OrderRefused, SessionId};

use super::super::lines::LINE_LIMIT;
use super::super::place::SocketError;
use super::HELLO;
use crate::sessions::journal::JournalError;
use crate::sessions::resolve::ResolveError;

/// Why a client could not connect to a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The call was not made in a tokio runtime with timers and IO.
    #[error(transparent)]
    NoRuntime(#[from] RuntimeGap),
    /// The description of the session cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The name means no session, or several.
    #[error(transparent)]
    Name(#[from] ResolveError),
    /// No process runs the session.
    #[error("session {session} is not running")]
    NotRunning {
        /// The session.
        session: SessionId,
        /// Its state on file.
        state: SessionState,
    },
    /// The runner lives and takes no orders: it is a run of one prompt, or of an older version.
    #[error("the runner of session {session} has no control socket")]
    NoSocket {
        /// The session.
        session: SessionId,
        /// The runner's process id.
        pid: Option<u32>,
    },
    /// The directory of the socket is not safe.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket belongs to a process of another user.
    #[error("the control socket of session {session} belongs to user {user}")]
    OtherUser {
        /// The session.
        session: SessionId,
        /// The user id.
        user: u32,
    },
    /// The socket belongs to a process that is not the runner: an agent may have replaced it.
    #[error(
        "the control socket of session {session} belongs to {}, which is not the runner: {reason}",
        process_name(*pid)
    )]
    NotRunner {
        /// The session.
        session: SessionId,
        /// The process that listens.
        pid: Option<u32>,
        /// The reason.
        reason: String,
    },
    /// The runner speaks another version of the lines.
    #[error("the runner speaks version {runner} of the control protocol, and this program version {client}")]
    Version {
        /// The runner's version.
        runner: u32,
        /// Ours.
        client: u32,
    },
    /// The runner refused the connection.
    #[error("the runner refused the connection: {message}")]
    Refused {
        /// The reason.
        message: String,
    },
    /// The runner did not reply.
    #[error("the runner did not reply within {} s", HELLO.as_secs())]
    Silent,
    /// An idle runner of an older build ended for a newer one, which did not start. The session can be resumed.
    #[error("the older runner of session {session} ended to hand it over, and the new one did not start")]
    HandOver {
        /// The session.
        session: SessionId,
    },
    /// The connection failed.
    #[error("could not exchange data with the runner")]
    Io(#[source] io::Error),
}

/// Why an order has no receipt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// The session refused it.
    #[error(transparent)]
    Refused(#[from] OrderRefused),
    /// The stint is over.
    #[error("the session's runner has ended")]
    Over,
    /// The connection was lost before the answer. The order may have been carried out.
    #[error("the connection to the runner was lost; the order may have been carried out")]
    Lost,
    /// The order is too long to be sent.
    #[error("the order has {bytes} bytes, and at most {LINE_LIMIT} can be sent")]
    TooLong {
        /// The length of its line.
        bytes: usize,
    },
    /// The runner does not know such an order, or its answer was not understood.
    #[error("the runner did not understand the order: {message}")]
    NotUnderstood {
        /// The runner's words.
        message: String,
    },
}

fn process_name(pid: Option<u32>) -> String {
    pid.map_or_else(|| "an unknown process".to_owned(), |pid| format!("process {pid}"))
}
