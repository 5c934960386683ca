//! Our side of `pi --mode rpc`: asks which session is open, and translates prompts, steers, replies and options.
//!
//! ```text
//!                         ┌─────────── settled ──────────┐
//! introducing ──> ready ──┴─prompt──> starting ──> ready, and a turn runs
//!      │             └────compact───> compacting ──> ready
//!      └── refused, or another session ──> abandoned
//! ```
//!
//! All sent lines go to the reader as well, which makes the events and knows whether a turn runs.

mod queue;

use bowline_protocol::kinds::Level;
use bowline_protocol::{QuestionId, Resume};
use serde_json::{Value, json};

use self::queue::SteerQueue;
use super::dialect::{self, rpc::PiRpc};
use super::wire::{PiLine, PiMessage, PiResponseData};
use crate::base64;
use crate::conversation::Conversation;
use crate::dialect::{AckToken, Dialect, HostPrompt, Input, Output, QuestionReply, Sent};
use crate::dialects::loose_json;
use crate::failure::Report;
use crate::invocation::image_type;

/// How many questions of extensions may wait. More are dismissed at once, so that an extension cannot fill the memory.
const OPEN_AT_MOST: usize = 256;

/// The levels that pi knows. It also accepts any other word, which has no effect (0.87.1).
const THINKING: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Talks to the program about one session.
#[derive(Debug)]
pub(super) struct PiClient {
    reader: PiRpc,
    talk: Conversation,
    stage: PiStage,
    /// The number of the last command, and the commands without a response.
    last: u64,
    waiting: Vec<OwnCommand>,
    steers: SteerQueue,
    /// How many of our messages the program reads now and has not repeated yet. It may repeat them in other words.
    echoes: u32,
    /// The model provider of the current model.
    provider: Option<String>,
    /// Questions of extensions that wait for a reply.
    open: Vec<PiQuestion>,
}

/// How far we are.
#[derive(Debug, PartialEq, Eq)]
enum PiStage {
    Introducing,
    Ready,
    /// A prompt was sent, and its turn has not begun.
    Starting,
    Compacting,
    /// Standard input is closed. The program finishes what it does.
    Closed,
    /// Given up: what the program still prints is not about the session that is meant.
    Abandoned,
}

/// A command of ours that waits for its response.
#[derive(Debug)]
struct OwnCommand {
    number: u64,
    purpose: CommandPurpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandPurpose {
    Introduction,
    Prompt,
    Steer,
    Interrupt,
    Compaction,
    Model,
    Setting,
}

/// A question of an extension.
#[derive(Debug)]
struct PiQuestion {
    id: String,
    /// Whether it wants a yes or no.
    confirms: bool,
}

impl PiClient {
    pub(super) fn new(talk: Conversation) -> Self {
        Self {
            reader: PiRpc::default(),
            talk,
            stage: PiStage::Introducing,
            last: 0,
            waiting: Vec::new(),
            steers: SteerQueue::default(),
            echoes: 0,
            provider: None,
            open: Vec::new(),
        }
    }

    /// Returns the first message, whatever the prompt is.
    pub(super) fn first_message() -> String {
        let line = json!({ "id": command_id(1), "type": "get_state" });
        format!("{line}\n")
    }

    /// Sends a command. Its response acknowledges it.
    fn command(&mut self, mut command: Value, purpose: CommandPurpose, out: &mut Output<'_>) -> Sent {
        self.last += 1;
        command["id"] = json!(command_id(self.last));
        self.waiting.push(OwnCommand { number: self.last, purpose });
        out.say(format!("{command}\n").as_bytes(), &mut self.reader);
        Sent::Awaiting(AckToken(self.last))
    }

