//! The text of the agent: the answer on standard output, and with `-v` its thinking and its sub-agents.
//!
//! Whether a message is commentary is known only when it ends. A terminal shows text as it arrives. A pipe gets the answer
//! alone, so a message is held until it is known to be part of the answer. A very long one is printed as it arrives, to bound
//! the memory.

use bowline_protocol::MessageId;
use bowline_protocol::kinds::{MessageFinished, Phase, TextDelta, TextRetracted, ThinkingDelta};
use bowline_providers::ansi;

use super::canvas::Canvas;
use super::line::{Paint, PaintedLine};
use super::words::Glyphs;

/// The number of messages that are remembered, in case their text is withdrawn. The decoder keeps as many undecided.
const REMEMBERED: usize = 64;

/// The maximum length of an unfinished line of thinking.
const LONGEST_PART: usize = 8 * 1024;

/// The text of the run so far.
#[derive(Debug)]
pub(super) struct AgentText {
    flow: PrintTiming,
    messages: Vec<HeldMessage>,
    /// The message of the last printed text.
    current: Option<MessageId>,
    aside: Option<SideText>,
    said_anything: bool,
    turn: TurnState,
    /// Messages of the answer that are held until the turn ends.
    waiting: Vec<(MessageId, String)>,
}

/// The maximum length of an answer that is held until its turn ends. A longer one is printed.
const LONGEST_WAITING: usize = 1024 * 1024;

/// The maximum text of unfinished messages that is held. Longer text is printed as it arrives: no commentary of that length is
/// known.
const LONGEST_HELD: usize = 2 * 1024 * 1024;

/// The state of the current turn.
#[derive(Debug, Default)]
struct TurnState {
    answered: bool,
    /// The last commentary that was not printed.
    commentary: Option<(MessageId, String)>,
}

/// The time at which text is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrintTiming {
    AsItComes,
    WhenItIsTheAnswer,
    /// When the turn has completed, because the request may be sent again.
    WhenTheTurnIsOver,
}

#[derive(Debug)]
struct HeldMessage {
    id: MessageId,
    /// The last printed block.
    printed: Option<u32>,
    /// Held text, by block.
    held: Vec<(u32, String)>,
    /// Whether it is too long to be held.
    flows: bool,
}

impl HeldMessage {
    fn length(&self) -> usize {
        self.held.iter().map(|(_, text)| text.len()).sum()
    }
}

/// Text that is not the answer, with an unfinished last line.
#[derive(Debug)]
struct SideText {
    voice: SideSource,
    part: String,
}

/// The source of text that is not the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideSource {
    Thinking,
    SubAgent,
    Commentary,
}

impl SideSource {
    fn label(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::SubAgent => "sub-agent",
            Self::Commentary => "commentary",
        }
    }
}

impl super::Renderer {
    /// Returns when text is printed: a pipe gets nothing that may not be the answer.
    pub(crate) fn hold_answer(&mut self) {
        self.speech.hold();
    }
}

impl AgentText {
    pub(super) fn new(canvas: &Canvas) -> Self {
        let flow =
            if canvas.screen().stdout.tty { PrintTiming::AsItComes } else { PrintTiming::WhenItIsTheAnswer };
        Self {
            flow,
            messages: Vec::new(),
            current: None,
            aside: None,
            said_anything: false,
            turn: TurnState::default(),
            waiting: Vec::new(),
        }
    }

    /// Holds the answer until its turn has completed, because the request may be sent again. A terminal still shows it at once.
    pub(super) fn hold(&mut self) {
        if self.flow == PrintTiming::WhenItIsTheAnswer {
            self.flow = PrintTiming::WhenTheTurnIsOver;
        }
    }

    /// Drops held text, because the request is sent again.
    pub(super) fn begin_again(&mut self) {
        self.waiting.clear();
        self.current = None;
        if self.flow == PrintTiming::WhenTheTurnIsOver {
            self.messages.clear();
        }
    }

