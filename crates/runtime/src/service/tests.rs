//! What becomes of each rule about streams, against scripts.

use std::sync::Mutex;

use bowline_protocol::Category;

use super::*;
use crate::run::testing::{Script, script, world};
use crate::sessions::registry::Registry;

/// Everything that the callbacks were told, in order.
async fn streamed(service: &CliService, request: AgentRequest) -> (AgentResponse, Vec<String>) {
    let told = Mutex::new(Vec::new());
    let tell = |what: String| told.lock().unwrap().push(what);
    let callbacks = Callbacks::new()
        .on_text_delta(|text| tell(format!("text {text}")))
        .on_tool_activity(|name| tell(format!("tool {name}")))
        .on_system_status(|status| tell(format!("status {status:?}")));
    let response = service.execute_streaming(request, callbacks).await.unwrap();
    (response, told.into_inner().unwrap())
}

fn service(provider: &str, script: Script) -> CliService {
    let defaults = Request { provider: Some(provider.to_owned()), ..Request::default() };
    CliService::new(defaults).script(script)
}

fn plays(provider: &str, steps: &str) -> CliService {
    service(provider, script(&format!(r#"{{"session": "n-1", "steps": [{steps}]}}"#)))
}

#[tokio::test]
async fn a_stream_is_told_and_answered() {
    let service = plays(
        "claude",
        r#"{"say": ["Let me ", "look."]}, {"tool": {"name": "Bash", "input": {}, "output": "x"}}, {"say": "Done."},
           {"result": {"usage": {"input": 1, "output": 2, "cache_read": 4}, "cost_usd": 0.5}}"#,
    );
    let (response, told) = streamed(&service, AgentRequest::new("Do it")).await;
    assert_eq!(told, ["text Let me ", "text look.", "tool Bash", "text Done."]);
    assert!(response.result.ends_with("Done."), "{response:?}");
    assert_eq!(response.session_id.as_ref().map(NativeSessionId::as_str), Some("n-1"));
    assert_eq!((response.total_tokens, response.input_tokens, response.tool_calls), (7, 5, 1));
    assert_eq!((response.cost_usd, response.is_error, response.stream_fallback), (0.5, false, false));
    let whole = service.execute(AgentRequest::new("Do it")).await.unwrap();
    assert_eq!((whole.result, whole.total_tokens), (response.result, 7));
}

#[tokio::test]
async fn words_that_accompany_the_work_are_not_shown_where_only_that_tells() {
    let steps = r#"{"say": "Let me look."}, {"tool": {"name": "Bash", "input": {}, "output": "x"}}, {"say": "Done."},
                   {"result": {}}"#;
    let (_, told) = streamed(&plays("codex", steps), AgentRequest::new("Do it")).await;
    assert_eq!(told, ["tool Bash", "text Done."]);
}

#[tokio::test]
async fn a_status_is_told_and_cleared() {
    let text = r#"{"dialect": "claude", "steps": [
        {"stdout": {"type": "system", "subtype": "init", "session_id": "n-1"}},
        {"stdout": {"type": "system", "subtype": "status", "status": "compacting", "session_id": "n-1"}},
        {"stdout": {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto", "pre_tokens": 9}}},
        {"stdout": {"type": "result", "subtype": "success", "is_error": false, "result": "Hi", "session_id": "n-1"}}]}"#;
    let (response, told) = streamed(&service("claude", script(text)), AgentRequest::new("Do it")).await;
    assert_eq!(response.result, "Hi");
    let status: Vec<&String> = told.iter().filter(|what| what.starts_with("status")).collect();
    assert_eq!(status, ["status Some(\"compacting\")", "status None"]);
}

#[tokio::test]
async fn aborted_gives_an_empty_response() {
    let world = world();
    let service = plays("claude", r#"{"say": "Half"}, {"hang": true}"#).home(world.home());
    let registry = Registry::at(world.home());
    let request = AgentRequest { key: Some("chat".to_owned()), ..AgentRequest::new("Do it") };
    let (response, told) = {
        let stop = async {
            while !registry.has_active("chat").unwrap() {
                tokio::task::yield_now().await;
            }
            registry.kill_all("chat", "stop").await.unwrap()
        };
        let (streamed, killed) = tokio::join!(streamed(&service, request), stop);
        assert_eq!(killed.len(), 1);
        streamed
    };
    assert_eq!((response.result.as_str(), response.is_error, response.aborted), ("", false, true));
    assert!(told.iter().all(|what| what == "text Half"), "{told:?}");
    assert!(registry.was_aborted("chat").unwrap());
}

#[tokio::test]
async fn accumulated_text_without_an_error_is_the_response() {
    let (response, _) =
        streamed(&plays("claude", r#"{"say": "Half"}, {"exit": 0}"#), AgentRequest::new("Do it")).await;
    assert_eq!(
        (response.result.as_str(), response.is_error, response.stream_fallback),
        ("Half", false, false)
    );
}

#[tokio::test]
async fn otherwise_it_is_sent_again_and_says_so() {
    let text = r#"{"steps": [{"say": "Ha"}, {"exit": 1}], "retry": [{"say": "Whole"}, {"result": {}}]}"#;
    let (response, told) = streamed(&service("claude", script(text)), AgentRequest::new("Do it")).await;
    assert_eq!(
        (response.result.as_str(), response.is_error, response.stream_fallback),
        ("Whole", false, true)
    );
    assert_eq!(told, ["text Ha"], "the second answer is the response and no continuation");
}

#[tokio::test]
async fn it_is_not_sent_again_after_a_tool_unless_that_is_wanted() {
    let text = r#"{"steps": [{"tool": {"name": "Bash", "output": "x"}}, {"exit": 1}],
                   "retry": [{"say": "Whole"}, {"result": {}}]}"#;
    let once = service("claude", script(text));
    let (response, _) = streamed(&once, AgentRequest::new("Do it")).await;
    assert_eq!((response.is_error, response.stream_fallback), (true, false));
    let always = once.clone().stream_fallback(StreamFallback::Always);
    let (response, _) = streamed(&always, AgentRequest::new("Do it")).await;
    assert_eq!((response.is_error, response.stream_fallback), (false, true));
    let never =
        service("claude", script(r#"{"steps": [{"exit": 1}]}"#)).stream_fallback(StreamFallback::Never);
    let (response, _) = streamed(&never, AgentRequest::new("Do it")).await;
    assert_eq!((response.is_error, response.stream_fallback), (true, false));
}

#[tokio::test(start_paused = true)]
async fn failures_and_deadlines_are_responses() {
    let service = plays("claude", r#"{"say": "I"}, {"fail": "429 Too many requests"}, {"exit": 1}"#);
    let (response, _) = streamed(&service, AgentRequest::new("Do it")).await;
    assert_eq!((response.is_error, response.result.contains("429")), (true, true));
    assert_eq!(response.failure.unwrap().category, Category::RateLimit);
    let service = plays("claude", r#"{"say": "I"}, {"hang": true}"#);
    let request = AgentRequest { timeout_ms: Some(Millis(20_000)), ..AgentRequest::new("Do it") };
    let (response, _) = streamed(&service, request).await;
    assert_eq!((response.is_error, response.timed_out, response.result.as_str()), (true, true, ""));
}

/// A program that has answered and does not end is ended by whatever deadline comes first: the answer stays.
#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_when_a_deadline_ends_what_lingers() {
    let task =
        crate::run::task::task("hi").provider("claude").script(crate::run::testing::says("the answer"));
    let mut record = task.run().await.unwrap();
    record.timed_out = Some(crate::Watchdog::Total);
    let response = CliResponse::of(&record).unwrap();
    assert_eq!(
        (response.is_error, response.timed_out, response.result.as_str()),
        (false, true, "the answer")
    );
}

#[tokio::test(start_paused = true)]
async fn text_comes_in_portions_where_that_is_wanted() {
    let steps = r#"{"say": ["One. ", "Two. ", "Thr"]}, {"wait_ms": 5000}, {"say": "Four"}, {"result": {}}"#;
    let limits = Limits { min_chars: 8, ..Limits::default() };
    let (_, told) = streamed(&plays("claude", steps).portions(limits), AgentRequest::new("Do it")).await;
    assert_eq!(told, ["text One. Two. ", "text ThrFour"]);
    let limits = Limits { min_chars: 1, paragraph_break: false, sentence_break: false, ..Limits::default() };
    let (_, told) = streamed(&plays("claude", steps).portions(limits), AgentRequest::new("Do it")).await;
    assert_eq!(told, ["text One. Two. Thr", "text Four"], "a pause ends a portion");
}

#[tokio::test]
async fn a_request_goes_over_the_defaults() {
    let defaults = Request {
        provider: Some("claude".to_owned()),
        model: Some("opus".to_owned()),
        system_prompt: Some("Be brief.".to_owned()),
        ..Request::default()
    };
    let request = AgentRequest {
        model_override: Some("haiku".to_owned()),
        resume_session: Some("n-1".into()),
        continue_session: true,
        ..AgentRequest::new("Do it")
    };
    let task = CliService::new(defaults).task(request);
    let args = task.preview().unwrap().args.join(" ");
    for part in ["--model haiku", "--system-prompt Be brief.", "--resume n-1"] {
        assert!(args.contains(part), "{part} in {args}");
    }
    assert!(!args.contains("--continue"), "{args}");
    let refused = CliService::new(Request::default()).execute(AgentRequest::new("Do it")).await;
    assert!(matches!(refused, Err(Error::NoProvider)));
}
