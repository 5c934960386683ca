//! The client against programs that were recorded, and against some that the tests play.

use bowline_protocol::kinds::{Outcome, TurnOrigin, UserOrigin};
use bowline_protocol::{Attachment, Code, Kind, Timestamp};
use bowline_testkit::recordings::{self, WireStep};

use super::*;
use crate::catalogue;
use crate::decode::{Decoder, End};
use crate::dialect::{ClientOutput, UnnumberedEvent};
use crate::dialects;
use crate::manifest::run::RunFlag;
use crate::moment::Moment;

use Outcome::{Cancelled, Completed};

/// A client, and what it reported.
struct Scene {
    decoder: Decoder,
    drafts: Vec<UnnumberedEvent>,
    now: Moment,
    sent: Vec<Value>,
    ready: bool,
    hung_up: bool,
    questions: Vec<QuestionId>,
    acknowledged: Vec<Result<(), String>>,
    read: Vec<String>,
    /// Ids of the recording, and those of the client in their place.
    names: Vec<(String, String)>,
    prompts: usize,
}

impl Scene {
    fn of(talk: &Conversation) -> Self {
        let entry = dialects::by_name("pi-rpc").unwrap();
        let mut scene = Self {
            decoder: Decoder::new(entry).talking(entry, Some(talk)),
            drafts: Vec::new(),
            now: Moment::utc(Timestamp::EPOCH),
            sent: Vec::new(),
            ready: false,
            hung_up: false,
            questions: Vec::new(),
            acknowledged: Vec::new(),
            read: Vec::new(),
            names: Vec::new(),
            prompts: 0,
        };
        scene.decoder.open(&scene.now, &mut scene.drafts);
        scene.listen();
        scene
    }

    fn ready(talk: &Conversation) -> Self {
        let mut scene = Self::of(talk);
        scene.answers(&json!({ "sessionId": "s1", "model": { "id": "m", "provider": "fake" } }));
        assert!(scene.ready);
        scene
    }

    fn listen(&mut self) {
        let output: ClientOutput = self.decoder.take_client_output();
        let text = String::from_utf8(output.bytes).unwrap();
        self.sent.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        self.ready |= output.ready;
        self.hung_up |= output.last;
        self.questions.extend(output.questions);
        self.acknowledged.extend(output.acknowledged.into_iter().map(|it| it.result));
        self.read.extend(output.read.iter().map(|id| id.as_str().to_owned()));
    }

    fn program(&mut self, line: &Value) {
        let mut line = line.clone();
        let ours = self.names.iter().find(|(recorded, _)| line["id"] == recorded.as_str());
        if let Some((_, ours)) = ours {
            line["id"] = json!(ours);
        }
        self.decoder.stdout(format!("{line}\n").as_bytes(), &self.now, &mut self.drafts);
        self.listen();
    }

    /// Answers the last command of the client.
    fn answers(&mut self, data: &Value) {
        let last = self.sent.last().unwrap().clone();
        self.program(
            &json!({ "id": last["id"], "type": "response", "command": last["type"], "success": true, "data": data }),
        );
    }

    fn refuses(&mut self, error: &str) {
        let last = self.sent.last().unwrap().clone();
        self.program(
            &json!({ "id": last["id"], "type": "response", "command": last["type"], "success": false, "error": error }),
        );
    }

    fn says<T>(&mut self, say: impl FnOnce(&mut Decoder, &Moment, &mut Vec<UnnumberedEvent>) -> T) -> T {
        let said = say(&mut self.decoder, &self.now, &mut self.drafts);
        self.listen();
        said
    }

    fn next_prompt(&mut self, text: &str) -> HostPrompt {
        self.prompts += 1;
        HostPrompt::of(format!("p{}", self.prompts).into(), text)
    }

    fn prompt(&mut self, text: &str) -> Sent {
        let prompt = self.next_prompt(text);
        self.says(|decoder, now, out| {
            decoder.prompt(text, out);
            decoder.send_prompt(&prompt, now, out)
        })
    }

