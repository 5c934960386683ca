//! Anthropic's Messages: `/v1/messages`.

use serde_json::{Value, json};

use super::blocks::{self, pieces};
use super::{Answer, ConversationItem, Frame, ParsedRequest, RequestImage, ResponseShape, Tool, event, text};
use crate::scenario::{StopReason, Usage};

/// How many characters of a call's input one event has.
const INPUT_PIECE: usize = 24;

pub(super) fn read(body: &Value) -> ParsedRequest {
    let mut asked = ParsedRequest {
        model: text(&body["model"]),
        shape: if body["stream"] == true { ResponseShape::Events } else { ResponseShape::Whole },
        effort: text(&body["output_config"]["effort"]),
        thinking: body.get("thinking").cloned(),
        max_tokens: body["max_tokens"].as_u64(),
        system: blocks::text(&body["system"]),
        schema: ["/output_config/format/schema", "/output_format/schema"]
            .iter()
            .find_map(|pointer| body.pointer(pointer).cloned()),
        ..ParsedRequest::default()
    };
    for tool in body["tools"].as_array().into_iter().flatten() {
        let Some(name) = tool["name"].as_str() else { continue };
        let schema = tool.get("input_schema").cloned();
        asked.tools.push(Tool { name: name.to_owned(), schema, ..Tool::default() });
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("assistant") => asked.said.push(ConversationItem::Model),
            Some("system") => blocks::add(&mut asked.system, &blocks::text(&message["content"])),
            _ => user(&mut asked, &message["content"]),
        }
    }
    asked
}

fn user(asked: &mut ParsedRequest, content: &Value) {
    for part in blocks::parts(content) {
        match part["type"].as_str() {
            Some("tool_result") => {
                asked.said.push(ConversationItem::Tool);
                for inner in blocks::parts(&part["content"]) {
                    image(asked, &inner);
                }
            }
            Some("text") => asked.said.push(ConversationItem::User(text(&part["text"]).unwrap_or_default())),
            _ => image(asked, &part),
        }
    }
}

fn image(asked: &mut ParsedRequest, part: &Value) {
    if part["type"] == "image" {
        let source = &part["source"];
        asked.images.push(match source["data"].as_str() {
            Some(data) => RequestImage::encoded(source["media_type"].as_str().unwrap_or_default(), data),
            None => RequestImage::addressed(source["url"].as_str().unwrap_or_default()),
        });
    }
}

fn usage(usage: Usage, output: u64) -> Value {
    json!({
        // Without the cached tokens. OpenAI's APIs include them in the input.
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": { "ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0 },
        "output_tokens": output,
        "service_tier": "standard",
    })
}

fn stop(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::Tools => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
    }
}

/// The signature of thinking. Programs return it and never read it.
const SIGNATURE: &str = "c2ltdWxhdGVk";

fn message(answer: &Answer, content: &Value, stop_reason: &Value, output: u64) -> Value {
    json!({
        "id": answer.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(answer.usage, output),
    })
}

pub(super) fn whole(answer: &Answer) -> Value {
    let mut content = Vec::new();
    if let Some(think) = &answer.think {
        content.push(json!({ "type": "thinking", "thinking": think, "signature": SIGNATURE }));
    }
    if !answer.deltas.is_empty() {
        content.push(json!({ "type": "text", "text": answer.text() }));
    }
    for call in &answer.calls {
        content.push(json!({
            "type": "tool_use", "id": format!("toolu_{}", call.id), "name": call.tool, "input": call.input.json(),
        }));
    }
    message(answer, &content.into(), &stop(answer.stop).into(), answer.usage.output)
}

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    // The number of output tokens is not known at the beginning.
    let start = message(answer, &json!([]), &Value::Null, 1);
    let mut out = MessageFrames::default();
    out.push(&json!({ "type": "message_start", "message": start }), false);
    // The real API may send pings between any two events, and programs have to skip them.
    out.push(&json!({ "type": "ping" }), false);
    if let Some(think) = &answer.think {
        out.open(&json!({ "type": "thinking", "thinking": "", "signature": "" }));
        for piece in pieces(think, INPUT_PIECE) {
            out.delta(&json!({ "type": "thinking_delta", "thinking": piece }), true);
        }
        out.delta(&json!({ "type": "signature_delta", "signature": SIGNATURE }), false);
        out.close();
    }
    if !answer.deltas.is_empty() {
        out.open(&json!({ "type": "text", "text": "" }));
        for piece in &answer.deltas {
            out.delta(&json!({ "type": "text_delta", "text": piece }), true);
        }
        out.close();
    }
    for call in &answer.calls {
        let id = format!("toolu_{}", call.id);
        out.open(&json!({ "type": "tool_use", "id": id, "name": call.tool, "input": {} }));
        for piece in pieces(&call.input.json().to_string(), INPUT_PIECE) {
            out.delta(&json!({ "type": "input_json_delta", "partial_json": piece }), false);
        }
        out.close();
    }
    out.push(
        &json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop(answer.stop), "stop_sequence": null },
            "usage": usage(answer.usage, answer.usage.output),
        }),
        false,
    );
    out.push(&json!({ "type": "message_stop" }), false);
    out.frames
}

/// The events of a message; blocks are counted.
#[derive(Default)]
struct MessageFrames {
    frames: Vec<Frame>,
    index: usize,
}

impl MessageFrames {
    fn push(&mut self, value: &Value, delta: bool) {
        self.frames.push(event(value["type"].as_str().unwrap_or_default(), value, delta));
    }

    fn open(&mut self, block: &Value) {
        self.push(
            &json!({ "type": "content_block_start", "index": self.index, "content_block": block }),
            false,
        );
    }

    fn delta(&mut self, delta: &Value, paced: bool) {
        self.push(&json!({ "type": "content_block_delta", "index": self.index, "delta": delta }), paced);
    }

    fn close(&mut self) {
        self.push(&json!({ "type": "content_block_stop", "index": self.index }), false);
        self.index += 1;
    }
}
