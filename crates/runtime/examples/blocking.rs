//! The same calls without an async runtime.
//!
//! `cargo run -p bowline --example blocking -- claude`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::{Kind, blocking};

fn main() -> Result<(), bowline::Error> {
    bowline::init();
    let provider = std::env::args().nth(1).unwrap_or_else(|| "claude".to_owned());

    let name = bowline::task("Name this branch: fixes login race").provider(&provider).no_tools();
    println!("{}", blocking::answer(name)?);

    let mut turn = blocking::start(bowline::task("Audit this repository").provider(&provider))?;
    for event in &mut turn {
        if let Kind::TextDelta(delta) = &event.kind {
            print!("{}", delta.text);
        }
    }
    println!("\n{}", turn.outcome()?.outcome_word());
    Ok(())
}
