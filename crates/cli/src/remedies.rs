//! Flags and commands for the request fields and the remedies that the library names.
//!
//! The library names a field of a request, alone (`timeout_ms`) or with a value (`permission = read`). This module is the only one
//! that knows the flag of each field. Texts of agents are not passed through it: a word in backticks there is their own.

use bowline::Refusal;
use bowline_protocol::kinds::Notice;
use bowline_protocol::{Failure, FieldValue, Remedy, RequestField};
use bowline_providers::manifest::run::RunFlag;

/// Codes of notices that Bowline writes about a field or a project.
const OUR_NOTICES: [&str; 6] = [
    "not_sent_again",
    "option_granted",
    "option_ignored",
    "repository_ignored",
    "repository_unproven",
    "unrestricted",
];

/// Returns the flag of a field, or `None` for fields that only callers of the library set.
fn flag_of(field: RequestField) -> Option<&'static str> {
    Some(match field {
        RequestField::SystemPrompt => "--system",
        RequestField::AppendSystemPrompt => "--append-system",
        RequestField::Attachments => "--image",
        RequestField::Provider => "--provider",
        RequestField::Model => "--model",
        RequestField::Effort => "--effort",
        RequestField::Cwd => "--cwd",
        RequestField::AddDirs => "--add-dir",
        RequestField::Permission => "--permission",
        RequestField::AllowTools => "--allow-tool",
        RequestField::DenyTools => "--deny-tool",
        RequestField::NoTools => "--no-tools",
        RequestField::McpServers => "--mcp-config",
        RequestField::OutputSchema => "--schema",
        RequestField::Resume => "--resume",
        RequestField::Ephemeral => "--ephemeral",
        RequestField::Isolate => "--isolate",
        RequestField::Docker => "--docker",
        RequestField::MaxTurns => "--max-turns",
        RequestField::MaxCost => "--max-cost",
        RequestField::Timeout => "--timeout",
        RequestField::IdleTimeout => "--idle-timeout",
        RequestField::Env => "--env",
        RequestField::Key => "--key",
        RequestField::Config => "--set",
        RequestField::Binary => "--binary",
        RequestField::Profile => "--profile",
        RequestField::Format => "--format",
        RequestField::NoStream => "--no-stream",
        RequestField::AgentArgs => "--agent-arg",
        RequestField::Prompt
        | RequestField::Context
        | RequestField::Tools
        | RequestField::Sampling
        | RequestField::Task
        | RequestField::Policy
        | RequestField::Metadata => return None,
    })
}

/// Writes a field as the command line has it: `--permission read`.
fn written(setting: &FieldValue) -> String {
    let Some(flag) = flag_of(setting.field) else {
        // The prompt is an argument without a flag.
        return if setting.field == RequestField::Prompt { "PROMPT".to_owned() } else { setting.to_string() };
    };
    match (setting.field, setting.value.as_deref()) {
        (_, None) => flag.to_owned(),
        (RequestField::Resume, Some("latest")) => "--continue".to_owned(),
        // No flag asks for a branch of a session yet.
        (RequestField::Resume, Some("fork")) => "fork".to_owned(),
        (RequestField::Config, Some(name)) => format!("{flag} {name}=…"),
        // A value that begins with a dash needs the `=`.
        (RequestField::AgentArgs, Some(arg)) => format!("{flag}={arg}"),
        (_, Some(value)) => format!("{flag} {value}"),
    }
}

/// Reads a field as a text names it: by its own name, or by the key that it has in a manifest.
fn named(text: &str) -> Option<FieldValue> {
    text.parse().ok().or_else(|| {
        let (name, value) = text.split_once(" = ").map_or((text, None), |(name, value)| (name, Some(value)));
        let setting = RunFlag::ALL.iter().find(|flag| flag.key() == name)?.field();
        Some(FieldValue { value: value.map(str::to_owned).or(setting.value), ..setting })
    })
}

/// Replaces the fields in backticks by their flags: "limit the time with `timeout_ms`" names `--timeout` then.
pub(crate) fn with_flags(text: &str) -> String {
    // The text behind the last backtick is never between two of them.
    let last = text.matches('`').count();
    let parts: Vec<String> = text
        .split('`')
        .zip(0_usize..)
        .map(|(part, place)| match named(part).filter(|_| place % 2 == 1 && place < last) {
            Some(setting) => written(&setting),
            None => part.to_owned(),
        })
        .collect();
    parts.join("`")
}

/// Writes one remedy, with the flag or the command to type.
fn clause(remedy: &Remedy) -> String {
    let flag = |field: RequestField| written(&field.into());
    let of_profile = |profile: &Option<String>| {
        profile.as_ref().map(|name| format!(" --profile {name}")).unwrap_or_default()
    };
    match remedy {
        Remedy::SetField { field, value } => {
            let written = written(&FieldValue { field: *field, value: value.clone() });
            match (field, value) {
                (RequestField::Binary, None) => format!("set its path with `{written}`"),
                (RequestField::Cwd, None) => format!("choose another directory with `{written}`"),
                (RequestField::Permission, Some(_)) => format!("allow more with `{written}`"),
                _ => format!("use `{written}`"),
            }
        }
        Remedy::OmitField { field } => format!("leave out `{}`", flag(*field)),
        Remedy::RaiseLimit { field: field @ (RequestField::Timeout | RequestField::IdleTimeout) } => {
            format!("give it more time with `{}`", flag(*field))
        }
        Remedy::RaiseLimit { field } => format!("allow more with `{}`", flag(*field)),
        Remedy::LiftLimit { field: field @ RequestField::IdleTimeout } => {
            format!("allow any silence with `{} none`", flag(*field))
        }
        Remedy::LiftLimit { field } => format!("remove the limit with `{} none`", flag(*field)),
        Remedy::TrustProject => "review these files, then trust them with `bowline trust`".to_owned(),
        Remedy::ListModels { provider } => format!("`bowline models {provider}` lists its models"),
        Remedy::RunOnce { provider, profile } => format!(
            "see what it prints with `bowline run --provider {provider}{} \"Say hello\"`; the session's journal has every byte",
            of_profile(profile)
        ),
        Remedy::ShowLimits { provider, profile } => {
            format!("`bowline limits {provider}{}` shows when the limit resets", of_profile(profile))
        }
        Remedy::ListSettings => "`bowline config show --all` lists the settings".to_owned(),
        Remedy::Install { .. }
        | Remedy::CheckFile { .. }
        | Remedy::CreateDirectory { .. }
        | Remedy::TryAgain => remedy.to_string(),
    }
}

