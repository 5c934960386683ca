//! Native arguments: options of the program that the caller passes through (`agent_args`).
//!
//! The caller cannot replace options that Bowline passes: the manifest's own templates name those, and `run.reserved` the
//! other spellings and the options that would override them. An argument that contradicts them is refused by name.

use bowline_protocol::{FieldValue, Remedy, RequestField};

use super::Refusal;
use crate::manifest::Manifest;
use crate::manifest::run::RunFlag;
use crate::probe::uses::{self, CommandPart};

/// Checks native arguments against the options that Bowline passes in any format. Returns the option of the permission mode that they
/// replace, if they narrow it.
pub(super) fn check<'a>(manifest: &'a Manifest, args: &[String]) -> Result<Option<&'a str>, Refusal> {
    let mut narrowed = None;
    let mut may_be_value = false;
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        let refuse = |reason: String| {
            let field = RequestField::AgentArgs.value(arg.escape_debug().to_string());
            Err(Refusal::unsupported(&manifest.name, field, reason))
        };
        if arg.contains('\0') || arg.len() > super::LONGEST_ARGUMENT {
            return refuse("it cannot be passed as an argument".to_owned());
        }
        if arg == "--" || arg == "-" {
            return refuse("it would end the options, and Bowline passes its own".to_owned());
        }
        if !arg.starts_with('-') {
            if may_be_value {
                may_be_value = false;
                continue;
            }
            let reason = "a word that is neither an option nor the value of one would be read as a prompt or a command";
            return refuse(reason.to_owned());
        }
        may_be_value = !arg.contains('=');
        if let Some(flag) = narrows(manifest, arg, rest.peek().map(|next| next.as_str())) {
            narrowed = Some(flag);
            continue;
        }
        if let Some(owner) = owner(manifest, arg) {
            let refusal = refuse(owner.reason);
            return refusal.map_err(|refusal: Refusal| match owner.instead {
                Some(instead) => refusal.remedies([Remedy::set(instead)]),
                None => refusal.hint("remove it, and set the option of the request that does the same"),
            });
        }
    }
    Ok(narrowed)
}

/// Returns the arguments of a permission mode without an option and its value.
pub(super) fn without(args: &[String], flag: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let mut skip = false;
    for arg in args {
        let (name, joined) = split(arg);
        match arg.starts_with('-') {
            true if name == flag => skip = joined.is_none(),
            false if skip => skip = false,
            true | false => {
                skip = false;
                kept.push(arg.clone());
            }
        }
    }
    kept
}

/// An option that Bowline passes, or that would override what it passes.
struct Owner {
    name: String,
    /// Why the same option cannot be a native argument.
    reason: String,
    /// The field of a request that does the same.
    instead: Option<FieldValue>,
}

/// Finds the option of Bowline's that an argument would contradict.
fn owner(manifest: &Manifest, arg: &str) -> Option<Owner> {
    let known = uses::of(manifest).into_iter().filter_map(|used| match used.what {
        CommandPart::Flag { name, .. } => {
            let reason = format!("Bowline passes `{name}` itself");
            Some(Owner { instead: instead(&used.key), name, reason })
        }
        CommandPart::Subcommand(_) => None,
    });
    let reserved = manifest.run.reserved.iter().map(|name| Owner {
        name: name.clone(),
        instead: None,
        reason: format!("`{name}` would override what Bowline sets"),
    });
    known.chain(reserved).find(|owner| is_same(arg, &owner.name))
}

/// Returns the field of a request for a key of the manifest.
fn instead(key: &str) -> Option<FieldValue> {
    // Keys of a format of its own begin with the format.
    let key = key.rsplit_once(".run.").map_or(key.to_owned(), |(_, rest)| format!("run.{rest}"));
    if let Some(flag) = key.strip_prefix("run.flags.") {
        let flag = flag.split('.').next().unwrap_or(flag);
        return RunFlag::ALL.iter().find(|it| it.key() == flag).map(|it| it.field());
    }
    if let Some(name) = key.strip_prefix("run.config.") {
        return Some(RequestField::Config.value(name));
    }
    if key.contains("permission.") {
        return Some(RequestField::Permission.into());
    }
    key.starts_with("formats.").then(|| RequestField::Format.into())
}

/// Returns the option of a narrower mode that the argument, or it and the next one, is.
fn narrows<'a>(manifest: &'a Manifest, arg: &str, next: Option<&str>) -> Option<&'a str> {
    let whole = match split(arg) {
        (_, Some(_)) => arg.to_owned(),
        (name, None) => format!("{name}={}", next?),
    };
    manifest.run.narrowing.iter().find(|it| **it == whole).map(|it| split(it).0)
}

fn split(arg: &str) -> (&str, Option<&str>) {
    arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)))
}

