//! Google's `generateContent` and `streamGenerateContent`, under `/v1beta/models/...`.

use serde_json::{Value, json};

use super::{
    Answer, ConversationItem, Frame, ParsedRequest, RequestImage, ResponseShape, Tool, blocks, text,
};
use crate::scenario::StopReason;

/// The address has the model and the shape; `address` parses them.
pub(super) fn read(body: &Value) -> ParsedRequest {
    // Google's servers accept both spellings of a field: those of protobuf's JSON mapping.
    let either =
        |snake: &str, camel: &str| body.get(camel).or_else(|| body.get(snake)).cloned().unwrap_or_default();
    let settings = either("generation_config", "generationConfig");
    let thinking = settings.get("thinkingConfig").cloned();
    let instruction = either("system_instruction", "systemInstruction");
    let mut asked = ParsedRequest {
        effort: thinking.as_ref().and_then(|it| text(&it["thinkingLevel"])),
        thinking,
        max_tokens: settings["maxOutputTokens"].as_u64(),
        system: text(&instruction).unwrap_or_else(|| blocks::text(&instruction["parts"])),
        schema: ["responseJsonSchema", "responseSchema"].iter().find_map(|key| settings.get(*key).cloned()),
        ..ParsedRequest::default()
    };
    if asked.schema.is_none() && settings["responseMimeType"] == "application/json" {
        asked.schema = Some(json!({ "type": "object" }));
    }
    for group in body["tools"].as_array().into_iter().flatten() {
        for tool in group["functionDeclarations"].as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            let schema =
                ["parametersJsonSchema", "parameters"].iter().find_map(|key| tool.get(*key).cloned());
            asked.tools.push(Tool { name: name.to_owned(), schema, ..Tool::default() });
        }
    }
    for content in body["contents"].as_array().into_iter().flatten() {
        if content["role"] == "model" {
            asked.said.push(ConversationItem::Model);
            continue;
        }
        for part in content["parts"].as_array().into_iter().flatten() {
            if part.get("functionResponse").is_some() {
                asked.said.push(ConversationItem::Tool);
            } else if let Some(image) = part.get("inlineData") {
                let kind = image["mimeType"].as_str().unwrap_or_default();
                asked.images.push(RequestImage::encoded(kind, image["data"].as_str().unwrap_or_default()));
            } else if let Some(said) = part["text"].as_str() {
                asked.said.push(ConversationItem::User(said.to_owned()));
            }
        }
    }
    asked
}

fn finish(stop: StopReason) -> &'static str {
    match stop {
        // This API has no stop reason for tools.
        StopReason::End | StopReason::Tools => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    }
}

fn chunk(answer: &Answer, parts: &Value, finish: Option<&str>) -> Value {
    let usage = answer.usage;
    let prompt = usage.input + usage.cache_read;
    // This API counts thinking beside the candidates. Our `output` includes it.
    let spoken = usage.output.saturating_sub(usage.reasoning);
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({
        "candidates": [candidate],
        "modelVersion": answer.model,
        "responseId": answer.id(""),
        "usageMetadata": {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": usage.cache_read,
            "candidatesTokenCount": spoken,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": prompt + usage.output,
            "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": prompt }],
        },
    })
}

fn calls(answer: &Answer) -> impl Iterator<Item = Value> {
    answer.calls.iter().map(|call| {
        json!({ "functionCall": { "id": format!("call_{}", call.id), "name": call.tool, "args": call.input.json() } })
    })
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut parts = Vec::new();
    if let Some(think) = &answer.think {
        parts.push(json!({ "text": think, "thought": true }));
    }
    if !answer.deltas.is_empty() {
        parts.push(json!({ "text": answer.text() }));
    }
    parts.extend(calls(answer));
    chunk(answer, &parts.into(), Some(finish(answer.stop)))
}

pub(super) fn frames(answer: &Answer, shape: ResponseShape) -> Vec<Frame> {
    let mut chunks = Vec::new();
    if let Some(think) = &answer.think {
        // Programs show the first line of thinking as its title.
        let titled = format!("**Thinking**\n\n{think}");
        chunks.push((chunk(answer, &json!([{ "text": titled, "thought": true }]), None), true));
    }
    for piece in &answer.deltas {
        chunks.push((chunk(answer, &json!([{ "text": piece }]), None), true));
    }
    for call in calls(answer) {
        chunks.push((chunk(answer, &json!([call]), None), false));
    }
    // The last chunk has the stop reason; a stop without text has an empty text.
    match chunks.last_mut() {
        Some((last, _)) => last["candidates"][0]["finishReason"] = finish(answer.stop).into(),
        None => chunks.push((chunk(answer, &json!([{ "text": "" }]), Some(finish(answer.stop))), false)),
    }
    let last = chunks.len() - 1;
    let framed = chunks.into_iter().enumerate().map(|(index, (value, delta))| {
        let text = match shape {
            ResponseShape::Events | ResponseShape::Whole | ResponseShape::Lines => {
                format!("data: {value}\r\n\r\n")
            }
            ResponseShape::Array => {
                let open = if index == 0 { "[" } else { ",\r\n" };
                let close = if index == last { "]" } else { "" };
                format!("{open}{value}{close}")
            }
        };
        Frame { text, delta }
    });
    framed.collect()
}
