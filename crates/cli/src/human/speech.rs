//! What the agent says: the answer on standard output, and with `-v` what it thinks and what its sub-agents say.
//!
//! Which messages are commentary is known only when they end. A terminal shows text as it comes, because a person can
//! tell. Into a pipe goes the answer alone, so a message is held until it is known to be part of it, or until it is so
//! long that memory would grow with it: then it is printed as it comes.

use bowline_protocol::MessageId;
use bowline_protocol::kinds::{MessageFinished, Phase, TextDelta, TextRetracted, ThinkingDelta};
use bowline_providers::ansi;

use super::canvas::{Canvas, Line, Paint};
use super::words::Glyphs;

/// How many messages are remembered, should their text be withdrawn. The account of turns keeps as many undecided.
const REMEMBERED: usize = 64;

/// The most of a thought that waits for the end of its line.
const LONGEST_PART: usize = 8 * 1024;

/// What was said so far.
#[derive(Debug)]
pub(super) struct Speech {
    flow: Flow,
    messages: Vec<Message>,
    /// The message whose text was printed last.
    current: Option<MessageId>,
    aside: Option<Aside>,
    said_anything: bool,
    turn: Turn,
    /// Messages of the answer that wait for the end of the turn.
    waiting: Vec<(MessageId, String)>,
}

/// The most of an answer that waits for the end of its turn. One that is longer is shown, whatever becomes of it.
const LONGEST_WAITING: usize = 1024 * 1024;

/// The most text that is held of messages that have not ended. What goes beyond it is printed as it comes: nothing of that
/// length was ever seen to accompany the work.
const LONGEST_HELD: usize = 2 * 1024 * 1024;

/// What is remembered of the turn that runs.
#[derive(Debug, Default)]
struct Turn {
    answered: bool,
    /// The last text that was not shown because it is not the answer.
    commentary: Option<(MessageId, String)>,
}

/// When text is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    AsItComes,
    WhenItIsTheAnswer,
    /// When the turn has ended well, because the request may be sent again from the beginning.
    WhenTheTurnIsOver,
}

#[derive(Debug)]
struct Message {
    id: MessageId,
    /// The last block of which text was printed.
    printed: Option<u32>,
    /// Text that waits, by block.
    held: Vec<(u32, String)>,
    /// Whether it was too long to be held.
    flows: bool,
}

impl Message {
    fn length(&self) -> usize {
        self.held.iter().map(|(_, text)| text.len()).sum()
    }
}

/// A text beside the answer, of which the last line is not complete.
#[derive(Debug)]
struct Aside {
    voice: Voice,
    part: String,
}

/// Who speaks beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Thinking,
    SubAgent,
    Commentary,
}

impl Voice {
    fn label(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::SubAgent => "sub-agent",
            Self::Commentary => "commentary",
        }
    }
}

impl super::Renderer {
    /// Says that the request may be sent again: into a pipe, nothing goes that may not be the answer.
    pub(crate) fn hold_answer(&mut self) {
        self.speech.hold();
    }
}

impl Speech {
    pub(super) fn new(canvas: &Canvas) -> Self {
        let flow = if canvas.screen().stdout.tty { Flow::AsItComes } else { Flow::WhenItIsTheAnswer };
        Self {
            flow,
            messages: Vec::new(),
            current: None,
            aside: None,
            said_anything: false,
            turn: Turn::default(),
            waiting: Vec::new(),
        }
    }

    /// Holds the answer back until its turn has ended well: the request may be sent again. A terminal shows it as it comes.
    pub(super) fn hold(&mut self) {
        if self.flow == Flow::WhenItIsTheAnswer {
            self.flow = Flow::WhenTheTurnIsOver;
        }
    }

    /// The request is sent again: what was said for it and not shown is not a part of the answer.
    pub(super) fn begin_again(&mut self) {
        self.waiting.clear();
        self.current = None;
        if self.flow == Flow::WhenTheTurnIsOver {
            self.messages.clear();
        }
    }

    /// The turn ended well, so that what it said is the answer.
    pub(super) fn turn_completed(&mut self, canvas: &mut Canvas) {
        for (message, text) in std::mem::take(&mut self.waiting) {
            self.print(&message, &text, canvas);
            canvas.end_message();
        }
    }

    /// Says whether any of the answer was printed.
    pub(super) fn said_anything(&self) -> bool {
        self.said_anything
    }

    /// A new turn may use the names of messages again.
    pub(super) fn turn_started(&mut self, canvas: &mut Canvas) {
        self.turn_completed(canvas);
        self.release(canvas);
        self.messages.clear();
        self.current = None;
        self.turn = Turn::default();
    }

