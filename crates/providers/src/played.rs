//! A client that is played against the agent's side of a recording, for tests.
//!
//! The recorded host lines mark the moments at which the test gives its own orders. The numbers of requests are translated: the
//! client need not send what the recorder sent.

use std::collections::{HashMap, VecDeque};

use bowline_protocol::kinds::Outcome;
use bowline_protocol::{Code, Kind, PromptId, QuestionId, Timestamp};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::decode::{Decoder, End};
use crate::dialect::{Acknowledgement, ClientOutput, DecisionRequest, HostPrompt, Sent, UnnumberedEvent};
use crate::dialects;
use crate::moment::Moment;

/// The wire of a recording, by its folder in `fixtures/`.
macro_rules! wire {
    ($case:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/", $case, "/wire.jsonl"))
    };
}
pub(crate) use wire;

/// A recording that is being played.
pub(crate) struct PlayedRecording {
    pub(crate) decoder: Decoder,
    pub(crate) drafts: Vec<UnnumberedEvent>,
    pub(crate) now: Moment,
    /// The messages of the client that no test has looked at.
    pub(crate) sent: VecDeque<Value>,
    /// The reports of the client.
    pub(crate) ready: bool,
    pub(crate) requests: Vec<DecisionRequest>,
    pub(crate) questions: Vec<QuestionId>,
    pub(crate) acknowledged: Vec<Acknowledgement>,
    pub(crate) read: Vec<PromptId>,
    pub(crate) lost: Vec<PromptId>,
    steps: VecDeque<(bool, Value)>,
    /// Our number of each recorded request of the host.
    numbers: HashMap<String, Value>,
    /// Changes a message of the agent, where the recorder chose another setting than the client.
    pub(crate) edit: fn(&mut Value),
}

impl PlayedRecording {
    /// Opens a recording: the text of its wire ([`wire`]).
    pub(crate) fn open(dialect: &str, wire: &str, talk: &Conversation) -> Self {
        let step = |line: &str| {
            let step: Value = serde_json::from_str(line).unwrap();
            let from_host = match step["dir"].as_str()? {
                "host->cli" => true,
                "cli->host" => false,
                _ => return None,
            };
            Some((from_host, serde_json::from_str(step["line"].as_str()?).ok()?))
        };
        let entry = dialects::by_name(dialect).unwrap();
        let mut played = Self {
            decoder: Decoder::new(entry).talking(entry, Some(talk)),
            drafts: Vec::new(),
            now: Moment::utc(Timestamp::EPOCH),
            sent: VecDeque::new(),
            ready: false,
            requests: Vec::new(),
            questions: Vec::new(),
            acknowledged: Vec::new(),
            read: Vec::new(),
            lost: Vec::new(),
            steps: wire.lines().filter_map(step).collect(),
            numbers: HashMap::new(),
            edit: |_| {},
        };
        played.decoder.open(&played.now, &mut played.drafts);
        played.listen();
        played
    }

    fn listen(&mut self) {
        let output = self.decoder.take_client_output();
        let ClientOutput { bytes, ready, requests, questions, acknowledged, read, lost, .. } = output;
        let text = String::from_utf8(bytes).unwrap();
        self.sent.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        self.ready |= ready;
        self.requests.extend(requests);
        self.questions.extend(questions);
        self.acknowledged.extend(acknowledged);
        self.read.extend(read);
        self.lost.extend(lost);
    }

    /// Plays the agent up to the next host line with this method, and returns that line. A response has the method "".
    pub(crate) fn until(&mut self, method: &str) -> Value {
        while let Some((from_host, message)) = self.steps.pop_front() {
            if !from_host {
                self.agent(message);
            } else if message["method"].as_str().unwrap_or_default() == method {
                return message;
            } else {
                self.pair(&message);
            }
        }
        panic!("the host never sent `{method}`");
    }

    /// Plays the agent up to the end of the recording.
    pub(crate) fn rest(&mut self) {
        while let Some((from_host, message)) = self.steps.pop_front() {
            if from_host { drop(self.pair(&message)) } else { self.agent(message) }
        }
    }

