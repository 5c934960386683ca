//! Our side of `claude --input-format stream-json`: introduces itself, and translates prompts, decisions, replies and options.
//!
//! ```text
//! introducing ──> ready (whether a turn runs, the reader knows) ──> closed
//!      └── refused ──┴── another session was opened ──> abandoned
//! ```
//!
//! Lines of the control protocol go to the reader as well, which makes the events. Prompts do not: the turn tracker has the
//! text of a prompt already, and a steer is part of the conversation only when the program reads it. So their replays are dropped, too.
//! The session's id is known only in the first turn.

mod answers;
mod gates;
mod modes;
mod prompts;

use std::collections::BTreeMap;

use bowline_protocol::{ApprovalId, Json, PromptId, QuestionId};
use serde_json::{Value, json};

use self::answers::ClaudeRequest;
use self::gates::{GATE, OpenGates, introduction};
use self::prompts::OwnPrompts;
use super::approvals::{MOST_OPEN, question_id};
use super::dialect::Claude;
use super::wire::{self, ClaudeObject};
use crate::conversation::Conversation;
use crate::dialect::{
    AckToken, ApprovalAnswer, Dialect, GateAnswer, HostPrompt, Input, Output, QuestionReply, Sent, Shape,
};
use crate::dialects::shaped::Shaped;
use crate::failure::Report;

/// How many requests may wait. One more is refused at once, before the reader gives up the oldest.
const OPEN_AT_MOST: usize = MOST_OPEN - 1;

/// Why an answer is not sent: the request was withdrawn, or is answered, or the conversation is over.
const NOT_OPEN: &str = "the agent no longer waits for it";

/// The request that introduces us.
const INTRODUCTION: &str = "initialize";

/// Marks of the lines that the client has to see. Most lines are pieces of text, which are not read twice.
const MARKS: &[&str] = &["\"control_", "\"command_lifecycle\"", "\"isReplay\"", "\"init\"", "\"result\""];

/// Talks to the program about one session.
#[derive(Debug)]
pub(super) struct ClaudeClient {
    reader: Shaped<Claude>,
    talk: Conversation,
    stage: ClaudeStage,
    /// Whether the session is the one that is meant.
    checked: bool,
    /// The number of the last request, and the requests without a response.
    last: u64,
    waiting: Vec<OwnRequest>,
    tokens: u64,
    prompts: OwnPrompts,
    /// Requests of the program that wait for an answer.
    open: Vec<(String, ClaudeRequest)>,
    /// Tools that wait at their gates.
    gates: OpenGates,
}

/// How far we are.
#[derive(Debug, PartialEq, Eq)]
enum ClaudeStage {
    Introducing,
    Ready,
    /// Standard input is closed. The program finishes what it does.
    Closed,
    /// Given up: what the program still prints is not about the session that is meant.
    Abandoned,
}

/// A request of ours that waits for its response.
#[derive(Debug)]
struct OwnRequest {
    id: String,
    purpose: RequestPurpose,
}

#[derive(Debug)]
enum RequestPurpose {
    Introduction,
    /// The caller waits for it.
    Order(AckToken),
    /// The caller waits for it: take the prompt with this uuid back.
    TakeBack(AckToken, String),
}

