//! Prompts and their answers: where turns begin and end.
//!
//! A prompt that is sent while another is being answered waits; if it is answered first, the other one never was.

use bowline_protocol::kinds::{
    Level, Notice, StopReason, TurnOrigin, TurnStarted, UsageReported, UserOrigin,
};
use bowline_protocol::{Basis, Category, Code, Excerpt, Kind, UsageSource};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::failures::AcpProblem;
use super::Acp;
use super::steers::PromptEnd;
use crate::dialect::Output;
use crate::failure::Report;
use crate::usage;

/// How many prompts may wait for their turn.
const QUEUE: usize = 64;

/// The state of the turn before its end.
#[derive(Debug, Default)]
pub(crate) struct AcpTurn {
    /// Codex has given up; the answer to the prompt will look like a success.
    pub(crate) system_error: bool,
    pub(crate) error_text: String,
    pub(crate) error_data: Value,
    /// The HTTP status of the last retry.
    pub(crate) status: Option<u16>,
    /// The turn has no prompt.
    pub(crate) outside: bool,
    /// The client has refused something.
    pub(crate) refused: bool,
}

/// The cost of the session in US dollars: the agent reports the sum.
#[derive(Debug, Default)]
pub(crate) struct AcpCost {
    pub(crate) now: Option<f64>,
    told: f64,
}

impl Acp {
    pub(crate) fn prompt_sent(&mut self, id: Box<str>, text: String, out: &mut Output<'_>) {
        if self.prompt.is_none() {
            self.begin(id, &text, out);
        } else if self.queue.len() < QUEUE {
            self.queue.push_back((id, text));
        }
    }

    /// Begins the turn of a prompt.
    fn begin(&mut self, id: Box<str>, text: &str, out: &mut Output<'_>) {
        self.voices.end(out);
        self.settle(out);
        // Work without a prompt has no end of its own: the next prompt ends it.
        out.close_at_prompt();
        self.turn = AcpTurn::default();
        self.cancelling = false;
        self.replaying = false;
        self.prompted = true;
        let native_turn = Some(id.trim_matches('"').to_owned());
        out.emit(Kind::TurnStarted(TurnStarted { origin: TurnOrigin::Prompt, native_turn }));
        out.user(UserOrigin::Human, text, None);
        self.prompt = Some(id);
    }

    /// Makes the turn of an answered prompt the current one. Returns whether the prompt is known.
    pub(crate) fn turn_of(&mut self, id: &RawValue, out: &mut Output<'_>) -> bool {
        // Without the lines of the client, the ids of the prompts are not known.
        if self.prompt.as_deref() == Some(id.get()) || !self.hears_client {
            return true;
        }
        let Some(place) = self.queue.iter().position(|(queued, _)| **queued == *id.get()) else {
            return false;
        };
        let Some((id, text)) = self.queue.remove(place) else { return false };
        self.begin(id, &text, out);
        true
    }

    /// Handles the result of a prompt.
    pub(crate) fn prompt_answered(&mut self, result: &Value, out: &mut Output<'_>) {
        let stop = result.get("stopReason").and_then(Value::as_str);
        let is_cancelled = matches!(stop, Some("cancelled" | "canceled"));
        self.end_injected(if is_cancelled { PromptEnd::Stopped } else { PromptEnd::Answered }, out);
        self.voices.end(out);
        self.settle(out);
        self.turn_usage(result, out);
        let turn = std::mem::take(&mut self.turn);
        match stop {
            // Some end the turn when they may not do what they want; that is no wish of the caller.
            Some("cancelled" | "canceled") if self.ours && turn.refused && !self.cancelling => {
                let message = "the agent ended its turn because a permission was denied";
                let (category, code) = (Some(Category::Validation), Some(Code::Policy));
                out.failed(&Report { category, code, ..Report::of(message) });
            }
            Some("cancelled" | "canceled") => out.cancelled(),
            // Codex answers a failed turn with `end_turn`.
            Some(_) | None if turn.system_error => out.failed(&turn.problem().report(None)),
            Some("end_turn") => out.completed(Some(StopReason::EndTurn)),
            Some("max_tokens") => out.completed(Some(StopReason::MaxTokens)),
            Some("max_turn_requests") => out.completed(Some(StopReason::MaxTurns)),
            Some("refusal") => out.completed(Some(StopReason::Refusal)),
            Some(other) => {
                out.notice(Level::Warn, format!("the turn stopped for an unknown reason: {other}"));
                out.completed(None);
            }
            None => out.completed(None),
        }
        self.next_prompt(out);
    }

    /// Handles the error of a prompt.
    pub(crate) fn prompt_failed(&mut self, problem: &AcpProblem, out: &mut Output<'_>) {
        self.end_injected(PromptEnd::Stopped, out);
        // claude-agent-acp 0.99.0 also streams the error as the agent's text. Take it back before the messages are finished.
        let taken_back = self.voices.take_back(|said| problem.is_about(said), out);
        self.voices.end(out);
        self.settle(out);
        let turn = std::mem::take(&mut self.turn);
        if problem.is_cancelled() || self.cancelling {
            out.notice(Level::Info, Excerpt::with_limit(problem.text(), 4096).text);
            out.cancelled();
        } else {
            let said = taken_back.unwrap_or(turn.error_text);
            out.failed(&problem.report(Some(&said)));
        }
        self.next_prompt(out);
    }

    fn next_prompt(&mut self, out: &mut Output<'_>) {
        self.prompt = None;
        self.cancelling = false;
        if let Some((id, text)) = self.queue.pop_front() {
            self.begin(id, &text, out);
        }
    }

    /// Reports what the turn used: in `usage`, or where Gemini puts it.
    pub(crate) fn turn_usage(&mut self, result: &Value, out: &mut Output<'_>) {
        let places = ["/usage", "/_meta/usage", "/_meta/quota/token_count"];
        let usage = places.iter().find_map(|place| usage::read(result.pointer(place)?));
        let model = result.pointer("/_meta/quota/model_usage/0/model").and_then(Value::as_str);
        let cost_usd = self.cost.now.map(|now| {
            let spent = usage::cost_since(now, self.cost.told);
            // The next turn counts from here.
            self.cost.told = now;
            spent
        });
        // Copilot 1.0.102 adds up all prompts of the process.
        let basis = if self.agent.as_deref() == Some("Copilot") { Basis::Cumulative } else { Basis::PerTurn };
        match usage {
            Some(usage) => out.emit(Kind::UsageReported(UsageReported {
                usage,
                basis,
                source: UsageSource::Reported,
                cost_usd,
                model: model.map(str::to_owned).or_else(|| self.model.clone()),
                message: None,
            })),
            None => {
                if let Some(cost) = cost_usd.filter(|cost| *cost > 0.0) {
                    // A cost without tokens is no usage report.
                    let text = format!("the turn cost {cost} USD");
                    out.emit(Kind::Notice(Notice {
                        level: Level::Info,
                        text,
                        code: Some("cost".to_owned()),
                    }));
                }
            }
        }
    }
}

impl AcpTurn {
    /// Returns the error of a turn whose end does not have one.
    fn problem(&self) -> AcpProblem {
        let string = |key: &str| self.error_data.get(key).and_then(Value::as_str).unwrap_or_default();
        let texts = [self.error_text.as_str(), string("additionalDetails"), string("message")];
        let text =
            texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or("the agent reported an error");
        AcpProblem::of(text).with_data(self.error_data.clone()).with_status(self.status)
    }
}
