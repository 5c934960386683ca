//! Responses besides answers: lists of models, versions, token counts.

use serde_json::{Value, json};

use crate::apis::Api;

/// The listed models. The simulator accepts every other name too.
const MODELS: &[&str] = &["simulated-large", "simulated-small"];

/// Lists the models.
pub(crate) fn models(api: Api) -> Value {
    let list: Vec<Value> = MODELS.iter().map(|id| model(api, id)).collect();
    match api {
        Api::AnthropicMessages => {
            json!({ "data": list, "has_more": false, "first_id": MODELS[0], "last_id": MODELS[MODELS.len() - 1] })
        }
        Api::OpenaiResponses | Api::OpenaiChat => json!({ "object": "list", "data": list }),
        Api::GoogleGenerate | Api::OllamaChat | Api::OllamaGenerate => json!({ "models": list }),
    }
}

/// Describes a model.
pub(crate) fn model(api: Api, id: &str) -> Value {
    match api {
        Api::AnthropicMessages => {
            json!({ "type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z" })
        }
        Api::OpenaiResponses | Api::OpenaiChat => {
            json!({ "id": id, "object": "model", "created": 1_767_225_600, "owned_by": "simulator" })
        }
        Api::GoogleGenerate => json!({
            "name": format!("models/{id}"),
            "version": "1",
            "displayName": id,
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
        Api::OllamaChat | Api::OllamaGenerate => json!({
            "name": id,
            "model": id,
            "modified_at": "2026-01-01T00:00:00Z",
            "size": 1,
            "digest": "simulated",
            "details": { "format": "gguf", "family": "simulated", "parameter_size": "1B" },
        }),
    }
}

/// Estimates the tokens of a request: a quarter of its bytes.
pub(crate) fn tokens(api: Api, bytes: usize) -> Value {
    let tokens = (bytes / 4).max(1);
    if api == Api::GoogleGenerate {
        json!({ "totalTokens": tokens })
    } else {
        json!({ "input_tokens": tokens })
    }
}
