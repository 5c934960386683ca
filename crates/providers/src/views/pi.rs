//! pi's assistant message events: a `start`, then blocks that start, grow and end, then one `done` or `error`.
//!
//! The whole stream becomes one assistant message. Tools that the agent runs itself are not in it, because pi would run
//! every tool call that it finds; calls that the host has to run are. Sub-agents are not in it. The first and the last
//! record carry the message. The records between them carry only what is new, as `pi --mode json` prints them since
//! 0.87; with `pi-partials` each of them also carries the message so far, as pi's types and the adapter protocol have it,
//! which grows with the square of the answer. The text of an attempt that was given up is emptied and keeps its place, as
//! retracted text does; the last record leaves such blocks out. The message itself is in `message`.

mod message;

use bowline_protocol::kinds::{TextRetracted, ToolOwner, ToolStarted, ToolUpdated};
use bowline_protocol::{Event, Exit, Failure, Kind, MessageId, Source, ToolId};

use self::message::{PiContent, PiRecord, PiViewMessage};
use super::calls::{LateCall, no_arguments};
use super::tally::{Finish, Tally};
use super::{Setup, View, line};

/// Makes the view whose records carry only what is new.
pub(crate) fn make(setup: &Setup) -> Box<dyn View> {
    of(setup, Partials::Omitted)
}

/// Makes the view whose records all carry the message so far.
pub(crate) fn make_partials(setup: &Setup) -> Box<dyn View> {
    of(setup, Partials::Whole)
}

fn of(setup: &Setup, partials: Partials) -> Box<dyn View> {
    Box::new(PiView {
        setup: setup.clone(),
        partials,
        tally: Tally::default(),
        message: PiViewMessage::default(),
        blocks: Vec::new(),
        open: Vec::new(),
        turn_from: 0,
        started: false,
    })
}

/// Whether records carry the message so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partials {
    Omitted,
    Whole,
}

#[derive(Debug)]
struct PiView {
    setup: Setup,
    partials: Partials,
    tally: Tally,
    message: PiViewMessage,
    /// The source of each block of the message's content.
    blocks: Vec<Origin>,
    /// The blocks that have not ended, in the order in which they began.
    open: Vec<usize>,
    /// The first block of this turn. Another turn may use the same ids again.
    turn_from: usize,
    started: bool,
}

/// Where a content block comes from.
#[derive(Debug)]
enum Origin {
    Text(MessageId, u32),
    Thinking(MessageId, u32),
    Tool(LateCall),
}

impl View for PiView {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the format has no record for the other kinds")]
    fn event(&mut self, event: &Event, out: &mut String) {
        self.tally.event(event);
        self.start(out);
        match &event.kind {
            Kind::TurnStarted(_) => self.turn_from = self.blocks.len(),
            Kind::FallbackTaken(_) => self.begin_again(out),
            Kind::Retrying(_) if event.source == Source::Bowline => self.begin_again(out),
            Kind::TextDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                self.text(&delta.message, delta.block, &delta.text, out);
            }
            Kind::ThinkingDelta(delta) if delta.parent.is_none() && !delta.text.is_empty() => {
                self.thinking(&delta.message, delta.block, &delta.text, out);
            }
            Kind::TextRetracted(retracted) => self.retract(retracted, out),
            Kind::MessageFinished(finished) => self.end(|origin| origin.is_of(&finished.message), out),
            Kind::ToolStarted(tool) => match tool.owner {
                ToolOwner::Host => self.tool_started(tool, out),
                ToolOwner::Cli => {}
            },
            Kind::ToolUpdated(update) => self.tool_updated(update, out),
            Kind::ToolFinished(finished) => self.end(|origin| origin.is_call(&finished.id), out),
            Kind::TurnEnded(_) => self.end(|_| true, out),
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut String) {
        self.start(out);
        self.end(|_| true, out);
        self.message.drop_empty_blocks();
        let reason = match self.tally.finish() {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolUse => "toolUse",
            Finish::Cancelled => "aborted",
            Finish::Failed => "error",
        };
        self.message.end(reason, self.tally.trouble().map(spelled));
        let message = &self.message;
        let last = match message.error_message {
            None => PiRecord::Done { reason, message },
            Some(_) => PiRecord::Error { reason, error: message },
        };
        line(out, &last);
    }
}

/// Returns the message of a failure. For a bare exit code it is the specification's wording.
fn spelled(failure: Failure) -> String {
    match failure.exit {
        Some(Exit::Code(code)) if failure.message == format!("exit code {code}") => {
            format!("CLI exited with code {code}")
        }
        Some(_) | None => failure.message,
    }
}

impl PiView {
    /// Brings the message's heading up to date, and prints `start` before anything else is printed.
    fn start(&mut self, out: &mut String) {
        self.message.set_heading(&self.tally, &self.setup);
        if !self.started {
            self.started = true;
            line(out, &PiRecord::Start { partial: &self.message });
        }
    }

    /// Returns the message so far, where records carry it.
    fn partial(&self) -> Option<&PiViewMessage> {
        (self.partials == Partials::Whole).then_some(&self.message)
    }

    fn text(&mut self, message: &MessageId, block: u32, delta: &str, out: &mut String) {
        let known =
            self.find_open(|origin| matches!(origin, Origin::Text(m, b) if m == message && *b == block));
        let content_index = known.unwrap_or_else(|| {
            let content_index =
                self.begin(Origin::Text(message.clone(), block), PiContent::empty_text(), out);
            line(out, &PiRecord::TextStart { content_index, partial: self.partial() });
            content_index
        });
        self.message.content[content_index].push(delta);
        line(out, &PiRecord::TextDelta { content_index, delta, partial: self.partial() });
    }

