//! The choices before a prompt: the mode that matches the requested permissions, the model, the effort.
//!
//! Agents choose the names of their modes, and some start in one without approvals. The words that are known to ask, to edit
//! and to skip everything stand here; a session never begins in a mode that is known to allow more than was asked for.

use std::collections::VecDeque;

use bowline_protocol::{ApprovalOption, Category, Code, OptionEffect, PermissionMode};
use serde_json::{Value, json};

use super::super::approvals;
use super::super::session::Options;
use crate::conversation::{Conversation, ToolGating};
use crate::dialect::{ApprovalAnswer, OptionPermission};
use crate::failure::Report;

/// Modes in which nothing is changed, or not without a question.
const ASKING: &[&str] = &[
    "default",
    "manual",
    "ask",
    "read-only",
    "readonly",
    // Copilot 1.0.102. In the mode `agent` of codex-acp a model grants the permissions.
    "https://agentclientprotocol.com/protocol/session-modes#agent",
];

/// Modes in which files of the project are changed without a question, and the rest is asked for.
const EDITING: &[&str] =
    &["acceptEdits", "accept-edits", "autoEdit", "auto-edit", "auto_edit", "workspace-write"];

/// Modes without approvals.
const SKIPPING: &[&str] =
    &["bypassPermissions", "yolo", "agent-full-access", "full-access", "danger-full-access"];

/// Modes in which a model or a rule decides instead of a person.
const DECIDING: &[&str] =
    &["auto", "agent", "dontAsk", "https://agentclientprotocol.com/protocol/session-modes#autopilot"];

/// Modes in which the agent changes nothing, and that no permission mode stands for.
const PLANNING: &[&str] = &["plan", "https://agentclientprotocol.com/protocol/session-modes#plan"];

/// How many names an error lists.
const LISTED: usize = 12;

/// One choice to be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SettingChoice {
    Mode(String),
    Model(String),
    Option {
        id: String,
        value: String,
    },
    /// A setting that is on or off.
    Switch {
        id: String,
        value: bool,
    },
}

impl SettingChoice {
    /// Returns the value as the agent names it; a switch has none.
    pub(super) fn value(&self) -> &str {
        match self {
            Self::Mode(value) | Self::Model(value) | Self::Option { value, .. } => value,
            Self::Switch { .. } => "",
        }
    }

    /// Returns the request that makes it.
    pub(crate) fn request(&self, session: &str) -> (&'static str, Value) {
        match self {
            Self::Mode(mode) => ("session/set_mode", json!({ "sessionId": session, "modeId": mode })),
            Self::Model(model) => ("session/set_model", json!({ "sessionId": session, "modelId": model })),
            Self::Option { id, value } => {
                ("session/set_config_option", json!({ "sessionId": session, "configId": id, "value": value }))
            }
            Self::Switch { id, value } => {
                let params =
                    json!({ "sessionId": session, "configId": id, "type": "boolean", "value": value });
                ("session/set_config_option", params)
            }
        }
    }
}

/// The choices, and what the user should know about them.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) wanted: VecDeque<SettingChoice>,
    pub(crate) remarks: Vec<String>,
    /// The mode in which the session stays, if Bowline does not know it.
    pub(crate) own_mode: Option<String>,
}

/// Chooses from the offers of a session, or returns what is missing.
pub(crate) fn of(talk: &Conversation, session: &Value) -> Result<Choices, Report> {
    let mut choices = Choices::default();
    // Under policies the agent has to ask for everything, whatever the host then allows.
    let permission = match (talk.gated, talk.permission) {
        (ToolGating::On, PermissionMode::Edit | PermissionMode::Yolo) => PermissionMode::Ask,
        (ToolGating::On | ToolGating::Off, permission) => permission,
    };
    mode(permission, &Offer::modes(session), &mut choices)?;
    if let Some(model) = &talk.model {
        let offer = Offer::models(session);
        choices.wanted.push_back(offer.pick("model", model, Code::ModelNotFound)?);
    }
    if let Some(effort) = &talk.effort {
        let offer = Offer::option(session, &["thought_level", "effort", "reasoning_effort"]);
        choices.wanted.push_back(offer.pick("effort", effort, Code::Unsupported)?);
    }
    Ok(choices)
}

