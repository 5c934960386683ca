//! Asks the person: approvals and questions of the agent, one after the other.
//!
//! Pure, like all of `human`: events and typed bytes in, lines and orders out. The caller sends the orders to the session
//! ([`Renderer::typed`](super::Renderer::typed)) and owns the keyboard, so that `run` and other commands can share it.
//!
//! ```text
//! open ──shown──> keys ──y, a, n──────────────────> sent ──decided──> gone; the next one is shown
//!                  │  ^                              │ ^
//!                  m, e │ Esc, empty line            │ │ refused: keys again
//!                  v  │                              v │
//!                 line ──Enter────────────────────────>
//! ```
//!
//! Only a key that was pressed after the request was shown counts: Enter, a pasted text and an early key never approve.

mod card;
mod line_entry;
mod lines;
mod listed;
mod replies;
mod shown;

pub(super) use card::ruling_text;
use std::collections::VecDeque;

use bowline_protocol::kinds::{ApprovalAsked, QuestionAsked};
use bowline_protocol::{
    ApprovalId, ApprovalVerdict, Capabilities, Json, Millis, OptionEffect, OrderRefused, QuestionId,
    SessionOrder, Timestamp,
};
use serde_json::Value;

use self::line_entry::{EntryStep, LineEntry};
pub(crate) use self::lines::LineStep;
pub(crate) use self::listed::{ApprovalCards, shell_word};
use self::replies::TypedAnswer;

/// A key that is pressed sooner after a request is shown was meant for something else.
const GRACE: Millis = Millis(300);

/// The longest text that a person gets to change, in bytes. A longer one is typed anew.
const LONGEST_CHANGE: usize = 1_000;

/// How the person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskTyping {
    /// By single keys, while a request is on the screen.
    Keys,
    /// By lines, among other lines that the person types.
    Lines,
    /// Not here: the requests are only shown.
    Elsewhere,
}

/// The requests of the agent that wait for the person.
#[derive(Debug)]
pub(super) struct AskPanel {
    typing: AskTyping,
    open: VecDeque<OpenRequest>,
    /// The first open request, once it is on the screen.
    shown: Option<ShownRequest>,
    /// The number of requests that were settled since the last time that none was open.
    done: usize,
    /// The number of requests that were ever shown.
    count: u64,
    /// Whether the agent may take a changed input.
    takes_changes: bool,
    /// Whether the approval on the screen was settled elsewhere, and no line was typed since.
    missed: bool,
}

/// An open request.
#[derive(Debug)]
enum OpenRequest {
    Approval(Box<ApprovalAsked>),
    Question(Box<QuestionAsked>),
}

/// The request that is on the screen.
#[derive(Debug)]
struct ShownRequest {
    since: Timestamp,
    /// The time of the last output of the agent below it.
    covered: Option<Timestamp>,
    input: AskInput,
}

/// The meaning of typed bytes.
#[derive(Debug)]
enum AskInput {
    Keys,
    Line(LinePurpose, LineEntry),
    /// The order is on its way; keys mean nothing.
    Sent,
}

/// The purpose of a typed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePurpose {
    /// The message of a denial.
    Message,
    /// The command, in this field of the input.
    Command(&'static str),
    /// The whole input, as JSON.
    Input,
    /// The answer to a question.
    Answer,
}

/// The result of typed bytes.
#[derive(Debug, PartialEq)]
pub(super) enum AskStep {
    /// Only the line at the bottom may have changed.
    Typed,
    /// All details are wanted.
    Explain,
    /// A remark for the person.
    Remark(String),
    Order(SessionOrder),
}

/// The keys that decide an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskKeys {
    once: bool,
    session: bool,
    change: bool,
}

impl AskKeys {
    fn list(self, typing: AskTyping) -> Vec<(char, &'static str, &'static str)> {
        // On a line, the text follows the key.
        let (edit, message) = match typing {
            AskTyping::Keys | AskTyping::Elsewhere => ("edit", "message"),
            AskTyping::Lines => ("edit TEXT", "message TEXT"),
        };
        let all = [
            (self.once, 'y', "once", "allow it, this time"),
            (
                self.session,
                'a',
                "session",
                "allow it, and what the agent counts as the same, for this session",
            ),
            (self.change, 'e', edit, "change the command or the input, then allow it"),
            (true, 'n', "deny", "deny it"),
            (
                true,
                'm',
                message,
                "deny it with a message; the agent reads it if its protocol carries messages",
            ),
            (true, '?', "more", "show all details"),
        ];
        all.into_iter()
            .filter(|(offered, ..)| *offered)
            .map(|(_, key, short, long)| (key, short, long))
            .collect()
    }