    fn thinking(&mut self, message: &MessageId, block: u32, delta: &str, out: &mut String) {
        let known =
            self.find_open(|origin| matches!(origin, Origin::Thinking(m, b) if m == message && *b == block));
        let content_index = known.unwrap_or_else(|| {
            let content_index =
                self.begin(Origin::Thinking(message.clone(), block), PiContent::empty_thinking(), out);
            line(out, &PiRecord::ThinkingStart { content_index, partial: self.partial() });
            content_index
        });
        self.message.content[content_index].push(delta);
        line(out, &PiRecord::ThinkingDelta { content_index, delta, partial: self.partial() });
    }

    /// Empties text that no longer counts. A block keeps its place, because later ones are known by theirs.
    fn retract(&mut self, retracted: &TextRetracted, out: &mut String) {
        let gone = |origin: &Origin| {
            matches!(origin, Origin::Text(message, block)
                if *message == retracted.message && *block >= retracted.from_block)
        };
        for content_index in self.turn_from..self.blocks.len() {
            if gone(&self.blocks[content_index]) {
                self.message.content[content_index] = PiContent::empty_text();
            }
        }
        self.end(gone, out);
    }

    /// Empties the text of a request that is sent a second time, and retracts its calls: a host that runs every call that it
    /// finds would run them for nothing. The next record shows it.
    fn begin_again(&mut self, out: &mut String) {
        self.end(|_| true, out);
        for content in &mut self.message.content[self.turn_from..] {
            *content = match content {
                PiContent::Thinking { .. } => PiContent::empty_thinking(),
                PiContent::Text { .. } | PiContent::ToolCall { .. } => PiContent::empty_text(),
            };
        }
    }

    fn tool_started(&mut self, tool: &ToolStarted, out: &mut String) {
        let repeated = self.blocks[self.turn_from..].iter().any(|origin| origin.is_call(&tool.id));
        if repeated {
            return;
        }
        let call =
            PiContent::ToolCall { id: tool.id.clone(), name: tool.name.clone(), arguments: no_arguments() };
        let content_index = self.begin(Origin::Tool(LateCall::of(tool)), call, out);
        line(out, &PiRecord::ToolcallStart { content_index, partial: self.partial() });
        if let Some(input) = &tool.input {
            let delta = input.as_str();
            line(out, &PiRecord::ToolcallDelta { content_index, delta, partial: self.partial() });
            self.end(|origin| origin.is_call(&tool.id), out);
        }
    }

    fn tool_updated(&mut self, update: &ToolUpdated, out: &mut String) {
        let Some(content_index) = self.find_open(|origin| origin.is_call(&update.id)) else { return };
        let Origin::Tool(call) = &mut self.blocks[content_index] else { return };
        let complete = call.update(update);
        // The arguments as a whole are new only if they did not come in pieces.
        let whole = if call.has_pieces() { None } else { update.input.as_ref().map(|input| input.as_str()) };
        if let Some(delta) = update.input_delta.as_deref().filter(|piece| !piece.is_empty()).or(whole) {
            line(out, &PiRecord::ToolcallDelta { content_index, delta, partial: self.partial() });
        }
        if complete {
            self.end(|origin| origin.is_call(&update.id), out);
        }
    }

    /// Starts a block. Earlier text of its message ends first, as in pi's own streams.
    fn begin(&mut self, origin: Origin, content: PiContent, out: &mut String) -> usize {
        if let Origin::Text(message, _) | Origin::Thinking(message, _) = &origin {
            self.end(|open| open.is_of(message), out);
        }
        self.blocks.push(origin);
        self.message.content.push(content);
        self.open.push(self.blocks.len() - 1);
        self.blocks.len() - 1
    }

    fn find_open(&self, wanted: impl Fn(&Origin) -> bool) -> Option<usize> {
        self.open.iter().copied().find(|&content_index| wanted(&self.blocks[content_index]))
    }

    /// Ends those of the open blocks that are wanted.
    fn end(&mut self, wanted: impl Fn(&Origin) -> bool, out: &mut String) {
        let blocks = &self.blocks;
        let ending: Vec<usize> = self.open.extract_if(.., |&mut at| wanted(&blocks[at])).collect();
        for content_index in ending {
            if let (Origin::Tool(call), PiContent::ToolCall { arguments, .. }) =
                (&self.blocks[content_index], &mut self.message.content[content_index])
            {
                *arguments = call.arguments();
            }
            let partial = self.partial();
            let record = match &self.message.content[content_index] {
                PiContent::Text { text } => PiRecord::TextEnd { content_index, content: text, partial },
                PiContent::Thinking { thinking } => {
                    PiRecord::ThinkingEnd { content_index, content: thinking, partial }
                }
                call @ PiContent::ToolCall { .. } => {
                    PiRecord::ToolcallEnd { content_index, tool_call: call, partial }
                }
            };
            line(out, &record);
        }
    }
}

impl Origin {
    fn is_of(&self, message: &MessageId) -> bool {
        match self {
            Self::Text(of, _) | Self::Thinking(of, _) => of == message,
            Self::Tool(_) => false,
        }
    }

    fn is_call(&self, id: &ToolId) -> bool {
        match self {
            Self::Tool(call) => call.id == *id,
            Self::Text(..) | Self::Thinking(..) => false,
        }
    }
}
