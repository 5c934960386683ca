//! A runner of an older build hands its idle session over: when its stint is over, it starts the program of the client that asked for
//! that, with its own command line and variables.

use std::ffi::OsString;
use std::path::PathBuf;

use bowline::{PermissionMode, SuccessorSlot};
use serde::{Deserialize, Serialize};

use super::children::ChildSpec;
use super::{RunnerReport, RunnerSpec, runner_log};
use crate::args::live::StartArgs;
use crate::args::request::PermissionArg;
use crate::ui::Ui;

/// A session that a runner takes over from an older one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TakenOver {
    session: String,
    cwd: PathBuf,
    /// The mode at the end of the older runner's stint. None if the agent has no such modes.
    permission: Option<PermissionMode>,
}

impl TakenOver {
    /// Changes the options of the older runner to those that resume the session.
    pub(super) fn apply(&self, args: &mut StartArgs) {
        let request = &mut args.request;
        // The session has run its first prompt already.
        (request.prompt, request.continue_latest) = (None, false);
        request.image.clear();
        request.resume = Some(self.session.clone());
        // A relative path was meant from the directory of the older runner, and the session has its name already.
        request.cwd = Some(self.cwd.clone());
        (args.name, request.label) = (None, None);
        // They may have been changed since; the session has the last ones.
        (request.model, request.effort) = (None, None);
        // Not from the session's files, which an agent can write.
        if let Some(mode) = self.permission {
            request.permission = Some(match mode {
                PermissionMode::Read => PermissionArg::Read,
                PermissionMode::Ask => PermissionArg::Ask,
                PermissionMode::Edit => PermissionArg::Edit,
                PermissionMode::Yolo => PermissionArg::Yolo,
            });
        }
    }
}

/// The facts that a runner needs to hand its session over.
#[derive(Debug)]
pub(super) struct HandOver {
    pub(super) slot: SuccessorSlot,
    pub(super) session: String,
    pub(super) cwd: PathBuf,
    /// The command line of this runner.
    pub(super) args: Vec<String>,
    pub(super) child: Option<ChildSpec>,
}

impl HandOver {
    /// Starts the newer runner, if a client asked for one, and waits until it listens. The client learns of a failure by the end of this
    /// process, and the log has the reason.
    pub(super) async fn start(self) {
        let Self { slot, session, cwd, args, child } = self;
        let Some(successor) = slot.take() else { return };
        let permission = successor.permission;
        let taken_over = Some(TakenOver { session: session.clone(), cwd, permission });
        let spec = RunnerSpec { args, prompt: None, title: None, child, taken_over };
        let started = async {
            let spec = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
            let args = [OsString::from("session-runner")];
            let runner = bowline::runner::start_runner_of(
                successor.program.clone(),
                args,
                spec,
                runner_log().ok().flatten(),
            )
            .await;
            let report = runner.map_err(|error| error.to_string())?.report().await;
            let report = report.map_err(|error| error.to_string())?;
            match report.and_then(|line| serde_json::from_slice::<RunnerReport>(&line).ok()) {
                Some(RunnerReport::Listening { .. }) => Ok(()),
                Some(RunnerReport::Failed { text, .. }) => Err(text.trim_end().to_owned()),
                None => Err("it ended before it listened".to_owned()),
            }
        };
        if let Err(error) = started.await {
            let program = successor.program.display().to_string();
            // Standard error is the runner's log.
            Ui::new().lines(&format!(
                "error: the session {session} was to be handed over, and `{program}` did not start as its runner: {error}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn older(flags: &[&str]) -> StartArgs {
        let args = ["bowline", "start", "-p", "alpha", "the first prompt"];
        match Args::try_parse_from(args.iter().chain(flags)).unwrap().command {
            Some(Command::Start(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn taken_over(permission: Option<PermissionMode>) -> TakenOver {
        TakenOver { session: "s-1".to_owned(), cwd: PathBuf::from("/work/project"), permission }
    }

    #[test]
    fn the_newer_runner_resumes_and_keeps_the_limits() {
        let flags = [
            "--name",
            "fix",
            "--model",
            "big",
            "--effort",
            "high",
            "--permission",
            "edit",
            "--deny-tool",
            "Bash",
            "--cwd",
            "sub",
            "--env",
            "TOKEN=t",
            "--image",
            "a.png",
            "--idle",
            "5m",
            "--timeout",
            "1h",
        ];
        let mut args = older(&flags);
        taken_over(Some(PermissionMode::Read)).apply(&mut args);
        let request = &args.request;
        assert_eq!((request.resume.as_deref(), request.provider.as_deref()), (Some("s-1"), Some("alpha")));
        assert_eq!((&request.prompt, request.image.len(), &args.name), (&None, 0, &None));
        assert_eq!((&request.model, &request.effort), (&None, &None));
        assert_eq!(request.permission, Some(PermissionArg::Read), "the mode of the moment");
        assert_eq!(request.cwd, Some(PathBuf::from("/work/project")));
        assert_eq!((&request.deny_tool[..], request.env.len()), (&["Bash".to_owned()][..], 1));
        assert!(args.idle.is_some() && request.timeout.is_some());
    }

    #[test]
    fn a_mode_that_is_not_known_stays_the_one_that_was_asked() {
        let mut args = older(&["--permission", "edit"]);
        taken_over(None).apply(&mut args);
        assert_eq!(args.request.permission, Some(PermissionArg::Edit));
        let mut args = older(&["--continue"]);
        taken_over(Some(PermissionMode::Yolo)).apply(&mut args);
        assert_eq!(
            args.request.permission,
            Some(PermissionArg::Yolo),
            "a person chose it in the older runner"
        );
        assert!(!args.request.continue_latest);
    }
}
