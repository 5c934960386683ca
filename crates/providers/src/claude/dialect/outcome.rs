//! The `result` of a turn: what it used, what it cost, and how it ended.
//!
//! `usage` is the turn's own. `total_cost_usd` and `modelUsage` are those of the whole session, also of the processes
//! before a resume; `model_usage_since_last_result` is the turn's part of them, where it is printed (lines, not `json`).
//! `usage` lacks what sub-agents and compactions used, and the call with which the turn passed the program's own budget; the
//! turn's part of `modelUsage` has them, but lacks calls that broke off and were made again. So the greater of the two is reported.

use bowline_protocol::kinds::{StopReason, UsageReported};
use bowline_protocol::{Basis, Kind, Usage, UsageSource};

use super::super::failures::ApiError;
use super::super::wire::{ClaudeObject, text};
use super::Claude;
use crate::dialect::Output;
use crate::usage;

impl Claude {
    /// Handles a `result`.
    pub(crate) fn result(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let subtype = line.text_or_empty("subtype");
        let terminal_reason = line.text_or_empty("terminal_reason");
        let stop_reason = line.text_or_empty("stop_reason");
        // Not `subtype`: an API failure ends with `subtype: "success"` and `is_error: true`.
        let failed = line.flag("is_error").unwrap_or_else(|| subtype.starts_with("error"));
        // A result without any turn behind it (no such session to resume) has an id that is made up.
        if line.raw("terminal_reason").is_some() || !failed {
            self.session_of_result(line, out);
        }
        // `json` prints only the result, and an unknown session ends the program before `init` (2.1.325).
        self.open_turn(out);
        let said = line.text_or_empty("result");
        if !failed {
            // With `--json-schema` the answer may be in `structured_output`, with an empty `result`.
            let structured = line.raw("structured_output").map_or("", |raw| raw.get());
            self.speech.conclude(if said.is_empty() { structured } else { &said }, out);
        }
        self.usage(line, out);
        // Versions before `system/permission_denied` (2.1.197) report denials only here.
        for denial in line.objects("permission_denials") {
            self.requests.refused(&denial.text_or_empty("tool_use_id"), None, None, out);
        }
        self.requests.turn_over(out);
        out.num_turns(line.count("num_turns"));

        // An interrupt may be reported as a success: only `terminal_reason` shows that the turn was not finished.
        let aborted = terminal_reason.starts_with("aborted");
        let interrupted = failed && subtype == "error_during_execution" && self.was_interrupted();
        if aborted || interrupted {
            out.cancelled();
        } else if !failed {
            // Errors before a success were overcome: 2.1.325 retries 10 times by default, and can fall back to
            // a request without streaming.
            out.forget_errors();
            out.completed(stop(&stop_reason));
        } else {
            let errors: Vec<_> = line.array("errors").into_iter().filter_map(text).collect();
            let words = if said.is_empty() { errors.join("; ") } else { said.into_owned() };
            let mut error = ApiError::of(line, words).or(self.take_error().unwrap_or_default());
            if error.text.is_empty() {
                error.text = format!("the program reported {subtype}");
            }
            // `rate_limit_event` precedes the result, and has the reset time where the result has only a text.
            error.resets_at = error.resets_at.or(self.limit_resets_at);
            out.failed(&error.report(&subtype, &terminal_reason, &stop_reason));
        }
        self.turn_over();
    }

    fn usage(&mut self, line: &ClaudeObject<'_>, out: &mut Output<'_>) {
        let total = line.number("total_cost_usd");
        let since = line.object("model_usage_since_last_result");
        // `total_cost_usd` counts the whole session, across `--resume` too: adding it up counts every earlier turn again.
        let cost_usd = match &since {
            Some(since) => Some(cost(since)),
            None => total.map(|total| usage::cost_since(total, self.cost)),
        };
        self.cost = total.unwrap_or(self.cost);
        let Some(mut used) = line.raw("usage").and_then(usage::read_raw) else { return };
        let details = line.object("usage").and_then(|usage| usage.object("output_tokens_details"));
        used.reasoning = used.reasoning.or_else(|| details?.count("thinking_tokens"));
        if let Some(whole) = since.as_ref().and_then(tokens).filter(|whole| whole.total() > used.total()) {
            // The count of reasoning in `modelUsage`, `thinkingTokens`, is not read: keep that of `usage`.
            used = Usage { reasoning: used.reasoning, ..whole };
        }
        out.emit(Kind::UsageReported(UsageReported {
            usage: used,
            basis: Basis::PerTurn,
            source: UsageSource::Reported,
            cost_usd,
            model: since.or_else(|| line.object("modelUsage")).and_then(|models| only(&models)),
            message: None,
        }));
    }
}

/// Adds up what the models cost.
fn cost(models: &ClaudeObject<'_>) -> f64 {
    let of =
        |(_, model): (&str, &serde_json::value::RawValue)| ClaudeObject::read(model.get())?.number("costUSD");
    // In a fixed order: the sum of floats depends on it.
    let mut costs: Vec<f64> = models.fields().filter_map(of).collect();
    costs.sort_by(f64::total_cmp);
    // Not `sum`: that of nothing is -0.0.
    costs.iter().fold(0.0, |sum, cost| sum + cost)
}

/// Adds up the tokens of the models.
fn tokens(models: &ClaudeObject<'_>) -> Option<Usage> {
    let all = models.fields().filter_map(|(_, model)| usage::read_raw(model));
    all.reduce(|sum, one| sum.plus(&one))
}

/// Returns the model if there was only one.
fn only(models: &ClaudeObject<'_>) -> Option<String> {
    let mut names = models.fields().map(|(name, _)| name.to_owned());
    names.next().filter(|_| names.next().is_none())
}

/// Returns why the model stopped.
pub(crate) fn stop(reason: &str) -> Option<StopReason> {
    match reason {
        "end_turn" | "stop_sequence" => Some(StopReason::EndTurn),
        "max_tokens" | "model_context_window_exceeded" => Some(StopReason::MaxTokens),
        "refusal" => Some(StopReason::Refusal),
        // `tool_use` is the last message's; no tool waits for us.
        _ => None,
    }
}
