//! The queue of prompts on file: `prompt_queued` has the text, `prompt_removed` the reason why a prompt left the queue.

use bowline_protocol::kinds::{PromptQueued, PromptRemoval, PromptRemoved};
use bowline_protocol::{PromptId, QueuedPrompt};

/// The prompts of a journal that the agent does not have.
#[derive(Debug, Default)]
pub(super) struct PromptsOnFile {
    /// Queued, and not removed: the runner was killed.
    waiting: Vec<QueuedPrompt>,
    /// Returned by a runner.
    returned: Vec<QueuedPrompt>,
}

impl PromptsOnFile {
    pub(super) fn queued(&mut self, queued: PromptQueued) {
        let PromptQueued { id, text, attachments, queue, from: _ } = queued;
        // A prompt that was offered and sent again is queued again.
        self.returned.retain(|it| it.id != id);
        self.waiting.retain(|it| it.id != id);
        self.waiting.push(QueuedPrompt { id, text, attachments, queue });
    }

    pub(super) fn removed(&mut self, removed: &PromptRemoved) {
        let place = self.waiting.iter().position(|it| it.id == removed.id);
        let was_waiting = place.map(|place| self.waiting.remove(place));
        self.returned.retain(|it| it.id != removed.id);
        if removed.reason == PromptRemoval::Returned {
            self.returned.extend(was_waiting);
        }
    }

    /// Returns the prompts that no runner has returned.
    pub(super) fn unreturned(&self) -> Vec<PromptId> {
        self.waiting.iter().map(|it| it.id.clone()).collect()
    }

    /// Returns the prompts to offer, oldest first.
    pub(super) fn offered(&self) -> Vec<QueuedPrompt> {
        let mut all: Vec<QueuedPrompt> = self.returned.iter().chain(&self.waiting).cloned().collect();
        all.sort_by_key(QueuedPrompt::age_key);
        all
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Attachment;
    use bowline_protocol::kinds::PromptQueue;

    use super::*;

    fn queue(prompts: &mut PromptsOnFile, id: &str) {
        let (id, text, queue) = (id.into(), format!("text of {id}"), PromptQueue::Session);
        let attachments = vec![Attachment { path: format!("{text}.png"), media_type: None }];
        prompts.queued(PromptQueued { id, text, attachments, queue, from: None });
    }

    fn remove(prompts: &mut PromptsOnFile, id: &str, reason: PromptRemoval) {
        prompts.removed(&PromptRemoved { id: id.into(), reason });
    }

    fn offered(prompts: &PromptsOnFile) -> Vec<String> {
        prompts.offered().iter().map(|it| it.id.to_string()).collect()
    }

    #[test]
    fn what_the_agent_never_had_is_offered() {
        let mut prompts = PromptsOnFile::default();
        for id in ["sent", "returned", "taken back", "waiting"] {
            queue(&mut prompts, id);
        }
        remove(&mut prompts, "sent", PromptRemoval::Sent);
        remove(&mut prompts, "returned", PromptRemoval::Returned);
        remove(&mut prompts, "taken back", PromptRemoval::Returned);
        remove(&mut prompts, "taken back", PromptRemoval::Dequeued);
        assert_eq!(offered(&prompts), ["returned", "waiting"]);
        assert_eq!(prompts.offered()[0].attachments[0].path, "text of returned.png");
        assert_eq!(prompts.unreturned(), ["waiting".into()]);
        // Sent again by a later runner.
        queue(&mut prompts, "returned");
        remove(&mut prompts, "returned", PromptRemoval::Sent);
        assert_eq!(offered(&prompts), ["waiting"]);
    }

    #[test]
    fn the_oldest_prompt_is_offered_first() {
        let mut prompts = PromptsOnFile::default();
        for id in ["p9", "p10", "p11"] {
            queue(&mut prompts, id);
        }
        // Returned in another order, such as a steer of the agent behind a prompt that waited.
        remove(&mut prompts, "p11", PromptRemoval::Returned);
        remove(&mut prompts, "p10", PromptRemoval::Returned);
        assert_eq!(offered(&prompts), ["p9", "p10", "p11"]);
    }
}