    /// Returns the keys on one line.
    fn line(self, typing: AskTyping) -> String {
        let keys: Vec<String> =
            self.list(typing).iter().map(|(key, short, _)| format!("[{key}] {short}")).collect();
        keys.join(" ")
    }

    /// Returns a line for each key.
    fn explained(self, typing: AskTyping) -> Vec<String> {
        let keys = self.list(typing).into_iter().filter(|(key, ..)| *key != '?');
        let mut lines: Vec<String> = keys.map(|(key, _, long)| format!("{key}  {long}")).collect();
        lines.push(match typing {
            AskTyping::Keys | AskTyping::Elsewhere => "Ctrl-C  cancel the run".to_owned(),
            AskTyping::Lines => "Ctrl-C  detach; the request waits".to_owned(),
        });
        lines
    }
}

impl OpenRequest {
    fn is_approval(&self, id: &ApprovalId) -> bool {
        matches!(self, Self::Approval(asked) if asked.id == *id)
    }

    fn is_question(&self, id: &QuestionId) -> bool {
        matches!(self, Self::Question(asked) if asked.id == *id)
    }

    fn is_about(&self, order: &SessionOrder) -> bool {
        match order {
            SessionOrder::Decide { approval: Some(id), .. } => self.is_approval(id),
            SessionOrder::Reply { question: Some(id), .. } => self.is_question(id),
            SessionOrder::Decide { approval: None, .. }
            | SessionOrder::Reply { question: None, .. }
            | SessionOrder::Prompt { .. }
            | SessionOrder::SendOffered { .. }
            | SessionOrder::Dequeue { .. }
            | SessionOrder::Interrupt
            | SessionOrder::SetOption { .. }
            | SessionOrder::SetControl { .. }
            | SessionOrder::Start { .. }
            | SessionOrder::Compact
            | SessionOrder::Stop
            | SessionOrder::Kill => false,
        }
    }

    /// Returns the order that denies or dismisses it.
    fn denial(&self) -> SessionOrder {
        match self {
            Self::Approval(asked) => decide(asked, ApprovalVerdict::Deny { message: None }),
            Self::Question(asked) => {
                SessionOrder::Reply { question: Some(asked.id.clone()), answers: Vec::new() }
            }
        }
    }

    /// Returns what typed bytes mean at first.
    fn first_input(&self) -> AskInput {
        match self {
            Self::Approval(_) => AskInput::Keys,
            Self::Question(_) => answer_line(),
        }
    }
}

impl AskPanel {
    pub(super) fn new(typing: AskTyping) -> Self {
        Self {
            typing,
            open: VecDeque::new(),
            shown: None,
            done: 0,
            count: 0,
            takes_changes: true,
            missed: false,
        }
    }

    /// Records what the agent can do.
    pub(super) fn capabilities(&mut self, has: &Capabilities) {
        self.takes_changes = has.changes_input;
    }

    /// Records an approval that the agent asks for.
    pub(super) fn approval_asked(&mut self, asked: &ApprovalAsked) {
        self.open.push_back(OpenRequest::Approval(Box::new(asked.clone())));
    }

    /// Records a question of the agent.
    pub(super) fn question_asked(&mut self, asked: &QuestionAsked) {
        self.open.push_back(OpenRequest::Question(Box::new(asked.clone())));
    }

    /// Removes a settled approval. Returns whether it was on the screen, and whether its decision came from here.
    pub(super) fn approval_decided(&mut self, id: &ApprovalId) -> Option<SettledHere> {
        let place = self.open.iter().position(|open| open.is_approval(id))?;
        self.remove(place)
    }

    /// Removes an answered question, as [`Self::approval_decided`] does.
    pub(super) fn question_answered(&mut self, id: &QuestionId) -> Option<SettledHere> {
        let place = self.open.iter().position(|open| open.is_question(id))?;
        self.remove(place)
    }

    fn remove(&mut self, place: usize) -> Option<SettledHere> {
        let removed = self.open.remove(place);
        // Only the first request is ever on the screen.
        let shown = if place == 0 { self.shown.take() } else { None };
        self.done = if self.open.is_empty() { 0 } else { self.done + 1 };
        let here = if matches!(shown?.input, AskInput::Sent) { SettledHere::Yes } else { SettledHere::No };
        self.missed = here == SettledHere::No && matches!(removed, Some(OpenRequest::Approval(_)));
        Some(here)
    }

