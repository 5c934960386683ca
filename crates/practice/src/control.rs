//! The host's hold on a running play: it cancels the play, steers it, and answers its permission requests.
//!
//! The play looks here between its actions, and all its waits happen here. In a process that plays one prompt there is no such
//! host, and the control does nothing.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::clock;

/// Why the play ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The process exits with this code.
    Exit(u8),
    /// The turn has ended, and nothing may follow.
    Over,
    /// The host cancelled the prompt.
    Cancelled,
    /// An action of the agent failed.
    Fault(String),
}

/// The state that the host and the play share.
#[derive(Debug, Default)]
pub(crate) struct PlayControl {
    state: Mutex<ControlState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ControlState {
    /// The session whose prompt waits for its response.
    prompted: Option<String>,
    /// Whether the play must end.
    stopped: bool,
    /// Whether the thread of a play runs. It may go on after the response.
    playing: bool,
    /// Texts that the play has not read yet.
    steers: VecDeque<String>,
    /// How many requests the agent has made. It numbers them from 0.
    requests: u64,
    /// The request that the play waits for, and the host's answer.
    open: Option<(u64, Option<Value>)>,
}

impl PlayControl {
    /// Begins a play for a prompt of a session.
    pub(crate) fn begin(&self, session: &str) {
        let mut state = self.lock();
        let requests = state.requests;
        let prompted = Some(session.to_owned());
        *state = ControlState { prompted, playing: true, requests, ..ControlState::default() };
    }

    /// Returns whether a prompt waits for its response.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().prompted.is_some()
    }

    /// Hands a text to the running prompt of a session. Returns whether there is one.
    pub(crate) fn steer(&self, session: &str, text: String) -> bool {
        let mut state = self.lock();
        let runs = state.prompted.as_deref() == Some(session);
        if runs {
            state.steers.push_back(text);
        }
        runs
    }

    /// Cancels the running prompt of a session. Returns whether there is one.
    pub(crate) fn cancel(&self, session: &str) -> bool {
        let mut state = self.lock();
        let runs = state.prompted.as_deref() == Some(session);
        if runs {
            state.stopped = true;
            self.changed.notify_all();
        }
        runs
    }

    /// Stops the play, whether its prompt waits for a response or not.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits for the end of the play, but no longer than this. Returns whether it has ended.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.playing);
        !waited.unwrap_or_else(PoisonError::into_inner).0.playing
    }

    /// Takes the host's answer to a request. An answer to a request that is not open is ignored.
    pub(crate) fn answer(&self, id: &Value, answer: Value) {
        let mut state = self.lock();
        if let Some((open, place)) = &mut state.open
            && id.as_u64() == Some(*open)
        {
            // The first answer counts: a host may send a second one before the play has read it.
            place.get_or_insert(answer);
            self.changed.notify_all();
        }
    }

    /// Opens a request of the agent and returns its number. Call it before the request is written, so that no answer is missed.
    pub(crate) fn open_request(&self) -> u64 {
        let mut state = self.lock();
        let id = state.requests;
        state.requests += 1;
        state.open = Some((id, None));
        id
    }

    /// Waits for the answer to the open request.
    pub(crate) fn wait_for_answer(&self) -> Result<Value, Stop> {
        let waits = |state: &mut ControlState| {
            !state.stopped && state.open.as_ref().is_some_and(|(_, answer)| answer.is_none())
        };
        let waited = self.changed.wait_while(self.lock(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match state.open.take().and_then(|(_, answer)| answer) {
            Some(answer) if !state.stopped => Ok(answer),
            Some(_) | None => Err(Stop::Cancelled),
        }
    }

    /// Returns whether the play must end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Returns an error if the play must end.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.is_stopped() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Waits, unless the play must end.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), Stop> {
        let deadline = clock::instant() + time;
        let mut state = self.lock();
        while !state.stopped {
            let left = deadline.saturating_duration_since(clock::instant());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Err(Stop::Cancelled)
    }

    /// Returns the next text of the host that the play has not read.
    pub(crate) fn next_steer(&self) -> Option<String> {
        self.lock().steers.pop_front()
    }

    /// Ends the prompt, so that no further text reaches it. If there is one that the play has not read, it returns that instead.
    pub(crate) fn finish(&self) -> Result<Option<String>, Stop> {
        let mut state = self.lock();
        if state.stopped {
            return Err(Stop::Cancelled);
        }
        let unread = state.steers.pop_front();
        // Checked and closed under one lock: a text that arrives later gets no running prompt.
        if unread.is_none() {
            state.prompted = None;
        }
        Ok(unread)
    }

    /// Ends the prompt at once. Returns whether it still waited for its response.
    pub(crate) fn close(&self) -> bool {
        self.lock().prompted.take().is_some()
    }

    /// Reports that the thread of the play ends.
    pub(crate) fn ended(&self) {
        let mut state = self.lock();
        (state.playing, state.prompted) = (false, None);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