    fn steer(&mut self, text: &str) -> Sent {
        let prompt = self.next_prompt(text);
        self.says(|decoder, now, out| decoder.steer(&prompt, now, out))
    }

    fn set(&mut self, option: &str, value: &str) -> Sent {
        self.says(|decoder, now, out| decoder.set_option(option, value, now, out))
    }

    /// Plays a recording up to its end, or to what the client does not say. Each line of the recorded host becomes a word for
    /// the client, and the client has to send the same, with an id of its own.
    fn plays(case: &str) -> Self {
        let mut scene = Self::ready(&Conversation::default());
        let name = format!("pi/0.87.1/{case}");
        let recording = recordings::all().into_iter().find(|it| it.name() == name).expect("a recording");
        for step in recording.wire() {
            match step {
                WireStep::FromAgent(line) => {
                    scene.program(&serde_json::from_slice(&line).expect("a line of JSON"));
                }
                WireStep::ToAgent(line) => scene.host(&serde_json::from_str(&line).unwrap()),
            }
        }
        scene
    }

    fn host(&mut self, recorded: &Value) {
        let text = |key: &str| recorded[key].as_str().unwrap_or_default();
        let before = self.sent.len();
        let sent = match text("type") {
            "prompt" => self.prompt(text("message")),
            "steer" => self.steer(text("message")),
            "abort" => self.says(|decoder, now, out| decoder.interrupt(now, out)),
            "compact" => self.says(|decoder, now, out| decoder.compact(now, out)),
            "set_model" => self.set("model", &format!("{}/{}", text("provider"), text("modelId"))),
            "set_thinking_level" => self.set("effort", text("level")),
            // The recorder looked at the end.
            "get_state" => return,
            other => panic!("the recorded host said {other}"),
        };
        assert!(sent.is_sent(), "{sent:?}: {recorded}");
        let mut ours = self.sent[before].clone();
        self.names.push((text("id").to_owned(), ours["id"].as_str().unwrap().to_owned()));
        ours["id"] = recorded["id"].clone();
        assert_eq!(ours, *recorded);
    }

    fn kinds<T>(&self, pick: impl Fn(&Kind) -> Option<T>) -> Vec<T> {
        self.drafts.iter().filter_map(|draft| pick(&draft.kind)).collect()
    }

    /// Ends the output, and returns how each turn ended.
    fn outcomes(&mut self) -> Vec<Outcome> {
        self.says(|decoder, now, out| decoder.finish(&End::default(), now, out));
        self.kinds(|kind| if let Kind::TurnEnded(it) = kind { Some(it.outcome) } else { None })
    }

    /// Returns the prompts, with the turn of each. There are no other messages on the user's side.
    fn messages(&self) -> Vec<(u32, String)> {
        let message = |draft: &UnnumberedEvent| {
            let Kind::UserMessage(it) = &draft.kind else { return None };
            assert_eq!(it.origin, UserOrigin::Human, "{}", it.text);
            Some((draft.turn.unwrap(), it.text.clone()))
        };
        self.drafts.iter().filter_map(message).collect()
    }
}

const TOOL: &str = "NOTE-A DO[run python3 -c 'import time; time.sleep(3)' | say Ran.]DO";

#[test]
fn steers_are_read_in_the_turn_and_acknowledged_before() {
    let note = "NOTE-B also this";
    for (case, prompt) in [("rpc-steer-text", "NOTE-A DO[slow 8]DO"), ("rpc-steer-tool", TOOL)] {
        let mut scene = Scene::plays(case);
        assert_eq!(scene.outcomes(), [Completed], "{case}");
        assert_eq!(
            (scene.acknowledged.as_slice(), scene.read.as_slice()),
            (&[Ok(())][..], &["p2".to_owned()][..])
        );
        assert_eq!(scene.messages(), [(1, prompt.to_owned()), (1, note.to_owned())], "{case}");
        let starts =
            scene.kinds(|kind| if let Kind::TurnStarted(it) = kind { Some(it.origin) } else { None });
        assert_eq!(starts, [TurnOrigin::Prompt], "{case}");
    }
}

