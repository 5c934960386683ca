//! A client, and a program that plays a recording: what the recorded host sent is what the client has to send.

use bowline_protocol::kinds::{Outcome, UserOrigin};
use bowline_protocol::{Decision, Kind, QuestionId, Timestamp};
use bowline_testkit::recordings::{self, WireStep};
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::decode::{Decoder, End};
use crate::dialect::{
    Acknowledgement, ApprovalAnswer, ClientOutput, DecisionRequest, HostPrompt, QuestionReply, Sent,
    ToolGate, UnnumberedEvent,
};
use crate::dialects;
use crate::moment::Moment;

/// A client, and what it reported.
pub(super) struct Scene {
    pub(super) decoder: Decoder,
    pub(super) drafts: Vec<UnnumberedEvent>,
    pub(super) now: Moment,
    /// What the client has sent.
    pub(super) sent: Vec<Value>,
    pub(super) ready: bool,
    pub(super) hung_up: bool,
    pub(super) requests: Vec<DecisionRequest>,
    pub(super) gates: Vec<ToolGate>,
    pub(super) questions: Vec<QuestionId>,
    pub(super) acknowledged: Vec<Acknowledgement>,
    pub(super) read: Vec<String>,
    /// Ids of the recording, and those of the client in their place.
    names: Vec<(String, String)>,
    /// The inputs of the tools that the program asked for, by the id of the request.
    inputs: Vec<(String, Value)>,
    prompts: usize,
}

impl Scene {
    pub(super) fn of(talk: &Conversation) -> Self {
        let entry = dialects::by_name("claude-live").unwrap();
        let mut scene = Self {
            decoder: Decoder::new(entry).talking(entry, Some(talk)),
            drafts: Vec::new(),
            now: Moment::utc(Timestamp::EPOCH),
            sent: Vec::new(),
            ready: false,
            hung_up: false,
            requests: Vec::new(),
            gates: Vec::new(),
            questions: Vec::new(),
            acknowledged: Vec::new(),
            read: Vec::new(),
            names: Vec::new(),
            inputs: Vec::new(),
            prompts: 0,
        };
        scene.decoder.open(&scene.now, &mut scene.drafts);
        scene.listen();
        scene
    }

    /// A client whose introduction was accepted.
    pub(super) fn ready(talk: &Conversation) -> Self {
        let mut scene = Self::of(talk);
        scene.answers("success", &json!({}));
        assert!(scene.ready);
        scene
    }

    pub(super) fn listen(&mut self) {
        let output: ClientOutput = self.decoder.take_client_output();
        let text = String::from_utf8(output.bytes).unwrap();
        self.sent.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        self.ready |= output.ready;
        self.hung_up |= output.last;
        self.requests.extend(output.requests);
        self.gates.extend(output.gates);
        self.questions.extend(output.questions);
        self.acknowledged.extend(output.acknowledged);
        self.read.extend(output.read.iter().map(|id| id.as_str().to_owned()));
    }

