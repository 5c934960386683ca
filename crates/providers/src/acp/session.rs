//! The settings of a session: modes, models and configuration options.

use std::collections::HashMap;

use bowline_protocol::Kind;
use bowline_protocol::kinds::{ModelChanged, OptionState, OptionsAdvertised, OptionsChanged};
use serde_json::Value;

use super::client::choices::SettingChoice;
use crate::dialect::Output;

/// How many settings, and how many choices of each, are kept.
const LIMIT: usize = 256;
const CHOICES: usize = 1024;

/// The settings of the session as last reported.
#[derive(Debug, Default)]
pub(crate) struct Options {
    known: HashMap<String, OptionState>,
    /// The ids of the settings that choose the model and the mode.
    model_id: Option<String>,
    mode_id: Option<String>,
    /// The id of the setting that chooses the effort.
    effort_id: Option<String>,
    /// Whether the agent lists its modes, and has `session/set_mode`.
    lists_modes: bool,
    /// The settings that are configuration options, and whether each is on or off.
    config: HashMap<String, ConfigForm>,
    /// The categories of those that have one.
    categories: HashMap<String, String>,
}

/// The form of a configuration option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigForm {
    Select,
    Switch,
}

impl Options {
    /// Handles the settings in the response that opens a session, and returns their event.
    pub(crate) fn advertised(&mut self, result: &Value) -> Option<Kind> {
        *self = Self::default();
        let options = self.read(result);
        self.known = options.iter().map(|option| (option.id.clone(), option.clone())).collect();
        (!options.is_empty()).then_some(Kind::OptionsAdvertised(OptionsAdvertised { options }))
    }

    /// Handles the current settings, and emits those that changed.
    pub(crate) fn updated(&mut self, update: &Value, out: &mut Output<'_>) {
        let mut changed = Vec::new();
        for option in self.read(update) {
            if self.known.get(&option.id) != Some(&option) {
                self.tell_model(&option, out);
                self.keep(option.clone());
                changed.push(option);
            }
        }
        out.quiet();
        if !changed.is_empty() {
            out.emit(Kind::OptionsChanged(OptionsChanged { options: changed }));
        }
    }

    /// Handles the new mode of the session.
    pub(crate) fn mode_is(&mut self, mode: &str, out: &mut Output<'_>) {
        let id = self.mode_id.clone().unwrap_or_else(|| "mode".to_owned());
        self.chosen(id, mode, out);
    }

    /// Handles the new model of the session.
    pub(crate) fn model_is(&mut self, model: &str, out: &mut Output<'_>) {
        let id = self.model_id.get_or_insert_with(|| "model".to_owned()).clone();
        self.chosen(id, model, out);
    }

    fn chosen(&mut self, id: String, value: &str, out: &mut Output<'_>) {
        out.quiet();
        let before = self.known.get(&id);
        if before.is_some_and(|option| option.current.as_deref() == Some(value)) {
            return;
        }
        let choices = before.map(|option| option.choices.clone()).unwrap_or_default();
        let option = OptionState { id, choices, current: Some(value.to_owned()) };
        self.tell_model(&option, out);
        self.keep(option.clone());
        out.emit(Kind::OptionsChanged(OptionsChanged { options: vec![option] }));
    }

    /// Returns the model that is set. `default` is no model.
    pub(crate) fn model(&self) -> Option<String> {
        self.current(self.model_id.as_ref()?).filter(|model| model != "default")
    }

    /// Returns the mode that is set.
    pub(crate) fn mode(&self) -> Option<String> {
        self.current(self.mode_id.as_ref()?)
    }

    /// Returns the modes that the agent offers.
    pub(crate) fn modes(&self) -> &[String] {
        let mode = self.mode_id.as_ref().and_then(|id| self.known.get(id));
        mode.map_or(&[], |mode| mode.choices.as_slice())
    }

    /// Returns whether an option is the one that chooses the mode, by our name or by the agent's.
    pub(crate) fn is_mode(&self, option: &str) -> bool {
        option == "mode" || self.mode_id.as_deref() == Some(option)
    }

    /// Returns the category that the agent gives a configuration option.
    pub(crate) fn category(&self, option: &str) -> Option<&str> {
        self.categories.get(option).map(String::as_str)
    }

