//! The errors of commands: the text for people, and the exit code for programs.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use bowline::exit;
use bowline::roster::RosterError;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::suggest;
use crate::ui::terminal;

/// The error of a command: message, causes, hints and exit code.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Fault,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
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
        Self { kind, message: message.into(), source: None, hints: Vec::new() }
    }

    /// Makes an error that prints nothing more and only sets the exit code.
    pub(crate) fn told(code: u8) -> Self {
        Self::new(Fault::Told(code), "")
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
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

    /// Returns whether the reader of standard output closed it.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.kind == Fault::ClosedPipe
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let silent = matches!(self.kind, Fault::Asked | Fault::ClosedPipe | Fault::Told(_));
        if !silent {
            terminal::tell(&self.render());
        }
        ExitCode::from(self.kind.exit_code())
    }

    fn render(&self) -> String {
        let mut causes = Vec::new();
        let mut cause: Option<&dyn Error> = self.source.as_deref().map(|source| source as &dyn Error);
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        form(&self.message, &causes, &self.hints)
    }
}

/// Formats an error: message, causes, hints. The result is safe for a terminal. A cause that only repeats the line above it is
/// left out.
pub(crate) fn form(message: &str, causes: &[String], hints: &[String]) -> String {
    let mut text = format!("error: {message}\n");
    let mut above = message;
    for cause in causes {
        if !above.contains(cause.as_str()) {
            let _ = writeln!(text, "caused by: {cause}");
        }
        above = cause;
    }
    for hint in hints {
        let _ = writeln!(text, "hint: {hint}");
    }
    bowline_providers::ansi::harmless(&text).into_owned()
}

/// Reports a panic and its place. With `RUST_BACKTRACE=1`, adds the backtrace.
pub(crate) fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    let why = panic.payload_as_str().unwrap_or("no panic message");
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    let cause = format!("{why}{}", place.unwrap_or_default());
    let hint = "the work may be incomplete; please report this bug with the steps that led to it".to_owned();
    let mut text = form("internal error: this is a bug in bowline", &[cause], &[hint]);
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = writeln!(text, "{backtrace}");
    }
    terminal::tell(&text);
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
                let ours = Self::new(fault, message);
                match refusal.hint {
                    Some(hint) => ours.hint(hint.to_string()),
                    None => ours,
                }
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

impl From<bowline::config::ConfigError> for CommandError {
    fn from(error: bowline::config::ConfigError) -> Self {
        let source = CauseText::of(&error);
        let ours = Self { source, ..Self::new(Fault::Configuration, error.to_string()) };
        match error.hint {
            Some(hint) => ours.hint(hint),
            None => ours,
        }
    }
}

/// Reports that the router chose no provider, and why it skipped each candidate.
fn no_route(route: &bowline::route::NoRoute) -> CommandError {
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
            those.fold(error, |error, it| error.hint(format!("{}: {}", it.name, it.reason)))
        }
    };
    let resets = matches!(route.problem, RouteProblem::Limited { resets_at: Some(_), .. });
    let error = if resets { error.hint("`--wait-for-limit` waits until then") } else { error };
    error.hint("`bowline route --explain` shows every candidate")
}

/// Turns an error of the parser into ours. Prints help and the version as they are.
pub(crate) fn usage(error: &clap::Error) -> Result<(), CommandError> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // This fails only if the pipe is closed.
        let _ = error.print();
        return Err(CommandError::new(Fault::Asked, ""));
    }
    let rendered = error.to_string();
    let first = rendered.lines().next().unwrap_or_default();
    let no_command = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    let message = if no_command.contains(&error.kind()) {
        "no command is given"
    } else {
        first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':')
    };
    let mut ours = CommandError::new(Fault::Usage, message.replace('\'', "`"));
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
    {
        ours.message = format!("missing: {}", missing.join(", "));
    }
    let wrong = |kind| match error.get(kind) {
        Some(ContextValue::String(one)) => Some(one.as_str()),
        _ => None,
    };
    if let Some(word) = wrong(ContextKind::InvalidSubcommand) {
        ours.message = format!("there is no command `{word}`");
        return Err(suggest::command(ours, word).hint("`bowline help` lists the commands"));
    }
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
        let suggestion = match error.get(kind) {
            Some(ContextValue::String(one)) => Some(one.as_str()),
            // The parser lists the nearest last.
            Some(ContextValue::Strings(several)) => several.last().map(String::as_str),
            _ => None,
        };
        if let Some(suggestion) = suggestion {
            ours = ours.hint(format!("did you mean `{suggestion}`?"));
        }
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        ours = ours.hint(format!("possible values: {}", values.join(", ")));
    }
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().trim().to_owned(),
        _ => String::new(),
    };
    let takes_prompt = ["bowline run", "bowline route"].iter().any(|command| usage.contains(command));
    let loose = error.kind() == ErrorKind::UnknownArgument
        && wrong(ContextKind::InvalidArg).is_some_and(|word| !word.starts_with('-'));
    if takes_prompt && loose {
        ours = ours.hint("put a prompt of several words in quotes: `bowline run \"fix the failing test\"`");
    }
    if !usage.is_empty() {
        ours = ours.hint(usage.replacen("Usage:", "usage:", 1));
    }
    Err(ours.hint("`bowline --help` lists the commands, `bowline COMMAND --help` their options"))
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