#[test]
fn equal_steers_are_read_one_after_the_other() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    scene.answers(&Value::Null);
    scene.program(&json!({ "type": "agent_start" }));
    let queue = |texts: &[&str]| json!({ "type": "queue_update", "steering": texts, "followUp": [] });
    for texts in [&["Stop."][..], &["Stop.", "Stop."], &["Stop.", "Stop.", "/plan"]] {
        scene.steer(texts[texts.len() - 1]);
        // A template is expanded on its way into the queue.
        scene.program(&queue(
            &texts
                .iter()
                .map(|text| text.replace("/plan", "Plan."))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        ));
        scene.answers(&Value::Null);
    }
    assert_eq!(scene.acknowledged, [Ok(()), Ok(()), Ok(())]);
    scene.program(&queue(&["Stop.", "Plan."]));
    assert_eq!(scene.read, ["p2"]);
    scene.program(&queue(&["Plan."]));
    assert_eq!(scene.read, ["p2", "p3"]);
    scene.program(&queue(&[]));
    for text in ["Go.", "Stop.", "Stop.", "Plan."] {
        let message = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
        scene.program(&json!({ "type": "message_end", "message": message }));
    }
    assert_eq!(scene.read, ["p2", "p3", "p4"]);
    scene.program(&json!({ "type": "agent_settled" }));
    assert_eq!(scene.read.len(), 3);
    assert_eq!(scene.messages().len(), 4);
}

#[test]
fn a_steer_between_turns_is_not_sent_and_one_that_comes_too_late_waits() {
    let mut scene = Scene::ready(&Conversation::default());
    assert_eq!(scene.steer("Early."), Sent::Cannot("no turn runs"));
    scene.prompt("Go.");
    scene.answers(&Value::Null);
    assert_eq!(scene.steer("Early."), Sent::Cannot("no turn runs"), "it has not begun");
    scene.program(&json!({ "type": "agent_start" }));
    assert!(scene.steer("Late.").is_sent());
    scene.program(&json!({ "type": "agent_settled" }));
    scene.program(&json!({ "type": "queue_update", "steering": ["Late."], "followUp": [] }));
    scene.answers(&Value::Null);
    assert_eq!((scene.acknowledged.as_slice(), scene.read.len()), (&[Ok(())][..], 0));
    let notices = scene.kinds(|kind| if let Kind::Notice(it) = kind { Some(it.text.clone()) } else { None });
    assert!(notices[0].contains("reads it with the next prompt"), "{notices:?}");
    scene.prompt("Again.");
    scene.answers(&Value::Null);
    scene.program(&json!({ "type": "agent_start" }));
    scene.program(&json!({ "type": "queue_update", "steering": [], "followUp": [] }));
    assert_eq!(scene.read, ["p4"]);
    let steered = (2, "Late.".to_owned());
    assert_eq!(scene.messages().last(), Some(&steered));
}

#[test]
fn an_interrupt_cancels_the_turn_in_text_and_in_a_tool() {
    for case in ["rpc-abort-text", "rpc-abort-tool", "rpc-abort-queued"] {
        let mut scene = Scene::plays(case);
        assert_eq!(scene.outcomes(), [Cancelled, Completed], "{case}");
        assert!(scene.acknowledged.iter().all(Result::is_ok), "{case}");
        let steered = case == "rpc-abort-queued";
        assert_eq!(scene.read, if steered { vec!["p2".to_owned()] } else { Vec::new() }, "{case}");
        assert_eq!(scene.messages().len(), if steered { 3 } else { 2 }, "{case}");
    }
    let mut scene = Scene::ready(&Conversation::default());
    let sent = scene.says(|decoder, now, out| decoder.interrupt(now, out));
    assert_eq!(sent, Sent::Cannot("no turn runs"));
}

