//! A function of this program as a tool of the agent.
//!
//! `cargo run -p bowline --example tools -- claude "How many M4 screws are in stock?"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::roster::Roster;
use bowline::{HostTool, Json};
use serde::Deserialize;

/// The input of the tool.
#[derive(Debug, Deserialize)]
struct StockQuery {
    article: String,
}

/// The tool: a name, a description for the model, the JSON Schema of the input, and the function.
fn stock() -> Result<HostTool, serde_json::Error> {
    let schema = Json::parse(
        r#"{"type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"]}"#,
    )?;
    Ok(HostTool::new(
        "stock",
        "Returns how many pieces of an article are in stock",
        schema,
        |input| async move {
            let query: StockQuery = input.read()?;
            match query.article.as_str() {
                "M4 screw" => Ok("1200 pieces".to_owned()),
                // The agent reads the error, and can try another article.
                other => Err(format!("there is no article `{other}`").into()),
            }
        },
    ))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let prompt = args.next().unwrap_or_else(|| "How many M4 screws are in stock?".to_owned());
    // Without the user's manifests, only the built-in providers are known.
    let task = bowline::task(prompt).provider(provider).roster(Roster::from_env());
    println!("{}", task.tool(stock()?).answer().await?);
    Ok(())
}