/// Writes remedies as one hint.
pub(crate) fn hint(remedies: &[Remedy]) -> Option<String> {
    Remedy::joined(remedies, clause)
}

/// Writes what helps: the remedies, or else the library's text.
pub(crate) fn hint_or(remedies: &[Remedy], text: Option<&str>) -> Option<String> {
    hint(remedies).or_else(|| text.map(with_flags))
}

/// Returns the hint of a failure.
pub(crate) fn of_failure(failure: &Failure) -> Option<String> {
    hint_or(&failure.remedies, failure.hint.as_deref())
}

/// Returns the message of a refusal, and its hint.
pub(crate) fn of_refusal(refusal: &Refusal) -> (String, Option<String>) {
    // The author of a manifest knows the program, so that hint comes before ours.
    let own = refusal.hint.as_deref().map(with_flags);
    (with_flags(&refusal.to_string()), own.or_else(|| hint(&refusal.remedies)))
}

/// Returns the text of a notice. The words of an agent stay as they are.
pub(crate) fn of_notice(notice: &Notice) -> String {
    if notice.code.as_deref().is_some_and(|code| OUR_NOTICES.contains(&code)) {
        of_our_notice(&notice.text)
    } else {
        notice.text.clone()
    }
}

/// Returns the text of a notice that Bowline wrote.
pub(crate) fn of_our_notice(text: &str) -> String {
    let trust = Remedy::TrustProject;
    with_flags(text).replace(&trust.to_string(), &clause(&trust))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_flag_is_one_of_run() {
        let command = Args::command();
        let run = command.find_subcommand("run").expect("the command");
        let flags: Vec<&str> = run.get_arguments().filter_map(|arg| arg.get_long()).collect();
        let known = |flag: &str| flags.contains(&flag.trim_start_matches("--"));
        let ours = RequestField::ALL.iter().filter_map(|field| flag_of(*field));
        let unknown: Vec<&str> = ours.chain(["--continue"]).filter(|flag| !known(flag)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[test]
    fn fields_in_backticks_become_flags() {
        let check = |text: &str, expected: &str| assert_eq!(with_flags(text), expected);
        check("limit the time with `timeout_ms`", "limit the time with `--timeout`");
        check("`permission = read` or `no_tools`", "`--permission read` or `--no-tools`");
        check("`resume = latest` is ignored", "`--continue` is ignored");
        check("pass it with `resume = ID`", "pass it with `--resume ID`");
        check("`env = A=1`, `agent_args = --x`", "`--env A=1`, `--agent-arg=--x`");
        check("use `config = effort`, `system`", "use `--set effort=…`, `--system`");
        check("`prompt` and `tools`", "`PROMPT` and `tools`");
        // Neither a field: a command, a setting, a flag of an older manifest, a word, an open backtick.
        check("`docker ps`, `run.permission`, `--timeout`", "`docker ps`, `run.permission`, `--timeout`");
        check("model `gpt`, and `model", "model `gpt`, and `model");
    }

    #[test]
    fn the_words_of_an_agent_stay() {
        let notice = |code: Option<&str>| Notice {
            level: bowline_protocol::kinds::Level::Warn,
            text: "`model` is ignored".to_owned(),
            code: code.map(str::to_owned),
        };
        assert_eq!(of_notice(&notice(None)), "`model` is ignored");
        assert_eq!(of_notice(&notice(Some("deprecated"))), "`model` is ignored");
        assert_eq!(of_notice(&notice(Some("option_ignored"))), "`--model` is ignored");
    }

    #[test]
    fn remedies_have_the_command_to_type() {
        let check =
            |remedies: &[Remedy], expected: &str| assert_eq!(hint(remedies).as_deref(), Some(expected));
        let install = Remedy::Install { how: "install it with `npm i agent`".to_owned() };
        check(
            &[install, Remedy::set(RequestField::Binary)],
            "install it with `npm i agent`; or set its path with `--binary`",
        );
        check(
            &[Remedy::LiftLimit { field: RequestField::IdleTimeout }, Remedy::TryAgain],
            "allow any silence with `--idle-timeout none`, or try again",
        );
        check(
            &[Remedy::TrustProject, Remedy::set(RequestField::Permission.value("edit"))],
            "review these files, then trust them with `bowline trust`, or allow more with `--permission edit`",
        );
        let (provider, profile) = ("agent".to_owned(), Some("work".to_owned()));
        check(
            &[Remedy::ShowLimits { provider, profile }],
            "`bowline limits agent --profile work` shows when the limit resets",
        );
        assert_eq!(hint(&[]), None);
    }
}
