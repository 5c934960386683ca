//! A CI job: a typed answer, a budget, and an exit code that the pipeline understands.
//!
//! `cargo run -p bowline --example review -- claude`
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::process::ExitCode;
use std::time::Duration;

use bowline::PermissionMode;
use bowline::roster::Roster;
use serde::Deserialize;

const PROMPT: &str = "Review the last commit of this repository. Report only bugs.";

/// The exit code for a review with findings. It is none of the codes that a failed run has.
const FINDINGS: u8 = 10;

/// The answer. Bowline sends the JSON Schema of this type along, and parses the answer as this type.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Review {
    /// Whether the commit can be merged.
    approved: bool,
    /// The bugs.
    findings: Vec<Finding>,
}

/// A bug.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Finding {
    file: String,
    line: u32,
    text: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    bowline::init();
    let provider = std::env::args().nth(1).unwrap_or_else(|| "claude".to_owned());
    let task = bowline::task(PROMPT)
        .provider(provider)
        .roster(Roster::from_env())
        .permission(PermissionMode::Read)
        .max_cost(0.50)
        .max_time(Duration::from_secs(600))
        .label("ci-review");
    match task.run_as::<Review>().await {
        Ok((review, record)) => {
            for Finding { file, line, text } in &review.findings {
                println!("{file}:{line}: {text}");
            }
            println!("cost: {:.2} USD", record.cost.unwrap_or_default());
            if review.approved { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) }
        }
        // A failed run, a used-up budget and an answer of another form: the same codes as those of `bowline run`.
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
