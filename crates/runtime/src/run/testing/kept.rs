//! A scripted agent whose process takes many prompts: the agent's side of the Agent Client Protocol.
//!
//! It opens the session, begins the list of steps of each prompt, waits for decisions and steers, and ends a prompt that is
//! cancelled. Messages of the host are answered at once, whatever the steps wait for.

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Value, json};

use super::Step;

/// The native id of a session whose script names none.
const SESSION: &str = "scripted";

/// The answers that it offers with a permission request. The ids are the kinds.
const ALLOW_ONCE: &str = "allow_once";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT_ONCE: &str = "reject_once";

/// A step that only such a process has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeptStep {
    /// Reports something of the prompt.
    Update(Value),
    /// Requests a permission, and waits for the decision.
    Ask { name: String, call: Value, allowed: Vec<Step>, denied: Vec<Step> },
    /// Asks the user, and waits for the answer.
    Question { text: String, choices: Vec<String>, answered: Vec<Step>, dismissed: Vec<Step> },
    /// Waits for a text that joins the running prompt.
    Steered,
    /// Ends the prompt, with its result or an error.
    End { result: Result<Value, String>, cost_usd: Option<f64> },
}

/// The process, between its lines.
#[derive(Debug)]
pub(super) struct KeptAgent {
    prompts: VecDeque<Vec<Step>>,
    /// The session that the script names.
    named: Option<String>,
    session: String,
    model: String,
    /// The part of a line of the host that was written.
    input: Vec<u8>,
    /// The id of the request of the running prompt.
    prompt: Option<Value>,
    /// How many prompts began. The ids of messages and tools repeat where a list of steps does.
    begun: u32,
    /// The id of the request that waits: a permission, or a question.
    asked: Option<u64>,
    last_request: u64,
    /// The tools that are allowed for the rest of the session.
    always: BTreeSet<String>,
    /// The texts that joined the prompt and that no step has waited for.
    steers: usize,
    cost_usd: f64,
}

impl KeptAgent {
    pub(super) fn new(prompts: VecDeque<Vec<Step>>, named: Option<String>, model: String) -> Self {
        Self {
            prompts,
            session: named.clone().unwrap_or_else(|| SESSION.to_owned()),
            named,
            model,
            input: Vec::new(),
            prompt: None,
            begun: 0,
            asked: None,
            last_request: 0,
            always: BTreeSet::new(),
            steers: 0,
            cost_usd: 0.0,
        }
    }

