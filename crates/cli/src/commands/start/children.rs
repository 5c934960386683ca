//! The runner's side of a session that an agent asked for: the new runner gets the command line of this one, with the few values that the
//! agent chose in the place of the user's.

use std::ffi::OsString;
use std::path::PathBuf;

use bowline::{ChildRequest, PermissionMode, SessionId, StartChild};
use serde::{Deserialize, Serialize};

use super::{RunnerReport, RunnerSpec, runner_log};
use crate::args::live::StartArgs;
use crate::args::request::PermissionArg;

/// How deep sessions that agents start can be nested: a session of the user has depth 0.
const DEPTH: u32 = 3;

/// A session that an agent asked for and a person allowed, for its runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChildSpec {
    /// The session whose agent asked.
    pub(super) parent: String,
    /// The number of sessions above it.
    pub(super) depth: u32,
    /// The provider of the parent.
    provider: String,
    /// The directory of the parent.
    cwd: PathBuf,
    request: ChildRequest,
}

impl ChildSpec {
    /// Changes the parent's options to those of the session. Limits, tools and directories stay as the user chose them, so that the
    /// session can do no more than its parent.
    pub(super) fn apply(&self, args: &mut StartArgs) {
        let request = &mut args.request;
        if self.request.provider != self.provider {
            // They mean the program of the parent, or its login.
            (request.agent_arg, request.set, request.env) = Default::default();
            (request.format, request.binary, request.profile) = Default::default();
        }
        request.provider = Some(self.request.provider.clone());
        request.executable = None;
        request.model.clone_from(&self.request.model);
        request.effort.clone_from(&self.request.effort);
        request.permission = Some(permission(self.request.mode()));
        // A relative path would be meant from the directory in which the user typed it, which the runner shares.
        request.cwd = Some(self.cwd.clone());
        (request.prompt, request.resume, request.continue_latest) = (None, None, false);
        request.image.clear();
        request.label = None;
        args.name.clone_from(&self.request.name);
    }
}

/// Returns the mode as an argument. `yolo` has to be chosen by a person, so it is not passed on.
fn permission(mode: PermissionMode) -> PermissionArg {
    match mode {
        PermissionMode::Read => PermissionArg::Read,
        PermissionMode::Ask | PermissionMode::Yolo => PermissionArg::Ask,
        PermissionMode::Edit => PermissionArg::Edit,
    }
}

/// Starts runners for the agents of a session.
#[derive(Debug)]
pub(super) struct ChildRunners {
    pub(super) session: SessionId,
    /// The command line of this runner.
    pub(super) args: Vec<String>,
    pub(super) provider: String,
    pub(super) cwd: PathBuf,
    pub(super) depth: u32,
    /// Whether the agent runs in a container.
    pub(super) contained: bool,
}

impl StartChild for ChildRunners {
    fn refusal(&self) -> Option<String> {
        if self.contained {
            return Some("the agent runs in a container, and its runner does not".to_owned());
        }
        let reason = || format!("sessions that agents start can be nested at most {DEPTH} deep");
        (self.depth >= DEPTH).then(reason)
    }

    fn keeps_the_session(&self) -> Option<String> {
        self.contained.then(|| "its agent runs in a container".to_owned())
    }

