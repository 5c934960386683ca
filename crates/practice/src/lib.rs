//! The scripted practice agent: a real child process that prints like an agent and misbehaves on request.
//!
//! It reads a prompt, prints the requested dialect, reads and edits files, runs commands, and reports its
//! usage, all without a model or a network. With `--format acp` it is a server that takes many prompts. A prompt without directives plays a short task ([`SAMPLE`] is made for it);
//! one with lines such as `practice: exit 3` executes them. `--help` lists the flags and the directives; the list is
//! `script::DIRECTIVES`.
//!
//! It shares no code with the rest of Bowline: it prints what the real programs were recorded to print, so that it
//! tests our decoders. It is deliberately not a mock: Bowline starts, feeds, signals and reaps it like any
//! other program.

mod children;
mod clock;
mod control;
mod options;
mod out;
mod patch;
mod player;
mod schema;
mod script;
mod server;
mod sessions;
mod signals;
mod stage;
mod task;
mod tools;
mod voices;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The name of the provider.
pub const PROVIDER: &str = "practice";

/// The hidden command of `bowline` that starts the agent.
pub const COMMAND: &str = "practice-agent";

/// A file for the default task to work on: its name, and its content before.
pub const SAMPLE: (&str, &str) = (task::SAMPLE_NAME, task::SAMPLE_TEXT);

/// Runs the agent with these arguments (those behind the program's or command's name) and returns its exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    match options::parse(&args) {
        Ok(options::Parsed::Help) => tell(&mut std::io::stdout(), &options::help(), 0),
        Ok(options::Parsed::Child(child)) => children::play(&child),
        Ok(options::Parsed::Play(options)) => match play(&options) {
            Ok(code) => code,
            Err(message) => complain(&message, 2),
        },
        Err(message) => complain(&message, 2),
    }
}

fn play(options: &options::Options) -> Result<ExitCode, String> {
    if options.format == options::Format::Acp { server::serve(options) } else { player::play(options) }
}

fn complain(message: &str, code: u8) -> ExitCode {
    tell(&mut std::io::stderr(), &format!("practice-agent: {message}\n"), code)
}

fn tell(to: &mut dyn Write, text: &str, code: u8) -> ExitCode {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => ExitCode::from(code),
        // There is no other place to report it.
        Err(_) => ExitCode::from(code.max(1)),
    }
}
