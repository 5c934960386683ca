//! The section `[simulate]` of a manifest: how the program is pointed at fake model APIs instead of its vendor's.
//!
//! All of it is data. [`crate::simulate::plan`] puts the values in; whoever starts the program writes the files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a program is pointed at the simulator. The texts may have `{base_url}`, `{key}`, `{home}` and `{model}` in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// The API that it will speak.
    pub api: Api,
    /// A model that it takes without asking anybody.
    pub model: String,
    /// Another one, that nothing but the option for it asks for.
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
    /// What a person should know.
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
    /// What stands in it.
    pub text: String,
}
