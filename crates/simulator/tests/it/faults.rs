//! Faults: the errors of each API, and failures of the connection.

use std::time::Duration;

use bowline_simulator::{FaultKind, RequestOutcome};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::support::{ALL, PATIENCE, Speaks, Turn, last, post, receive, send, simulator, with};

/// The statuses of each fault: Anthropic's, OpenAI's, Google's.
const STATUSES: &[(&str, [u16; 3])] = &[
    ("bad-request", [400, 400, 400]),
    ("unauthorized", [401, 401, 401]),
    ("forbidden", [403, 403, 403]),
    ("not-found", [404, 404, 404]),
    ("too-large", [413, 413, 413]),
    ("rate-limit", [429, 429, 429]),
    ("quota", [429, 429, 429]),
    ("billing", [400, 400, 403]),
    ("server-error", [500, 500, 500]),
    ("bad-gateway", [502, 502, 502]),
    ("unavailable", [503, 503, 503]),
    ("overloaded", [529, 503, 503]),
    ("context-overflow", [400, 400, 400]),
];

#[tokio::test]
async fn each_fault_has_the_status_and_the_shape_of_its_api() {
    let simulator = simulator().await;
    for (name, statuses) in STATUSES {
        for (api, status) in [
            (Speaks::Messages, statuses[0]),
            (Speaks::Responses, statuses[1]),
            (Speaks::Chat, statuses[1]),
            (Speaks::Google, statuses[2]),
            (Speaks::Ollama, statuses[1]),
        ] {
            let reply = api.say(&simulator, false, &format!("[[{name}]]"), &[]).await;
            assert_eq!(reply.status, status, "{name} {api:?}: {}", reply.body);
            if *name == "bad-gateway" {
                assert!(reply.body.contains("<html>"), "{}", reply.body);
                continue;
            }
            let body = reply.json();
            let message = match api {
                Speaks::Messages => {
                    assert_eq!(body["type"], "error");
                    assert!(body["error"]["type"].is_string());
                    &body["error"]["message"]
                }
                Speaks::Google => {
                    assert_eq!(body["error"]["code"], status);
                    assert!(body["error"]["status"].is_string());
                    &body["error"]["message"]
                }
                Speaks::Ollama => &body["error"],
                Speaks::Responses | Speaks::Chat | Speaks::GoogleArray | Speaks::OllamaGenerate => {
                    assert!(body["error"]["type"].is_string());
                    &body["error"]["message"]
                }
            };
            assert!(message.as_str().is_some_and(|words| !words.is_empty()), "{name} {api:?}: {body}");
            let entry = last(&simulator).await;
            assert_eq!((entry.status, entry.usage), (Some(status), None));
        }
    }
}

#[tokio::test]
async fn the_words_that_programs_look_for_are_there() {
    let simulator = simulator().await;
    for (name, api, pointer, word) in [
        ("quota", Speaks::Chat, "/error/code", "insufficient_quota"),
        ("rate-limit", Speaks::Responses, "/error/code", "rate_limit_exceeded"),
        ("context-overflow", Speaks::Chat, "/error/code", "context_length_exceeded"),
        ("unauthorized", Speaks::Responses, "/error/code", "invalid_api_key"),
        ("overloaded", Speaks::Messages, "/error/type", "overloaded_error"),
        ("not-found", Speaks::Messages, "/error/message", "model: m1"),
        ("rate-limit", Speaks::Google, "/error/details/1/retryDelay", "1s"),
    ] {
        let reply = api.say(&simulator, false, &format!("[[{name}]]"), &[]).await.json();
        assert_eq!(reply.pointer(pointer), Some(&json!(word)), "{name} {api:?}: {reply}");
    }
}

#[tokio::test]
async fn a_fault_may_have_words_a_status_and_a_wait_of_its_own() {
    let mine = with(
        "about = \"x\"\n[[step]]\nfault = \"unavailable\"\nstatus = 529\nmessage = \"gone fishing\"\nretry_after = \"2500ms\"\n",
    )
    .await;
    let reply = Speaks::Chat.say(&mine, false, "[[mine]]", &[]).await;
    assert_eq!((reply.status, reply.header("retry-after")), (529, Some("3")));
    assert_eq!(reply.json()["error"]["message"], "gone fishing");
}

