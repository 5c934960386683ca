//! The decoder of one process: combines the framer, the dialect and the turn tracker.
//!
//! A [`Decoder`] takes what a program prints, in pieces of any size, and gives the same events for every way of
//! cutting it. It never fails. Before the end, what a beginning of the bytes gives is a beginning of the events.

use bowline_protocol::kinds::{Unrecognized, UnrecognizedReason};
use bowline_protocol::{
    ApprovalId, Category, Excerpt, PermissionMode, PromptId, QuestionId, RawFile, RawSpan,
};

use super::End;
use super::dialect::{
    ApprovalAnswer, ClientOutput, Dialect, Framing, GateAnswer, HostAnswer, HostProblem, HostPrompt,
    HostToken, Input, OptionPermission, QuestionReply, Sent, Shape, Terminal, UnnumberedEvent,
};
use super::output::{Output, UNRECOGNIZED_HEAD};
use super::turns::TurnTracker;
use crate::ansi;
use crate::conversation::Conversation;
use crate::dialects::DialectEntry;
use crate::framing::{Frame, Framer, LINE_CAP};
use crate::lenient;
use crate::moment::Moment;
use crate::novelty::Watch;
use crate::usage::TurnSpending;

/// How much of the end of standard error is kept as evidence.
const STDERR_TAIL: usize = 64 * 1024;

/// Decodes the output of one process.
#[derive(Debug)]
pub struct Decoder {
    dialect: Box<dyn Dialect>,
    terminal: Terminal,
    stdout: Framer,
    stderr: Framer,
    stderr_tail: StderrTail,
    turns: TurnTracker,
    stdin: ClientOutput,
    watch: Option<Watch>,
}

impl Decoder {
    /// Makes a decoder for a dialect of the list.
    pub fn new(entry: &DialectEntry) -> Self {
        Self::of_shape(entry, Shape::Unknown)
    }

    /// Makes a decoder for output of a known shape.
    pub fn of_shape(entry: &DialectEntry, shape: Shape) -> Self {
        Self::build(entry, shape, LINE_CAP)
    }

    /// Makes a decoder that gives up on lines longer than `cap` bytes.
    pub fn with_line_cap(entry: &DialectEntry, cap: usize) -> Self {
        Self::build(entry, Shape::Unknown, cap)
    }

    fn build(entry: &DialectEntry, shape: Shape, cap: usize) -> Self {
        // Plain text has no other end than the end.
        let terminal = if shape == Shape::Text { Terminal::Eof } else { entry.terminal };
        Self {
            dialect: (entry.make)(shape),
            terminal,
            stdout: Framer::new(entry.framing, cap),
            stderr: Framer::new(Framing::Lines, cap),
            stderr_tail: StderrTail::default(),
            turns: TurnTracker::new(entry.commentary),
            stdin: ClientOutput::default(),
            watch: None,
        }
    }

    /// Talks with the program, in dialects with a two-way protocol.
    #[must_use]
    pub fn talking(mut self, entry: &DialectEntry, conversation: Option<&Conversation>) -> Self {
        if let (Some(conversation), Some(client)) = (conversation, entry.client) {
            self.dialect = (client.dialect)(conversation.clone());
        }
        self
    }

    /// Also looks for fields and types that are not in the program's vocabulary. Notices at the end list
    /// them.
    #[must_use]
    pub fn watching(mut self, vocabulary: &'static str) -> Self {
        self.watch = Some(Watch::new(vocabulary));
        self
    }

    /// Sets the length of the prompt, for the estimate when the program reports no usage.
    #[must_use]
    pub fn with_prompt_chars(mut self, chars: u64) -> Self {
        self.turns.prompt_chars = chars;
        self
    }

    /// Records a prompt that the caller sends now: it opens a turn, unless one is open. The program may repeat it.
    pub fn prompt(&mut self, text: &str, out: &mut Vec<UnnumberedEvent>) {
        self.turns.prompt(text, out);
    }

    /// Decodes the next bytes of standard output.
    pub fn stdout(&mut self, bytes: &[u8], now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        let Self { dialect, stdout, stderr_tail, turns, stdin, watch, .. } = self;
        let mut sink = Sink { dialect: dialect.as_mut(), turns, stdin, stderr: &stderr_tail.text, now, out };
        stdout.push(bytes, &mut |frame| sink.stdout(&frame, watch.as_mut()));
    }

    /// Decodes the next bytes of standard error.
    pub fn stderr(&mut self, bytes: &[u8], now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        let Self { dialect, stderr, stderr_tail, turns, stdin, .. } = self;
        stderr.push(bytes, &mut |frame| {
            // Before the dialect gets the line: the tail that it sees includes this line.
            stderr_tail.add(&frame);
            let mut sink =
                Sink { dialect: dialect.as_mut(), turns, stdin, stderr: &stderr_tail.text, now, out };
            sink.stderr(&frame);
        });
    }

