//! OpenAI's Responses: `/v1/responses`.

use serde_json::{Value, json};

use super::blocks::{self, pieces};
use super::{
    Answer, ConversationItem, Frame, Input, ParsedRequest, RequestImage, ResponseShape, Tool, ToolCall,
    errors, event, text,
};
use crate::scenario::{Fault, StopReason};

/// How many characters of thinking or of a call's input one event has.
const PIECE: usize = 24;

pub(super) fn read(body: &Value) -> ParsedRequest {
    let format = &body["text"]["format"];
    let mut asked = ParsedRequest {
        model: text(&body["model"]),
        shape: if body["stream"] == true { ResponseShape::Events } else { ResponseShape::Whole },
        effort: text(&body["reasoning"]["effort"]),
        thinking: body.get("reasoning").filter(|value| !value.is_null()).cloned(),
        max_tokens: body["max_output_tokens"].as_u64(),
        system: text(&body["instructions"]).unwrap_or_default(),
        schema: (format["type"] == "json_schema").then(|| format["schema"].clone()),
        previous: text(&body["previous_response_id"]),
        ..ParsedRequest::default()
    };
    tools(&mut asked, &body["tools"], None);
    if let Some(prompt) = body["input"].as_str() {
        asked.said.push(ConversationItem::User(prompt.to_owned()));
    }
    for item in body["input"].as_array().into_iter().flatten() {
        read_item(&mut asked, item);
    }
    asked
}

fn read_item(asked: &mut ParsedRequest, item: &Value) {
    // In this API `type` is optional for messages.
    match item["type"].as_str().unwrap_or("message") {
        "message" => match item["role"].as_str() {
            Some("assistant") => asked.said.push(ConversationItem::Model),
            Some("user") => {
                for part in blocks::parts(&item["content"]) {
                    match part["image_url"].as_str() {
                        Some(url) => asked.images.push(RequestImage::addressed(url)),
                        None => {
                            asked.said.push(ConversationItem::User(text(&part["text"]).unwrap_or_default()))
                        }
                    }
                }
            }
            _ => blocks::add(&mut asked.system, &blocks::text(&item["content"])),
        },
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            asked.said.push(ConversationItem::Tool);
            for part in blocks::parts(&item["output"]) {
                if let Some(url) = part["image_url"].as_str() {
                    asked.images.push(RequestImage::addressed(url));
                }
            }
        }
        // Each is a piece of one answer. `pick::answers` counts consecutive pieces once.
        "function_call" | "custom_tool_call" | "local_shell_call" | "reasoning" => {
            asked.said.push(ConversationItem::Model)
        }
        // Some models have their tools in the conversation.
        "additional_tools" => tools(asked, &item["tools"], None),
        _ => {}
    }
}

fn tools(asked: &mut ParsedRequest, list: &Value, namespace: Option<&str>) {
    for tool in list.as_array().into_iter().flatten() {
        if tool["type"] == "namespace" {
            tools(asked, &tool["tools"], tool["name"].as_str());
        } else if let Some(name) = tool["name"].as_str().or_else(|| tool["type"].as_str()) {
            asked.tools.push(Tool {
                name: name.to_owned(),
                namespace: namespace.map(str::to_owned),
                takes_text: tool["type"] == "custom",
                schema: tool.get("parameters").cloned(),
            });
        }
    }
}

fn response(answer: &Answer, status: &str, output: &Value) -> Value {
    json!({
        "id": answer.id("resp_"),
        "object": "response",
        "created_at": answer.at,
        "model": answer.model,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "output": output,
        "parallel_tool_calls": true,
        "usage": null,
    })
}

/// The finished response, with its usage.
fn finished(answer: &Answer) -> Value {
    let output: Vec<Value> = items(answer).into_iter().map(|item| item.value).collect();
    let cut = answer.stop == StopReason::MaxTokens;
    let mut response = response(answer, if cut { "incomplete" } else { "completed" }, &output.into());
    // `input_tokens` includes the cached ones here, and excludes them in Anthropic's API.
    let (usage, input) = (answer.usage, answer.usage.input + answer.usage.cache_read);
    response["usage"] = json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": input + usage.output,
    });
    if cut {
        response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    response
}

pub(super) fn whole(answer: &Answer) -> Value {
    finished(answer)
}

/// A piece of the output.
struct OutputItem {
    value: Value,
    kind: OutputKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Thought,
    Speech,
    Refusal,
    Call,
    TextCall,
}

fn items(answer: &Answer) -> Vec<OutputItem> {
    let mut items = Vec::new();
    if let Some(think) = &answer.think {
        let value = json!({
            "type": "reasoning", "id": answer.id("rs_"),
            "summary": [{ "type": "summary_text", "text": think }], "encrypted_content": "c2ltdWxhdGVk",
        });
        items.push(OutputItem { value, kind: OutputKind::Thought });
    }
    if !answer.deltas.is_empty() {
        let refused = answer.stop == StopReason::Refusal;
        let part = if refused {
            json!({ "type": "refusal", "refusal": answer.text() })
        } else {
            json!({ "type": "output_text", "text": answer.text(), "annotations": [] })
        };
        let phase = if answer.calls.is_empty() { "final_answer" } else { "commentary" };
        let value = json!({
            "type": "message", "id": answer.id("msg_"), "role": "assistant", "status": "completed",
            "content": [part], "phase": phase,
        });
        items
            .push(OutputItem { value, kind: if refused { OutputKind::Refusal } else { OutputKind::Speech } });
    }
    items.extend(answer.calls.iter().map(call));
    items
}

