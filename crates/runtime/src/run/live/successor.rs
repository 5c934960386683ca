//! An idle runner of an older build hands its session over to a runner of its caller's program.
//!
//! The older runner ends its stint as a stop would, and its program then starts the newer one, with its own variables and command line.
//! The caller waits until the newer one listens. A busy runner is left alone: it is spoken to in its version of the lines.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_protocol::{OrderRefused, PermissionMode, Receipt};
use tokio::time::Instant;

use super::children::{ChildStarts, StartChild};
use super::{AttachedSession, attach_in};
use crate::sessions::control::Control;
use crate::sessions::journal::SessionMeta;
use crate::sessions::socket::client::{ConnectError, OrderError};
use crate::sessions::socket::rights::ClientRights;
use crate::sessions::socket::server::HandOverRequest;

/// How long the newer runner may take until it listens. The older one has its agent to end first.
const TAKES: Duration = Duration::from_secs(30);

/// The pause between two attempts to connect to it.
const PAUSE: Duration = Duration::from_millis(20);

/// The runner that takes a session over when its stint is over. See [`LiveSession::successor`](super::LiveSession::successor).
#[derive(Clone, Debug, Default)]
pub struct SuccessorSlot {
    chosen: Arc<Mutex<Option<Successor>>>,
}

/// A program that takes a session over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Successor {
    /// Its file.
    pub program: PathBuf,
    /// The session's permission mode at the end. `session.json` may have another one, because an agent can write it.
    pub permission: Option<PermissionMode>,
}

impl SuccessorSlot {
    /// Returns the program that takes over. Ask at the end of the stint, and start it then.
    pub fn take(&self) -> Option<Successor> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops a session at rest, if its program can start the newer runner.
    pub(super) async fn hand_over<S: StartChild>(
        &self,
        request: HandOverRequest,
        control: &Control,
        children: &ChildStarts<S>,
    ) {
        let HandOverRequest { program, reply } = request;
        let ended = match children.keeps_the_session() {
            Some(reason) => Err(OrderRefused::Unsupported { reason }),
            None => control.hand_over().await,
        };
        let answer = ended.map(|ended| {
            let successor = Successor { program, permission: ended.permission };
            *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some(successor);
            Receipt::Done
        });
        // The client may be gone. The session is handed over all the same.
        let _ = reply.send(answer);
    }
}

impl AttachedSession {
    /// Has a runner that is idle and of an older build than this program hand the session over to a runner of this program, and connects to
    /// that one. Returns the session as it is if its runner is busy, not older, or cannot hand over.
    ///
    /// Only for a program that is itself started as a runner: [`runner`](crate::runner). The older runner starts it with the one argument that
    /// it got itself.
    ///
    /// # Errors
    ///
    /// [`ConnectError::HandOver`] if the new runner did not start. The session can then be resumed.
    pub async fn with_our_runner(self) -> Result<Self, ConnectError> {
        if !self.client.runner_is_older() || self.rights() != ClientRights::Full {
            return Ok(self);
        }
        let (home, session) = (self.home.clone(), self.id().clone());
        let older = SessionMeta::read(&home.session_dir(&session)?)?.runner;
        match self.client.hand_over().await {
            Ok(_) => {}
            Err(error @ (OrderError::Refused(_) | OrderError::NotUnderstood { .. })) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the older runner keeps the session"
                );
                return Ok(self);
            }
            // The stint ended for another reason. The loop finds out which.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "the older runner has ended");
            }
        }
        drop(self);
        let deadline = Instant::now() + TAKES;
        loop {
            // Before the attempt, because the newer runner reports to the older one when it listens.
            let is_waited_for = older.is_some_and(|runner| runner.is_there()) && Instant::now() < deadline;
            match attach_in(&home, session.as_str()).await {
                // The older one still answers until its agent is gone.
                Ok(met) if !met.client.runner_is_older() => return Ok(met),
                Ok(met) if !is_waited_for => return Ok(met),
                Ok(_) => {}
                Err(_) if is_waited_for => {}
                Err(ConnectError::NotRunning { session, .. }) => {
                    return Err(ConnectError::HandOver { session });
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
