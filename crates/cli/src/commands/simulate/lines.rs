//! Formats a request as a line: client, operation, scenario, status and duration.

use bowline_simulator::{Entry, Operation, Outcome};

/// Writes the line.
pub(super) fn line(entry: &Entry) -> String {
    let mut words: Vec<String> = vec![entry.seq.to_string()];
    words.extend(entry.route.iter().map(|route| format!("[{route}]")));
    words.push(match entry.operation {
        Operation::Generate(api) => api.as_str().to_owned(),
        Operation::CountTokens(api) => format!("{} count-tokens", api.as_str()),
        Operation::Models(api) | Operation::Model(api) => format!("{} models", api.as_str()),
        Operation::Version | Operation::Ledger | Operation::Root | Operation::Unknown => {
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
        Outcome::Open | Outcome::Sent => {}
        Outcome::BrokenOff => words.push("aborted".to_owned()),
        Outcome::ClientLeft => words.push("client disconnected".to_owned()),
        Outcome::Stopped => words.push("stopped".to_owned()),
    }
    if let Some(ended) = entry.ended_at {
        words.push(format!("{} ms", ended.duration_since(entry.at).as_millis()));
    }
    format!("{}\n", words.join("  "))
}