    /// Prints the held text: the turn completed, so it is the answer.
    pub(super) fn turn_completed(&mut self, canvas: &mut Canvas) {
        for (message, text) in std::mem::take(&mut self.waiting) {
            self.print(&message, &text, canvas);
            canvas.end_message();
        }
    }

    /// Returns whether a part of the answer was printed.
    pub(super) fn said_anything(&self) -> bool {
        self.said_anything
    }

    /// Starts a turn, which may use ids of messages again.
    pub(super) fn turn_started(&mut self, canvas: &mut Canvas) {
        self.turn_completed(canvas);
        self.release(canvas);
        self.messages.clear();
        self.current = None;
        self.turn = TurnState::default();
    }

    /// Ends a turn without an answer: its last text is printed instead.
    pub(super) fn turn_cut_short(&mut self, canvas: &mut Canvas) {
        let unanswered = !self.turn.answered
            && self.waiting.is_empty()
            && self.messages.iter().all(|message| message.held.is_empty());
        if let Some((message, text)) = self.turn.commentary.take().filter(|_| unanswered) {
            self.print(&message, &text, canvas);
        }
    }

    /// Adds text of the agent itself.
    pub(super) fn text(&mut self, delta: &TextDelta, canvas: &mut Canvas) {
        let place = self.place(&delta.message);
        let message = &mut self.messages[place];
        if message.flows || self.flow == PrintTiming::AsItComes {
            message.printed = message.printed.max(Some(delta.block));
            return self.print(&delta.message, &delta.text, canvas);
        }
        match message.held.last_mut() {
            Some((block, text)) if *block == delta.block => text.push_str(&delta.text),
            _ => message.held.push((delta.block, delta.text.clone())),
        }
        if self.messages.iter().map(HeldMessage::length).sum::<usize>() > LONGEST_HELD {
            self.let_flow(place, canvas);
        }
    }

    /// Prints the held text of a message, and lets the rest be printed as it arrives.
    fn let_flow(&mut self, place: usize, canvas: &mut Canvas) {
        self.turn_completed(canvas);
        let message = &mut self.messages[place];
        // The waiting messages were printed first, above: otherwise the answer would be out of order.
        message.flows = true;
        message.printed = message.held.iter().map(|(block, _)| *block).max();
        let (id, held) = (message.id.clone(), std::mem::take(&mut message.held));
        for (_, text) in held {
            self.print(&id, &text, canvas);
        }
    }

    /// Withdraws text. Drops held text; prints a note about printed text.
    pub(super) fn retracted(&mut self, retracted: &TextRetracted, canvas: &mut Canvas) {
        let Some(message) = self.messages.iter_mut().find(|message| message.id == retracted.message) else {
            return;
        };
        if self.turn.commentary.as_ref().is_some_and(|(id, _)| *id == retracted.message) {
            self.turn.commentary = None;
        }
        message.held.retain(|(block, _)| *block < retracted.from_block);
        if message.printed.is_some_and(|block| block >= retracted.from_block) {
            canvas.end_block();
            message.printed = retracted.from_block.checked_sub(1);
            let which =
                if retracted.from_block == 0 { "the text above" } else { "the end of the text above" };
            let line = format!("(withdrawn: {which} is no longer part of the answer)");
            canvas.line(&PaintedLine::of(Paint::Yellow, line));
            self.current = None;
        }
    }