    pub(super) fn program(&mut self, line: &str) {
        let mut line = line.to_owned();
        for (recorded, ours) in &self.names {
            line = line.replace(recorded, ours);
        }
        if let Ok(request) = serde_json::from_str::<Value>(&line)
            && request["type"] == "control_request"
        {
            let id = request["request_id"].as_str().unwrap().to_owned();
            self.inputs.push((id, request["request"]["input"].clone()));
        }
        self.decoder.stdout(format!("{line}\n").as_bytes(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Answers the last request of the client.
    pub(super) fn answers(&mut self, subtype: &str, response: &Value) {
        let id = &self.sent.last().unwrap()["request_id"];
        let key = if subtype == "error" { "error" } else { "response" };
        let answer = json!({ "subtype": subtype, "request_id": id, key: response });
        self.program(&json!({ "type": "control_response", "response": answer }).to_string());
    }

    pub(super) fn prompt(&mut self, text: &str) -> Sent {
        self.prompts += 1;
        let prompt = HostPrompt::of(format!("p{}", self.prompts).into(), text);
        self.decoder.prompt(text, &mut self.drafts);
        let sent = self.decoder.send_prompt(&prompt, &self.now, &mut self.drafts);
        self.listen();
        sent
    }

    pub(super) fn steer(&mut self, text: &str) -> Sent {
        self.prompts += 1;
        let prompt = HostPrompt::of(format!("p{}", self.prompts).into(), text);
        let sent = self.decoder.steer(&prompt, &self.now, &mut self.drafts);
        self.listen();
        sent
    }

    pub(super) fn decide(&mut self, id: &str, answer: &ApprovalAnswer) -> Sent {
        let sent = self.decoder.decide(&id.into(), answer, &self.now, &mut self.drafts);
        self.listen();
        sent
    }

    pub(super) fn reply(&mut self, id: &str, reply: &QuestionReply) -> Sent {
        let sent = self.decoder.reply(&id.into(), reply, &self.now, &mut self.drafts);
        self.listen();
        sent
    }

    pub(super) fn interrupt(&mut self) -> Sent {
        let sent = self.decoder.interrupt(&self.now, &mut self.drafts);
        self.listen();
        sent
    }

    pub(super) fn set(&mut self, option: &str, value: &str) -> Sent {
        let sent = self.decoder.set_option(option, value, &self.now, &mut self.drafts);
        self.listen();
        sent
    }

    /// Plays a recording to its end. Each line of the recorded host becomes a word for the client, and the client has to send the
    /// same, with ids of its own.
    pub(super) fn plays(case: &str) -> Self {
        let mut scene = Self::ready(&Conversation::default());
        let name = format!("claude/2.1.325/{case}");
        let recording = recordings::all().into_iter().find(|it| it.name() == name).expect("a recording");
        for step in recording.wire() {
            match step {
                WireStep::FromAgent(line) => scene.program(String::from_utf8(line).unwrap().trim_end()),
                WireStep::ToAgent(line) => scene.host(&serde_json::from_str(&line).unwrap()),
            }
        }
        scene
    }

    /// Has the client say what the recorded host said.
    fn host(&mut self, recorded: &Value) {
        if recorded["request"]["subtype"] == "initialize" {
            // The client did it at the start. The program's second answer is to no open request of the client.
            return;
        }
        let before = self.sent.len();
        let sent = self.say(recorded);
        assert!(sent.is_sent(), "{sent:?}: {recorded}");
        assert_eq!(self.sent.len(), before + 1, "{recorded}");
        let ours = self.sent[before].clone();
        let mut expected = recorded.clone();
        expected.as_object_mut().unwrap().remove("priority");
        for place in ["uuid", "request_id"] {
            if let (Some(theirs), Some(ours)) = (recorded[place].as_str(), ours[place].as_str()) {
                self.names.push((theirs.to_owned(), ours.to_owned()));
            }
            expected[place] = ours[place].clone();
        }
        let mut ours = ours;
        ["uuid", "request_id"].into_iter().for_each(|place| ours[place] = expected[place].clone());
        if let Some(uuid) = expected.pointer_mut("/request/message_uuid") {
            *uuid = ours["request"]["message_uuid"].clone();
        }
        assert_eq!(ours, expected);
    }

    fn say(&mut self, recorded: &Value) -> Sent {
        let text = |place: &str| recorded.pointer(place).and_then(Value::as_str).unwrap_or_default();
        if recorded["type"] == "user" {
            let content = text("/message/content");
            return if content == "/compact" {
                let sent = self.decoder.compact(&self.now, &mut self.drafts);
                self.listen();
                sent
            } else if self.decoder.open_turn().is_some() {
                self.steer(content)
            } else {
                self.prompt(content)
            };
        }
        if recorded["type"] == "control_response" {
            return self.answer(text("/response/request_id"), &recorded["response"]["response"]);
        }
        match text("/request/subtype") {
            "interrupt" => self.interrupt(),
            "cancel_async_message" => {
                let last = format!("p{}", self.prompts).into();
                let sent = self.decoder.take_back(&last, &self.now, &mut self.drafts);
                self.listen();
                sent
            }
            "set_model" => self.set("model", text("/request/model")),
            "set_permission_mode" => {
                let mode = if text("/request/mode") == "acceptEdits" { "edit" } else { "ask" };
                self.set("permission", mode)
            }
            other => panic!("the recorded host said {other}"),
        }
    }

    fn answer(&mut self, id: &str, response: &Value) -> Sent {
        let (_, input) = self.inputs.iter().find(|(known, _)| known == id).expect("an open request").clone();
        let strings = |values: &Value| -> Vec<String> {
            let values = values.as_object().into_iter().flatten();
            values.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect()
        };
        if let Some(action) = response["action"].as_str() {
            let answers = QuestionReply::Answers(strings(&response["content"]));
            return self.reply(id, if action == "accept" { &answers } else { &QuestionReply::Dismissed });
        }
        let updated = &response["updatedInput"];
        if updated["answers"].is_object() {
            return self.reply(id, &QuestionReply::Answers(strings(&updated["answers"])));
        }
        let message = response["message"].as_str().map(str::to_owned);
        let answer = match response["behavior"].as_str() {
            Some("deny") => ApprovalAnswer::Deny { message },
            _ if response["updatedPermissions"].is_array() => ApprovalAnswer::AllowForSession,
            _ if *updated == input => ApprovalAnswer::AllowOnce,
            _ => ApprovalAnswer::AllowChanged(bowline_protocol::Json::of(updated).unwrap()),
        };
        self.decide(id, &answer)
    }

    /// Ends the output, and returns how each turn ended.
    pub(super) fn outcomes(&mut self) -> Vec<Outcome> {
        self.decoder.finish(&End::default(), &self.now, &mut self.drafts);
        self.listen();
        let ended = |draft: &UnnumberedEvent| {
            if let Kind::TurnEnded(it) = &draft.kind { Some(it.outcome) } else { None }
        };
        self.drafts.iter().filter_map(ended).collect()
    }

    fn kinds<T>(&self, pick: impl Fn(&Kind) -> Option<T>) -> Vec<(Option<u32>, T)> {
        self.drafts.iter().filter_map(|draft| Some((draft.turn, pick(&draft.kind)?))).collect()
    }

    /// Returns the messages on the user's side, with the turn of each.
    pub(super) fn users(&self) -> Vec<(u32, UserOrigin, String)> {
        let message = |kind: &Kind| {
            if let Kind::UserMessage(it) = kind { Some((it.origin, it.text.clone())) } else { None }
        };
        let messages = self.kinds(message).into_iter();
        messages.map(|(turn, (origin, text))| (turn.unwrap(), origin, text)).collect()
    }

    /// Returns the prompts, with the turn of each. There are no other messages on the user's side.
    pub(super) fn prompts(&self) -> Vec<(u32, String)> {
        let prompt = |(turn, origin, text): (u32, UserOrigin, String)| {
            assert_eq!(origin, UserOrigin::Human, "{text}");
            (turn, text)
        };
        self.users().into_iter().map(prompt).collect()
    }

    /// Returns the ids of the approvals and questions.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked = |kind: &Kind| {
            if let Kind::ApprovalAsked(it) = kind {
                Some(it.id.as_str().to_owned())
            } else if let Kind::QuestionAsked(it) = kind {
                Some(it.id.as_str().to_owned())
            } else {
                None
            }
        };
        self.kinds(asked).into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the decisions, by id.
    pub(super) fn decided(&self) -> Vec<(String, Decision)> {
        let decided = |kind: &Kind| {
            if let Kind::ApprovalDecided(it) = kind {
                Some((it.id.as_str().to_owned(), it.decision))
            } else {
                None
            }
        };
        self.kinds(decided).into_iter().map(|(_, decision)| decision).collect()
    }

    /// Returns the answers, by the id of the question.
    pub(super) fn answered(&self) -> Vec<(String, Vec<String>)> {
        let answered = |kind: &Kind| {
            if let Kind::QuestionAnswered(it) = kind {
                Some((it.id.as_str().to_owned(), it.answers.clone()))
            } else {
                None
            }
        };
        self.kinds(answered).into_iter().map(|(_, answer)| answer).collect()
    }
}