impl ClaudeClient {
    pub(super) fn new(talk: Conversation) -> Self {
        Self {
            reader: Shaped::new(Claude::default(), Shape::Lines),
            talk,
            stage: ClaudeStage::Introducing,
            checked: false,
            last: 0,
            waiting: Vec::new(),
            tokens: 0,
            prompts: OwnPrompts::default(),
            open: Vec::new(),
            gates: OpenGates::default(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(super) fn first_message(talk: &Conversation) -> String {
        request_line(&request_id(1), &introduction(talk))
    }

    fn is_turning(&self) -> bool {
        self.reader.speaker().turn.is_some()
    }

    fn token(&mut self) -> AckToken {
        self.tokens += 1;
        AckToken(self.tokens)
    }

    fn ask(&mut self, request: &Value, purpose: RequestPurpose, out: &mut Output<'_>) {
        self.last += 1;
        let id = request_id(self.last);
        out.say(request_line(&id, request).as_bytes(), &mut self.reader);
        self.waiting.push(OwnRequest { id, purpose });
    }

    /// Sends a request whose response the caller waits for.
    fn order(&mut self, request: &Value, out: &mut Output<'_>) -> Sent {
        let token = self.token();
        self.ask(request, RequestPurpose::Order(token), out);
        Sent::Awaiting(token)
    }

    /// Handles an object that is no piece of text.
    fn object(&mut self, raw: &str, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let kind = line.text_or_empty("type");
        match kind.as_ref() {
            // Before the reader: the prompt opens a turn, in which the reader's events about this line belong.
            "command_lifecycle" => self.lifecycle(line, out),
            "user" if line.is("isReplay") => {
                if let Some(own) = self.prompts.take(&line.text_or_empty("uuid")) {
                    out.quiet();
                    return self.read(own.token, own.unread, out);
                }
            }
            "control_response" => {
                let response = line.object("response").unwrap_or_default();
                let id = response.text_or_empty("request_id");
                let Some(place) = self.waiting.iter().position(|own| own.id == id) else {
                    // With `--replay-user-messages` our own responses come back.
                    return out.quiet();
                };
                let own = self.waiting.remove(place);
                self.reader.handle(Input::Line(raw), out);
                return self.responded(own.purpose, &response, out);
            }
            _ => {}
        }
        self.reader.handle(Input::Line(raw), out);
        match kind.as_ref() {
            "control_request" => self.requested(line, out),
            // An interrupt withdraws the requests of its turn.
            "control_cancel_request" => self.gates.withdrawn(&line.text_or_empty("request_id")),
            "system" if line.text_or_empty("subtype") == "init" => self.opened(line, out),
            _ => {}
        }
        let requests = &self.reader.speaker().requests;
        // The reader knows what was withdrawn, and what ended with its turn.
        self.open.retain(|(id, _)| requests.is_open(id));
    }

    /// Handles what became of a prompt of ours.
    fn lifecycle(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let uuid = line.text_or_empty("command_uuid");
        match line.text_or_empty("state").as_ref() {
            "queued" => {
                if let Some(token) = self.prompts.find(&uuid).and_then(|own| own.token.take()) {
                    out.acknowledged(token, Ok(()));
                }
            }
            "started" => {
                let own = self.prompts.find(&uuid).map(|own| (own.token.take(), own.unread.take()));
                if let Some((token, unread)) = own {
                    self.read(token, unread, out);
                    // A turn of the program's own may have ended the one that the prompt had opened.
                    self.reader.speaker_mut().prompted(out);
                }
            }
            "completed" => {
                if let Some(token) = self.prompts.take(&uuid).and_then(|own| own.token) {
                    out.acknowledged(token, Ok(()));
                }
            }
            "cancelled" => {
                if let Some(token) = self.prompts.take(&uuid).and_then(|own| own.token) {
                    out.acknowledged(token, Err("the agent has dropped the prompt".into()));
                }
            }
            // The reader reports new states.
            _ => {}
        }
    }

    /// Handles that the program reads a prompt of ours. If no turn runs, it begins one.
    fn read(&mut self, token: Option<AckToken>, unread: Option<HostPrompt>, out: &mut Output<'_>) {
        if let Some(token) = token {
            out.acknowledged(token, Ok(()));
        }
        if let Some(prompt) = unread {
            out.prompt_read(&prompt);
            self.reader.speaker_mut().prompted(out);
        }
    }

    /// Continues after a response. The reader reports the program's refusals.
    fn responded(&mut self, purpose: RequestPurpose, response: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let refused = response.text_or_empty("subtype") == "error";
        let error = || response.text("error").unwrap_or("the agent refused it".into()).into_owned();
        let result = if refused { Err(error()) } else { Ok(()) };
        match (purpose, result) {
            (RequestPurpose::Introduction, Ok(())) => {
                if self.stage == ClaudeStage::Introducing {
                    self.stage = ClaudeStage::Ready;
                    out.ready();
                }
            }
            (RequestPurpose::Introduction, Err(error)) => self.give_up(&Report::of(error), out),
            (RequestPurpose::Order(token), result) => out.acknowledged(token, result),
            (RequestPurpose::TakeBack(token, uuid), Ok(())) => {
                let given = response.object("response").is_some_and(|answer| answer.is("cancelled"));
                if given {
                    // The lifecycle line before has usually done it.
                    self.prompts.take(&uuid);
                }
                let read = || Err("the agent has read the prompt".to_owned());
                out.acknowledged(token, if given { Ok(()) } else { read() });
            }
            (RequestPurpose::TakeBack(token, _), Err(error)) => out.acknowledged(token, Err(error)),
        }
    }

    /// Handles the start of a turn, which is the first to name the session.
    fn opened(&mut self, init: &ClaudeObject<'_>, out: &mut Output<'_>) {
        if std::mem::replace(&mut self.checked, true) {
            return;
        }
        if let Some(report) = self.talk.not_meant(&init.text_or_empty("session_id")) {
            // The program works on the prompt already, and would go on to its end although its input is closed.
            let id = request_id(self.last + 1);
            out.write(request_line(&id, &json!({ "subtype": "interrupt" })).as_bytes());
            self.give_up(&report, out);
        }
    }

    /// Handles a request of the program: approvals and questions wait, all else is refused at once.
    fn requested(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        // Without standard input there is no way to answer. The program denies what it asks for then.
        if self.stage == ClaudeStage::Closed {
            return;
        }
        let id = line.text_or_empty("request_id").into_owned();
        let request = line.object("request").unwrap_or_default();
        let subtype = request.text_or_empty("subtype");
        if subtype == "hook_callback" && request.text_or_empty("callback_id") == GATE {
            return self.at_gate(id, &request.object("input").unwrap_or_default(), out);
        }
        let texts = self.reader.speaker().requests.asked(&id);
        let open = match (subtype.as_ref(), texts) {
            ("elicitation", _) => ClaudeRequest::form(&request),
            ("can_use_tool", []) => ClaudeRequest::permission(&request),
            ("can_use_tool", texts) => ClaudeRequest::questions(&request, texts.to_vec()),
            (other, _) => {
                let error = format!("this client does not support `{other}`");
                let response = json!({ "subtype": "error", "request_id": id, "error": error });
                let line = json!({ "type": "control_response", "response": response });
                return out.say(format!("{line}\n").as_bytes(), &mut self.reader);
            }
        };
        if self.open.len() >= OPEN_AT_MOST {
            return self.answer(&id, &open.refusal(), out);
        }
        match self.reader.speaker().requests.decision(&id, &request) {
            Some(request) => out.awaits_decision(request),
            None => (0..open.questions_count()).for_each(|at| out.awaits_reply(question_id(&id, at))),
        }
        self.open.push((id, open));
    }

    /// Returns the place of an open request.
    fn find_open(&self, is: impl Fn(&str, &ClaudeRequest) -> bool) -> Option<usize> {
        let requests = &self.reader.speaker().requests;
        let place = self.open.iter().position(|(id, open)| is(id, open) && requests.is_open(id));
        place.filter(|_| self.stage == ClaudeStage::Ready)
    }

    /// Sends the answer to an open request.
    fn settle(&mut self, place: usize, answer: &Json, out: &mut Output<'_>) -> Sent {
        let (id, _) = self.open.remove(place);
        self.answer(&id, answer, out);
        Sent::Done
    }

    fn answer(&mut self, id: &str, answer: &Json, out: &mut Output<'_>) {
        // Written by hand, so that the input of a tool goes back to the byte.
        let line = format!(
            "{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":{},\"response\":{}}}}}\n",
            json!(id),
            answer.as_str(),
        );
        out.say(line.as_bytes(), &mut self.reader);
    }

    /// Ends it for a reason of ours.
    fn give_up(&mut self, report: &Report, out: &mut Output<'_>) {
        self.stage = ClaudeStage::Abandoned;
        self.open.clear();
        out.at(None, |out| out.failed(report));
        out.hang_up();
    }

    /// Returns why no turn can begin now.
    fn not_idle(&self) -> Option<&'static str> {
        match self.stage {
            ClaudeStage::Ready if self.is_turning() => Some("a turn runs"),
            ClaudeStage::Ready => None,
            ClaudeStage::Introducing | ClaudeStage::Closed | ClaudeStage::Abandoned => {
                Some("the agent takes no prompts now")
            }
        }
    }
}

impl Dialect for ClaudeClient {
    fn open(&mut self, out: &mut Output<'_>) {
        self.ask(&introduction(&self.talk), RequestPurpose::Introduction, out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(_) if self.stage == ClaudeStage::Abandoned => out.quiet(),
            Input::Line(line)
                if !line.starts_with(r#"{"type":"stream_event""#)
                    && MARKS.iter().any(|mark| line.contains(mark)) =>
            {
                wire::each(line, out, |raw, object, out| self.object(raw, object, out));
            }
            Input::Line(_) | Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => {
                self.reader.handle(input, out);
            }
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        if let Some(why) = self.not_idle() {
            return Sent::Cannot(why);
        }
        let content = match prompts::content(prompt, &self.talk) {
            Ok(content) => content,
            Err(why) => return Sent::Cannot(why),
        };
        let uuid = self.prompts.add(prompt.id.as_str(), None, None, out.now.at);
        out.prompts();
        out.write(&prompts::line(&uuid, &content));
        self.reader.speaker_mut().prompted(out);
        Sent::Done
    }

    fn steer(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        if self.stage != ClaudeStage::Ready || !self.is_turning() {
            return Sent::Cannot("no turn runs");
        }
        let content = match prompts::content(prompt, &self.talk) {
            Ok(content) => content,
            Err(why) => return Sent::Cannot(why),
        };
        let token = self.token();
        let unread = HostPrompt { images: BTreeMap::new(), ..prompt.clone() };
        let uuid = self.prompts.add(prompt.id.as_str(), Some(unread), Some(token), out.now.at);
        // Without a priority it joins the turn in a tool and at an approval. `now` would withdraw an open approval (2.1.325).
        out.write(&prompts::line(&uuid, &content));
        Sent::Awaiting(token)
    }

    fn take_back(&mut self, prompt: &PromptId, out: &mut Output<'_>) -> Sent {
        let Some(uuid) = self.prompts.unread(prompt).filter(|_| self.stage == ClaudeStage::Ready) else {
            return Sent::Cannot("the agent has read it");
        };
        let token = self.token();
        let request = json!({ "subtype": "cancel_async_message", "message_uuid": uuid });
        self.ask(&request, RequestPurpose::TakeBack(token, uuid), out);
        Sent::Awaiting(token)
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        if self.stage != ClaudeStage::Ready || !self.is_turning() {
            return Sent::Cannot("no turn runs");
        }
        self.order(&json!({ "subtype": "interrupt" }), out)
    }

    fn decide(&mut self, approval: &ApprovalId, answer: &ApprovalAnswer, out: &mut Output<'_>) -> Sent {
        if let Some(sent) = self.decide_gate(approval, answer, out) {
            return sent;
        }
        let Some(place) = self.find_open(|id, _| id == approval.as_str()) else {
            return Sent::Cannot(NOT_OPEN);
        };
        match self.open[place].1.decision(answer) {
            Ok(answer) => self.settle(place, &answer, out),
            Err(why) => Sent::Cannot(why),
        }
    }

    fn pass_gate(&mut self, gate: &ApprovalId, answer: &GateAnswer, out: &mut Output<'_>) -> Sent {
        self.open_gate(gate, answer, out)
    }

    fn reply(&mut self, question: &QuestionId, reply: &QuestionReply, out: &mut Output<'_>) -> Sent {
        let at = |id: &str, open: &ClaudeRequest| {
            (0..open.questions_count().max(1)).find(|at| question_id(id, *at) == *question)
        };
        let Some(place) = self.find_open(|id, open| at(id, open).is_some()) else {
            return Sent::Cannot(NOT_OPEN);
        };
        let (id, open) = &mut self.open[place];
        match open.reply(at(id, open).unwrap_or_default(), reply) {
            Ok(Some(answer)) => self.settle(place, &answer, out),
            // Other questions of the same request still wait.
            Ok(None) => Sent::Done,
            Err(why) => Sent::Cannot(why),
        }
    }

    fn set_option(&mut self, option: &str, value: &str, out: &mut Output<'_>) -> Sent {
        if self.stage != ClaudeStage::Ready {
            return Sent::Cannot("the agent takes no options now");
        }
        let request = match option {
            "model" => json!({ "subtype": "set_model", "model": value }),
            "permission" => match self.mode(value) {
                Ok(mode) => json!({ "subtype": "set_permission_mode", "mode": mode }),
                Err(why) => return Sent::Cannot(why),
            },
            // Of the two requests for it, only this one has a proven effect (2.1.325).
            "max_thinking_tokens" => match value.parse::<u32>() {
                Ok(tokens) => {
                    json!({ "subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens })
                }
                Err(_) => return Sent::Cannot("`max_thinking_tokens` is a whole number"),
            },
            "effort" => {
                return Sent::Cannot(
                    "the agent takes the effort only at its start; a running one takes `max_thinking_tokens`",
                );
            }
            _ => return Sent::Cannot("the agent has no such option"),
        };
        self.order(&request, out)
    }

    fn compact(&mut self, out: &mut Output<'_>) -> Sent {
        if let Some(why) = self.not_idle() {
            return Sent::Cannot(why);
        }
        let token = self.token();
        let uuid = self.prompts.add(COMPACT, None, Some(token), out.now.at);
        out.write(&prompts::line(&uuid, &json!(COMPACT)));
        // A turn with a `result` of its own.
        self.reader.speaker_mut().prompted(out);
        Sent::Awaiting(token)
    }

    fn close(&mut self, out: &mut Output<'_>) {
        if self.stage != ClaudeStage::Abandoned {
            self.stage = ClaudeStage::Closed;
        }
        out.hang_up();
    }
}

/// The prompt that compacts the context.
const COMPACT: &str = "/compact";

fn request_id(number: u64) -> String {
    format!("bowline-{number}")
}

fn request_line(id: &str, request: &Value) -> String {
    let line = json!({ "type": "control_request", "request_id": id, "request": request });
    format!("{line}\n")
}

#[cfg(test)]
mod tests;
