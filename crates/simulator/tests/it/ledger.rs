//! The entries of the ledger.

use bowline_simulator::{
    Api, ApiOperation, RequestImage, RequestOutcome, ResponseShape, Simulator, SimulatorOptions,
};
use serde_json::{Value, json};

use crate::support::{Speaks, Turn, get, last, post, post_with, receive, send, simulator};

/// The image of one pixel in these tests has 68 characters of base64, and 51 bytes.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q";

#[tokio::test]
async fn each_api_says_the_same_facts_in_its_own_words() {
    let simulator = simulator().await;
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let url = format!("data:image/png;base64,{PICTURE}");
    let turns = [Turn::User("one"), Turn::Model("yes"), Turn::User("two")];

    let mut messages = Speaks::Messages.ask(true, &turns, &["Bash"]);
    messages["thinking"] = json!({ "type": "adaptive" });
    messages["output_config"] =
        json!({ "effort": "high", "format": { "type": "json_schema", "schema": schema } });
    messages["messages"][0]["content"] = json!([
        { "type": "text", "text": "one" },
        { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PICTURE } },
    ]);
    let mut responses = Speaks::Responses.ask(true, &turns, &["Bash"]);
    responses["reasoning"] = json!({ "effort": "high", "summary": "auto" });
    responses["text"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    responses["previous_response_id"] = json!("resp_1");
    responses["input"][0]["content"] =
        json!([{ "type": "input_text", "text": "one" }, { "type": "input_image", "image_url": url }]);
    let mut chat = Speaks::Chat.ask(true, &turns, &["Bash"]);
    chat["reasoning_effort"] = json!("high");
    chat["response_format"] = json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    chat["messages"][1]["content"] =
        json!([{ "type": "text", "text": "one" }, { "type": "image_url", "image_url": { "url": url } }]);
    let mut google = Speaks::Google.ask(true, &turns, &["Bash"]);
    google["generationConfig"] =
        json!({ "thinkingConfig": { "thinkingLevel": "high" }, "responseJsonSchema": schema });
    google["contents"][0]["parts"] =
        json!([{ "text": "one" }, { "inlineData": { "mimeType": "image/png", "data": PICTURE } }]);
    let mut ollama = Speaks::Ollama.ask(true, &turns, &["Bash"]);
    ollama["think"] = json!("high");
    ollama["format"] = schema.clone();
    ollama["messages"][1]["images"] = json!([PICTURE]);

    for (api, operation, shape, ask) in [
        (Speaks::Messages, Api::AnthropicMessages, ResponseShape::Events, messages),
        (Speaks::Responses, Api::OpenaiResponses, ResponseShape::Events, responses),
        (Speaks::Chat, Api::OpenaiChat, ResponseShape::Events, chat),
        (Speaks::Google, Api::GoogleGenerate, ResponseShape::Events, google),
        (Speaks::Ollama, Api::OllamaChat, ResponseShape::Lines, ollama),
    ] {
        post(&simulator, api.path(true), &ask).await;
        let entry = last(&simulator).await;
        assert_eq!(entry.operation, ApiOperation::Generate(operation));
        assert_eq!(*entry.body, ask, "{api:?}: the whole body is kept");
        let facts = entry.facts.expect("facts");
        assert_eq!(facts.model.as_deref(), Some("m1"), "{api:?}");
        assert_eq!(facts.shape, shape, "{api:?}");
        assert_eq!(facts.effort.as_deref(), Some("high"), "{api:?}");
        assert_eq!(facts.system, "Be brief.", "{api:?}");
        assert_eq!(facts.tools, ["Bash"], "{api:?}");
        assert_eq!(facts.users, ["one", "two"], "{api:?}");
        assert_eq!(facts.answers, 1, "{api:?}");
        assert_eq!(facts.schema.as_ref(), Some(&schema), "{api:?}");
        let kind = if api == Speaks::Ollama { "image" } else { "image/png" };
        assert_eq!(facts.images, [RequestImage { media_type: kind.to_owned(), bytes: 48 }], "{api:?}");
        let previous = (api == Speaks::Responses).then_some("resp_1");
        assert_eq!(facts.previous.as_deref(), previous, "{api:?}");
        assert!(facts.thinking.is_some() || api == Speaks::Chat, "{api:?}");
    }
}

