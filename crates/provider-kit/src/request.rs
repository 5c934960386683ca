//! What is asked: the request of the protocol, read from standard input.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::Error;

/// A request. What is absent or null is not set; fields that are not known are passed over.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Request {
    /// What the user says.
    pub prompt: String,
    /// Instructions for the model.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The most tokens to generate.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The nucleus.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// Tools that the model may ask for.
    #[serde(default, deserialize_with = "or_nothing")]
    pub tools: Vec<Value>,
    /// What was said before.
    #[serde(default, deserialize_with = "or_nothing")]
    pub context: Vec<Message>,
    /// Settings of the provider; `model` is the one that all have.
    #[serde(default, deserialize_with = "or_nothing")]
    pub config: Map<String, Value>,
    /// Whatever the caller wants to find again.
    #[serde(default, deserialize_with = "or_nothing")]
    pub metadata: Map<String, Value>,
}

/// One message of the earlier conversation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Message {
    /// Who said it: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What was said.
    #[serde(default, deserialize_with = "or_nothing")]
    pub content: String,
    /// Tools that the assistant asked for.
    #[serde(default, deserialize_with = "or_nothing")]
    pub tool_calls: Vec<Value>,
    /// The call that a tool's message answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

fn or_nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(reader: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}

impl Request {
    /// Reads a request.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::new("there is no request: a JSON object is wanted on standard input"));
        }
        serde_json::from_slice(text)
            .map_err(|error| Error::new(format!("the request on standard input cannot be read: {error}")))
    }

    /// Returns the model that the request wants.
    pub fn model(&self) -> Option<&str> {
        self.setting("model")
    }

    /// Returns a setting that is a text and not empty.
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