    /// Handles an object of the program. Returns whether it could be read.
    fn object(&mut self, raw: &str, line: &PiLine<'_>, out: &mut Output<'_>) -> bool {
        let kind = line.type_name.str();
        match kind {
            // pi names steers by their texts only, so the queue is compared text by text.
            "queue_update" => {
                let waiting: Vec<String> = loose_json::part(line.steering);
                for prompt in self.steers.update(&waiting) {
                    self.echoes += 1;
                    out.prompt_read(&prompt);
                }
            }
            "agent_settled" => {
                // Before the reader ends the turn. It settles only when it has read all that it has accepted.
                self.steers.settle().iter().for_each(|prompt| out.prompt_read(prompt));
                self.echoes = 0;
            }
            // The turn tracker has the prompt already. Without this, each prompt would be in the events twice.
            "message_end" if is_of_user(line) && self.is_echo(out) => {
                out.quiet();
                return true;
            }
            _ => {}
        }
        let read = self.reader.object(raw, line, out);
        match kind {
            "agent_start" if self.stage == PiStage::Starting => self.stage = PiStage::Ready,
            "response" => self.responded(line, out),
            "extension_ui_request" => self.asked(line, out),
            _ => {}
        }
        read
    }

    /// Returns whether a message on the user's side is one of ours. The program may have expanded a template in it.
    fn is_echo(&mut self, out: &mut Output<'_>) -> bool {
        if self.echoes > 0 {
            self.echoes -= 1;
            return true;
        }
        let expanded = self.steers.expanded();
        expanded.iter().for_each(|prompt| out.prompt_read(prompt));
        expanded.is_some()
    }

    /// Continues after a response. The reader reports the program's refusals.
    fn responded(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        let is = |own: &OwnCommand| line.id.text() == Some(&command_id(own.number));
        // A line that pi cannot parse is answered with `command: "parse"` and no id (0.87.1): it belongs to none of our commands.
        let Some(place) = self.waiting.iter().position(is) else { return };
        let OwnCommand { number, purpose } = self.waiting.remove(place);
        let token = AckToken(number);
        let error = || line.error.text().unwrap_or("the agent refused it").to_owned();
        let result = if line.success.truth() == Some(true) { Ok(()) } else { Err(error()) };
        let data: PiResponseData<'_> = loose_json::part(line.data);
        match (purpose, &result) {
            (CommandPurpose::Introduction, Ok(())) => return self.opened(&data, out),
            (CommandPurpose::Introduction, Err(error)) => {
                return self.give_up(&Report::of(error.clone()), out);
            }
            // `Sent::Done`: a refused prompt ends its turn, which the reader does.
            (CommandPurpose::Prompt, result) => {
                if result.is_err() && self.stage == PiStage::Starting {
                    self.stage = PiStage::Ready;
                    self.echoes = 0;
                }
                return;
            }
            (CommandPurpose::Steer, Err(_)) => self.steers.refuse(token),
            (CommandPurpose::Steer, Ok(())) => {
                if self.steers.accept(token) && !self.reader.is_turning() {
                    // The turn ended before it arrived. pi does not give it back (0.87.1).
                    let text = "the turn was over: pi keeps the message and reads it with the next prompt";
                    out.at(None, |out| out.notice(Level::Warn, text));
                }
            }
            // This response comes behind `agent_settled`, not before it (0.87.1): a turn that ran is over already.
            (CommandPurpose::Interrupt, _) => {
                // The program has handled the prompt by itself, such as a command of an extension, or not begun it.
                if self.stage == PiStage::Starting {
                    self.stage = PiStage::Ready;
                    self.echoes = 0;
                    out.at(None, |out| out.cancelled());
                }
            }
            // "Nothing to compact" is a refusal (0.87.1). After it, too, the program takes prompts again.
            (CommandPurpose::Compaction, _) => {
                if self.stage == PiStage::Compacting {
                    self.stage = PiStage::Ready;
                }
            }
            // A model without a provider in a later order means a model of this one.
            (CommandPurpose::Model, Ok(())) => self.provider = data.provider.string(),
            (CommandPurpose::Model, Err(_)) | (CommandPurpose::Setting, _) => {}
        }
        out.acknowledged(token, result);
    }

    /// Is ready, if the session that is open is the one that is meant.
    fn opened(&mut self, state: &PiResponseData<'_>, out: &mut Output<'_>) {
        let session = state.session_id.text().unwrap_or_default();
        let named = matches!(self.talk.resume, Some(Resume::Id { .. } | Resume::Fork { .. }));
        // Only a session that is written down needs an id.
        if let Some(report) = self.talk.not_meant(session).filter(|_| named || !session.is_empty()) {
            return self.give_up(&report, out);
        }
        self.provider = state.model.0.provider.string();
        if self.stage == PiStage::Introducing {
            self.stage = PiStage::Ready;
            out.ready();
        }
    }

