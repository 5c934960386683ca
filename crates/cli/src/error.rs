//! The errors of commands: the text for people, and the exit code for programs.

use std::error::Error;

use bowline::ResumeGap;
use bowline::detect::Missing;
use bowline::exit;
use bowline::roster::RosterError;
use bowline_protocol::OrderRefused;

use crate::human::error_text;
use crate::remedies;

/// The error of a command: message, causes, hints and exit code.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Fault,
    message: String,
    /// Reasons that stand beside each other, such as one for each provider.
    reasons: Vec<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
    /// The refusal of an order, for programs.
    refusal: Option<Box<OrderRefused>>,
}

/// The kind of an error, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The command line is wrong.
    Usage,
    /// The configuration is wrong.
    Configuration,
    /// A program is not installed.
    Missing,
    /// A program did not answer in time.
    TooSlow,
    /// The agent's answer does not satisfy the request.
    Unfit,
    /// A rule forbids it.
    NotAllowed,
    /// A bug in Bowline, or a failure of the system.
    Internal,
    /// The reader of a table closed standard output.
    ClosedPipe,
    /// The reader of a run closed standard output, and the run stopped the agent.
    ReaderGone,
    /// The agent failed with this exit code, and its output could not be written either.
    AgentFailed(u8),
    /// Not an error: help or the version was requested and printed.
    Asked,
    /// An error of the library, with its exit code.
    Library(u8),
    /// A failure that was reported already, with its exit code.
    Told(u8),
}

impl Fault {
    fn exit_code(self) -> u8 {
        match self {
            Self::Asked | Self::ClosedPipe => exit::COMPLETED,
            Self::Unfit => exit::FAILED,
            Self::Usage => exit::USAGE,
            Self::Configuration => exit::CONFIGURATION,
            Self::Missing => exit::NOT_USABLE,
            Self::Internal => exit::INTERNAL,
            Self::TooSlow => exit::TIMED_OUT,
            Self::NotAllowed => exit::NOT_ALLOWED,
            Self::ReaderGone => exit::READER_GONE,
            Self::Library(code) | Self::Told(code) | Self::AgentFailed(code) => code,
        }
    }
}

impl CommandError {
    pub(crate) fn new(kind: Fault, message: impl Into<String>) -> Self {
        let (reasons, hints) = (Vec::new(), Vec::new());
        Self { kind, message: message.into(), reasons, source: None, hints, refusal: None }
    }

    /// Makes an error that prints nothing more and only sets the exit code.
    pub(crate) fn told(code: u8) -> Self {
        Self::new(Fault::Told(code), "")
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds the refusal of an order, which `--json` prints.
    pub(crate) fn refusing(mut self, refusal: &OrderRefused) -> Self {
        self.refusal = Some(Box::new(refusal.clone()));
        self
    }

    /// Returns the refusal of an order, if the error is one.
    pub(crate) fn refusal(&self) -> Option<&OrderRefused> {
        self.refusal.as_deref()
    }

    /// Names the place in a file that the error is about.
    pub(crate) fn at(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Adds one of several reasons.
    pub(crate) fn because(mut self, reason: String) -> Self {
        self.reasons.push(reason);
        self
    }

    /// Adds a hint. The same hint is shown once.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
        self
    }

    /// Adds a hint, if there is one.
    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Returns whether the reader of standard output closed it.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.kind == Fault::ClosedPipe
    }

    /// Returns the text of the error; `None` if there is nothing to print, or it was printed already.
    pub(crate) fn text(&self) -> Option<String> {
        let silent = matches!(self.kind, Fault::Asked | Fault::ClosedPipe | Fault::Told(_));
        (!silent).then(|| self.render())
    }

