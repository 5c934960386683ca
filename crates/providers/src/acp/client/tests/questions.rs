//! Questions of the agent: whether they are offered, and which are declined.

use super::*;

fn opened(talk: &Conversation) -> (Scene, Value) {
    let mut scene = Scene::of(talk);
    let hello = scene.said();
    scene.answers(&hello, &json!({ "protocolVersion": 1 }));
    let open = scene.said();
    scene.answers(&open, &json!({ "sessionId": "s" }));
    assert_eq!(scene.said()["method"], "session/prompt");
    (scene, hello["params"]["clientCapabilities"]["elicitation"].clone())
}

fn asks(scene: &mut Scene, mode: &Value) -> (usize, Vec<Value>) {
    let schema = json!({ "properties": { "colour": { "type": "string", "enum": ["red", "blue"] } } });
    let params = json!({ "sessionId": "s", "mode": mode, "message": "Which?", "requestedSchema": schema });
    scene.agent(&json!({ "id": 7, "method": "elicitation/create", "params": params }));
    let ClientOutput { bytes, questions, .. } = scene.decoder.take_client_output();
    let lines = String::from_utf8(bytes).expect("text");
    (questions.len(), lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

#[test]
fn forms_are_offered_where_a_caller_answers_questions() {
    let talk = Conversation { cwd: "/src".to_owned(), prompt: "Go".to_owned(), ..Conversation::default() };
    let (mut scene, offered) = opened(&talk);
    assert_eq!(offered, Value::Null);
    // An agent that asks all the same is not left waiting.
    let (open, sent) = asks(&mut scene, &json!("form"));
    assert_eq!((open, &sent[0]["result"]), (0, &json!({ "action": "decline" })));

    let (mut scene, offered) = opened(&Conversation { answers_questions: true, ..talk });
    assert_eq!(offered, json!({ "form": {} }));
    assert_eq!(asks(&mut scene, &json!("form")), (1, vec![]));
    // A page of the web was not offered.
    let (open, sent) = asks(&mut scene, &json!("url"));
    assert_eq!((open, &sent[0]["result"]), (0, &json!({ "action": "decline" })));
}