#[test]
fn a_prompt_that_begins_nothing_can_be_interrupted() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("/of-an-extension");
    scene.answers(&Value::Null);
    assert!(scene.says(|decoder, now, out| decoder.interrupt(now, out)).is_sent());
    scene.answers(&Value::Null);
    assert_eq!(scene.decoder.open_turn(), None);
    assert_eq!(scene.prompt("Go."), Sent::Done);
    assert_eq!(scene.outcomes()[0], Cancelled);
}

#[test]
fn options_are_set_in_the_words_of_pi() {
    let mut scene = Scene::ready(&Conversation::default());
    assert!(scene.set("model", "small").is_sent(), "of the provider in use");
    assert_eq!(scene.sent.last().unwrap()["provider"], "fake");
    scene.refuses("Model not found: fake/small");
    assert_eq!(scene.acknowledged, [Err("Model not found: fake/small".to_owned())]);
    scene.set("model", "other/large/2");
    scene.answers(&json!({ "id": "large/2", "provider": "other" }));
    scene.set("model", "large/3");
    assert_eq!(scene.sent.last().unwrap()["provider"], "large");
    scene.set("model", "tiny");
    assert_eq!(scene.sent.last().unwrap()["provider"], "other");
    for (option, value) in [("effort", "most"), ("permission", "edit"), ("colour", "red")] {
        assert!(!scene.set(option, value).is_sent(), "{option}");
    }
    // What the arguments accept, the protocol accepts.
    let manifest = catalogue::by_name("pi").unwrap();
    assert_eq!(manifest.run.flags[&RunFlag::Effort].values, THINKING);
}

#[test]
fn a_compaction_runs_between_turns_only() {
    let mut scene = Scene::ready(&Conversation::default());
    let compact = |scene: &mut Scene| scene.says(|decoder, now, out| decoder.compact(now, out));
    assert!(compact(&mut scene).is_sent());
    assert_eq!(compact(&mut scene), Sent::Cannot("the agent compacts its context"));
    scene.refuses("Nothing to compact (session too small)");
    assert_eq!(scene.acknowledged, [Err("Nothing to compact (session too small)".to_owned())]);
    assert_eq!(scene.prompt("Go."), Sent::Done);
    assert_eq!(compact(&mut scene), Sent::Cannot("a turn begins"));
    scene.program(&json!({ "type": "agent_start" }));
    assert_eq!(compact(&mut scene), Sent::Cannot("a turn runs"));
}

#[test]
fn a_refused_prompt_is_a_failed_turn_and_the_next_one_can_be_sent() {
    let mut scene = Scene::ready(&Conversation::default());
    scene.prompt("Go.");
    assert!(
        !scene
            .says(|decoder, now, out| decoder.send_prompt(&HostPrompt::of("p9".into(), "x"), now, out))
            .is_sent()
    );
    scene.refuses("No API key found for fake.");
    assert_eq!(scene.decoder.open_turn(), None);
    assert_eq!(scene.prompt("Go."), Sent::Done);
    assert_eq!(scene.outcomes()[0], Outcome::Failed);
}

#[test]
fn another_session_gets_no_prompt() {
    let resume = |id: &str| Some(Resume::Id { native_session: id.into() });
    for (resume, state, ready) in [
        (resume("s1"), json!({ "sessionId": "s1" }), true),
        (resume("s2"), json!({ "sessionId": "s1" }), false),
        (resume("s2"), json!({}), false),
        (None, json!({}), true),
    ] {
        let mut scene = Scene::of(&Conversation { resume, ..Conversation::default() });
        assert_eq!(scene.sent, [serde_json::from_str::<Value>(&PiClient::first_message()).unwrap()]);
        scene.answers(&state);
        assert_eq!((scene.ready, scene.hung_up), (ready, !ready), "{state}");
        assert_eq!(scene.prompt("Go on.").is_sent(), ready);
        let codes = scene.kinds(|kind| {
            if let Kind::TurnEnded(it) = kind { Some(it.failure.as_ref()?.code.clone()) } else { None }
        });
        assert_eq!(codes.len(), usize::from(!ready));
        assert!(codes.iter().all(|code| [Code::SessionNotFound, Code::Unsupported].contains(code)));
    }
}