    /// Decodes a line that was written to the program, without its line end, and its place in that stream.
    pub fn sent(&mut self, line: &str, start: u64, now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        let Self { dialect, stderr_tail, turns, stdin, .. } = self;
        let raw = RawSpan { file: RawFile::Stdin, start, end: start + line.len() as u64 };
        let mut sink = Sink { dialect: dialect.as_mut(), turns, stdin, stderr: &stderr_tail.text, now, out };
        sink.give(Input::Sent(line), Some(raw));
    }

    /// Handles the end of the output.
    pub fn finish(&mut self, end: &End, now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        let Self { dialect, terminal, stdout, stderr, stderr_tail, turns, stdin, watch } = self;
        // Standard error first: dialects read its tail as evidence when they judge the end of standard output.
        stderr.finish(&mut |frame| {
            stderr_tail.add(&frame);
            let mut sink =
                Sink { dialect: dialect.as_mut(), turns, stdin, stderr: &stderr_tail.text, now, out };
            sink.stderr(&frame);
        });
        let mut sink = Sink { dialect: dialect.as_mut(), turns, stdin, stderr: &stderr_tail.text, now, out };
        stdout.finish(&mut |frame| sink.stdout(&frame, watch.as_mut()));
        // After the last frames of both streams, so that the dialect sees the end last. `turns.finish` closes what it left open.
        sink.give(Input::Eof(end), None);
        for (path, count) in watch.iter_mut().flat_map(Watch::finish) {
            turns.novel(path, *count, out);
        }
        turns.finish(*terminal, end, &stderr_tail.text, now, out);
    }

    /// Lets the dialect send its first message: the program runs.
    pub fn open(&mut self, now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        self.speak(now, out, |dialect, output| dialect.open(output));
    }

    /// Sends a prompt that begins a turn. Report it to the turn tracker first ([`Self::prompt`]).
    pub fn send_prompt(&mut self, prompt: &HostPrompt, now: &Moment, out: &mut Vec<UnnumberedEvent>) -> Sent {
        self.speak(now, out, |dialect, output| dialect.prompt(prompt, output))
    }

    /// Sends a prompt into the running turn.
    pub fn steer(&mut self, prompt: &HostPrompt, now: &Moment, out: &mut Vec<UnnumberedEvent>) -> Sent {
        self.speak(now, out, |dialect, output| dialect.steer(prompt, output))
    }

    /// Takes back a prompt that the agent has not read.
    pub fn take_back(&mut self, prompt: &PromptId, now: &Moment, out: &mut Vec<UnnumberedEvent>) -> Sent {
        self.speak(now, out, |dialect, output| dialect.take_back(prompt, output))
    }

    /// Sends the program's own request to stop the turn.
    pub fn interrupt(&mut self, now: &Moment, out: &mut Vec<UnnumberedEvent>) -> Sent {
        self.speak(now, out, |dialect, output| dialect.interrupt(output))
    }

    /// Sends the decision on a request of the agent.
    pub fn decide(
        &mut self,
        approval: &ApprovalId,
        answer: &ApprovalAnswer,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) -> Sent {
        self.speak(now, out, |dialect, output| dialect.decide(approval, answer, output))
    }

    /// Lets a tool pass its gate.
    pub fn pass_gate(
        &mut self,
        gate: &ApprovalId,
        answer: &GateAnswer,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) -> Sent {
        self.speak(now, out, |dialect, output| dialect.pass_gate(gate, answer, output))
    }

    /// Sends the reply to a question of the agent.
    pub fn reply(
        &mut self,
        question: &QuestionId,
        reply: &QuestionReply,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) -> Sent {
        self.speak(now, out, |dialect, output| dialect.reply(question, reply, output))
    }

    /// Sends the result of a request that the host has carried out for the agent.
    pub fn host_done(
        &mut self,
        token: HostToken,
        result: &Result<HostAnswer, HostProblem>,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) -> Sent {
        self.speak(now, out, |dialect, output| dialect.host_done(token, result, output))
    }

    /// Changes an option of the session.
    pub fn set_option(
        &mut self,
        option: &str,
        value: &str,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
    ) -> Sent {
        self.speak(now, out, |dialect, output| dialect.set_option(option, value, output))
    }

    /// Returns what a change of one of the agent's own options does to its permissions, while the engine decides by `current`.
    pub fn option_permission(&self, option: &str, value: &str, current: PermissionMode) -> OptionPermission {
        self.dialect.option_permission(option, value, current)
    }

    /// Asks the agent to compact its context.
    pub fn compact(&mut self, now: &Moment, out: &mut Vec<UnnumberedEvent>) -> Sent {
        self.speak(now, out, |dialect, output| dialect.compact(output))
    }

    /// Ends the conversation with the program.
    pub fn close(&mut self, now: &Moment, out: &mut Vec<UnnumberedEvent>) {
        self.speak(now, out, |dialect, output| dialect.close(output));
    }