    /// Returns the keys that the agent's offers allow.
    fn keys(&self, asked: &ApprovalAsked, input: Option<&Value>) -> AskKeys {
        let once = card::is_offered(asked, OptionEffect::AllowOnce);
        let change = once && self.takes_changes && input.is_some_and(Value::is_object);
        AskKeys { once, session: card::is_offered(asked, OptionEffect::AllowAlways), change }
    }

    /// Handles bytes of the keyboard. `input` is that of the tool that waits.
    fn typed(&mut self, bytes: &[u8], input: Option<&Value>, now: Timestamp) -> AskStep {
        let (Some(front), Some(shown)) = (self.open.front(), &self.shown) else { return AskStep::Typed };
        // The person was still typing something else when the request appeared.
        if now.since(shown.since) < GRACE {
            return AskStep::Typed;
        }
        match (&shown.input, front) {
            (AskInput::Line(..), _) => self.line_typed(bytes, input),
            // Several bytes at once are an arrow key, or text that was pasted.
            (AskInput::Keys, OpenRequest::Approval(asked)) if bytes.len() == 1 => {
                let keys = self.keys(asked, input);
                let asked = asked.clone();
                self.key(bytes[0], keys, &asked, input)
            }
            (AskInput::Keys | AskInput::Sent, OpenRequest::Approval(_) | OpenRequest::Question(_)) => {
                AskStep::Typed
            }
        }
    }

    fn key(&mut self, key: u8, keys: AskKeys, asked: &ApprovalAsked, input: Option<&Value>) -> AskStep {
        let verdict = match key.to_ascii_lowercase() {
            b'y' if keys.once => ApprovalVerdict::Allow { input: None },
            b'a' if keys.session => ApprovalVerdict::AllowForSession,
            b'n' => ApprovalVerdict::Deny { message: None },
            b'm' => {
                let entry = LineEntry::new("denied; message to the agent", "");
                return self.begin_line(LinePurpose::Message, entry);
            }
            b'e' if keys.change => return self.begin_change(input),
            b'?' => return AskStep::Explain,
            _ => return AskStep::Typed,
        };
        self.send(decide(asked, verdict))
    }

    fn begin_line(&mut self, purpose: LinePurpose, entry: LineEntry) -> AskStep {
        if let Some(shown) = &mut self.shown {
            shown.input = AskInput::Line(purpose, entry);
        }
        AskStep::Typed
    }

    /// Begins the line with the command, or with the input of the tool.
    fn begin_change(&mut self, input: Option<&Value>) -> AskStep {
        let Some(input) = input else { return AskStep::Typed };
        let fits = |text: &str| text.len() <= LONGEST_CHANGE && !text.contains(char::is_control);
        // A command in a list of words has no text of its own: its words are changed as JSON.
        let command = card::command(input).filter(|(name, _)| input.get(name).is_some_and(Value::is_string));
        let (purpose, label, text) = match command {
            Some((name, command)) => (LinePurpose::Command(name), "command", command),
            None => (LinePurpose::Input, "input", input.to_string()),
        };
        let text = if fits(&text) { text } else { String::new() };
        self.begin_line(purpose, LineEntry::new(label, text))
    }

    fn line_typed(&mut self, bytes: &[u8], input: Option<&Value>) -> AskStep {
        let Some(AskInput::Line(purpose, entry)) = self.shown.as_mut().map(|shown| &mut shown.input) else {
            return AskStep::Typed;
        };
        let purpose = *purpose;
        match entry.typed(bytes) {
            EntryStep::Typing => AskStep::Typed,
            EntryStep::Cancelled => {
                self.ask_anew();
                AskStep::Typed
            }
            EntryStep::Entered(line) => self.entered(purpose, &line, input),
        }
    }