    /// Handles what an extension wants from the user's interface.
    fn asked(&mut self, line: &PiLine<'_>, out: &mut Output<'_>) {
        let method = line.method.str();
        if !matches!(method, "select" | "confirm" | "input" | "editor") || self.stage == PiStage::Closed {
            return;
        }
        // Without an id there is nothing that a response could name.
        let Some(id) = line.id.string() else { return };
        // A dismissal, not silence: an extension that waits for its dialog blocks the turn.
        if self.open.len() >= OPEN_AT_MOST {
            return self.respond(&id, &json!({ "cancelled": true }), out);
        }
        out.awaits_reply(QuestionId::from(id.as_str()));
        self.open.push(PiQuestion { id, confirms: method == "confirm" });
    }

    fn respond(&mut self, id: &str, fields: &Value, out: &mut Output<'_>) {
        let mut line = json!({ "type": "extension_ui_response", "id": id });
        for (name, value) in fields.as_object().into_iter().flatten() {
            line[name.as_str()] = value.clone();
        }
        out.say(format!("{line}\n").as_bytes(), &mut self.reader);
    }

    /// Returns the fields of a prompt: its text and images. The agent reads other files itself.
    fn message(&self, kind: &str, prompt: &HostPrompt) -> Value {
        let mut text = prompt.text.clone();
        let mut images = Vec::new();
        for file in &prompt.attachments {
            match (prompt.images.get(&file.path), image_type(file)) {
                (Some(bytes), Some(kind)) => {
                    images.push(json!({ "type": "image", "data": base64::encode(bytes), "mimeType": kind }));
                }
                // Its name and not its contents: the agent reads the file when it needs it, with its own tools.
                (None, _) | (_, None) => {
                    text.push_str("\n\n@");
                    text.push_str(&self.talk.absolute(&file.path));
                }
            }
        }
        let mut command = json!({ "type": kind, "message": text });
        if !images.is_empty() {
            command["images"] = json!(images);
        }
        command
    }

    /// Ends it for a reason of ours.
    fn give_up(&mut self, report: &Report, out: &mut Output<'_>) {
        self.stage = PiStage::Abandoned;
        out.at(None, |out| out.failed(report));
        out.hang_up();
    }

    /// Returns why no turn can begin now.
    fn not_idle(&self) -> Option<&'static str> {
        match self.stage {
            PiStage::Ready if self.reader.is_turning() => Some("a turn runs"),
            PiStage::Ready => None,
            PiStage::Starting => Some("a turn begins"),
            PiStage::Compacting => Some("the agent compacts its context"),
            PiStage::Introducing | PiStage::Closed | PiStage::Abandoned => {
                Some("the agent takes no prompts now")
            }
        }
    }
}

impl Dialect for PiClient {
    fn open(&mut self, out: &mut Output<'_>) {
        self.command(json!({ "type": "get_state" }), CommandPurpose::Introduction, out);
    }

    fn handle(&mut self, input: Input<'_>, out: &mut Output<'_>) {
        match input {
            Input::Line(_) if self.stage == PiStage::Abandoned => out.quiet(),
            Input::Line(line) => {
                dialect::read(line, out, |text, object, out| self.object(text, object, out));
            }
            Input::Stderr(_) | Input::Sent(_) | Input::Eof(_) => self.reader.handle(input, out),
        }
    }

    fn prompt(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        if let Some(why) = self.not_idle() {
            return Sent::Cannot(why);
        }
        self.stage = PiStage::Starting;
        self.echoes = 1;
        out.prompts();
        self.command(self.message("prompt", prompt), CommandPurpose::Prompt, out);
        Sent::Done
    }

