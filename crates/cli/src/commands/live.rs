//! Shared by the commands about live sessions: the session that a name means, the connection to its runner, and their errors.

use bowline::AttachedSession;
use bowline::journal::Home;
use bowline::remote::{ClientRights, ConnectError, OrderError};
use bowline::resolve::{ResolveError, SessionName, resolve_in};
use bowline_protocol::{AckGap, OrderRefused, SessionId};

use crate::error::{CommandError, Fault};
use crate::human::shell_word;
use crate::ui::Stdout;

/// A session that a person named.
#[derive(Debug)]
pub(crate) struct FoundSession {
    pub(crate) home: Home,
    pub(crate) id: SessionId,
    /// The word by which hints name it: the one that the person typed, in the form that a shell takes.
    pub(crate) name: String,
}

/// Finds the session that a name means.
pub(crate) fn find(typed: &str) -> Result<FoundSession, CommandError> {
    let home = Home::from_env().map_err(bowline::Error::from)?;
    match resolve_in(&home, typed) {
        Ok(id) => {
            // `@last` is another session as soon as one is started.
            let name = if typed.starts_with('@') { id.to_string() } else { shell_word(typed) };
            Ok(FoundSession { home, id, name })
        }
        Err(error) => Err(unresolved(error)),
    }
}

/// Makes the error of a name that means no session, or several.
pub(crate) fn unresolved(error: ResolveError) -> CommandError {
    let message = error.to_string();
    let with = |introduction: &str, newest: &[SessionName]| {
        let names = newest.iter().map(|session| match session.label.as_ref().or(session.key.as_ref()) {
            Some(label) => format!("{} ({label})", session.id),
            None => session.id.to_string(),
        });
        let names = names.collect::<Vec<_>>().join(", ");
        CommandError::new(Fault::Usage, message.clone())
            .hint(format!("{introduction}: {names}"))
            .hint("`bowline sessions --all` lists all of them")
    };
    match &error {
        ResolveError::NotFound { newest, .. } => with("the newest sessions are", newest),
        ResolveError::Ambiguous { newest, .. } => with("the newest of them are", newest),
        ResolveError::NoSessions => {
            CommandError::new(Fault::Usage, message).hint("start one: `bowline start -p NAME \"…\"`")
        }
        ResolveError::Journal(_) => {
            CommandError::new(Fault::Configuration, "could not list the sessions").caused_by(error)
        }
        _ => CommandError::new(Fault::Usage, message),
    }
}

impl FoundSession {
    /// Connects to the runner of the session.
    pub(crate) async fn connect(&self) -> Result<AttachedSession, CommandError> {
        let attached = bowline::attach_in(&self.home, self.id.as_str()).await;
        attached.map_err(|error| unreachable(&self.id, &self.name, error))
    }

    /// The same for an order that begins work: an idle runner of an older build first hands the session over to this one.
    pub(crate) async fn connect_to_work(&self) -> Result<AttachedSession, CommandError> {
        let session = self.connect().await?.with_our_runner().await;
        session.map_err(|error| unreachable(&self.id, &self.name, error))
    }

    /// Makes the error of an order that was not carried out.
    pub(crate) fn refused(&self, error: &OrderError) -> CommandError {
        refused(error, &self.name)
    }
}

/// Refuses a command in a process of an agent: it would change a session without the control socket, which refuses that.
pub(crate) fn outside_of_agents(action: &str) -> Result<(), CommandError> {
    match bowline::runner::certainly_inside_an_agent() {
        None => Ok(()),
        Some(reason) => Err(CommandError::new(Fault::NotAllowed, format!("an agent cannot {action}"))
            .caused_by(format!("this process belongs to an agent: {reason}"))
            .hint("a process that an agent started may watch a session and nothing else")),
    }
}

