//! Permission requests: the host answers over standard input. Without an answer, the request is denied.

use std::io::BufRead;

use serde_json::Value;

use super::Player;
use crate::tools::{Call, Refusal, refusal};

/// The message of Claude Code 2.1.325 for a request that can no longer be answered.
const NO_RESPONSE: &str =
    "Tool permission request failed: AbortError: Tool permission stream closed before response received";

impl Player<'_> {
    /// Returns why a tool is denied, if it is. If it only lacks a permission, the agent requests it from the host, if the
    /// script and the dialect support that.
    pub(super) fn forbidden(&mut self, call: &Call) -> Option<String> {
        let why = match refusal(&call.tool, self.options, &self.cwd)? {
            Refusal::Forbidden(why) => return Some(why),
            Refusal::NotGranted(why) => why,
        };
        let mut question = None;
        if self.asks {
            self.with(|voice, stage| {
                question = voice.ask(call, stage);
                stage.out.flush();
            });
        }
        let Some(question) = question else { return Some(why) };
        answer(&question)
    }
}

/// Waits for the response to a request; none if it is allowed, otherwise the reason.
fn answer(question: &str) -> Option<String> {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        let response = &said["response"];
        if said["type"] != "control_response" || response["request_id"] != question {
            continue;
        }
        let answer = &response["response"];
        return match answer["behavior"].as_str() {
            Some("allow") => None,
            _ => Some(answer["message"].as_str().unwrap_or("The user doesn't want to proceed.").to_owned()),
        };
    }
    Some(NO_RESPONSE.to_owned())
}
