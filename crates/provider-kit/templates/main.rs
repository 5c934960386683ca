//! An executable provider. Replace what `answer` does; everything else is done.

use bowline_provider::{Done, Error, Provider, Request, Say};

struct Mine;

impl Provider for Mine {
    fn name(&self) -> &str {
        "minimal-provider"
    }

    fn answer(&self, request: &Request, say: &mut Say<'_>) -> Result<Done, Error> {
        let model = request.model().unwrap_or("echo-1");
        // Say each piece as soon as your model gives it.
        say.text("You said: ")?;
        say.text(&request.prompt)?;
        Ok(Done::by(model))
    }

    fn health(&self) -> Result<String, Error> {
        // Look whether the model can be reached; there are five seconds for it.
        Ok("OK".to_owned())
    }
}

fn main() -> std::process::ExitCode {
    bowline_provider::main(&mut Mine)
}