/// Returns the mode that fits the permissions best.
fn fitting(permission: PermissionMode, has: impl Fn(&str) -> bool) -> Option<&'static str> {
    let preferred: &[&[&str]] = match permission {
        // In its own mode for it, or in one that asks: what it asks for is refused.
        PermissionMode::Read => &[&["read-only", "readonly"], ASKING, &["plan"]],
        PermissionMode::Ask => &[ASKING],
        PermissionMode::Edit => &[EDITING, ASKING],
        PermissionMode::Yolo => &[SKIPPING, EDITING, ASKING],
    };
    preferred.iter().find_map(|words| words.iter().copied().find(|word| has(word)))
}

/// Returns the choice of a permission mode in a running session.
pub(crate) fn live_mode(
    permission: PermissionMode,
    options: &Options,
) -> Result<SettingChoice, &'static str> {
    let modes = options.modes();
    match fitting(permission, |mode| modes.iter().any(|known| known == mode)) {
        Some(mode) => options.choice("mode", mode),
        None => Err("the agent has no known mode for these permissions"),
    }
}

/// Returns the permission mode that a mode of the agent stands for; nothing for a mode that is not known, and for one in which
/// something else than a person decides.
pub(super) fn permission_of_mode(mode: &str) -> Option<OptionPermission> {
    let is = |modes: &[&str]| modes.contains(&mode);
    Some(match mode {
        "read-only" | "readonly" => OptionPermission::Is(PermissionMode::Read),
        _ if is(PLANNING) => OptionPermission::Unchanged,
        _ if is(ASKING) => OptionPermission::Is(PermissionMode::Ask),
        _ if is(EDITING) => OptionPermission::Is(PermissionMode::Edit),
        _ if is(SKIPPING) => OptionPermission::Is(PermissionMode::Yolo),
        _ => return None,
    })
}

