//! OpenAI's chat completions: `/v1/chat/completions`, which many others serve too.

use serde_json::{Value, json};

use super::blocks::{self, pieces};
use super::{Answer, ConversationItem, Frame, ParsedRequest, RequestImage, ResponseShape, Tool, data, text};
use crate::scenario::StopReason;

/// How many characters of thinking or of a call's input one event has.
const PIECE: usize = 24;

pub(super) fn read(body: &Value) -> ParsedRequest {
    let format = &body["response_format"];
    let mut asked = ParsedRequest {
        model: text(&body["model"]),
        shape: if body["stream"] == true { ResponseShape::Events } else { ResponseShape::Whole },
        effort: text(&body["reasoning_effort"]).or_else(|| text(&body["reasoning"]["effort"])),
        thinking: ["thinking", "enable_thinking", "reasoning"].iter().find_map(|key| body.get(*key).cloned()),
        // OpenAI has deprecated `max_tokens`. Some other servers of this API know only that one.
        max_tokens: body["max_completion_tokens"].as_u64().or_else(|| body["max_tokens"].as_u64()),
        schema: (format["type"] == "json_schema").then(|| format["json_schema"]["schema"].clone()),
        ..ParsedRequest::default()
    };
    for tool in body["tools"].as_array().into_iter().flatten() {
        let function = &tool["function"];
        let Some(name) = function["name"].as_str().or_else(|| tool["custom"]["name"].as_str()) else {
            continue;
        };
        asked.tools.push(Tool {
            name: name.to_owned(),
            takes_text: tool["type"] == "custom",
            schema: function.get("parameters").cloned(),
            ..Tool::default()
        });
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let content = &message["content"];
        match message["role"].as_str() {
            Some("assistant") => asked.said.push(ConversationItem::Model),
            Some("tool" | "function") => asked.said.push(ConversationItem::Tool),
            Some("system" | "developer") => blocks::add(&mut asked.system, &blocks::text(content)),
            _ => {
                for part in blocks::parts(content) {
                    let url = &part["image_url"];
                    match url.as_str().or_else(|| url["url"].as_str()) {
                        Some(url) => asked.images.push(RequestImage::addressed(url)),
                        None => {
                            asked.said.push(ConversationItem::User(text(&part["text"]).unwrap_or_default()))
                        }
                    }
                }
            }
        }
    }
    asked
}

fn finish(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "stop",
        StopReason::Tools => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    // `prompt_tokens` includes the cached ones, unlike `input_tokens` of Anthropic's API.
    let prompt = usage.input + usage.cache_read;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text() });
    if let Some(think) = &answer.think {
        message["reasoning_content"] = think.as_str().into();
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            let function = json!({ "name": call.tool, "arguments": call.input.json().to_string() });
            json!({ "id": format!("call_{}", call.id), "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": answer.id("chatcmpl-"),
        "object": "chat.completion",
        "created": answer.at,
        "model": answer.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(answer.stop) }],
        "usage": usage(answer),
    })
}

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    let chunk = |choices: Value, usage: Value| {
        json!({
            "id": answer.id("chatcmpl-"), "object": "chat.completion.chunk", "created": answer.at,
            "model": answer.model, "choices": choices, "usage": usage,
        })
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]), Value::Null)
    };
    let mut out = vec![data(&delta(json!({ "role": "assistant", "content": "" }), Value::Null), false)];
    for piece in answer.think.iter().flat_map(|think| pieces(think, PIECE)) {
        out.push(data(&delta(json!({ "reasoning_content": piece }), Value::Null), true));
    }
    for piece in &answer.deltas {
        out.push(data(&delta(json!({ "content": piece }), Value::Null), true));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let begun = json!({
            "index": index, "id": format!("call_{}", call.id), "type": "function",
            "function": { "name": call.tool, "arguments": "" },
        });
        out.push(data(&delta(json!({ "tool_calls": [begun] }), Value::Null), false));
        for piece in pieces(&call.input.json().to_string(), PIECE) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            out.push(data(&delta(json!({ "tool_calls": [more] }), Value::Null), false));
        }
    }
    out.push(data(&delta(json!({}), finish(answer.stop).into()), false));
    // The usage comes in a chunk of its own, with empty `choices`.
    out.push(data(&chunk(json!([]), usage(answer)), false));
    out.push(Frame { text: "data: [DONE]\n\n".to_owned(), delta: false });
    out
}
