//! The model APIs: parse the requests of each, and write its answers and errors.
//!
//! One file for each API. All requests become the same [`ParsedRequest`], and all answers start as the same [`Answer`], so that
//! a scenario is written once and works for every program. These modules know no sockets.

mod blocks;
mod chat_completions;
mod errors;
mod generate_content;
mod messages;
mod ollama;
mod responses;
mod schema;

use serde::Serialize;
use serde_json::Value;

use crate::scenario::{Fault, StopReason, Usage};

pub(crate) use schema::fill;

/// A model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// OpenAI's chat completions, which many others serve too.
    OpenaiChat,
    /// Google's `generateContent`.
    GoogleGenerate,
    /// Ollama's `/api/chat`.
    OllamaChat,
    /// Ollama's `/api/generate`.
    OllamaGenerate,
}

impl Api {
    /// Returns the word for the ledger and the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenaiResponses => "openai-responses",
            Self::OpenaiChat => "openai-chat",
            Self::GoogleGenerate => "google-generate",
            Self::OllamaChat => "ollama-chat",
            Self::OllamaGenerate => "ollama-generate",
        }
    }
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseShape {
    /// As one JSON document.
    #[default]
    Whole,
    /// As server-sent events.
    Events,
    /// As a JSON array, one element after the other.
    Array,
    /// As JSON lines.
    Lines,
}

/// The content of a request, in terms that all APIs share.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedRequest {
    pub(crate) model: Option<String>,
    pub(crate) shape: ResponseShape,
    pub(crate) effort: Option<String>,
    pub(crate) thinking: Option<Value>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) system: String,
    pub(crate) tools: Vec<Tool>,
    pub(crate) images: Vec<RequestImage>,
    pub(crate) schema: Option<Value>,
    pub(crate) previous: Option<String>,
    pub(crate) said: Vec<ConversationItem>,
}

/// A piece of the conversation, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConversationItem {
    /// The user, or the program in the user's place.
    User(String),
    /// The model; consecutive pieces are one answer.
    Model,
    /// A tool, as an answer to a call.
    Tool,
}

/// A tool that the request offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The group of the tool, which a call has to name too.
    pub(crate) namespace: Option<String>,
    /// Whether its input is a string and no JSON.
    pub(crate) takes_text: bool,
    pub(crate) schema: Option<Value>,
}

/// An image in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestImage {
    /// Its type, such as `image/png`.
    pub media_type: String,
    /// Its size in bytes; 0 if only an address was sent.
    pub bytes: usize,
}

impl RequestImage {
    /// Describes an image by its base64 text.
    fn encoded(media_type: &str, base64: &str) -> Self {
        let digits = base64.bytes().filter(|byte| !matches!(byte, b'=' | b'\n' | b'\r')).count();
        Self { media_type: media_type.to_owned(), bytes: digits * 3 / 4 }
    }

    /// Describes an image by its address, which may hold it whole.
    fn addressed(url: &str) -> Self {
        match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((media_type, base64)) => Self::encoded(media_type, base64),
            None => Self { media_type: "address".to_owned(), bytes: 0 },
        }
    }
}

/// An answer of the model, for any API.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// A number that is unique among answers, for the ids.
    pub(crate) number: u64,
    pub(crate) model: String,
    /// The current time, in seconds since 1970.
    pub(crate) at: i64,
    pub(crate) think: Option<String>,
    pub(crate) deltas: Vec<String>,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
}

impl Answer {
    fn text(&self) -> String {
        self.deltas.concat()
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}sim{:06}", self.number)
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCall {
    /// A number that is unique among the calls of the conversation.
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input: Input,
}

/// The input of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Json(Value),
    Text(String),
}

impl Input {
    /// Returns it as JSON; a string is in a field of its own.
    fn json(&self) -> Value {
        match self {
            Self::Json(value) => value.clone(),
            Self::Text(text) => serde_json::json!({ "input": text }),
        }
    }
}

/// A piece of an answer on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) text: String,
    /// Whether it carries text, so that the pause of the scenario precedes it.
    pub(crate) delta: bool,
}

/// An error on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireError {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) content_type: &'static str,
}

/// Parses a request. Fields that are missing, or of another type, are left out.
pub(crate) fn read(api: Api, body: &Value) -> ParsedRequest {
    match api {
        Api::AnthropicMessages => messages::read(body),
        Api::OpenaiResponses => responses::read(body),
        Api::OpenaiChat => chat_completions::read(body),
        Api::GoogleGenerate => generate_content::read(body),
        Api::OllamaChat => ollama::read_chat(body),
        Api::OllamaGenerate => ollama::read_generate(body),
    }
}

/// Returns the usage that the API can express: without a field for cache writes, they are input.
pub(crate) fn sayable(api: Api, usage: Usage) -> Usage {
    match api {
        // This API has no field for thinking: its tokens are part of the output.
        Api::AnthropicMessages => Usage { reasoning: 0, ..usage },
        Api::OpenaiResponses | Api::OpenaiChat | Api::GoogleGenerate => {
            Usage { input: usage.input + usage.cache_write, cache_write: 0, ..usage }
        }
        Api::OllamaChat | Api::OllamaGenerate => Usage {
            input: usage.input + usage.cache_write + usage.cache_read,
            output: usage.output,
            ..Usage::default()
        },
    }
}

/// Writes an answer as one document.
pub(crate) fn whole(api: Api, answer: &Answer) -> Value {
    match api {
        Api::AnthropicMessages => messages::whole(answer),
        Api::OpenaiResponses => responses::whole(answer),
        Api::OpenaiChat => chat_completions::whole(answer),
        Api::GoogleGenerate => generate_content::whole(answer),
        Api::OllamaChat => ollama::whole_chat(answer),
        Api::OllamaGenerate => ollama::whole_generate(answer),
    }
}

/// Writes an answer as a stream.
pub(crate) fn frames(api: Api, shape: ResponseShape, answer: &Answer) -> Vec<Frame> {
    match api {
        Api::AnthropicMessages => messages::frames(answer),
        Api::OpenaiResponses => responses::frames(answer),
        Api::OpenaiChat => chat_completions::frames(answer),
        Api::GoogleGenerate => generate_content::frames(answer, shape),
        Api::OllamaChat => ollama::frames_chat(answer),
        Api::OllamaGenerate => ollama::frames_generate(answer),
    }
}

/// Writes a fault that has a response.
pub(crate) fn problem(api: Api, fault: &Fault, model: &str) -> WireError {
    errors::problem(api, fault, model)
}

/// Writes the failure of an answer in the middle of its stream.
pub(crate) fn broken_off(api: Api, fault: &Fault, answer: &Answer) -> Frame {
    errors::broken_off(api, fault, answer)
}

/// Returns the frames of a stream that reports a conversation that is too long, for APIs that report it that way.
pub(crate) fn overflow_frames(api: Api, fault: &Fault, answer: &Answer) -> Option<Vec<Frame>> {
    (api == Api::OpenaiResponses).then(|| responses::overflow(fault, answer))
}

fn event(name: &str, data: &Value, delta: bool) -> Frame {
    Frame { text: format!("event: {name}\ndata: {data}\n\n"), delta }
}

fn data(data: &Value, delta: bool) -> Frame {
    Frame { text: format!("data: {data}\n\n"), delta }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
