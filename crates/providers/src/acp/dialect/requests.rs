//! Requests that wait for their answer, one book for each direction: the ids of the two overlap.

use std::collections::VecDeque;

use bowline_protocol::ApprovalOption;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::wire;
use super::steers::InjectedMessage;

/// How many requests may wait in one direction. Of more, the oldest are forgotten.
const LIMIT: usize = 1024;

/// Requests that wait, by their id as it is written: `3` and `"3"` are two ids.
#[derive(Debug)]
pub(crate) struct WaitingRequests<R> {
    requests: VecDeque<(Box<str>, R)>,
}

impl<R> Default for WaitingRequests<R> {
    fn default() -> Self {
        Self { requests: VecDeque::new() }
    }
}

impl<R> WaitingRequests<R> {
    /// Adds a request. An id that is used again means the newer request.
    pub(crate) fn add(&mut self, id: &RawValue, request: R) {
        self.take(id);
        if self.requests.len() == LIMIT {
            self.requests.pop_front();
        }
        self.requests.push_back((id.get().into(), request));
    }

    /// Takes out the request that an answer belongs to.
    pub(crate) fn take(&mut self, id: &RawValue) -> Option<R> {
        self.take_by(id.get())
    }

    /// Takes out a request by its id as it is written.
    pub(crate) fn take_by(&mut self, id: &str) -> Option<R> {
        let place = self.requests.iter().position(|(known, _)| **known == *id)?;
        self.requests.remove(place).map(|(_, request)| request)
    }

    /// Takes out every request that `choose` wants, with its id.
    pub(crate) fn take_all(&mut self, choose: impl Fn(&R) -> bool) -> Vec<(Box<str>, R)> {
        let (taken, kept) =
            std::mem::take(&mut self.requests).into_iter().partition(|(_, request)| choose(request));
        self.requests = kept;
        Vec::from(taken)
    }
}

/// A request of the client to the agent.
#[derive(Debug)]
pub(crate) enum AskedRequest {
    Initialize,
    Authenticate,
    /// `session/new` or `session/fork`.
    NewSession {
        cwd: Option<String>,
    },
    /// `session/load` or `session/resume`.
    OldSession {
        wanted: Option<String>,
        cwd: Option<String>,
    },
    Prompt,
    SetMode {
        mode: Option<String>,
    },
    SetModel {
        model: Option<String>,
    },
    SetOption,
    /// A message into the running prompt.
    Steer(InjectedMessage),
    Other,
}

impl AskedRequest {
    /// Reads a request of the client.
    pub(crate) fn read(method: &str, params: &Value) -> Self {
        let string = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        match method {
            "initialize" => Self::Initialize,
            "authenticate" | "auth/login" => Self::Authenticate,
            "session/new" | "session/fork" => Self::NewSession { cwd: string("cwd") },
            "session/load" | "session/resume" => {
                Self::OldSession { wanted: string("sessionId"), cwd: string("cwd") }
            }
            "session/prompt" => Self::Prompt,
            "session/set_mode" => Self::SetMode { mode: string("modeId") },
            "session/set_model" => Self::SetModel { model: string("modelId") },
            "session/set_config_option" => Self::SetOption,
            "_session/steering" => {
                let text = wire::text_of(params.get("prompt").unwrap_or(&Value::Null));
                Self::Steer(InjectedMessage { text, prompt: None })
            }
            _ => Self::Other,
        }
    }

    /// Guesses what was asked from the answer, for those who have only what the agent printed.
    pub(crate) fn guess(result: &Value) -> Self {
        let has = |key: &str| result.get(key).is_some();
        if has("stopReason") {
            Self::Prompt
        } else if has("protocolVersion") {
            Self::Initialize
        } else if has("sessionId") {
            Self::NewSession { cwd: None }
        } else if has("configOptions") || has("modes") || has("models") {
            Self::OldSession { wanted: None, cwd: None }
        } else {
            Self::Other
        }
    }
}

/// A request of the agent to the client.
#[derive(Debug)]
pub(crate) enum Wanted {
    Permission {
        tool: Option<Box<str>>,
        options: Vec<ApprovalOption>,
    },
    Question,
    /// Messages of the user that Qwen Code fetches after its tools.
    QueuedMessages,
    Read {
        path: String,
    },
    Write {
        path: String,
    },
    /// The output of a terminal that the client runs.
    TerminalOutput {
        terminal: String,
    },
    TerminalExit {
        terminal: String,
    },
    Other,
}