    async fn start(&self, request: ChildRequest) -> Result<SessionId, String> {
        let prompt = Some(request.prompt.clone());
        let child = ChildSpec {
            parent: self.session.to_string(),
            depth: self.depth + 1,
            provider: self.provider.clone(),
            cwd: self.cwd.clone(),
            request,
        };
        let spec =
            RunnerSpec { args: self.args.clone(), prompt, title: None, child: Some(child), taken_over: None };
        let spec = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
        // With the variables of this runner, which its user set, and none of the agent's.
        let started = bowline::runner::start_runner(
            [OsString::from("session-runner")],
            spec,
            runner_log().ok().flatten(),
        )
        .await;
        let mut runner = started.map_err(|error| error.to_string())?;
        let report = runner.report().await.map_err(|error| error.to_string())?;
        match report.and_then(|line| serde_json::from_slice::<RunnerReport>(&line).ok()) {
            Some(RunnerReport::Listening { session, .. }) => Ok(SessionId::from(session)),
            Some(RunnerReport::Failed { text, .. }) => Err(text.trim_end().to_owned()),
            None => Err("the runner of the session ended before it listened".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn parent(flags: &[&str]) -> StartArgs {
        let args = ["bowline", "start", "-p", "alpha", "the user's prompt"];
        match Args::try_parse_from(args.iter().chain(flags)).unwrap().command {
            Some(Command::Start(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn child(provider: &str, permission: Option<PermissionMode>) -> ChildSpec {
        let request = ChildRequest {
            provider: provider.to_owned(),
            prompt: "the agent's prompt".to_owned(),
            model: None,
            effort: Some("low".to_owned()),
            permission,
            name: Some("helper".to_owned()),
        };
        let (parent, cwd) = ("s-1".to_owned(), PathBuf::from("/work/project"));
        ChildSpec { parent, depth: 1, provider: "alpha".to_owned(), cwd, request }
    }

    #[test]
    fn a_child_keeps_the_limits_of_its_parent() {
        let flags = [
            "--permission",
            "edit",
            "--deny-tool",
            "Bash",
            "--max-cost",
            "3",
            "--key",
            "k",
            "--model",
            "big",
            "--name",
            "fix",
            "--cwd",
            "sub",
            "--agent-arg=--strict",
            "--env",
            "TOKEN=t",
            "--isolate",
            "--resume",
            "s-0",
            "--image",
            "a.png",
        ];
        let mut args = parent(&flags);
        child("alpha", None).apply(&mut args);
        let request = &args.request;
        assert_eq!((&request.deny_tool[..], request.max_cost), (&["Bash".to_owned()][..], Some(3.0)));
        assert_eq!((request.key.as_deref(), request.isolate), (Some("k"), true));
        assert_eq!((request.agent_arg.len(), request.env.len()), (1, 1));
        assert_eq!(request.permission, Some(PermissionArg::Ask));
        assert_eq!((request.model.as_deref(), request.effort.as_deref()), (None, Some("low")));
        assert_eq!(request.cwd, Some(PathBuf::from("/work/project")));
        assert_eq!((&request.prompt, &request.resume, request.image.len()), (&None, &None, 0));
        assert_eq!((args.name.as_deref(), request.label.as_deref()), (Some("helper"), None));
    }

    #[test]
    fn sessions_are_nested_at_most_three_deep() {
        let refusal = |depth, contained| {
            let (args, provider, cwd) = (Vec::new(), "alpha".to_owned(), PathBuf::from("/work"));
            ChildRunners { session: SessionId::from("s-1"), args, provider, cwd, depth, contained }.refusal()
        };
        assert_eq!((refusal(0, false), refusal(2, false)), (None, None));
        assert!(refusal(3, false).unwrap().ends_with("at most 3 deep"));
        assert!(refusal(0, true).unwrap().contains("container"));
    }

    #[test]
    fn another_program_gets_nothing_that_was_meant_for_the_parents() {
        let flags = [
            "--agent-arg=-x",
            "--env",
            "TOKEN=t",
            "--binary",
            "/opt/alpha",
            "--set",
            "a=1",
            "--deny-tool",
            "B",
        ];
        let mut args = parent(&flags);
        child("beta", Some(PermissionMode::Edit)).apply(&mut args);
        let request = &args.request;
        assert_eq!((request.agent_arg.len(), request.env.len(), request.set.len()), (0, 0, 0));
        assert_eq!((&request.binary, request.deny_tool.len()), (&None, 1));
        assert_eq!(
            (request.provider.as_deref(), request.permission),
            (Some("beta"), Some(PermissionArg::Edit))
        );
        // A runner checked it already. If not, this is the last line.
        let mut args = parent(&["--permission", "yolo"]);
        child("alpha", Some(PermissionMode::Yolo)).apply(&mut args);
        assert_eq!(args.request.permission, Some(PermissionArg::Ask));
    }
}
