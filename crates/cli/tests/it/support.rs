//! Running the command.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Starts the command with no environment of ours, so that a test means the same on every machine.
#[expect(clippy::disallowed_methods, reason = "the command under test is started here, and only here")]
pub(crate) fn bowline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    command.args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command with bytes on its standard input.
pub(crate) fn run(args: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = bowline(args).stdin(Stdio::piped()).spawn().expect("the command starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // The command may refuse its arguments before it reads anything.
    let _ = pipe.write_all(stdin.as_ref());
    drop(pipe);
    child.wait_with_output().expect("the command ends")
}

/// Shows a run in full, for snapshots.
pub(crate) fn show(args: &[&str], stdin: &str) -> String {
    let output = run(args, stdin);
    let mut text = format!("exit {}\n", output.status.code().unwrap_or(-1));
    for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
        let _ = write!(text, "--- {name}\n{}", String::from_utf8_lossy(&bytes));
    }
    text
}

/// Returns the one JSON object that a run prints.
pub(crate) fn object(args: &[&str], stdin: impl AsRef<[u8]>) -> serde_json::Value {
    let output = run(args, stdin);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Runs a line of shell with the command on its PATH.
#[expect(clippy::disallowed_methods, reason = "the examples of README are lines of shell")]
pub(crate) fn shell(line: &str, bin: &std::path::Path) -> Output {
    let path = format!("{}:/usr/bin:/bin", bin.display());
    Command::new("/bin/sh").args(["-c", line]).env_clear().env("PATH", path).output().expect("a shell")
}

/// Returns a shell that is about to run a line.
#[expect(clippy::disallowed_methods, reason = "some situations can only be made by a shell")]
pub(crate) fn in_shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    command
}
