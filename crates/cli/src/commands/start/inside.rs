//! `bowline start` inside of an agent: the agent's own runner starts the session, if a person allows it.
//!
//! The agent hands over a few values and nothing else: no directory, no variables, no arguments of the agent's program. The runner checks
//! them again ([`ChildRequest::check`]), because an agent can write to the socket itself.

use bowline::ChildRequest;
use bowline::PermissionMode;
use bowline::journal::Home;
use bowline::registry::{Registry, SessionFilter};
use bowline::remote::{ConnectError, OrderError};
use bowline_protocol::{OrderRefused, Receipt, SessionId, SessionOrder};
use clap::CommandFactory as _;
use clap::parser::ValueSource;

use super::text;
use crate::args::Args;
use crate::args::live::StartArgs;
use crate::args::request::PermissionArg;
use crate::async_runtime;
use crate::commands::live::unreachable;
use crate::commands::run::permission;
use crate::error::{CommandError, Fault};
use crate::ui::{Stdout, Ui};

/// The arguments that an agent may choose, by their ids.
const ALLOWED: [&str; 7] = ["prompt", "provider", "model", "effort", "permission", "name", "json"];

/// Asks the runner of this process's agent for a session, and waits until a person has decided.
pub(super) fn ask(args: &StartArgs, reason: &str, stdout: &mut Stdout) -> Result<(), CommandError> {
    if let Some(flag) = not_allowed() {
        return Err(refused(format!("an agent cannot start a session with `{flag}`"))
            .hint("leave it out: the new session uses the directory and variables of this one"));
    }
    let child = request(args)?;
    let (home, session) = own_session(reason)?;
    let runtime = async_runtime::start()?;
    let receipt = runtime.block_on(async {
        let connected = match bowline::attach_in(&home, session.as_str()).await {
            Ok(connected) => connected,
            Err(ConnectError::NoSocket { .. }) => {
                return Err(refused("an agent of `bowline run` cannot start sessions")
                    .hint("no person decides its approvals; do the work in this session"));
            }
            Err(error) => return Err(unreachable(&session, session.as_str(), error)),
        };
        Ui::new().status(&format!(
            "waiting until a person allows it: `bowline status {session}` shows the request, `bowline approve {session} ID` allows it"
        ));
        connected.order(SessionOrder::Start { child }).await.map_err(|error| not_started(&error))
    })?;
    runtime.shutdown_background();
    let Receipt::SessionStarted { session: child } = receipt else {
        return Err(CommandError::new(
            Fault::Internal,
            "the runner returned another receipt than `session_started`",
        ));
    };
    if args.json {
        let started = serde_json::json!({ "session": child, "parent": session });
        return stdout.print(&format!("{started}\n"));
    }
    stdout.print(&format!("{child}\n"))?;
    Ui::new().status(&format!("started; wait for its answer: `bowline wait {child}`"));
    Ok(())
}

/// Returns the first flag of this command line that an agent may not choose.
fn not_allowed() -> Option<String> {
    // The command line was parsed once already, without the matches that tell a default from a choice.
    let matches = Args::command().try_get_matches_from(std::env::args_os()).ok()?;
    let start = matches.subcommand_matches("start")?;
    let chosen = start.ids().map(clap::Id::as_str).filter(|id| {
        // Groups have ids, too, and no source of their own.
        start.value_source(id) == Some(ValueSource::CommandLine) && !ALLOWED.contains(id)
    });
    let command = Args::command();
    let arguments = command.find_subcommand("start")?;
    chosen
        .filter_map(|id| arguments.get_arguments().find(|arg| arg.get_id() == id)?.get_long())
        .map(|flag| format!("--{flag}"))
        .next()
}

fn request(args: &StartArgs) -> Result<ChildRequest, CommandError> {
    let request = &args.request;
    let Some(provider) = request.provider.clone() else {
        return Err(CommandError::new(Fault::Usage, "an agent has to name the provider of a session")
            .hint("name it with `--provider NAME`"));
    };
    let Some(prompt) = text(args)? else {
        return Err(CommandError::new(Fault::Usage, "a session that an agent starts needs a prompt")
            .hint("bowline start -p NAME \"…\"; you cannot send it one later"));
    };
    if request.permission == Some(PermissionArg::Yolo) {
        return Err(refused("an agent cannot start a session with `--permission yolo`")
            .hint("leave it out: the session then has `ask`"));
    }
    let permission: Option<PermissionMode> = request.permission.map(|mode| permission(Some(mode)));
    let (model, effort, name) = (request.model.clone(), request.effort.clone(), args.name.clone());
    let child = ChildRequest { provider, prompt, model, effort, permission, name };
    match child.check() {
        Ok(()) => Ok(child),
        Err(reason) => {
            Err(CommandError::new(Fault::Usage, "an agent cannot start this session").hint(reason))
        }
    }
}

/// Finds the session whose runner started the agent that this process belongs to.
fn own_session(reason: &str) -> Result<(Home, SessionId), CommandError> {
    let home = Home::from_env().map_err(bowline::Error::from)?;
    // The process tree, not the variables: the agent may have cleared them.
    let runner = bowline::runner::runner_above();
    let running = Registry::at(home.clone()).list(SessionFilter::Running).map_err(bowline::Error::from)?;
    let own =
        runner.and_then(|pid| running.into_iter().find(|it| it.meta.runner.is_some_and(|it| it.pid == pid)));
    own.map(|own| (home, own.meta.id)).ok_or_else(|| {
        refused("an agent cannot start sessions without its runner, which was not found")
            .hint(format!("this process belongs to an agent: {reason}"))
            .hint("start the session from your own terminal")
    })
}

fn refused(message: impl Into<String>) -> CommandError {
    CommandError::new(Fault::NotAllowed, message)
}

/// Makes the error for an agent whose request was not granted.
fn not_started(error: &OrderError) -> CommandError {
    let message = format!("the session was not started: {error}");
    match error {
        OrderError::Refused(OrderRefused::Denied { .. }) => {
            refused(message).hint("do not ask again; do the work in this session, or tell the user")
        }
        OrderError::Refused(OrderRefused::Forbidden { .. }) => {
            refused(message).hint("do the work in this session, or tell the user to start the session")
        }
        OrderError::Refused(_) => CommandError::new(Fault::Unfit, message),
        OrderError::NotUnderstood { .. } => CommandError::new(Fault::Unfit, message).hint(
            "the runner is older than this program; tell the user to stop the session and to resume it",
        ),
        OrderError::Over | OrderError::Lost | OrderError::TooLong { .. } | _ => {
            CommandError::new(Fault::Internal, message)
        }
    }
}