    /// Returns the message alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message with its first reason or hint, on one line.
    pub(crate) fn summary(&self) -> String {
        match self.reasons.first().or(self.hints.first()) {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// Returns the exit code of the command.
    pub(crate) fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    fn render(&self) -> String {
        let mut causes = self.reasons.clone();
        let mut cause: Option<&dyn Error> = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        error_text(&self.message, &causes, &self.hints)
    }
}

/// The text of a cause, with its own cause. The errors of the library only lend their causes, and are taken apart for their
/// hints, so the texts are copied.
#[derive(Debug)]
struct CauseText {
    text: String,
    next: Option<Box<Self>>,
}

impl CauseText {
    /// Returns the causes of an error.
    fn of(error: &dyn Error) -> Option<Box<dyn Error + Send + Sync>> {
        Self::chain(error.source()).map(|cause| cause as Box<dyn Error + Send + Sync>)
    }

    fn chain(error: Option<&dyn Error>) -> Option<Box<Self>> {
        let error = error?;
        Some(Box::new(Self { text: error.to_string(), next: Self::chain(error.source()) }))
    }
}

impl std::fmt::Display for CauseText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for CauseText {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.next.as_deref().map(|next| next as &(dyn Error + 'static))
    }
}

impl From<Missing> for CommandError {
    fn from(missing: Missing) -> Self {
        let hint = remedies::hint(&missing.remedies);
        Self::new(Fault::Missing, missing.to_string()).caused_by(missing.kind).maybe_hint(hint)
    }
}

impl From<bowline::Error> for CommandError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a new error of the library is internal until this function handles it"
    )]
    fn from(error: bowline::Error) -> Self {
        let (message, fault) = (error.to_string(), Fault::Library(error.exit_code()));
        match error {
            bowline::Error::NoProvider => Self::new(fault, message),
            bowline::Error::UnknownProvider { name, nearest } => {
                RosterError::Unknown { name, nearest }.into()
            }
            bowline::Error::LongName { .. } => Self::new(fault, message).hint("use a shorter name"),
            bowline::Error::NotText { .. } => Self::new(fault, message).hint("rename it, or use another one"),
            bowline::Error::Config(error) => (*error).into(),
            bowline::Error::NoRoute(route) => no_route(&route),
            bowline::Error::OverBudget { .. } => Self::new(fault, message)
                .hint("`bowline config show` and `budgets` in router.yaml show where the budget is set"),
            bowline::Error::Refused(refusal) => {
                let (message, hint) = remedies::of_refusal(&refusal);
                Self::new(fault, message).maybe_hint(hint)
            }
            bowline::Error::NotResumable { session, gap: ResumeGap::Running { pid }, .. } => {
                session_runs(session.as_str(), pid)
            }
            bowline::Error::NotResumable { session, gap: ResumeGap::NoNativeSession, .. } => {
                Self::new(fault, format!("the session {session} cannot be resumed"))
                    .hint("its agent never reported its own id of the session")
                    .hint(format!(
                        "a live session begins a new conversation: `bowline start --resume {session}`"
                    ))
            }
            bowline::Error::NotResumable { gap: ResumeGap::McpServers { .. }, .. } => {
                Self::new(fault, message)
                    .hint("name them again with `--mcp-config FILE`")
                    .hint("a FILE with `{\"mcpServers\": {}}` goes on without them")
            }
            bowline::Error::NotResumable { gap: ResumeGap::HostTools { .. }, .. } => {
                Self::new(fault, message)
                    .hint("resume it with the program that began it")
                    .hint("`--mcp-config FILE` with `{\"mcpServers\": {}}` goes on without them")
            }
            bowline::Error::Roster(error) => (*error).into(),
            bowline::Error::Journal(error) => {
                let hint = error.hint();
                let ours = Self { source: CauseText::of(&error), ..Self::new(fault, message) };
                match hint {
                    Some(hint) => ours.hint(hint.to_string()),
                    None => ours,
                }
            }
            other => Self { source: CauseText::of(&other), ..Self::new(fault, message) },
        }
    }
}

