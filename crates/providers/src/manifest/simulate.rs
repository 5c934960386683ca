//! The section `[simulate]` of a manifest: how to point the program at fake model APIs instead of its vendor's.
//!
//! All of it is data. [`crate::simulate::plan`] fills in the values. The caller that starts the program writes the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How to point a program at the simulator. The texts may contain `{base_url}`, `{key}`, `{home}` and `{model}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// The API that it will use.
    pub api: Api,
    /// A model that it accepts without a query to a service.
    pub model: String,
    /// Another one, used only with the model option.
    pub other_model: String,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files that it reads.
    #[serde(default)]
    pub files: Vec<SimulateFile>,
    /// Arguments, where variables and files are not enough.
    #[serde(default)]
    pub args: Vec<String>,
    /// Notes for people.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A model API, by the name that the simulator has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// OpenAI's chat completions.
    OpenaiChat,
    /// Google's `generateContent`.
    GoogleGenerate,
    /// Ollama's own API.
    OllamaChat,
}

/// A file that a program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulateFile {
    /// Where it is, relative to the home directory.
    pub path: String,
    /// The content.
    pub text: String,
}
