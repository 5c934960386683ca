//! The end of a turn in the form of Claude Code: completed, failed, at a limit, or interrupted.

use serde_json::{Value, json};

use super::claude::{Claude, input, usage};
use super::{Ending, Voice};
use crate::clock;
use crate::stage::{Stage, Usage};
use crate::tools::Call;

impl Claude {
    /// Writes the message for an error of the server.
    pub(super) fn api_error(&self, status: u16, words: &str, stage: &mut Stage) {
        let text = said(status, words);
        let mut line = json!({"type": "assistant", "message": {"id": clock::uuid(), "model": "<synthetic>",
            "role": "assistant", "stop_reason": "stop_sequence", "stop_sequence": "", "type": "message",
            "usage": usage(Usage::default()), "content": [{"type": "text", "text": text}],
            "context_management": null}, "parent_tool_use_id": null, "session_id": stage.session,
            "uuid": clock::uuid(), "timestamp": clock::timestamp(), "is_api_error_message": true,
            "api_error_status": status});
        line["error"] = Value::from(match status {
            401 | 403 => "authentication_failed",
            429 => "rate_limit",
            500.. => "server_error",
            _ => "invalid_request",
        });
        line["api_error_type"] = Value::from(error_type(status));
        self.print(&line, stage);
    }

    /// Writes the result of a turn.
    pub(super) fn result(&mut self, ending: &Ending, stage: &mut Stage) {
        let mut line = self.common(stage);
        let words = ending.words();
        let (subtype, terminal_reason) = match ending {
            Ending::Done => ("success", "completed"),
            // Claude Code 2.1.325 has the subtype `success` for API errors, too: only `is_error` and the reason show the
            // failure.
            Ending::Error { .. } => ("success", "api_error"),
            Ending::MaxTurns(_) => ("error_max_turns", "max_turns"),
            Ending::MaxCost(_) => ("error_max_budget_usd", "budget_exhausted"),
        };
        line["subtype"] = Value::from(subtype);
        line["terminal_reason"] = Value::from(terminal_reason);
        line["is_error"] = Value::from(*ending != Ending::Done);
        match ending {
            Ending::Done => {
                line["stop_reason"] = Value::from("end_turn");
                line["api_error_status"] = Value::Null;
                line["result"] = Value::from(stage.last_text.as_str());
                if let Some(structured) = &stage.structured {
                    line["structured_output"] = structured.clone();
                }
            }
            Ending::Error { status, .. } => {
                line["stop_reason"] = Value::from("stop_sequence");
                line["api_error_status"] = Value::from(*status);
                line["api_error_type"] = Value::from(error_type(*status));
                line["result"] = Value::from(said(*status, &words));
            }
            Ending::MaxTurns(_) | Ending::MaxCost(_) => {
                line["stop_reason"] = Value::from("tool_use");
                line["errors"] = json!([words]);
            }
        }
        stage.out.json(&line);
        self.results += 1;
    }

    /// Writes the end of an interrupted turn: the text so far, and an empty result.
    pub(super) fn interrupted(&mut self, stage: &mut Stage) {
        self.close(stage);
        let (words, reason) = if let Some(call) = self.working.take() {
            let why = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was \
                       a file edit, the new_string was NOT written to the file). STOP what you are doing and wait \
                       for the user to tell you how to proceed.";
            let content =
                json!({"type": "tool_result", "content": why, "is_error": true, "tool_use_id": call.id});
            let meta = json!([{"id": call.id, "non_execution_kind": "user-rejected"}]);
            let result = Value::from("User rejected tool use");
            self.user(&content, &[("tool_use_result", result), ("tool_result_meta", meta)], stage);
            ("[Request interrupted by user for tool use]", "aborted_tools")
        } else {
            ("[Request interrupted by user]", "aborted_streaming")
        };
        self.user(&json!({"type": "text", "text": words}), &[], stage);
        let mut line = self.common(stage);
        line["subtype"] = Value::from("error_during_execution");
        line["terminal_reason"] = Value::from(reason);
        line["stop_reason"] = Value::Null;
        line["is_error"] = Value::from(true);
        line["errors"] = json!(["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"]);
        stage.out.json(&line);
        self.results += 1;
    }

    /// Returns the common fields of results.
    fn common(&self, stage: &Stage) -> Value {
        let (used, cost) = (stage.usage, stage.usage.cost());
        let millis = u64::try_from(stage.elapsed().as_millis()).unwrap_or(u64::MAX);
        let denial = |call: &Call| json!({"tool_name": call.tool.name(), "tool_use_id": call.id, "tool_input": input(&call.tool)});
        let denials: Vec<Value> = stage.denials.iter().map(denial).collect();
        let mut models = json!({});
        if used != Usage::default() {
            models[stage.model.as_str()] = json!({"inputTokens": used.input, "outputTokens": used.output,
                "cacheReadInputTokens": used.cache_read, "cacheCreationInputTokens": used.cache_write,
                "webSearchRequests": 0, "costUSD": cost, "contextWindow": 200_000, "maxOutputTokens": 32_000});
        }
        let mut line = json!({"type": "result", "duration_ms": millis, "duration_api_ms": millis,
            "num_turns": stage.turns, "session_id": stage.session, "total_cost_usd": cost, "usage": usage(used),
            "modelUsage": models, "permission_denials": denials, "uuid": clock::uuid(),
            "result_index": self.results});
        if !self.document {
            // The part of this turn; a document has only that of the whole session.
            line["model_usage_since_last_result"] = if self.results == 0 { models } else { json!({}) };
        }
        line
    }
}

/// Returns the message for an error of the server.
fn said(status: u16, words: &str) -> String {
    match status {
        429 => format!("API Error: Request rejected (429) · {words}"),
        _ => format!("API Error: {status} {words}"),
    }
}

fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