#[tokio::test]
async fn one_api_says_in_its_stream_that_the_conversation_is_too_long() {
    let simulator = simulator().await;
    let reply = Speaks::Responses.say(&simulator, true, "[[context-overflow]]", &[]).await;
    assert_eq!(reply.status, 200);
    let end = reply.events().pop().expect("an end");
    assert_eq!(end["type"], "response.failed");
    assert_eq!(end["response"]["error"]["code"], "context_length_exceeded");
}

#[tokio::test]
async fn a_connection_can_be_closed_before_and_in_the_middle_of_an_answer() {
    let simulator = simulator().await;
    for api in ALL {
        for stream in [false, true] {
            let ask = |prompt| api.ask(stream, &[Turn::User(prompt)], &[]).to_string();
            let socket = send(&simulator, "POST", api.path(stream), &[], ask("[[close]]").as_bytes()).await;
            assert!(receive(socket).await.is_none(), "{api:?}: nothing is answered");
            assert_eq!(last(&simulator).await.outcome, RequestOutcome::BrokenOff);

            let socket = send(&simulator, "POST", api.path(stream), &[], ask("[[cut]]").as_bytes()).await;
            let reply = receive(socket).await.expect("a beginning");
            assert_eq!((reply.status, reply.whole), (200, false), "{api:?} stream={stream}: {}", reply.body);
            assert!(!reply.body.is_empty(), "{api:?}: some of it was sent");
            assert!(!stream || reply.body.contains("begin"), "{api:?}: {}", reply.body);
            let entry = last(&simulator).await;
            assert_eq!((entry.outcome, entry.usage), (RequestOutcome::BrokenOff, None));
        }
    }
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_leaves() {
    let simulator = simulator().await;
    for (name, kind, headers, beginning) in [
        ("hang", FaultKind::Hang, false, false),
        ("hang-after-headers", FaultKind::HangAfterHeaders, true, false),
        ("hang-midway", FaultKind::HangMidway, true, true),
    ] {
        for api in ALL {
            for stream in [false, true] {
                let body = api.ask(stream, &[Turn::User(&format!("[[{name}]]"))], &[]).to_string();
                let mut socket = send(&simulator, "POST", api.path(stream), &[], body.as_bytes()).await;
                let mut got = Vec::new();
                let body_of = |got: &[u8]| {
                    let text = String::from_utf8_lossy(got).into_owned();
                    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
                };
                let has_come = |got: &[u8]| match (headers, beginning) {
                    (false, _) => true,
                    (true, false) => body_of(got).is_some(),
                    (true, true) => body_of(got).is_some_and(|body| !body.is_empty()),
                };
                while !has_come(&got) {
                    let read = tokio::time::timeout(PATIENCE, socket.read_buf(&mut got)).await;
                    assert_ne!(read.expect("in time").expect("no error"), 0, "{name} {api:?}: it ended");
                }
                // A response would end the connection now.
                let rest = socket.read_to_end(&mut got);
                let ended = tokio::time::timeout(Duration::from_millis(80), rest).await;
                assert!(ended.is_err(), "{name} {api:?} stream={stream}: the connection ended");
                assert_eq!(got.starts_with(b"HTTP/1.1 200"), headers, "{name} {api:?}");
                let sent = body_of(&got).is_some_and(|body| !body.is_empty());
                assert_eq!(sent, beginning, "{name} {api:?}");
                drop(socket);
                let entry = last(&simulator).await;
                assert_eq!(entry.outcome, RequestOutcome::ClientLeft, "{name} {api:?}");
                assert_eq!(entry.choice.expect("a choice").fault, Some(kind));
            }
        }
    }
}

#[tokio::test]
async fn a_connection_can_be_reset() {
    let simulator = simulator().await;
    for (prompt, expect) in [("[[refused]]", Err(std::io::ErrorKind::ConnectionReset)), ("[[close]]", Ok(0))]
    {
        let ask = Speaks::Chat.ask(true, &[Turn::User(prompt)], &[]).to_string();
        let mut socket = send(&simulator, "POST", Speaks::Chat.path(true), &[], ask.as_bytes()).await;
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut [0; 1])).await.expect("an end in time");
        assert_eq!(read.map_err(|error| error.kind()), expect, "{prompt}");
        assert_eq!(last(&simulator).await.outcome, RequestOutcome::BrokenOff);
    }
}

