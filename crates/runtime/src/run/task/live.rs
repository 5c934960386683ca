//! Options of a task about people who decide, and of live sessions.

use std::time::Duration;

use bowline_engine::Approver;
use bowline_protocol::{Millis, PermissionMode};

use super::{Task, millis};

/// The options of a task that is a live session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveOptions {
    /// After how long an idle process is ended.
    pub(crate) idle: Option<Millis>,
}

impl Task {
    /// Lets a person decide the agent's requests that the permission mode neither allows nor forbids for good
    /// ([`Turn::approval`](crate::Turn::approval)), and answer its questions. Without this the mode decides, and denies what it
    /// does not allow.
    ///
    /// An agent that has a protocol for live sessions is started in it, because only there it can ask.
    pub fn ask_a_person(mut self) -> Self {
        if self.approver == Approver::Mode {
            self.approver = Approver::Person { deadline: None };
        }
        self
    }

    /// The same with a time after which a request is denied. No other clock runs while a person is waited for.
    pub fn approval_deadline(mut self, deadline: Duration) -> Self {
        self.approver = Approver::Person { deadline: Some(millis(deadline)) };
        self
    }

    /// Returns the prompt; none if the task is a live session that waits for its first one.
    pub(crate) fn first_prompt(&self) -> Option<String> {
        let waits = self.live.is_some() && self.request.prompt.trim().is_empty();
        (!waits).then(|| self.request.prompt.clone())
    }

    /// Returns whether a person may have to answer requests of the agent: `read` and `yolo` leave nothing to ask.
    pub(crate) fn wants_answers(&self) -> bool {
        matches!(self.approver, Approver::Person { .. })
            && matches!(self.request.permission, PermissionMode::Ask | PermissionMode::Edit)
    }

    /// Returns whether another process, or the monitor of this one, can judge by the start of the run that it took too long. Not
    /// in a live session, where each turn has the limit, and not where a person may be waited for, also for the answer to a
    /// question: that time does not count, and only the engine knows how long it was.
    pub(crate) fn is_limited_from_its_start(&self) -> bool {
        self.live.is_none() && self.approver == Approver::Mode
    }
}
