//! Errors of the argument parser, in our form and with the closest command or option.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{CommandError, Fault};
use crate::suggest;

/// Turns an error of the parser into ours. Prints help and the version as they are.
pub(crate) fn report(error: &clap::Error) -> Result<(), CommandError> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // This fails only if the pipe is closed.
        let _ = error.print();
        return Err(CommandError::new(Fault::Asked, ""));
    }
    if let Some(word) = wrong(error, ContextKind::InvalidSubcommand) {
        let ours = CommandError::new(Fault::Usage, format!("there is no command `{word}`"));
        return Err(suggest::command(ours, word).hint("`bowline help` lists the commands"));
    }
    let ours = suggested(CommandError::new(Fault::Usage, message(error)), error);
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().trim().to_owned(),
        _ => String::new(),
    };
    let mut ours = if is_loose_prompt(error, &usage) {
        ours.hint("put a prompt of several words in quotes: `bowline run \"fix the failing test\"`")
    } else {
        ours
    };
    if !usage.is_empty() {
        ours = ours.hint(usage.replacen("Usage:", "usage:", 1));
    }
    Err(ours.hint("`bowline --help` lists the commands, `bowline COMMAND --help` their options"))
}

/// Returns the message, without the label and the quotes of the parser.
fn message(error: &clap::Error) -> String {
    let no_command = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    if no_command.contains(&error.kind()) {
        return "no command is given".to_owned();
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
    {
        return format!("missing: {}", missing.join(", "));
    }
    // The parser puts its own hints and the usage below the first line.
    let rendered = error.to_string();
    let first = rendered.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':').replace('\'', "`")
}

/// Adds the option or value that was probably meant, and the values that are possible.
fn suggested(mut ours: CommandError, error: &clap::Error) -> CommandError {
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
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => {
            ours.hint(format!("possible values: {}", values.join(", ")))
        }
        _ => ours,
    }
}

/// Returns whether the words of a prompt came as several arguments.
fn is_loose_prompt(error: &clap::Error, usage: &str) -> bool {
    let takes_prompt = ["bowline run", "bowline route"].iter().any(|command| usage.contains(command));
    takes_prompt
        && error.kind() == ErrorKind::UnknownArgument
        && wrong(error, ContextKind::InvalidArg).is_some_and(|word| !word.starts_with('-'))
}

/// Returns the word that the parser rejected.
fn wrong(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => Some(one),
        _ => None,
    }
}
