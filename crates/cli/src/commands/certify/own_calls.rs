//! Calls of this command that the suite makes, for runners and watchers in processes of their own.

use std::ffi::OsString;

use bowline::SessionId;
use bowline_certify::{OwnCommand, RunnerStart};

use crate::error::{CommandError, Fault};

/// Returns this command, and how the suite calls it.
pub(super) fn command() -> Result<OwnCommand, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(Fault::Internal, "could not find the program of this command").caused_by(error)
    })?;
    Ok(OwnCommand { program, start, watch })
}

/// Writes the arguments of `bowline start`.
fn start(session: &RunnerStart) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["start", "--json", "--provider"].map(OsString::from).into();
    args.push(session.provider.clone().into());
    args.extend(["--binary".into(), session.binary.clone().into()]);
    args.extend(["--cwd".into(), session.cwd.clone().into()]);
    args.extend(["--model".into(), session.model.clone().into()]);
    args.extend(["--permission".into(), session.permission.as_str().into()]);
    // Not in the environment of the runner: it has settings and a home of its own.
    args.extend(session.env.iter().map(|(name, value)| format!("--env={name}={value}").into()));
    if let Some(id) = &session.resume {
        args.extend(["--resume".into(), id.to_string().into()]);
    }
    args
}

/// Writes the arguments of `bowline attach`.
fn watch(session: &SessionId) -> Vec<OsString> {
    ["attach", session.as_str(), "--watch", "--from", "1", "--output", "jsonl"].map(OsString::from).into()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn parsed(args: Vec<OsString>) -> Command {
        let args = std::iter::once("bowline".into()).chain(args);
        Args::try_parse_from(args).expect("the command takes its own arguments").command.expect("a command")
    }

    #[test]
    fn the_command_takes_the_arguments() {
        let session = RunnerStart {
            provider: "agent".to_owned(),
            binary: "/bin/agent".into(),
            cwd: "/work".into(),
            model: "m".to_owned(),
            permission: bowline::PermissionMode::Ask,
            env: vec![("NAME".to_owned(), "a=b".to_owned())],
            resume: Some(SessionId::from("s-1")),
        };
        let Command::Start(start) = parsed(super::start(&session)) else { panic!("it starts a session") };
        assert_eq!(start.request.env, [("NAME".to_owned(), "a=b".to_owned())]);
        assert_eq!(start.request.resume.as_deref(), Some("s-1"));
        assert!(start.json && start.request.prompt.is_none());
        let Command::Attach(attach) = parsed(watch(&SessionId::from("s-1"))) else { panic!("it watches") };
        assert_eq!((attach.session.as_str(), attach.from, attach.watch), ("s-1", Some(1), true));
    }
}
