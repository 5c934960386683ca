//! Asking for a permission: whoever started the agent answers over standard input. Where nobody does, the answer is no.

use std::io::BufRead;

use serde_json::Value;

use super::Player;
use crate::tools::{Call, Refusal, refusal};

/// What Claude Code 2.1.325 says of a question that nobody can answer any more.
const NOBODY: &str =
    "Tool permission request failed: AbortError: Tool permission stream closed before response received";

impl Player<'_> {
    /// Says why a tool may not be used, if it may not. Where it only lacks a permission, somebody is asked for it, if the
    /// script wants that and the dialect has words for it.
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

/// Waits for the answer to a question; nothing when it is yes, else why not.
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
    Some(NOBODY.to_owned())
}