    fn entered(&mut self, purpose: LinePurpose, line: &str, input: Option<&Value>) -> AskStep {
        // Whatever the line is, it is over.
        self.ask_anew();
        match (self.open.front_mut(), purpose) {
            (Some(OpenRequest::Question(asked)), _) => {
                let answers = match replies::read(asked, line) {
                    TypedAnswer::Wrong(why) => return AskStep::Remark(why),
                    TypedAnswer::Dismissed => Vec::new(),
                    TypedAnswer::Given(answers) => answers,
                };
                let question = Some(asked.id.clone());
                self.send(SessionOrder::Reply { question, answers })
            }
            // An empty line never decides.
            (Some(OpenRequest::Approval(_)), _) if line.trim().is_empty() => AskStep::Typed,
            (Some(OpenRequest::Approval(asked)), LinePurpose::Message) => {
                let order = decide(asked, ApprovalVerdict::Deny { message: Some(line.trim().to_owned()) });
                self.send(order)
            }
            (Some(OpenRequest::Approval(asked)), LinePurpose::Command(_) | LinePurpose::Input) => {
                match changed(purpose, line, input) {
                    Ok(input) => {
                        let order = decide(asked, ApprovalVerdict::Allow { input: Some(input) });
                        self.send(order)
                    }
                    Err(why) => AskStep::Remark(why.to_owned()),
                }
            }
            (Some(OpenRequest::Approval(_)), LinePurpose::Answer) | (None, _) => AskStep::Typed,
        }
    }

    /// Waits for keys, or for an answer, again.
    fn ask_anew(&mut self) {
        if let (Some(front), Some(shown)) = (self.open.front(), &mut self.shown) {
            shown.input = front.first_input();
        }
    }

    fn send(&mut self, order: SessionOrder) -> AskStep {
        if let Some(shown) = &mut self.shown {
            shown.input = AskInput::Sent;
        }
        AskStep::Order(order)
    }

    /// Handles that an order was refused. Returns the remark for the person.
    fn order_refused(&mut self, order: &SessionOrder, why: &OrderRefused) -> Option<String> {
        self.open.front().filter(|front| front.is_about(order))?;
        let is_change =
            matches!(order, SessionOrder::Decide { verdict: ApprovalVerdict::Allow { input: Some(_) }, .. });
        match why {
            OrderRefused::NotOffered if is_change => {
                self.takes_changes = false;
                self.ask_anew();
                Some("this agent does not take a changed command or input".to_owned())
            }
            OrderRefused::AlreadyDecided { .. }
            | OrderRefused::Unknown { .. }
            | OrderRefused::Stopping
            | OrderRefused::TurnOver => {
                // Nothing is left to decide, whether an event of its end follows or not.
                self.remove(0);
                Some(why.to_string())
            }
            OrderRefused::Busy
            | OrderRefused::PersonLeads
            | OrderRefused::NotSteerable { .. }
            | OrderRefused::NotAcknowledged { .. }
            | OrderRefused::Rejected { .. }
            | OrderRefused::NotOffered
            | OrderRefused::Ambiguous { .. }
            | OrderRefused::Unsupported { .. }
            | OrderRefused::OutOfBudget { .. }
            | OrderRefused::QueueFull { .. }
            | OrderRefused::Denied { .. }
            | OrderRefused::Forbidden { .. } => {
                self.ask_anew();
                Some(why.to_string())
            }
        }
    }

    /// Returns the order that denies the request on the screen, because no key can come any more.
    fn deny_shown(&mut self) -> Option<SessionOrder> {
        let (front, shown) = (self.open.front()?, self.shown.as_mut()?);
        let is_new = !matches!(std::mem::replace(&mut shown.input, AskInput::Sent), AskInput::Sent);
        is_new.then(|| front.denial())
    }
}

/// Whether a settled request that was on the screen was decided by a key here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettledHere {
    Yes,
    No,
}

fn answer_line() -> AskInput {
    let label = format!("answer ({} dismisses)", replies::DISMISS);
    AskInput::Line(LinePurpose::Answer, LineEntry::new(label, ""))
}

fn decide(asked: &ApprovalAsked, verdict: ApprovalVerdict) -> SessionOrder {
    SessionOrder::Decide { approval: Some(asked.id.clone()), verdict }
}

/// Makes the changed input of a typed line.
fn changed(purpose: LinePurpose, line: &str, input: Option<&Value>) -> Result<Json, &'static str> {
    const UNCHANGED: &str = "it is unchanged, and waits for your decision";
    const NO_OBJECT: &str = "the input of a tool is a JSON object";
    let input = input.ok_or(NO_OBJECT)?;
    let new = match purpose {
        LinePurpose::Command(name) => {
            let mut new = input.clone();
            new[name] = Value::String(line.to_owned());
            new
        }
        LinePurpose::Input | LinePurpose::Message | LinePurpose::Answer => {
            serde_json::from_str(line).ok().filter(Value::is_object).ok_or(NO_OBJECT)?
        }
    };
    if new == *input { Err(UNCHANGED) } else { Json::of(&new).map_err(|_| NO_OBJECT) }
}

#[cfg(test)]
mod tests;
