//! The agent as a server of the Agent Client Protocol: one process takes many prompts, one after the other.
//!
//! This thread reads standard input and answers every request except `session/prompt`, whose play has a thread of its own
//! ([`prompts`]). The end of the input ends the process. The forms and the errors are those of claude-agent-acp 0.99.1.

mod live_session;
mod prompts;

use std::collections::HashMap;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use self::live_session::LiveSession;
use crate::options::Options;
use crate::out::Out;
use crate::player::{SharedPlay, Show, input};
use crate::script::{self, Step};
use crate::sessions::{self, Session};
use crate::signals::HostOrder;
use crate::stage::Stage;
use crate::voices::acp;
use crate::{children, player, signals, tools, voices};

/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// How long the last output may take after the end of the input. A host that does not read must not keep the agent alive.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The error of a request.
#[derive(Debug)]
struct RpcError {
    code: i64,
    message: String,
    data: Value,
}

impl RpcError {
    fn invalid_request(message: &str) -> Self {
        Self { code: -32600, message: message.to_owned(), data: Value::Null }
    }

    fn invalid_params(message: String) -> Self {
        Self { code: -32602, message, data: Value::Null }
    }

    fn unknown_session(id: &str) -> Self {
        Self { code: -32002, message: "Resource not found".to_owned(), data: json!({"sessionId": id}) }
    }

    fn unknown_method(method: &str) -> Self {
        let message = format!("\"Method not found\": {method}");
        Self { code: -32601, message, data: json!({"method": method}) }
    }

    fn internal(message: String) -> Self {
        Self { code: acp::INTERNAL_ERROR, message, data: Value::Null }
    }

    fn json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.data.is_null() {
            error["data"] = self.data.clone();
        }
        error
    }
}

/// The sessions of this process, which the thread of a play shares.
type OpenSessions = Arc<Mutex<HashMap<String, LiveSession>>>;

/// The server.
struct AcpServer {
    options: Arc<Options>,
    /// The script of all sessions. Without one, each prompt is its own.
    script: Option<String>,
    schema: Option<Value>,
    shared: SharedPlay,
    sessions: OpenSessions,
}

/// Serves until the end of standard input. An error is a mistake in the options.
pub(crate) fn serve(options: &Options) -> Result<ExitCode, String> {
    let schema = input::schema(options)?;
    let script = input::script(options)?;
    let steps = script.as_deref().map(script::of_script).transpose()?.unwrap_or_default();
    if let Some(script) =
        script.as_deref().filter(|_| steps.contains(&Step::LauncherExits) && !options.launched)
    {
        children::launch(&options.argv, script)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut stage = Stage::new(Out::new(), String::new());
    if !options.has("no-tools") {
        stage.tools = vec!["Bash", "Edit", "Read", "Write"];
    }
    let shared = SharedPlay::new(Show { voice: voices::of(options.format), stage });
    signals::listen(Arc::clone(&shared.show), shared.deaf.clone())?;
    let server = AcpServer {
        options: Arc::new(options.clone()),
        script,
        schema,
        shared,
        sessions: OpenSessions::default(),
    };
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| format!("could not read standard input: {error}"))?;
        if !line.trim_ascii().is_empty() {
            server.message(&line);
        }
    }
    Ok(server.end())
}

