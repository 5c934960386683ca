//! Processes that the agent leaves behind: plain ones, and some that are hard to find or to kill.
//!
//! A child is this same program, started again. It inherits the environment, so that a test can find it by a marker
//! in it. The parent continues only after the child has its properties, so no test depends on timing.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use signal_hook::consts::SIGTERM;

/// The first argument of such a child.
pub(crate) const FLAG: &str = "--play-child";

/// The argument that marks a process whose launcher has exited.
pub(crate) const LAUNCHED: &str = "--play-launched";

/// The line that a child prints on its standard error when it is ready.
const READY: &str = "ready";

/// The properties of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// None.
    Plain,
    /// It has a session of its own, as the shells of tools have.
    Setsid,
    /// Its parent is gone and it has a session of its own.
    Daemon,
    /// It holds standard output open.
    HoldsStdout,
    /// It ignores stop signals.
    IgnoresSigterm,
}

impl Trait {
    const ALL: &[(&str, Self)] = &[
        ("plain", Self::Plain),
        ("sleep", Self::Plain),
        ("setsid", Self::Setsid),
        ("daemon", Self::Daemon),
        ("holds-stdout", Self::HoldsStdout),
        ("ignores-sigterm", Self::IgnoresSigterm),
    ];

    /// Parses the word for it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, known)| *known).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("`{word}` is not a trait of a child: it is one of {}", names.join(", "))
        })
    }

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("plain", |(name, _)| name)
    }
}

/// A child, as its own arguments describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    traits: Vec<Trait>,
    seconds: u64,
}

impl Child {
    /// Parses the arguments behind the flag: seconds and properties.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let (seconds, traits) = words.split_first().ok_or("a child needs its seconds and traits")?;
        let seconds = seconds.parse().map_err(|_| format!("`{seconds}` is not a number of seconds"))?;
        let traits = traits.iter().map(|word| Trait::parse(word)).collect::<Result<_, _>>()?;
        Ok(Self { traits, seconds })
    }
}

/// Starts a child and returns when it is ready.
pub(crate) fn start(own_args: usize, traits: &[Trait], seconds: u64) -> Result<(), String> {
    let mut command = again(own_args)?;
    command.arg(FLAG).arg(seconds.to_string()).args(traits.iter().map(|it| it.as_str()));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    // With the inherited pipe, the agent's reader sees no end of the file until this child exits (pipe(7)).
    command.stdout(if traits.contains(&Trait::HoldsStdout) { Stdio::inherit() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| format!("could not start a child: {error}"))?;
    let stderr = child.stderr.take().ok_or("the child has no standard error")?;
    let mut line = String::new();
    BufReader::new(stderr)
        .read_line(&mut line)
        .map_err(|error| format!("could not read the child's standard error: {error}"))?;
    if line.trim_end() != READY {
        return Err(format!("the child is not ready, it printed {line:?}"));
    }
    // A launcher in between has exited by now, or is about to: no other process reaps it.
    if traits.contains(&Trait::Daemon) {
        child.wait().map_err(|error| format!("could not wait for the launcher of the daemon: {error}"))?;
    }
    Ok(())
}

/// Starts the same agent again with the same arguments and streams, and with this script.
pub(crate) fn launch(argv: &[String], script: &str) -> Result<(), String> {
    let mut command = again(argv.len())?;
    command.arg(LAUNCHED).args(argv).env("PRACTICE_SCRIPT", script);
    command.spawn().map(drop).map_err(|error| format!("could not start the launched process: {error}"))
}

/// Returns the command that starts this program again, up to where the agent's own arguments begin.
#[expect(clippy::disallowed_methods, reason = "the agent plays programs that start children behind our back")]
fn again(own_args: usize) -> Result<Command, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("could not find the path of this program: {error}"))?;
    let mut command = Command::new(program);
    let all: Vec<OsString> = std::env::args_os().collect();
    let before = all.len().checked_sub(own_args).filter(|before| *before > 0);
    let before = before.ok_or("could not find the start of the agent's arguments")?;
    command.args(&all[1..before]);
    Ok(command)
}

/// Runs as a child.
pub(crate) fn play(child: &Child) -> ExitCode {
    match played(child) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::FAILURE
        }
    }
}

fn played(child: &Child) -> Result<(), String> {
    let has = |it: Trait| child.traits.contains(&it);
    if has(Trait::Daemon) || has(Trait::Setsid) {
        // setsid(2) fails only for the leader of a process group, and a spawned child is not one.
        rustix::process::setsid().map_err(|error| format!("could not start a session: {error}"))?;
    }
    if has(Trait::Daemon) {
        // The second half of a double fork: this process leads the session and exits; the next one can never
        // get a terminal. It prints `ready` on the inherited standard error.
        let rest: Vec<&str> =
            child.traits.iter().filter(|it| **it != Trait::Daemon).map(|it| it.as_str()).collect();
        let own_args = child.traits.len() + 2;
        let mut command = again(own_args)?;
        command.arg(FLAG).arg(child.seconds.to_string()).args(rest);
        return command.spawn().map(drop).map_err(|error| format!("could not start the daemon: {error}"));
    }
    if has(Trait::IgnoresSigterm) {
        let heard = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, heard)
            .map_err(|error| format!("could not ignore SIGTERM: {error}"))?;
    }
    writeln!(std::io::stderr(), "{READY}").map_err(|error| format!("could not print {READY}: {error}"))?;
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    let silent = null.and_then(|null| Ok(rustix::stdio::dup2_stderr(&null)?));
    silent.map_err(|error| format!("could not close standard error: {error}"))?;
    // The standard library resumes a sleep after a signal.
    std::thread::sleep(Duration::from_secs(child.seconds));
    Ok(())
}
