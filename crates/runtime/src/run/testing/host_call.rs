//! A call of a tool of the task by a script: the function itself, without the server between.

use std::pin::Pin;

use bowline_protocol::Json;
use serde_json::Value;

use super::{Step, kept_steps, parse};
use crate::run::host_tools::HostTool;

/// A call that the script makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostCall {
    /// The tool.
    pub(super) name: String,
    pub(super) input: Value,
    /// The agent's id of the call.
    pub(super) id: String,
    pub(super) form: CallForm,
}

/// How the script reports the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// As a line of the shorthands.
    Shorthand,
    /// As an update of a process that takes many prompts.
    Kept,
}

impl CallForm {
    fn ended(self, id: &str, name: &str, output: &str, failed: bool) -> Step {
        match self {
            Self::Shorthand => parse::ended(id, name, output, failed),
            Self::Kept => kept_steps::ended(id, output, failed),
        }
    }
}

/// A running call: the step that reports its end.
pub(super) type Calling = Pin<Box<dyn Future<Output = Step> + Send>>;

impl HostCall {
    /// Begins the call.
    pub(super) fn begin(&self, tools: &[HostTool]) -> Calling {
        let Self { name, input, id, form } = self.clone();
        let tool = tools.iter().find(|tool| tool.name() == name).cloned();
        Box::pin(async move {
            let result = match (tool, Json::of(&input)) {
                (Some(tool), Ok(input)) => tool.run(input).await,
                (None, _) => Err(format!("the task has no tool `{name}`").into()),
                (_, Err(error)) => Err(error.into()),
            };
            match result {
                Ok(text) => form.ended(&id, &name, &text, false),
                Err(error) => form.ended(&id, &name, &error.to_string(), true),
            }
        })
    }
}

/// A running call is not shown.
pub(super) struct CallSlot(pub(super) Option<Calling>);

impl std::fmt::Debug for CallSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "CallSlot(running)" } else { "CallSlot(none)" })
    }
}