#[test]
fn questions_of_extensions_wait_for_a_reply() {
    let mut scene = Scene::ready(&Conversation::default());
    let answers = |texts: &[&str]| QuestionReply::Answers(texts.iter().map(|it| (*it).to_owned()).collect());
    for (method, wrong, reply, fields) in [
        ("confirm", answers(&["perhaps"]), answers(&["yes"]), json!({ "confirmed": true })),
        ("select", answers(&["A", "B"]), answers(&["A"]), json!({ "value": "A" })),
        ("input", answers(&[]), QuestionReply::Dismissed, json!({ "cancelled": true })),
    ] {
        let id = format!("u-{method}");
        let request = json!({ "type": "extension_ui_request", "id": id, "method": method, "title": "Well?" });
        scene.program(&request);
        assert_eq!(scene.questions.last(), Some(&QuestionId::from(id.as_str())));
        let mut reply_with = |reply: &QuestionReply| {
            scene.says(|decoder, now, out| decoder.reply(&id.as_str().into(), reply, now, out))
        };
        assert!(!reply_with(&wrong).is_sent(), "{method}");
        assert_eq!(reply_with(&reply), Sent::Done);
        assert!(!reply_with(&reply).is_sent(), "{method}: only once");
        let mut expected = json!({ "type": "extension_ui_response", "id": id });
        expected.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(scene.sent.last().unwrap(), &expected);
    }
    let asked = scene.kinds(|kind| matches!(kind, Kind::QuestionAsked(_)).then_some(()));
    let answered = scene.kinds(|kind| matches!(kind, Kind::QuestionAnswered(_)).then_some(()));
    assert_eq!((asked.len(), answered.len()), (3, 3));
    scene.program(&json!({ "type": "extension_ui_request", "id": "n", "method": "notify", "message": "Hi" }));
    assert_eq!(scene.questions.len(), 3, "it wants no answer");
}

#[test]
fn images_go_with_the_prompt_and_other_files_by_name() {
    let file = |path: &str| Attachment { path: path.into(), media_type: None };
    let mut scene = Scene::ready(&Conversation { cwd: "/p".into(), ..Conversation::default() });
    let mut prompt = HostPrompt::of("p1".into(), "Look.");
    prompt.attachments = vec![file("a.png"), file("b.txt")];
    prompt.images = [("a.png".to_owned(), b"png".to_vec())].into();
    scene.says(|decoder, now, out| {
        decoder.prompt("Look.", out);
        decoder.send_prompt(&prompt, now, out)
    });
    let sent = scene.sent.last().unwrap().clone();
    assert_eq!(sent["message"], "Look.\n\n@/p/b.txt");
    let message = json!({ "role": "user", "content": [{ "type": "text", "text": sent["message"] }] });
    for kind in ["agent_start", "message_start", "message_end"] {
        scene.program(&json!({ "type": kind, "message": message }));
    }
    assert_eq!(scene.messages(), [(1, "Look.".to_owned())], "the echo in other words is dropped");

    prompt.id = "p2".into();
    scene.says(|decoder, now, out| decoder.steer(&prompt, now, out));
    for texts in [json!([sent["message"]]), json!([])] {
        scene.program(&json!({ "type": "queue_update", "steering": texts, "followUp": [] }));
    }
    scene.program(&json!({ "type": "message_end", "message": message }));
    assert_eq!(scene.messages(), [(1, "Look.".to_owned()), (1, "Look.".to_owned())]);
    assert_eq!(sent["images"], json!([{ "type": "image", "data": "cG5n", "mimeType": "image/png" }]));
}