    /// Takes bytes of the host, and returns the lines that follow at once.
    pub(super) fn read(&mut self, bytes: &[u8], steps: &mut VecDeque<Step>) -> Vec<Value> {
        self.input.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            // Bowline's own client writes these lines; an empty one is no message.
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            self.message(&message, steps, &mut out);
        }
        out
    }

    fn message(&mut self, message: &Value, steps: &mut VecDeque<Step>, out: &mut Vec<Value>) {
        let params = &message["params"];
        match (message["method"].as_str(), message.get("id")) {
            (Some("session/prompt"), Some(id)) => {
                self.prompt = Some(id.clone());
                self.begun += 1;
                (self.asked, self.steers) = (None, 0);
                let last = self.prompts.len() == 1;
                let next = if last { self.prompts.front().cloned() } else { self.prompts.pop_front() };
                *steps = next.unwrap_or_default().into();
            }
            (Some("session/cancel"), None) => {
                if let Some(id) = self.prompt.take() {
                    steps.clear();
                    self.asked = None;
                    out.push(response(&id, Ok(json!({"stopReason": "cancelled"}))));
                }
            }
            (Some(method), Some(id)) => {
                let result = self.request(method, params);
                out.push(response(id, result.ok_or_else(|| format!("\"Method not found\": {method}"))));
            }
            (None, Some(id)) if self.asked.is_some_and(|asked| *id == json!(asked)) => {
                let result = &message["result"];
                if matches!(steps.front(), Some(Step::Kept(step)) if matches!(**step, KeptStep::Question { .. }))
                {
                    self.replied(result["action"] == "accept", steps);
                } else {
                    let answer = result.pointer("/outcome/optionId").and_then(Value::as_str);
                    self.decided(answer.unwrap_or(REJECT_ONCE), steps);
                }
            }
            (_, _) => {}
        }
    }

    /// Returns the result of a request that is answered at once; none for an unknown one.
    fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        let asked = || params["sessionId"].as_str().map(str::to_owned);
        Some(match method {
            "initialize" => json!({
                "protocolVersion": 1,
                "agentCapabilities": {
                    "loadSession": true,
                    "mcpCapabilities": {"http": true},
                    "promptCapabilities": {"image": true},
                    "sessionCapabilities": {"additionalDirectories": {}, "fork": {}, "resume": {}},
                },
                "agentInfo": {"name": "script", "version": env!("CARGO_PKG_VERSION")},
                "authMethods": [],
                "_meta": {"steering": {"supported": true}},
            }),
            "session/new" => self.opened(),
            // A script that names a session has no other one, so a resume of another one is rejected as a real agent's would be.
            "session/resume" | "session/load" => {
                self.session = self.named.clone().or_else(asked).unwrap_or_default();
                self.opened()
            }
            "session/fork" => {
                self.session = format!("{}-fork", asked().unwrap_or_default());
                self.opened()
            }
            "session/set_mode" | "session/set_model" | "session/set_config_option" => json!({}),
            "_session/steering" if self.prompt.is_some() => {
                self.steers += 1;
                json!({"outcome": "injected"})
            }
            "_session/steering" => json!({"outcome": "promptRequired", "reason": "noRunningTurn"}),
            _ => return None,
        })
    }

    fn opened(&self) -> Value {
        let modes = ["read-only", "default", "acceptEdits", "bypassPermissions"];
        let modes: Vec<Value> = modes.iter().map(|id| json!({"id": id, "name": id})).collect();
        json!({
            "sessionId": self.session,
            "modes": {"currentModeId": "default", "availableModes": modes},
            "models": {"currentModelId": self.model, "availableModels": [{"modelId": self.model, "name": self.model}]},
        })
    }

    /// Plays the step in front, and returns the lines that it prints. None if it waits for the host.
    pub(super) fn play(&mut self, steps: &mut VecDeque<Step>) -> Option<Vec<Value>> {
        let Some(Step::Kept(step)) = steps.front() else { return None };
        match &**step {
            KeptStep::Update(update) => {
                let lines = vec![self.update(update)];
                steps.pop_front();
                Some(lines)
            }
            KeptStep::Ask { name, call, .. } if self.always.contains(name) => {
                let lines = vec![self.update(call)];
                self.decided(ALLOW_ONCE, steps);
                Some(lines)
            }
            KeptStep::Ask { .. } | KeptStep::Question { .. } if self.asked.is_some() => None,
            KeptStep::Ask { call, .. } => {
                let options = [ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE];
                let options: Vec<Value> =
                    options.iter().map(|id| json!({"optionId": id, "name": id, "kind": id})).collect();
                let call = self.numbered(call);
                let id = self.next_request();
                let request = json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission",
                    "params": {"sessionId": self.session, "toolCall": call, "options": options}});
                Some(vec![self.update(&call), request])
            }
            KeptStep::Question { text, choices, .. } => {
                let mut field = json!({"type": "string"});
                if !choices.is_empty() {
                    field["enum"] = json!(choices);
                }
                let form = json!({"type": "object", "properties": {"answer": field}, "required": ["answer"]});
                let id = self.next_request();
                Some(vec![json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
                    "params": {"sessionId": self.session, "mode": "form", "message": text, "requestedSchema": form}})])
            }
            KeptStep::Steered if self.steers == 0 => None,
            KeptStep::Steered => {
                self.steers -= 1;
                steps.pop_front();
                Some(Vec::new())
            }
            KeptStep::End { result, cost_usd } => {
                let mut lines = Vec::new();
                if let Some(cost) = cost_usd {
                    // The protocol has the cost of the whole session.
                    self.cost_usd += cost;
                    let cost = json!({"amount": self.cost_usd, "currency": "USD"});
                    lines.push(self.update(&json!({"sessionUpdate": "usage_update", "cost": cost})));
                }
                if let Some(id) = self.prompt.take() {
                    lines.push(response(&id, result.clone()));
                }
                steps.clear();
                Some(lines)
            }
        }
    }

    /// Opens a request, and returns its id.
    fn next_request(&mut self) -> u64 {
        let id = self.last_request;
        (self.asked, self.last_request) = (Some(id), id + 1);
        id
    }

    /// Puts the steps that follow an answer in the place of the question.
    fn replied(&mut self, is_answered: bool, steps: &mut VecDeque<Step>) {
        self.asked = None;
        let Some(Step::Kept(step)) = steps.pop_front() else { return };
        let KeptStep::Question { answered, dismissed, .. } = *step else { return };
        let next = if is_answered { answered } else { dismissed };
        next.into_iter().rev().for_each(|step| steps.push_front(step));
    }

    /// Puts the steps that follow a decision in the place of the request.
    fn decided(&mut self, answer: &str, steps: &mut VecDeque<Step>) {
        self.asked = None;
        let Some(Step::Kept(step)) = steps.pop_front() else { return };
        let KeptStep::Ask { name, allowed, denied, .. } = *step else { return };
        if answer == ALLOW_ALWAYS {
            self.always.insert(name);
        }
        let next = if matches!(answer, ALLOW_ONCE | ALLOW_ALWAYS) { allowed } else { denied };
        next.into_iter().rev().for_each(|step| steps.push_front(step));
    }

    fn update(&self, update: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": self.session, "update": self.numbered(update)}})
    }

    /// Makes the ids of a message or a tool unique in the session.
    fn numbered(&self, update: &Value) -> Value {
        let mut update = update.clone();
        for key in ["messageId", "toolCallId"] {
            if let Some(id) = update[key].as_str().filter(|id| !id.contains('.')) {
                update[key] = json!(format!("{id}.{}", self.begun));
            }
        }
        // Indexing a missing key has entered a null.
        if let Some(update) = update.as_object_mut() {
            update.retain(|_, value| !value.is_null());
        }
        update
    }
}

fn response(id: &Value, result: Result<Value, String>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(message) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}})
        }
    }
}