fn call(call: &ToolCall) -> OutputItem {
    let mut item = match &call.input {
        Input::Json(input) => OutputItem {
            value: json!({
                "type": "function_call", "id": format!("fc_{}", call.id), "call_id": format!("call_{}", call.id),
                "name": call.tool, "arguments": input.to_string(), "status": "completed",
            }),
            kind: OutputKind::Call,
        },
        Input::Text(input) => OutputItem {
            value: json!({
                "type": "custom_tool_call", "id": format!("ctc_{}", call.id), "call_id": format!("call_{}", call.id),
                "name": call.tool, "input": input, "status": "completed",
            }),
            kind: OutputKind::TextCall,
        },
    };
    if let Some(namespace) = &call.namespace {
        item.value["namespace"] = namespace.as_str().into();
    }
    item
}

/// The events of a response, which are numbered.
#[derive(Default)]
struct ResponseFrames(Vec<Frame>);

impl ResponseFrames {
    fn push(&mut self, name: &str, mut value: Value, delta: bool) {
        value["type"] = name.into();
        value["sequence_number"] = self.0.len().into();
        self.0.push(event(name, &value, delta));
    }

    fn begin(&mut self, answer: &Answer) {
        for name in ["response.created", "response.in_progress"] {
            self.push(name, json!({ "response": response(answer, "in_progress", &json!([])) }), false);
        }
    }
}

pub(super) fn frames(answer: &Answer) -> Vec<Frame> {
    let mut out = ResponseFrames::default();
    out.begin(answer);
    for (index, item) in items(answer).into_iter().enumerate() {
        let value = &item.value;
        let id = &value["id"];
        let mut begun = value.clone();
        begun["status"] = "in_progress".into();
        for (key, empty) in
            [("content", json!([])), ("summary", json!([])), ("arguments", json!("")), ("input", json!(""))]
        {
            if begun.get(key).is_some() {
                begun[key] = empty;
            }
        }
        out.push("response.output_item.added", json!({ "output_index": index, "item": begun }), false);
        match item.kind {
            OutputKind::Speech => speech(&mut out, answer, index, id, &value["content"][0], "output_text"),
            OutputKind::Refusal => speech(&mut out, answer, index, id, &value["content"][0], "refusal"),
            OutputKind::Thought => thought(&mut out, index, id, &value["summary"][0]),
            OutputKind::Call => {
                input(&mut out, index, id, "function_call_arguments", "arguments", &value["arguments"])
            }
            OutputKind::TextCall => {
                input(&mut out, index, id, "custom_tool_call_input", "input", &value["input"])
            }
        }
        out.push("response.output_item.done", json!({ "output_index": index, "item": value }), false);
    }
    let response = finished(answer);
    let name =
        if answer.stop == StopReason::MaxTokens { "response.incomplete" } else { "response.completed" };
    out.push(name, json!({ "response": response }), false);
    out.0
}

fn speech(out: &mut ResponseFrames, answer: &Answer, index: usize, id: &Value, part: &Value, kind: &str) {
    let place = json!({ "item_id": id, "output_index": index, "content_index": 0 });
    let at = |key: &str, value: Value| {
        let mut it = place.clone();
        it[key] = value;
        it
    };
    let field = if kind == "refusal" { "refusal" } else { "text" };
    let mut empty = part.clone();
    empty[field] = "".into();
    out.push("response.content_part.added", at("part", empty), false);
    for piece in &answer.deltas {
        out.push(&format!("response.{kind}.delta"), at("delta", piece.as_str().into()), true);
    }
    out.push(&format!("response.{kind}.done"), at(field, part[field].clone()), false);
    out.push("response.content_part.done", at("part", part.clone()), false);
}

fn thought(out: &mut ResponseFrames, index: usize, id: &Value, part: &Value) {
    let place = json!({ "item_id": id, "output_index": index, "summary_index": 0 });
    let at = |key: &str, value: Value| {
        let mut it = place.clone();
        it[key] = value;
        it
    };
    let empty = json!({ "type": "summary_text", "text": "" });
    out.push("response.reasoning_summary_part.added", at("part", empty), false);
    for piece in pieces(part["text"].as_str().unwrap_or_default(), PIECE) {
        out.push("response.reasoning_summary_text.delta", at("delta", piece.into()), true);
    }
    out.push("response.reasoning_summary_text.done", at("text", part["text"].clone()), false);
    out.push("response.reasoning_summary_part.done", at("part", part.clone()), false);
}

fn input(out: &mut ResponseFrames, index: usize, id: &Value, event: &str, field: &str, input: &Value) {
    for piece in pieces(input.as_str().unwrap_or_default(), PIECE) {
        let delta = json!({ "item_id": id, "output_index": index, "delta": piece });
        out.push(&format!("response.{event}.delta"), delta, false);
    }
    let mut done = json!({ "item_id": id, "output_index": index });
    done[field] = input.clone();
    out.push(&format!("response.{event}.done"), done, false);
}

/// Writes the error of a conversation that is too long. This API starts its response first.
pub(super) fn overflow(fault: &Fault, answer: &Answer) -> Vec<Frame> {
    let mut out = ResponseFrames::default();
    out.begin(answer);
    out.0.push(failed(fault, answer));
    out.0
}

/// Writes the failure of a response.
pub(super) fn failed(fault: &Fault, answer: &Answer) -> Frame {
    let (code, message) = errors::in_stream(fault);
    let mut response = response(answer, "failed", &json!([]));
    response["error"] = json!({ "code": code, "message": message });
    event("response.failed", &json!({ "type": "response.failed", "response": response }), false)
}
