//! The Agent Client Protocol: what goes wrong, what agents do differently, and what they have never done yet.

mod failures;
mod tools;
mod updates;

use bowline_protocol::kinds::{Outcome, StopReason, ToolStatus, TurnEnded, UserOrigin};
use bowline_protocol::{Event, Exit, Kind, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::moment::Moment;
use bowline_providers::{dialects, views};
use serde_json::{Value, json};

use crate::fixtures;
use crate::support::Run;

/// A conversation: what the client sends and what the agent prints.
#[derive(Default)]
struct Talk {
    steps: Vec<(Side, String)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Client,
    Agent,
}

const SESSION: &str = "s1";

#[expect(clippy::needless_pass_by_value, reason = "the conversations read better without references")]
impl Talk {
    /// A conversation in which a session is open and a prompt, request 3, was sent.
    fn prompted() -> Self {
        Self::default()
            .client(json!({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}))
            .agent(json!({"id": 1, "result": {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1.2"}}}))
            .client(json!({"id": 2, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}}))
            .agent(json!({"id": 2, "result": {"sessionId": SESSION}}))
            .prompt(3, "do it")
    }

    fn client(self, message: Value) -> Self {
        self.line(Side::Client, &message.to_string())
    }

    fn agent(self, message: Value) -> Self {
        self.line(Side::Agent, &message.to_string())
    }

    fn line(mut self, side: Side, line: &str) -> Self {
        self.steps.push((side, line.to_owned()));
        self
    }

    fn prompt(self, id: u32, text: &str) -> Self {
        let params = json!({"sessionId": SESSION, "prompt": [{"type": "text", "text": text}]});
        self.client(json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}))
    }

    fn update(self, update: Value) -> Self {
        let params = json!({"sessionId": SESSION, "update": update});
        self.agent(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    fn says(self, text: &str) -> Self {
        self.update(
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
        )
    }

    fn stops(self, id: u32, reason: &str) -> Self {
        self.agent(json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}}))
    }

    fn events_at(&self, exit: Exit) -> Vec<Event> {
        let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
        let mut decoder = Decoder::new(dialects::by_name("acp").expect("the dialect"));
        let (mut drafts, mut sent) = (Vec::new(), 0);
        for (side, line) in &self.steps {
            match side {
                Side::Agent => decoder.stdout(format!("{line}\n").as_bytes(), &now, &mut drafts),
                Side::Client => {
                    decoder.sent(line, sent, &now, &mut drafts);
                    sent += line.len() as u64 + 1;
                }
            }
        }
        decoder.finish(&End { exit: Some(exit), cause: Cause::Exited }, &now, &mut drafts);
        let mut stamp = Stamp::new(SessionId::from("s"));
        drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
    }

    fn events(&self) -> Vec<Event> {
        self.events_at(Exit::Code(0))
    }

    fn summary(&self) -> Value {
        let mut view =
            (views::by_name("summary").expect("a view").make)(&views::Setup { provider: None, ours: false });
        let mut text = String::new();
        self.events().iter().for_each(|event| view.event(event, &mut text));
        view.finish(&mut text);
        serde_json::from_str(&text).expect("one object")
    }

    /// How the turns ended: outcome, and category and code of the failure.
    fn verdicts(&self) -> Vec<String> {
        verdicts(&self.events())
    }

    /// The kinds of the events, in order.
    fn kinds(&self) -> Vec<String> {
        self.events().iter().map(|event| event.kind.type_name().to_owned()).collect()
    }

    /// The events of one kind, as JSON.
    fn told(&self, kind: &str) -> Vec<Value> {
        let all = self.events();
        let of_kind = all.iter().filter(|event| event.kind.type_name() == kind);
        of_kind.map(|event| serde_json::to_value(&event.kind).expect("plain data")).collect()
    }
}

fn ends(events: &[Event]) -> Vec<TurnEnded> {
    let end =
        |event: &Event| if let Kind::TurnEnded(ended) = &event.kind { Some(ended.clone()) } else { None };
    events.iter().filter_map(end).collect()
}

fn verdicts(events: &[Event]) -> Vec<String> {
    let word = |ended: TurnEnded| {
        let outcome = serde_json::to_value(ended.outcome).expect("a word");
        let outcome = outcome.as_str().expect("a word").to_owned();
        match ended.failure {
            Some(failure) => format!("{outcome} {}/{}", failure.category, failure.code),
            None => outcome,
        }
    };
    ends(events).into_iter().map(word).collect()
}

fn recorded(name: &str) -> Vec<Event> {
    let all = fixtures::all();
    all.iter()
        .find(|capture| capture.name() == name)
        .unwrap_or_else(|| panic!("no recording {name}"))
        .events()
}

#[test]
fn a_prompt_that_is_never_answered_is_truncated_by_the_one_that_is() {
    assert_eq!(
        verdicts(&recorded("codex/0.166.0/acp-zed"))[6..],
        [
            "failed authentication/invalid_credentials",
            "truncated unknown/truncated",
            "failed rate_limit/rate_limited",
            "failed server/overloaded",
            "failed validation/context_overflow",
            "cancelled",
        ]
    );
    let talk = Talk::prompted().says("half an ans");
    assert_eq!(talk.verdicts(), ["truncated unknown/truncated"]);
    assert_eq!(talk.summary()["text"], "half an ans");
    assert_eq!(verdicts(&talk.events_at(Exit::Signal(9))), ["failed timeout/killed"]);
}

#[test]
fn prompts_that_are_sent_early_wait_for_their_turn() {
    let talk = Talk::prompted()
        .says("a")
        .prompt(4, "more")
        .says("b")
        .stops(3, "end_turn")
        .says("c")
        .stops(4, "end_turn");
    assert_eq!(talk.verdicts(), ["completed", "completed"]);
    let summary = talk.summary();
    assert_eq!((&summary["text"], &summary["all_text"]), (&json!("c"), &json!("ab\nc")));
}

#[test]
fn cancelling() {
    let cancel = json!({"method": "session/cancel", "params": {"sessionId": SESSION}});
    let error = json!({"id": 3, "error": {"code": -32603, "message": "Internal error: aborted"}});
    // An agent that answers with an error, one that never answers, and one that says so by itself.
    assert_eq!(Talk::prompted().client(cancel.clone()).agent(error).verdicts(), ["cancelled"]);
    assert_eq!(Talk::prompted().says("a").client(cancel).verdicts(), ["cancelled"]);
    let error = json!({"id": 3, "error": {"code": -32800, "message": "Request cancelled"}});
    assert_eq!(Talk::prompted().agent(error).verdicts(), ["cancelled"]);
}

#[test]
fn no_session_no_prompt() {
    let new = json!({"id": 1, "method": "session/new", "params": {"cwd": "/w"}});
    let error = json!({"id": 1, "error": {"code": -32000, "message": "Authentication required"}});
    let talk = Talk::default().client(new.clone()).agent(error);
    assert_eq!(talk.verdicts(), ["failed authentication/not_logged_in"]);
    // The client logs in and tries again.
    let talk = talk.client(json!({"id": 2, "method": "authenticate", "params": {"methodId": "m"}}));
    let talk = talk
        .agent(json!({"id": 2, "result": {}}))
        .client(new)
        .agent(json!({"id": 1, "result": {"sessionId": "s1"}}));
    let talk = talk.prompt(3, "do it").says("done").stops(3, "end_turn");
    assert_eq!(talk.verdicts(), ["failed authentication/not_logged_in", "completed"]);
    let load = json!({"id": 1, "method": "session/load", "params": {"sessionId": "old", "cwd": "/w"}});
    let error = json!({"id": 1, "error": {"code": -32002, "message": "Resource not found", "data": {"sessionId": "old"}}});
    let talk = Talk::default().client(load).agent(error);
    assert_eq!(talk.verdicts(), ["failed not_found/session_not_found"]);
    assert_eq!(talk.told("resume_answered")[0]["answer"], "rejected");
}

#[test]
fn history_is_not_said_again() {
    let talk = Talk::default()
        .client(json!({"id": 1, "method": "session/load", "params": {"sessionId": "s1", "cwd": "/w"}}))
        .update(
            json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "old prompt"}}),
        )
        .says("old answer")
        .update(
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Bash", "status": "completed"}),
        )
        .agent(json!({"id": 1, "result": null}))
        .prompt(2, "new prompt")
        .says("new answer")
        .stops(2, "end_turn");
    let summary = talk.summary();
    assert_eq!((&summary["all_text"], &summary["tools"]), (&json!("new answer"), &json!(0)));
    assert_eq!(summary["native_session"], "s1");
    let origins: Vec<UserOrigin> = talk
        .events()
        .iter()
        .filter_map(
            |event| if let Kind::UserMessage(message) = &event.kind { Some(message.origin) } else { None },
        )
        .collect();
    assert_eq!(origins, [UserOrigin::Replayed, UserOrigin::Human]);
    assert_eq!(talk.told("resume_answered")[0]["answer"], "resumed");
}