/// Makes the error of a session that another process uses.
pub(crate) fn session_runs(id: &str, pid: Option<u32>) -> CommandError {
    match pid {
        Some(pid) => {
            CommandError::new(Fault::Usage, format!("the session {id} is still running, in process {pid}"))
                .hint(format!("wait until it ends, or stop it: `bowline stop {id}`"))
        }
        None => {
            let message = format!("another process is cleaning up the session {id} after a crash");
            CommandError::new(Fault::Usage, message).hint("try again in a few seconds")
        }
    }
}

impl From<bowline::registry::RegistryError> for CommandError {
    fn from(error: bowline::registry::RegistryError) -> Self {
        bowline::Error::from(error).into()
    }
}

impl From<bowline::Refusal> for CommandError {
    fn from(refusal: bowline::Refusal) -> Self {
        bowline::Error::from(refusal).into()
    }
}

impl From<RosterError> for CommandError {
    fn from(error: RosterError) -> Self {
        let fault = Fault::Library(error.exit_code());
        if let RosterError::Unknown { name, nearest } = &error {
            let ours = Self::new(fault, format!("there is no provider `{name}`"));
            let ours = match nearest {
                Some(nearest) => ours.hint(format!("did you mean `{nearest}`?")),
                None => ours,
            };
            return ours.hint(error.hint());
        }
        Self { source: CauseText::of(&error), ..Self::new(fault, error.to_string()).hint(error.hint()) }
    }
}

impl From<bowline::settings::ConfigError> for CommandError {
    fn from(error: bowline::settings::ConfigError) -> Self {
        let source = CauseText::of(&error);
        let ours = Self { source, ..Self::new(Fault::Configuration, error.to_string()) };
        // The words in backticks of such a hint are keys of the file, not fields of a request.
        ours.maybe_hint(remedies::hint(error.remedy().as_slice()).or(error.hint))
    }
}

/// Reports that the router chose no provider, after the command printed why it skipped each candidate.
pub(crate) fn no_route_explained(route: &bowline::route::NoRoute) -> CommandError {
    let unlisted = bowline::route::NoRoute { problem: route.problem.clone(), verdicts: Vec::new() };
    with_remedies(&unlisted)
}

/// Reports that the router chose no provider, and why it skipped each candidate.
fn no_route(route: &bowline::route::NoRoute) -> CommandError {
    with_remedies(route).hint("`bowline route --explain` shows every candidate")
}

fn with_remedies(route: &bowline::route::NoRoute) -> CommandError {
    use bowline::route::RouteProblem;
    let error = CommandError::new(Fault::Library(route.exit_code()), route.problem.to_string());
    let error = match &route.problem {
        RouteProblem::UnknownModel { .. } | RouteProblem::Ambiguous { .. } => {
            error.hint("name the provider with `--provider NAME`")
        }
        RouteProblem::Unusable { .. } => {
            error.hint("fix its entry in the router's file; Bowline does not fall back from an invalid entry")
        }
        RouteProblem::Empty => error.hint("add a provider to the router's file"),
        RouteProblem::NoneUsable | RouteProblem::Limited { .. } => {
            // List candidates without the model only if no candidate has it.
            let has =
                |it: &&bowline::route::CandidateVerdict| !it.reason.ends_with(bowline::route::NOT_ITS_MODEL);
            let some = route.verdicts.iter().any(|it| has(&it));
            let those = route.verdicts.iter().filter(|it| !some || has(it));
            those.fold(error, |error, it| {
                error.because(format!("{}: {}", it.name, remedies::with_flags(&it.reason)))
            })
        }
    };
    let resets = matches!(route.problem, RouteProblem::Limited { resets_at: Some(_), .. });
    if resets { error.hint("`--wait-for-limit` waits until then") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_why_and_what_to_try() {
        let cause = std::io::Error::other("disk on fire");
        let error =
            CommandError::new(Fault::Usage, "could not read `x\x1b[2J`").caused_by(cause).hint("try `y`");
        assert_eq!(error.render(), "error: could not read `x␛[2J`\ncaused by: disk on fire\nhint: try `y`\n");
    }
}
