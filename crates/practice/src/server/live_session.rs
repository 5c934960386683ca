//! An open session of the server: where it works, its settings, and its history.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::RpcError;
use crate::options::{Mode, Options};
use crate::sessions::{PastPrompt, Session};
use crate::stage::{Stage, Usage};
use crate::voices::acp;

/// The models that every session offers. The last one is chosen.
const MODELS: &[&str] = &["practice-small", "practice-large"];

/// The levels of reasoning.
const EFFORTS: &[&str] = &["low", "medium", "high"];

/// An open session.
#[derive(Clone, Debug)]
pub(super) struct LiveSession {
    pub(super) session: Session,
    pub(super) cwd: PathBuf,
    /// The options of the process, with the directories of the session.
    pub(super) options: Options,
    pub(super) mcp_servers: Vec<String>,
    pub(super) mode: Mode,
    pub(super) model: String,
    pub(super) effort: String,
    /// The tools that the host has allowed for the rest of the session.
    pub(super) always: Vec<&'static str>,
    /// The usage of its turns in this process.
    pub(super) used: Usage,
    /// The number of its tool calls in this process.
    pub(super) calls: u64,
}

impl LiveSession {
    /// Opens a session with the parameters of a request.
    pub(super) fn new(session: Session, cwd: PathBuf, params: &Value, options: &Options) -> Self {
        let mut options = options.clone();
        let dirs = params["additionalDirectories"].as_array().into_iter().flatten();
        dirs.filter_map(Value::as_str).for_each(|dir| options.add_dir(dir.to_owned()));
        let servers = params["mcpServers"].as_array().into_iter().flatten();
        let mcp_servers = servers.filter_map(|it| it["name"].as_str()).map(str::to_owned).collect();
        let given = |flag: &str, usual: &str| options.value(flag).unwrap_or(usual).to_owned();
        let (model, effort) = (given("model", MODELS[MODELS.len() - 1]), given("effort", "medium"));
        Self {
            session,
            cwd,
            mode: options.mode,
            options,
            mcp_servers,
            model,
            effort,
            always: Vec::new(),
            used: Usage::default(),
            calls: 0,
        }
    }

    /// Changes a setting.
    pub(super) fn set(&mut self, option: &str, value: &str) -> Result<(), RpcError> {
        let unknown = || RpcError::invalid_params(format!("the {option} `{value}` does not exist"));
        match option {
            "mode" => {
                let mode = Mode::ALL.iter().find(|mode| mode.as_str() == value);
                self.mode = *mode.ok_or_else(unknown)?;
            }
            "model" if MODELS.contains(&value) || value == self.model => value.clone_into(&mut self.model),
            "effort" if EFFORTS.contains(&value) => value.clone_into(&mut self.effort),
            "model" | "effort" => return Err(unknown()),
            _ => return Err(RpcError::invalid_params(format!("there is no option `{option}`"))),
        }
        Ok(())
    }

    /// Returns the settings and their values, as the answer that opens the session has them.
    pub(super) fn settings(&self) -> Value {
        let modes: Vec<&str> = [Mode::Read, Mode::Ask, Mode::Edit, Mode::Yolo].map(Mode::as_str).to_vec();
        let own = Some(self.model.as_str()).filter(|model| !MODELS.contains(model));
        let models: Vec<&str> = MODELS.iter().copied().chain(own).collect();
        let named = |ids: &[&str], key: &str| -> Value {
            ids.iter().map(|id| json!({key: id, "name": id})).collect()
        };
        let option = |id: &str, name: &str, category: &str, current: &str, ids: &[&str]| {
            json!({"id": id, "name": name, "category": category, "type": "select", "currentValue": current,
                "options": named(ids, "value")})
        };
        json!({
            "modes": {"currentModeId": self.mode.as_str(), "availableModes": named(&modes, "id")},
            "models": {"currentModelId": self.model, "availableModels": named(&models, "modelId")},
            "configOptions": [
                option("mode", "Mode", "mode", self.mode.as_str(), &modes),
                option("model", "Model", "model", &self.model, &models),
                option("effort", "Effort", "thought_level", &self.effort, EFFORTS),
            ],
        })
    }

    /// Puts the session on the stage, for a prompt.
    pub(super) fn enter(&self, prompt: &str, stage: &mut Stage) {
        stage.session.clone_from(&self.session.id);
        stage.cwd.clone_from(&self.cwd);
        stage.mcp_servers.clone_from(&self.mcp_servers);
        stage.always.clone_from(&self.always);
        stage.model.clone_from(&self.model);
        stage.effort = Some(self.effort.clone());
        stage.mode = self.mode;
        (stage.earlier, stage.calls) = (self.used, self.calls);
        prompt.clone_into(&mut stage.prompt);
        (stage.usage, stage.turns) = (Usage::default(), 0);
        stage.denials.clear();
        stage.last_text.clear();
        stage.structured = None;
    }

    /// Takes the results of a prompt from the stage.
    pub(super) fn leave(&mut self, stage: &Stage) {
        self.always.clone_from(&stage.always);
        self.used.add(stage.usage);
        self.calls = stage.calls;
        self.session.answered(&stage.last_text);
    }
}

/// Writes the history of the session on the stage.
pub(super) fn replay(history: &VecDeque<PastPrompt>, stage: &mut Stage) {
    for past in history {
        for (name, text) in [("user_message_chunk", &past.prompt), ("agent_message_chunk", &past.answer)] {
            if text.is_empty() {
                continue;
            }
            let message = format!("msg_practice{:06}", stage.next_id());
            let chunk = json!({"sessionUpdate": name, "content": {"type": "text", "text": text},
                "messageId": message});
            acp::update(&chunk, stage);
        }
    }
}
