//! What went wrong with a command, in the words that a person reads, and the exit code that a program reads.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use bowline::exit;
use bowline::roster::RosterError;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::suggest;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: Fault,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    hints: Vec<String>,
}

/// Whose fault it is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The command line.
    Usage,
    /// The configuration.
    Configuration,
    /// A program that is not there.
    Missing,
    /// Somebody's who did not answer in time.
    TooSlow,
    /// The agent's, whose answer is not what was asked for.
    Unfit,
    /// A rule's that forbids it.
    NotAllowed,
    /// Ours.
    Internal,
    /// The reader of a table has enough.
    ClosedPipe,
    /// The reader of a run went away, and the agent was stopped for it.
    ReaderGone,
    /// The agent failed with this exit code, and its output could not be written either.
    AgentFailed(u8),
    /// Nobody's: help or the version was asked for and printed.
    Asked,
    /// The library's, with the exit code that the library gives it.
    Library(u8),
    /// The agent's, and it was said already.
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

    /// Ends with an exit code, after everything was said.
    pub(crate) fn told(code: u8) -> Self {
        Self::new(Fault::Told(code), "")
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds what to try. The same hint is shown once.
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
            // Nothing can be done about a standard error that does not take the message.
            let _ = anstream::stderr().write_all(self.render().as_bytes());
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

/// Writes an error as all our errors are written: what, why, and what to try. Safe for a terminal. A cause that only repeats
/// what stands above it is left out.
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

/// Says where our own code went wrong, and why. With `RUST_BACKTRACE=1`, how it came there.
pub(crate) fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    let why = panic.payload_as_str().unwrap_or("no reason was given");
    let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
    let cause = format!("{why}{}", place.unwrap_or_default());
    let hint = "what has begun may not be complete; please report this, with how it came about".to_owned();
    let mut text = form("this is a fault in bowline itself", &[cause], &[hint]);
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = writeln!(text, "{backtrace}");
    }
    // Nothing can be done about a standard error that does not take the message.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

impl From<bowline::Error> for CommandError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever is new there is our own fault until it has a word here"
    )]
    fn from(error: bowline::Error) -> Self {
        let (message, fault) = (error.to_string(), Fault::Library(error.exit_code()));
        match error {
            bowline::Error::NoProvider => Self::new(fault, message),
            bowline::Error::UnknownProvider { name, nearest } => {
                RosterError::Unknown { name, nearest }.into()
            }
            bowline::Error::LongName { .. } => Self::new(fault, message).hint("use a shorter one"),
            bowline::Error::NotText { .. } => Self::new(fault, message).hint("rename it, or use another one"),
            bowline::Error::Config(error) => (*error).into(),
            bowline::Error::NoRoute(route) => no_route(&route),
            bowline::Error::OverBudget { .. } => Self::new(fault, message)
                .hint("`bowline config show` and `budgets` of router.yaml say where the budget is set"),
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
                let ours = Self {
                    source: error.source().map(|cause| cause.to_string().into()),
                    ..Self::new(fault, message)
                };
                match hint {
                    Some(hint) => ours.hint(hint.to_string()),
                    None => ours,
                }
            }
            other => {
                let cause = std::error::Error::source(&other).map(|cause| cause.to_string().into());
                Self { source: cause, ..Self::new(fault, message) }
            }
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
        let source = error.source().map(|cause| cause.to_string().into());
        Self { source, ..Self::new(fault, error.to_string()).hint(error.hint()) }
    }
}

impl From<bowline::config::ConfigError> for CommandError {
    fn from(error: bowline::config::ConfigError) -> Self {
        let ours = Self::new(Fault::Configuration, error.to_string());
        match error.hint {
            Some(hint) => ours.hint(hint),
            None => ours,
        }
    }
}

/// Says why nobody was chosen, and what is the matter with each.
fn no_route(route: &bowline::route::NoRoute) -> CommandError {
    use bowline::route::Problem;
    let error = CommandError::new(Fault::Library(route.exit_code()), route.problem.to_string());
    let error = match &route.problem {
        Problem::UnknownModel { .. } | Problem::Ambiguous { .. } => {
            error.hint("say whom you mean with `--provider NAME`")
        }
        Problem::Unusable { .. } => error
            .hint("mend its entry in the router's file: a mistake there does not fall back to somebody else"),
        Problem::Empty => error.hint("add one to the router's file"),
        Problem::Nobody | Problem::Limited { .. } => {
            // Those who do not have the model are of interest only if nobody has it.
            let has = |it: &&bowline::route::Verdict| !it.reason.ends_with(bowline::route::NOT_ITS_MODEL);
            let some = route.verdicts.iter().any(|it| has(&it));
            let those = route.verdicts.iter().filter(|it| !some || has(it));
            those.fold(error, |error, it| error.hint(format!("{}: {}", it.name, it.reason)))
        }
    };
    let resets = matches!(route.problem, Problem::Limited { resets_at: Some(_), .. });
    let error = if resets { error.hint("`--wait-for-limit` waits until then") } else { error };
    error.hint("`bowline route --explain` says what was considered")
}

/// Says what is wrong with a command line, in our form. Help and the version are printed as they are.
pub(crate) fn usage(error: &clap::Error) -> Result<(), CommandError> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed pipe is the only way in which this can fail.
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
            // The parser lists them with the nearest last.
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
        ours = ours.hint(format!("there is {}", values.join(", ")));
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
