//! The model APIs: what a request of each means, and how each says an answer or an error.
//!
//! One file for each API. All of them are read into the same [`Asked`], and write the same [`Answer`], so that a scenario
//! is written once and works for every program. Nothing here knows of sockets.

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

use crate::scenario::{Fault, Stop, Usage};

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
    /// Returns the word used in the ledger and on the terminal.
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
pub enum Shape {
    /// As one JSON document.
    #[default]
    Whole,
    /// As server-sent events.
    Events,
    /// As a JSON array whose elements come one by one.
    Array,
    /// As JSON lines.
    Lines,
}

/// What a request asks for, in words that all APIs share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) model: Option<String>,
    pub(crate) shape: Shape,
    pub(crate) effort: Option<String>,
    pub(crate) thinking: Option<Value>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) system: String,
    pub(crate) tools: Vec<Tool>,
    pub(crate) images: Vec<Image>,
    pub(crate) schema: Option<Value>,
    pub(crate) previous: Option<String>,
    pub(crate) said: Vec<Said>,
}

/// A piece of the conversation, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The user, or the program in the user's place.
    User(String),
    /// The model; pieces that follow each other are one answer.
    Model,
    /// A tool, as an answer to a call.
    Tool,
}

/// A tool that the request offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The group in which it is offered, which a call has to name too.
    pub(crate) namespace: Option<String>,
    /// Whether its input is a text and no JSON.
    pub(crate) takes_text: bool,
    pub(crate) schema: Option<Value>,
}

/// An image in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Its type, such as `image/png`.
    pub media_type: String,
    /// How many bytes it has; 0 where only an address was sent.
    pub bytes: usize,
}

impl Image {
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

/// An answer of the model, ready to be said in any API.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// A number that no other answer has, for the ids.
    pub(crate) number: u64,
    pub(crate) model: String,
    /// The present, in seconds since 1970.
    pub(crate) at: i64,
    pub(crate) think: Option<String>,
    pub(crate) deltas: Vec<String>,
    pub(crate) calls: Vec<Called>,
    pub(crate) stop: Stop,
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
pub(crate) struct Called {
    /// A number that no other call of the conversation has.
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
    /// Returns it as JSON; a text stands in a field of its own.
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
    /// Whether it carries a piece of text, so that the pause of the scenario stands before it.
    pub(crate) delta: bool,
}

/// An error on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) content_type: &'static str,
}

/// Reads what a request asks for. What is not there, or of another type, is not asked for.
pub(crate) fn read(api: Api, body: &Value) -> Asked {
    match api {
        Api::AnthropicMessages => messages::read(body),
        Api::OpenaiResponses => responses::read(body),
        Api::OpenaiChat => chat_completions::read(body),
        Api::GoogleGenerate => generate_content::read(body),
        Api::OllamaChat => ollama::read_chat(body),
        Api::OllamaGenerate => ollama::read_generate(body),
    }
}

/// Returns the usage that the API can say: where it has no word for what is put into the cache, that is input.
pub(crate) fn sayable(api: Api, usage: Usage) -> Usage {
    match api {
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

/// Says an answer as one document.
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

/// Says an answer in pieces.
pub(crate) fn frames(api: Api, shape: Shape, answer: &Answer) -> Vec<Frame> {
    match api {
        Api::AnthropicMessages => messages::frames(answer),
        Api::OpenaiResponses => responses::frames(answer),
        Api::OpenaiChat => chat_completions::frames(answer),
        Api::GoogleGenerate => generate_content::frames(answer, shape),
        Api::OllamaChat => ollama::frames_chat(answer),
        Api::OllamaGenerate => ollama::frames_generate(answer),
    }
}

/// Says a fault that the API answers with.
pub(crate) fn problem(api: Api, fault: &Fault, model: &str) -> Problem {
    errors::problem(api, fault, model)
}

/// Says, in the middle of an answer, that it failed.
pub(crate) fn broken_off(api: Api, fault: &Fault, answer: &Answer) -> Frame {
    errors::broken_off(api, fault, answer)
}

/// Returns the frames with which a stream says that the conversation is too long, where the API says it so.
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