/// Makes the error of a session that cannot be reached. Hints name it by `name`.
pub(crate) fn unreachable(id: &SessionId, name: &str, error: ConnectError) -> CommandError {
    let message = error.to_string();
    let usage = || CommandError::new(Fault::Usage, message.clone());
    match &error {
        ConnectError::NotRunning { .. } => usage()
            .hint(format!("resume it: `bowline start --resume {name} \"…\"`"))
            .hint(format!("read it: `bowline attach {name} --from 1`")),
        ConnectError::NoSocket { .. } => usage()
            .hint(format!("a run of `bowline run` takes no orders; `bowline stop {name}` ends it"))
            .hint("start a session that does: `bowline start -p NAME \"…\"`"),
        ConnectError::Version { .. } => usage().hint(format!(
            "stop the session and start it again with this version: `bowline start --resume {name}`"
        )),
        ConnectError::HandOver { .. } => CommandError::new(Fault::Unfit, message.clone())
            .hint(format!("nothing was sent; resume the session: `bowline start --resume {name} \"…\"`"))
            .hint("the reason is in `runner.log` of the data directory"),
        ConnectError::NotRunner { .. } => CommandError::new(Fault::Configuration, message.clone())
            .hint("nothing was sent; try again in a moment"),
        ConnectError::OtherUser { .. } | ConnectError::Socket(_) => {
            CommandError::new(Fault::Configuration, message.clone())
        }
        ConnectError::Refused { .. } => CommandError::new(Fault::Unfit, message.clone()).hint(format!(
            "nothing was sent: the runner is busy. `bowline status {name}` shows the session later"
        )),
        ConnectError::NoRuntime(_)
        | ConnectError::Journal(_)
        | ConnectError::Silent
        | ConnectError::Io(_)
        | _ => {
            CommandError::new(Fault::Internal, format!("could not reach the session {id}")).caused_by(error)
        }
    }
}

/// Makes the error of an order that was not carried out.
pub(crate) fn refused(error: &OrderError, name: &str) -> CommandError {
    let command = unfulfilled(error, name);
    if let OrderError::Refused(refusal) = error { command.refusing(refusal) } else { command }
}

/// Prints the refusal of an order for a program that asked for JSON, and returns the result as it was.
pub(crate) fn with_json_refusal<T>(
    result: Result<T, CommandError>,
    json: bool,
    stdout: &mut Stdout,
) -> Result<T, CommandError> {
    if let Some(refusal) = result.as_ref().err().and_then(CommandError::refusal).filter(|_| json) {
        stdout.print_object(refusal)?;
    }
    result
}

fn unfulfilled(error: &OrderError, name: &str) -> CommandError {
    let message = error.to_string();
    match error {
        OrderError::Refused(OrderRefused::Forbidden { .. }) => CommandError::new(Fault::NotAllowed, message)
            .hint("a process that an agent started may watch a session and nothing else"),
        OrderError::Refused(OrderRefused::NotSteerable { .. }) => CommandError::new(Fault::Unfit, message)
            .hint("leave out `--steer`: the prompt then waits for the end of the turn"),
        OrderError::Refused(OrderRefused::NotAcknowledged { why }) => {
            // Only a silent agent is too slow. The others had no chance to acknowledge it.
            let fault = match why {
                AckGap::TimedOut => Fault::TooSlow,
                AckGap::TurnOver | AckGap::ProcessOver => Fault::Unfit,
            };
            CommandError::new(fault, message)
                .hint(format!("the text of a prompt is kept; `bowline status {name}` shows it as `queued` or as `unsent`"))
        }
        OrderError::Refused(OrderRefused::OutOfBudget { .. }) => CommandError::new(Fault::Unfit, message)
            .hint(format!("stop the session, and resume it with another limit: `bowline start --resume {name} --max-tokens N`")),
        OrderError::Refused(OrderRefused::Unknown { .. } | OrderRefused::Ambiguous { .. }) => {
            CommandError::new(Fault::Usage, message)
                .hint(format!("`bowline status {name}` lists what is open and queued"))
        }
        OrderError::Refused(_) => CommandError::new(Fault::Unfit, message),
        OrderError::Over => CommandError::new(Fault::Usage, message),
        OrderError::TooLong { .. } => CommandError::new(Fault::Usage, message)
            .hint("write the text to a file, and name the file in the prompt"),
        OrderError::Lost | OrderError::NotUnderstood { .. } | _ => {
            CommandError::new(Fault::Internal, message)
        }
    }
}

/// Returns why this process may only watch a session.
pub(crate) fn watches_only(session: &AttachedSession) -> Option<String> {
    match session.rights() {
        ClientRights::Full => None,
        ClientRights::Watch { why } => Some(why),
    }
}
