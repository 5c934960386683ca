//! What `exec` has said, whole message by whole message, and what a retry says again.
//!
//! When the connection breaks after a message was told, Codex asks the model anew and tells the same message a second
//! time under another id (0.166.0). Only the first telling counts. What was said before the last tool ended belongs to
//! an earlier request and is not told again.

use std::collections::VecDeque;

use bowline_protocol::kinds::{MessageFinished, Phase};
use bowline_protocol::{Kind, MessageId, ToolId};

use crate::dialect::Output;
use crate::dialects::said::fingerprint;

/// How many messages a retry may repeat.
const REMEMBERED: usize = 32;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// How many messages there were, and the one that is being said in pieces.
    count: u64,
    current: Option<MessageId>,
    /// What this request has said.
    told: VecDeque<Told>,
    /// What the request said that is being retried.
    repeatable: Vec<Told>,
}

/// A text in constant memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    sort: Sort,
    length: usize,
    hash: u64,
}

/// Whether something is said or only thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Text,
    Thinking,
}

impl Speech {
    /// Takes a whole message.
    pub(super) fn whole(
        &mut self,
        sort: Sort,
        text: &str,
        phase: Phase,
        parent: Option<&ToolId>,
        out: &mut Output<'_>,
    ) {
        out.quiet();
        let told = Told { sort, length: text.len(), hash: fingerprint(text) };
        if text.is_empty() || self.repeats(told) {
            return;
        }
        self.current = None;
        let message = self.next();
        match sort {
            Sort::Thinking => out.thinking(&message, 0, text, parent),
            Sort::Text => {
                out.text(&message, 0, text, parent);
                out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
            }
        }
    }

    /// Names a message: `m1`, `m2` and so on. By hand, because every message pays for it.
    fn next(&mut self) -> MessageId {
        self.count += 1;
        let mut text = [b'm'; 21];
        let (mut place, mut rest) = (text.len(), self.count);
        while rest > 0 {
            place -= 1;
            text[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        MessageId::from(str::from_utf8(&text[place - 1..]).unwrap_or("m"))
    }

    /// Returns the message that is being said in pieces.
    pub(super) fn current(&mut self) -> MessageId {
        let message = self.current.take().unwrap_or_else(|| self.next());
        self.current.insert(message).clone()
    }

    /// The message that was said in pieces is complete.
    pub(super) fn finish(&mut self, message: MessageId, phase: Phase, out: &mut Output<'_>) {
        self.current = None;
        out.emit(Kind::MessageFinished(MessageFinished { message, phase, model: None }));
    }

    /// Says whether a retry tells what was told before, and remembers that it was told.
    fn repeats(&mut self, told: Told) -> bool {
        if self.told.len() == REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back(told);
        if let Some(place) = self.repeatable.iter().position(|known| *known == told) {
            self.repeatable.drain(..=place);
            return true;
        }
        if told.sort == Sort::Text {
            // Another answer than before: nothing of the old one will come.
            self.repeatable.clear();
        }
        false
    }

    /// The request is sent again.
    pub(super) fn retried(&mut self) {
        self.repeatable.extend(self.told.drain(..));
    }

    /// A tool ended: the next request has the messages before it in its history.
    pub(super) fn tool_ended(&mut self) {
        self.told.clear();
        self.repeatable.clear();
    }

    /// A turn begins or ends.
    pub(super) fn turn(&mut self) {
        self.tool_ended();
        self.current = None;
    }
}
