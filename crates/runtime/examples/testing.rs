//! Test a program that embeds Bowline: a script replaces the agent's process (feature `testing`).
//!
//! `cargo run -p bowline --example testing --features testing`
#![expect(clippy::print_stdout, reason = "an example prints")]

use bowline::testing::{Script, World};
use bowline::{Error, Task};

/// The code under test. It takes a task, so that a test can pass one with a script.
async fn summary(task: Task) -> Result<String, String> {
    match task.answer().await {
        Ok(text) => Ok(text),
        Err(Error::Turn(record)) if record.failure.as_ref().is_some_and(|failure| failure.retry) => {
            Err("busy, try again later".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn task(world: &World, script: Script) -> Task {
    world.task("Summarise the changes").provider("claude").script(script)
}

#[tokio::main]
async fn main() {
    let world = bowline::testing::world();
    let good = bowline::testing::script(
        r#"{"steps": [
            {"tool": {"name": "Bash", "input": {"command": "git diff"}, "output": "+fn main() {}"}},
            {"say": "A main function was added."},
            {"result": {"usage": {"input": 120, "output": 9}}}
        ]}"#,
    );
    assert_eq!(summary(task(&world, good)).await, Ok("A main function was added.".to_owned()));

    let limited = bowline::testing::script(r#"{"steps": [{"fail": "429 Too many requests"}, {"exit": 1}]}"#);
    assert_eq!(summary(task(&world, limited)).await, Err("busy, try again later".to_owned()));
    println!("both tests passed, and no process was started");
}
