//! A host that speaks the Agent Client Protocol with the agent, and keeps what both sides wrote.

use std::io::Write;
use std::process::{Child, ChildStdin};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bowline_protocol::{Event, SessionId, Timestamp};
use bowline_providers::decode::{Cause, Decoder, End, Stamp};
use bowline_providers::moment::Moment;
use bowline_providers::{catalogue, dialects};
use serde_json::{Value, json};

use crate::support::{Agent, PATIENCE, collect, now};

/// A line of either side.
enum WireLine {
    Host(String),
    Agent(String),
}

/// The host of an agent.
pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: mpsc::Receiver<Vec<u8>>,
    unread: Vec<u8>,
    wire: Vec<WireLine>,
    cwd: String,
    requests: u64,
    pub(crate) session: String,
}

impl Host {
    /// Starts an agent and introduces itself.
    pub(crate) fn of(agent: &Agent) -> Self {
        let mut child = agent.spawn();
        let stdout = collect(child.stdout.take().expect("piped"), Arc::default());
        let cwd = agent.path("").display().to_string();
        let stdin = child.stdin.take();
        let (unread, wire, session) = (Vec::new(), Vec::new(), String::new());
        let mut host = Self { child, stdin, stdout, unread, wire, cwd, requests: 0, session };
        let answer = host.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(answer["result"]["_meta"]["steering"]["supported"], true, "{answer}");
        host
    }

    /// Starts an agent and opens a session.
    pub(crate) fn with_session(agent: &Agent) -> Self {
        let mut host = Self::of(agent);
        host.open("session/new", &json!({}));
        host
    }

    /// Opens a session and returns the answer.
    pub(crate) fn open(&mut self, method: &str, more: &Value) -> Value {
        let mut params = json!({"cwd": self.cwd, "mcpServers": []});
        let more = more.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(more);
        let answer = self.call(method, &params);
        if let Some(session) = answer["result"]["sessionId"].as_str() {
            session.clone_into(&mut self.session);
        }
        answer
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        self.send_line(&message.to_string());
    }

    /// Sends a line as it is.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.wire.push(WireLine::Host(line.to_owned()));
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the agent reads");
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        let id = json!(self.requests);
        self.send(&json!({"id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request about the session and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(&id)
    }

    /// Sends a prompt and returns the id of the request.
    pub(crate) fn prompt(&mut self, text: &str) -> Value {
        let blocks = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", &json!({"sessionId": self.session, "prompt": blocks}))
    }

    /// Sends directives as a prompt.
    pub(crate) fn plays(&mut self, directives: &str) -> Value {
        let lines: Vec<String> = directives.lines().map(|line| format!("practice: {line}")).collect();
        self.prompt(&lines.join("\n"))
    }

    /// Sends a text to the running prompt and returns the outcome.
    pub(crate) fn steer(&mut self, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        self.call("_session/steering", &params)["result"]["outcome"].clone()
    }

    /// Cancels the prompt.
    pub(crate) fn cancel(&mut self) {
        let params = json!({"sessionId": self.session});
        self.send(&json!({"method": "session/cancel", "params": params}));
    }

    /// Answers a permission request.
    pub(crate) fn decide(&mut self, request: &Value, option: &str) {
        let outcome = json!({"outcome": "selected", "optionId": option});
        self.send(&json!({"id": request["id"], "result": {"outcome": outcome}}));
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.until(|message| message["id"] == *id && message.get("method").is_none())
    }

    /// Waits for the answer to a prompt, and returns why it ended.
    pub(crate) fn stop_reason(&mut self, id: &Value) -> String {
        let answer = self.answer(id);
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits for a request of the agent, or a notification.
    pub(crate) fn wait_for(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method)
    }

    /// Waits for an update with this text.
    pub(crate) fn wait_for_update(&mut self, text: &str) {
        self.until(|message| message["method"] == "session/update" && message.to_string().contains(text));
    }

    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = now() + PATIENCE;
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8(line).expect("UTF-8").trim_end().to_owned();
                let message = serde_json::from_str(&line).unwrap_or_default();
                self.wire.push(WireLine::Agent(line));
                if wanted(&message) {
                    return message;
                }
            }
            let left = deadline.saturating_duration_since(now());
            match self.stdout.recv_timeout(left) {
                Ok(bytes) => self.unread.extend(bytes),
                Err(error) => panic!("{error}: {}", self.agent_lines().join("\n")),
            }
        }
    }

    /// Returns all lines of the agent so far.
    pub(crate) fn agent_lines(&self) -> Vec<String> {
        let agent = |line: &WireLine| match line {
            WireLine::Agent(line) => Some(line.clone()),
            WireLine::Host(_) => None,
        };
        self.wire.iter().filter_map(agent).collect()
    }

    /// Returns the text of the answers so far.
    pub(crate) fn text(&self) -> String {
        let lines =
            self.agent_lines().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let text = |message: Value| {
            let update = &message["params"]["update"];
            let of_agent = update["sessionUpdate"] == "agent_message_chunk";
            update["content"]["text"].as_str().filter(|_| of_agent).map(str::to_owned)
        };
        lines.filter_map(text).collect()
    }

    /// Closes the agent's standard input.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Returns the exit code of the agent if it has ended.
    pub(crate) fn ended(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().expect("its state").map(|status| status.code())
    }

    /// Waits for the end of the agent and returns its exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let deadline: Instant = now() + PATIENCE;
        while now() < deadline {
            if let Some(code) = self.ended() {
                return code;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.child.kill().expect("it can be killed");
        panic!("the agent does not end: {}", self.agent_lines().join("\n"));
    }

    /// Returns what our decoder makes of both sides.
    pub(crate) fn events(&self) -> Vec<Event> {
        let entry = dialects::by_name("acp").expect("a dialect of the list");
        let vocabulary = catalogue::vocabulary("acp").expect("it has recordings");
        let mut decoder = Decoder::new(entry).watching(vocabulary);
        let now = Moment::utc("2026-11-15T08:00:00Z".parse::<Timestamp>().expect("a time"));
        let mut drafts = Vec::new();
        for line in &self.wire {
            match line {
                WireLine::Host(line) => decoder.sent(line, 0, &now, &mut drafts),
                WireLine::Agent(line) => decoder.stdout(format!("{line}\n").as_bytes(), &now, &mut drafts),
            }
        }
        let exit = Some(bowline_protocol::Exit::Code(0));
        decoder.finish(&End { exit, cause: Cause::Exited }, &now, &mut drafts);
        let mut stamp = Stamp::new(SessionId::from("s"));
        drafts.into_iter().map(|draft| stamp.stamp(draft, now.at)).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended in most tests. One that failed must not leave it behind.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
