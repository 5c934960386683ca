//! Options of git that set a setting for one command, or name a program.

use bowline_protocol::ApprovalCategory;

use super::ProgramCall;
use crate::policy::judge::{ActJudge, BuiltInRule};
use crate::policy::shell::{CommandInput, UNKNOWN};

const OPTION: BuiltInRule = BuiltInRule::high("unknown.option", ApprovalCategory::Shell);
const ALIAS: BuiltInRule = BuiltInRule::high("unknown.alias", ApprovalCategory::Shell);

/// Settings that name no program and no other file.
const PLAIN: [&str; 21] = [
    "user.",
    "color.",
    "core.quotepath",
    "core.autocrlf",
    "core.abbrev",
    "core.filemode",
    "core.ignorecase",
    "advice.",
    "commit.gpgsign",
    "tag.gpgsign",
    "gpg.format",
    "log.",
    "diff.renames",
    "diff.algorithm",
    "diff.context",
    "init.defaultbranch",
    "merge.conflictstyle",
    "pull.rebase",
    "pull.ff",
    "column.",
    "versionsort.",
];

/// Options of subcommands that name a program.
const PROGRAMS: [&str; 12] = [
    "--upload-pack",
    "--receive-pack",
    "--exec-path",
    "--ext-diff",
    "--textconv",
    "--extcmd",
    "--open-files-in-pager",
    "-O",
    "--config-env",
    "--to-command",
    "--tool-help",
    "--template",
];

pub(super) fn look(judge: &mut ActJudge<'_>, call: &ProgramCall<'_>) {
    let verb_at = call.args.len() - call.subcommand().len();
    let mut at = 0;
    while let Some(arg) = call.args.get(at).filter(|_| at < verb_at) {
        at += 1;
        let value = match arg.text.as_str() {
            "-c" => call.args.get(at).map(|next| next.text.as_str()),
            text => text.strip_prefix("-c").filter(|rest| !rest.is_empty()),
        };
        let Some((name, value)) = value.map(|value| value.split_once('=').unwrap_or((value, ""))) else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        // `git -c alias.st='!curl … | sh' st` looks like a `git st` and runs the alias.
        if let Some(alias) = name.strip_prefix("alias.") {
            judge.ask(&ALIAS, Some(arg.span), format!("`git -c` defines the alias `{alias}`"));
            let text = value.strip_prefix('!').map_or_else(|| format!("git {value}"), str::to_owned);
            if !text.contains(UNKNOWN) {
                judge.nested(&text, arg.span, &call.command.dirs, CommandInput::Inherited);
            }
        } else if !PLAIN.iter().any(|plain| name.starts_with(plain)) {
            judge.ask(
                &OPTION,
                Some(arg.span),
                format!("the setting `{name}` may name a program that git runs"),
            );
        }
    }
    for arg in call.args {
        let text = arg.text.as_str();
        let named = PROGRAMS.iter().any(|option| {
            text == *option || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
        });
        // Without a value it prints the directory.
        let printed = text == "--exec-path";
        let difftool = matches!(text, "-x") && call.verb() == Some("difftool");
        if (named && !printed && !(text == "-O" && call.verb() != Some("grep")))
            || difftool
            // `git clone 'ext::sh -c …'` runs the command and speaks git's protocol with it.
            || text.starts_with("ext::")
        {
            judge.ask(&OPTION, Some(arg.span), format!("`{text}` names a program that git runs"));
        }
    }
}
