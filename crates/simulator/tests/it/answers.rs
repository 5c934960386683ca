//! Answers in the form of each API, whole and streamed.

use bowline_simulator::{RequestOutcome, Usage};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::{ALL, PATIENCE, Reply, Speaks, get, last, post, send, simulator, timeless, with};

const TEXT: &str = "The knot holds, and it always unties.";

#[tokio::test]
async fn every_api_says_a_text_whole_and_streamed() {
    let simulator = simulator().await;
    for api in ALL {
        for stream in [false, true] {
            let reply = api.say(&simulator, stream, "[[text]] hi", &[]).await;
            assert_eq!((reply.status, reply.whole), (200, true), "{api:?}: {}", reply.body);
            assert_eq!(api.text(stream, &reply), TEXT, "{api:?} stream={stream}");
        }
    }
}

async fn read_all(mut socket: TcpStream) -> String {
    let mut text = String::new();
    socket.read_to_string(&mut text).await.expect("text");
    text
}

/// The tokens that an API reports at the end.
fn usage(api: Speaks, reply: &Reply) -> Usage {
    let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{api:?}: {}", reply.body));
    match api {
        Speaks::Messages => {
            let events = reply.events();
            let usage =
                &events.iter().find(|event| event["type"] == "message_delta").expect("an end")["usage"];
            Usage {
                input: count(&usage["input_tokens"]),
                output: count(&usage["output_tokens"]),
                cache_read: count(&usage["cache_read_input_tokens"]),
                cache_write: count(&usage["cache_creation_input_tokens"]),
                reasoning: 0,
            }
        }
        Speaks::Responses => {
            let events = reply.events();
            let usage = &events.last().expect("an end")["response"]["usage"];
            let cached = count(&usage["input_tokens_details"]["cached_tokens"]);
            Usage {
                input: count(&usage["input_tokens"]) - cached,
                output: count(&usage["output_tokens"]),
                cache_read: cached,
                cache_write: 0,
                reasoning: count(&usage["output_tokens_details"]["reasoning_tokens"]),
            }
        }
        Speaks::Chat => {
            let events = reply.events();
            let usage = &events.last().expect("an end")["usage"];
            let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
            Usage {
                input: count(&usage["prompt_tokens"]) - cached,
                output: count(&usage["completion_tokens"]),
                cache_read: cached,
                cache_write: 0,
                reasoning: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
            }
        }
        Speaks::Google | Speaks::GoogleArray => {
            let all = if api == Speaks::Google { reply.events().into() } else { reply.json() };
            let usage = &all.as_array().and_then(|all| all.last()).expect("an end")["usageMetadata"];
            let (cached, thoughts) =
                (count(&usage["cachedContentTokenCount"]), count(&usage["thoughtsTokenCount"]));
            Usage {
                input: count(&usage["promptTokenCount"]) - cached,
                output: count(&usage["candidatesTokenCount"]) + thoughts,
                cache_read: cached,
                cache_write: 0,
                reasoning: thoughts,
            }
        }
        Speaks::Ollama | Speaks::OllamaGenerate => {
            let lines = reply.lines();
            let end = lines.last().expect("an end");
            Usage {
                input: count(&end["prompt_eval_count"]),
                output: count(&end["eval_count"]),
                ..Usage::default()
            }
        }
    }
}

#[tokio::test]
async fn the_ledger_has_the_usage_that_was_told() {
    let mine = with(
        "about = \"x\"\n[[step]]\nthink = \"hm\"\ntext = \"yes\"\n\
         usage = { input = 11, output = 22, cache_read = 33, cache_write = 44, reasoning = 5 }\n",
    )
    .await;
    for api in ALL {
        let reply = api.say(&mine, true, "[[mine]]", &[]).await;
        let told = usage(api, &reply);
        assert_eq!(last(&mine).await.usage, Some(told), "{api:?}");
        assert_eq!(told.input + told.cache_read + told.cache_write, 88, "{api:?}: nothing is lost");
        assert_eq!(told.output, 22, "{api:?}");
    }
}

#[tokio::test]
async fn streams_are_what_the_programs_accept() {
    // The real programs were tested with these; after a change here, test them again.
    let mine = with(
        "about = \"x\"\n[[step]]\nthink = \"A short thought.\"\ndeltas = [\"One, \", \"two.\"]\n\
         [[step.call]]\nforms = [{ tool = \"Bash\", input = { command = \"ls\", unknown = 1 } }]\n",
    )
    .await;
    for (name, api) in [
        ("messages", Speaks::Messages),
        ("responses", Speaks::Responses),
        ("chat", Speaks::Chat),
        ("google", Speaks::Google),
        ("google_array", Speaks::GoogleArray),
        ("ollama", Speaks::Ollama),
    ] {
        let streamed = api.say(&mine, true, "[[mine]]", &["Bash"]).await;
        let whole = api.say(&mine, false, "[[mine]]", &["Bash"]).await;
        let kinds: Vec<_> =
            [&streamed, &whole].iter().filter_map(|reply| reply.header("content-type")).collect();
        let text = format!("{}\n{}\n{}", kinds.join("\n"), streamed.body.replace('\r', ""), whole.body);
        insta::assert_snapshot!(name, timeless(&renumbered(&text)));
    }
}

/// The numbers in the ids are the numbers of earlier requests.
fn renumbered(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("sim0") {
        out.push_str(&rest[..at]);
        out.push_str("simNNN");
        rest = &rest[at + "sim000000".len()..];
    }
    out + rest
}