impl AcpServer {
    /// Handles a message of the host.
    fn message(&self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            let message = "Parse error".to_owned();
            return self.refuse(&Value::Null, &RpcError { code: -32700, message, data: Value::Null });
        };
        let params = &message["params"];
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => match self.request(method, id, params) {
                Ok(Some(result)) => self.write(|stage| acp::respond(id, &result, stage)),
                // The play answers it.
                Ok(None) => {}
                Err(error) => self.refuse(id, &error),
            },
            (Some("session/cancel"), None) => self.cancel(params["sessionId"].as_str().unwrap_or_default()),
            // The protocol wants unknown notifications to be ignored.
            (Some(_), None) => {}
            (None, Some(id)) => self.shared.control.answer(id, message.clone()),
            (None, None) => self.refuse(&Value::Null, &RpcError::invalid_request("Invalid request")),
        }
    }

    fn request(&self, method: &str, id: &Value, params: &Value) -> Result<Option<Value>, RpcError> {
        // An order that is ignored gets no answer.
        let is_ignored = match method {
            "_session/steering" => self.shared.deaf.is_to(HostOrder::Steer),
            "session/set_mode" | "session/set_model" | "session/set_config_option" => {
                self.shared.deaf.is_to(HostOrder::Set)
            }
            _ => false,
        };
        if is_ignored {
            return Ok(None);
        }
        match method {
            "initialize" => Ok(Some(introduction())),
            "session/new" => self.open(Session::fresh(), params).map(Some),
            "session/load" => {
                let session = self.stored(params)?;
                let history = session.history.clone();
                let settings = self.open(session, params)?;
                self.write(|stage| {
                    stage.session = params["sessionId"].as_str().unwrap_or_default().to_owned();
                    live_session::replay(&history, stage);
                });
                Ok(Some(settings))
            }
            "session/resume" => self.open(self.stored(params)?, params).map(Some),
            "session/fork" => {
                let old = self.stored(params)?;
                self.open(Session { id: Session::fresh().id, ..old }, params).map(Some)
            }
            "session/prompt" => self.prompt(id, params).map(|()| None),
            "session/set_mode" => self.set(params, "mode", "modeId").map(|_| Some(json!({}))),
            "session/set_model" => self.set(params, "model", "modelId").map(|_| Some(json!({}))),
            "session/set_config_option" => {
                let option = params["configId"].as_str().unwrap_or_default();
                let settings = self.set(params, option, "value")?;
                Ok(Some(json!({"configOptions": settings["configOptions"]})))
            }
            "_session/steering" => self.steer(params).map(Some),
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    /// Returns the stored session that a request names.
    fn stored(&self, params: &Value) -> Result<Session, RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        if self.shared.control.is_busy() {
            return Err(RpcError::invalid_request("a prompt is running: cancel it first"));
        }
        Session::stored(id).ok_or_else(|| RpcError::unknown_session(id))
    }

    /// Opens a session and returns its settings.
    fn open(&self, session: Session, params: &Value) -> Result<Value, RpcError> {
        let cwd = params["cwd"].as_str().map(PathBuf::from).filter(|cwd| cwd.is_absolute() && cwd.is_dir());
        let wrong = || RpcError::invalid_params("`cwd` must be the absolute path of a directory".to_owned());
        let cwd = cwd.ok_or_else(wrong)?;
        if !self.options.has("ephemeral")
            && let Err(message) = sessions::announce(&session, &cwd)
        {
            player::to_stderr(format!("practice-agent: {message}\n").as_bytes());
        }
        let live = LiveSession::new(session, cwd, params, &self.options);
        let mut settings = live.settings();
        settings["sessionId"] = live.session.id.as_str().into();
        self.lock().insert(live.session.id.clone(), live);
        Ok(settings)
    }

    /// Changes a setting of a session, for the running prompt too, and returns all settings.
    fn set(&self, params: &Value, option: &str, key: &str) -> Result<Value, RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let value = params[key].as_str().unwrap_or_default();
        let mut sessions = self.lock();
        let live = sessions.get_mut(id).ok_or_else(|| RpcError::unknown_session(id))?;
        live.set(option, value)?;
        let (mode, model, effort, settings) =
            (live.mode, live.model.clone(), live.effort.clone(), live.settings());
        drop(sessions);
        self.write(|stage| {
            let playing = std::mem::replace(&mut stage.session, id.to_owned());
            acp::update(
                &json!({"sessionUpdate": "config_option_update", "configOptions": settings["configOptions"]}),
                stage,
            );
            stage.session = playing;
            if stage.session == id {
                (stage.mode, stage.model, stage.effort) = (mode, model, Some(effort));
            }
        });
        Ok(settings)
    }

    /// Hands a text to the running prompt.
    fn steer(&self, params: &Value) -> Result<Value, RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        if !self.lock().contains_key(id) {
            return Err(RpcError::unknown_session(id));
        }
        let injected = self.shared.control.steer(id, prompts::text_of(&params["prompt"]));
        Ok(if injected {
            json!({"outcome": "injected"})
        } else {
            json!({"outcome": "promptRequired", "reason": "noRunningTurn"})
        })
    }

    /// Cancels the running prompt. Without one, this does nothing.
    fn cancel(&self, session: &str) {
        if !self.shared.deaf.is_to(HostOrder::Cancel) && self.shared.control.cancel(session) {
            tools::end_work();
        }
    }

    /// Ends the process after the end of the input.
    fn end(&self) -> ExitCode {
        if self.shared.deaf.is_to(HostOrder::EndOfInput) {
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        if !self.end_play(LAST_WORDS) {
            player::to_stderr(b"practice-agent: the host does not read standard output\n");
        }
        ExitCode::SUCCESS
    }

    /// Stops a play and the command that it runs. Returns whether it ended in time.
    fn end_play(&self, patience: Duration) -> bool {
        self.shared.control.stop();
        tools::end_work();
        self.shared.control.wait_for_end(patience)
    }

    fn refuse(&self, id: &Value, error: &RpcError) {
        self.write(|stage| acp::respond_error(id, &error.json(), stage));
    }

    fn write(&self, act: impl FnOnce(&mut Stage)) {
        let mut show = self.shared.lock();
        act(&mut show.stage);
        show.stage.out.flush();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, LiveSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the answer to `initialize`.
fn introduction() -> Value {
    json!({
        "protocolVersion": PROTOCOL,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "embeddedContext": true},
            "mcpCapabilities": {"http": true, "sse": false},
            "sessionCapabilities": {"additionalDirectories": {}, "fork": {}, "resume": {}},
        },
        "agentInfo": {"name": "practice-agent", "title": "Practice agent", "version": env!("CARGO_PKG_VERSION")},
        "authMethods": [],
        "_meta": {"steering": {"supported": true}},
    })
}
