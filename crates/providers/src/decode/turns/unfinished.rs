//! The unfinished messages of a turn.
//!
//! There is nearly always one, and a list is the cheapest place for it. But a program may start messages and never finish one.
//! Each piece of text looks up its message. The lookup must not depend on the number of messages, and a tool call must
//! not walk over them.

use std::collections::{BTreeMap, HashMap};

use bowline_protocol::MessageId;

/// How many messages a list is searched for. From there on they are found by their names.
const FEW: usize = 16;

/// The messages that are not finished, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct UnfinishedMessages {
    few: Vec<Unfinished>,
    /// All of them, once there are more than a few. The list is empty then.
    many: Option<Box<Many>>,
    /// The number of tool calls that ended the text before them.
    tools: u64,
}

/// Messages by their places, and places by their names.
#[derive(Debug, Default)]
struct Many {
    list: BTreeMap<u64, Unfinished>,
    places: HashMap<MessageId, u64>,
    begun: u64,
}

/// An unfinished message.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) id: MessageId,
    /// Whether it belongs to a sub-agent.
    pub(super) foreign: bool,
    /// The number of its characters so far.
    pub(super) chars: u64,
    /// The number of tool calls at its last piece.
    tools: u64,
}

impl UnfinishedMessages {
    /// Returns the name of the one that began last.
    pub(super) fn last(&self) -> Option<&MessageId> {
        match &self.many {
            Some(many) => many.list.last_key_value().map(|(_, message)| &message.id),
            None => self.few.last().map(|message| &message.id),
        }
    }

    /// Returns a message.
    pub(super) fn get_mut(&mut self, id: &MessageId) -> Option<&mut Unfinished> {
        match &mut self.many {
            Some(many) => many.list.get_mut(many.places.get(id)?),
            // The current message is nearly always the last one.
            None => self.few.iter_mut().rev().find(|message| message.id == *id),
        }
    }

    /// Records a piece of a message. Returns whether it starts one.
    pub(super) fn heard(&mut self, id: &MessageId, foreign: bool, chars: u64) -> bool {
        let tools = self.tools;
        if let Some(message) = self.get_mut(id) {
            message.tools = tools;
            message.chars += chars;
            return false;
        }
        let message = Unfinished { id: id.clone(), foreign, chars, tools };
        match &mut self.many {
            Some(many) => many.push(message),
            None => self.few.push(message),
        }
        if self.few.len() > FEW {
            let many = self.many.get_or_insert_default();
            // In order: the places of the map keep the order in which the messages began.
            self.few.drain(..).for_each(|message| many.push(message));
        }
        true
    }

    /// Removes a finished message. Returns it with whether a tool was called since its last piece.
    pub(super) fn finish(&mut self, id: &MessageId) -> Option<(Unfinished, bool)> {
        let message = match &mut self.many {
            Some(many) => many.list.remove(&many.places.remove(id)?)?,
            None => self.few.remove(self.few.iter().rposition(|message| message.id == *id)?),
        };
        let before_tool = message.is_before_tool(self.tools);
        Some((message, before_tool))
    }

    /// Records that the agent itself called a tool.
    pub(super) fn tool_called(&mut self) {
        self.tools += 1;
    }

    /// Returns the messages that are left, each with whether a tool was called since its last piece.
    pub(super) fn into_rest(self) -> impl Iterator<Item = (Unfinished, bool)> {
        let many = self.many.map(|many| many.list).unwrap_or_default().into_values();
        self.few.into_iter().chain(many).map(move |message| {
            let before_tool = message.is_before_tool(self.tools);
            (message, before_tool)
        })
    }
}

impl Many {
    fn push(&mut self, message: Unfinished) {
        self.begun += 1;
        self.places.insert(message.id.clone(), self.begun);
        self.list.insert(self.begun, message);
    }
}

impl Unfinished {
    fn is_before_tool(&self, tools: u64) -> bool {
        !self.foreign && self.tools < tools
    }
}