#[tokio::test]
async fn secrets_are_not_kept() {
    let simulator = simulator().await;
    let headers =
        [("authorization", "Bearer sk-secret"), ("x-api-key", "sk-secret"), ("user-agent", "a-program/1.0")];
    let ask = Speaks::Google.ask(false, &[Turn::User("hi")], &[]);
    post_with(&simulator, "/v1beta/models/m1:generateContent?key=sk-secret", &headers, &ask).await;
    let entry = last(&simulator).await;
    let text = serde_json::to_string(&entry).expect("JSON");
    assert!(!text.contains("sk-secret"), "{text}");
    assert!(entry.headers.contains(&("user-agent".into(), "a-program/1.0".into())));
    assert!(entry.headers.contains(&("authorization".into(), "Bearer ***".into())));
}

#[tokio::test]
async fn the_ledger_is_served_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ledger.jsonl");
    let options = SimulatorOptions { ledger_file: Some(file.clone()), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.expect("it starts");
    let ask = Speaks::Chat.ask(true, &[Turn::User("[[text]]")], &[]);
    for route in ["a", "b"] {
        post(&simulator, &format!("/r/{route}/v1/chat/completions"), &ask).await;
        last(&simulator).await;
    }
    get(&simulator, "/v1/models", &[]).await;
    last(&simulator).await;

    let all = get(&simulator, "/_bowline/ledger", &[]).await.json();
    assert_eq!(all.as_array().map(Vec::len), Some(3), "looking at it is not in it");
    let of_b = get(&simulator, "/_bowline/ledger?route=b", &[]).await.json();
    assert_eq!(of_b.as_array().map(Vec::len), Some(1));
    assert_eq!(of_b[0]["route"], "b");
    assert_eq!(of_b[0]["operation"], json!({ "kind": "generate", "api": "openai-chat" }));
    assert_eq!(of_b[0]["outcome"], "sent");
    assert_eq!(of_b[0]["choice"]["scenario"], "text");
    assert_eq!(of_b[0]["usage"]["cache_read"], 4567);
    assert_eq!(simulator.ledger_of("b").len(), 1);

    let written = std::fs::read_to_string(&file).expect("the file");
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(Value::from(lines), all);

    // A second simulator appends, and keeps the existing lines.
    simulator.stop().await;
    let options = SimulatorOptions { ledger_file: Some(file.clone()), ..SimulatorOptions::default() };
    let again = Simulator::start(options).await.expect("it starts");
    get(&again, "/v1/models", &[]).await;
    last(&again).await;
    assert_eq!(std::fs::read_to_string(&file).expect("the file").lines().count(), 4);
}

#[tokio::test]
async fn what_is_open_at_the_end_is_written_as_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ledger.jsonl");
    let options = SimulatorOptions { ledger_file: Some(file.clone()), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.expect("it starts");
    let body = Speaks::Chat.ask(true, &[Turn::User("[[hang]]")], &[]).to_string();
    let socket = send(&simulator, "POST", "/v1/chat/completions", &[], body.as_bytes()).await;
    while simulator.ledger().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(simulator.ledger()[0].outcome, RequestOutcome::Open);
    simulator.stop().await;
    let written = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(serde_json::from_str::<Value>(&written).expect("one line")["outcome"], "stopped");
    assert!(receive(socket).await.is_none(), "the connection ended too");
}

#[tokio::test]
async fn what_cannot_be_served_is_told_and_kept() {
    let simulator = simulator().await;
    let reply = post(&simulator, "/v1/embeddings", &json!({})).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["error"]["message"], "bowline simulate does not serve POST /v1/embeddings");

    let socket = send(&simulator, "POST", "/v1/messages", &[], b"{not json").await;
    let reply = receive(socket).await.expect("an answer");
    assert_eq!(reply.status, 400);
    let message = reply.json()["error"]["message"].clone();
    assert!(
        message.as_str().is_some_and(|it| it.starts_with("bowline simulate: the body is not JSON: ")),
        "{message}"
    );
    assert_eq!(*last(&simulator).await.body, json!("{not json"));

    let socket =
        send(&simulator, "POST", "/v1/responses", &[("content-encoding", "zstd")], b"(\xb5/\xfd").await;
    let message = receive(socket).await.expect("an answer").json()["error"]["message"].clone();
    assert_eq!(message, "bowline simulate: the body is encoded as `zstd`, which the simulator does not read");

    let upgrade = [("upgrade", "websocket")];
    assert_eq!(get(&simulator, "/v1/responses", &upgrade).await.status, 426);
    assert_eq!(get(&simulator, "/v1/responses", &[]).await.status, 405);
}
