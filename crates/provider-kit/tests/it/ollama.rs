//! The Ollama provider with the simulator, which serves Ollama's API.

use std::path::Path;

use bowline_provider::ollama::Ollama;
use bowline_provider::serve;
use bowline_simulator::{Simulator, SimulatorOptions};
use serde_json::{Value, json};

use crate::support::{block_on, red, report};

/// The result of a call.
struct Ended {
    code: u8,
    out: String,
    err: String,
}

impl Ended {
    fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Calls the provider in this process, with a server.
fn call(host: &str, word: &str, request: &Value) -> Ended {
    let mut provider = Ollama { host: Some(host.to_owned()), model: None };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let request = request.to_string();
    let code = serve(&mut provider, &[word.to_owned()], &mut request.as_bytes(), &mut out, &mut err);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code, out: text(out), err: text(err) }
}

/// Calls the provider with a simulator that plays a scenario; also returns the requests that the simulator received.
fn played(
    scenario: &str,
    word: &'static str,
    request: Value,
) -> (Ended, Vec<bowline_simulator::LedgerEntry>) {
    block_on(async {
        let simulator = Simulator::start(SimulatorOptions::default()).await.expect("a simulator");
        let host = simulator.base_url(Some(scenario));
        let ended = tokio::task::spawn_blocking(move || call(&host, word, &request)).await.expect("it ends");
        (ended, simulator.ledger())
    })
}

fn hello() -> Value {
    json!({"prompt": "Say hello.", "config": {"model": "llama3.2:latest"}})
}

#[test]
fn generate_has_the_text_and_the_tokens() {
    let (ended, ledger) = played("text", "generate", hello());
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let answer = &ended.lines()[0];
    assert_eq!(answer["content"], "The knot holds, and it always unties.");
    assert_eq!(
        (&answer["input_tokens"], &answer["output_tokens"], &answer["tokens_used"]),
        (&json!(4977), &json!(12), &json!(4989))
    );
    assert_eq!((&answer["model"], &answer["provider"]), (&json!("llama3.2:latest"), &json!("ollama")));
    assert_eq!((&answer["finish_reason"], &answer["error"]), (&json!("stop"), &json!("")));
    assert_eq!(ledger.len(), 1, "{ledger:?}");
}

#[test]
fn stream_comes_as_it_is_said() {
    let (ended, _) = played("slow", "stream", hello());
    let chunks = ended.lines();
    assert_eq!((ended.code, chunks.len()), (0, 41), "forty words and the end");
    let last = &chunks[40];
    assert!(
        last["content"].as_str().is_some_and(|text| text.starts_with("one two ") && text.ends_with("forty."))
    );
    assert_eq!((&last["done"], &last["delta"]), (&json!(true), &json!("")));
    assert!(last["tokens_used"].as_u64().is_some_and(|tokens| tokens > 0), "{last}");
    let times: Vec<&str> = chunks.iter().filter_map(|chunk| chunk["timestamp"].as_str()).collect();
    assert_ne!(times[0], times[39], "they did not all come at once");
}

#[test]
fn the_conversation_the_system_prompt_and_the_hints_reach_the_server() {
    let request = json!({
        "prompt": "And now?", "system_prompt": "Be brief.", "max_tokens": 77,
        "context": [{"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello, Ada."}],
        "config": {"model": "m"},
    });
    let (ended, ledger) = played("text", "generate", request);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let asked = serde_json::to_value(&ledger[0]).expect("an entry").to_string();
    for part in ["Be brief.", "77", "\"m\""] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}

#[test]
fn a_limit_of_tokens_is_told() {
    let (ended, _) = played("max-tokens", "generate", hello());
    assert_eq!((ended.code, &ended.lines()[0]["finish_reason"]), (0, &json!("length")));
}

#[test]
fn what_goes_wrong_is_told_with_its_reason() {
    for (scenario, expected) in [
        ("not-found", "status 404"),
        ("rate-limit", "status 429"),
        ("server-error", "status 500"),
        ("cut", "cut off"),
        ("garbage", "sent an invalid response"),
        ("stream-error", "Ollama"),
    ] {
        for word in ["generate", "stream"] {
            let (ended, _) = played(scenario, word, hello());
            assert_eq!(ended.code, 1, "{scenario} {word}: {}", ended.out);
            assert!(ended.err.contains(expected), "{scenario} {word}: {}", ended.err);
            let last = ended.lines().pop().expect("an answer");
            assert_eq!(last["error"].as_str().map(str::trim), Some(ended.err.trim()), "{scenario} {word}");
        }
    }
    let refused = call("127.0.0.1:1", "generate", &hello());
    assert!(refused.code == 1 && refused.err.contains("is `ollama serve` running?"), "{}", refused.err);
    let nameless = call("127.0.0.1:1", "generate", &json!({"prompt": "hi"}));
    assert!(nameless.err.contains("no model: set"), "{}", nameless.err);
    let https = call("https://box", "generate", &hello());
    assert!(https.err.contains("https is not supported"), "{}", https.err);
}

#[test]
fn health_is_that_of_the_server() {
    let (ended, _) = played("text", "health", json!(null));
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(
        ended.out.starts_with("OK: Ollama at http://127.0.0.1:") && ended.out.ends_with("has 2 models\n"),
        "{}",
        ended.out
    );
    let ill = call("127.0.0.1:1", "health", &json!(null));
    assert_eq!((ill.code, ill.out.as_str()), (1, ""));
    assert!(ill.err.contains("could not reach Ollama"), "{}", ill.err);
}

#[test]
fn the_program_passes_the_contract_suite() {
    let report = block_on(async {
        let simulator = Simulator::start(SimulatorOptions::default()).await.expect("a simulator");
        let host = simulator.base_url(Some("slow"));
        let program = Path::new(env!("CARGO_BIN_EXE_ollama-provider"));
        report(program, &[("model", "llama3.2:latest")], &[("OLLAMA_HOST", &host)]).await
    });
    assert!(report.holds(), "{:#?}", red(&report));
}