    /// Of a turn that was cut short before it had an answer, what it said last is all there is.
    pub(super) fn turn_cut_short(&mut self, canvas: &mut Canvas) {
        let unanswered = !self.turn.answered
            && self.waiting.is_empty()
            && self.messages.iter().all(|message| message.held.is_empty());
        if let Some((message, text)) = self.turn.commentary.take().filter(|_| unanswered) {
            self.print(&message, &text, canvas);
        }
    }

    /// Takes a piece of the agent's own text.
    pub(super) fn text(&mut self, delta: &TextDelta, canvas: &mut Canvas) {
        let place = self.place(&delta.message);
        let message = &mut self.messages[place];
        if message.flows || self.flow == Flow::AsItComes {
            message.printed = message.printed.max(Some(delta.block));
            return self.print(&delta.message, &delta.text, canvas);
        }
        match message.held.last_mut() {
            Some((block, text)) if *block == delta.block => text.push_str(&delta.text),
            _ => message.held.push((delta.block, delta.text.clone())),
        }
        if self.messages.iter().map(Message::length).sum::<usize>() > LONGEST_HELD {
            self.let_flow(place, canvas);
        }
    }

    /// Prints what is held of a message, and the rest of it as it comes.
    fn let_flow(&mut self, place: usize, canvas: &mut Canvas) {
        self.turn_completed(canvas);
        let message = &mut self.messages[place];
        message.flows = true;
        message.printed = message.held.iter().map(|(block, _)| *block).max();
        let (id, held) = (message.id.clone(), std::mem::take(&mut message.held));
        for (_, text) in held {
            self.print(&id, &text, canvas);
        }
    }

    /// Text is taken back. What was not printed yet is forgotten; of what was, the reader is told.
    pub(super) fn retracted(&mut self, retracted: &TextRetracted, canvas: &mut Canvas) {
        let Some(message) = self.messages.iter_mut().find(|message| message.id == retracted.message) else {
            return;
        };
        if self.turn.commentary.as_ref().is_some_and(|(id, _)| *id == retracted.message) {
            self.turn.commentary = None;
        }
        message.held.retain(|(block, _)| *block < retracted.from_block);
        if message.printed.is_some_and(|block| block >= retracted.from_block) {
            message.printed = retracted.from_block.checked_sub(1);
            let which =
                if retracted.from_block == 0 { "the text above" } else { "the end of the text above" };
            let line = format!("(withdrawn: {which} is no longer part of the answer)");
            canvas.line(&Line::of(Paint::Yellow, line));
            self.current = None;
        }
    }

    /// A message is complete. Returns its text if it accompanied the work and was not shown.
    pub(super) fn finished(&mut self, finished: &MessageFinished, canvas: &mut Canvas) -> Option<String> {
        let place = self.messages.iter().position(|message| message.id == finished.message)?;
        let held = std::mem::take(&mut self.messages[place].held);
        if held.is_empty() {
            return None;
        }
        match finished.phase {
            Phase::Commentary => {
                let text: String = held.into_iter().map(|(_, text)| text).collect();
                self.turn.commentary = Some((finished.message.clone(), text.clone()));
                Some(text)
            }
            Phase::Final if self.flow == Flow::WhenTheTurnIsOver => {
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

    /// The end: whatever still waits is the partial answer.
    pub(super) fn end(&mut self, glyphs: Glyphs, canvas: &mut Canvas) {
        self.flush_aside(glyphs, canvas);
        self.turn_completed(canvas);
        self.release(canvas);
        canvas.end_text_line();
    }

    /// Takes a thought.
    pub(super) fn thinking(&mut self, delta: &ThinkingDelta, glyphs: Glyphs, canvas: &mut Canvas) {
        let voice = if delta.parent.is_some() { Voice::SubAgent } else { Voice::Thinking };
        self.aside(voice, &delta.text, glyphs, canvas);
    }

    /// Takes text that is not the answer and prints its complete lines.
    pub(super) fn aside(&mut self, voice: Voice, text: &str, glyphs: Glyphs, canvas: &mut Canvas) {
        if self.aside.as_ref().is_some_and(|aside| aside.voice != voice) {
            self.flush_aside(glyphs, canvas);
        }
        let aside = self.aside.get_or_insert_with(|| Aside { voice, part: String::new() });
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

    /// Prints a line that was not complete, because something else comes.
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
        self.messages.push(Message { id: id.clone(), printed: None, held: Vec::new(), flows: false });
        self.messages.len() - 1
    }
}

fn print_aside(voice: Voice, line: &str, glyphs: Glyphs, canvas: &mut Canvas) {
    if line.trim().is_empty() {
        return;
    }
    let text = format!("{} {} {}", voice.label(), glyphs.bar(), ansi::harmless(line.trim_end()));
    canvas.line(&Line::of(Paint::Dim, text));
}
