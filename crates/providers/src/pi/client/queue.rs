//! The steers on their way into a turn. pi reports its queue as a list of texts; a steer that is no longer in it was read.

use std::collections::BTreeMap;

use crate::dialect::{AckToken, HostPrompt};

/// The steers that pi has not read, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct SteerQueue(Vec<QueuedSteer>);

#[derive(Debug)]
struct QueuedSteer {
    token: AckToken,
    prompt: HostPrompt,
    /// The text as it was sent, with the names of files.
    text: String,
    /// Whether pi's queue has had it, and whether pi has acknowledged it.
    queued: bool,
    accepted: bool,
}

impl SteerQueue {
    /// Records a steer that is sent now.
    pub(super) fn add(&mut self, token: AckToken, prompt: &HostPrompt, text: String) {
        let prompt = HostPrompt { images: BTreeMap::new(), ..prompt.clone() };
        self.0.push(QueuedSteer { token, prompt, text, queued: false, accepted: false });
    }

    /// Handles the acknowledgement of a steer. Returns whether pi has not read it yet.
    pub(super) fn accept(&mut self, token: AckToken) -> bool {
        let Some(steer) = self.0.iter_mut().find(|steer| steer.token == token) else { return false };
        steer.accepted = true;
        true
    }

    /// Handles the refusal of a steer.
    pub(super) fn refuse(&mut self, token: AckToken) {
        self.0.retain(|steer| steer.token != token);
    }

    /// Handles a report of pi's queue, and returns what was read: what it had and does not have any more.
    pub(super) fn update(&mut self, waiting: &[String]) -> Vec<HostPrompt> {
        let mut waiting: Vec<&String> = waiting.iter().collect();
        let mut gone = Vec::new();
        // From the newest: pi takes the oldest first, so that of two equal texts the later one waits.
        for steer in self.0.iter_mut().rev() {
            match waiting.iter().rposition(|text| **text == steer.text) {
                Some(place) => {
                    waiting.remove(place);
                    steer.queued = true;
                }
                None if steer.queued => gone.push(steer.token),
                None => {}
            }
        }
        self.take(|steer| gone.contains(&steer.token))
    }

    /// Returns the oldest steer that pi has accepted and never had in its queue in our words: it expands templates before. A message
    /// of the user that is no other prompt is this one.
    pub(super) fn expanded(&mut self) -> Option<HostPrompt> {
        let place = self.0.iter().position(|steer| steer.accepted && !steer.queued)?;
        Some(self.0.remove(place).prompt)
    }

    /// Handles the end of the turn, and returns what was read: all that pi had accepted.
    pub(super) fn settle(&mut self) -> Vec<HostPrompt> {
        self.take(|steer| steer.accepted && !steer.queued)
    }

    fn take(&mut self, read: impl Fn(&QueuedSteer) -> bool) -> Vec<HostPrompt> {
        let (read, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0).into_iter().partition(read);
        self.0 = rest;
        read.into_iter().map(|steer| steer.prompt).collect()
    }
}
