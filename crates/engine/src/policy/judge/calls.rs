//! One command: its program, the lists of the policies, and what the built-in rules know of it.

use std::path::Path;

use bowline_protocol::{ApprovalCategory, Risk};

use super::{ActJudge, BuiltInRule};
use crate::policy::acts::{self, ProgramCall};
use crate::policy::pattern::{self, PatternMatch};
use crate::policy::rules::PolicyRule;
use crate::policy::shell::{ShellCommand, ShellWord};
use crate::policy::verdict::{Finding, TextSpan, Verdict};
use crate::policy::wrappers;

const UNKNOWN_COMMAND: BuiltInRule = BuiltInRule::high("unknown.command", ApprovalCategory::Shell);
const ENVIRONMENT: BuiltInRule = BuiltInRule::high("unknown.environment", ApprovalCategory::Shell);
const OUTSIDE: BuiltInRule = BuiltInRule::high("unknown.program", ApprovalCategory::Shell);
const UNLISTED: BuiltInRule = BuiltInRule::medium("shell.unlisted", ApprovalCategory::Shell);
const MAYBE_DENIED: BuiltInRule = BuiltInRule::high("shell.deny", ApprovalCategory::Shell);

/// Directories whose programs have their own names.
const SYSTEM_DIRS: [&str; 9] = [
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
    "/run/current-system/sw/bin",
];

/// Variables that make programs run other code.
const CODE_VARIABLES: [&str; 32] = [
    "PATH",
    "IFS",
    "CDPATH",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS4",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "MANPAGER",
    "LESSOPEN",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUSTC_WRAPPER",
    "RUSTC",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "SHELL",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "HISTFILE",
];

/// Builtins that change only their own shell.
const HARMLESS: [&str; 18] = [
    "cd", "pushd", "popd", "true", "false", ":", "test", "[", "exit", "return", "break", "continue", "shift",
    "wait", "local", "declare", "unset", "pwd",
];

