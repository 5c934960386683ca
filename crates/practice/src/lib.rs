//! The scripted practice agent: a real child process that speaks like an agent and misbehaves on request.
//!
//! It reads a prompt, speaks the dialect that it is asked for, reads and edits files, runs commands, and reports what it
//! used, all without a model or a network. A prompt without directives plays a short task ([`SAMPLE`] is made for it);
//! one with lines such as `practice: exit 3` does what they say. `--help` lists the flags and the directives; the list is
//! `script::DIRECTIVES`.
//!
//! It knows nothing of the rest of Bowline: what it prints is what the real programs were recorded to print, so that it
//! proves something about our readers. It is deliberately not a mock: it is started, fed, signalled and reaped like any
//! other program.

mod children;
mod clock;
mod options;
mod out;
mod patch;
mod player;
mod schema;
mod script;
mod sessions;
mod signals;
mod stage;
mod task;
mod tools;
mod voices;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The name of the provider that is played by this agent.
pub const PROVIDER: &str = "practice";

/// The hidden command of `bowline` behind which the agent is.
pub const COMMAND: &str = "practice-agent";

/// A file for the default task to work on: its name, and what is in it before.
pub const SAMPLE: (&str, &str) = (task::SAMPLE_NAME, task::SAMPLE_TEXT);

/// Plays the agent with these arguments (those behind the program's or command's name) and returns its exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    match options::parse(&args) {
        Ok(options::Parsed::Help) => tell(&mut std::io::stdout(), &options::help(), 0),
        Ok(options::Parsed::Child(child)) => children::play(&child),
        Ok(options::Parsed::Play(options)) => match player::play(&options) {
            Ok(code) => code,
            Err(message) => complain(&message, 2),
        },
        Err(message) => complain(&message, 2),
    }
}

fn complain(message: &str, code: u8) -> ExitCode {
    tell(&mut std::io::stderr(), &format!("practice-agent: {message}\n"), code)
}

fn tell(to: &mut dyn Write, text: &str, code: u8) -> ExitCode {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => ExitCode::from(code),
        // Nobody is left to be told.
        Err(_) => ExitCode::from(code.max(1)),
    }
}