#[tokio::test]
async fn reasons_to_stop_are_said() {
    let simulator = simulator().await;
    for (prompt, api, pointer, word) in [
        ("[[max-tokens]]", Speaks::Messages, "/stop_reason", "max_tokens"),
        ("[[refusal]]", Speaks::Messages, "/stop_reason", "refusal"),
        ("[[shell]]", Speaks::Messages, "/stop_reason", "tool_use"),
        ("[[text]]", Speaks::Messages, "/stop_reason", "end_turn"),
        ("[[max-tokens]]", Speaks::Responses, "/incomplete_details/reason", "max_output_tokens"),
        ("[[refusal]]", Speaks::Responses, "/output/0/content/0/type", "refusal"),
        ("[[max-tokens]]", Speaks::Chat, "/choices/0/finish_reason", "length"),
        ("[[refusal]]", Speaks::Chat, "/choices/0/finish_reason", "content_filter"),
        ("[[shell]]", Speaks::Chat, "/choices/0/finish_reason", "tool_calls"),
        ("[[max-tokens]]", Speaks::Google, "/candidates/0/finishReason", "MAX_TOKENS"),
        ("[[refusal]]", Speaks::Google, "/candidates/0/finishReason", "SAFETY"),
        ("[[text]]", Speaks::Google, "/candidates/0/finishReason", "STOP"),
        ("[[max-tokens]]", Speaks::Ollama, "/done_reason", "length"),
        ("[[text]]", Speaks::Ollama, "/done_reason", "stop"),
    ] {
        let reply = api.say(&simulator, false, prompt, &["Bash", "run_shell_command"]).await.json();
        assert_eq!(reply.pointer(pointer), Some(&json!(word)), "{prompt} {api:?}: {reply}");
    }
}

#[tokio::test]
async fn an_answer_without_a_word_is_one() {
    let simulator = simulator().await;
    for api in ALL {
        for stream in [false, true] {
            let reply = api.say(&simulator, stream, "[[empty]]", &[]).await;
            assert_eq!((reply.status, reply.whole), (200, true), "{api:?}");
            assert_eq!(api.text(stream, &reply), "", "{api:?}");
        }
    }
}

#[tokio::test]
async fn deltas_keep_their_pace() {
    let simulator = simulator().await;
    let begun = tokio::time::Instant::now();
    let reply = Speaks::Chat.say(&simulator, true, "[[slow]]", &[]).await;
    let deltas =
        reply.events().iter().filter(|event| event["choices"][0]["delta"]["content"].is_string()).count();
    assert!(deltas >= 40, "{deltas}");
    assert!(begun.elapsed().as_millis() >= 2000, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_schema_is_satisfied_as_text_and_through_the_tool_for_it() {
    let simulator = simulator().await;
    let schema = json!({ "type": "object", "required": ["city", "people", "mood", "tags"], "properties": {
        "city": { "type": "string", "minLength": 12 },
        "people": { "type": "integer", "minimum": 100 },
        "mood": { "enum": ["calm", "wild"] },
        "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "minItems": 2 },
        "left_out": { "type": "string" },
    }, "$defs": { "tag": { "type": "string" } } });
    let mut asked = Speaks::Responses.ask(false, &[crate::support::Turn::User("[[schema]]")], &[]);
    asked["text"] = json!({ "format": { "type": "json_schema", "name": "x", "schema": schema } });
    let reply = post(&simulator, "/v1/responses", &asked).await;
    let answer: Value = serde_json::from_str(&Speaks::Responses.text(false, &reply)).expect("JSON");
    assert_eq!(
        answer,
        json!({ "city": "simulatedxxx", "people": 100, "mood": "calm", "tags": ["simulated", "simulated"] })
    );
    assert_eq!(last(&simulator).await.facts.expect("facts").schema, Some(schema.clone()));

    let mut asked = Speaks::Messages.ask(false, &[crate::support::Turn::User("[[schema]]")], &[]);
    asked["tools"] = json!([{ "name": "StructuredOutput", "input_schema": schema }]);
    let reply = post(&simulator, "/v1/messages", &asked).await.json();
    assert_eq!(reply["content"][0]["name"], "StructuredOutput");
    assert_eq!(reply["content"][0]["input"], answer);
}

#[tokio::test]
async fn models_versions_and_counts_of_tokens_are_there() {
    let simulator = simulator().await;
    let anthropic = [("anthropic-version", "2023-06-01")];
    let models = get(&simulator, "/v1/models", &anthropic).await.json();
    assert_eq!((&models["data"][0]["type"], &models["has_more"]), (&json!("model"), &json!(false)));
    assert_eq!(get(&simulator, "/v1/models", &[]).await.json()["object"], "list");
    assert_eq!(get(&simulator, "/v1/models/any", &[]).await.json()["id"], "any");
    let google = get(&simulator, "/v1beta/models", &[]).await.json();
    assert_eq!(google["models"][0]["name"], "models/simulated-large");
    let ollama = get(&simulator, "/api/tags", &[]).await.json();
    assert_eq!(ollama["models"][0]["name"], "simulated-large");
    assert!(get(&simulator, "/api/version", &[]).await.json()["version"].is_string());
    let body = Speaks::Messages.ask(false, &[], &[]);
    let counted = post(&simulator, "/v1/messages/count_tokens", &body).await.json();
    assert!(counted["input_tokens"].as_u64() > Some(10), "{counted}");
    let counted = post(&simulator, "/v1beta/models/m:countTokens", &body).await.json();
    assert!(counted["totalTokens"].as_u64() > Some(10), "{counted}");
    assert_eq!(get(&simulator, "/", &[]).await.status, 200);
    // Some programs first check whether the server is there.
    let socket = send(&simulator, "HEAD", "/r/x", &[], b"").await;
    let head = tokio::time::timeout(PATIENCE, read_all(socket)).await.expect("in time");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(last(&simulator).await.outcome, RequestOutcome::Sent);
}
