//! Ollama's own API: `/api/chat` and `/api/generate`, in JSON lines by default.

use serde_json::{Value, json};

use super::{
    Answer, ConversationItem, Frame, ParsedRequest, RequestImage, ResponseShape, Tool, blocks, text,
};
use crate::scenario::StopReason;

/// The common part of both.
fn read(body: &Value) -> ParsedRequest {
    let thinking = body.get("think").cloned();
    ParsedRequest {
        model: text(&body["model"]),
        // This API streams by default.
        shape: if body["stream"] == false { ResponseShape::Whole } else { ResponseShape::Lines },
        effort: thinking.as_ref().and_then(text),
        thinking,
        max_tokens: body["options"]["num_predict"].as_u64(),
        schema: body.get("format").filter(|format| format.is_object()).cloned(),
        ..ParsedRequest::default()
    }
}

pub(super) fn read_chat(body: &Value) -> ParsedRequest {
    let mut asked = read(body);
    for tool in body["tools"].as_array().into_iter().flatten() {
        let function = &tool["function"];
        let Some(name) = function["name"].as_str() else { continue };
        let schema = function.get("parameters").cloned();
        asked.tools.push(Tool { name: name.to_owned(), schema, ..Tool::default() });
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("assistant") => asked.said.push(ConversationItem::Model),
            Some("tool") => asked.said.push(ConversationItem::Tool),
            Some("system") => blocks::add(&mut asked.system, &blocks::text(&message["content"])),
            _ => asked.said.push(ConversationItem::User(blocks::text(&message["content"]))),
        }
        images(&mut asked, &message["images"]);
    }
    asked
}

pub(super) fn read_generate(body: &Value) -> ParsedRequest {
    let mut asked = read(body);
    asked.system = text(&body["system"]).unwrap_or_default();
    asked.said.push(ConversationItem::User(text(&body["prompt"]).unwrap_or_default()));
    images(&mut asked, &body["images"]);
    asked
}

/// Images are base64 without a media type.
fn images(asked: &mut ParsedRequest, list: &Value) {
    let encoded = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    asked.images.extend(encoded.map(|data| RequestImage::encoded("image", data)));
}

fn line(answer: &Answer, fields: Value) -> Value {
    let mut value = json!({ "model": answer.model, "created_at": time(answer.at), "done": false });
    merge(&mut value, fields);
    value
}

fn merge(value: &mut Value, fields: Value) {
    if let (Value::Object(value), Value::Object(fields)) = (value, fields) {
        value.extend(fields);
    }
}

fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// The end of an answer, with its usage.
fn end(answer: &Answer) -> Value {
    let reason = if answer.stop == StopReason::MaxTokens { "length" } else { "stop" };
    json!({
        "done": true,
        "done_reason": reason,
        "total_duration": 5_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": answer.usage.input,
        "prompt_eval_duration": 1_000_000,
        "eval_count": answer.usage.output,
        "eval_duration": 3_000_000,
    })
}

fn message(content: &str, answer: &Answer) -> Value {
    let calls: Vec<Value> = answer
        .calls
        .iter()
        .map(|call| json!({ "function": { "name": call.tool, "arguments": call.input.json() } }))
        .collect();
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

pub(super) fn whole_chat(answer: &Answer) -> Value {
    let mut message = message(&answer.text(), answer);
    if let Some(think) = &answer.think {
        message["thinking"] = think.as_str().into();
    }
    let mut value = line(answer, json!({ "message": message }));
    merge(&mut value, end(answer));
    value
}

pub(super) fn whole_generate(answer: &Answer) -> Value {
    let mut value = line(answer, json!({ "response": answer.text() }));
    if let Some(think) = &answer.think {
        value["thinking"] = think.as_str().into();
    }
    merge(&mut value, end(answer));
    value
}

fn frame(value: &Value, delta: bool) -> Frame {
    Frame { text: format!("{value}\n"), delta }
}

pub(super) fn frames_chat(answer: &Answer) -> Vec<Frame> {
    let plain = |key: &str, piece: &str| {
        let mut message = json!({ "role": "assistant", "content": "" });
        message[key] = piece.into();
        line(answer, json!({ "message": message }))
    };
    let mut out = Vec::new();
    if let Some(think) = &answer.think {
        out.push(frame(&plain("thinking", think), true));
    }
    out.extend(answer.deltas.iter().map(|piece| frame(&plain("content", piece), true)));
    if !answer.calls.is_empty() {
        out.push(frame(&line(answer, json!({ "message": message("", answer) })), false));
    }
    let mut last = plain("content", "");
    merge(&mut last, end(answer));
    out.push(frame(&last, false));
    out
}

pub(super) fn frames_generate(answer: &Answer) -> Vec<Frame> {
    let mut out = Vec::new();
    if let Some(think) = &answer.think {
        out.push(frame(&line(answer, json!({ "response": "", "thinking": think })), true));
    }
    out.extend(answer.deltas.iter().map(|piece| frame(&line(answer, json!({ "response": piece })), true)));
    let mut last = line(answer, json!({ "response": "" }));
    merge(&mut last, end(answer));
    out.push(frame(&last, false));
    out
}