#[tokio::test]
async fn garbage_is_none_of_what_the_api_says() {
    let simulator = simulator().await;
    for api in ALL {
        let reply = api.say(&simulator, false, "[[garbage]]", &[]).await;
        assert!(reply.whole, "{api:?}: the connection is in order");
        assert!(serde_json::from_str::<serde_json::Value>(&reply.body).is_err(), "{api:?}: {}", reply.body);
        let reply = api.say(&simulator, true, "[[garbage]]", &[]).await;
        let lines = reply.body.lines().filter(|line| !line.is_empty() && !line.starts_with("event:"));
        let broken = lines
            .map(|line| line.strip_prefix("data: ").unwrap_or(line))
            .filter(|line| *line != "[DONE]" && serde_json::from_str::<serde_json::Value>(line).is_err());
        assert!(broken.count() >= 1, "{api:?}: {}", reply.body);
    }
    // A client that ignores it has lost text; one that sends a second request has not.
    let first = Speaks::Chat.say(&simulator, true, "[[garbage-once]]", &[]).await;
    let text = Speaks::Chat.text(true, &first);
    assert!(text.starts_with("This answer begins") && text.ends_with("to a good end."), "{text}");
    assert_ne!(
        text,
        "This answer begins as it should, goes on for a while, and would have come to a good end."
    );
    let second = Speaks::Chat.say(&simulator, true, "[[garbage-once]]", &[]).await;
    assert_eq!(Speaks::Chat.text(true, &second), "This time it went well.");
}

#[tokio::test]
async fn a_stream_can_say_that_it_failed() {
    let simulator = simulator().await;
    for (api, pointer) in [
        (Speaks::Messages, "/error/type"),
        (Speaks::Responses, "/response/error/code"),
        (Speaks::Chat, "/error/type"),
        (Speaks::Google, "/error/status"),
    ] {
        let reply = api.say(&simulator, true, "[[stream-error]]", &[]).await;
        assert_eq!((reply.status, reply.whole), (200, true));
        assert!(api.text(true, &reply).starts_with("This answer begins"), "{api:?}: {}", reply.body);
        let end = reply.events().pop().expect("an end");
        assert!(end.pointer(pointer).is_some(), "{api:?}: {end}");
    }
    let reply = Speaks::Ollama.say(&simulator, true, "[[stream-error]]", &[]).await;
    assert!(reply.lines().pop().expect("an end")["error"].is_string());
    // A response that is not streamed can only fail as a whole.
    let reply = Speaks::Chat.say(&simulator, false, "[[stream-error]]", &[]).await;
    assert_eq!(reply.status, 500);
}

#[tokio::test]
async fn a_fault_passes_after_some_times_in_each_conversation() {
    let simulator = with(
        "about = \"x\"\n[[step]]\nfault = \"rate-limit\"\ntimes = 1\n\
         [[step]]\nfault = \"server-error\"\ntimes = 2\n[[step]]\ntext = \"yes\"\n",
    )
    .await;
    for route in ["a", "b"] {
        let path = format!("/r/{route}/v1/chat/completions");
        let ask = Speaks::Chat.ask(false, &[Turn::User("[[mine]] please")], &[]);
        let mut statuses = Vec::new();
        for _ in 0..5 {
            statuses.push(post(&simulator, &path, &ask).await.status);
        }
        assert_eq!(statuses, [429, 500, 500, 200, 200], "{route}");
    }
}

#[tokio::test]
async fn a_slow_start_is_silence_and_then_an_answer() {
    let mine = with("about = \"x\"\n[[step]]\nwait = \"1s\"\ntext = \"late\"\n").await;
    let body = Speaks::Chat.ask(true, &[Turn::User("[[mine]]")], &[]).to_string();
    let mut socket = send(&mine, "POST", "/v1/chat/completions", &[], body.as_bytes()).await;
    let mut first = [0; 1];
    let early = tokio::time::timeout(Duration::from_millis(150), socket.read(&mut first)).await;
    assert!(early.is_err(), "something came early");
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await.expect("in time").expect("all");
    assert!(String::from_utf8_lossy(&rest).contains("late"));
}