#[test]
fn ids_of_both_directions_overlap() {
    let ask = json!({"id": 3, "method": "session/request_permission", "params": {"sessionId": SESSION,
        "toolCall": {"toolCallId": "t", "title": "rm -rf x", "kind": "execute", "status": "pending"},
        "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]}});
    let answer = json!({"id": 3, "result": {"outcome": {"outcome": "selected", "optionId": "n"}}});
    let talk = Talk::prompted().agent(ask).client(answer).says("as you like").stops(3, "end_turn");
    assert_eq!(talk.verdicts(), ["completed"]);
    // The tool is first seen in the request, and nothing more is told of it.
    assert_eq!(talk.told("tool_started")[0]["name"], "execute");
    assert_eq!(talk.told("tool_finished")[0]["status"], "denied");
    let asked = &talk.told("approval_asked")[0];
    assert_eq!(
        (&asked["category"], &asked["risk"], &asked["tool"]),
        (&json!("shell"), &json!("high"), &json!("t"))
    );
    assert_eq!(talk.told("approval_decided")[0]["decision"], "deny");
}

#[test]
fn every_permission_is_decided_once() {
    let ask = |id: &str| {
        json!({"id": id, "method": "session/request_permission", "params": {"sessionId": SESSION,
            "toolCall": {"toolCallId": id, "kind": "edit"}, "options": [{"optionId": "y", "name": "Yes", "kind": "allow_of_the_future"}]}})
    };
    let decisions = |talk: &Talk| -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        talk.told("approval_decided")
            .iter()
            .map(|told| (word(&told["decision"]), word(&told["by"])))
            .collect()
    };
    let known = |decision: &str, by: &str| vec![(decision.to_owned(), by.to_owned())];
    let yes = json!({"id": "a", "result": {"outcome": {"outcome": "selected", "optionId": "y"}}});
    let open = Talk::prompted().agent(ask("a"));
    assert_eq!(decisions(&open), known("deny", "withdrawn"), "the output ends");
    let withdrawn = Talk::prompted()
        .agent(ask("a"))
        .agent(json!({"method": "$/cancel_request", "params": {"requestId": "a"}}));
    assert_eq!(decisions(&withdrawn.stops(3, "end_turn")), known("deny", "withdrawn"));
    let error = json!({"id": "a", "error": {"code": -32603, "message": "no"}});
    assert_eq!(decisions(&Talk::prompted().agent(ask("a")).client(error)), known("deny", "host"));
    let cancelled = json!({"id": "a", "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(decisions(&Talk::prompted().agent(ask("a")).client(cancelled)), known("deny", "host"));
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"});
    let unseen = Talk::prompted().agent(ask("a")).update(done);
    assert_eq!(decisions(&unseen), known("allow", "host"), "the tool ran");
    assert_eq!(decisions(&Talk::prompted().agent(ask("a")).client(yes)), known("allow", "host"));
}

#[test]
fn an_error_that_is_streamed_as_text_is_no_answer() {
    let error = json!({"id": 3, "error": {"code": -32603, "message": "Internal error: API Error: 500 boom", "data": {"errorKind": "server_error"}}});
    let talk = Talk::prompted().says("API Error: 500 boom").agent(error.clone());
    assert_eq!(talk.summary()["text"], "");
    assert_eq!(talk.verdicts(), ["failed server/server_error"]);
    // What was said before the error stays said.
    let talk = Talk::prompted().says("The answer is ").says("forty-").agent(error);
    assert_eq!(talk.summary()["text"], "The answer is forty-");
}

#[test]
fn messages_end_where_their_name_changes_and_at_tools() {
    let piece = |id: &str, text: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}});
    let call = |status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Bash", "status": status});
    let talk = Talk::prompted().update(piece("a", "1")).update(piece("a", "2")).update(piece("b", "3"));
    let talk = talk
        .update(call("in_progress"))
        .update(call("completed"))
        .update(piece("b", "4"))
        .stops(3, "end_turn");
    assert_eq!(talk.summary()["text"], "12\n3\n4");
    assert_eq!(talk.told("message_finished").len(), 3);
    assert_eq!(talk.told("tool_started").len(), 1);
    assert_eq!(talk.told("tool_finished").len(), 1);
}

/// One example of every update that the schema of the protocol knows in version 1.15.1, and what it becomes.
const UPDATES: &[(&str, &str)] = &[
    (r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"}}"#, "user_message"),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m"}"#,
        "text_delta",
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"x","uri":"file:///x"}}"#,
        "text_delta",
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///x","text":"y"}}}"#,
        "text_delta",
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}"#,
        "text_delta",
    ),
    (r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"a"}}"#, "thinking_delta"),
    (
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"Read","kind":"read","status":"pending"}"#,
        "tool_started",
    ),
    (r#"{"sessionUpdate":"tool_call_update","toolCallId":"u","status":"completed"}"#, "tool_finished"),
    (
        r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"in_progress"}]}"#,
        "plan_updated",
    ),
    (
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"low","status":"pending"}]}}"#,
        "plan_updated",
    ),
    (r#"{"sessionUpdate":"plan_removed","planId":"p"}"#, "plan_updated"),
    (
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"plan","description":"d"}]}"#,
        "options_advertised",
    ),
    (r#"{"sessionUpdate":"current_mode_update","currentModeId":"plan"}"#, "options_changed"),
    (
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"m2","options":[{"group":"g","name":"G","options":[{"value":"m1","name":"1"},{"value":"m2","name":"2"}]}]}]}"#,
        "model_changed",
    ),
    (
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"fast","name":"Fast","type":"boolean","currentValue":true}]}"#,
        "options_changed",
    ),
    (r#"{"sessionUpdate":"session_info_update","title":"A title"}"#, "notice"),
    (
        r#"{"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.5,"currency":"USD"}}"#,
        "context_gauge",
    ),
    (r#"{"sessionUpdate":"notice","severity":"warning","title":"careful"}"#, "notice"),
    (r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"in_progress"}"#, "status"),
    (r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"}"#, "context_compacted"),
    (r#"{"sessionUpdate":"subagent_update","sessionId":"child","title":"Child"}"#, "background_task_started"),
];

#[test]
fn no_built_in_provider_is_offered_files() {
    use bowline_providers::manifest::run::HostOffer;
    for manifest in bowline_providers::catalogue::built_in() {
        assert_eq!(manifest.run.host_files, HostOffer::Withheld, "{}", manifest.name);
    }
}