    /// Ends the process.
    pub(crate) fn finish(&mut self) {
        self.decoder.finish(&End::default(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Plays the next line of the agent.
    pub(crate) fn next_line(&mut self) {
        let place = self.steps.iter().position(|(from_host, _)| !from_host).expect("a line of the agent");
        let (_, message) = self.steps.remove(place).unwrap();
        self.agent(message);
    }

    /// Plays a line that is not in the recording.
    pub(crate) fn says(&mut self, message: &Value) {
        self.decoder.stdout(format!("{message}\n").as_bytes(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Takes the messages of the client that no test has looked at.
    pub(crate) fn take_sent(&mut self) -> Vec<Value> {
        self.listen();
        self.sent.drain(..).collect()
    }

    fn agent(&mut self, mut message: Value) {
        if message.get("method").is_none() {
            // Only requests of the client are answered.
            let Some(number) = self.numbers.get(&message["id"].to_string()) else { return };
            message["id"] = number.clone();
        }
        (self.edit)(&mut message);
        self.decoder.stdout(format!("{message}\n").as_bytes(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Finds the client's own message of the same method, and notes its number.
    fn pair(&mut self, recorded: &Value) -> Option<Value> {
        let method = recorded.get("method");
        let place = self.sent.iter().position(|sent| sent.get("method") == method)?;
        let sent = self.sent.remove(place)?;
        if let (Some(_), Some(number)) = (method, sent.get("id")) {
            self.numbers.insert(recorded["id"].to_string(), number.clone());
        }
        Some(sent)
    }

    /// Gives an order in the place of a recorded host line, and returns what the client sent for it.
    pub(crate) fn orders(
        &mut self,
        recorded: &Value,
        order: impl FnOnce(&mut Decoder, &Moment, &mut Vec<UnnumberedEvent>) -> Sent,
    ) -> (Sent, Option<Value>) {
        let sent = order(&mut self.decoder, &self.now, &mut self.drafts);
        self.listen();
        let message = self.pair(recorded);
        (sent, message)
    }

    /// Sends a prompt in the place of a recorded one, as the engine does: the turn begins before.
    pub(crate) fn prompts(&mut self, recorded: &Value, prompt: &HostPrompt) -> Value {
        self.decoder.prompt(&prompt.text, &mut self.drafts);
        let (sent, message) =
            self.orders(recorded, |decoder, now, out| decoder.send_prompt(prompt, now, out));
        assert_eq!(sent, Sent::Done);
        message.expect("it was sent")
    }

    /// Returns the events of these types, as JSON.
    pub(crate) fn events(&self, types: &[&str]) -> Vec<Value> {
        let json = |draft: &UnnumberedEvent| serde_json::to_value(&draft.kind).unwrap();
        let wanted = |event: &Value| types.iter().any(|name| event["type"] == *name);
        self.drafts.iter().map(json).filter(wanted).collect()
    }

    /// Returns the turns: how each ended, with the messages of the user in it.
    pub(crate) fn turns(&self) -> Vec<(Vec<String>, String)> {
        let mut turns = Vec::new();
        let mut messages = Vec::new();
        for draft in &self.drafts {
            if let Kind::UserMessage(message) = &draft.kind {
                messages.push(message.text.clone());
            }
            if let Kind::TurnEnded(ended) = &draft.kind {
                let outcome = serde_json::to_value(ended.outcome).unwrap();
                turns.push((std::mem::take(&mut messages), outcome.as_str().unwrap().to_owned()));
            }
        }
        turns
    }
}

/// Makes a prompt with the text of a recorded one.
pub(crate) fn prompt(id: &str, text: &str) -> HostPrompt {
    HostPrompt::of(PromptId::from(id), text)
}

/// Returns how the first turn of these events ended, with the code of its failure.
pub(crate) fn first_outcome(drafts: &[UnnumberedEvent]) -> (Outcome, Option<Code>) {
    let ended = drafts.iter().find_map(|draft| {
        let Kind::TurnEnded(ended) = &draft.kind else { return None };
        Some((ended.outcome, ended.failure.as_ref().map(|failure| failure.code.clone())))
    });
    ended.expect("the turn has ended")
}
