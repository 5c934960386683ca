//! Holds an answer to the schema that was asked for. An agent is told to obey it; whether it did is looked at here.

use std::path::Path;

use bowline::{Json, Record};
use jsonschema::Validator;

use super::request;
use crate::error::{CommandError, Fault};

/// A JSON Schema, and the file that it comes from.
pub(super) struct Schema {
    pub(super) json: Json,
    named: String,
    validator: Validator,
}

impl Schema {
    /// Reads a schema. One that nothing can be held to is refused before anybody is asked.
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
            wrong("no JSON Schema that an answer can be held to")
                .caused_by(error.to_string())
                .hint("a schema is whole in its file: nothing is fetched")
        })?;
        Ok(Self { json, named, validator })
    }

    /// Looks whether the answer of a completed turn is as the schema says. `who` is the one that answered.
    pub(super) fn holds(&self, who: &str, record: &Record) -> Result<(), CommandError> {
        if !record.is_completed() {
            return Ok(());
        }
        let unfit = |what: &str| {
            CommandError::new(Fault::Unfit, format!("what {who} answered {what} {}", self.named))
                .hint("ask again, or another agent: not all of them obey a schema")
        };
        let answer = record.answer().map_err(CommandError::from)?;
        let value: serde_json::Value = serde_json::from_str(answer.trim())
            .map_err(|error| unfit("is not JSON, as it should be by").caused_by(error))?;
        self.validator.validate(&value).map_err(|error| {
            // Without the value: it may be long, and it was shown already.
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "the whole answer".to_owned() } else { format!("at {at}") };
            unfit("is not as it should be by").caused_by(format!("{at}: {}", error.masked()))
        })
    }
}
