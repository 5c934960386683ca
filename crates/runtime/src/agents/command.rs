//! From an invocation to a command of the process crate: the program is found, paths and variables filled in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bowline_process as process;
use bowline_protocol::SessionId;
use bowline_providers::invocation::{self, Invocation, StdinPlan};
use bowline_providers::manifest::Manifest;

use crate::agents::detect;
use crate::system::surroundings::Surroundings;

/// The terminal that an agent sees when it wants one.
const TERMINAL: process::Stdio = process::Stdio::Terminal { rows: 40, cols: 120 };

/// Puts the program that is installed into the commands: from a place that `PATH` does not have, or from behind its
/// launcher.
///
/// A program that is not found stays as it is: the spawner says what is the matter with it.
pub(crate) async fn located(
    commands: &mut [process::Command],
    manifest: &'static Manifest,
    binary: Option<&Path>,
    variables: &Surroundings,
) {
    for command in commands {
        // The agent's own variables, which the request may have changed. The others only locate Bowline's files.
        let mut surroundings = variables.clone();
        for (name, value) in &command.env {
            surroundings.set(name, value);
        }
        let Ok(found) = detect::find_anywhere(manifest, binary, &surroundings).await else { return };
        command.program = found.program().to_owned();
        let path = command.env.iter().rposition(|(name, _)| name == "PATH");
        if let Some(place) = path {
            command.env[place].1 = found.search_path(&command.env[place].1);
        }
    }
}

/// Returns the command that asks a provider whether it is well, if it can be asked.
pub(crate) async fn health(
    manifest: &'static Manifest,
    variables: &Surroundings,
) -> Option<process::Command> {
    let invocation = invocation::health(manifest)?;
    let mut command = command(&invocation, &SessionId::from("bowline-health"), Path::new(""), variables);
    located(std::slice::from_mut(&mut command), manifest, None, variables).await;
    Some(command)
}

/// Turns an invocation into a command of the process crate.
pub(crate) fn command(
    invocation: &Invocation,
    session: &SessionId,
    scratch: &Path,
    variables: &Surroundings,
) -> process::Command {
    let path = |name: &str| scratch.join(name).to_string_lossy().into_owned();
    let mut env: Vec<(OsString, OsString)> = invocation
        .environment(variables.texts())
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    env.extend(invocation.env_files.iter().map(|(name, file)| (name.into(), path(file).into())));
    let mut command = process::Command::new(&invocation.program, session.as_str());
    command.args = invocation.args.iter().map(|arg| arg.text(path).into()).collect();
    command.env = env;
    command.cwd = invocation.cwd.as_ref().map(PathBuf::from);
    command.stdin = match &invocation.stdin {
        StdinPlan::Null => process::Stdin::Null,
        StdinPlan::Prompt(text) => process::Stdin::Bytes(text.clone().into_bytes()),
        StdinPlan::Protocol(_) => process::Stdin::Owned,
    };
    command.stdio = match invocation.transport {
        invocation::StdioKind::Pipe => process::Stdio::Pipes,
        invocation::StdioKind::Pty => TERMINAL,
    };
    command
}
