//! Messages of the user that join the running prompt: the extension `_session/steering` of claude-agent-acp and codex-acp.
//!
//! The agent acknowledges such a message at once. Nothing on the wire shows that it reads it, except that its next text or tool
//! call follows. Text that it was writing is cut off and begins anew (claude-agent-acp 0.99.1, codex-acp 2.6.0).

use bowline_protocol::kinds::UserOrigin;

use super::Acp;
use crate::dialect::{HostPrompt, Output};

/// How many messages may wait to be read.
const AT_MOST: usize = 64;

/// A message that the agent has acknowledged and not read.
#[derive(Debug)]
pub(crate) struct InjectedMessage {
    pub(crate) text: String,
    /// The prompt, if we are the client.
    pub(crate) prompt: Option<HostPrompt>,
}

impl Acp {
    /// Handles the acknowledgement of a message.
    pub(crate) fn injected(&mut self, message: InjectedMessage, out: &mut Output<'_>) {
        out.quiet();
        if self.injected.len() < AT_MOST {
            self.injected.push(message);
        }
    }

    /// Handles a new piece of the agent's work. A piece of the text that the agent was writing does not show that it read anything.
    pub(crate) fn reads_injected(&mut self, native: Option<&str>, out: &mut Output<'_>) {
        if self.injected.is_empty() || self.voices.is_speaking(native) {
            return;
        }
        self.voices.cut_off(out);
        self.tell_injected(out);
    }

    fn tell_injected(&mut self, out: &mut Output<'_>) {
        for message in std::mem::take(&mut self.injected) {
            match &message.prompt {
                Some(prompt) => out.prompt_read(prompt),
                None => out.user(UserOrigin::Human, &message.text, None),
            }
        }
    }

    /// The prompt is over. A complete answer had all messages.
    pub(crate) fn end_injected(&mut self, end: PromptEnd, out: &mut Output<'_>) {
        match end {
            PromptEnd::Answered => self.tell_injected(out),
            PromptEnd::Stopped => {
                for message in std::mem::take(&mut self.injected) {
                    message.prompt.iter().for_each(|prompt| out.prompt_lost(&prompt.id));
                }
            }
        }
    }
}

/// How a prompt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptEnd {
    Answered,
    /// It was cancelled, or failed.
    Stopped,
}