impl ActJudge<'_> {
    /// Judges one command.
    pub(super) fn command(&mut self, command: &ShellCommand) {
        self.environment(command.assigned.iter().map(|(name, value)| (name.as_str(), value.span)));
        let Some((program, args)) = command.words.split_first() else { return };
        // `export PATH=…` holds for every command behind it.
        if let "export" | "declare" | "typeset" | "local" | "readonly" = program.text.as_str() {
            let names = args.iter().filter_map(|arg| Some((arg.text.split_once('=')?.0, arg.span)));
            self.environment(names);
        }
        if !program.is_known() || (program.glob && program.text != "[") || program.text.is_empty() {
            let reason = "the program is known only when the command runs";
            return self.ask(&UNKNOWN_COMMAND, Some(program.span), reason);
        }
        // History is for people; a shell that expands it runs something else.
        if program.text.starts_with('!') && program.text.len() > 1 {
            return self.ask(
                &UNKNOWN_COMMAND,
                Some(program.span),
                "the history decides which program this is",
            );
        }
        let name = program.text.rsplit('/').next().unwrap_or_default();
        let listed = self.listed_name(program, command);
        let call = ProgramCall { name, args, command };
        let wrapped = wrappers::look(self, &call);
        acts::look(self, &call);
        self.lists(&listed, &call, wrapped);
    }

    pub(in crate::policy) fn environment<'n>(&mut self, names: impl Iterator<Item = (&'n str, TextSpan)>) {
        for (name, span) in names {
            let git = name.starts_with("GIT_") && !is_plain_git_variable(name);
            if CODE_VARIABLES.contains(&name) || git || name.starts_with("BASH_FUNC_") {
                self.ask(&ENVIRONMENT, Some(span), format!("`{name}` decides which code other programs run"));
            }
        }
    }

    /// Returns the name under which the lists of policies know a program: its last part, if it lies where programs of the system
    /// do, else the whole path. Asks if it is a file that is neither of the system nor of the workspace.
    fn listed_name(&mut self, program: &ShellWord, command: &ShellCommand) -> String {
        if !program.text.contains('/') {
            return program.text.clone();
        }
        let inside = |path: &Path| SYSTEM_DIRS.iter().any(|dir| path.parent() == Some(Path::new(dir)));
        let places = self.paths_of(program, &command.dirs);
        // The resolved path counts: `/usr/bin/../../tmp/git` is not the `git` of the lists.
        if program.text.starts_with('/') && places.iter().all(|path| inside(path)) {
            return program.text.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let unclear = command.dirs.others && !program.text.starts_with('/');
        if unclear || places.iter().any(|path| !self.facts.is_inside(path) && !inside(path)) {
            let reason = "the program lies neither in the workspace nor where programs of the system do";
            self.ask(&OUTSIDE, Some(program.span), reason);
        }
        program.text.clone()
    }

    /// Applies the lists of the policies.
    fn lists(&mut self, name: &str, call: &ProgramCall<'_>, wrapped: wrappers::Wrapping) {
        let policies = self.policies;
        let plain: Vec<&ShellWord> = call.args.iter().collect();
        // Without the options in front of a subcommand, so that `git -C x push` is a `git push`.
        let short = acts::without_leading_options(call);
        for policy in policies {
            for rule in &policy.shell.deny {
                self.deny_rule(rule, name, &[&plain, &short], call);
            }
            for category in &policy.categories {
                for rule in &category.shell {
                    let found = [&plain, &short].map(|args| pattern::denies(&rule.pattern, name, args));
                    if found.iter().any(|found| *found != PatternMatch::No) {
                        self.own_category(&category.name, rule, Some(call.command.span));
                    }
                }
            }
            let allow = &policy.shell.allow;
            let exempt = wrapped == wrappers::Wrapping::Transparent || HARMLESS.contains(&name);
            if allow.is_empty() || exempt {
                continue;
            }
            if !allow.iter().any(|rule| pattern::allows(&rule.pattern, name, call.args)) {
                let reason = format!(
                    "`{name}` with these arguments is not in the list of commands of {}",
                    policy.source
                );
                self.ask(&UNLISTED, Some(call.command.span), reason);
            }
        }
    }

    fn deny_rule(
        &mut self,
        rule: &PolicyRule,
        name: &str,
        forms: &[&Vec<&ShellWord>; 2],
        call: &ProgramCall<'_>,
    ) {
        let found = forms.map(|args| pattern::denies(&rule.pattern, name, args));
        let part = Some(call.command.span);
        if found.contains(&PatternMatch::Yes) {
            let reason = format!("`{}` denies this command", rule.pattern);
            let (risk, category) = (Risk::High, ApprovalCategory::Shell);
            self.policy_rule(Verdict::Deny, "shell.deny", rule, risk, category, part, reason);
        } else if found.contains(&PatternMatch::Maybe) {
            let reason =
                format!("`{}` may deny this command: a part of it is known only when it runs", rule.pattern);
            self.policy_rule(
                Verdict::Ask,
                MAYBE_DENIED.rule,
                rule,
                Risk::High,
                MAYBE_DENIED.category,
                part,
                reason,
            );
        }
    }

    /// Adds a finding of a category of the policy's author.
    pub(super) fn own_category(&mut self, name: &str, rule: &PolicyRule, part: Option<TextSpan>) {
        self.add(Finding {
            verdict: Verdict::Ask,
            rule: "category".to_owned(),
            place: Some(rule.place.clone()),
            risk: Risk::Med,
            category: ApprovalCategory::Other,
            own_category: Some(name.to_owned()),
            part,
            reason: format!("`{}` belongs to `{name}`, which needs an approval", rule.pattern),
        });
    }
}

/// Returns whether a variable of git names no program and no file.
fn is_plain_git_variable(name: &str) -> bool {
    let plain = ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TERMINAL_PROMPT", "GIT_TRACE", "GIT_OPTIONAL_LOCKS"];
    plain.iter().any(|prefix| name.starts_with(prefix))
}
