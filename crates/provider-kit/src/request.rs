//! The request of the protocol, read from standard input.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::Error;

/// A request. Absent and null mean not set; unknown fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Request {
    /// The user's prompt.
    pub prompt: String,
    /// Instructions for the model.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The limit of tokens to generate.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The nucleus sampling value.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// Tools that the model may call.
    #[serde(default, deserialize_with = "or_nothing")]
    pub tools: Vec<Value>,
    /// The earlier conversation.
    #[serde(default, deserialize_with = "or_nothing")]
    pub context: Vec<Message>,
    /// Settings of the provider; `model` is common to all.
    #[serde(default, deserialize_with = "or_nothing")]
    pub config: Map<String, Value>,
    /// Data of the caller, for its own use.
    #[serde(default, deserialize_with = "or_nothing")]
    pub metadata: Map<String, Value>,
}

/// One message of the earlier conversation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Message {
    /// The speaker: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    #[serde(default, deserialize_with = "or_nothing")]
    pub content: String,
    /// The assistant's tool calls.
    #[serde(default, deserialize_with = "or_nothing")]
    pub tool_calls: Vec<Value>,
    /// The tool call that this message is the result of.
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

fn or_nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(reader: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}

impl Request {
    /// Parses a request.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::new("there is no request: standard input has to be a JSON object"));
        }
        serde_json::from_slice(text)
            .map_err(|error| Error::new(format!("the request on standard input cannot be read: {error}")))
    }

    /// Returns the requested model.
    pub fn model(&self) -> Option<&str> {
        self.setting("model")
    }

    /// Returns a setting that is a string and not empty.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_null_or_unknown_is_no_trouble() {
        let text = br#"{"prompt":"x","system_prompt":null,"tools":null,"context":[{"role":"user","content":null}],"config":null,"new":1}"#;
        let request = Request::parse(text).expect("it can be read");
        assert_eq!((request.prompt.as_str(), request.context.len(), request.model()), ("x", 1, None));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let why = |text: &str| Request::parse(text.as_bytes()).expect_err("refused").to_string();
        assert!(why(" \n").contains("there is no request"));
        assert!(why("{}").contains("missing field `prompt`"));
        assert!(why("{\"prompt\":").contains("line 1 column 10"));
        assert!(why("{\"prompt\":7}").contains("invalid type"));
    }
}
