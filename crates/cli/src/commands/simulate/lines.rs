//! Formats a request as a line: client, operation, scenario, status and duration.

use bowline_simulator::{ApiOperation, LedgerEntry, RequestOutcome};

/// Writes the line.
pub(super) fn line(entry: &LedgerEntry) -> String {
    let mut words: Vec<String> = vec![entry.seq.to_string()];
    words.extend(entry.route.iter().map(|route| format!("[{route}]")));
    words.push(match entry.operation {
        ApiOperation::Generate(api) => api.as_str().to_owned(),
        ApiOperation::CountTokens(api) => format!("{} count-tokens", api.as_str()),
        ApiOperation::Models(api) | ApiOperation::Model(api) => format!("{} models", api.as_str()),
        ApiOperation::Version | ApiOperation::Ledger | ApiOperation::Root | ApiOperation::Unknown => {
            format!("{} {}", entry.method, entry.path)
        }
    });
    if let Some(choice) = &entry.choice {
        words.push(match (choice.side, choice.step) {
            (Some(side), _) => format!("side request ({side:?})").to_lowercase(),
            (None, Some(step)) => format!("{} step {step}", choice.scenario),
            (None, None) if choice.unknown => format!("there is no scenario `{}`", choice.scenario),
            (None, None) => choice.scenario.clone(),
        });
    }
    words.extend(entry.status.map(|status| status.to_string()));
    match entry.outcome {
        RequestOutcome::Open | RequestOutcome::Sent => {}
        RequestOutcome::BrokenOff => words.push("aborted".to_owned()),
        RequestOutcome::ClientLeft => words.push("client disconnected".to_owned()),
        RequestOutcome::Stopped => words.push("stopped".to_owned()),
    }
    if let Some(ended) = entry.ended_at {
        words.push(format!("{} ms", ended.duration_since(entry.at).as_millis()));
    }
    format!("{}\n", words.join("  "))
}