    fn steer(&mut self, prompt: &HostPrompt, out: &mut Output<'_>) -> Sent {
        // Between turns pi accepts a steer, in silence, for the next prompt (0.87.1).
        if self.stage != PiStage::Ready || !self.reader.is_turning() {
            return Sent::Cannot("no turn runs");
        }
        let command = self.message("steer", prompt);
        let text = command["message"].as_str().unwrap_or_default().to_owned();
        // Before the command is sent: `command` gives it this number. A token that is entered later could miss its response.
        self.steers.add(AckToken(self.last + 1), prompt, text);
        self.command(command, CommandPurpose::Steer, out)
    }

    fn interrupt(&mut self, out: &mut Output<'_>) -> Sent {
        let turning = self.stage == PiStage::Ready && self.reader.is_turning();
        if !turning && self.stage != PiStage::Starting {
            return Sent::Cannot("no turn runs");
        }
        // `abort` puts steers that were not read into the history, unanswered; the next prompt has them (0.87.1).
        self.command(json!({ "type": "abort" }), CommandPurpose::Interrupt, out)
    }

    fn reply(&mut self, question: &QuestionId, reply: &QuestionReply, out: &mut Output<'_>) -> Sent {
        let open = self.open.iter().position(|open| open.id == question.as_str());
        let Some(place) = open.filter(|_| self.stage != PiStage::Closed) else {
            return Sent::Cannot("the agent no longer waits for it");
        };
        let fields = match reply {
            QuestionReply::Dismissed => json!({ "cancelled": true }),
            QuestionReply::Answers(answers) => match (answers.as_slice(), self.open[place].confirms) {
                ([answer], true) if answer == "yes" || answer == "no" => {
                    json!({ "confirmed": answer == "yes" })
                }
                (_, true) => return Sent::Cannot("the answer is `yes` or `no`"),
                ([answer], false) => json!({ "value": answer }),
                (_, false) => return Sent::Cannot("the question takes one answer"),
            },
        };
        // Taken out only now: a reply of the wrong form leaves the question open for a better one.
        let open = self.open.remove(place);
        self.respond(&open.id, &fields, out);
        Sent::Done
    }

    fn set_option(&mut self, option: &str, value: &str, out: &mut Output<'_>) -> Sent {
        if matches!(self.stage, PiStage::Introducing | PiStage::Closed | PiStage::Abandoned) {
            return Sent::Cannot("the agent takes no options now");
        }
        match option {
            "model" => {
                // At the first slash: names of models contain slashes themselves, as in `openrouter/meta/llama`.
                let named = value.split_once('/').map(|(provider, model)| (provider.to_owned(), model));
                let current = || Some((self.provider.clone()?, value));
                let Some((provider, model)) = named.or_else(current) else {
                    return Sent::Cannot("name the model with its provider: `provider/model`");
                };
                let command = json!({ "type": "set_model", "provider": provider, "modelId": model });
                self.command(command, CommandPurpose::Model, out)
            }
            "effort" if THINKING.contains(&value) => {
                let command = json!({ "type": "set_thinking_level", "level": value });
                self.command(command, CommandPurpose::Setting, out)
            }
            // pi reports success for any word (0.87.1), so an unknown level has to be refused here.
            "effort" => Sent::Cannot("the agent has no such thinking level"),
            "permission" => {
                Sent::Cannot("the agent has no permissions: the mode chooses its tools at its start")
            }
            _ => Sent::Cannot("the agent has no such option"),
        }
    }

    fn compact(&mut self, out: &mut Output<'_>) -> Sent {
        // While text streams, pi would abort the turn first (0.87.1).
        if let Some(why) = self.not_idle() {
            return Sent::Cannot(why);
        }
        // The response ends the stage: it comes behind `compaction_end` (0.87.1), so no prompt is sent into the compaction.
        self.stage = PiStage::Compacting;
        self.command(json!({ "type": "compact" }), CommandPurpose::Compaction, out)
    }

    fn close(&mut self, out: &mut Output<'_>) {
        if self.stage != PiStage::Abandoned {
            self.stage = PiStage::Closed;
        }
        out.hang_up();
    }
}

/// Returns whether a message is of the user's side.
fn is_of_user(line: &PiLine<'_>) -> bool {
    let message: PiMessage<'_> = loose_json::part(line.message);
    message.role.str() == "user"
}

fn command_id(number: u64) -> String {
    format!("bowline-{number}")
}

#[cfg(test)]
mod tests;
