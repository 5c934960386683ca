//! One answer: a failed turn is an error, so `?` never prints an error message as the answer.
//!
//! `cargo run -p bowline --example answer -- claude "Name this branch: fixes login race"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use serde::Deserialize;

/// What the second call asks for: the type's JSON Schema goes along, and the answer is read.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Branch {
    /// The name of the branch.
    name: String,
    /// Why this name.
    reason: String,
}

#[tokio::main]
async fn main() -> Result<(), bowline::Error> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let prompt = args.next().unwrap_or_else(|| "Name this branch: fixes login race".to_owned());

    let name = bowline::task(&prompt).provider(&provider).no_tools().answer().await?;
    println!("{name}");

    let branch: Branch = bowline::task(&prompt).provider(&provider).no_tools().answer_as().await?;
    println!("{} ({})", branch.name, branch.reason);
    Ok(())
}