    fn speak<T>(
        &mut self,
        now: &Moment,
        out: &mut Vec<UnnumberedEvent>,
        speak: impl FnOnce(&mut dyn Dialect, &mut Output<'_>) -> T,
    ) -> T {
        let Self { dialect, stderr_tail, turns, stdin, .. } = self;
        let mut output = Output {
            turns,
            drafts: out,
            stdin,
            raw: None,
            stderr: &stderr_tail.text,
            now,
            exit: None,
            answered: false,
        };
        speak(dialect.as_mut(), &mut output)
    }

    /// Returns the number of the open turn, counted from 1 within this decoder; nothing between turns.
    pub fn open_turn(&self) -> Option<u32> {
        self.turns.open_turn()
    }

    /// Returns whether the open turn is work of the agent without a prompt, whose end the agent does not report. Between turns and
    /// in such a turn the client takes a prompt, which ends the turn ([`Self::prompt`]).
    pub fn is_open_ended(&self) -> bool {
        self.turns.is_open_ended()
    }

    /// Returns how many tool calls of the open turn have started and not ended.
    pub fn running_tools(&self) -> usize {
        self.turns.running_tools()
    }

    /// Returns whether the last turn ended while background tasks ran, and no turn has started since.
    pub fn has_left_tasks(&self) -> bool {
        self.turns.has_left_tasks()
    }

    /// Returns the reason of the program's last retry, as long as the retry had no effect.
    pub fn retrying(&self) -> Option<Category> {
        self.turns.retrying()
    }

    /// Returns what the open turn has used so far; nothing between turns.
    pub fn spent(&self) -> Option<TurnSpending> {
        self.turns.spent()
    }

    /// Returns what the dialect has for its host since the last call.
    pub fn take_client_output(&mut self) -> ClientOutput {
        std::mem::take(&mut self.stdin)
    }
}

/// Everything that one frame needs on its way through the dialect.
struct Sink<'a> {
    dialect: &'a mut dyn Dialect,
    turns: &'a mut TurnTracker,
    stdin: &'a mut ClientOutput,
    stderr: &'a str,
    now: &'a Moment,
    out: &'a mut Vec<UnnumberedEvent>,
}

impl Sink<'_> {
    fn stdout(&mut self, frame: &Frame<'_>, watch: Option<&mut Watch>) {
        let raw = span(RawFile::Stdout, frame);
        // Only the beginning of the line is here: half a JSON object would be misread. The raw file has all of it.
        if frame.cut {
            let what = Unrecognized {
                reason: UnrecognizedReason::TooLong,
                count: None,
                head: Excerpt {
                    text: Excerpt::with_limit(&String::from_utf8_lossy(frame.bytes), UNRECOGNIZED_HEAD).text,
                    bytes: frame.end - frame.start,
                },
                type_name: None,
            };
            self.turns.unrecognized(what, raw, self.out);
            return;
        }
        let line = ansi::decode(frame.bytes);
        if let Some(watch) = watch {
            watch.line(&line);
        }
        let answered = self.give(Input::Line(&line), raw);
        debug_assert!(
            answered || lenient::is_blank(&line),
            "the dialect reported nothing about line {line:?}"
        );
    }

    fn stderr(&mut self, frame: &Frame<'_>) {
        let line = ansi::decode(frame.bytes);
        self.give(Input::Stderr(&line), span(RawFile::Stderr, frame));
    }

    /// Hands a piece to the dialect. Returns whether the dialect reported anything about it.
    fn give(&mut self, input: Input<'_>, raw: Option<RawSpan>) -> bool {
        let mut output = Output {
            turns: self.turns,
            drafts: self.out,
            stdin: self.stdin,
            raw,
            stderr: self.stderr,
            now: self.now,
            exit: if let Input::Eof(end) = input { end.exit } else { None },
            answered: false,
        };
        self.dialect.handle(input, &mut output);
        output.answered
    }
}

fn span(file: RawFile, frame: &Frame<'_>) -> Option<RawSpan> {
    Some(RawSpan { file, start: frame.start, end: frame.end })
}

/// The end of standard error, without colour.
#[derive(Debug, Default)]
struct StderrTail {
    text: String,
}

impl StderrTail {
    fn add(&mut self, frame: &Frame<'_>) {
        // This may cut a character; `decode` replaces the rest of it.
        let bytes = &frame.bytes[frame.bytes.len().saturating_sub(STDERR_TAIL)..];
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&ansi::strip(&ansi::decode(bytes)));
        // Let it grow to twice its size before it is cut, so that many short lines cost one move each half.
        if self.text.len() > 2 * STDERR_TAIL {
            let from = self.text.ceil_char_boundary(self.text.len() - STDERR_TAIL);
            self.text.drain(..from);
        }
    }
}