/// Returns whether an argument is an option of this name in any spelling that some parser accepts: `--a-b`, `--aB`, `--a_b`,
/// `--no-a-b`, with a value or without; of one letter, alone, with a value, or among others.
pub(super) fn is_same(arg: &str, name: &str) -> bool {
    if !arg.starts_with('-') {
        return false;
    }
    let letters = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (given, _) = split(arg);
    match (given.strip_prefix("--"), name.strip_prefix("--")) {
        (Some(given), Some(name)) => {
            let (given, name) = (letters(given), letters(name));
            given == name || given.strip_prefix("no") == Some(name.as_str())
        }
        // `-xyz` may be three options, or one with a value.
        (None, None) => {
            let short = name.trim_start_matches('-');
            let cluster = given.trim_start_matches('-');
            cluster == short || short.chars().count() == 1 && cluster.contains(short)
        }
        // Some parsers take a long option with one dash.
        (None, Some(name)) => letters(given) == letters(name),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use bowline_protocol::Request;

    use super::*;
    use crate::catalogue;
    use crate::invocation::{Wish, build};

    fn refused(provider: &str, args: &[&str]) -> Refusal {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        check(catalogue::by_name(provider).unwrap(), &args).expect_err("it is Bowline's")
    }

    #[test]
    fn what_bowline_passes_is_refused_in_every_spelling() {
        for (provider, arg) in [
            ("claude", "--model"),
            ("claude", "--model=opus"),
            ("claude", "--output-format=text"),
            ("claude", "--permission-mode=bypassPermissions"),
            ("claude", "--dangerously-skip-permissions"),
            ("claude", "--allowedTools=Bash"),
            ("claude", "--allowed-tools=Bash"),
            ("claude", "-p"),
            ("claude", "-cd"),
            ("claude", "--resume=x"),
            ("claude", "--session-id=x"),
            ("claude", "--settings={}"),
            ("codex", "-c"),
            ("codex", "-csandbox_mode=danger-full-access"),
            ("codex", "--config=sandbox_mode=danger-full-access"),
            ("codex", "-s"),
            ("codex", "--full-auto"),
            ("codex", "--yolo"),
            ("gemini", "-y"),
            ("gemini", "--yolo"),
            ("gemini", "--approvalMode=yolo"),
            ("gemini", "--approval_mode"),
            ("qwen", "-y"),
            ("qwen", "--no-chat-recording"),
            ("pi", "--tools=bash"),
            ("pi", "-t"),
            ("opencode", "--auto"),
            ("opencode", "--dangerously-skip-permissions"),
            ("copilot", "--allow-all-tools"),
            ("copilot", "--autopilot"),
            ("grok-cli", "-p"),
        ] {
            let refusal = refused(provider, &[arg]);
            assert_eq!(refusal.field, RequestField::AgentArgs, "{provider} {arg}: {refusal}");
            assert!(refusal.value.as_deref().is_some_and(|value| value.starts_with('-')), "{refusal}");
        }
        let instead = |provider: &str, args: &[&str]| refused(provider, args).remedies;
        let field = |field: RequestField| Box::from([Remedy::set(field)]);
        assert_eq!(instead("claude", &["--model=x"]), field(RequestField::Model));
        assert_eq!(instead("claude", &["--permission-mode", "auto"]), field(RequestField::Permission));
        assert_eq!(instead("codex", &["--json"]), field(RequestField::Format));
    }

    #[test]
    fn an_option_of_one_format_is_refused_in_every_format() {
        let request = Request { prompt: "hi".to_owned(), ..Request::default() };
        for manifest in catalogue::built_in() {
            let flags = uses::of(manifest).into_iter().filter_map(|used| match used.what {
                CommandPart::Flag { name, .. } => Some(name),
                CommandPart::Subcommand(_) => None,
            });
            for flag in flags.chain(manifest.run.reserved.clone()) {
                for format in manifest.formats.keys() {
                    let wish = Wish {
                        format: Some(format.clone()),
                        agent_args: vec![format!("{flag}=x")],
                        ..Wish::default()
                    };
                    let refusal = build(manifest, &request, &wish).expect_err("it is Bowline's");
                    let shown = format!("{} {format} {flag}: {refusal}", manifest.name);
                    assert_eq!(refusal.field, RequestField::AgentArgs, "{shown}");
                }
            }
        }
    }

    #[test]
    fn a_word_is_only_ever_the_value_of_an_option() {
        let manifest = catalogue::by_name("claude").unwrap();
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        assert_eq!(check(manifest, &args(&["--betas", "a", "--ide", "--name=x"])).unwrap(), None);
        for wrong in [&["hi"][..], &["--"], &["-"], &["--betas=a", "b"], &["--betas", "a", "b"], &["a\0b"]] {
            assert!(check(manifest, &args(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_narrower_mode_takes_the_place_of_the_modes_own() {
        let manifest = catalogue::by_name("claude").unwrap();
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        for plan in [&["--permission-mode=plan"][..], &["--permission-mode", "plan"]] {
            assert_eq!(check(manifest, &args(plan)).unwrap(), Some("--permission-mode"), "{plan:?}");
        }
        let own = args(&["--permission-mode", "default", "--x", "--permission-mode=y", "z"]);
        assert_eq!(without(&own, "--permission-mode"), ["--x", "z"]);
    }
}