    /// Ends a message. Returns its text if it is commentary that was not printed.
    pub(super) fn finished(&mut self, finished: &MessageFinished, canvas: &mut Canvas) -> Option<String> {
        let place = self.messages.iter().position(|message| message.id == finished.message)?;
        let held = std::mem::take(&mut self.messages[place].held);
        if held.is_empty() {
            if self.current.as_ref() == Some(&finished.message) {
                canvas.end_block();
            }
            return None;
        }
        match finished.phase {
            Phase::Commentary => {
                let text: String = held.into_iter().map(|(_, text)| text).collect();
                self.turn.commentary = Some((finished.message.clone(), text.clone()));
                Some(text)
            }
            Phase::Final if self.flow == PrintTiming::WhenTheTurnIsOver => {
                let text: String = held.into_iter().map(|(_, text)| text).collect();
                self.waiting.push((finished.message.clone(), text));
                if self.waiting.iter().map(|(_, text)| text.len()).sum::<usize>() > LONGEST_WAITING {
                    self.turn_completed(canvas);
                }
                None
            }
            Phase::Final => {
                self.messages[place].printed = held.iter().map(|(block, _)| *block).max();
                for (_, text) in held {
                    self.print(&finished.message, &text, canvas);
                }
                canvas.end_message();
                None
            }
        }
    }

    /// Ends the run: prints held text as the partial answer.
    pub(super) fn end(&mut self, glyphs: Glyphs, canvas: &mut Canvas) {
        self.flush_aside(glyphs, canvas);
        self.turn_completed(canvas);
        self.release(canvas);
        canvas.end_text_line();
    }

    /// Adds thinking.
    pub(super) fn thinking(&mut self, delta: &ThinkingDelta, glyphs: Glyphs, canvas: &mut Canvas) {
        let voice = if delta.parent.is_some() { SideSource::SubAgent } else { SideSource::Thinking };
        self.aside(voice, &delta.text, glyphs, canvas);
    }

    /// Adds text that is not the answer and prints its complete lines.
    pub(super) fn aside(&mut self, voice: SideSource, text: &str, glyphs: Glyphs, canvas: &mut Canvas) {
        if self.aside.as_ref().is_some_and(|aside| aside.voice != voice) {
            self.flush_aside(glyphs, canvas);
        }
        let aside = self.aside.get_or_insert_with(|| SideText { voice, part: String::new() });
        aside.part.push_str(text);
        let complete = match aside.part.rfind('\n') {
            Some(end) => end + 1,
            None if aside.part.len() > LONGEST_PART => aside.part.len(),
            None => return,
        };
        let lines: String = aside.part.drain(..complete).collect();
        for line in lines.lines() {
            print_aside(voice, line, glyphs, canvas);
        }
    }

    /// Prints the unfinished line, because something else follows.
    pub(super) fn flush_aside(&mut self, glyphs: Glyphs, canvas: &mut Canvas) {
        if let Some(aside) = self.aside.take() {
            print_aside(aside.voice, &aside.part, glyphs, canvas);
        }
    }

    fn print(&mut self, message: &MessageId, text: &str, canvas: &mut Canvas) {
        if self.current.as_ref() != Some(message) {
            // Separate messages are separate lines.
            canvas.end_text_line();
            self.current = Some(message.clone());
        }
        self.turn.answered = true;
        self.said_anything |= !text.trim().is_empty();
        canvas.text(text);
    }

    fn release(&mut self, canvas: &mut Canvas) {
        for message in std::mem::take(&mut self.messages) {
            for (_, text) in &message.held {
                self.print(&message.id, text, canvas);
            }
        }
    }

    fn place(&mut self, id: &MessageId) -> usize {
        if let Some(place) = self.messages.iter().rposition(|message| message.id == *id) {
            return place;
        }
        if self.messages.len() >= REMEMBERED
            && let Some(old) = self.messages.iter().position(|message| message.held.is_empty())
        {
            self.messages.remove(old);
        }
        self.messages.push(HeldMessage { id: id.clone(), printed: None, held: Vec::new(), flows: false });
        self.messages.len() - 1
    }
}

fn print_aside(voice: SideSource, line: &str, glyphs: Glyphs, canvas: &mut Canvas) {
    if line.trim().is_empty() {
        return;
    }
    let text = format!("{} {} {}", voice.label(), glyphs.bar(), ansi::harmless(line.trim_end()));
    canvas.line(&PaintedLine::of(Paint::Dim, text));
}