fn mode(permission: PermissionMode, offer: &Offer, choices: &mut Choices) -> Result<(), Report> {
    if let Some(mode) = fitting(permission, |mode| offer.has(mode)).map(str::to_owned) {
        if offer.current.as_deref() != Some(mode.as_str()) {
            choices.wanted.push_back(offer.choice(mode));
        }
        return Ok(());
    }
    choices.own_mode.clone_from(&offer.current);
    let asks = matches!(permission, PermissionMode::Read | PermissionMode::Ask);
    match &offer.current {
        Some(current) if asks && [EDITING, SKIPPING, DECIDING].concat().contains(&&**current) => {
            let message = format!(
                "the agent starts in mode `{current}`, which does not ask for permission, and offers no known mode that does: {}",
                offer.listed()
            );
            Err(Report {
                category: Some(Category::Configuration),
                code: Some(Code::Unsupported),
                ..Report::of(message)
            })
        }
        Some(current) if asks => {
            choices
                .remarks
                .push(format!("in its mode `{current}` the agent decides which actions need a permission"));
            Ok(())
        }
        None if asks => {
            choices
                .remarks
                .push("the agent has no modes: it decides which actions need a permission".to_owned());
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the response to a permission request, in the ids of the agent. If it offers no such answer, the request is denied, and
/// cancelled if it cannot be denied either.
pub(crate) fn response(options: &[ApprovalOption], answer: &ApprovalAnswer) -> Value {
    let fitting: &[OptionEffect] = match answer {
        ApprovalAnswer::AllowOnce => &[OptionEffect::AllowOnce],
        ApprovalAnswer::AllowForSession => &[OptionEffect::AllowAlways],
        // The protocol has no way to change the input, so the engine never does. A denial is the safe side.
        ApprovalAnswer::AllowChanged(_) | ApprovalAnswer::Deny { .. } => &[],
    };
    // After a refusal Qwen 0.24.4, opencode 1.18.33 and Copilot 1.0.102 end the turn; Gemini 0.61.0 goes on.
    let refusals = &[OptionEffect::RejectOnce, OptionEffect::RejectAlways];
    let is = |option: &&ApprovalOption, effect: OptionEffect| {
        // Qwen 0.24.4 offers two "always" that are stored in settings, for the project and for the user.
        let lasts = effect != OptionEffect::AllowAlways || approvals::lasts_for_the_session(option);
        option.effect == effect && lasts
    };
    let chosen = fitting.iter().chain(refusals).find_map(|effect| options.iter().find(|it| is(it, *effect)));
    let outcome = match chosen {
        Some(option) => json!({ "outcome": "selected", "optionId": option.id }),
        None => json!({ "outcome": "cancelled" }),
    };
    json!({ "outcome": outcome })
}

/// The offers of a session for one choice.
#[derive(Debug, Default)]
struct Offer {
    values: Vec<String>,
    /// The names of the values for people, in the same order. Empty where there is none.
    names: Vec<String>,
    current: Option<String>,
    /// The id of the option, where it is one.
    option: Option<String>,
    how: How,
}

/// How to send a choice to the agent.
#[derive(Clone, Copy, Debug, Default)]
enum How {
    #[default]
    Option,
    Mode,
    Model,
}

impl Offer {
    fn modes(session: &Value) -> Self {
        Self::list(session, ["/modes/availableModes", "id", "/modes/currentModeId"], How::Mode)
            .unwrap_or_else(|| Self::option(session, &["mode"]))
    }

    /// Models stand in the options where there are any: the list has one entry for each effort then.
    fn models(session: &Value) -> Self {
        let option = Self::option(session, &["model"]);
        if option.option.is_some() {
            return option;
        }
        Self::list(session, ["/models/availableModels", "modelId", "/models/currentModelId"], How::Model)
            .unwrap_or_default()
    }

    fn list(session: &Value, [list, key, current]: [&str; 3], how: How) -> Option<Self> {
        let list = session.pointer(list)?.as_array()?;
        let (values, names) = named_values(list, key);
        let current = session.pointer(current).and_then(Value::as_str).map(str::to_owned);
        Some(Self { values, names, current, option: None, how })
    }

    /// Finds an option by its category or its id.
    fn option(session: &Value, names: &[&str]) -> Self {
        let string = |option: &Value, key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
        let options = session.get("configOptions").and_then(Value::as_array);
        let is = |option: &&Value, key| string(option, key).is_some_and(|it| names.contains(&it.as_str()));
        let mut all = options.into_iter().flatten();
        // The category first: it is the protocol's, while an id is the agent's own.
        let Some(option) = all.clone().find(|it| is(it, "category")).or_else(|| all.find(|it| is(it, "id")))
        else {
            return Self::default();
        };
        let list = option.get("options").and_then(Value::as_array);
        let (values, names) = list.map(|list| named_values(list, "value")).unwrap_or_default();
        Self {
            values,
            names,
            current: string(option, "currentValue"),
            option: string(option, "id"),
            how: How::Option,
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|known| known == value)
    }

    /// Returns the only value of this name. Qwen Code 0.24.4 has ids such as `$runtime|openai|NAME(openai)` for its models.
    fn named(&self, name: &str) -> Option<&str> {
        let mut of_name = self.values.iter().zip(&self.names).filter(|(_, known)| *known == name);
        let (value, _) = of_name.next()?;
        of_name.next().is_none().then_some(value.as_str())
    }

    fn choice(&self, value: String) -> SettingChoice {
        match self.how {
            How::Mode => SettingChoice::Mode(value),
            How::Model => SettingChoice::Model(value),
            How::Option => SettingChoice::Option { id: self.option.clone().unwrap_or_default(), value },
        }
    }

    fn pick(&self, what: &str, value: &str, code: Code) -> Result<SettingChoice, Report> {
        let (message, code) = if self.values.is_empty() {
            (format!("the agent has no setting for the {what}"), Code::Unsupported)
        } else if self.has(value) {
            return Ok(self.choice(value.to_owned()));
        } else if let Some(value) = self.named(value) {
            return Ok(self.choice(value.to_owned()));
        } else {
            (format!("the agent has no {what} `{value}`; it has {}", self.listed()), code)
        };
        let category = if code == Code::ModelNotFound { Category::NotFound } else { Category::Validation };
        Err(Report { category: Some(category), code: Some(code), ..Report::of(message) })
    }

    fn listed(&self) -> String {
        let shown: Vec<&str> = self.values.iter().take(LISTED).map(String::as_str).collect();
        let more = if self.values.len() > LISTED { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}

/// The strings under a key, and the names beside them; groups of choices are looked into.
fn named_values(list: &[Value], key: &str) -> (Vec<String>, Vec<String>) {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let (mut values, mut names) = (Vec::new(), Vec::new());
    for entry in list {
        if let Some(group) = entry.get("options").and_then(Value::as_array) {
            let (of_group, their_names) = named_values(group, key);
            values.extend(of_group);
            names.extend(their_names);
        } else if let Some(value) = text(entry, key) {
            values.push(value);
            names.push(text(entry, "name").unwrap_or_default());
        }
    }
    (values, names)
}
