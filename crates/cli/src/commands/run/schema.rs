//! Validates the answer against `--schema`. Agents get the schema, but not all of them follow it.

use std::path::Path;

use bowline::{Json, Record};
use jsonschema::Validator;

use super::request;
use crate::error::{CommandError, Fault};

/// A JSON Schema, and the file that it comes from.
pub(super) struct AnswerSchema {
    pub(super) json: Json,
    named: String,
    validator: Validator,
}

impl AnswerSchema {
    /// Reads a schema. An invalid one is an error before any agent starts.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let named = format!("`--schema {}`", path.display());
        let wrong = |what: &str| CommandError::new(Fault::Usage, format!("{named} is {what}"));
        let text = request::read(path, "--schema")?;
        let json = serde_json::from_str::<Json>(&text).map_err(|error| wrong("not JSON").caused_by(error))?;
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong("not JSON").caused_by(error))?;
        if !value.is_object() {
            return Err(wrong("JSON, but not an object")
                .hint(r#"a schema looks like `{"type": "object", "properties": {…}}`"#));
        }
        let validator = jsonschema::validator_for(&value).map_err(|error| {
            wrong("not a usable JSON Schema")
                .caused_by(error.to_string())
                .hint("put the whole schema into the file: Bowline fetches nothing")
        })?;
        Ok(Self { json, named, validator })
    }

    /// Validates the answer of a completed turn. `who` names the agent.
    pub(super) fn holds(&self, who: &str, record: &Record) -> Result<(), CommandError> {
        if !record.is_completed() {
            return Ok(());
        }
        let unfit = |what: &str| {
            CommandError::new(Fault::Unfit, format!("the answer of {who} {what} {}", self.named))
                .hint("try again, or use another agent: not all of them follow a schema")
        };
        let answer = record.answer().map_err(CommandError::from)?;
        let value: serde_json::Value = serde_json::from_str(answer.trim())
            .map_err(|error| unfit("is not JSON, as required by").caused_by(error))?;
        self.validator.validate(&value).map_err(|error| {
            // Leave out the value: it may be long, and it was printed already.
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "the whole answer".to_owned() } else { format!("at {at}") };
            unfit("does not match").caused_by(format!("{at}: {}", error.masked()))
        })
    }
}