    /// Returns the request that makes a choice: `model`, `effort`, `mode`, or a setting by the agent's own id.
    pub(crate) fn choice(&self, option: &str, value: &str) -> Result<SettingChoice, &'static str> {
        let id = match option {
            "model" => self.model_id.as_deref(),
            "mode" => self.mode_id.as_deref(),
            "effort" => self.effort_id.as_deref(),
            other => Some(other),
        };
        let Some((id, state)) = id.and_then(|id| self.known.get_key_value(id)) else {
            return Err("the agent has no such setting");
        };
        if !state.choices.iter().any(|choice| choice == value) {
            return Err("the agent does not offer this value");
        }
        let value = value.to_owned();
        // The list of modes has the same values as the option. The list of models has others: one for each effort (codex-acp 2.6.0).
        if self.lists_modes && self.mode_id.as_ref() == Some(id) {
            return Ok(SettingChoice::Mode(value));
        }
        match self.config.get(id) {
            Some(ConfigForm::Switch) => Ok(SettingChoice::Switch { id: id.clone(), value: value == "true" }),
            Some(ConfigForm::Select) => Ok(SettingChoice::Option { id: id.clone(), value }),
            None if self.model_id.as_ref() == Some(id) => Ok(SettingChoice::Model(value)),
            None => Err("the agent has no such setting"),
        }
    }

    fn current(&self, id: &str) -> Option<String> {
        self.known.get(id)?.current.clone()
    }

    fn tell_model(&self, option: &OptionState, out: &mut Output<'_>) {
        let before = self.known.get(&option.id).and_then(|known| known.current.as_ref());
        if self.model_id.as_ref() == Some(&option.id)
            && before != option.current.as_ref()
            && let Some(model) = option.current.clone()
        {
            out.emit(Kind::ModelChanged(ModelChanged { model, reason: None }));
        }
    }

    fn keep(&mut self, option: OptionState) {
        if self.known.len() < LIMIT || self.known.contains_key(&option.id) {
            self.known.insert(option.id.clone(), option);
        }
    }

    /// Reads `configOptions`, and `modes` and `models` where no option stands for them.
    fn read(&mut self, holder: &Value) -> Vec<OptionState> {
        let mut options = Vec::new();
        for option in holder.get("configOptions").and_then(Value::as_array).into_iter().flatten().take(LIMIT)
        {
            let Some(id) = option.get("id").and_then(Value::as_str) else { continue };
            match option.get("category").and_then(Value::as_str) {
                Some("mode") => self.mode_id = Some(id.to_owned()),
                Some("model") => self.model_id = Some(id.to_owned()),
                Some("thought_level") => self.effort_id = Some(id.to_owned()),
                Some(_) | None if ["effort", "reasoning_effort"].contains(&id) => {
                    self.effort_id.get_or_insert_with(|| id.to_owned());
                }
                Some(_) | None => {}
            }
            let boolean = option.get("type").and_then(Value::as_str) == Some("boolean");
            let form = if boolean { ConfigForm::Switch } else { ConfigForm::Select };
            if self.config.len() < LIMIT {
                self.config.insert(id.to_owned(), form);
                if let Some(category) = option.get("category").and_then(Value::as_str) {
                    self.categories.insert(id.to_owned(), category.to_owned());
                }
            }
            let choices = if boolean { vec!["true".to_owned(), "false".to_owned()] } else { choices(option) };
            let current = option.get("currentValue").and_then(plain);
            options.push(OptionState { id: id.to_owned(), choices, current });
        }
        if let Some(modes) = holder.get("modes").filter(|modes| modes.is_object()) {
            self.lists_modes = true;
            let id = self.mode_id.get_or_insert_with(|| "mode".to_owned()).clone();
            add(&mut options, id, modes, ("availableModes", "id", "currentModeId"));
        }
        if let Some(models) = holder.get("models").filter(|models| models.is_object()) {
            let id = self.model_id.get_or_insert_with(|| "model".to_owned()).clone();
            add(&mut options, id, models, ("availableModels", "modelId", "currentModelId"));
        }
        options
    }
}

fn add(options: &mut Vec<OptionState>, id: String, holder: &Value, (list, key, current): (&str, &str, &str)) {
    if options.iter().any(|option| option.id == id) {
        return;
    }
    let choices = holder.get(list).and_then(Value::as_array).into_iter().flatten();
    let choices = choices.filter_map(|choice| plain(choice.get(key)?)).take(CHOICES).collect();
    options.push(OptionState { id, choices, current: holder.get(current).and_then(plain) });
}

/// Returns the values of a list of choices, which may be in groups.
fn choices(option: &Value) -> Vec<String> {
    let mut values = Vec::new();
    for choice in option.get("options").and_then(Value::as_array).into_iter().flatten() {
        let group = choice.get("options").and_then(Value::as_array);
        let inner = group.into_iter().flatten().chain(group.is_none().then_some(choice));
        values.extend(inner.filter_map(|choice| plain(choice.get("value")?)));
        if values.len() >= CHOICES {
            values.truncate(CHOICES);
            break;
        }
    }
    values
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
